"""Requests about sessions. What belongs to turns of agents is not here: there are none yet."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from crabtalk.dispatch import Handler, Request
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
    _stop(runtime, record.handle)
    await runtime.sessions.delete(record)
    return _pong()


def kill(runtime: Runtime, request: Request) -> pb.ServerMessage:
    """Stop what runs in a session."""
    _stop(runtime, runtime.sessions.get(request.body.session_handle).handle)
    return _pong()


def list_conversations(runtime: Runtime, request: Request) -> pb.ServerMessage:
    """Return the sessions of an agent and a sender, the newest first."""
    found = runtime.sessions.matching(request.body.agent, request.body.sender)
    infos = [_conversation(runtime, number, one) for number, one in enumerate(found, 1)]
    return pb.ServerMessage(conversation_list=pb.ConversationList(conversations=infos))


def list_active_conversations(runtime: Runtime, request: Request) -> pb.ServerMessage:
    """Return those sessions in which something runs now."""
    running = {one.session for one in runtime.executor.running()}
    found = runtime.sessions.matching(request.body.agent, request.body.sender)
    infos = [_active(runtime, one) for one in found if one.handle in running]
    return pb.ServerMessage(active_conversations=pb.ActiveConversationList(conversations=infos))


def get_conversation_history(runtime: Runtime, request: Request) -> pb.ServerMessage:
    """Return what was said in a session."""
    record = runtime.sessions.get(request.body.file_path)
    messages = [_message(one.body) for one in runtime.sessions.messages(record)]
    history = pb.ConversationHistory(
        messages=messages,
        title=record.title,
        agent_id=record.agent_id,
        agent_name=_agent_name(runtime, record),
    )
    return pb.ServerMessage(conversation_history=history)


HANDLERS: Final[Mapping[str, Handler[Runtime]]] = {
    "create_session": create_session,
    "delete_conversation": delete_conversation,
    "kill": kill,
    "cancel_stream": kill,  # the same while a session has no turn of its own
    "list_conversations": list_conversations,
    "list_active_conversations": list_active_conversations,
    "get_conversation_history": get_conversation_history,
}


def _stop(runtime: Runtime, handle: str) -> None:
    for one in runtime.executor.running():
        if one.session == handle:
            runtime.executor.cancel(one.id)


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


def _message(body: Mapping[str, Any]) -> pb.ConversationMessage:
    return pb.ConversationMessage(role=str(body.get("role", "")), content=str(body.get("content", "")))


def _pong() -> pb.ServerMessage:
    return pb.ServerMessage(pong=pb.Pong())
