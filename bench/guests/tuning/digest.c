/* MD5 and SHA-1 over a changing message. */
#include "../kernel.h"

static uint8_t message[1024];

static const uint8_t md5_shift[16] = {7, 12, 17, 22, 5, 9, 14, 20, 4, 11, 16, 23, 6, 10, 15, 21};
static uint32_t md5_constant[64];

#define ROTATE(x, by) ((x) << (by) | (x) >> (32 - (by)))

/* floor(2^32 * |sin(i + 1)|) would need floating point; any fixed odd constants cost the same. */
static void build(void) {
    uint32_t seed = 0xd76aa478u;
    for (int i = 0; i < 64; i++) md5_constant[i] = next_random(&seed) | 1;
}

static NOINLINE void md5_block(uint32_t state[4], const uint8_t *p) {
    uint32_t w[16], a = state[0], b = state[1], c = state[2], d = state[3];
    memcpy(w, p, 64);
    for (int i = 0; i < 64; i++) {
        uint32_t f;
        int g;
        switch (i / 16) {
        case 0: f = (b & c) | (~b & d), g = i; break;
        case 1: f = (d & b) | (~d & c), g = (5 * i + 1) & 15; break;
        case 2: f = b ^ c ^ d, g = (3 * i + 5) & 15; break;
        default: f = c ^ (b | ~d), g = (7 * i) & 15;
        }
        f += a + md5_constant[i] + w[g];
        a = d, d = c, c = b;
        int by = md5_shift[i / 16 * 4 + (i & 3)];
        b += ROTATE(f, by);
    }
    state[0] += a, state[1] += b, state[2] += c, state[3] += d;
}

static NOINLINE void sha1_block(uint32_t state[5], const uint8_t *p) {
    uint32_t w[80], a = state[0], b = state[1], c = state[2], d = state[3], e = state[4];
    for (int i = 0; i < 16; i++, p += 4) w[i] = (uint32_t)p[0] << 24 | p[1] << 16 | p[2] << 8 | p[3];
    for (int i = 16; i < 80; i++) w[i] = ROTATE(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    for (int i = 0; i < 80; i++) {
        uint32_t f, k;
        if (i < 20) f = (b & c) | (~b & d), k = 0x5a827999;
        else if (i < 40) f = b ^ c ^ d, k = 0x6ed9eba1;
        else if (i < 60) f = (b & c) | (b & d) | (c & d), k = 0x8f1bbcdc;
        else f = b ^ c ^ d, k = 0xca62c1d6;
        uint32_t t = ROTATE(a, 5) + f + e + k + w[i];
        e = d, d = c, c = ROTATE(b, 30), b = a, a = t;
    }
    state[0] += a, state[1] += b, state[2] += c, state[3] += d, state[4] += e;
}

uint64_t kernel(uint64_t n) {
    uint32_t md5[4] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476};
    uint32_t sha[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
    build();
    for (size_t i = 0; i < sizeof message; i++) message[i] = (uint8_t)(i * i + 7);
    for (uint64_t round = 0; round < n; round++) {
        message[round % sizeof message] += 1;
        for (size_t at = 0; at < sizeof message; at += 64) {
            md5_block(md5, message + at);
            sha1_block(sha, message + at);
        }
    }
    return mix(mix(md5[0], md5[3]), mix(sha[0], (uint64_t)sha[4] << 32 | sha[2]));
}
