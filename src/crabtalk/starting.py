"""Who runs what nobody waits for: harnesses by the executor, agents themselves by their turns.

A wake or an event without a harness is for the agent itself. Scheduling and events see one runner and one set
of targets, and tell the two apart nowhere.
"""

from crabtalk.agents import AgentService
from crabtalk.conversation.unattended import Unattended
from crabtalk.executor import Executor
from crabtalk.scheduling.targets import AGENT_ITSELF, Entry
from crabtalk.store.interfaces.agents import AgentRecord
from crabtalk.tools import Outcome
from crabtalk.work import Work


class Starter:
    """The `Runner` and the `Targets` of wakes and events."""

    def __init__(self, agents: AgentService, executor: Executor) -> None:
        self._agents = agents
        self._executor = executor
        self.turns: Unattended | None = None  # set when the runtime has them

    async def run(self, work: Work) -> Outcome:
        """Run work and return its outcome.

        **Cancellation:** what runs is stopped, and waited for.

        Raises:
            RequestError: if it was not run.
        """
        if work.harness != AGENT_ITSELF:
            return await self._executor.run(work)
        assert self.turns is not None  # noqa: S101 - nothing is woken before the runtime is put together
        return await self.turns.run(work)

    def agent(self, agent_id: str) -> AgentRecord | None:
        """Return the agent, None if there is none."""
        return self._agents.agent(agent_id)

    async def require_entry(self, agent: AgentRecord, harness: str, entry: Entry) -> None:
        """Return if that harness has `entry`; an agent itself has every one.

        Raises:
            NotFound, BadRequest: as `AgentService.require_entry`.
        """
        if harness != AGENT_ITSELF:
            await self._agents.require_entry(agent, harness, entry)

    async def require_ready(self, agent: AgentRecord, harness: str, entry: Entry) -> None:
        """Return if `entry` of that harness could be started now; an agent itself always could.

        Raises:
            NotFound, BadRequest: as `AgentService.require_ready`.
        """
        if harness != AGENT_ITSELF:
            await self._agents.require_ready(agent, harness, entry)
