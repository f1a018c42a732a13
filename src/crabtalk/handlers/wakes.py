"""Requests about wakes."""

from collections.abc import Mapping
from typing import Final

import trio

from crabtalk.dispatch import Handler, Request
from crabtalk.errors import NotFound
from crabtalk.handlers.fitting import first_fitting
from crabtalk.runtime import Runtime
from crabtalk.store.interfaces.wakes import WakeRecord
from crabtalk.wire.pb import crabtalk_pb2 as pb

_LISTED: Final = 1000


async def schedule_wake(runtime: Runtime, request: Request) -> pb.ServerMessage:
    """Wake a harness at an instant; the reply says that it is stored."""
    body = request.body
    agent = runtime.agents.get(body.agent)
    key = body.key if body.HasField("key") else None
    record = await runtime.wakes.schedule(agent.id, body.harness, body.at_ms, body.payload, key)
    return pb.ServerMessage(wake_info=_info(record))


async def cancel_wake(runtime: Runtime, request: Request) -> pb.ServerMessage:
    """Take a pending wake back."""
    if not await runtime.wakes.cancel(request.body.id):
        raise NotFound(f"there is no wake `{request.body.id[:80]}`")
    return pb.ServerMessage(pong=pb.Pong())


async def list_wakes(runtime: Runtime, request: Request) -> pb.ServerMessage:
    """Return the first wakes of a harness, of an agent, or of everybody: pending and running ones.

    With their payloads they may be more than a reply holds: then fewer.
    """
    body = request.body
    agent_ids: list[str] | None = None
    if body.agent:
        agent_ids = [runtime.agents.get(body.agent).id]
    elif body.harness:
        agent_ids = [agent.id for agent in runtime.agents.all()]

    def read() -> list[pb.WakeInfo]:
        found = runtime.wakes.upcoming(_LISTED, agent_ids, body.harness or None)
        return first_fitting(map(_info, found))

    found = await trio.to_thread.run_sync(read)  # megabytes, at worst
    return pb.ServerMessage(wake_list=pb.WakeList(wakes=found))


HANDLERS: Final[Mapping[str, Handler[Runtime]]] = {
    "schedule_wake": schedule_wake,
    "cancel_wake": cancel_wake,
    "list_wakes": list_wakes,
}


def _info(record: WakeRecord) -> pb.WakeInfo:
    return pb.WakeInfo(
        id=record.id,
        agent=record.agent_id,
        harness=record.harness,
        at_ms=record.at_ms,
        payload=record.payload,
        key=record.key or "",
        attempts=record.attempt,
        state=record.state,
    )
