# cython: language_level=3
"""One run of one image: a machine with its session, from its entry to what came of it.

A `Guest` stands at a capability call until one of the `reply_` methods answers it. Guests are pooled by image, and
cleared when they go back. Which capability a guest may call is its pool's; who runs that, this file does not know.

A guest's state is only touched with the GIL held, or by the one thread that is inside `run`.
"""

import logging

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from rvcore._interp cimport monotonic_ns
from rvcore._machine cimport (
    EXIT_DEADLINE, EXIT_INTERRUPTED, EXIT_OUT_OF_FUEL, EXIT_RETURNED, EXIT_TRAP, HostTable, Machine, guest_read,
)
from rvcore._memory cimport is_readable
from rvcore._program cimport Program

from berm._abi cimport Session, session_clear, session_free, session_message
from berm._call cimport Bound, Call, Interruption
from berm._chain cimport Chain
from berm._outcome cimport Limits, done, failed

from rvcore._traps import TrapCode, Trap

from berm.errors import Refused
from berm.fnv import advice, call_name

logger = logging.getLogger("berm.guest")

cdef enum:
    A0 = 10
    A1 = 11
    IDLE_GUESTS = 8       # guests that one image keeps for its next invocations
    MAX_ERROR = 4096      # characters of an exception that a guest gets to read

# Nanoseconds after which any slice ends, as some instructions cost far more than others: with the GIL or on a
# driver's loop, and without.
cdef int64_t SHORT_SLICE_NS = 1_000_000
cdef int64_t LONG_SLICE_NS = 10_000_000
# Bytes from which copying or checking a guest's data does not hold the GIL.
cdef int64_t LONG_COPY = 64 << 10

cdef uint64_t ERROR_BIT = <uint64_t>1 << 63
cdef uint64_t REFUSED_BIT = <uint64_t>1 << 62

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

    cdef int begin(self, GuestPool pool, str label, uint64_t pc, object args, Limits limits, bint raw) except -1:
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
        self.pool = pool
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
        self.pool = None
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

    cdef int reply_with(self, bytes reply) except -1:
        """Answer with what a capability returned."""
        cdef int64_t size = PyBytes_GET_SIZE(reply)
        if size > self.limits.output:
            return self.reply_error(f"reply of {size} bytes, the limit is {self.limits.output}")
        self.stage(reply, 0)
        return 0

    cdef int reply_error(self, str message) except -1:
        """Answer with an error."""
        self.stage(shortened(message), ERROR_BIT)
        return 0

    cdef int reply_failed(self, str message) except -1:
        """Answer with all that a harness said when it failed."""
        self.stage(message.encode("utf-8", "replace"), ERROR_BIT)
        return 0

    cdef int reply_raised(self, object error) except -1:
        """Answer with what a capability raised, marked where the guest may know a refusal."""
        cdef Bound bound = self.called()
        cdef bint refused = bound.refusable and isinstance(error, Refused)
        logger.debug("capability %s raised", bound.name, exc_info=error)
        self.stage(shortened(text_of(error)), ERROR_BIT | REFUSED_BIT if refused else ERROR_BIT)
        return 0

    cdef Bound called(self):
        """Return the capability at whose call the guest stands."""
        return <Bound>self.pool.bound[self.machine.hart.call_index]

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


@cython.final
@cython.auto_pickle(False)
cdef class GuestPool:
    """Makes the guests of one image, and keeps some that wait for its next invocation."""

    def __cinit__(self, Program program not None, HostTable table not None, tuple bound not None, log):
        self.program = program
        self.table = table
        self.bound = bound
        self.log = log
        self.idle = []

    cdef Guest take(self):
        return self.idle.pop() if self.idle else Guest(self.program, self.table)

    cdef void give_back(self, Guest guest) noexcept:
        """End a guest and keep it, unless enough are kept or it was instrumented."""
        guest.end()
        if len(self.idle) < IDLE_GUESTS and guest.machine.hook is None and guest.machine.hart.counts == NULL:
            self.idle.append(guest)


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


cdef bytes shortened(str message):
    """Return an error's text as a guest gets to read it."""
    if len(message) > MAX_ERROR:
        message = message[:MAX_ERROR] + "…"
    return message.encode("utf-8", "replace")
