"""What scheduling and events need to know of agents and images: a protocol, so that neither imports them."""

from collections.abc import Awaitable
from typing import Final, Literal, Protocol

from crabtalk.store.interfaces.agents import AgentRecord
from crabtalk.tools import Outcome
from crabtalk.work import Work

Entry = Literal["on_wake", "on_notify"]
Owner = tuple[str, str]  # an agent's id and the name of one of its harnesses
AGENT_ITSELF: Final = ""  # in the place of the harness: a turn of the agent


class Targets(Protocol):
    """Whom a wake or an event can be delivered to."""

    def agent(self, agent_id: str) -> AgentRecord | None:
        """Return the agent, None if there is none."""

    async def require_entry(self, agent: AgentRecord, harness: str, entry: Entry) -> None:
        """Return if that harness has `entry`; an agent itself has every one.

        Raises:
            NotFound: if the agent declares no such harness, or its image is not here.
            BadRequest: if the image does not load, or has no such entry.
        """

    async def require_ready(self, agent: AgentRecord, harness: str, entry: Entry) -> None:
        """Return if `entry` of that harness could be started now; an agent itself always could.

        Raises:
            NotFound, BadRequest: as `require_entry`; BadRequest also if what it declares cannot be bound.
        """


class Runner(Protocol):
    """What runs a wake or an event: the executor, or turns where the target is an agent itself."""

    def run(self, work: Work, /) -> Awaitable[Outcome]:
        """Run work and return its outcome; see `Executor.run`."""


def name_of(owner: Owner) -> str:
    """Return what an owner is called in a sentence."""
    return "the agent" if owner[1] == AGENT_ITSELF else f"harness `{owner[1]}`"
