/* What every kernel shares: fixed-width types, the four mem functions, a generator and a mixer. */
#ifndef BENCH_KERNEL_H
#define BENCH_KERNEL_H

#include <stddef.h>
#include <stdint.h>

#define NOINLINE __attribute__((noinline))
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

void *memcpy(void *restrict to, const void *restrict from, size_t n);
void *memmove(void *to, const void *from, size_t n);
void *memset(void *to, int byte, size_t n);
int memcmp(const void *a, const void *b, size_t n);

/* Every kernel starts from the same state at each call, so a second call returns the same checksum. */
uint64_t kernel(uint64_t n);

static inline uint64_t mix(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
    return hash ^ (hash >> 29);
}

static inline uint32_t next_random(uint32_t *state) {
    uint32_t x = *state;
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    return *state = x;
}

static inline size_t text_length(const char *text) {
    size_t n = 0;
    while (text[n]) n++;
    return n;
}

#endif
