"""Tools of harnesses for MCP clients: an offer becomes a server of the public SDK; needs the package `mcp`.

Whoever has tools describes them as an `Offer`; what a call means is the offer's own business. Usages are
resources, `harness://NAME/usage`. A client of either era hears when tools have changed, and a call that it
takes back is cancelled here.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import anyio
import mcp_types as types
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.session import ServerSession
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    ResourcesListChanged,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPError

MAX_SUBSCRIPTIONS: Final = 64
_MAX_SESSIONS: Final = 1024  # of the older era, that are told of changes
_TELL_S: Final = 5.0  # for a client to take in that something has changed
_SCHEME: Final = "harness://"
_SUFFIX: Final = "/usage"

Context = Any  # of a request; the SDK's type has parameters that say nothing here


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """One tool, as clients call it."""

    name: str
    description: str
    parameters: Mapping[str, Any]  # a JSON Schema


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a call: a result, or what the model should know of why there is none."""

    text: str
    is_error: bool = False


class Offer(Protocol):
    """Tools, and what they say of themselves."""

    @property
    def name(self) -> str:
        """What clients call all of it."""

    @property
    def version(self) -> str:
        """Of whoever offers it."""

    def tools(self) -> Sequence[OfferedTool]:
        """Return what there is at the moment."""

    def usages(self) -> Mapping[str, str]:
        """Return how to use each harness, by its name."""

    async def call(self, name: str, arguments: bytes) -> Answer:
        """Call a tool with JSON arguments.

        **Cancellation:** the tool is stopped.

        Raises:
            LookupError: if there is none of this name.
        """


class _Server(Server[dict[str, Any]]):
    """Says to clients of the older era, too, that it tells of changes."""

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        told = notification_options or NotificationOptions(tools_changed=True, resources_changed=True)
        return super().create_initialization_options(told, experimental_capabilities, extensions)


class Serving:
    """An offer as a server: `server` is given to a transport."""

    def __init__(self, offer: Offer) -> None:
        self._offer = offer
        self._bus = InMemorySubscriptionBus()
        self._listening = ListenHandler(self._bus, max_subscriptions=MAX_SUBSCRIPTIONS)
        self._sessions: dict[str, ServerSession] = {}
        self.server: Server[dict[str, Any]] = _Server(
            offer.name,
            version=offer.version,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_read_resource=self._read_resource,
            on_subscriptions_listen=self._listening,
        )

    async def changed(self) -> None:
        """Tell every client that tools and usages have changed."""
        await self._bus.publish(ToolsListChanged())
        await self._bus.publish(ResourcesListChanged())
        async with anyio.create_task_group() as tasks:
            for session in self._sessions.values():
                tasks.start_soon(_tell, session)

    def close(self) -> None:
        """Let streams of news end in order."""
        self._listening.close()

    async def _list_tools(
        self, context: Context, _: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        self._remember(context)
        tools = [
            types.Tool(name=one.name, description=one.description, input_schema=dict(one.parameters))
            for one in self._offer.tools()
        ]
        return types.ListToolsResult(tools=tools)

    async def _call_tool(self, context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        self._remember(context)
        arguments = json.dumps(params.arguments or {}, ensure_ascii=False, separators=(",", ":"))
        try:
            answer = await self._offer.call(params.name, arguments.encode(errors="replace"))
        except LookupError:
            raise MCPError(types.INVALID_PARAMS, f"there is no tool {params.name[:80]!r}") from None
        return types.CallToolResult(content=[types.TextContent(text=answer.text)], is_error=answer.is_error)

    async def _list_resources(
        self, context: Context, _: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        self._remember(context)
        resources = [
            types.Resource(
                uri=f"{_SCHEME}{name}{_SUFFIX}",
                name=f"{name} usage",
                mime_type="text/plain",
                size=len(text.encode()),
            )
            for name, text in self._offer.usages().items()
        ]
        return types.ListResourcesResult(resources=resources)

    async def _read_resource(
        self, _: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        uri = str(params.uri)
        name = uri.removeprefix(_SCHEME).removesuffix(_SUFFIX)
        text = self._offer.usages().get(name)
        if text is None or uri != f"{_SCHEME}{name}{_SUFFIX}":
            raise MCPError(types.INVALID_PARAMS, f"there is no resource {uri[:200]!r}")
        return types.ReadResourceResult(
            contents=[types.TextResourceContents(uri=uri, mime_type="text/plain", text=text)]
        )

    def _remember(self, context: Context) -> None:
        """Note how to reach a client; over HTTP one server has many."""
        request = context.request
        key = request.headers.get("mcp-session-id", "") if request is not None else ""
        if key not in self._sessions and len(self._sessions) >= _MAX_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        self._sessions[key] = context.session


async def _tell(session: ServerSession) -> None:
    with anyio.move_on_after(_TELL_S):
        await session.send_tool_list_changed()
        await session.send_resource_list_changed()
