"""Harnesses that come with the program: what `builtin = "NAME"` in a declaration means.

They stand behind the same seam as images: declared per agent, called through the executor, with a row in the
audit for each call. What one of them may do is decided by its code, so nothing can be bound to it. `Builtins`
knows which there are, `BuiltinTools` serves them; whoever embeds the daemon adds more.
"""

from collections.abc import Iterable, Sequence
from typing import Final, Protocol

import berm
from crabtalk.declarations import AgentConfig, HarnessDeclaration
from crabtalk.errors import NotFound
from crabtalk.image_info import ImageInfo
from crabtalk.store.interfaces.agents import AgentRecord
from crabtalk.tools import Context, Outcome, Tool, Trapped, Usage
from crabtalk.units import nearest


class Builtin(Protocol):
    """One harness that is compiled in."""

    @property
    def name(self) -> str:
        """What a declaration calls it."""

    @property
    def manifest(self) -> berm.Manifest:
        """Its tools, and what it says about itself in a system message."""

    async def call(self, context: Context, tool: str, args: bytes) -> Outcome:
        """Run one of its tools; `args` are whatever the model wrote.

        **Cancellation:** it stops.

        Raises:
            RequestError: if it cannot be run.
        """


class Builtins:
    """Those that there are, by name."""

    def __init__(self, builtins: Iterable[Builtin] = ()) -> None:
        self._by_name: dict[str, Builtin] = {}
        for one in builtins:
            if one.name in self._by_name:
                raise ValueError(f"there are two built-in harnesses named {one.name}")
            self._by_name[one.name] = one

    def get(self, name: str) -> Builtin | None:
        """Return the one of this name, None if there is none."""
        return self._by_name.get(name)

    def info(self, name: str) -> ImageInfo:
        """Return what it is, in the terms of images; why it cannot be used if it is not here."""
        found = self._by_name.get(name)
        if found is None:
            reason = f"no harness `{name[:80]}` is built in{nearest(name, self._by_name)}"
            return ImageInfo("", 0, error=reason)
        return ImageInfo("", 0, manifest=found.manifest)


NO_BUILTINS: Final = Builtins()


class Agents(Protocol):
    """What is asked about agents."""

    def agent(self, agent_id: str) -> AgentRecord | None:
        """Return the agent with this id."""

    def config(self, agent: AgentRecord) -> AgentConfig:
        """Return what an agent was declared to be."""

    def declaration(self, agent: AgentRecord, harness: str) -> HarnessDeclaration:
        """Return the declaration of one harness; NotFound if there is none."""


class BuiltinTools:
    """A `ToolProvider` for every built-in harness that an agent declares."""

    def __init__(self, builtins: Builtins, agents: Agents) -> None:
        self._builtins = builtins
        self._agents = agents

    def harnesses(self, agent: AgentRecord) -> Sequence[str]:
        """Return the names of an agent's built-in harnesses, as it calls them."""
        return [one.name for one in self._declared(agent)]

    def tools(self, agent: AgentRecord) -> Sequence[Tool]:
        """Return what those offer."""
        return [
            Tool(one.name, tool.name, one.wire_name(tool.name), tool.description, dict(tool.parameters))
            for one in self._declared(agent)
            for tool in self._builtins.info(one.builtin).tools
        ]

    def usage(self, agent: AgentRecord) -> Sequence[Usage]:
        """Return what each says about itself, or why it cannot be used."""
        infos = [(one.name, self._builtins.info(one.builtin)) for one in self._declared(agent)]
        return [Usage(name, info.usage, info.error) for name, info in infos]

    async def call(self, context: Context, tool: str, args: bytes) -> Outcome:
        """Run a tool.

        **Cancellation:** the tool is stopped.

        Raises:
            NotFound: if there is no such harness or tool.
        """
        name = self._agents.declaration(context.agent, context.harness).builtin
        builtin, info = self._builtins.get(name), self._builtins.info(name)
        if builtin is None:
            return Trapped("load", info.error, sentence="the tool is not here any more")
        if all(tool != one.name for one in info.tools):
            raise NotFound(f"harness `{context.harness}` has no tool `{tool[:80]}`")
        return await builtin.call(context, tool, args)

    async def on_declare(self, agent: AgentRecord) -> None:
        """Do nothing: what is declared is asked for each time."""

    async def on_forget(self, agent: AgentRecord) -> None:
        """Do nothing: what they keep for an agent goes by the hooks of those who keep it."""

    def _declared(self, agent: AgentRecord) -> Sequence[HarnessDeclaration]:
        current = self._agents.agent(agent.id)
        declared = self._agents.config(current).harnesses if current is not None else ()
        return [one for one in declared if one.builtin]
