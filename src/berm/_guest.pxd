# cython: language_level=3
"""One run of one image, and the pool of an image's guests. See _guest.pyx."""

from libc.stdint cimport int64_t, uint64_t

from rvcore._machine cimport HostTable, Machine
from rvcore._program cimport Program

from berm._abi cimport Session
from berm._call cimport Bound, Call, Interruption
from berm._chain cimport Chain
from berm._outcome cimport Limits

cdef enum:
    SLICE_OVER = 100         # a Guest.state beside EXIT_*: instructions are left, this slice has none
    RUNNABLE = 101           # a Guest.state: may run
    HELD_SLICE = 20_000      # instructions run without releasing the GIL: about 20 µs, what that may cost
    LONG_SLICE = 5_000_000   # instructions between two looks at signals, without the GIL: about 5 ms


cdef class Guest:
    cdef Machine machine
    cdef Session session               # what the native calls see; machine.hart.host_data points to it
    cdef GuestPool pool                # whose guest this is; None while idle
    cdef Limits limits
    cdef bytes args                    # keeps session.args alive
    cdef bytes reply                   # keeps session.reply alive
    cdef object context
    cdef Call call                     # made for the first capability or log line
    cdef Chain chain                   # given at the start, or None
    cdef str label                     # the tool's name, for messages
    cdef object verdict                # the Trap of a result that was looked at already, or None
    cdef int64_t started_ns            # monotonic instant
    cdef int64_t deadline_ns           # monotonic instant
    cdef uint64_t id                   # of this invocation, in this process
    cdef uint64_t charged              # instructions that the chain has been charged for
    cdef int depth
    cdef int state                     # why the last run stopped, or RUNNABLE
    cdef bint raw
    cdef bint fresh                    # has not run since its start or its last reply

    cdef int begin(self, GuestPool pool, str label, uint64_t pc, object args, Limits limits, bint raw) except -1
    cdef void end(self) noexcept
    cdef int run(self, int64_t slice) except -1
    cdef Chain chain_now(self)
    cdef void charge(self, Chain chain) noexcept
    cdef object outcome(self)
    cdef int64_t duration_ns(self) noexcept nogil
    cdef bytes copy_in(self, uint64_t address, uint64_t size)
    cdef bytes take_request(self)
    cdef void stage(self, bytes reply, uint64_t flags) noexcept
    cdef int reply_with(self, bytes reply) except -1
    cdef int reply_error(self, str message) except -1
    cdef int reply_failed(self, str message) except -1
    cdef int reply_raised(self, object error) except -1
    cdef Bound called(self)
    cdef object trap(self)
    cdef object explain(self, code, str detail)
    cdef Call facts(self, Interruption interruption)


cdef class GuestPool:
    cdef Program program
    cdef HostTable table
    cdef tuple bound                   # Bound by index in the table, None for the calls that are always present
    cdef object log                    # log(call, line)
    cdef list idle                     # guests that wait for the next invocation

    cdef Guest take(self)
    cdef void give_back(self, Guest guest) noexcept
