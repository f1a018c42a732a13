# cython: language_level=3
"""The run loop. See _interp.pyx."""

from libc.stdint cimport int64_t, uint64_t

from rvcore._hart cimport Hart

cdef int64_t monotonic_ns() noexcept nogil
cdef int hart_run(Hart* h, uint64_t longest, int64_t fuel, int64_t deadline_ns) noexcept nogil
