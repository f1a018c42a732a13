"""What scheduling and events need to know of agents and images: a protocol, so that neither imports them."""

from typing import Literal, Protocol

from crabtalk.store.interfaces.agents import AgentRecord

Entry = Literal["on_wake", "on_notify"]
Owner = tuple[str, str]  # an agent's id and the name of one of its harnesses


class Targets(Protocol):
    """Whom a wake or an event can be delivered to."""

    def agent(self, agent_id: str) -> AgentRecord | None:
        """Return the agent, None if there is none."""

    async def require_entry(self, agent: AgentRecord, harness: str, entry: Entry) -> None:
        """Return if `entry` of that harness could be started now.

        Raises:
            NotFound: if the agent declares no such harness, or its image is not here.
            BadRequest: if the image does not load, or has no such entry.
        """
