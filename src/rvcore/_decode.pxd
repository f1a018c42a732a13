# cython: language_level=3
"""Halfword or word → op. See _decode.pyx."""

from libc.stdint cimport uint16_t, uint32_t, uint64_t

from rvcore._hart cimport Op

cdef uint32_t expand(uint16_t half) noexcept nogil
cdef void decode(uint32_t word, uint64_t pc, Op* op) noexcept nogil
