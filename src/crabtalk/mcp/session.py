"""One connection to a server, in the SDK's words on one side and ours on the other; imports the SDK.

The SDK finds out which era of the protocol the server is of, matches answers to requests, and tells the
server of every call that is given up. Here are bounds on what a server lists, and what becomes of its
answers. Nothing that the server said is compiled or run: a schema of its own for results is not checked,
since a pattern in it could hold the loop.
"""

import json
import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import mcp_types as types
import trio
from mcp.client.client import Client
from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, TypeAdapter, ValidationError

from crabtalk.errors import CrabtalkError
from crabtalk.mcp import http
from crabtalk.mcp.framing import Streams, framed
from crabtalk.mcp.process import ServerProcess, running
from crabtalk.mcp.ring import Ring
from crabtalk.mcp.servers import ServerConfig, ServerTool
from crabtalk.tools import Done, Failed, Outcome, Trapped

MAX_TOOLS: Final = 512
_MAX_PAGES: Final = 100
_MAX_DESCRIPTION: Final = 16 << 10
_MAX_SCHEMA_BYTES: Final = 64 << 10
_MAX_LISTING_BYTES: Final = 4 << 20
_LIST_S: Final = 30.0
_JUNK_SHOWN: Final = 20

_CALL_RESULT: Final[TypeAdapter[types.CallToolResult | types.InputRequiredResult]] = TypeAdapter(
    types.CallToolResult | types.InputRequiredResult
)
_TERMINATED: Final = "Session terminated"  # as the SDK says it
_GONE: Final = "the tool's server went away before it answered; it may have done what was asked, or not"
_LATE: Final = "the tool took too long and was given up"
_ODD: Final = "the tool's server answered with something that is no result"

# What the SDK logs are the server's lines and mistakes, with tracebacks: our ring has them, shortened.
for _name in ("mcp", "client"):
    logging.getLogger(_name).setLevel(logging.CRITICAL + 1)


class Ended(CrabtalkError):  # noqa: N818 - reads as what it says
    """A server ended before it could be spoken to."""


@dataclass(slots=True)
class Session:
    """A connection that is open; used from any task, owned by one."""

    client: Client
    lost: trio.Event  # the server went away
    process: ServerProcess | None
    ring: Ring

    @property
    def about(self) -> str:
        """Say who answers, and in which version of the protocol."""
        info = self.client.server_info
        who = f"{info.name} {info.version}" if info is not None else "a server without a name"
        return f"{who}, protocol {self.client.protocol_version}"

    def end(self) -> str:
        """Say why the connection ended."""
        return self.process.end() if self.process is not None else "the connection was closed"

    async def tools(self) -> tuple[ServerTool, ...]:
        """List the tools; those beyond the bounds are left out, and the ring says so.

        Raises:
            MCPError: if the server does not list them.
        """
        if self.client.server_capabilities.tools is None:
            return ()
        found: dict[str, ServerTool] = {}
        room = _MAX_LISTING_BYTES
        cursor: str | None = None
        with trio.fail_after(_LIST_S):
            for _ in range(_MAX_PAGES):
                params = types.PaginatedRequestParams(cursor=cursor) if cursor is not None else None
                page = await self.client.session.list_tools(params=params)
                for tool in page.tools:
                    room -= self._take(tool, found, room)
                cursor = page.next_cursor
                if cursor is None:
                    break
        return tuple(found.values())

    def _take(self, tool: types.Tool, found: dict[str, ServerTool], room: int) -> int:
        schema = json.dumps(tool.input_schema)
        description = (tool.description or "")[:_MAX_DESCRIPTION]
        size = len(schema) + len(description)
        if not tool.name or len(schema) > _MAX_SCHEMA_BYTES or size > room or len(found) >= MAX_TOOLS:
            self.ring.note(f"tool {tool.name[:80]!r} was left out: too large, or one too many", "warning")
            return 0
        found.setdefault(tool.name, ServerTool(tool.name, description, tool.input_schema))
        return size

    async def call(self, name: str, arguments: dict[str, Any], timeout_s: float) -> Outcome:
        """Call a tool.

        **Cancellation:** the server is told.
        """
        try:
            try:
                result = await self._ask(name, arguments, timeout_s)
            except MCPError as error:
                if error.code != types.HEADER_MISMATCH:
                    raise
                await self.client.session.list_tools()  # the protocol's own remedy, once
                result = await self._ask(name, arguments, timeout_s)
        except MCPError as error:
            return self._refused(error)
        except (ValidationError, RuntimeError, TimeoutError) as error:
            return Trapped("mcp", self.ring.shown(f"{type(error).__name__}: {error}"), sentence=_ODD)
        if isinstance(result, types.InputRequiredResult):
            return Failed("the server wants to ask somebody something first, which is not offered here")
        text = self.ring.without_secrets(_text(result))
        return (
            Failed(text or "the tool failed and did not say why") if result.is_error else Done(text.encode())
        )

    async def _ask(
        self, name: str, arguments: dict[str, Any], timeout_s: float
    ) -> types.CallToolResult | types.InputRequiredResult:
        params = types.CallToolRequestParams(name=name, arguments=arguments)
        return await self.client.session.send_request(
            types.CallToolRequest(params=params), _CALL_RESULT, request_read_timeout_seconds=timeout_s
        )

    def _refused(self, error: MCPError) -> Outcome:
        message = self.ring.shown(error.message)
        if error.code == types.REQUEST_TIMEOUT:
            return Trapped("deadline", message, sentence=_LATE)
        if error.code == types.CONNECTION_CLOSED:
            return Trapped("mcp", f"{message}: {self.end()}", sentence=_GONE)
        if self.process is None and error.code == types.INVALID_REQUEST and error.message == _TERMINATED:
            self.lost.set()  # the protocol's word for: connect anew
            return Trapped("mcp", message, sentence=_GONE)
        return Failed(f"the tool's server refused the call: {message}")


@asynccontextmanager
async def opened(
    config: ServerConfig, home: Path, ring: Ring, changed: Callable[[], None]
) -> AsyncGenerator[Session]:
    """Connect to a server until the block ends; `changed` is called when it says that its tools have.

    Raises:
        OSError, MCPError, Ended, RuntimeError: if that does not work, alone or in groups.
    """
    lost = trio.Event()

    async def heard(message: types.ServerNotification | Exception) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            changed()
        await trio.lowlevel.checkpoint()

    async def logged(params: types.LoggingMessageNotificationParams) -> None:
        ring.note(f"log: {json.dumps(params.data, default=str)}", _level(params.level))
        await trio.lowlevel.checkpoint()

    async with _transport(config, home, ring, lost) as (streams, process):
        client = Client(
            _Given(streams),
            client_info=types.Implementation(name="crabtalk", version="1"),
            message_handler=heard,
            logging_callback=logged,
            cache=None,
        )
        try:
            async with client, trio.open_nursery() as nursery:
                if client.protocol_version in MODERN_PROTOCOL_VERSIONS:
                    nursery.start_soon(_listen, client, changed)
                yield Session(client, lost, process, ring)
                nursery.cancel_scope.cancel()
        except Exception as error:
            if process is not None and lost.is_set():
                raise Ended(process.end()) from error
            raise


@asynccontextmanager
async def _transport(
    config: ServerConfig, home: Path, ring: Ring, lost: trio.Event
) -> AsyncGenerator[tuple[Streams, ServerProcess | None]]:
    if config.url:
        async with http.connected(config) as streams:
            yield streams, None
        return
    junk = _Junk(ring)
    async with running(config, home, ring.note) as process:

        async def receive(size: int) -> bytes:
            try:
                data = await process.stdout.receive_some(size)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                data = b""
            if not data:
                with trio.move_on_after(0.2):  # so that it can be said how it ended
                    await process.ended.wait()
            return bytes(data)

        async with framed(receive, process.stdin.send_all, junk, lost.set) as streams:
            yield streams, process


class _Given(AbstractAsyncContextManager[Streams]):
    """Streams that are open already, as a transport of the SDK; whoever opened them closes them."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams

    async def __aenter__(self) -> Streams:
        return self._streams

    async def __aexit__(self, *_: object) -> None:
        return None


class _Junk:
    """Counts lines on a server's stdout that are no protocol; the first ones are shown."""

    def __init__(self, ring: Ring) -> None:
        self._ring = ring
        self._count = 0

    def __call__(self, line: str) -> None:
        self._count += 1
        if self._count <= _JUNK_SHOWN:
            self._ring.note(f"not MCP, on stdout: {line}", "warning")
        elif self._count & (self._count - 1) == 0:  # 32, 64, 128, …
            self._ring.note(f"{self._count} lines on stdout were not MCP", "warning")


async def _listen(client: Client, changed: Callable[[], None]) -> None:
    """Hear of changed tools, from a server of the newer era that tells of them."""
    tools = client.server_capabilities.tools
    if tools is None or not tools.list_changed:
        return
    while True:
        try:
            async with client.listen(tools_list_changed=True) as subscription:
                async for _ in subscription:
                    changed()
        except (SubscriptionLost, MCPError, TimeoutError):
            pass
        await trio.sleep(5.0)
        changed()  # what happened between is not told again


def _level(level: str) -> str:
    known: Mapping[str, str] = {"debug": "debug", "info": "info", "notice": "info", "warning": "warning"}
    return known.get(level, "error")


def _text(result: types.CallToolResult) -> str:
    parts = [_part(block) for block in result.content]
    if not parts and result.structured_content is not None:
        return json.dumps(result.structured_content, ensure_ascii=False)
    return "\n".join(parts)


def _part(block: BaseModel) -> str:
    if isinstance(block, types.TextContent):
        return block.text
    if isinstance(block, types.ImageContent | types.AudioContent):
        return f"[{block.type}: {block.mime_type}, {len(block.data) * 3 // 4} bytes; not shown]"
    if isinstance(block, types.EmbeddedResource):
        resource = block.resource
        if isinstance(resource, types.TextResourceContents):
            return resource.text
        return f"[resource: {resource.uri}; not text]"
    if isinstance(block, types.ResourceLink):
        return f"[resource: {block.uri} {block.name}]"
    return "[content of a kind that is not known]"
