# cython: language_level=3
"""One invocation from entry to outcome, as a value that whoever holds it drives.

`Invocation` holds a stack of guests (one that calls another harness waits below it) and moves the topmost one from
stop to stop: slice over, capability wanted, returned, trapped. What a single guest does is `_guest.pyx`.

Nothing here waits or knows an event loop.
"""

import inspect
import logging

cimport cython
from cpython.bytes cimport PyBytes_Check
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int64_t

from rvcore._interp cimport monotonic_ns
from rvcore._machine cimport EXIT_DEADLINE, EXIT_HOST_CALL, EXIT_INTERRUPTED, Machine
from rvcore._memory cimport is_readable

from berm._abi cimport session_take_log
from berm._call cimport Bound, Call, HostCall, Interruption
from berm._guest cimport HELD_SLICE, LONG_SLICE, RUNNABLE, SLICE_OVER, Guest, GuestPool
from berm._outcome cimport Done, Failed

from rvcore._traps import Trap

from berm.errors import AsyncCapabilityError

logger = logging.getLogger("berm.guest")

cdef enum:
    A0 = 10
    A1 = 11
    MAX_NESTING = 64      # guests of one invocation, however generous its chain
    MAX_REQUEST = 64 << 20  # bytes of a capability request: more than the largest file that one carries

# How long `advance` goes on serving inline capabilities before it lets its driver look around.
cdef int64_t TALK_NS = 1_000_000


cdef Invocation invocation_of(Guest guest):
    cdef Invocation invocation = Invocation.__new__(Invocation)
    invocation.stack.append(guest)
    return invocation


@cython.final
@cython.auto_pickle(False)
cdef class Invocation:
    """A started call of one tool, driven by whoever holds it.

    `advance` until it returns a Done or Failed or raises the Trap; on a HostCall run its function and `reply`.
    `run` does all of that on this thread. Only `interrupt` may be called while another thread drives.
    """

    def __cinit__(self):
        self.stack = []
        self.interruption = Interruption.__new__(Interruption)

    @property
    def invocation_id(self):
        """What `call.invocation_id` is for the outermost guest."""
        return (<Guest>self.stack[0]).id if self.stack else self.root_id

    @property
    def running_ids(self):
        """The `call.invocation_id` of each guest that lives, callers first."""
        return tuple((<Guest>guest).id for guest in self.stack)

    @property
    def nesting(self):
        """How many guests live: 1, and one for each harness that was called and has not returned."""
        return len(self.stack)

    @property
    def closed(self):
        """Whether there is nothing left to drive."""
        return not self.stack

    @property
    def interrupted(self):
        """Whether `interrupt` was called."""
        return self.interruption.requested

    @property
    def deadline_left(self):
        """Seconds until the running guest's deadline, 0.0 when it has passed or nothing runs."""
        if not self.stack:
            return 0.0
        return max(0, self.top().deadline_ns - monotonic_ns()) / 1e9

    @property
    def machine(self):
        """The running guest's machine, for tracing and profiling; None when closed."""
        return self.top().machine if self.stack else None

    def __enter__(self):
        return self

    def __exit__(self, *_exception):
        self.close()

    def __repr__(self):
        cdef str state = "closed" if not self.stack else f"{len(self.stack)} running"
        return f"<Invocation {state}>"

    cdef Guest top(self):
        """Return the running guest of a stack that is not empty."""
        return <Guest>self.stack[len(self.stack) - 1]

    cdef int enter(self) except -1:
        """Claim the invocation for this thread.

        Raises:
            RuntimeError: Another thread drives it, a capability that it called tries to, or a reply is missing.
            ValueError: There is nothing left to drive.
        """
        if self.busy:
            raise RuntimeError("the invocation is being driven already")
        if self.pending is not None:
            raise RuntimeError(f"`{self.pending.capability.name}` has not been replied to")
        if not self.stack:
            raise ValueError("the invocation is closed")
        self.busy = True
        return 0

    def advance(self, int64_t instructions=50_000):
        """Go on to the next stop, computing `instructions` at most.

        Return the Done or Failed, a HostCall that waits for its reply, or None when there is more to do:
        `computing` then says whether the guest or inline capabilities used up the time.

        Raises:
            Trap: The guest died or ran into a limit. The invocation is closed.
            RuntimeError: A reply is missing, or the invocation is being driven already.
            ValueError: The invocation is closed.
        """
        self.enter()
        try:
            return self.step(max(1, instructions))
        except:
            self.drop_all()
            raise
        finally:
            self.busy = False

    def compute(self):
        """Let the guest compute until it returns, calls a capability or dies, without running any host function.

        For a worker thread: the GIL is released, and `interrupt` from another thread stops it. `advance` says
        afterwards what happened.

        Raises:
            RuntimeError: As advance.
            ValueError: As advance.
        """
        cdef Guest guest
        self.enter()
        try:
            guest = self.top()
            while guest.state == RUNNABLE:
                PyErr_CheckSignals()
                self.run_guest(guest, LONG_SLICE)
                if guest.state == SLICE_OVER:
                    guest.state = RUNNABLE
        finally:
            self.busy = False

    def run(self):
        """Drive the invocation to its end on this thread, blocking capabilities included.

        Raises:
            Trap: The guest died or ran into a limit.
            AsyncCapabilityError: It called a capability that has to be awaited.
            RuntimeError: As advance.
            ValueError: As advance.
        """
        self.enter()
        self.sync = True
        try:
            while True:
                result = self.step(LONG_SLICE)
                if result is not None:
                    return result
        except:
            self.drop_all()
            raise
        finally:
            self.sync = False
            self.busy = False

    cdef int run_guest(self, Guest guest, int64_t slice) except -1:
        """Run up to `slice` instructions, the first of a fresh guest without releasing the GIL."""
        cdef int64_t held
        if self.interruption.requested:
            guest.state = EXIT_INTERRUPTED
        elif monotonic_ns() >= guest.deadline_ns:
            guest.state = EXIT_DEADLINE
        else:
            held = min(slice, HELD_SLICE) if guest.fresh else slice
            guest.run(held)
            if guest.state == SLICE_OVER and held < slice:
                guest.run(slice - held)
        return 0

    cdef object step(self, int64_t slice):
        """Do what `advance` says."""
        cdef int64_t began = monotonic_ns()
        cdef Guest guest
        cdef object result
        while True:
            guest = self.top()
            if guest.state == RUNNABLE:
                PyErr_CheckSignals()
                self.run_guest(guest, slice)
            # While a long line is being copied behind them, the lines before it wait for it.
            if guest.session.log_size and not (guest.state == SLICE_OVER and guest.session.copied):
                self.deliver_log(guest)
            if guest.state == SLICE_OVER:
                guest.state = RUNNABLE
                self.computing = True
                return None
            result = self.settle(guest)
            if result is not None:
                return result
            if not self.sync and monotonic_ns() - began > TALK_NS:
                self.computing = False
                return None

    cdef object settle(self, Guest guest):
        """Deal with why a guest stopped; return what the driver must see, or None to go on."""
        cdef object result
        cdef Guest caller
        if guest.state == EXIT_HOST_CALL:
            return self.dispatch(guest)
        result = guest.outcome()
        label = guest.label
        self.leave(guest)
        if not self.stack:
            if isinstance(result, Trap):
                raise result
            self.outcome = result
            return result
        caller = self.top()
        if type(result) is Done:
            self.accept(caller, result.data)
        elif type(result) is Failed:
            caller.reply_failed((<Failed>result).message)
        elif self.interruption.requested:
            raise result
        else:
            logger.warning("%s", result.report())
            caller.reply_error(f"`{label}` died: {result.code.value}")
        return None

    cdef int leave(self, Guest guest) except -1:
        """Take the guest that stopped for good off the stack, with its last words."""
        if guest.session.log_dropped:
            call = guest.facts(self.interruption)
            guest.pool.log(call, f"… {guest.session.log_dropped} log lines were cut or dropped")
        self.drop_last()
        return 0

    cdef void drop_last(self) noexcept:
        cdef Guest guest = <Guest>self.stack.pop()
        cdef GuestPool pool = guest.pool  # perhaps the last reference to it
        if not self.stack:
            self.instructions = guest.machine.instructions()
            self.duration_ns = guest.duration_ns()
            self.root_id = guest.id
        pool.give_back(guest)

    cdef void drop_all(self) noexcept:
        self.pending = None
        while self.stack:
            self.drop_last()

    cdef int deliver_log(self, Guest guest) except -1:
        """Hand the lines that the guest has logged to its image's log."""
        cdef Call call = guest.facts(self.interruption)
        cdef object log = guest.pool.log
        for line in session_take_log(&guest.session):
            log(call, line)
        return 0

    cdef object dispatch(self, Guest guest):
        """Run the capability that the guest called, or return it for the driver to run."""
        cdef Bound bound = guest.called()
        cdef Machine machine = guest.machine
        cdef bytes request
        cdef Call call
        cdef object result
        if machine.hart.x[A1] > MAX_REQUEST and is_readable(&machine.hart, machine.hart.x[A0], machine.hart.x[A1]):
            guest.reply_error(f"request of {machine.hart.x[A1]} bytes, the limit is {MAX_REQUEST}")
            return None
        request = guest.take_request()
        if request is None:
            return None
        call = guest.facts(self.interruption)
        if bound.is_async and self.sync:
            raise AsyncCapabilityError(bound.name)
        if bound.is_async or bound.blocking and not self.sync:
            self.pending = HostCall.__new__(HostCall)
            self.pending.capability = bound.capability
            self.pending.call = call
            self.pending.request = request
            return self.pending
        try:
            result = bound.function(call, request)
        except Exception as error:
            guest.reply_raised(error)
        else:
            self.accept(guest, result)
        return None

    cdef int accept(self, Guest guest, object result) except -1:
        """Stage what the capability returned, or go on with the invocation that it returned."""
        if PyBytes_Check(result):
            guest.reply_with(<bytes>result)
        elif type(result) is Invocation:
            self.nest(guest, <Invocation>result)
        else:
            name = guest.called().name
            if inspect.iscoroutine(result):
                result.close()
            logger.error("capability %s returned %s, expected bytes", name, type(result).__name__)
            guest.reply_error(f"capability `{name}` returned {type(result).__name__}, expected bytes")
        return 0

    cdef int nest(self, Guest guest, Invocation child) except -1:
        """Run a started invocation in place of its caller, which waits below it."""
        cdef Guest inner
        if child.busy or len(child.stack) != 1 or (<Guest>child.stack[0]).machine.instructions() != 0:
            logger.error("a capability returned an invocation that is being driven already")
            guest.reply_error("the capability returned an invocation that cannot be run")
            return 0
        if len(self.stack) >= MAX_NESTING:
            child.drop_all()
            guest.reply_error(f"more than {MAX_NESTING} harnesses wait for each other")
            return 0
        inner = <Guest>child.stack.pop()
        inner.deadline_ns = min(inner.deadline_ns, guest.deadline_ns)
        self.stack.append(inner)
        return 0

    cdef Guest waiting(self):
        """Return the guest whose capability call waits for a reply.

        Raises:
            RuntimeError: None does.
        """
        if self.pending is None or self.busy:
            raise RuntimeError("no capability call waits for a reply")
        self.pending = None
        return self.top()

    def reply(self, result):
        """Answer the HostCall that `advance` returned with what its function returned.

        Raises:
            RuntimeError: None waits.
        """
        self.accept(self.waiting(), result)

    def reply_error(self, error):
        """Answer the HostCall that `advance` returned with what its function raised.

        Raises:
            RuntimeError: None waits.
        """
        self.waiting().reply_raised(error)

    def expire(self):
        """Let the running guest's deadline pass now, whether or not a HostCall waits."""
        cdef Guest guest
        if self.busy or not self.stack:
            raise RuntimeError("no guest is suspended")
        self.pending = None
        guest = self.top()
        guest.deadline_ns = 0
        guest.state = RUNNABLE

    def attach_tasks(self, tasks):
        """Give the capabilities of the running guest a task group: `call.tasks`. For drivers."""
        if self.pending is not None:
            self.pending.call._tasks = tasks

    def interrupt(self):
        """End the invocation at its next instruction: the driver gets an INTERRUPTED trap. Any thread may call."""
        self.interruption.requested = True
        if self.stack:
            self.top().machine.interrupt()

    def close(self):
        """Drop what is left: guests, their memory, a waiting HostCall. May be called again.

        Raises:
            RuntimeError: A thread drives the invocation; `interrupt` it first.
        """
        if self.busy:
            raise RuntimeError("the invocation is being driven, interrupt it first")
        self.drop_all()
