"""Requests that search in sessions."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from crabtalk.dispatch import Handler, Request
from crabtalk.runtime import Runtime
from crabtalk.search.hits import Hit
from crabtalk.search.service import CONTEXT, LIMIT
from crabtalk.wire.pb import crabtalk_pb2 as pb


async def search_sessions(runtime: Runtime, request: Request) -> pb.ServerMessage:
    """Return the messages that match best, each with those around it."""
    body = request.body
    agent_id = runtime.agents.get(body.agent).id if body.agent else ""
    found = await runtime.search.search(
        body.query,
        body.limit if body.HasField("limit") else LIMIT,
        body.context_before if body.HasField("context_before") else CONTEXT,
        body.context_after if body.HasField("context_after") else CONTEXT,
        agent_id=agent_id,
        sender=body.sender,
    )
    return pb.ServerMessage(session_hits=pb.SessionHitList(hits=[_hit(runtime, one) for one in found]))


HANDLERS: Final[Mapping[str, Handler[Runtime]]] = {"search_sessions": search_sessions}


def _hit(runtime: Runtime, hit: Hit) -> pb.SessionHit:
    session = hit.session
    agent = runtime.agents.agent(session.agent_id)
    window = [
        pb.SessionWindowItem(
            role=one.role,
            msg_idx=one.index,
            snippet=one.snippet,
            truncated=one.truncated,
            tool_name=one.tool_name,
        )
        for one in hit.window
    ]
    return pb.SessionHit(
        session_handle=session.handle,
        msg_idx=hit.index,
        score=hit.score,
        title=session.title,
        sender=session.sender,
        created_at=_instant(session.created_ms),
        updated_at=_instant(session.updated_ms),
        window=window,
        agent_id=session.agent_id,
        agent_name=agent.name if agent is not None else "",
    )


def _instant(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="seconds")
