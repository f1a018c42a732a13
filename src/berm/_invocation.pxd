# cython: language_level=3
"""One invocation: a stack of guests, driven from stop to stop. See _invocation.pyx."""

from libc.stdint cimport int64_t, uint64_t

from berm._call cimport HostCall, Interruption
from berm._guest cimport Guest


cdef Invocation invocation_of(Guest guest)


cdef class Invocation:
    cdef list stack                    # guests, the running one last
    cdef Interruption interruption
    cdef HostCall pending              # waits for its reply
    cdef bint busy                     # some thread is in advance, compute or run
    cdef bint sync                     # that thread is in run
    cdef readonly bint computing       # the last slice ended with the guest still computing
    cdef readonly object outcome       # Done or Failed once there is one
    cdef readonly uint64_t instructions  # of the outermost guest, once it has ended
    cdef readonly int64_t duration_ns    # likewise
    cdef uint64_t root_id              # likewise

    cdef Guest top(self)
    cdef int enter(self) except -1
    cdef int run_guest(self, Guest guest, int64_t slice) except -1
    cdef object step(self, int64_t slice)
    cdef object settle(self, Guest guest)
    cdef int leave(self, Guest guest) except -1
    cdef void drop_last(self) noexcept
    cdef void drop_all(self) noexcept
    cdef int deliver_log(self, Guest guest) except -1
    cdef object dispatch(self, Guest guest)
    cdef int accept(self, Guest guest, object result) except -1
    cdef int nest(self, Guest guest, Invocation child) except -1
    cdef Guest waiting(self)
