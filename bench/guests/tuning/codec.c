/* Text codecs of everyday tools: base64, percent-encoding, hex dump, CSV with quotes. */
#include "../kernel.h"

enum { SIZE = 768 };
static uint8_t raw[SIZE], decoded[SIZE + 8];
static char text[SIZE * 8], fields[SIZE * 8];
static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static NOINLINE size_t base64(const uint8_t *in, size_t n, char *out) {
    char *start = out;
    for (; n >= 3; n -= 3, in += 3) {
        uint32_t v = (uint32_t)in[0] << 16 | in[1] << 8 | in[2];
        for (int s = 18; s >= 0; s -= 6) *out++ = alphabet[v >> s & 63];
    }
    return (size_t)(out - start);
}

static int value_of(char c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

static NOINLINE size_t unbase64(const char *in, size_t n, uint8_t *out) {
    uint32_t hold = 0;
    int held = 0;
    size_t used = 0;
    for (size_t i = 0; i < n; i++) {
        int v = value_of(in[i]);
        if (v < 0) continue;
        hold = hold << 6 | (uint32_t)v;
        held += 6;
        if (held >= 8) held -= 8, out[used++] = (uint8_t)(hold >> held);
    }
    return used;
}

static int unreserved(uint8_t c) {
    return (c | 32) - 'a' < 26u || c - '0' < 10u || c == '-' || c == '.' || c == '_' || c == '~';
}

static NOINLINE size_t percent(const uint8_t *in, size_t n, char *out) {
    size_t used = 0;
    for (size_t i = 0; i < n; i++) {
        if (unreserved(in[i])) {
            out[used++] = (char)in[i];
            continue;
        }
        out[used++] = '%';
        out[used++] = "0123456789ABCDEF"[in[i] >> 4];
        out[used++] = "0123456789ABCDEF"[in[i] & 15];
    }
    return used;
}

static NOINLINE size_t hex_dump(const uint8_t *in, size_t n, char *out) {
    char *start = out;
    for (size_t at = 0; at < n; at += 16) {
        for (int s = 12; s >= 0; s -= 4) *out++ = "0123456789abcdef"[at >> s & 15];
        for (size_t i = at; i < at + 16 && i < n; i++) {
            *out++ = ' ';
            *out++ = "0123456789abcdef"[in[i] >> 4];
            *out++ = "0123456789abcdef"[in[i] & 15];
        }
        for (size_t i = at; i < at + 16 && i < n; i++) *out++ = in[i] >= ' ' && in[i] < 127 ? (char)in[i] : '.';
        *out++ = '\n';
    }
    return (size_t)(out - start);
}

static NOINLINE size_t csv(const char *in, size_t n, char *out, size_t *count) {
    size_t used = 0;
    int quoted = 0;
    for (size_t i = 0; i < n; i++) {
        if (quoted) {
            if (in[i] != '"') out[used++] = in[i];
            else if (i + 1 < n && in[i + 1] == '"') out[used++] = in[i++];
            else quoted = 0;
        } else if (in[i] == '"') {
            quoted = 1;
        } else if (in[i] == ',' || in[i] == '\n') {
            out[used++] = 0;
            ++*count;
        } else {
            out[used++] = in[i];
        }
    }
    return used;
}

uint64_t kernel(uint64_t n) {
    uint64_t sum = 0;
    uint32_t seed = 4711u;
    for (uint64_t round = 0; round < n; round++) {
        for (size_t i = 0; i < SIZE; i++) raw[i] = (uint8_t)(next_random(&seed) % 4 ? 'a' + i % 26 : seed >> 24);
        size_t length = base64(raw, SIZE, text), count = 0;
        sum = mix(sum, unbase64(text, length, decoded) + (memcmp(raw, decoded, SIZE) == 0));
        sum = mix(sum, percent(raw, SIZE, text));
        length = hex_dump(raw, SIZE, text);
        for (size_t i = 0; i < length; i += 9) text[i] = ",\"\n"[i % 3];
        sum = mix(sum, csv(text, length, fields, &count));
        sum = mix(sum, count + (uint8_t)fields[count]);
    }
    return sum;
}
