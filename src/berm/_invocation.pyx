# cython: language_level=3
"""One invocation from entry to outcome, as a value that whoever holds it drives.

A `Guest` is one machine with its session; guests are pooled by the `Linked` image that they belong to, and cleared
when they go back. `Invocation` holds a stack of them (a guest that calls another harness waits below it) and moves
the topmost one from stop to stop: slice over, capability wanted, returned, trapped. `Linked.call` is the same for
the common case that the first slice is all: no Invocation is made then.

Nothing here waits or knows an event loop. A guest's state is only touched with the GIL held, or by the one thread
that is inside `run`.
"""

import inspect
import logging

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_Check, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from rvcore._interp cimport monotonic_ns
from rvcore._machine cimport (
    EXIT_DEADLINE, EXIT_HOST_CALL, EXIT_INTERRUPTED, EXIT_OUT_OF_FUEL, EXIT_RETURNED, EXIT_TRAP, HostTable, Machine,
    guest_read,
)
from rvcore._memory cimport is_readable
from rvcore._memory cimport is_readable
from rvcore._program cimport Program

from berm._abi cimport Session, add_always_present, session_clear, session_free, session_message, session_take_log
from berm._chain cimport Chain
from berm._outcome cimport Done, Failed, Limits, done, failed

from rvcore._traps import TrapCode, Trap

from berm.errors import AsyncCapabilityError, NoSuchEntry, NoSuchTool, Refused
from berm.fnv import advice, call_name, call_number
from berm.manifest import ON_NOTIFY, ON_WAKE

logger = logging.getLogger("berm.guest")

cdef enum:
    A0 = 10
    A1 = 11
    SLICE_OVER = 100      # a Guest.state beside EXIT_*: instructions are left, this slice has none
    RUNNABLE = 101        # a Guest.state: may run
    IDLE_GUESTS = 8       # guests that one image keeps for its next invocations
    MAX_NESTING = 64      # guests of one invocation, however generous its chain
    MAX_REQUEST = 64 << 20  # bytes of a capability request: more than the largest file that one carries
    MAX_ERROR = 4096      # characters of an exception that a guest gets to read

# Instructions of a slice that does not release the GIL: about 20 µs, what releasing and taking it back may cost.
cdef int64_t HELD_SLICE = 20_000
# Instructions between two looks at signals, without the GIL: about 5 ms.
cdef int64_t LONG_SLICE = 5_000_000
# Nanoseconds after which any slice ends, as one instruction may copy all of a guest's memory: with the GIL or on a
# driver's loop, and without.
cdef int64_t SHORT_SLICE_NS = 1_000_000
cdef int64_t LONG_SLICE_NS = 10_000_000
# Bytes from which copying or checking a guest's data does not hold the GIL.
cdef int64_t LONG_COPY = 64 << 10
# How long `advance` goes on serving inline capabilities before it lets its driver look around.
cdef int64_t TALK_NS = 1_000_000

cdef uint64_t ERROR_BIT = <uint64_t>1 << 63
cdef uint64_t REFUSED_BIT = <uint64_t>1 << 62

cdef Limits DEFAULT_LIMITS = Limits()
cdef uint64_t last_id = 0

# Guests alive in this process. No module global: one may die when those are gone.
cdef long live = 0


def live_guests():
    """Return how many guests are alive in this process; the tests' leak check reads it."""
    return live


cdef inline bint is_ascii(const uint8_t* data, Py_ssize_t size) noexcept nogil:
    cdef uint64_t word
    cdef uint64_t seen = 0
    while size >= 8:
        memcpy(&word, data, 8)
        seen |= word
        data += 8
        size -= 8
    while size > 0:
        seen |= <uint64_t>data[0]
        data += 1
        size -= 1
    return (seen & <uint64_t>0x8080808080808080) == 0


@cython.final
@cython.auto_pickle(False)
cdef class Interruption:
    """Says that an invocation is to end; shared with the calls that it made."""


@cython.final
@cython.auto_pickle(False)
cdef class Call:
    """What a capability may know of the invocation that calls it. Immutable, and it may outlive the invocation."""

    def __init__(self):
        raise TypeError("a Call is made by an invocation")

    @property
    def chain(self):
        """The budget of everything that started this invocation and that it starts."""
        if self._chain is None:
            self._chain = Chain()
        return self._chain

    @property
    def deadline_left(self):
        """Seconds until the invocation's deadline, 0.0 when it has passed."""
        return max(0, self.deadline_ns - monotonic_ns()) / 1e9

    @property
    def cancelled(self):
        """Whether the invocation was interrupted; a blocking capability may look and end early."""
        return self.interruption is not None and self.interruption.requested

    @property
    def tasks(self):
        """The driver's task group for work that outlives one capability call, None under a synchronous driver."""
        return self._tasks

    def __repr__(self):
        return f"<Call {self.invocation_id}, depth {self.depth}>"


@cython.final
@cython.auto_pickle(False)
cdef class HostCall:
    """A capability that the driver has to run: call its function, then `reply` or `reply_error`."""

    def __init__(self):
        raise TypeError("a HostCall is made by an invocation")

    def __repr__(self):
        return f"<HostCall {self.capability.name}, {len(self.request)} bytes>"


@cython.final
@cython.auto_pickle(False)
cdef class Bound:
    """A capability as one image has it."""

    def __init__(self, capability, bint refusable):
        self.capability = capability
        self.function = capability.function
        self.name = capability.name
        self.is_async = capability.is_async
        self.blocking = capability.blocking
        self.refusal = ERROR_BIT | REFUSED_BIT if refusable else ERROR_BIT


@cython.final
@cython.auto_pickle(False)
cdef class Guest:
    """One run of one image."""

    def __cinit__(self, Program program not None, HostTable table not None):
        global live
        live += 1
        self.machine = Machine(program, table)
        self.machine.hart.host_data = &self.session
        self.session.heap_start = program.heap_start
        self.session.heap_size = program.heap_size

    def __dealloc__(self):
        global live
        live -= 1
        session_free(&self.session)

    cdef int begin(self, Linked linked, str label, uint64_t pc, object args, Limits limits, bint raw) except -1:
        """Stand at an entry with fresh memory and these arguments."""
        global last_id
        cdef Session* s = &self.session
        if type(args) is str:
            args = (<str>args).encode()
        elif type(args) is not bytes:
            raise TypeError(f"args: expected bytes or str, got {type(args).__name__}")
        self.machine.enter(pc)
        last_id += 1
        self.id = last_id
        self.args = args
        s.args = <const uint8_t*>PyBytes_AS_STRING(args)
        s.args_size = PyBytes_GET_SIZE(args)
        s.output = limits.output
        s.log_left = limits.log
        self.linked = linked
        self.label = label
        self.limits = limits
        self.raw = raw
        self.started_ns = monotonic_ns()
        self.deadline_ns = self.started_ns + limits.deadline_ns
        self.charged = 0
        self.depth = 0
        self.state = RUNNABLE
        self.fresh = True
        return 0

    cdef void end(self) noexcept:
        """Give the memory back and forget everything of this invocation."""
        self.machine.leave()
        session_clear(&self.session)
        self.linked = None
        self.limits = None
        self.args = None
        self.reply = None
        self.context = None
        self.call = None
        self.chain = None
        self.label = None
        self.verdict = None

    cdef int run(self, int64_t slice) except -1:
        """Run up to `slice` instructions; long slices go without the GIL. Sets and returns `state`.

        Time ends a slice as well. One that has run for less than about 10,000 instructions' worth of work is not ended.
        """
        cdef Machine machine = self.machine
        cdef int64_t left = <int64_t>(self.limits.fuel - machine.instructions())
        cdef int64_t until = monotonic_ns() + (SHORT_SLICE_NS if slice < LONG_SLICE else LONG_SLICE_NS)
        cdef int64_t fuel
        cdef int state
        cdef Chain chain = self.chain_now()
        if chain is not None:
            left = min(left, chain.fuel_left)
        fuel = min(left, slice)
        until = min(until, self.deadline_ns)
        if fuel <= HELD_SLICE:
            state = machine.run(fuel, until)
        else:
            with nogil:
                state = machine.run(fuel, until)
        if state == EXIT_OUT_OF_FUEL and fuel < left or state == EXIT_DEADLINE and until < self.deadline_ns:
            state = SLICE_OVER
        self.state = state
        self.fresh = False
        if chain is not None:
            self.charge(chain)
        return state

    cdef Chain chain_now(self):
        """Return the chain: given at the start, or asked for by a capability since."""
        return self.call._chain if self.call is not None else self.chain

    cdef void charge(self, Chain chain) noexcept:
        cdef uint64_t used = self.machine.instructions()
        chain.take(<int64_t>(used - self.charged))
        self.charged = used

    cdef object outcome(self):
        """Return the Done, Failed or Trap of a guest that stopped for good."""
        cdef Machine machine = self.machine
        cdef uint64_t size = machine.hart.x[A1]
        cdef bytes data
        if self.verdict is not None:
            return self.verdict
        if self.state != EXIT_RETURNED:
            return self.trap()
        if self.session.failed:
            return failed(session_message(&self.session), self.duration_ns(), machine.instructions())
        if size > <uint64_t>self.limits.output:
            machine.hart.ip -= 1  # here and below: the trap is the return's, which the machine has passed
            return self.explain(TrapCode.OUTPUT_LIMIT, f"result of {size} bytes, the limit is {self.limits.output}")
        data = self.copy_in(machine.hart.x[A0], size)
        if data is None:
            machine.hart.ip -= 1
            return machine.trap()
        if not self.raw and not is_ascii(<const uint8_t*>PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data)):
            try:
                data.decode()
            except UnicodeDecodeError as error:
                machine.hart.ip -= 1
                return self.explain(TrapCode.BAD_RESULT, f"result is not UTF-8 at byte {error.start}")
        return done(data, self.duration_ns(), machine.instructions())

    cdef int64_t duration_ns(self) noexcept nogil:
        return monotonic_ns() - self.started_ns

    cdef bytes copy_in(self, uint64_t address, uint64_t size):
        """Copy guest bytes; None, with the fault recorded in the machine, where the guest could not read them."""
        cdef Machine machine = self.machine
        cdef bytes data
        cdef char* at
        if not is_readable(&machine.hart, address, size):
            guest_read(&machine.hart, address, NULL, size)  # records the fault: it checks before it copies
            return None
        data = PyBytes_FromStringAndSize(NULL, size)
        at = PyBytes_AS_STRING(data)
        if size < <uint64_t>LONG_COPY:
            guest_read(&machine.hart, address, at, size)
        else:
            with nogil:
                guest_read(&machine.hart, address, at, size)
        return data

    cdef bytes take_request(self):
        """Copy the request of the capability call at which the guest stands; None after a bad pointer."""
        cdef bytes request = self.copy_in(self.machine.hart.x[A0], self.machine.hart.x[A1])
        if request is None:
            self.machine.hart.ip -= 1  # the trap is the ecall's, which the machine has passed
            self.state = EXIT_TRAP
        return request

    cdef void stage(self, bytes reply, uint64_t flags) noexcept:
        """Answer the capability call at which the guest stands."""
        self.reply = reply
        self.session.reply = <const uint8_t*>PyBytes_AS_STRING(reply)
        self.session.reply_size = PyBytes_GET_SIZE(reply)
        self.machine.hart.x[A0] = self.session.reply_size | flags
        self.state = RUNNABLE
        self.fresh = True

    cdef int stage_error(self, str message, uint64_t flags) except -1:
        if len(message) > MAX_ERROR:
            message = message[:MAX_ERROR] + "…"
        self.stage(message.encode("utf-8", "replace"), flags)
        return 0

    cdef object trap(self):
        """Make the Trap that says why this guest did not return."""
        if self.state == EXIT_OUT_OF_FUEL:
            if self.machine.instructions() < self.limits.fuel:
                return self.explain(TrapCode.OUT_OF_FUEL, "the chain has used all its fuel")
            return self.explain(TrapCode.OUT_OF_FUEL, f"all {self.limits.fuel} instructions are used")
        if self.state == EXIT_DEADLINE:
            return self.explain(TrapCode.DEADLINE, f"not finished after {self.duration_ns() / 1e9:.3g} s")
        if self.state == EXIT_INTERRUPTED:
            return self.explain(TrapCode.INTERRUPTED, "")
        return named(self.machine.trap())

    cdef object explain(self, code, str detail):
        """Make a Trap of ours at the place where the machine stands."""
        return self.machine.explain(code, self.machine.pc(), {"detail": detail})

    cdef Call facts(self, Interruption interruption):
        """Return the Call that capabilities of this invocation get."""
        cdef Call call = self.call
        if call is None:
            call = Call.__new__(Call)
            call.context = self.context
            call.tool = self.label
            call.depth = self.depth
            call.invocation_id = self.id
            call._chain = self.chain
            call.deadline_ns = self.deadline_ns
            call.interruption = interruption
            self.call = call
        return call


@cython.auto_pickle(False)
cdef class Linked:
    """An image with its capabilities bound, and the guests that wait for its next invocation.

    The base of `berm.Harness`, which loads and checks.
    """

    def __cinit__(self, Program program not None, HostTable table not None, dict entries not None,
                  tuple bound not None, log):
        self.program = program
        self.table = table
        self.entries = entries
        self.bound = bound
        self.log = log
        self.idle = []

    def __contains__(self, tool):
        return tool in self.entries

    @property
    def has_wake(self):
        """Whether the image exports `on_wake`."""
        return ON_WAKE in self.program.exports

    @property
    def has_notify(self):
        """Whether the image exports `on_notify`."""
        return ON_NOTIFY in self.program.exports

    def call(self, tool, args, *, limits=None, context=None, bint raw=False, chain=None, int depth=0):
        """Call a tool and wait for its outcome on this thread.

        `raw` admits a result that is not UTF-8; `context` reaches capabilities as `call.context`; `chain` and
        `depth` say what the call is part of. Blocking capabilities run here too.

        Raises:
            NoSuchTool: The image has no such tool.
            Trap: The guest died, or ran into its fuel or deadline.
            AsyncCapabilityError: The guest called a capability that has to be awaited.
        """
        return self.call_entry(tool, self.entry(tool), args, limits, context, raw, chain, depth)

    def wake(self, payload, *, limits=None, context=None, bint raw=False, chain=None, int depth=0):
        """Call `on_wake`, as `call` calls a tool.

        Raises:
            NoSuchEntry: The image has no `on_wake`.
            Trap: As call.
            AsyncCapabilityError: As call.
        """
        return self.call_entry(ON_WAKE, self.export(ON_WAKE), payload, limits, context, raw, chain, depth)

    def notify(self, payload, *, limits=None, context=None, bint raw=False, chain=None, int depth=0):
        """Call `on_notify`, as `call` calls a tool.

        Raises:
            NoSuchEntry: The image has no `on_notify`.
            Trap: As call.
            AsyncCapabilityError: As call.
        """
        return self.call_entry(ON_NOTIFY, self.export(ON_NOTIFY), payload, limits, context, raw, chain, depth)

    def start(self, tool, args, *, limits=None, context=None, bint raw=False, chain=None, int depth=0):
        """Return an Invocation of a tool that has not run yet.

        Raises:
            NoSuchTool: The image has no such tool.
        """
        return invocation_of(self.prepare(tool, self.entry(tool), args, limits, context, raw, chain, depth))

    def begin(self, tool, args, *, limits=None, context=None, bint raw=False, chain=None, int depth=0):
        """Run a tool's first slice, about 20 µs: return its Done or Failed, else the Invocation to go on with.

        As `start` and one `advance`, for drivers whose tools mostly end at once. The trap of a guest that died is
        raised by the Invocation's `advance`.

        Raises:
            NoSuchTool: The image has no such tool.
        """
        return self.first_slice(self.prepare(tool, self.entry(tool), args, limits, context, raw, chain, depth))

    def start_wake(self, payload, *, limits=None, context=None, bint raw=False, chain=None, int depth=0):
        """Return an Invocation of `on_wake` that has not run yet.

        Raises:
            NoSuchEntry: The image has no `on_wake`.
        """
        pc = self.export(ON_WAKE)
        return invocation_of(self.prepare(ON_WAKE, pc, payload, limits, context, raw, chain, depth))

    def start_notify(self, payload, *, limits=None, context=None, bint raw=False, chain=None, int depth=0):
        """Return an Invocation of `on_notify` that has not run yet.

        Raises:
            NoSuchEntry: The image has no `on_notify`.
        """
        pc = self.export(ON_NOTIFY)
        return invocation_of(self.prepare(ON_NOTIFY, pc, payload, limits, context, raw, chain, depth))

    cdef uint64_t entry(self, tool) except? 0:
        if type(tool) is not str:
            raise TypeError(f"tool: expected str, got {type(tool).__name__}")
        pc = self.entries.get(tool)
        if pc is None:
            raise NoSuchTool(tool, tuple(self.entries))
        return pc

    cdef uint64_t export(self, str name) except? 0:
        pc = self.program.exports.get(name)
        if pc is None:
            raise NoSuchEntry(name)
        return pc

    cdef Guest take(self):
        return self.idle.pop() if self.idle else Guest(self.program, self.table)

    cdef void give_back(self, Guest guest) noexcept:
        """End a guest and keep it, unless enough are kept or it was instrumented."""
        guest.end()
        if len(self.idle) < IDLE_GUESTS and guest.machine.hook is None and guest.machine.hart.counts == NULL:
            self.idle.append(guest)

    cdef object call_entry(self, str label, uint64_t pc, args, limits, context, bint raw, chain, int depth):
        """Run an entry to its end on this thread.

        Raises:
            Trap: The guest died or ran into a limit.
            AsyncCapabilityError: It called a capability that has to be awaited.
        """
        cdef object ended = self.first_slice(self.prepare(label, pc, args, limits, context, raw, chain, depth))
        return (<Invocation>ended).run() if type(ended) is Invocation else ended

    cdef object first_slice(self, Guest guest):
        """Run what does not release the GIL: return the Done or Failed, else an Invocation that goes on."""
        cdef object outcome
        if guest.run(HELD_SLICE) != EXIT_RETURNED or guest.session.log_size or guest.session.log_dropped:
            return invocation_of(guest)
        outcome = guest.outcome()
        if type(outcome) is Done or type(outcome) is Failed:
            self.give_back(guest)
            return outcome
        guest.verdict = outcome
        return invocation_of(guest)

    cdef Guest prepare(self, str label, uint64_t pc, args, limits, context, bint raw, chain, int depth):
        """Take a guest and stand it at an entry."""
        cdef Guest guest = self.take()
        try:
            guest.begin(self, label, pc, args, DEFAULT_LIMITS if limits is None else <Limits?>limits, raw)
            guest.context = context
            guest.depth = depth
            if chain is not None:
                if type(chain) is not Chain:
                    raise TypeError(f"chain: expected a Chain, got {type(chain).__name__}")
                guest.chain = <Chain>chain
                guest.deadline_ns = min(guest.deadline_ns, guest.chain.deadline_ns)
        except:
            self.give_back(guest)
            raise
        return guest


def link_table(entries):
    """Make the table of host calls and the capabilities by index, out of (name, capability, refusable)."""
    cdef HostTable table = HostTable()
    add_always_present(table)
    bound = [None] * len(table.names)
    for name, capability, refusable in entries:
        table.add_deferred(call_number(name), name)
        bound.append(Bound(capability, refusable))
    return table, tuple(bound)


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
            caller.stage((<Failed>result).message.encode("utf-8", "replace"), ERROR_BIT)
        elif self.interruption.requested:
            raise result
        else:
            logger.warning("%s", result.report())
            caller.stage_error(f"`{label}` died: {result.code.value}", ERROR_BIT)
        return None

    cdef int leave(self, Guest guest) except -1:
        """Take the guest that stopped for good off the stack, with its last words."""
        if guest.session.log_dropped:
            call = guest.facts(self.interruption)
            guest.linked.log(call, f"… {guest.session.log_dropped} log lines were cut or dropped")
        self.drop_last()
        return 0

    cdef void drop_last(self) noexcept:
        cdef Guest guest = <Guest>self.stack.pop()
        cdef Linked linked = guest.linked  # perhaps the last reference to it
        if not self.stack:
            self.instructions = guest.machine.instructions()
            self.duration_ns = guest.duration_ns()
            self.root_id = guest.id
        linked.give_back(guest)

    cdef void drop_all(self) noexcept:
        self.pending = None
        while self.stack:
            self.drop_last()

    cdef int deliver_log(self, Guest guest) except -1:
        """Hand the lines that the guest has logged to its image's log."""
        cdef Call call = guest.facts(self.interruption)
        cdef object log = guest.linked.log
        for line in session_take_log(&guest.session):
            log(call, line)
        return 0

    cdef object dispatch(self, Guest guest):
        """Run the capability that the guest called, or return it for the driver to run."""
        cdef Bound bound = <Bound>guest.linked.bound[guest.machine.hart.call_index]
        cdef Machine machine = guest.machine
        cdef bytes request
        cdef Call call
        cdef object result
        if machine.hart.x[A1] > MAX_REQUEST and is_readable(&machine.hart, machine.hart.x[A0], machine.hart.x[A1]):
            text = f"request of {machine.hart.x[A1]} bytes, the limit is {MAX_REQUEST}"
            guest.stage_error(text, ERROR_BIT)
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
            self.refuse(guest, error)
        else:
            self.accept(guest, result)
        return None

    cdef int accept(self, Guest guest, object result) except -1:
        """Stage what the capability returned, or go on with the invocation that it returned."""
        if PyBytes_Check(result):
            if PyBytes_GET_SIZE(result) > guest.limits.output:
                size = PyBytes_GET_SIZE(result)
                guest.stage_error(f"reply of {size} bytes, the limit is {guest.limits.output}", ERROR_BIT)
            else:
                guest.stage(<bytes>result, 0)
        elif type(result) is Invocation:
            self.nest(guest, <Invocation>result)
        else:
            name = (<Bound>guest.linked.bound[guest.machine.hart.call_index]).name
            if inspect.iscoroutine(result):
                result.close()
            logger.error("capability %s returned %s, expected bytes", name, type(result).__name__)
            guest.stage_error(f"capability `{name}` returned {type(result).__name__}, expected bytes", ERROR_BIT)
        return 0

    cdef int refuse(self, Guest guest, object error) except -1:
        """Stage what a capability raised as an error, marked where the guest may know a refusal."""
        cdef Bound bound = <Bound>guest.linked.bound[guest.machine.hart.call_index]
        cdef uint64_t flags = bound.refusal if isinstance(error, Refused) else ERROR_BIT
        logger.debug("capability %s raised", bound.name, exc_info=error)
        guest.stage_error(text_of(error), flags)
        return 0

    cdef int nest(self, Guest guest, Invocation child) except -1:
        """Run a started invocation in place of its caller, which waits below it."""
        cdef Guest inner
        if child.busy or len(child.stack) != 1 or (<Guest>child.stack[0]).machine.instructions() != 0:
            logger.error("a capability returned an invocation that is being driven already")
            guest.stage_error("the capability returned an invocation that cannot be run", ERROR_BIT)
            return 0
        if len(self.stack) >= MAX_NESTING:
            child.drop_all()
            guest.stage_error(f"more than {MAX_NESTING} harnesses wait for each other", ERROR_BIT)
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
        self.refuse(self.waiting(), error)

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


def named(trap):
    """Return the trap of an unknown call with the call's name, where the ABI knows one for its number."""
    name = call_name(trap.number) if trap.code is TrapCode.UNKNOWN_HOST_CALL else None
    if name is None:
        return trap
    return Trap(**{**trap.__dict__, "name": name, "detail": advice(name)})


cdef str text_of(object error):
    """Return an exception's text, whatever its own methods do."""
    try:
        text = "".join((str(error),))
    except Exception:
        text = ""
    return text or type(error).__name__
