/* The guest's libc beside this machine's: equal answers on equal input. Built with the guest's functions
 * renamed to guest_*. */
#include "probe.h"

#include <stdlib.h>
#include <string.h>

void *guest_memcpy(void *to, const void *from, size_t n);
void *guest_memmove(void *to, const void *from, size_t n);
void *guest_memset(void *to, int byte, size_t n);
int guest_memcmp(const void *a, const void *b, size_t n);
void *guest_memchr(const void *memory, int byte, size_t n);
size_t guest_strlen(const char *text);

static void check(bool condition, const char *what)
{
    if (!condition) {
        berm_log("libc: %s", what);
        abort();
    }
}

static int sign(int value)
{
    return value < 0 ? -1 : value > 0;
}

/* Bytes: three numbers, then the content to work on. */
void probe_libc(berm_str request, berm_out *out)
{
    unsigned char ours[512], theirs[512];
    if (request.len < 4)
        return;
    size_t from = (unsigned char)request.ptr[0] % 128, to = (unsigned char)request.ptr[1] % 128;
    size_t n = (unsigned char)request.ptr[2];
    int byte = (unsigned char)request.ptr[3];
    for (size_t i = 0; i < sizeof ours; i++)
        ours[i] = theirs[i] = (unsigned char)request.ptr[i % request.len];
    check(guest_memmove(ours + to, ours + from, n) == ours + to, "memmove returns its target");
    memmove(theirs + to, theirs + from, n);
    check(memcmp(ours, theirs, sizeof ours) == 0, "memmove");
    check(sign(guest_memcmp(ours + from, ours + to, n)) == sign(memcmp(ours + from, ours + to, n)), "memcmp");
    check(guest_memchr(ours + from, byte, n) == memchr(ours + from, byte, n), "memchr");
    guest_memcpy(ours + 256 + to % 8, ours + from % 8, n % 240);
    memcpy(theirs + 256 + to % 8, theirs + from % 8, n % 240);
    check(memcmp(ours, theirs, sizeof ours) == 0, "memcpy");
    guest_memset(ours + to, byte, n);
    memset(theirs + to, byte, n);
    check(memcmp(ours, theirs, sizeof ours) == 0, "memset");
    ours[511] = 0;
    check(guest_strlen((char *)ours + from) == strlen((char *)ours + from), "strlen");
    berm_puts(out, "ok");
}
