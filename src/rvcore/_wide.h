/* High halves of 64 x 64 bit products, and branch hints; Cython has neither. */
#ifndef RVCORE_WIDE_H
#define RVCORE_WIDE_H
#include <stdint.h>

static inline uint64_t rv_mulh(uint64_t a, uint64_t b) {
    return (uint64_t)(((__int128)(int64_t)a * (__int128)(int64_t)b) >> 64);
}
static inline uint64_t rv_mulhu(uint64_t a, uint64_t b) {
    return (uint64_t)(((unsigned __int128)a * (unsigned __int128)b) >> 64);
}
static inline uint64_t rv_mulhsu(uint64_t a, uint64_t b) {
    return (uint64_t)(((__int128)(int64_t)a * (__int128)(unsigned __int128)b) >> 64);
}

#define rv_unlikely(x) __builtin_expect(!!(x), 0)

#endif
