/* The interrupt word: the only field of a hart that another thread writes. */
#ifndef RVCORE_ATOMIC_H
#define RVCORE_ATOMIC_H
#include <stdint.h>

static inline uint32_t rv_word_load(const uint32_t *word) { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }
static inline void rv_word_store(uint32_t *word, uint32_t value) { __atomic_store_n(word, value, __ATOMIC_RELEASE); }

#endif
