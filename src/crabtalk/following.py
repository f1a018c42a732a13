"""What a follower reads: things in their order, so many and no more, and a count of those that did not fit.

Whoever offers never waits. A follower that is too slow loses what comes then, and can see how much it was.
"""

from collections.abc import Callable
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

import trio

T = TypeVar("T")


class Following(Generic[T]):
    """Things from now on: `with` keeps it open, `async for` reads it."""

    def __init__(self, room: int, leave: Callable[[Any], None]) -> None:
        """Be `room` things behind at most; `leave` is called with this at the end."""
        self.lost = 0  # things for which there was no room
        self._leave = leave
        self._send, self._receive = trio.open_memory_channel[T](room)

    def take(self, thing: T) -> None:
        """Take a thing, if there is room."""
        try:
            self._send.send_nowait(thing)
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

    async def __anext__(self) -> T:
        """Wait for the next thing.

        **Cancellation:** nothing is lost by it.
        """
        return await self._receive.receive()
