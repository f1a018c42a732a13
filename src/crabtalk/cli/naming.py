"""Agents as people write them: by name or by id. The protocol keys everything else by id."""

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from crabtalk.client.sync import SyncClient
    from crabtalk.wire.pb import crabtalk_pb2 as pb

_ID = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")


def agent_named(client: "SyncClient", text: str) -> "pb.AgentInfo":
    """Return the agent whose name `text` is, else the one whose id.

    Raises:
        NotFound: there is none.
    """
    from crabtalk.errors import NotFound

    try:
        return client.get_agent(name=text)
    except NotFound:
        if not _ID.fullmatch(text):
            raise
    for info in client.list_agents().agents:
        if info.id == text:
            return client.get_agent(name=info.name)  # whose configuration a long list leaves out
    raise NotFound(f"there is no agent {text}")


def agent_id(client: "SyncClient", text: str) -> str:
    """Return the id of an agent; see `agent_named`."""
    return text if _ID.fullmatch(text) else agent_named(client, text).id


def harness_or_itself(text: str) -> str:
    """Return a harness's name, or "", which is the agent itself, for `.`."""
    return "" if text == "." else text


class Names(dict[str, str]):
    """Names of agents by id; an id without a name, because the agent is gone, stands for itself."""

    def __init__(self, client: "SyncClient") -> None:
        super().__init__({info.id: info.name for info in client.list_agents().agents})

    def __missing__(self, agent: str) -> str:
        return agent

    def of_harness(self, target: str) -> str:
        """Return `AGENT/HARNESS` with the agent's name, for one with its id."""
        agent, slash, harness = target.partition("/")
        return f"{self[agent]}{slash}{harness}"
