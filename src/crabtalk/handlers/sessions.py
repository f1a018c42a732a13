"""Requests about sessions: making, listing, reading and removing them; what is said in them is in `turns`."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

import trio

from crabtalk.conversation.messages import Message
from crabtalk.dispatch import Handler, Request
from crabtalk.handlers.fitting import first_fitting, fitting
from crabtalk.runtime import Runtime
from crabtalk.store.interfaces.sessions import SessionRecord
from crabtalk.wire.pb import crabtalk_pb2 as pb


async def create_session(runtime: Runtime, request: Request) -> pb.ServerMessage:
    """Make a session with the handle that the client chose."""
    body = request.body
    agent = runtime.agents.get(body.agent)
    root = body.root if body.HasField("root") else None
    await runtime.sessions.create(body.session_handle, agent, body.sender, root)
    return _pong()


async def delete_conversation(runtime: Runtime, request: Request) -> pb.ServerMessage:
    """Remove a session; what runs in it is stopped."""
    record = runtime.sessions.get(request.body.file_path)
    for one in runtime.executor.running():
        if one.session == record.handle:
            runtime.executor.cancel(one.id)
    await runtime.conversations.delete(record)
    runtime.search.touched(record.handle)
    return _pong()


def list_conversations(runtime: Runtime, request: Request) -> pb.ServerMessage:
    """Return the sessions of an agent and a sender, the newest first."""
    found = runtime.sessions.matching(request.body.agent, request.body.sender)
    infos = fitting(
        (_conversation(runtime, number, one) for number, one in enumerate(found, 1)),
        "name an agent and a sender",
    )
    return pb.ServerMessage(conversation_list=pb.ConversationList(conversations=infos))


def list_active_conversations(runtime: Runtime, request: Request) -> pb.ServerMessage:
    """Return those sessions in which something runs now."""
    running = active(runtime)
    found = runtime.sessions.matching(request.body.agent, request.body.sender)
    infos = [_active(runtime, one) for one in found if one.handle in running]
    return pb.ServerMessage(active_conversations=pb.ActiveConversationList(conversations=infos))


async def get_conversation_history(runtime: Runtime, request: Request) -> pb.ServerMessage:
    """Return what was said in a session; a summary is a message of the role `system`.

    So is the word of what was left out at the beginning, where it is more than a reply holds.
    """
    record = runtime.sessions.get(request.body.file_path)
    said = await trio.to_thread.run_sync(runtime.conversations.history, record)
    history = pb.ConversationHistory(
        messages=await trio.to_thread.run_sync(_newest, said),
        title=record.title,
        agent_id=record.agent_id,
        agent_name=_agent_name(runtime, record),
    )
    return pb.ServerMessage(conversation_history=history)


def active(runtime: Runtime) -> set[str]:
    """Return the handles of the sessions in which something runs now."""
    running = {one.session for one in runtime.executor.running() if one.session is not None}
    return running | {one.handle for one in runtime.conversations.turns() if one.handle}


HANDLERS: Final[Mapping[str, Handler[Runtime]]] = {
    "create_session": create_session,
    "delete_conversation": delete_conversation,
    "list_conversations": list_conversations,
    "list_active_conversations": list_active_conversations,
    "get_conversation_history": get_conversation_history,
}


def _conversation(runtime: Runtime, number: int, record: SessionRecord) -> pb.ConversationInfo:
    return pb.ConversationInfo(
        sender=record.sender,
        seq=number,
        title=record.title,
        file_path=record.handle,
        message_count=record.message_count,
        alive_secs=max(0, record.updated_ms - record.created_ms) // 1000,
        date=datetime.fromtimestamp(record.created_ms / 1000, UTC).isoformat(timespec="seconds"),
        agent_id=record.agent_id,
        agent_name=_agent_name(runtime, record),
    )


def _active(runtime: Runtime, record: SessionRecord) -> pb.ActiveConversationInfo:
    return pb.ActiveConversationInfo(
        sender=record.sender,
        message_count=record.message_count,
        alive_secs=max(0, runtime.clock.now_ms() - record.created_ms) // 1000,
        title=record.title,
        agent_id=record.agent_id,
        agent_name=_agent_name(runtime, record),
        session_handle=record.handle,
    )


def _agent_name(runtime: Runtime, record: SessionRecord) -> str:
    agent = runtime.agents.agent(record.agent_id)
    return agent.name if agent else ""


def _newest(said: Sequence[Message]) -> list[pb.ConversationMessage]:
    """Return what fits a reply, and what does not in a word."""
    kept = first_fitting(map(_message, reversed(said)))
    if left_out := len(said) - len(kept):
        text = f"{left_out} earlier messages are not shown: with them, the history is larger than a reply"
        kept.append(pb.ConversationMessage(role="system", content=text))
    return kept[::-1]


def _message(message: Message) -> pb.ConversationMessage:
    content = message.content.encode(errors="replace").decode()
    return pb.ConversationMessage(role=message.role, content=content)


def _pong() -> pb.ServerMessage:
    return pb.ServerMessage(pong=pb.Pong())
