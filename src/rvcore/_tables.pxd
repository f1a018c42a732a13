# cython: language_level=3
"""What the code scanner shares with the table reader: addresses in code, and sets of them."""

from cpython.array cimport array
from libc.stdint cimport int64_t, uint8_t, uint64_t


cdef class CodeMap:
    cdef readonly Py_ssize_t slots      # halfwords in all ranges together
    cdef readonly bytes text            # the bytes of all ranges, one after the other
    cdef readonly bytearray functions   # one bit per slot: a function starts here
    cdef readonly bytearray targets     # one bit per slot: a legal indirect target
    cdef readonly bytearray labels      # one bit per slot: data holds this address, as a jump table does
    cdef readonly bytearray walls       # one bit per slot: falling through into here is leaving a function
    cdef Py_ssize_t count               # number of ranges
    cdef Py_ssize_t last                # the range that the last lookup hit
    cdef array starts                   # first address of each range, ascending
    cdef array ends                     # first address past each range
    cdef array bases                    # slot of each range's first halfword

    cdef int64_t slot(self, uint64_t address) noexcept
    cdef uint64_t address_of(self, int64_t slot) noexcept
    cdef Py_ssize_t _collect(
        self, const uint8_t *bits, Py_ssize_t index, int64_t slot, unsigned long long *out, Py_ssize_t at
    ) noexcept


cdef inline bint has(const uint8_t *bits, int64_t slot) noexcept nogil:
    return (bits[slot >> 3] >> (slot & 7)) & 1


cdef inline void put(uint8_t *bits, int64_t slot) noexcept nogil:
    bits[slot >> 3] |= <uint8_t>(1 << (slot & 7))
