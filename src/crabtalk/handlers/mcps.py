"""Requests about MCP servers of agents."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import trio

from crabtalk.declarations import from_json
from crabtalk.dispatch import Handler, Request, Send, StreamHandler
from crabtalk.errors import BadRequest, Busy, NotFound
from crabtalk.handlers.fitting import fitting
from crabtalk.mcp.peer import Status
from crabtalk.mcp.service import McpEvent, ServerView, merged
from crabtalk.runtime import Runtime
from crabtalk.wire.pb import crabtalk_pb2 as pb

_SET: Final = '{"$secret": "set"}'
_ANSWER_S: Final = 30.0  # how long a reply waits for what becomes of a server
_changing: Final = trio.Lock()  # the list of servers is read, changed and written

_STATUS: Final = {
    Status.CONNECTED: pb.CONNECTED,
    Status.DISCONNECTED: pb.DISCONNECTED,
    Status.FAILED: pb.FAILED,
    Status.CONNECTING: pb.CONNECTING,
}
_KIND: Final = {
    Status.CONNECTED: pb.MCP_EVENT_KIND_CONNECTED,
    Status.DISCONNECTED: pb.MCP_EVENT_KIND_DISCONNECTED,
    Status.FAILED: pb.MCP_EVENT_KIND_FAILED,
    Status.CONNECTING: pb.MCP_EVENT_KIND_CONNECTING,
}


def list_mcps(runtime: Runtime, request: Request) -> pb.ServerMessage:
    """Return the servers of an agent; those of all, if none is named."""
    agent_id = request.body.agent
    if agent_id:
        runtime.agents.get(agent_id)
    infos = fitting((_info(view) for _, view in runtime.mcp.list(agent_id)), "name an agent", _lighten)
    return pb.ServerMessage(mcp_list=pb.McpList(mcps=infos))


async def upsert_mcp(runtime: Runtime, request: Request) -> pb.ServerMessage:
    """Declare a server of an agent, or change the one of that name; waits for what becomes of it."""
    agent = runtime.agents.get(request.body.agent)
    server = from_json(request.body.config)
    if not isinstance(server.get("name"), str):
        raise BadRequest("configuration: a server has a name - at `name`")
    async with _changing:
        servers = merged(_servers(runtime, agent.id), server)
        agent = await runtime.agents.update(agent.id, {"mcps": servers})
    await runtime.mcp.ready(agent, _ANSWER_S)
    return pb.ServerMessage(mcp_info=_info(runtime.mcp.view(agent.id, server["name"])))


async def delete_mcp(runtime: Runtime, request: Request) -> pb.ServerMessage:
    """Take a server from an agent; it ends if nobody else has it."""
    agent = runtime.agents.get(request.body.agent)
    name = request.body.name
    async with _changing:
        servers = _servers(runtime, agent.id)
        kept = [one for one in servers if one.get("name") != name]
        if len(kept) == len(servers):
            raise NotFound(f"agent `{agent.name}` has no MCP server `{name[:80]}`")
        await runtime.agents.update(agent.id, {"mcps": kept or None})
    return pb.ServerMessage(pong=pb.Pong())


async def reconnect_mcp(runtime: Runtime, request: Request) -> pb.ServerMessage:
    """Connect to a server anew; waits for what becomes of it."""
    agent = runtime.agents.get(request.body.agent)
    peer = runtime.mcp.reconnect(agent.id, request.body.name)
    with trio.move_on_after(_ANSWER_S):
        await peer.settled()
    return pb.ServerMessage(mcp_info=_info(runtime.mcp.view(agent.id, request.body.name)))


async def mcp_logs(runtime: Runtime, request: Request, send: Send) -> None:
    """Send the last lines that a server wrote to stderr, then every new one."""
    agent = runtime.agents.get(request.body.agent)
    name = request.body.name
    with runtime.mcp.ring(agent.id, name).followed() as lines:
        async for line in lines:
            if lines.lost:
                raise Busy(f"{lines.lost} lines were lost: they were not read in time")
            told = pb.LogLine(
                time_ms=line.time_ms, level=line.level, text=line.text, harness=name, agent=agent.id
            )
            await send(pb.ServerMessage(log_line=told))


async def subscribe_mcp_events(runtime: Runtime, _request: Request, send: Send) -> None:
    """Send what becomes of every server from now on."""
    with runtime.mcp.watched() as events:
        async for event in events:
            if events.lost:
                raise Busy(f"{events.lost} events were lost: they were not read in time")
            await send(pb.ServerMessage(mcp_event=_event(event)))


HANDLERS: Final[Mapping[str, Handler[Runtime]]] = {
    "list_mcps": list_mcps,
    "upsert_mcp": upsert_mcp,
    "delete_mcp": delete_mcp,
    "reconnect_mcp": reconnect_mcp,
}
STREAMS: Final[Mapping[str, StreamHandler[Runtime]]] = {
    "mcp_logs": mcp_logs,
    "subscribe_mcp_events": subscribe_mcp_events,
}


def _servers(runtime: Runtime, agent_id: str) -> list[Mapping[str, Any]]:
    return list(runtime.agents.get(agent_id).config.get("mcps", ()))


def _info(view: ServerView) -> pb.McpInfo:
    config = view.config
    return pb.McpInfo(
        name=config.name,
        command=config.command,
        args=config.args,
        env=dict.fromkeys(config.env, _SET),
        url=config.url,
        auth=_SET if config.auth is not None else "",
        auto_restart=config.auto_restart,
        source_kind=pb.EXTERNAL if config.url else pb.LOCAL,
        status=_STATUS[view.status],
        error=view.error,
        tool_count=view.tools,
    )


def _lighten(info: pb.McpInfo) -> None:
    info.ClearField("args")
    info.ClearField("env")


def _event(event: McpEvent) -> pb.McpEventMsg:
    return pb.McpEventMsg(
        kind=_KIND[event.status],
        name=event.name,
        tools=event.tools,
        error=event.error,
        timestamp=datetime.fromtimestamp(event.at_ms / 1000, UTC).isoformat(timespec="milliseconds"),
        agent=event.agent_id,
    )
