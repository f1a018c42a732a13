"""The MCP servers of all agents, as a provider of tools.

Agents that say the same about a server share one: it is started when the first of them is declared, and ended
when the last one is gone. A tool of server `x` stands behind the seam as tool of harness `x`, and a model
calls it `x__tool`. Nothing that a server says of itself gets into a system message.
"""

import json
import logging
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import trio

from crabtalk.clock import Clock
from crabtalk.config import McpConfig
from crabtalk.declarations import AgentConfig, Bounds
from crabtalk.errors import BadRequest, NotFound
from crabtalk.mcp import loading
from crabtalk.mcp.peer import Connection, Peer, Status
from crabtalk.mcp.ring import Ring
from crabtalk.mcp.servers import ServerConfig
from crabtalk.store.interfaces.agents import AgentRecord
from crabtalk.tools import Context, Failed, Outcome, Tool, Usage

logger = logging.getLogger(__name__)

_STARTING: Final = 4  # servers that are started at once; a start keeps a processor busy
_EVENTS_WAITING: Final = 256
_STOP_S: Final = 10.0


class Agents(Protocol):
    """What is asked about agents."""

    def agent(self, agent_id: str) -> AgentRecord | None:
        """Return the agent with this id."""

    def config(self, agent: AgentRecord) -> AgentConfig:
        """Return what it was declared to be."""


@dataclass(frozen=True, slots=True)
class McpEvent:
    """What became of a server, for one agent that has it."""

    status: Status
    agent_id: str
    name: str
    tools: tuple[str, ...]
    error: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class ServerView:
    """One server of an agent, for people."""

    config: ServerConfig
    status: Status
    error: str
    tools: int


class Watcher:
    """The events of all servers from now on; iterate over it."""

    def __init__(self) -> None:
        self.lost = 0  # events for which there was no room
        self.send, self.receive = trio.open_memory_channel[McpEvent](_EVENTS_WAITING)

    def offer(self, event: McpEvent) -> None:
        """Take an event, if there is room."""
        try:
            self.send.send_nowait(event)
        except trio.WouldBlock:
            self.lost += 1

    def __aiter__(self) -> "Watcher":
        return self

    async def __anext__(self) -> McpEvent:
        return await self.receive.receive()


class McpService:
    """All servers; a `ToolProvider`, for trio's thread."""

    def __init__(
        self,
        agents: Agents,
        clock: Clock,
        home: Path,
        emit: Callable[[str, Mapping[str, object]], None],
        limits: Callable[[], McpConfig] = McpConfig,
    ) -> None:
        """`emit` publishes an event of the daemon's own; `home` is kept from the servers."""
        self._agents = agents
        self._clock = clock
        self._home = home
        self._emit = emit
        self._limits = limits
        self._connected = 0
        self._starting = trio.Semaphore(_STARTING)
        self._peers: dict[str, Peer] = {}  # by the digest of their configuration
        self._held: dict[str, dict[str, tuple[ServerConfig, Peer]]] = {}  # by agent's id, by name
        self._watchers: list[Watcher] = []
        self._nursery: trio.Nursery | None = None

    # Life

    @asynccontextmanager
    async def open(self) -> AsyncGenerator["McpService"]:
        """Let servers run until the block ends; they are gone then."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            for peer in self._peers.values():
                nursery.start_soon(peer.run)
            try:
                yield self
            finally:
                self._nursery = None
                for peer in self._peers.values():
                    peer.close()
                nursery.cancel_scope.deadline = trio.current_time() + _STOP_S

    async def on_declare(self, agent: AgentRecord) -> None:
        """Start what an agent declares now, end what it does not any more."""
        current = self._agents.agent(agent.id)
        declared = self._agents.config(current).mcps if current is not None else ()
        self._hold(agent.id, [ServerConfig.of(one) for one in declared])

    async def on_forget(self, agent: AgentRecord) -> None:
        """End what only this agent had."""
        self._hold(agent.id, [])

    async def ready(self, agent: AgentRecord, timeout_s: float) -> None:
        """Wait until each server of an agent has answered once or failed, but no longer than `timeout_s`."""
        with trio.move_on_after(timeout_s):
            for _, peer in self._of(agent).values():
                if peer.status is Status.CONNECTING:
                    await peer.settled()

    # The seam of tools

    def harnesses(self, agent: AgentRecord) -> Sequence[str]:
        """Return the names of an agent's servers."""
        return list(self._of(agent))

    def tools(self, agent: AgentRecord) -> Sequence[Tool]:
        """Return the tools that those list, or have listed when they were last connected."""
        return [
            Tool(name, tool.name, f"{name}__{tool.name}", tool.description, dict(tool.parameters))
            for name, (_, peer) in self._of(agent).items()
            for tool in peer.tools
        ]

    def usage(self, agent: AgentRecord) -> Sequence[Usage]:
        """Return an empty text for each, and why it cannot be used."""
        return [Usage(name, "", peer.error) for name, (_, peer) in self._of(agent).items()]

    def bounds(self, agent: AgentRecord, name: str) -> Bounds:
        """Return what is enforced for the calls of one server."""
        config, _ = self._find(agent.id, name)
        return Bounds(deadline_s=config.deadline_s, digest=f"mcp:{config.name}")

    async def call(self, context: Context, tool: str, args: bytes) -> Outcome:
        """Call a tool of a server.

        **Cancellation:** the server is told.

        Raises:
            NotFound: if there is no such server or tool.
            Busy: from `context.gate`.
        """
        _, peer = self._find(context.agent.id, context.harness)
        if peer.tools and peer.named(tool) is None:
            raise NotFound(f"server `{context.harness}` has no tool `{tool[:80]}`")
        try:
            arguments = json.loads(args or b"{}")
        except (ValueError, RecursionError) as error:
            return Failed(f"the arguments are no JSON: {error}"[:300])
        if not isinstance(arguments, dict):
            return Failed("the arguments have to be a JSON object")
        async with context.gate.suspended():
            return await peer.call(tool, arguments, context.deadline)

    # For people

    def list(self, agent_id: str = "") -> list[tuple[str, ServerView]]:
        """Return the servers of an agent, or of all, each with its agent's id."""
        chosen = [agent_id] if agent_id else sorted(self._held)
        return [(one, self._view(one, name)) for one in chosen for name in self._held.get(one, {})]

    def view(self, agent_id: str, name: str) -> ServerView:
        """Return one server.

        Raises:
            NotFound: if the agent has none of that name.
        """
        self._find(agent_id, name)
        return self._view(agent_id, name)

    def reconnect(self, agent_id: str, name: str) -> Peer:
        """Connect to a server anew, for all who share it.

        Raises:
            NotFound: if the agent has none of that name.
        """
        _, peer = self._find(agent_id, name)
        peer.reconnect()
        return peer

    def ring(self, agent_id: str, name: str) -> Ring:
        """Return what a server wrote.

        Raises:
            NotFound: if the agent has none of that name.
        """
        return self._find(agent_id, name)[1].ring

    @contextmanager
    def watched(self) -> Iterator[Watcher]:
        """Follow what becomes of all servers."""
        watcher = Watcher()
        self._watchers.append(watcher)
        try:
            yield watcher
        finally:
            self._watchers.remove(watcher)
            watcher.send.close()
            watcher.receive.close()

    # Within

    def _of(self, agent: AgentRecord) -> dict[str, tuple[ServerConfig, Peer]]:
        return self._held.get(agent.id, {})

    def _find(self, agent_id: str, name: str) -> tuple[ServerConfig, Peer]:
        found = self._held.get(agent_id, {}).get(name)
        if found is None:
            raise NotFound(f"agent has no MCP server `{name[:80]}`")
        return found

    def _view(self, agent_id: str, name: str) -> ServerView:
        config, peer = self._held[agent_id][name]
        return ServerView(config, peer.status, peer.error, len(peer.tools))

    def _hold(self, agent_id: str, configs: Sequence[ServerConfig]) -> None:
        before = self._held.get(agent_id, {})
        after = {one.name: (one, self._peer(one)) for one in configs}
        if after:
            self._held[agent_id] = after
        else:
            self._held.pop(agent_id, None)
        kept = {id(peer) for held in self._held.values() for _, peer in held.values()}
        for _, peer in before.values():
            if id(peer) not in kept and self._peers.pop(peer.config.digest(), None) is not None:
                peer.close()

    def _peer(self, config: ServerConfig) -> Peer:
        digest = config.digest()
        peer = self._peers.get(digest)
        if peer is None:
            ring = Ring(self._clock, config.secrets())
            peer = Peer(config, ring, self._connect, self._tell, idle_s=lambda: self._limits().idle)
            self._peers[digest] = peer
            if self._nursery is not None:
                self._nursery.start_soon(peer.run)
        return peer

    def _connect(
        self, config: ServerConfig, ring: Ring, changed: Callable[[], None]
    ) -> AbstractAsyncContextManager[Connection]:
        return self._counted(config, ring, changed)

    @asynccontextmanager
    async def _counted(
        self, config: ServerConfig, ring: Ring, changed: Callable[[], None]
    ) -> AsyncGenerator[Connection]:
        if self._connected >= (most := self._limits().servers):
            raise BadRequest(f"{most} servers are connected already; see `mcp.servers`")
        self._connected += 1
        starting = _Once(self._starting)
        try:
            await starting.take()
            async with loading.opened(config, self._home, ring, changed) as session:
                starting.give()
                yield session
        finally:
            starting.give()
            self._connected -= 1

    def _tell(self, peer: Peer) -> None:
        tools = tuple(one.name for one in peer.tools)
        now_ms = self._clock.now_ms()
        for agent_id, held in self._held.items():
            for name, (_, one) in held.items():
                if one is not peer:
                    continue
                event = McpEvent(peer.status, agent_id, name, tools, peer.error, now_ms)
                for watcher in self._watchers:
                    watcher.offer(event)
                facts = {"agent": agent_id, "name": name, "tools": len(tools)}
                self._emit(f"mcp:{peer.status}", facts)
                if peer.status is Status.FAILED:
                    logger.warning("MCP server `%s`: %s", name, peer.error, extra={"agent": agent_id})


class _Once:
    """A place of a semaphore that is given back once."""

    def __init__(self, places: trio.Semaphore) -> None:
        self._places = places
        self._taken = False

    async def take(self) -> None:
        await self._places.acquire()
        self._taken = True

    def give(self) -> None:
        if self._taken:
            self._taken = False
            self._places.release()


def merged(servers: Sequence[Mapping[str, Any]], changed: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return an agent's servers with one of them changed or added, found by its name."""
    name = changed.get("name")
    if any(one.get("name") == name for one in servers):
        return [changed if one.get("name") == name else one for one in servers]
    return [*servers, changed]
