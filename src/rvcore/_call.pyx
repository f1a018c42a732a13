# cython: language_level=3
"""A call as a value: run it for some fuel, see why it stopped, resume it.

Python host functions run here, between two slices of the loop, so the loop itself never needs the GIL.
"""

import enum
from dataclasses import dataclass

cimport cython
from cpython.exc cimport PyErr_CheckSignals
from cpython.pythread cimport PyThread_get_thread_ident
from libc.stdint cimport int64_t, uint64_t

cdef extern from "Python.h":
    long long PyLong_AsLongLongAndOverflow(object value, int* overflow) except? -1
    bint PyLong_CheckExact(object value)

from rvcore._hart cimport (
    EXIT_DEADLINE, EXIT_HOST_CALL, EXIT_INTERRUPTED, EXIT_OUT_OF_FUEL, EXIT_RETURNED, EXIT_TRAP,
    UNLIMITED,
)
from rvcore._interp cimport monotonic_ns
from rvcore._machine cimport Machine
from rvcore._store cimport Store

from rvcore._errors import LinkError
from rvcore._traps import TrapCode

cdef enum:
    # Short calls never give the GIL up: taking it back costs more than they do. Picked: about 20 µs.
    HELD_SLICE = 20000
    # Between two looks at Python's signals. Picked: about 10 ms.
    FREE_SLICE = 10000000
    # Nanoseconds that end either as well: what an instruction or a native host call costs has other bounds.
    HELD_NS = 1_000_000
    FREE_NS = 20_000_000
    # Served host calls between two looks at signals. Picked: well under 1 ms.
    SIGNAL_CALLS = 1024


class ExitReason(enum.Enum):
    """Why a run stopped."""

    RETURNED = "returned"
    HOST_CALL = "host call"
    OUT_OF_FUEL = "out of fuel"
    INTERRUPTED = "interrupted"
    TRAP = "trap"


@dataclass(frozen=True, slots=True)
class Exit:
    """How one `Call.run` ended; all but RETURNED and TRAP can be run again."""

    reason: ExitReason
    values: tuple = ()        # RETURNED: a0 and a1
    number: object = None     # HOST_CALL: a7
    name: str = ""            # HOST_CALL: the name it was defined with
    args: tuple = ()          # HOST_CALL: a0 … a5
    trap: object = None       # TRAP


@cython.final
@cython.auto_pickle(False)
@cython.freelist(8)
cdef class Caller:
    """The guest as a host function sees it; dead once the function returns."""

    cdef Store store

    def __cinit__(self, Store store):
        self.store = store

    cdef Machine machine(self):
        if self.store is None:
            raise ValueError("the caller is gone: its host function has returned")
        return self.store.linked()

    @property
    def data(self):
        """The store's data."""
        self.machine()
        return self.store.data

    @property
    def args(self):
        """The argument registers a0 … a5."""
        cdef Machine machine = self.machine()
        return tuple([machine.hart.x[10 + i] for i in range(6)])

    def read(self, address, size):
        """Return guest bytes.

        Raises:
            ValueError: The guest itself could not read them.
        """
        return self.machine().read(address, address + size)

    def write(self, address, data):
        """Write guest bytes.

        Raises:
            ValueError: The guest itself could not write them.
        """
        self.machine().write(data, address)


cdef int64_t fuel_of(value) except -1:
    """Return a count of instructions, as large as can be counted down.

    Raises:
        ValueError: It is negative.
    """
    if value < 0:
        raise ValueError(f"expected None or a count of instructions, got {value} - at `fuel`")
    return min(value, UNLIMITED)


cdef uint64_t register(value) except? 0:
    """Return an argument as its 64 bits.

    Raises:
        TypeError: No integer.
        ValueError: It does not fit.
    """
    cdef int overflow = 0
    cdef long long small
    if PyLong_CheckExact(value):
        small = PyLong_AsLongLongAndOverflow(value, &overflow)
        if overflow == 0:
            return <uint64_t>small
    if not isinstance(value, int):
        raise TypeError(f"expected an integer, got `{type(value).__name__}`")
    if not -(1 << 63) <= value < 1 << 64:
        raise ValueError(f"expected a 64-bit integer, got {value}")
    return <uint64_t>(value & 0xFFFFFFFFFFFFFFFF)


@cython.final
@cython.auto_pickle(False)
cdef class Call:
    """One call of a guest function."""

    cdef readonly Store store
    cdef bint waiting       # a deferred host call waits for its result
    cdef object ending      # the last Exit, when it was final
    cdef uint64_t address   # guest address of the function

    def __cinit__(self, Store store not None, uint64_t address, tuple args):
        cdef Machine machine = store.linked()
        if len(args) > 8:
            raise TypeError(f"expected at most 8 arguments, got {len(args)}")
        values = [register(value) for value in args]
        if store.runner != 0:
            raise ValueError("store is in use: a host function cannot call into its own store")
        self.store = store
        self.address = address
        machine.begin(address)
        for i, value in enumerate(values):
            machine.hart.x[10 + i] = value
        store.call = self

    @property
    def instructions(self):
        """Instructions retired so far."""
        return self.current().instructions()

    cdef Machine current(self):
        cdef Machine machine = self.store.linked()
        if self.store.call is not self:
            raise ValueError("the store has gone on to another call")
        return machine

    def resume(self, value=0):
        """Give a deferred host call its result; the next `run` goes on behind it.

        Raises:
            ValueError: No host call waits, or the value does not fit 64 bits.
        """
        cdef Machine machine = self.current()
        if not self.waiting:
            raise ValueError("no host call waits for a result")
        machine.hart.x[10] = register(value)
        self.waiting = False

    def run(self, fuel=None):
        """Run until an exit, for `fuel` instructions or what the store has left.

        Raises:
            ValueError: The store is closed, used by another thread or call, or the call cannot be run again.
            BaseException: Whatever a Python host function raised; the call is over then. What a signal handler
                raises does not end it.
        """
        cdef Machine machine = self.current()
        cdef Store store = self.store
        cdef int64_t given = UNLIMITED if fuel is None else fuel_of(fuel)
        if self.ending is not None:
            raise ValueError(f"the call has ended: {self.ending}")
        if self.waiting:
            raise ValueError("a host call waits for its result")
        if store.runner != 0:
            raise ValueError("store is in use: a host function cannot run its own store")
        store.runner = <long>PyThread_get_thread_ident()
        try:
            return self.run_slices(machine, given)
        finally:
            store.runner = 0

    cdef object run_slices(self, Machine machine, int64_t left):
        cdef Store store = self.store
        cdef int64_t used
        cdef int reason
        cdef uint64_t before
        cdef bint first = True
        cdef unsigned int served = 0
        while True:
            before = machine.hart.retired
            if first:
                reason = machine.run(min(left, store.fuel, HELD_SLICE), monotonic_ns() + HELD_NS)
                first = False
            else:
                PyErr_CheckSignals()
                with nogil:
                    reason = machine.run(min(left, store.fuel, FREE_SLICE), monotonic_ns() + FREE_NS)
            used = <int64_t>(machine.hart.retired - before)
            left -= used
            # The store's fuel may have been set anew while the slice ran.
            if store.fuel != UNLIMITED:
                store.fuel = max(0, store.fuel - used)
            if reason == EXIT_OUT_OF_FUEL:
                if left <= 0 or store.fuel <= 0:
                    return Exit(ExitReason.OUT_OF_FUEL)
            elif reason == EXIT_DEADLINE:
                pass  # the slice's, not the call's
            elif reason == EXIT_HOST_CALL:
                func = store.linkage.functions[machine.hart.call_index]
                if func is None:
                    return self.deferred(machine)
                self.serve(machine, func)
                # The next stretch is likely as short: it keeps the GIL too, until one proves long.
                first = True
                served += 1
                if served % SIGNAL_CALLS == 0:
                    PyErr_CheckSignals()
            elif reason == EXIT_RETURNED:
                self.ending = "it returned"
                return Exit(ExitReason.RETURNED, values=(machine.hart.x[10], machine.hart.x[11]))
            elif reason == EXIT_TRAP:
                self.ending = "it trapped"
                return Exit(ExitReason.TRAP, trap=machine.trap())
            else:
                return Exit(ExitReason.INTERRUPTED)

    cdef object deferred(self, Machine machine):
        self.waiting = True
        return Exit(
            ExitReason.HOST_CALL,
            number=machine.hart.call_number,
            name=machine.host.names[machine.hart.call_index],
            args=tuple([machine.hart.x[10 + i] for i in range(6)]),
        )

    cdef int serve(self, Machine machine, func) except -1:
        """Run a Python host function and put its result into a0."""
        cdef Caller caller = Caller.__new__(Caller, self.store)
        cdef uint64_t* x = machine.hart.x
        try:
            value = func(caller, x[10], x[11], x[12], x[13], x[14], x[15])
            x[10] = 0 if value is None else register(value)
        except BaseException as error:
            self.ending = f"a host function raised {type(error).__name__}"
            raise
        finally:
            caller.store = None
        return 0

    def finish(self):
        """Run to the end and return (a0, a1).

        Raises:
            Trap: The guest trapped, ran out of fuel or was interrupted.
            LinkError: The guest made a deferred host call.
            BaseException: Whatever a Python host function raised.
        """
        done = self.run()
        if done.reason is ExitReason.RETURNED:
            return done.values
        if done.reason is ExitReason.TRAP:
            raise done.trap
        if done.reason is ExitReason.HOST_CALL:
            raise LinkError("a deferred host call needs a driver: see Func.start", name=done.name, number=done.number)
        code = TrapCode.OUT_OF_FUEL if done.reason is ExitReason.OUT_OF_FUEL else TrapCode.INTERRUPTED
        raise self.current().stopped(code)
