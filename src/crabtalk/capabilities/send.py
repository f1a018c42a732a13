"""The capability that the argument `send` grants: `crabtalk.agent.send`, a turn of another agent.

Owns who may be spoken to: the agents that were declared, by id, under whatever name they have now. The turn
is the target's, with the target's harnesses; who speaks, in which session and on which chain is the daemon's
to say. So whoever may speak to an agent that holds a `root` holds that `root`. More of them may be asked in
the same call, each for something of its own: their turns run side by side, and what all say comes back.
"""

import json
from collections.abc import Awaitable, Callable, Collection
from typing import Final, Protocol

import anyio

from berm import Capability, Refused, capability
from crabtalk.capabilities._caller import Call, caller_of, explained
from crabtalk.capabilities._failure import Failure
from crabtalk.errors import RequestError
from crabtalk.store.interfaces.agents import AgentRecord
from crabtalk.tools import Context

MOST: Final = 16  # agents that are asked in one call; picked, not measured


class Ended(Protocol):
    """How a turn ended."""

    @property
    def text(self) -> str:
        """The answer."""

    @property
    def error(self) -> RequestError | None:
        """Why there is none."""


class Turns(Protocol):
    """What runs a turn for a guest."""

    def send(self, context: Context, target: AgentRecord, content: str) -> Awaitable[Ended]:
        """Run a turn of `target` for whoever `context` says, and return how it ended.

        Raises:
            RequestError: if it was not run.
        """


def send(
    turns: Turns, find: Callable[[str], AgentRecord | None], allowed: Collection[str]
) -> tuple[Capability, ...]:
    """Grant turns of the agents with the ids `allowed`; `find` knows agents by name and id."""
    targets = frozenset(allowed)

    @capability("crabtalk.agent.send")
    async def send_to(call: Call, agent: str, content: str, more: list[tuple[str, str]]) -> str:
        who = caller_of(call)
        if not more:
            return await answer_of(who, agent, content)
        if len(more) >= MOST:
            raise Refused(f"at most {MOST} agents are asked in one call, got {len(more) + 1}")
        answers: dict[int, dict[str, str]] = {}

        async def ask(number: int, agent: str, content: str) -> None:
            try:
                answers[number] = {"text": await answer_of(who, agent, content)}
            except (Refused, Failure) as error:
                answers[number] = {"error": str(error)}

        async with anyio.create_task_group() as tasks:
            for number, (agent_, content_) in enumerate([(agent, content), *more]):
                tasks.start_soon(ask, number, agent_, content_)
        said = json.dumps([answers[number] for number in sorted(answers)], ensure_ascii=False)
        return said.encode(errors="replace").decode()

    async def answer_of(who: Context, agent: str, content: str) -> str:
        target = find(agent)
        if target is None or target.id not in targets:
            raise Refused(f"no such agent: {agent[:80]}")
        with explained():
            ended = await turns.send(who, target, content)
        if ended.error is not None:
            raise Failure(f"{target.name} gave no answer: {ended.error.message}")
        return ended.text

    return (send_to,)
