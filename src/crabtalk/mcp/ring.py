"""The last lines that a server wrote, for `crabtalk mcp logs`: bounded, without secrets, safe to print."""

from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

import trio

from crabtalk.clock import Clock
from crabtalk.config_values import Secret
from crabtalk.log_text import REDACTED, Redactor, capped, escaped

_KEPT_LINES: Final = 500
_LINE_CHARACTERS: Final = 2048
_FOLLOWED_LINES: Final = 1000
_SHORTEST_SECRET: Final = 4  # replacing shorter ones hides nothing, and makes text unreadable


class RingLine(NamedTuple):
    """One line."""

    time_ms: int
    level: str
    text: str


class Ring:
    """Keeps the newest lines; for trio's thread."""

    def __init__(self, clock: Clock, secrets: Iterable[Secret] = ()) -> None:
        self._clock = clock
        known = list(secrets)
        self._redactor = Redactor(known)
        values = {one.reveal() for one in known if len(one.reveal()) >= _SHORTEST_SECRET}
        self._secrets = sorted(values, key=len, reverse=True)
        self._lines: deque[RingLine] = deque(maxlen=_KEPT_LINES)
        self._followers: list[Follower] = []

    def note(self, text: str, level: str = "info") -> None:
        """Take a line."""
        line = RingLine(self._clock.now_ms(), level, self.shown(text))
        self._lines.append(line)
        for follower in self._followers:
            follower.offer(line)

    def shown(self, text: str) -> str:
        """Return text as it may be shown to people."""
        return escaped(self._redactor.text(capped(text, _LINE_CHARACTERS)))

    def without_secrets(self, text: str) -> str:
        """Return text as it is, but for the secrets that are known by value."""
        for value in self._secrets:
            text = text.replace(value, REDACTED)
        return text

    def recent(self) -> list[RingLine]:
        """Return what is kept, the oldest first."""
        return list(self._lines)

    @contextmanager
    def followed(self) -> Iterator["Follower"]:
        """Follow from what is kept on."""
        follower = Follower(self._lines)
        self._followers.append(follower)
        try:
            yield follower
        finally:
            self._followers.remove(follower)


class Follower:
    """The lines that one follower has not read yet; iterate over it."""

    def __init__(self, backlog: Iterable[RingLine]) -> None:
        self.lost = 0  # lines that were dropped because they were not read in time
        self._waiting = deque(backlog)
        self._arrived = trio.Event()

    def offer(self, line: RingLine) -> None:
        """Take a line, if there is room."""
        if len(self._waiting) >= _FOLLOWED_LINES:
            self.lost += 1
            return
        self._waiting.append(line)
        self._arrived.set()

    def __aiter__(self) -> AsyncIterator[RingLine]:
        return self

    async def __anext__(self) -> RingLine:
        while not self._waiting:
            self._arrived = trio.Event()
            await self._arrived.wait()
        await trio.lowlevel.checkpoint()
        return self._waiting.popleft()
