"""What a capability here needs to know of the call that it serves.

The driver of an invocation hands it over; berm's own object has more, and these are the parts used.
"""

import time
from typing import Protocol


class Call(Protocol):
    """The facts of one capability call."""

    @property
    def deadline_left(self) -> float:
        """Seconds that the invocation still has."""

    @property
    def invocation_id(self) -> object:
        """Tells this invocation from every other one alive."""


def deadline_of(call: Call) -> float:
    """Return the instant of `time.monotonic` at which `call` has to be over."""
    return time.monotonic() + max(0.0, call.deadline_left)
