"""The tools of an agent, wherever they come from, as a model calls them.

Gathers what all providers have for an agent under names that every endpoint takes, finds a tool by such a
name, and runs calls through the executor. Providers are added here, images first; an agent's system message
is put together here too, as it is made of what they say. Knows neither models nor sessions.
"""

import logging
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Final, Protocol

from crabtalk.agents import AgentService
from crabtalk.declarations import Bounds
from crabtalk.errors import NotFound, RequestError
from crabtalk.known_secrets import KNOWN
from crabtalk.store.interfaces.agents import AgentRecord
from crabtalk.tools import Done, Failed, Outcome, Tool, ToolProvider, Usage
from crabtalk.units import nearest
from crabtalk.work import Work

logger = logging.getLogger(__name__)

WIRE_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
MAX_RESULT: Final = 1 << 20  # characters of a result that a conversation takes; picked, not measured
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]")
_NAME_CHARACTERS: Final = 64
_DIGEST_CHARACTERS: Final = 8

BoundsOf = Callable[[AgentRecord, str], Bounds]


class Runner(Protocol):
    """What runs tools: the executor."""

    def add_provider(self, provider: ToolProvider) -> None:
        """Take on work for the tools of another provider."""

    def run(self, work: Work, /) -> Awaitable[Outcome]:
        """Run work and return its outcome; see `Executor.run`."""


@dataclass(frozen=True, slots=True)
class Result:
    """What a model reads of a call."""

    text: str
    is_error: bool = False


class ToolBox:
    """The tools of every agent; used from trio's thread only."""

    def __init__(self, agents: AgentService) -> None:
        self._agents = agents
        self._runner: Runner | None = None
        self._providers: list[ToolProvider] = []
        self._bounds: dict[int, BoundsOf] = {}  # by the place of their provider
        self._told: set[tuple[str, str]] = set()  # collisions that were logged

    def run_by(self, runner: Runner, providers: Sequence[ToolProvider]) -> None:
        """Run tools by `runner`, which has `providers` already."""
        self._runner = runner
        self._providers.extend(providers)

    def add(self, provider: ToolProvider, bounds: BoundsOf | None = None) -> None:
        """Let agents have the tools of another provider.

        `bounds` says what the executor enforces for those of its harnesses that an agent does not declare.
        """
        if bounds is not None:
            self._bounds[len(self._providers)] = bounds
        self._providers.append(provider)
        self._agents.add_listener(provider)
        if self._runner is not None:
            self._runner.add_provider(provider)

    def bounds(self, agent: AgentRecord, harness: str) -> Bounds:
        """Return what is enforced for one harness, declared or not.

        Raises:
            NotFound: if the agent has none of that name.
        """
        try:
            return self._agents.bounds(agent, harness)
        except NotFound:
            for place, provider in enumerate(self._providers):
                if place and harness in provider.harnesses(agent):
                    given = self._bounds.get(place)
                    return given(agent, harness) if given is not None else Bounds()
            raise

    def tools(self, agent: AgentRecord) -> Mapping[str, Tool]:
        """Return the tools of an agent by the names that a model calls them by, in a lasting order.

        Those of declared harnesses come first, as they are declared. Of two that have one name the first is
        there; declarations that lead to that are refused, so the second is one that came by itself.
        """
        found: dict[str, Tool] = {}
        for tool in sorted(self._offered(agent), key=self._order(agent)):
            if (other := found.get(tool.wire_name)) is None:
                found[tool.wire_name] = tool
            else:
                self._tell_collision(agent, tool, other)
        return found

    def find(self, agent: AgentRecord, wire_name: str) -> Tool | None:
        """Return the tool that a model calls so, None if the agent has none."""
        return self.tools(agent).get(wire_name)

    def system(self, agent: AgentRecord) -> str:
        """Return an agent's system message: its description and, each after a blank line, usages in order."""
        parts = [self._agents.config(agent).description, *(one.text for one in self.usages(agent))]
        return "\n\n".join(part for part in parts if part)

    def usages(self, agent: AgentRecord) -> list[Usage]:
        """Return what each harness of an agent says of itself, in their order."""
        usages = [one for provider in self._providers for one in provider.usage(agent)]
        places = self._places(agent)
        return sorted(usages, key=lambda one: places.get(one.harness, len(places)))

    async def run(self, tools: Mapping[str, Tool], wire_name: str, work: Work) -> Result:
        """Run one call of a tool of `tools`; `work` lacks only which one it is.

        Whatever comes of it is a result for the model, refusals too.

        **Cancellation:** the tool is stopped, and waited for.
        """
        tool = tools.get(wire_name)
        if tool is None:
            return Result(f"there is no tool `{wire_name}`{nearest(wire_name, tools)}", is_error=True)
        assert self._runner is not None  # noqa: S101 - the runtime is put together before anything runs
        try:
            outcome = await self._runner.run(work._replace(harness=tool.harness, entry=tool.name))
        except RequestError as error:
            return Result(KNOWN.text(error.message), is_error=True)
        return _result_of(outcome)

    def _offered(self, agent: AgentRecord) -> Iterator[Tool]:
        for provider in self._providers:
            for tool in provider.tools(agent):
                if WIRE_NAME.match(tool.wire_name):
                    yield tool
                else:
                    yield replace(tool, wire_name=safe_name(tool.wire_name))

    def _places(self, agent: AgentRecord) -> dict[str, int]:
        return {one.name: place for place, one in enumerate(self._agents.config(agent).harnesses)}

    def _order(self, agent: AgentRecord) -> Callable[[Tool], int]:
        places = self._places(agent)
        return lambda tool: places.get(tool.harness, len(places))

    def _tell_collision(self, agent: AgentRecord, tool: Tool, other: Tool) -> None:
        if (agent.id, tool.wire_name) in self._told:
            return
        self._told.add((agent.id, tool.wire_name))
        logger.warning(
            "tool `%s` of `%s` is left out: `%s` has one of that name",
            tool.wire_name,
            tool.harness,
            other.harness,
            extra={"agent": agent.id},
        )


def safe_name(name: str) -> str:
    """Return a name that every endpoint takes, another one for each `name`."""
    digest = sha256(name.encode(errors="replace")).hexdigest()[:_DIGEST_CHARACTERS]
    kept = _NOT_IN_NAMES.sub("_", name)[: _NAME_CHARACTERS - _DIGEST_CHARACTERS - 1]
    return f"{kept}_{digest}"


def _result_of(outcome: Outcome) -> Result:
    if isinstance(outcome, Done):
        return Result(_cut(outcome.data.decode(errors="replace")))
    if isinstance(outcome, Failed):
        return Result(_cut(outcome.message), is_error=True)
    return Result(outcome.sentence, is_error=True)


def _cut(text: str) -> str:
    text = text.encode(errors="replace").decode()
    more = len(text) - MAX_RESULT
    return text if more <= 0 else f"{text[:MAX_RESULT]}\n… ({more} more characters were left out)"
