"""The budget that invocations share when one starts the next: how deep, how many, how much, until when.

A chain is handed down as an argument (`chain=`, `depth=`); nobody looks it up. This file only counts: whoever
starts an invocation asks `refusal`, whoever runs one charges what it used.
"""

import itertools
import time
from threading import Lock

from berm._outcome import MAX_DEADLINE, MAX_FUEL

_IDS = itertools.count(1)
_NS = 1_000_000_000


class Chain:
    """What a chain of invocations may still do; safe to share between threads."""

    __slots__ = ("_fuel", "_invocations", "_lock", "deadline_ns", "id", "max_depth")

    def __init__(
        self,
        *,
        max_depth: int = 8,
        invocations: int = 256,
        fuel: int = 100_000_000_000,
        deadline: float = 3600.0,
    ) -> None:
        """Start the chain's clock.

        Raises:
            ValueError: if a bound is out of its range.
        """
        # Written out, as a chain is made for every call that begins one.
        if not (0 < max_depth <= MAX_FUEL and 0 < invocations <= MAX_FUEL and 0 < fuel <= MAX_FUEL):
            _refuse(max_depth=max_depth, invocations=invocations, fuel=fuel)
        if not 0 < deadline <= MAX_DEADLINE:
            raise ValueError(
                f"deadline: expected more than 0 and at most {MAX_DEADLINE:g} seconds, got {deadline}"
            )
        self.id = next(_IDS)
        self.max_depth = max_depth
        self.deadline_ns = time.monotonic_ns() + int(deadline * _NS)  # an instant of the monotonic clock
        self._invocations = invocations
        self._fuel = fuel
        self._lock = Lock()

    @property
    def fuel_left(self) -> int:
        """Instructions that the chain may still use."""
        return self._fuel

    @property
    def invocations_left(self) -> int:
        """Invocations that the chain may still start."""
        return self._invocations

    def admit(self, depth: int) -> str | None:
        """Count one invocation at `depth`, or return why there must be none."""
        with self._lock:
            if depth > self.max_depth:
                return f"depth {depth} is beyond the chain's {self.max_depth}"
            if self._invocations < 1:
                return "the chain has started all the invocations that it may"
            if self._fuel < 1:
                return "the chain has used all its fuel"
            if time.monotonic_ns() >= self.deadline_ns:
                return "the chain's deadline has passed"
            self._invocations -= 1
            return None

    def charge(self, instructions: int) -> None:
        """Take instructions that an invocation used out of the budget."""
        with self._lock:
            self._fuel = max(0, self._fuel - instructions)


def _refuse(**counts: int) -> None:
    """Say which of these is out of its range.

    Raises:
        ValueError: if one is.
    """
    for name, value in counts.items():
        if not 1 <= value <= MAX_FUEL:
            raise ValueError(f"{name}: expected 1 to {MAX_FUEL}, got {value}")
