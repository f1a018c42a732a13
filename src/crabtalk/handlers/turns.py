"""Requests about turns of agents: asking for one, following them, stopping them, summing up."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from crabtalk.conversation.messages import ToolCall, Usage
from crabtalk.conversation.steps import (
    ContextUsed,
    Step,
    Text,
    TextEnded,
    TextStarted,
    Thinking,
    ThinkingEnded,
    ThinkingStarted,
    ToolEnded,
    ToolsEnded,
    ToolsStarted,
    TurnEnded,
    TurnStarted,
)
from crabtalk.conversation.turns import Turn, TurnRequest
from crabtalk.dispatch import Handler, Request, Send, StreamHandler
from crabtalk.errors import Busy
from crabtalk.known_secrets import KNOWN
from crabtalk.runtime import Runtime
from crabtalk.wire.pb import crabtalk_pb2 as pb

_MOST: Final = (1 << 32) - 1  # of a number on the wire


async def send(runtime: Runtime, request: Request) -> pb.ServerMessage:
    """Run a turn, and answer when it has ended."""
    body = request.body
    asked = TurnRequest(
        agent=runtime.agents.get(body.agent),
        content=body.content,
        handle=body.session_handle,
        sender=body.sender,
        tool_choice=body.tool_choice,
        client=request.connection.name,
        asker=request.connection,
    )
    ending = await runtime.conversations.start(asked).result()
    if ending.error is not None:
        raise ending.error
    return pb.ServerMessage(
        response=pb.SendResponse(
            agent=ending.agent_id, content=ending.text, model=ending.model, usage=_usage(ending.usage)
        )
    )


async def stream(runtime: Runtime, request: Request, send: Send) -> None:
    """Run a turn, and send its steps; it goes on when nobody reads them any more."""
    body = request.body
    tag = body.correlation_id if body.ephemeral and body.HasField("correlation_id") else None

    async def tell(step: Step) -> None:
        reply = pb.ServerMessage(stream=_event(turn, step))
        if tag is not None and request.request_id is None:
            reply.request_id = tag
        await send(reply)

    asked = TurnRequest(
        agent=runtime.agents.get(body.agent),
        content=body.content,
        handle=body.session_handle,
        sender=body.sender,
        guest=runtime.agents.find(body.guest) if body.guest else None,
        tool_choice=body.tool_choice,
        ephemeral=body.ephemeral,
        client=request.connection.name,
        asker=request.connection,
    )
    turn = runtime.conversations.start(asked, tell)
    try:
        await turn.result()
    finally:
        turn.listener = None
    if turn.unread is not None:
        raise turn.unread


def cancel_stream(runtime: Runtime, request: Request) -> pb.ServerMessage:
    """Stop the turn of a session, the asker's own if there is one; the session stays, with what was said."""
    handle = request.body.session_handle
    if not runtime.conversations.cancel(handle, request.connection):
        runtime.sessions.get(handle)
    return _pong()


def kill(runtime: Runtime, request: Request) -> pb.ServerMessage:
    """Stop everything that goes on in a session."""
    handle = request.body.session_handle
    if not runtime.conversations.kill(handle):
        runtime.sessions.get(handle)
    for one in runtime.executor.running():
        if one.session == handle:
            runtime.executor.cancel(one.id)
    return _pong()


async def compact(runtime: Runtime, request: Request) -> pb.ServerMessage:
    """Have a session summed up."""
    summary = await runtime.conversations.compact(
        request.body.session_handle, request.body.prompt, request.connection
    )
    return pb.ServerMessage(compact=pb.CompactResponse(summary=summary))


async def subscribe_events(runtime: Runtime, _request: Request, send: Send) -> None:
    """Send the steps of all turns from now on."""
    with runtime.conversations.watch() as watcher:
        async for turn, step in watcher:
            if watcher.lost:
                raise Busy(f"{watcher.lost} steps were lost: they were not read in time")
            if (told := _agent_event(turn, step, runtime.clock.now_ms())) is not None:
                await send(pb.ServerMessage(agent_event=told))


HANDLERS: Final[Mapping[str, Handler[Runtime]]] = {
    "send": send,
    "cancel_stream": cancel_stream,
    "kill": kill,
    "compact": compact,
}
STREAMS: Final[Mapping[str, StreamHandler[Runtime]]] = {
    "stream": stream,
    "subscribe_events": subscribe_events,
}


def _event(turn: Turn, step: Step) -> pb.StreamEvent:
    """Return a step as the stream of its turn has it."""
    mark = _MARKS.get(type(step))
    return mark(turn.speaker.id) if mark is not None else _told(step)


_MARKS: Final[Mapping[type[Step], Callable[[str], pb.StreamEvent]]] = {
    TurnStarted: lambda agent: pb.StreamEvent(start=pb.StreamStart(agent=agent)),
    TextStarted: lambda agent: pb.StreamEvent(text_start=pb.TextStartEvent(agent=agent)),
    TextEnded: lambda agent: pb.StreamEvent(text_end=pb.TextEndEvent(agent=agent)),
    ThinkingStarted: lambda agent: pb.StreamEvent(thinking_start=pb.ThinkingStartEvent(agent=agent)),
    ThinkingEnded: lambda agent: pb.StreamEvent(thinking_end=pb.ThinkingEndEvent(agent=agent)),
    ToolsEnded: lambda _agent: pb.StreamEvent(tools_complete=pb.ToolsCompleteEvent()),
}


def _told(step: Step) -> pb.StreamEvent:
    event = pb.StreamEvent()
    match step:
        case Text(text):
            event.chunk.content = _text(text)
        case Thinking(text):
            event.thinking.content = _text(text)
        case ToolsStarted(calls):
            event.tool_start.calls.extend(map(_call, calls))
        case ToolEnded():
            event.tool_result.CopyFrom(_result(step))
        case ContextUsed(usage):
            event.context_usage.CopyFrom(pb.ContextUsageEvent(usage=_usage(usage)))
        case TurnEnded():
            event.end.CopyFrom(_end(step))
    return event


def _result(step: ToolEnded) -> pb.ToolResultEvent:
    return pb.ToolResultEvent(
        call_id=step.call_id,
        output=_text(step.output),
        duration_ms=step.duration_ms,
        is_error=step.is_error,
    )


def _end(step: TurnEnded) -> pb.StreamEnd:
    return pb.StreamEnd(
        agent=step.agent_id, error=_text(KNOWN.text(step.error)), model=step.model, usage=_usage(step.usage)
    )


_KINDS: Final[Mapping[type[Step], pb.AgentEventKind]] = {
    Text: pb.TEXT_DELTA,
    Thinking: pb.THINKING_DELTA,
    ToolsStarted: pb.TOOL_START,
    ToolEnded: pb.TOOL_RESULT,
    ToolsEnded: pb.TOOLS_COMPLETE,
    TurnEnded: pb.DONE,
    TextStarted: pb.TEXT_START,
    TextEnded: pb.TEXT_END,
    ThinkingStarted: pb.THINKING_START,
    ThinkingEnded: pb.THINKING_END,
}


def _agent_event(turn: Turn, step: Step, now_ms: int) -> pb.AgentEventMsg | None:
    """Return a step as those who follow all turns get it, None if they do not."""
    kind = _KINDS.get(type(step))
    if kind is None:
        return None
    facts: dict[str, Any] = {}
    match step:
        case Text(text) | Thinking(text):
            facts["content"] = _text(text)
        case ToolsStarted(calls):
            facts["tool_calls"] = [_call(one) for one in calls]
        case ToolEnded(_, output, _, is_error):
            facts |= {"tool_output": _text(output), "tool_is_error": is_error}
        case TurnEnded():
            facts["content"] = _text(KNOWN.text(step.error))
    return pb.AgentEventMsg(
        agent=turn.speaker.id,
        sender=turn.sender,
        kind=kind,
        timestamp=datetime.fromtimestamp(now_ms / 1000, UTC).isoformat(timespec="milliseconds"),
        ephemeral=turn.ephemeral,
        **facts,
    )


def _call(call: ToolCall) -> pb.ToolCallInfo:
    return pb.ToolCallInfo(name=call.name, arguments=_text(call.arguments), id=_text(call.id))


def _usage(usage: Usage | None) -> pb.TokenUsage | None:
    if usage is None:
        return None
    names = ("prompt", "completion", "total", "cache_hit", "cache_miss", "reasoning")
    counts = {name: getattr(usage, name) for name in names}
    return pb.TokenUsage(**{name: min(max(0, n), _MOST) for name, n in counts.items() if n is not None})


def _text(text: str) -> str:
    """Return text that has an encoding: a model may have sent half of a character."""
    return text.encode(errors="replace").decode()


def _pong() -> pb.ServerMessage:
    return pb.ServerMessage(pong=pb.Pong())
