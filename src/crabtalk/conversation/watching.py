"""Watching turns go by: bounded, and what did not fit is counted."""

from collections.abc import Callable
from types import TracebackType
from typing import Final, NamedTuple, Self

import trio

from crabtalk.conversation.steps import Step
from crabtalk.conversation.turns import Turn

_ROOM: Final = 1024  # steps that a watcher may be behind; picked, not measured


class Seen(NamedTuple):
    """One step of some turn."""

    turn: Turn
    step: Step


class Watcher:
    """The steps of all turns from now on: `with` keeps it open, `async for` reads it."""

    def __init__(self, leave: Callable[["Watcher"], None]) -> None:
        self.lost = 0  # steps for which there was no room
        self._leave = leave
        self._send, self._receive = trio.open_memory_channel[Seen](_ROOM)

    def offer(self, turn: Turn, step: Step) -> None:
        """Take a step, if there is room."""
        try:
            self._send.send_nowait(Seen(turn, step))
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

    async def __anext__(self) -> Seen:
        """Wait for the next step.

        **Cancellation:** no step is lost by it.
        """
        return await self._receive.receive()
