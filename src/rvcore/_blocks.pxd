# cython: language_level=3
"""Decoded code of one program. See _blocks.pyx."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from rvcore._hart cimport Extent, Op


cdef class Code:
    cdef Op* ops                       # owned; ops[0] never runs, so that a map entry of 0 means "nothing here"
    cdef uint32_t* pcs                 # owned; guest address of each op
    cdef uint32_t* map                 # owned; one entry a halfword of [start, start + size)
    cdef uint8_t* hard                 # owned while building; halfwords where decoding starts afresh
    cdef list ranges                   # while building: (address, bytes) of code, sorted
    cdef list starts                   # while building: their addresses
    cdef Extent* extents               # owned; which ops each function has, 0 for all
    cdef uint64_t first_function       # while building: guest address of the first function
    cdef uint64_t swept                # ops in address order; those behind them were decoded out of line
    cdef readonly uint64_t count       # ops in use
    cdef uint64_t capacity             # ops allocated
    cdef readonly uint64_t start       # guest address of the first byte of code
    cdef readonly uint64_t size        # bytes from the first to the last byte of code
    cdef readonly uint64_t longest     # most instructions between two looks at the budget
    cdef bint cfi

    cdef int grow(self) except -1
    cdef int mark_hard(self, addresses, uint8_t kind) except -1
    cdef int decode_everything(self) except -1
    cdef int finish(self, targets, bint fuse) except -1
    cdef int find_extents(self, starts) except -1
    cdef uint32_t flag_of(self, uint64_t target) noexcept nogil
    cdef Op* append(self, uint64_t pc) except NULL
    cdef uint64_t find(self, uint64_t pc) noexcept nogil
    cdef int sweep(self, uint64_t start, const uint8_t* code, uint64_t size) except -1
    cdef uint32_t decode_at(self, uint64_t pc, const uint8_t* code, uint64_t left, Op* op) noexcept nogil
    cdef int put_off_code(self, uint64_t pc, int64_t distance) except -1
    cdef int out_of_line(self, uint64_t pc) except -1
    cdef int link(self) except -1
    cdef int link_op(self, uint64_t index) except -1
    cdef void mark_returns(self) noexcept nogil
    cdef void pair_constants(self) noexcept nogil
    cdef void swap_operands(self) noexcept nogil
    cdef void measure(self) except *
    cdef void choose(self, bint fuse) except *
