/* A client of the daemon in C, with plain sockets and no library: client HOME AGENT HARNESS TOOL ARGS
 *
 * Calls a tool and prints its result. The few messages that this takes are encoded and decoded by hand; a larger
 * program generates them from proto/crabtalk.proto.
 *
 *     cc -std=c11 -Wall -Wextra -o client client.c
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* Fields of the schema that are used here. */
enum { GET_AGENT = 16, CALL_TOOL = 65, AUTH = 69 };
enum { ERROR = 1, PONG = 2, AGENT_INFO = 11, TOOL_OUTCOME = 65 };

enum { MAX_FRAME = 16 << 20, MAX_REQUEST = 1 << 20 };

typedef struct {
    const uint8_t *data;
    size_t size;
} bytes;

static void fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(1);
}

static bytes text(const char *string)
{
    return (bytes){(const uint8_t *)string, strlen(string)};
}

/* Writing protobuf: a buffer that grows up to what a request may have. */

typedef struct {
    uint8_t data[MAX_REQUEST];
    size_t size;
} writer;

static void put_byte(writer *out, uint8_t byte)
{
    if (out->size == sizeof out->data)
        fail("the request is larger than 1 MiB");
    out->data[out->size++] = byte;
}

static void put_varint(writer *out, uint64_t number)
{
    for (; number >= 128; number >>= 7)
        put_byte(out, (uint8_t)(number | 128));
    put_byte(out, (uint8_t)number);
}

static void put_field(writer *out, unsigned number, bytes content)
{
    put_varint(out, number << 3 | 2);
    put_varint(out, content.size);
    for (size_t at = 0; at < content.size; at++)
        put_byte(out, content.data[at]);
}

/* Reading protobuf: the last field of a number, looked for from the start. */

static uint64_t take_varint(bytes *in)
{
    uint64_t number = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        if (in->size == 0)
            break;
        uint8_t byte = *in->data++;
        in->size--;
        number |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            return number;
    }
    fail("the daemon sent what is no message");
    return 0;
}

static bytes take_bytes(bytes *in, uint64_t size)
{
    if (size > in->size)
        fail("the daemon sent what is no message");
    bytes taken = {in->data, size};
    in->data += size;
    in->size -= size;
    return taken;
}

/* Find a field with a length; its data is NULL if it is not there. */
static bytes find(bytes message, unsigned number, uint64_t *varint)
{
    bytes found = {NULL, 0};
    while (message.size > 0) {
        uint64_t tag = take_varint(&message);
        switch (tag & 7) {
        case 0: {
            uint64_t value = take_varint(&message);
            if (varint && tag >> 3 == number)
                *varint = value;
            break;
        }
        case 1:
            take_bytes(&message, 8);
            break;
        case 2: {
            bytes content = take_bytes(&message, take_varint(&message));
            if (tag >> 3 == number)
                found = content;
            break;
        }
        case 5:
            take_bytes(&message, 4);
            break;
        default:
            fail("the daemon sent what is no message");
        }
    }
    return found;
}

/* Frames: the length as a big-endian u32, then the message. */

static void send_all(int sock, const void *data, size_t size)
{
    for (const char *at = data; size > 0;) {
        ssize_t sent = send(sock, at, size, MSG_NOSIGNAL);
        if (sent <= 0)
            fail("the daemon closed the connection");
        at += sent;
        size -= (size_t)sent;
    }
}

static void receive_all(int sock, void *data, size_t size)
{
    for (char *at = data; size > 0;) {
        ssize_t got = recv(sock, at, size, 0);
        if (got <= 0)
            fail("the daemon closed the connection");
        at += got;
        size -= (size_t)got;
    }
}

/* Send a request with `body` and return the body of its reply; ends the program on an error. The caller frees
 * `*reply`, which the body is part of. */
static bytes ask(int sock, unsigned request, bytes body, unsigned kind, uint8_t **reply)
{
    static writer out;
    out.size = 0;
    put_field(&out, request, body);
    uint32_t length = htonl((uint32_t)out.size);
    send_all(sock, &length, sizeof length);
    send_all(sock, out.data, out.size);

    receive_all(sock, &length, sizeof length);
    size_t size = ntohl(length);
    if (size > MAX_FRAME)
        fail("the daemon sent a frame of %zu bytes", size);
    *reply = malloc(size + 1);
    if (!*reply)
        fail("out of memory");
    receive_all(sock, *reply, size);
    bytes message = {*reply, size};
    bytes error = find(message, ERROR, NULL);
    if (error.data) {
        uint64_t code = 0;
        find(error, 1, &code);
        bytes said = find(error, 2, NULL);
        fail("error %u: %.*s", (unsigned)code, (int)said.size, said.data ? (const char *)said.data : "");
    }
    bytes found = find(message, kind, NULL);
    if (!found.data)
        fail("the daemon sent another reply than the one that was asked for");
    return found;
}

/* The first line of a file in the daemon's directory. */
static int first_line(const char *home, const char *name, char *line, int size)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/run/%s", home, name);
    FILE *file = fopen(path, "r");
    if (!file)
        return 0;
    int found = fgets(line, size, file) != NULL;
    fclose(file);
    line[strcspn(line, "\n")] = 0;
    return found;
}

static int connect_unix(const char *home)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int size = snprintf(address.sun_path, sizeof address.sun_path, "%s/run/crabtalk.sock", home);
    if (size >= (int)sizeof address.sun_path)
        fail("the path of the home is too long");
    int sock = socket(AF_UNIX, SOCK_STREAM, 0);
    if (sock >= 0 && connect(sock, (struct sockaddr *)&address, sizeof address) == 0)
        return sock;
    close(sock);
    return -1;
}

static int connect_tcp(const char *home)
{
    static writer body;
    char port[16], token[1024];
    if (!first_line(home, "crabtalk.port", port, sizeof port) ||
        !first_line(home, "crabtalk.token", token, sizeof token))
        fail("no daemon is running in %s", home);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int sock = socket(AF_INET, SOCK_STREAM, 0);
    if (sock < 0 || connect(sock, (struct sockaddr *)&address, sizeof address) != 0)
        fail("no daemon answers on port %s", port);
    int on = 1;
    setsockopt(sock, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    put_field(&body, 1, text(token));
    uint8_t *reply;
    ask(sock, AUTH, (bytes){body.data, body.size}, PONG, &reply);
    free(reply);
    return sock;
}

int main(int count, char **arguments)
{
    static writer body;
    if (count != 6)
        fail("usage: %s HOME AGENT HARNESS TOOL ARGS", arguments[0]);
    int sock = connect_unix(arguments[1]);
    if (sock < 0)
        sock = connect_tcp(arguments[1]);

    uint8_t *reply;
    put_field(&body, 1, text(arguments[2]));
    bytes agent = ask(sock, GET_AGENT, (bytes){body.data, body.size}, AGENT_INFO, &reply);

    body.size = 0;
    put_field(&body, 1, find(agent, 12, NULL));
    for (unsigned field = 2; field <= 4; field++)
        put_field(&body, field, text(arguments[field + 1]));
    free(reply);
    bytes outcome = ask(sock, CALL_TOOL, (bytes){body.data, body.size}, TOOL_OUTCOME, &reply);

    bytes failed = find(outcome, 2, NULL), trap = find(outcome, 3, NULL);
    if (trap.data) {
        bytes said = find(trap, 2, NULL);
        fail("trap: %.*s", (int)said.size, said.data ? (const char *)said.data : "");
    }
    if (failed.data)
        fail("failed: %.*s", (int)failed.size, (const char *)failed.data);
    bytes done = find(outcome, 1, NULL);
    fwrite(done.data ? done.data : (const uint8_t *)"", 1, done.size, stdout);
    putchar('\n');
    free(reply);
    close(sock);
    return 0;
}
