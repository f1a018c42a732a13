"""Threads for guests, in turns: a bounded number, and no agent gets them all for long.

Owns the worker threads' budget. A guest that computes holds a thread for one turn, then stands in line again
behind the guests of other agents, so that what one agent starts slows down the others as little as can be.
"""

import os
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import TypeVar

import trio

T = TypeVar("T")


class Turns:
    """So many threads at once, given to agents in turn, and within one in the order in which they asked."""

    def __init__(self, threads: int) -> None:
        if threads < 1:
            raise ValueError(f"threads: expected 1 or more, got {threads}")
        self.threads = threads
        self._free = threads
        self._limiter = trio.CapacityLimiter(threads)  # never waited for: `_free` counts the same
        self._waiting: OrderedDict[str, deque[trio.Event]] = OrderedDict()  # by agent

    @property
    def in_use(self) -> int:
        """Threads that are given to somebody."""
        return self.threads - self._free

    @property
    def waiting(self) -> int:
        """How many stand in line."""
        return sum(map(len, self._waiting.values()))

    @property
    def contended(self) -> bool:
        """Whether somebody waits for a turn; may be asked from any thread."""
        return bool(self._waiting)

    async def acquire(self, agent_id: str) -> None:
        """Wait until it is this agent's turn, then hold a thread until `release`."""
        if self._free and not self._waiting:
            self._free -= 1
            return
        event = trio.Event()
        line = self._waiting.setdefault(agent_id, deque())
        line.append(event)
        try:
            await event.wait()
        except trio.Cancelled:
            if event.is_set():
                self.release()
            else:
                self._leave(agent_id, event)
            raise

    async def run(self, work: Callable[[], T]) -> T:
        """Run `work` in the thread that was acquired.

        **Cancellation:** has no effect here: the thread is waited for.
        """
        return await trio.to_thread.run_sync(work, limiter=self._limiter)

    def release(self) -> None:
        """Give a thread to whoever is next, or back."""
        if not self._waiting:
            self._free += 1
            return
        agent_id, line = self._waiting.popitem(last=False)
        line.popleft().set()
        if line:
            self._waiting[agent_id] = line

    def _leave(self, agent_id: str, event: trio.Event) -> None:
        line = self._waiting[agent_id]
        line.remove(event)
        if not line:
            del self._waiting[agent_id]


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Threads:
    """What the guests of a daemon share: threads to compute in, and threads for capabilities that block."""

    def __init__(self, computing: int, blocking: int) -> None:
        """Bound both; 0 computing threads: one for each core."""
        self.computing = Turns(computing or _cores())
        self.blocking = Turns(blocking)
