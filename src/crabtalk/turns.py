"""Threads for guests, in turns: a bounded number, and no agent gets them all for long.

Owns the worker threads' budget. A guest that computes holds a thread for one turn, then stands in line again
behind the guests of other agents, so that what one agent starts slows down the others as little as can be.
As in the queue, what somebody waits for goes before wakes and events, which get one turn in so many.
"""

import math
import os
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final, TypeVar

import trio

T = TypeVar("T")

_TURNS: Final = 8  # of what somebody waits for, to one of the background; picked, not measured
_ATTENDED: Final = 0
_BACKGROUND: Final = 1


class Turns:
    """So many threads at once, given to agents in turn, and within one in the order in which they asked."""

    def __init__(self, threads: int) -> None:
        if threads < 1:
            raise ValueError(f"threads: expected 1 or more, got {threads}")
        self.threads = threads
        self._free = threads
        self._limiter = trio.CapacityLimiter(threads)  # never waited for: `_free` counts the same
        # By class, then by agent.
        self._waiting: tuple[OrderedDict[str, deque[trio.Event]], ...] = (OrderedDict(), OrderedDict())
        self._passed_over = 0  # turns given to the first class while the second one waited

    @property
    def in_use(self) -> int:
        """Threads that are given to somebody."""
        return self.threads - self._free

    @property
    def waiting(self) -> int:
        """How many stand in line."""
        return sum(len(line) for lines in self._waiting for line in lines.values())

    def left(self, *, attended: bool) -> float:
        """Return how many turns whoever holds a thread may take before others have theirs: 1, or more.

        May be asked from any thread.
        """
        if self._waiting[_ATTENDED]:
            return 1
        if self._waiting[_BACKGROUND]:
            return _TURNS if attended else 1
        return math.inf

    async def acquire(self, agent_id: str, *, attended: bool = True) -> None:
        """Wait until it is this agent's turn, then hold a thread until `release`.

        `attended`: somebody waits for what it is for.
        """
        if self._free and not any(self._waiting):
            self._free -= 1
            return
        event = trio.Event()
        lines = self._waiting[_ATTENDED if attended else _BACKGROUND]
        lines.setdefault(agent_id, deque()).append(event)
        try:
            await event.wait()
        except trio.Cancelled:
            if event.is_set():
                self.release()
            else:
                _leave(lines, agent_id, event)
            raise

    async def run(self, work: Callable[[], T]) -> T:
        """Run `work` in the thread that was acquired.

        **Cancellation:** has no effect here: the thread is waited for.
        """
        return await trio.to_thread.run_sync(work, limiter=self._limiter)

    def release(self) -> None:
        """Give a thread to whoever is next, or back."""
        attended, background = self._waiting
        if background and (not attended or self._passed_over >= _TURNS):
            lines = background
            self._passed_over = 0
        elif attended:
            lines = attended
            self._passed_over = self._passed_over + 1 if background else 0
        else:
            self._free += 1
            return
        agent_id, line = lines.popitem(last=False)
        line.popleft().set()
        if line:
            lines[agent_id] = line


def _leave(lines: OrderedDict[str, deque[trio.Event]], agent_id: str, event: trio.Event) -> None:
    line = lines[agent_id]
    line.remove(event)
    if not line:
        del lines[agent_id]


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Threads:
    """What the guests of a daemon share: threads to compute in, and threads for capabilities that block."""

    def __init__(self, computing: int, blocking: int) -> None:
        """Bound both; 0 computing threads: one for each core."""
        self.computing = Turns(computing or _cores())
        self.blocking = Turns(blocking)
