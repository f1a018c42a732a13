"""What a capability is told of its call where the deadline may move: berm's own facts, with the time left.

May be asked from any thread. Everything else is berm's.
"""

import time

import trio

from berm import Call, Chain
from crabtalk.tools import Context, Gate


class TimedCall:
    """Stands in for a `berm.Call`."""

    __slots__ = ("_ahead_s", "_call", "_gate")

    def __init__(self, call: Call, gate: Gate) -> None:
        """Take the time from `gate`; from trio's thread only."""
        self._call = call
        self._gate = gate
        self._ahead_s = (
            trio.current_time() - time.monotonic()
        )  # of trio's clock, which has an origin of its own

    @property
    def deadline_left(self) -> float:
        """Seconds until the invocation's deadline, 0.0 when it has passed."""
        return max(0.0, self._gate.deadline - self._ahead_s - time.monotonic())

    @property
    def context(self) -> Context:
        """What the executor gave."""
        context: Context = self._call.context
        return context

    @property
    def tool(self) -> str:
        """The entry that the guest was started at."""
        return self._call.tool

    @property
    def chain(self) -> Chain:
        """The budget that it shares."""
        return self._call.chain

    @property
    def depth(self) -> int:
        """How deep it is on its chain."""
        return self._call.depth

    @property
    def invocation_id(self) -> int:
        """The number that berm gave the invocation."""
        return self._call.invocation_id

    @property
    def cancelled(self) -> bool:
        """Whether the invocation was interrupted."""
        return self._call.cancelled

    @property
    def tasks(self) -> object:
        """The nursery of its driver."""
        return self._call.tasks
