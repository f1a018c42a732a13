"""One turn, from what a person said to its end: steps go to a view, questions to the person, Ctrl-C cancels.

A turn belongs to the daemon. Ctrl-C asks it to stop the turn and waits for the end, which says what became
of it; a second one leaves at once.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

import anyio

from crabtalk.cli.chat.attention import Attention
from crabtalk.cli.chat.questions import Questions
from crabtalk.cli.chat.view import Call, View
from crabtalk.errors import CrabtalkError, RequestError
from crabtalk.wire.pb import crabtalk_pb2 as pb

if TYPE_CHECKING:
    from crabtalk.client.asynchronous import Client

TICK_S = 0.1


class Left(Exception):  # noqa: N818 - what the person did
    """The person does not wait for the end of the turn."""


class Ended(NamedTuple):
    """How a turn ended."""

    error: str  # empty for success
    model: str
    usage: pb.TokenUsage | None
    cancelled: bool  # by this person


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
        failure: Exception | None = None
        ended: Ended | None = None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._attention.follow, self._client.stream(session_handle=handle, **fields))
            tasks.start_soon(self._tick)
            try:
                ended = await self._watch(handle)
            except Exception as error:  # noqa: BLE001 - raised again below, outside the group
                failure = error
            tasks.cancel_scope.cancel()
        self._view.end()
        if failure is not None:
            raise failure
        assert ended is not None  # noqa: S101 - else there is a failure
        return ended

    async def _tick(self) -> None:
        while True:
            await anyio.sleep(TICK_S)
            if not self._attention.reading:
                self._view.tick()

    async def _watch(self, handle: str) -> Ended:
        cancelled = False
        while True:
            came = await self._attention.next()
            if came == "interrupt":
                if cancelled or not handle:
                    raise Left
                cancelled = True
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
