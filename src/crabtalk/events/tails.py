"""Watching events go by."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from crabtalk.events.matching import check_pattern, matches
from crabtalk.following import Following

ALL: Final = ""  # the pattern that selects everything
_ROOM: Final = 256  # events that a watcher may be behind


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened, and was acknowledged."""

    id: str  # a ULID
    source: str
    payload: str
    published_at_ms: int


class Tail(Following[Event]):
    """The events of one pattern from now on."""

    def __init__(self, pattern: str, leave: Callable[["Tail"], None]) -> None:
        """`pattern` is checked; an empty one selects everything.

        Raises:
            ValueError: if it is no pattern.
        """
        super().__init__(_ROOM, leave)
        self.pattern = pattern if pattern == ALL else check_pattern(pattern)

    def offer(self, event: Event) -> None:
        """Take an event that fits the pattern, if there is room."""
        if self.pattern == ALL or matches(self.pattern, event.source):
            self.take(event)
