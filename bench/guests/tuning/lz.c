/* LZ77 with a hash table and a token byte: compress, decompress, compare. */
#include "../kernel.h"

enum { SIZE = 4096, TABLE = 1024 };
static uint8_t plain[SIZE], packed[SIZE * 2], unpacked[SIZE];
static uint16_t table[TABLE];

static inline uint32_t word_at(const uint8_t *p) {
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static uint8_t *put_run(uint8_t *out, size_t n) {
    for (; n >= 255; n -= 255) *out++ = 255;
    *out++ = (uint8_t)n;
    return out;
}

static uint8_t *put_literals(uint8_t *out, const uint8_t *from, size_t n) {
    out = put_run(out, n);
    memcpy(out, from, n);
    return out + n;
}

static NOINLINE size_t compress(const uint8_t *in, size_t n, uint8_t *out) {
    uint8_t *start = out;
    size_t at = 0, anchor = 0;
    memset(table, 0, sizeof table);
    while (at + 4 < n) {
        uint32_t w = word_at(in + at);
        uint32_t slot = w * 2654435761u >> 22;
        size_t candidate = table[slot];
        table[slot] = (uint16_t)at;
        if (candidate >= at || word_at(in + candidate) != w) {
            at++;
            continue;
        }
        size_t length = 4;
        while (at + length < n && in[candidate + length] == in[at + length]) length++;
        out = put_literals(out, in + anchor, at - anchor);
        *out++ = (uint8_t)(at - candidate);
        *out++ = (uint8_t)((at - candidate) >> 8);
        out = put_run(out, length);
        at += length;
        anchor = at;
    }
    out = put_literals(out, in + anchor, n - anchor);
    return (size_t)(out - start);
}

static size_t get_run(const uint8_t **in) {
    size_t n = 0;
    uint8_t b;
    do n += b = *(*in)++;
    while (b == 255);
    return n;
}

static NOINLINE size_t decompress(const uint8_t *in, size_t n, uint8_t *out) {
    const uint8_t *end = in + n;
    uint8_t *start = out;
    for (;;) {
        size_t literals = get_run(&in);
        memcpy(out, in, literals);
        out += literals;
        in += literals;
        if (in >= end) return (size_t)(out - start);
        size_t distance = in[0] | (size_t)in[1] << 8;
        in += 2;
        for (size_t length = get_run(&in); length > 0; length--, out++) *out = out[-(ptrdiff_t)distance];
    }
}

uint64_t kernel(uint64_t n) {
    uint64_t sum = 0;
    uint32_t seed = 362436069u;
    for (uint64_t round = 0; round < n; round++) {
        for (size_t i = 0; i < SIZE; i++) {
            uint32_t r = next_random(&seed);
            plain[i] = i > 64 && r % 8 ? plain[i - 1 - r % 3 * 20] : (uint8_t)(r >> 24);
        }
        size_t size = compress(plain, SIZE, packed);
        size_t back = decompress(packed, size, unpacked);
        sum = mix(sum, size * 2 + (back == SIZE && memcmp(plain, unpacked, SIZE) == 0));
    }
    return sum;
}
