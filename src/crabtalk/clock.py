"""Where time comes from: nothing else in the daemon asks the machine for it.

Two kinds, never mixed: *wall* instants are Unix milliseconds, UTC, and may step; *monotonic* seconds only
grow and are trio's own. Logic takes a `Clock`; tests give it one that they move.
"""

import time
from typing import Protocol

import trio


class Clock(Protocol):
    """Tells the time, and waits for it."""

    def now_ms(self) -> int:
        """Return the wall clock: Unix milliseconds, UTC."""

    def monotonic(self) -> float:
        """Return seconds that only grow; `trio.current_time` under trio."""


class SystemClock:
    """The machine's clocks."""

    def now_ms(self) -> int:
        """Return the wall clock: Unix milliseconds, UTC."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Return trio's clock."""
        return trio.current_time()


class LoopClock(SystemClock):
    """The machine's clocks for one run of trio's loop, whose clock is found once and not at each look."""

    def __init__(self) -> None:
        """Find the clock of the run that this is called in."""
        self._trio = trio.lowlevel.current_clock()

    def monotonic(self) -> float:
        """Return trio's clock."""
        return self._trio.current_time()
