# cython: language_level=3
"""What owners of a run cimport: the machine, its host table, and checked guest access. See _machine.pyx."""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

from rvcore._hart cimport (
    EXIT_DEADLINE, EXIT_HOST_CALL, EXIT_INTERRUPTED, EXIT_OUT_OF_FUEL, EXIT_RETURNED, EXIT_TRAP, HOST_AGAIN,
    HOST_DEFER, HOST_FAULT, HOST_OK, Hart, HostEntry, HostFn,
)
from rvcore._memory cimport guest_read, guest_write
from rvcore._program cimport Program


cdef class HostTable:
    cdef HostEntry* entries          # owned; open addressing, a power of two of them
    cdef uint64_t mask               # entries - 1
    cdef readonly list names         # name of each call, by index ("" for none)
    cdef readonly dict known         # number → name or advice, for unknown calls
    cdef bint frozen                 # a machine uses it: no more calls

    cdef int add(self, uint64_t number, HostFn fn, str name) except -1
    cdef int grow(self) except -1
    cdef void insert(self, uint64_t number, HostFn fn, int32_t index) noexcept
    # Aliases kept apart so that a reader of berm sees which kind is meant; both return the call's index.
    cdef int add_native(self, uint64_t number, HostFn fn, str name) except -1
    cdef int add_deferred(self, uint64_t number, str name) except -1


cdef class RunHook:
    cdef int run(self, Machine machine, int64_t fuel, int64_t deadline_ns) noexcept


cdef class Machine:
    cdef Hart hart
    cdef readonly Program program
    cdef readonly HostTable host
    cdef public RunHook hook         # runs in place of the loop, None for the loop
    cdef readonly bint entered       # an arena is held

    cdef int acquire(self) except -1
    cdef int begin(self, uint64_t pc) except -1
    cdef int enter(self, uint64_t pc) except -1
    cdef int run(self, int64_t fuel, int64_t deadline_ns) noexcept nogil
    cdef void leave(self) noexcept
    cdef uint64_t instructions(self) noexcept nogil
    cdef uint64_t pc(self) noexcept nogil
    cdef object trap(self)
    cdef void interrupt(self) noexcept nogil
