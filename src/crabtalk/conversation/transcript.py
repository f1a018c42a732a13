"""The transcript of one turn: what was said before, and the only place where more is added to a session.

A message is in the store when `add` returns, with all that belongs to it in the same batch. Adding is never
cut off: who is cancelled has stored what had happened by then. A transcript that keeps nothing serves turns
of which nothing is to remain.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import trio

from crabtalk.conversation.history import title_of
from crabtalk.conversation.messages import Message
from crabtalk.store.engine import Engine, Write
from crabtalk.store.interfaces.sessions import SessionRecord, Sessions

# Is called with the session as it is, when messages were added.
Appended = Callable[[SessionRecord], None]


class Clock(Protocol):
    """Tells the time."""

    def now_ms(self) -> int:
        """Return the wall clock: Unix milliseconds, UTC."""


@dataclass(slots=True)
class Transcript:
    """What a turn reads and writes."""

    messages: list[Message]  # since the last summary, which is the first one then
    clock: Clock
    record: SessionRecord | None = None  # None: nothing is kept
    store: Engine | None = None
    appended: Appended = lambda _record: None
    title: str = ""  # of a session that has none yet; "": what is said first

    async def add(self, *messages: Message, more: Sequence[Write] = ()) -> None:
        """Add messages, in one batch with `more`.

        **Cancellation:** has no effect here: it is one commit.

        Raises:
            StoreError: if the store does not work; the messages are in memory only then.
        """
        at_ms = self.clock.now_ms()
        dated = [one if one.created_ms else replace(one, created_ms=at_ms) for one in messages]
        self.messages += dated
        if self.record is None or self.store is None:
            return
        # Before anything is waited for: whoever adds next, in another task, goes on from here.
        record = self.record
        if not record.title:
            record = replace(record, title=title_of(self.title) if self.title else _title(dated))
        self.record, writes = Sessions(self.store).append(record, [one.to_json() for one in dated], at_ms)
        with trio.CancelScope(shield=True):
            await self.store.commit([*writes, *more])
        self.appended(self.record)


def _title(messages: Sequence[Message]) -> str:
    return next((title_of(one.content) for one in messages if one.role == "user"), "")
