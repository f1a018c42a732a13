/* Address space: lazy reservations, private views of an image, and giving pages back. */
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

static inline void *rv_map_shared(size_t size, int fd) {
    void *at = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
    return at == MAP_FAILED ? NULL : at;
}

/* Only Linux promises that discarded private pages read as the file, or as zeroes. */
static inline int rv_discard(void *at, size_t size) {
#ifdef __linux__
    return madvise(at, size, MADV_DONTNEED);
#else
    (void)at; (void)size;
    return -1;
#endif
}

static inline void rv_unmap(void *at, size_t size) { (void)munmap(at, size); }

#endif
