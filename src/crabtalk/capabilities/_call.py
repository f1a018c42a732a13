"""What a capability here needs to know of the call that it serves.

The driver of an invocation hands it over; berm's own object has more, and these are the parts used.
"""

import time
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from anyio.abc import TaskGroup


class Call(Protocol):
    """The facts of one capability call."""

    @property
    def deadline_left(self) -> float:
        """Seconds that the invocation still has."""

    @property
    def invocation_id(self) -> object:
        """Tells this invocation from every other one alive."""

    @property
    def tasks(self) -> "TaskGroup | None":
        """Runs what goes on between two calls of this invocation, and ends with it."""


def deadline_of(call: Call) -> float:
    """Return the instant of `time.monotonic` at which `call` has to be over."""
    return time.monotonic() + max(0.0, call.deadline_left)
