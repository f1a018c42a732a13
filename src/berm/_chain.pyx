# cython: language_level=3
"""The budget that invocations share when one starts the next: how deep, how many, how much, until when.

A chain is handed down as an argument (`chain=`, `depth=`); nobody looks it up. This file only counts: whoever
starts an invocation asks `admit`, whoever runs one charges what it used. An extension type, as one is made for every
call that begins a chain; its methods keep the GIL, which is what makes it safe to share between threads.
"""

cimport cython
from libc.stdint cimport int64_t

from rvcore._interp cimport monotonic_ns

from berm._outcome import MAX_DEADLINE as _MAX_DEADLINE, MAX_FUEL as _MAX_FUEL

cdef int64_t last_id = 0
cdef double LONGEST_S = _MAX_DEADLINE
cdef object MOST = _MAX_FUEL


cdef int64_t count(str name, value) except -1:
    """Return one bound of a chain.

    Raises:
        TypeError: if it is no integer.
        ValueError: if it is out of range.
    """
    if type(value) is not int:
        raise TypeError(f"{name}: expected an int, got {type(value).__name__}")
    if not 1 <= value <= MOST:
        raise ValueError(f"{name}: expected 1 to {MOST}, got {value}")
    return value


@cython.final
@cython.freelist(32)
@cython.auto_pickle(False)
cdef class Chain:
    """What a chain of invocations may still do; safe to share between threads.

    `deadline` is in seconds from now; `deadline_ns` is the same as an instant of the monotonic clock.

    Raises:
        TypeError: if a count is no integer.
        ValueError: if a bound is out of its range.
    """

    def __init__(self, *, max_depth=8, invocations=256, fuel=100_000_000_000, deadline=3600.0):
        global last_id
        cdef double seconds = deadline
        if not 0 < seconds <= LONGEST_S:
            raise ValueError(f"deadline: expected more than 0 and at most {LONGEST_S:g} seconds, got {deadline}")
        self.max_depth = count("max_depth", max_depth)
        self.invocations_left = count("invocations", invocations)
        self.fuel_left = count("fuel", fuel)
        self.deadline_ns = monotonic_ns() + <int64_t>(seconds * 1_000_000_000)
        last_id += 1
        self.id = last_id

    def admit(self, int64_t depth):
        """Count one invocation at `depth`, or return why there must be none."""
        if depth > self.max_depth:
            return f"depth {depth} is beyond the chain's {self.max_depth}"
        if self.invocations_left < 1:
            return "the chain has started all the invocations that it may"
        if self.fuel_left < 1:
            return "the chain has used all its fuel"
        if monotonic_ns() >= self.deadline_ns:
            return "the chain's deadline has passed"
        self.invocations_left -= 1
        return None

    def charge(self, int64_t instructions):
        """Take instructions that an invocation used out of the budget."""
        self.take(instructions)

    cdef void take(self, int64_t instructions) noexcept:
        self.fuel_left = max(0, self.fuel_left - instructions)

    def __repr__(self):
        return f"<Chain {self.id}, {self.invocations_left} invocations left>"
