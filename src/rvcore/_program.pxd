# cython: language_level=3
"""One loaded program. See _program.pyx."""

from libc.stdint cimport int64_t, uint64_t

from rvcore._blocks cimport Code
from rvcore._memory cimport ArenaPool


cdef class Program:
    cdef object __weakref__
    cdef readonly object image             # ElfImage
    cdef readonly dict exports             # name of each global function → guest address
    cdef readonly Code code
    cdef readonly ArenaPool pool
    cdef readonly uint64_t memory_size     # bytes
    cdef readonly uint64_t stack_size      # bytes
    cdef readonly uint64_t heap_start      # guest address, page aligned
    cdef readonly uint64_t heap_size       # bytes, page aligned
    cdef readonly uint64_t guard_start     # guest address of the guard below the stack
    cdef readonly uint64_t global_pointer  # initial gp, 0 for none
