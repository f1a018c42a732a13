/* Address space: lazy reservations and private views of an image. */
#ifndef RVCORE_MAPPING_H
#define RVCORE_MAPPING_H
#include <stddef.h>
#include <sys/mman.h>

#ifndef MAP_NORESERVE
#define MAP_NORESERVE 0
#endif

static inline void *rv_reserve(size_t size) {
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return NULL;
#ifdef MADV_NOHUGEPAGE
    /* A huge page would make a guest that touches one byte cost 2 MiB. */
    (void)madvise(at, size, MADV_NOHUGEPAGE);
#endif
    return at;
}

static inline int rv_map_private(void *at, size_t size, int fd) {
    return mmap(at, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fd, 0) == MAP_FAILED ? -1 : 0;
}

/* Private although nothing is written: before Linux 6.7 a memfd sealed against writing refuses shared mappings,
   read-only ones too. */
static inline void *rv_map_pristine(size_t size, int fd) {
    void *at = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    return at == MAP_FAILED ? NULL : at;
}

static inline void rv_unmap(void *at, size_t size) { (void)munmap(at, size); }

#endif
