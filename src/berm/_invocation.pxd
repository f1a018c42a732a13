# cython: language_level=3
"""One invocation and what it runs on. See _invocation.pyx."""

from libc.stdint cimport int64_t, uint64_t

from rvcore._machine cimport HostTable, Machine
from rvcore._program cimport Program

from berm._abi cimport Session
from berm._chain cimport Chain
from berm._outcome cimport Limits


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
    cdef uint64_t refusal              # bits of the length word that mark a refusal
    cdef bint is_async
    cdef bint blocking


cdef class Guest:
    cdef Machine machine
    cdef Session session               # what the native calls see; machine.hart.host_data points to it
    cdef Linked linked                 # whose guest this is; None while idle
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

    cdef int begin(self, Linked linked, str label, uint64_t pc, object args, Limits limits, bint raw) except -1
    cdef void end(self) noexcept
    cdef int run(self, int64_t slice) except -1
    cdef Chain chain_now(self)
    cdef void charge(self, Chain chain) noexcept
    cdef object outcome(self)
    cdef int64_t duration_ns(self) noexcept nogil
    cdef bytes copy_in(self, uint64_t address, uint64_t size)
    cdef bytes take_request(self)
    cdef void stage(self, bytes reply, uint64_t flags) noexcept
    cdef int stage_error(self, str message, uint64_t flags) except -1
    cdef object trap(self)
    cdef object explain(self, code, str detail)
    cdef Call facts(self, Interruption interruption)


cdef class Linked:
    cdef Program program
    cdef HostTable table
    cdef dict entries                  # tool → guest address
    cdef tuple bound                   # Bound by index in the table, None for the calls that are always present
    cdef object log                    # log(call, line)
    cdef list idle                     # guests that wait for the next invocation

    cdef uint64_t entry(self, tool) except? 0
    cdef uint64_t export(self, str name) except? 0
    cdef Guest take(self)
    cdef void give_back(self, Guest guest) noexcept
    cdef object call_entry(self, str label, uint64_t pc, args, limits, context, bint raw, chain, int depth)
    cdef object first_slice(self, Guest guest)
    cdef Guest prepare(self, str label, uint64_t pc, args, limits, context, bint raw, chain, int depth)


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
    cdef int refuse(self, Guest guest, object error) except -1
    cdef int nest(self, Guest guest, Invocation child) except -1
    cdef Guest waiting(self)
