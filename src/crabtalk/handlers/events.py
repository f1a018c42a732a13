"""Requests about events: publishing, subscribing, looking on."""

from collections.abc import Mapping
from typing import Final

from crabtalk.dispatch import Handler, Request, Send, StreamHandler
from crabtalk.errors import BadRequest, Busy, NotFound
from crabtalk.handlers.fitting import fitting
from crabtalk.runtime import Runtime
from crabtalk.store.interfaces.subscriptions import SubscriptionRecord
from crabtalk.wire.pb import crabtalk_pb2 as pb


async def publish_event(runtime: Runtime, request: Request) -> pb.ServerMessage:
    """Publish; the reply says that every delivery is stored."""
    await runtime.bus.publish(request.body.source, request.body.payload)
    return pb.ServerMessage(pong=pb.Pong())


async def subscribe_event(runtime: Runtime, request: Request) -> pb.ServerMessage:
    """Let a harness hear of a source, or have each event start a turn of an agent."""
    body = request.body
    if body.target_agent and body.target_harness:
        raise BadRequest("target_agent and target_harness: expected one of them")
    if body.target_agent:
        agent = runtime.agents.get(body.target_agent)
        record = await runtime.bus.subscribe(
            body.source, target_harness=None, target_agent=agent.id, once=body.once, by="client"
        )
        return pb.ServerMessage(subscription_info=_info(record))
    agent_id, slash, harness = body.target_harness.partition("/")
    if not (slash and agent_id and harness):
        raise BadRequest("target_harness: expected `AGENT-ID/HARNESS`, or target_agent an agent's id")
    agent = runtime.agents.get(agent_id)
    record = await runtime.bus.subscribe(
        body.source, target_harness=(agent.id, harness), once=body.once, by="client"
    )
    return pb.ServerMessage(subscription_info=_info(record))


async def unsubscribe_event(runtime: Runtime, request: Request) -> pb.ServerMessage:
    """End a subscription with what still waits for it."""
    if not await runtime.bus.unsubscribe(request.body.id):
        raise NotFound(f"there is no subscription {request.body.id}")
    return pb.ServerMessage(pong=pb.Pong())


def list_subscriptions(runtime: Runtime, _request: Request) -> pb.ServerMessage:
    """Return every subscription."""
    infos = fitting(map(_info, runtime.bus.subscriptions()), "end some, or delete agents that have many")
    return pb.ServerMessage(subscription_list=pb.SubscriptionList(subscriptions=infos))


async def tail_events(runtime: Runtime, request: Request, send: Send) -> None:
    """Send every event of a source or pattern from now on; of any, if none is named."""
    with runtime.bus.tail(request.body.source) as tail:
        async for event in tail:
            if tail.lost:
                raise Busy(f"{tail.lost} events were lost: they were not read in time")
            told = pb.BusEvent(
                id=event.id,
                source=event.source,
                payload=event.payload,
                published_at_ms=event.published_at_ms,
            )
            await send(pb.ServerMessage(bus_event=told))


HANDLERS: Final[Mapping[str, Handler[Runtime]]] = {
    "publish_event": publish_event,
    "subscribe_event": subscribe_event,
    "unsubscribe_event": unsubscribe_event,
    "list_subscriptions": list_subscriptions,
}
STREAMS: Final[Mapping[str, StreamHandler[Runtime]]] = {"tail_events": tail_events}


def _info(record: SubscriptionRecord) -> pb.SubscriptionInfo:
    return pb.SubscriptionInfo(
        id=record.id,
        source=record.source,
        target_agent=record.target_agent or "",
        target_harness="/".join(record.target_harness) if record.target_harness else "",
        once=record.once,
    )
