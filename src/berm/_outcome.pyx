# cython: language_level=3
"""Limits of an invocation and its two outcomes that are no error: frozen, and cheap to make.

These are extension types because one is built for every call; everything else that they do, a frozen dataclass
would do as well. The third outcome is a `Trap`.
"""

cimport cython
from libc.stdint cimport int64_t, uint64_t

MAX_FUEL = 1 << 62
MAX_DEADLINE = 1_000_000_000.0  # seconds; about 32 years, so that nanoseconds fit 64 bits
MAX_BYTES = 1 << 40


def check_count(str name, value, most):
    """Check one bound of Limits.

    Raises:
        TypeError: if it is no integer.
        ValueError: if it is out of range.
    """
    if type(value) is not int:
        raise TypeError(f"{name}: expected an int, got {type(value).__name__}")
    if not 1 <= value <= most:
        raise ValueError(f"{name}: expected 1 to {most}, got {value}")


@cython.final
@cython.auto_pickle(False)
cdef class Limits:
    """What one invocation may use: `fuel` in instructions, `deadline` in seconds, `output` and `log` in bytes.

    `output` bounds the result, a failure's message and each staged reply of a capability; `log` all log lines
    of an invocation together. Guest memory is the engine's `Config`.

    Raises:
        TypeError: if a value is of the wrong type.
        ValueError: if a value is out of range.
    """

    def __init__(self, *, fuel=20_000_000_000, deadline=60.0, output=64 << 20, log=64 << 10):
        check_count("fuel", fuel, MAX_FUEL)
        check_count("output", output, MAX_BYTES)
        check_count("log", log, MAX_BYTES)
        if type(deadline) is not float and type(deadline) is not int:
            raise TypeError(f"deadline: expected seconds, got {type(deadline).__name__}")
        if not 0 < deadline <= MAX_DEADLINE:
            raise ValueError(f"deadline: expected more than 0 and at most {MAX_DEADLINE:g} seconds, got {deadline}")
        self.fuel = fuel
        self.deadline = deadline
        self.output = output
        self.log = log
        self.deadline_ns = <int64_t>(self.deadline * 1_000_000_000)

    def _values(self):
        return self.fuel, self.deadline, self.output, self.log

    def __eq__(self, other):
        return self._values() == (<Limits>other)._values() if type(other) is Limits else NotImplemented

    def __hash__(self):
        return hash(self._values())

    def __repr__(self):
        return f"Limits(fuel={self.fuel}, deadline={self.deadline}, output={self.output}, log={self.log})"

    def __reduce__(self):
        return _limits, self._values()


def _limits(fuel, deadline, output, log):
    return Limits(fuel=fuel, deadline=deadline, output=output, log=log)


@cython.final
@cython.freelist(32)
@cython.auto_pickle(False)
cdef class Done:
    """The guest returned: `data` is its result, `text` the same as `str`."""

    __match_args__ = ("data",)

    def __init__(self, bytes data not None, int64_t duration_ns=0, uint64_t instructions=0):
        self.data = data
        self.duration_ns = duration_ns
        self.instructions = instructions

    @property
    def text(self):
        """Decode the result.

        Raises:
            UnicodeDecodeError: if it is not UTF-8, which only `raw=True` admits.
        """
        return self.data.decode()

    def _values(self):
        return self.data, self.duration_ns, self.instructions

    def __eq__(self, other):
        return self._values() == (<Done>other)._values() if type(other) is Done else NotImplemented

    def __hash__(self):
        return hash(self._values())

    def __repr__(self):
        cdef str rest = "…" if len(self.data) > 60 else ""
        return f"Done({self.data[:60]!r}{rest}, duration_ns={self.duration_ns}, instructions={self.instructions})"

    def __reduce__(self):
        return Done, self._values()


@cython.final
@cython.freelist(8)
@cython.auto_pickle(False)
cdef class Failed:
    """The guest said that it failed: `message` is for the model."""

    __match_args__ = ("message",)

    def __init__(self, str message not None, int64_t duration_ns=0, uint64_t instructions=0):
        self.message = message
        self.duration_ns = duration_ns
        self.instructions = instructions

    def _values(self):
        return self.message, self.duration_ns, self.instructions

    def __eq__(self, other):
        return self._values() == (<Failed>other)._values() if type(other) is Failed else NotImplemented

    def __hash__(self):
        return hash(self._values())

    def __repr__(self):
        cdef str rest = "…" if len(self.message) > 60 else ""
        return f"Failed({self.message[:60]!r}{rest}, duration_ns={self.duration_ns}, instructions={self.instructions})"

    def __reduce__(self):
        return Failed, self._values()


cdef Done done(bytes data, int64_t duration_ns, uint64_t instructions):
    """Make a Done without going through its constructor's argument parsing."""
    cdef Done outcome = Done.__new__(Done)
    outcome.data = data
    outcome.duration_ns = duration_ns
    outcome.instructions = instructions
    return outcome


cdef Failed failed(str message, int64_t duration_ns, uint64_t instructions):
    """Make a Failed, as `done` does."""
    cdef Failed outcome = Failed.__new__(Failed)
    outcome.message = message
    outcome.duration_ns = duration_ns
    outcome.instructions = instructions
    return outcome
