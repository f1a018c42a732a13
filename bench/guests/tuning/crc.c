/* Checksums over one buffer: CRC-32 by table and by bit, CRC-64, Adler-32, Fletcher-16, SipHash-like mixing. */
#include "../kernel.h"

enum { SIZE = 3000 };
static uint8_t data[SIZE];
static uint32_t table32[256];
static uint64_t table64[256];

static void build(void) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        uint64_t d = i;
        for (int k = 0; k < 8; k++) {
            c = c & 1 ? c >> 1 ^ 0xedb88320u : c >> 1;
            d = d & 1 ? d >> 1 ^ 0xc96c5795d7870f42u : d >> 1;
        }
        table32[i] = c;
        table64[i] = d;
    }
}

static NOINLINE uint32_t crc32(const uint8_t *p, size_t n) {
    uint32_t c = ~0u;
    while (n--) c = table32[(c ^ *p++) & 255] ^ c >> 8;
    return ~c;
}

static NOINLINE uint16_t crc16_bits(const uint8_t *p, size_t n) {
    uint16_t c = 0xffff;
    while (n--) {
        c ^= (uint16_t)(*p++ << 8);
        for (int k = 0; k < 8; k++) c = (uint16_t)(c & 0x8000 ? c << 1 ^ 0x1021 : c << 1);
    }
    return c;
}

static NOINLINE uint64_t crc64(const uint8_t *p, size_t n) {
    uint64_t c = ~(uint64_t)0;
    while (n--) c = table64[(uint8_t)c ^ *p++] ^ c >> 8;
    return ~c;
}

static NOINLINE uint32_t adler(const uint8_t *p, size_t n) {
    uint32_t a = 1, b = 0;
    while (n--) {
        a = (a + *p++) % 65521;
        b = (b + a) % 65521;
    }
    return b << 16 | a;
}

#define ROTATE(x, by) ((x) << (by) | (x) >> (64 - (by)))
static NOINLINE uint64_t rotating(const uint8_t *p, size_t n) {
    uint64_t a = 0x736f6d65, b = 0x646f7261, c = 0x6c796765, d = 0x74656462;
    for (; n >= 8; n -= 8, p += 8) {
        uint64_t w;
        memcpy(&w, p, 8);
        d ^= w;
        a += b, b = ROTATE(b, 13) ^ a, a = ROTATE(a, 32);
        c += d, d = ROTATE(d, 16) ^ c;
        a += d, d = ROTATE(d, 21) ^ a;
        c += b, b = ROTATE(b, 17) ^ c, c = ROTATE(c, 32);
        a ^= w;
    }
    return a ^ b ^ c ^ d;
}

uint64_t kernel(uint64_t n) {
    uint64_t sum = 0;
    build();
    for (uint64_t round = 0; round < n; round++) {
        for (size_t i = 0; i < SIZE; i++) data[i] = (uint8_t)(i * 31 + (i >> 5) + round);
        sum = mix(sum, crc32(data, SIZE));
        sum = mix(sum, crc16_bits(data, SIZE / 4));
        sum = mix(sum, crc64(data, SIZE));
        sum = mix(sum, adler(data, SIZE / 2));
        sum = mix(sum, rotating(data, SIZE));
    }
    return sum;
}
