# cython: language_level=3
"""The budget that invocations share. See _chain.pyx."""

from libc.stdint cimport int64_t


cdef class Chain:
    cdef readonly int64_t id
    cdef readonly int64_t max_depth
    cdef readonly int64_t deadline_ns      # an instant of the monotonic clock
    cdef readonly int64_t fuel_left        # instructions that it may still use
    cdef readonly int64_t invocations_left  # that it may still start

    cdef void take(self, int64_t instructions) noexcept
