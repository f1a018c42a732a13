"""Requests about agents: what is declared, and for whom."""

import json
from collections.abc import Mapping
from typing import Any, Final

from crabtalk.declarations import from_json
from crabtalk.dispatch import Handler, Request
from crabtalk.errors import BadRequest
from crabtalk.handlers.fitting import fitting
from crabtalk.runtime import Runtime
from crabtalk.store.interfaces.agents import AgentRecord
from crabtalk.wire.pb import crabtalk_pb2 as pb


def list_agents(runtime: Runtime, _request: Request) -> pb.ServerMessage:
    """Return every agent, by name; without the configurations if they do not fit a reply."""
    infos = fitting(
        (_info(runtime, agent) for agent in runtime.agents.all()),
        "`get_agent` reads one by its name",
        lambda info: info.ClearField("config"),
    )
    return pb.ServerMessage(agent_list=pb.AgentList(agents=infos))


def get_agent(runtime: Runtime, request: Request) -> pb.ServerMessage:
    """Return the agent of a name, the one request that is keyed by it."""
    return _reply(runtime, runtime.agents.by_name(request.body.name))


async def create_agent(runtime: Runtime, request: Request) -> pb.ServerMessage:
    """Declare a new agent."""
    config = _config(request.body.config) if request.body.config else {}
    return _reply(runtime, await runtime.agents.create(request.body.name, config))


async def update_agent(runtime: Runtime, request: Request) -> pb.ServerMessage:
    """Merge a patch into an agent's configuration; its identity is in the request, not in the patch."""
    agent = runtime.agents.get(request.body.agent)
    patch = {key: value for key, value in _config(request.body.config).items() if key != "id"}
    return _reply(runtime, await runtime.agents.update(agent.id, patch))


async def rename_agent(runtime: Runtime, request: Request) -> pb.ServerMessage:
    """Give an agent another name; nothing else changes."""
    agent = runtime.agents.get(request.body.agent)
    return _reply(runtime, await runtime.agents.rename(agent.id, request.body.new_name))


async def delete_agent(runtime: Runtime, request: Request) -> pb.ServerMessage:
    """Remove an agent with everything that is its own."""
    await runtime.agents.delete(runtime.agents.get(request.body.agent).id)
    return pb.ServerMessage(pong=pb.Pong())


HANDLERS: Final[Mapping[str, Handler[Runtime]]] = {
    "list_agents": list_agents,
    "get_agent": get_agent,
    "create_agent": create_agent,
    "update_agent": update_agent,
    "rename_agent": rename_agent,
    "delete_agent": delete_agent,
}


def _config(text: str) -> dict[str, Any]:
    if not text:
        raise BadRequest("config: expected a JSON object, got nothing")
    return from_json(text)


def _reply(runtime: Runtime, agent: AgentRecord) -> pb.ServerMessage:
    return pb.ServerMessage(agent_info=_info(runtime, agent))


def _info(runtime: Runtime, agent: AgentRecord) -> pb.AgentInfo:
    config = runtime.agents.config(agent)
    return pb.AgentInfo(
        id=agent.id,
        name=agent.name,
        description=config.description,
        config=json.dumps(runtime.agents.shown(agent), ensure_ascii=False, separators=(",", ":")),
        model=config.model,
        max_iterations=config.max_iterations,
        thinking=config.thinking,
        skills=config.skills,
        mcps=[str(server.get("name", "")) for server in config.mcps],
        compact_tool_max_len=config.compact_tool_max_len,
    )
