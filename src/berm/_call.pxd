# cython: language_level=3
"""What a capability call is made of. See _call.pyx."""

from libc.stdint cimport int64_t, uint64_t

from berm._chain cimport Chain


cdef class Interruption:
    cdef bint requested                # set once, by any thread that holds the GIL


cdef class Call:
    cdef readonly object context       # what the embedder gave; opaque here
    cdef readonly str tool             # name of the entry that the guest was started at
    cdef readonly int depth            # 0 for an invocation that no guest started
    cdef readonly uint64_t invocation_id
    cdef Chain _chain                  # None until somebody asks
    cdef object _tasks                 # task group of the driver, or None
    cdef int64_t deadline_ns           # monotonic instant
    cdef Interruption interruption     # shared with the invocation


cdef class HostCall:
    cdef readonly object capability
    cdef readonly Call call
    cdef readonly bytes request


cdef class Bound:
    cdef object capability
    cdef object function
    cdef str name                      # the capability's own name, for messages
    cdef bint refusable                # its guests know a refusal from an error
    cdef bint is_async
    cdef bint blocking
