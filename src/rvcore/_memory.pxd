# cython: language_level=3
"""Guest address → host pointer or a fault; arenas, their dirty log and their pool. See _memory.pyx."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from rvcore._hart cimport (
    PAGE_BITS, PERM_DIRTY, PERM_NONE, PERM_OFFSET, Arena, Hart,
)

cdef bint is_readable(Hart* h, uint64_t addr, uint64_t size) noexcept nogil
cdef bint is_writable(Hart* h, uint64_t addr, uint64_t size) noexcept nogil
cdef int load_slow(Hart* h, uint64_t addr, void* dst, uint64_t size) noexcept nogil
cdef int store_slow(Hart* h, uint64_t addr, const void* src, uint64_t size) noexcept nogil
cdef int guest_read(Hart* h, uint64_t addr, void* dst, uint64_t size) noexcept nogil
cdef int guest_write(Hart* h, uint64_t addr, const void* src, uint64_t size) noexcept nogil


cdef class PoolBudget:
    cdef readonly uint64_t max_bytes     # resident bytes that free arenas may keep, all pools together
    cdef readonly uint64_t max_arenas    # free arenas kept, all pools together
    cdef readonly uint64_t held_bytes    # resident bytes in free arenas now
    cdef readonly uint64_t held_arenas   # free arenas now
    cdef readonly uint64_t live_arenas   # arenas lent out now
    cdef readonly uint64_t created       # arenas mapped since the start


cdef class ArenaPool:
    cdef readonly PoolBudget budget
    cdef readonly uint64_t memory_size   # bytes
    cdef uint64_t first_page             # first page of the image
    cdef uint64_t image_pages
    cdef uint64_t guard_page             # first page of the guard below the stack
    cdef uint64_t guard_pages
    cdef bytes perms                     # one initial permission for each image page
    cdef const uint8_t* perms_at         # its bytes
    cdef bytes pristine_copy             # image bytes where no memfd holds them
    cdef const uint8_t* pristine         # image bytes: a read-only mapping of the memfd, or pristine_copy
    cdef int fd                          # memfd with the image, -1 without
    cdef Arena* free
    cdef bint closed

    cdef int hold_image(self, list pieces) except -1
    cdef Arena* acquire(self) except NULL
    cdef void release(self, Arena* arena) noexcept
    cdef void close(self) noexcept
    cdef Arena* map_arena(self) except NULL
    cdef int map_image(self, Arena* arena) except -1
    cdef bint may_keep(self, Arena* arena) noexcept
    cdef void undo(self, Arena* arena) noexcept nogil
    cdef bint is_pristine(self, Arena* arena) noexcept nogil
