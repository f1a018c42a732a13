"""The events of one answer: what a body brings, parsed and decoded, until the answer is complete or failed.

An answer that is complete is never lost for what comes after it: that is waited for a little, and if it
does not come, or the connection breaks, the answer is as good.
"""

import contextlib
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final, Protocol

from crabtalk.conversation.model import ErrorKind, ModelError, ModelEvent
from crabtalk.providers.dialect import Decoder
from crabtalk.providers.failures import Failures
from crabtalk.providers.json_values import loads, table
from crabtalk.providers.sse import SseEvent, SseParser
from crabtalk.providers.tool_calls import TooManyCalls

_LATE_S: Final = 5.0  # for what an endpoint may say after a complete answer
_TAIL_S: Final = 0.05  # for the end of the body, so that the connection can be used again


class Body(Protocol):
    """Where bytes come from."""

    async def next(self, within_s: float | None = None) -> bytes | None:
        """Return the next bytes, empty ones at the end; None if nothing came `within_s`.

        Raises:
            ModelError: if there is no way to get any.
        """


class Answer:
    """The events of one answer, as they come."""

    def __init__(self, body: Body, decoder: Decoder, failures: Failures, whole: bytes | None = None) -> None:
        self._body = body
        self._decoder = decoder
        self._failures = failures
        self._parser = SseParser()
        self._ready: deque[ModelEvent] = deque()
        self._failure: ModelError | None = None  # raised when what came before it was taken
        self._finished = False
        if whole is not None:
            self._take_whole(whole)

    def __aiter__(self) -> "Answer":
        return self

    async def __anext__(self) -> ModelEvent:
        while not self._ready:
            if self._failure is not None:
                raise self._failure
            if self._finished:
                await self._leave()
                raise StopAsyncIteration
            await self._more()
        return self._ready.popleft()

    async def _more(self) -> None:
        try:
            data = await self._body.next(_LATE_S if self._decoder.complete else None)
        except ModelError:
            if not self._decoder.complete:
                raise
            data = b""  # the answer is all there; only what would have been said about it is lost
        if data:
            self._keep(event for one in self._parser.feed(data) for event in self._fed(one))
        if (not data or self._decoder.ended) and self._failure is None:
            self._end()

    def _fed(self, event: SseEvent) -> Iterator[ModelEvent]:
        return iter(()) if self._decoder.ended else self._decoder.feed(event)

    def _take_whole(self, data: bytes) -> None:
        try:
            answer = table(loads(data))
        except ValueError:
            self._failure = self._failures.make(ErrorKind.INTERRUPTED, "the answer is not JSON")
            return
        self._keep(self._decoder.feed_whole(answer))
        if self._failure is None:
            self._end()

    def _keep(self, events: Iterable[ModelEvent]) -> None:
        """Put events where they wait to be taken; what comes before an error is not lost."""
        try:
            self._ready.extend(events)
        except ModelError as error:
            self._failure = error
        except TooManyCalls as error:
            self._failure = self._failures.make(ErrorKind.INTERRUPTED, str(error))

    def _end(self) -> None:
        if self._decoder.complete:
            self._keep(self._decoder.end())
            self._finished = True
        else:
            self._failure = self._failures.make(
                ErrorKind.INTERRUPTED, "the stream ended before the answer was complete"
            )

    async def _leave(self) -> None:
        """Read the end of the body, if it is there, so that the connection can be used again."""
        with contextlib.suppress(ModelError):
            await self._body.next(_TAIL_S)
