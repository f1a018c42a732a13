"""One turn, from what a person said to its end: steps go to a view, questions to the person, Ctrl-C cancels.

A turn belongs to the daemon. Ctrl-C asks it to stop the turn and waits for the end, which says what became
of it; a second one leaves at once.
"""

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import anyio

from crabtalk.cli.chat.attention import Attention
from crabtalk.cli.chat.questions import Questions
from crabtalk.cli.chat.view import Call, View
from crabtalk.errors import CrabtalkError, RequestError
from crabtalk.wire.pb import crabtalk_pb2 as pb

if TYPE_CHECKING:
    from crabtalk.client.asynchronous import Client

TICK_S: Final = 0.1


class Left(Exception):  # noqa: N818 - what the person did
    """The person does not wait for the end of the turn."""


class Ended(NamedTuple):
    """How a turn ended."""

    error: str  # empty for success
    model: str
    usage: pb.TokenUsage | None
    cancelled: bool  # by this person


@asynccontextmanager
async def alongside(*tasks: Callable[[], Coroutine[Any, Any, None]]) -> AsyncIterator[None]:
    """Run tasks for as long as the block; what the block raises is raised as it is."""
    failure: Exception | None = None
    async with anyio.create_task_group() as group:
        for task in tasks:
            group.start_soon(task)
        try:
            yield
        except Exception as error:  # noqa: BLE001 - raised again below, outside the group
            failure = error
        group.cancel_scope.cancel()
    if failure is not None:
        raise failure


class Turns:
    """Runs turns over one connection, one at a time."""

    def __init__(self, client: "Client", attention: Attention, questions: Questions, view: View) -> None:
        self._client = client
        self._attention = attention
        self._questions = questions
        self._view = view

    async def run(self, handle: str, fields: dict[str, Any]) -> Ended:
        """Run a turn in a session; `fields` are those of the request.

        Raises:
            RequestError: the daemon refused it, or lost it.
            ConnectionLost: the daemon has gone.
            Left, EOFError: the person has gone.
        """
        self._attention.begin()
        self._view.begin()
        stream = self._client.stream(session_handle=handle, **fields)
        try:
            async with alongside(lambda: self._attention.follow(stream), self._tick):
                ended = await self._watch(handle)
        finally:
            self._view.end()
        assert isinstance(ended, Ended)  # noqa: S101 - as a stream ends
        return ended

    async def compact(self, handle: str, prompt: str) -> str:
        """Have a session summed up, and return the summary; raises as `run`."""
        self._attention.begin()
        self._view.begin()
        try:
            async with alongside(lambda: self._sum_up(handle, prompt), self._tick):
                reply = await self._watch(handle)
        finally:
            self._view.end()
        return reply.summary if isinstance(reply, pb.CompactResponse) else ""

    async def _sum_up(self, handle: str, prompt: str) -> None:
        try:
            self._attention.take(await self._client.compact(session_handle=handle, prompt=prompt))
        except CrabtalkError as error:
            self._attention.take(error)

    async def _tick(self) -> None:
        while True:
            await anyio.sleep(TICK_S)
            if not self._attention.reading:
                self._view.tick()

    async def _watch(self, handle: str) -> Ended | pb.CompactResponse:
        cancelled = False
        while True:
            came = await self._attention.next()
            if came == "interrupt":
                if cancelled or not handle:
                    raise Left
                cancelled = True
                self._view.text_ended()
                self._view.note("cancelling; Ctrl-C again leaves")
                await self._cancel(handle)
            elif came == "gone":
                raise Left
            elif isinstance(came, CrabtalkError):
                raise came
            elif came is None:
                raise RequestError("the stream ended without an end")
            elif isinstance(came, pb.Prompt):
                await self._questions.ask(came)
            elif isinstance(came, pb.CompactResponse):
                return came
            elif came.HasField("end"):
                end = came.end
                return Ended(end.error, end.model, end.usage if end.HasField("usage") else None, cancelled)
            else:
                show(self._view, came)

    async def _cancel(self, handle: str) -> None:
        try:
            await self._client.cancel_stream(session_handle=handle)
        except RequestError as error:
            self._view.complain(str(error))


def show(view: View, step: pb.StreamEvent) -> None:
    """Show one step that is not the last."""
    which = step.WhichOneof("event")
    if which == "chunk":
        view.text(step.chunk.content)
    elif which == "text_end":
        view.text_ended()
    elif which in {"thinking_start", "thinking"}:
        view.thinking(step.thinking.content)
    elif which == "thinking_end":
        view.thinking_ended()
    elif which == "tool_start":
        view.tools([Call(one.id, one.name, one.arguments) for one in step.tool_start.calls])
    elif which == "tool_result":
        result = step.tool_result
        view.tool_ended(result.call_id, result.output, result.duration_ms, is_error=result.is_error)
