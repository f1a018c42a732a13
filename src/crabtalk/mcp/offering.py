"""An agent's tools as an offer to MCP clients, and the servers that are made of it; imports the SDK.

A call goes through the tool box and so through the executor, as a model's does. One server serves one client
on a stream, or all clients over HTTP that have the same token, so that sessions of another are out of reach.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from typing import Any, Final

import trio
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from berm.mcp import Answer, OfferedTool, Serving
from crabtalk.agents import AgentService
from crabtalk.mcp.framing import Receive, SendAll, framed
from crabtalk.mcp.tokens import Token
from crabtalk.store.interfaces.agents import AgentRecord
from crabtalk.toolbox import ToolBox
from crabtalk.tools import Tool, Trigger
from crabtalk.work import Work

logger = logging.getLogger(__name__)

MAX_BODY_BYTES: Final = 4 << 20
MAX_SESSIONS: Final = 256  # over HTTP, of the older era, for the same tools
SESSION_IDLE_S: Final = 1800.0

Message = MutableMapping[str, Any]
Identity = tuple[str, str]  # an agent's id; a harness as it declares it, or "" for all of its tools


class AgentOffer:
    """What one client may use."""

    def __init__(
        self, agents: AgentService, toolbox: ToolBox, identity: Identity, client: str, version: str
    ) -> None:
        """`client` is who asks, for the audit."""
        self.version = version
        self._agents = agents
        self._toolbox = toolbox
        self._agent_id, self._harness = identity
        self._client = client

    @property
    def name(self) -> str:
        """What clients call it: the agent's name, and the harness's."""
        agent = self._agents.agent(self._agent_id)
        return "/".join(part for part in (agent.name if agent else "", self._harness) if part)

    def tools(self) -> Sequence[OfferedTool]:
        """Return the tools as a model of this agent sees them."""
        return [OfferedTool(name, one.description, one.parameters) for name, one in self._tools().items()]

    def usages(self) -> Mapping[str, str]:
        """Return what the harnesses say of themselves."""
        agent = self._agents.agent(self._agent_id)
        said = self._toolbox.usages(agent) if agent is not None else ()
        return {one.harness: one.text for one in said if one.text and self._harness in {"", one.harness}}

    async def call(self, name: str, arguments: bytes) -> Answer:
        """Call a tool.

        **Cancellation:** it is stopped.

        Raises:
            LookupError: if there is none of this name.
        """
        tools = self._tools()
        agent = self._agents.agent(self._agent_id)
        if agent is None or name not in tools:
            raise LookupError(name)
        work = Work(
            trigger=Trigger.TOOL, agent=agent, harness="", entry="", args=arguments, client=self._client
        )
        result = await self._toolbox.run(tools, name, work)
        return Answer(result.text, result.is_error)

    def _tools(self) -> dict[str, Tool]:
        agent = self._agents.agent(self._agent_id)
        found = self._toolbox.tools(agent) if agent is not None else {}
        return {name: one for name, one in found.items() if self._harness in {"", one.harness}}


class Offering:
    """Every server that there is; a listener to agents. Its tasks run in the nursery that it is given."""

    def __init__(self, agents: AgentService, toolbox: ToolBox, version: str, nursery: trio.Nursery) -> None:
        self._agents = agents
        self._toolbox = toolbox
        self._version = version
        self._nursery = nursery
        self._open: dict[Serving, tuple[str, trio.CancelScope]] = {}  # whose agent's, and what ends it
        self._sites: dict[str, _Site] = {}  # by the id of a token

    async def serve_stream(
        self, receive: Receive, send_all: SendAll, identity: Identity, client: str
    ) -> None:
        """Serve one client on a stream, until it ends or the agent is gone."""
        serving = self._serving(identity, client)
        server = serving.server
        with trio.CancelScope() as scope:
            self._open[serving] = identity[0], scope
            try:
                streams = framed(receive, send_all, _note_junk, lambda: None, answering=True)
                async with streams as (incoming, outgoing):
                    await server.run(incoming, outgoing, server.create_initialization_options())
            finally:
                del self._open[serving]

    async def site(self, token: Token) -> "_Site":
        """Return what serves clients over HTTP that have this token."""
        site = self._sites.get(token.id)
        if site is None:
            serving = self._serving((token.agent, token.harness), f"mcp:token {token.id}")
            site = self._sites[token.id] = _Site(serving)
            self._nursery.start_soon(self._keep, token, site)
        await site.ready.wait()
        return site

    def close_sites(self, kept: set[str]) -> None:
        """End what serves clients whose token is not among those that are kept, by their ids."""
        for token_id, site in self._sites.items():
            if token_id not in kept:
                site.scope.cancel()

    def changed(self, agent_id: str) -> None:
        """Tell the clients of an agent that its tools have changed."""
        for serving, (whose, _) in self._open.items():
            if whose == agent_id:
                self._nursery.start_soon(self._tell, serving)

    async def on_declare(self, agent: AgentRecord) -> None:
        """Take note that an agent has changed."""
        self.changed(agent.id)

    async def on_forget(self, agent: AgentRecord) -> None:
        """Send the clients of an agent away, as it is gone."""
        for whose, scope in list(self._open.values()):
            if whose == agent.id:
                scope.cancel()

    def _serving(self, identity: Identity, client: str) -> Serving:
        return Serving(AgentOffer(self._agents, self._toolbox, identity, client, self._version))

    async def _tell(self, serving: Serving) -> None:
        try:
            await serving.changed()
        except Exception:
            logger.exception("MCP clients could not be told of changes")

    async def _keep(self, token: Token, site: "_Site") -> None:
        self._open[site.serving] = token.agent, site.scope
        try:
            with site.scope:
                async with site.manager.run():
                    site.ready.set()
                    await trio.sleep_forever()
        except Exception:
            logger.exception("serving MCP clients failed")
        finally:
            site.ready.set()
            del self._open[site.serving]
            del self._sites[token.id]


class _Site:
    """One server with its sessions over HTTP; an ASGI application."""

    def __init__(self, serving: Serving) -> None:
        self.serving = serving
        self.scope = trio.CancelScope()
        self.ready = trio.Event()
        self.manager = StreamableHTTPSessionManager(
            serving.server,
            max_request_body_size=MAX_BODY_BYTES,
            max_sessions=MAX_SESSIONS,
            session_idle_timeout=SESSION_IDLE_S,
        )

    async def __call__(
        self,
        scope: MutableMapping[str, Any],
        receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
    ) -> None:
        """Serve one request."""
        await self.manager.handle_request(scope, receive, send)


def _note_junk(line: str) -> None:
    logger.debug("an MCP client said what is no MCP: %s", line[:200])
