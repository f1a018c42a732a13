"""Trying again: the one place where that is done.

A request is repeated only while nothing of an answer was given away, only for failures that pass, and not
at all where the endpoint wants to be left alone for longer than anybody waits. Between two tries lies a
random part of a time that doubles, or what the endpoint asked for.
"""

import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Final

import trio

from crabtalk.conversation.model import ErrorKind, ModelError, ModelEvent, UsageReport

PASSING: Final = frozenset(
    {ErrorKind.RATE, ErrorKind.OVERLOADED, ErrorKind.NETWORK, ErrorKind.TIMEOUT, ErrorKind.INTERRUPTED}
)

Attempt = Callable[[], AbstractAsyncContextManager[AsyncIterator[ModelEvent]]]


@dataclass(frozen=True, slots=True)
class Retry:
    """A request that will be repeated: what went wrong, at which try, and when the next one is."""

    error: ModelError
    attempt: int  # from 1
    wait_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often, and how patiently."""

    attempts: int = 4  # in all
    first_s: float = 1.0  # at most before the second try; doubles from there
    cap_s: float = 60.0  # at most before any
    on_retry: Callable[[Retry], None] | None = None  # told before the wait

    def wait_s(self, error: ModelError, attempt: int) -> float | None:
        """Return how long to wait after a try failed, None if there is no other."""
        if attempt >= self.attempts or error.kind not in PASSING:
            return None
        if error.retry_after_s is not None:
            return error.retry_after_s if error.retry_after_s <= self.cap_s else None
        return random.uniform(0.5, 1.0) * min(self.cap_s, self.first_s * 2.0 ** (attempt - 1))  # noqa: S311


@asynccontextmanager
async def retrying(attempt: Attempt, policy: RetryPolicy) -> AsyncGenerator[AsyncIterator[ModelEvent]]:
    """Give the events of the first try that begins to answer.

    Raises:
        ModelError: on entry, or from the iterator: that of the last try.
    """
    events = _Retrying(attempt, policy)
    try:
        await events.begin()
        yield events
    finally:
        await events.close()


class _Retrying:
    """The events of one try after another."""

    def __init__(self, attempt: Attempt, policy: RetryPolicy) -> None:
        self._attempt = attempt
        self._policy = policy
        self._tries = 0
        self._given = False  # something of the answer
        self._stack = AsyncExitStack()
        self._events: AsyncIterator[ModelEvent] | None = None

    def __aiter__(self) -> "_Retrying":
        return self

    async def __anext__(self) -> ModelEvent:
        while True:
            events = self._events
            if events is None:
                await self.begin()
                continue
            try:
                event = await anext(events)
            except ModelError as error:
                await self._failed(error)
                continue
            # What was used so far is no part of an answer, and a later report takes its place.
            self._given = self._given or not isinstance(event, UsageReport)
            return event

    async def begin(self) -> None:
        """Try until an endpoint takes the request."""
        while self._events is None:
            self._tries += 1
            try:
                self._events = await self._stack.enter_async_context(self._attempt())
            except ModelError as error:
                await self._failed(error)

    async def close(self) -> None:
        """Drop the try that there is."""
        stack, self._stack, self._events = self._stack, AsyncExitStack(), None
        await stack.aclose()

    async def _failed(self, error: ModelError) -> None:
        """Wait for the next try, or raise `error`."""
        wait_s = None if self._given else self._policy.wait_s(error, self._tries)
        if wait_s is None:
            raise error
        await self.close()
        if self._policy.on_retry is not None:
            self._policy.on_retry(Retry(error, self._tries, wait_s))
        await trio.sleep(wait_s)
