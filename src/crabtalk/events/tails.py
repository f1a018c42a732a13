"""Watching events go by: bounded, and what did not fit is counted."""

from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

import trio

from crabtalk.events.matching import check_pattern, matches

ALL: Final = ""  # the pattern that selects everything
_ROOM: Final = 256  # events that a watcher may be behind


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened, and was acknowledged."""

    id: str  # a ULID
    source: str
    payload: str
    published_at_ms: int


class Tail:
    """The events of one pattern from now on: `with` keeps it open, `async for` reads it."""

    def __init__(self, pattern: str, leave: Callable[["Tail"], None]) -> None:
        """`pattern` is checked; an empty one selects everything.

        Raises:
            ValueError: if it is no pattern.
        """
        self.pattern = pattern if pattern == ALL else check_pattern(pattern)
        self.lost = 0  # events for which there was no room
        self._leave = leave
        self._send, self._receive = trio.open_memory_channel[Event](_ROOM)

    def offer(self, event: Event) -> None:
        """Take an event that fits the pattern, if there is room."""
        if self.pattern != ALL and not matches(self.pattern, event.source):
            return
        try:
            self._send.send_nowait(event)
        except trio.WouldBlock:
            self.lost += 1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave(self)
        self._send.close()
        self._receive.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        """Wait for the next event.

        **Cancellation:** no event is lost by it.
        """
        return await self._receive.receive()
