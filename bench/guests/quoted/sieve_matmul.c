/* A prime sieve over bytes, then a product of integer matrices fed from it. */
#include "../kernel.h"

enum { LIMIT = 8192, N = 20 };
static uint8_t composite[LIMIT];
static int64_t left[N][N], right[N][N], out[N][N];

static uint32_t sieve(void) {
    uint32_t count = 0;
    memset(composite, 0, sizeof composite);
    for (uint32_t p = 2; p < LIMIT; p++) {
        if (composite[p]) continue;
        count++;
        for (uint32_t m = p * p; m < LIMIT; m += p) composite[m] = 1;
    }
    return count;
}

static void multiply(void) {
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            int64_t sum = 0;
            for (int k = 0; k < N; k++) sum += left[i][k] * right[k][j];
            out[i][j] = sum;
        }
}

uint64_t kernel(uint64_t n) {
    uint64_t digest = 0;
    for (uint64_t round = 0; round < n; round++) {
        uint32_t primes = sieve();
        for (int i = 0; i < N * N; i++) {
            left[i / N][i % N] = (int64_t)(i * 3 + composite[i + 2] + (int64_t)(round & 7));
            right[i / N][i % N] = (int64_t)primes - i * composite[i + 500];
        }
        multiply();
        for (int i = 0; i < N; i++) digest = mix(digest, (uint64_t)out[i][(i * 7) % N]);
    }
    return digest;
}
