# cython: language_level=3
"""A run that is watched. See _recorder.pyx."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from rvcore._hart cimport Hart, Op
from rvcore._machine cimport Machine, RunHook
from rvcore._program cimport Program

ctypedef struct Event:
    uint64_t pc      # where a block starts, or the ecall
    int64_t size     # instructions of the block, or -1 - index of the host call

ctypedef struct Node:
    uint64_t entry   # guest address of the function's first instruction
    uint64_t own     # instructions run in this function, called this way
    int32_t parent   # index of the caller's node; the root is its own
    int32_t child    # first callee, 0 for none
    int32_t sibling  # next callee of the same caller, 0 for none

ctypedef struct Activation:
    uint64_t back    # guest address to which the call returns
    uint64_t sp      # stack pointer at the call
    int32_t node     # the caller's node
    uint8_t link     # register that holds the return address: ra, or t0 for millicode


cdef class Recorder(RunHook):
    cdef readonly Program program
    cdef list names                      # of host calls, by index
    cdef uint64_t* counts_               # owned; executions of each op
    cdef uint8_t* entries                # owned; for each halfword of code whether a function starts there
    cdef Event* events_                  # owned
    cdef int64_t event_count
    cdef int64_t event_room              # events allocated
    cdef readonly int64_t max_events
    cdef readonly int64_t events_dropped # blocks and host calls past max_events
    cdef Node* nodes                     # owned; nodes[0] is the root
    cdef int32_t node_count
    cdef int32_t node                    # the running function's
    cdef Activation* active              # owned; calls that have not returned
    cdef int32_t depth                   # of them
    cdef uint64_t block_pc               # where the running block started
    cdef int64_t block_size              # its instructions so far
    cdef bint started
    cdef readonly uint64_t instructions
    cdef uint64_t low_sp                 # lowest stack pointer seen inside the stack
    cdef list dirty                      # (start, stop) of written memory at the last stop

    cdef int begin(self, Hart* h) except -1
    cdef int record(self, Hart* h, int64_t fuel, int64_t deadline_ns) noexcept nogil
    cdef void note(self, Hart* h, const Op* op, int reason) noexcept nogil
    cdef void add_event(self, uint64_t pc, int64_t size) noexcept nogil
    cdef void follow(self, Hart* h, const Op* op, uint64_t pc, uint64_t target) noexcept nogil
    cdef void enter_function(self, int32_t caller, uint64_t entry) noexcept nogil
    cdef void unwind(self, uint64_t target, uint64_t sp) noexcept nogil
    cdef bint starts_function(self, uint64_t pc) noexcept nogil
