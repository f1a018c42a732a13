"""The two ways in for MCP clients: a socket beside the protocol's own, and HTTP on loopback.

Over the socket comes the bridge that `crabtalk mcp serve` is: who may open it may do everything anyway, so
it only says whose tools it wants. Over HTTP a token says that, and opens nothing else. The SDK is loaded when
the first client comes.
"""

import contextlib
import ipaddress
import json
import logging
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import trio

from crabtalk.errors import NotFound
from crabtalk.mcp import web
from crabtalk.mcp.loading import NotInstalled, loaded
from crabtalk.mcp.tokens import Token, Tokens, TokensBroken
from crabtalk.metrics_server import listen
from crabtalk.transports.stream import Accepted, ByteStream
from crabtalk.transports.unix import UnixListener, open_unix

if TYPE_CHECKING:
    from crabtalk.mcp.offering import Identity, Offering
    from crabtalk.runtime import Runtime

logger = logging.getLogger(__name__)

SOCKET_NAME: Final = "mcp.sock"
PATH: Final = "/mcp"
OFF: Final = "off"
_GREETING_S: Final = 5.0
_GREETING_BYTES: Final = 4096
_MAX_BRIDGES: Final = 256
_LOOK_S: Final = 2.0  # between two looks at the tokens, for those that were taken away
_SEND_S: Final = 30.0
_LOCAL_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})


class Doors:
    """Both ways in, for one daemon."""

    def __init__(self, runtime: "Runtime") -> None:
        self._runtime = runtime
        self._tokens = Tokens(runtime.home.root)
        self._offering: Offering | None = None
        self._making = trio.Lock()
        self._bridges = 0
        self._nursery: trio.Nursery

    async def serve(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled.

        Raises:
            ConfigError: if something cannot be listened on.
        """
        where = self._runtime.settings.config.mcp.listen
        listener = open_unix(self._runtime.home.run / SOCKET_NAME)
        try:
            async with trio.open_nursery() as self._nursery:
                if where != OFF:
                    http = listen(where, self._runtime.home.run)
                    await self._nursery.start(web.serve_http, http, self._guard)
                    self._nursery.start_soon(self._look_at_tokens)
                    logger.info("MCP clients are served at http://%s%s", where, PATH)
                task_status.started()
                await self._accept(listener)
        finally:
            listener.close()

    # The socket

    async def _accept(self, listener: UnixListener) -> None:
        while True:
            accepted = await listener.accept()
            if accepted.refusal or self._bridges >= _MAX_BRIDGES:
                accepted.stream.close()
                continue
            self._nursery.start_soon(self._serve_bridge, accepted)

    async def _serve_bridge(self, accepted: Accepted) -> None:
        stream = _Buffered(accepted.stream)
        self._bridges += 1
        try:
            with trio.fail_after(_GREETING_S):
                greeting = await stream.line(_GREETING_BYTES)
            identity = self._wanted(greeting)
            offering = await self._offering_now()
            await stream.send_all(b'{"ready":true}\n')
            await offering.serve_stream(
                stream.receive, stream.send_all, identity, f"mcp:{accepted.peer.name}"
            )
        except (NotFound, NotInstalled, ValueError, RecursionError) as error:
            with contextlib.suppress(OSError, trio.TooSlowError):
                await stream.send_all(json.dumps({"error": str(error)}).encode() + b"\n")
        except (OSError, trio.TooSlowError):
            pass
        except Exception:
            logger.exception("serving an MCP client failed")
        finally:
            self._bridges -= 1
            accepted.stream.close()

    def _wanted(self, greeting: bytes) -> "Identity":
        """Read whose tools a bridge wants.

        Raises:
            NotFound: if there is no such agent or harness.
            ValueError: if it does not say.
        """
        said = json.loads(greeting)
        if not isinstance(said, dict):
            raise ValueError("expected a JSON object")  # noqa: TRY004 - for the peer
        agent = self._runtime.agents.find(str(said.get("agent", "")))
        harness = str(said.get("harness", ""))
        self._require(agent.id, harness)
        return agent.id, harness

    def _require(self, agent_id: str, harness: str) -> None:
        if harness:
            self._runtime.toolbox.bounds(self._runtime.agents.get(agent_id), harness)

    # HTTP

    async def _guard(self, method: str, path: str, headers: dict[str, str]) -> web.Application:
        """Say who serves a request.

        Raises:
            Refused: nobody does.
        """
        if not _is_local(headers.get("host", "")):
            raise web.Refused(421, "this host is served on loopback only")
        if (origin := headers.get("origin")) is not None and not _is_local(origin.partition("://")[2]):
            raise web.Refused(403, "pages of other hosts are not served")
        if path != PATH:
            raise web.Refused(404, f"there is {PATH}, and nothing else")
        token = self._token(headers.get("authorization", ""))
        if method not in {"GET", "POST", "DELETE"}:
            raise web.Refused(405, "there are GET, POST and DELETE", Allow="GET, POST, DELETE")
        try:
            offering = await self._offering_now()
        except NotInstalled as error:
            raise web.Refused(501, str(error)) from error
        return await offering.site(token)

    def _token(self, authorization: str) -> Token:
        scheme, _, text = authorization.partition(" ")
        try:
            token = self._tokens.find(text.strip()) if scheme.lower() == "bearer" else None
        except TokensBroken as error:
            logger.error("%s", error)  # noqa: TRY400 - it says what is wrong
            raise web.Refused(503, "tokens cannot be read") from error
        if token is None or self._runtime.agents.agent(token.agent) is None:
            wanted = 'Bearer realm="crabtalk"'
            raise web.Refused(
                401, "a token is wanted: crabtalk mcp token add", **{"WWW-Authenticate": wanted}
            )
        return token

    async def _look_at_tokens(self) -> None:
        """Send those away whose tokens were taken from them."""
        while True:
            await trio.sleep(_LOOK_S)
            if self._offering is not None:
                with contextlib.suppress(TokensBroken):
                    self._offering.close_sites({one.id for one in self._tokens.all()})

    async def _offering_now(self) -> "Offering":
        async with self._making:
            if self._offering is None:
                module = await loaded("crabtalk.mcp.offering")
                runtime = self._runtime
                made: Offering = module.Offering(
                    runtime.agents, runtime.toolbox, runtime.version, self._nursery
                )
                runtime.agents.add_listener(made)
                self._nursery.start_soon(self._follow_servers, made)
                self._offering = made
        return self._offering

    async def _follow_servers(self, offering: "Offering") -> None:
        """Tell of tools that come and go with the servers that an agent has itself."""
        known: dict[tuple[str, str], tuple[str, ...]] = {}
        with self._runtime.mcp.watched() as events:
            async for event in events:
                key = event.agent_id, event.name
                if known.get(key) != event.tools:
                    known[key] = event.tools
                    offering.changed(event.agent_id)


class _Buffered:
    """A socket, as lines are read from it first and messages then."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._held = b""

    async def line(self, limit: int) -> bytes:
        """Return the first line.

        Raises:
            ValueError: if there is none.
        """
        while b"\n" not in self._held:
            data = await self._stream.receive()
            self._held += data
            if not data or (len(self._held) > limit and b"\n" not in data):
                raise ValueError("expected a line")
        line, _, self._held = self._held.partition(b"\n")
        return line

    async def receive(self, _size: int) -> bytes:
        """Return what comes next; nothing at the end."""
        held, self._held = self._held, b""
        return held or await self._stream.receive()

    async def send_all(self, data: bytes) -> None:
        """Send.

        Raises:
            BrokenPipeError: if nobody reads.
            trio.TooSlowError: if it takes too long.
        """
        rest = memoryview(data)
        with trio.fail_after(_SEND_S):
            while rest:
                sent = self._stream.send_nowait(rest)
                rest = rest[sent:]
                if not sent:
                    await self._stream.wait_writable()


def _is_local(place: str) -> bool:
    """Say whether a host, with or without a port, is this machine by a name that nobody else can have."""
    try:
        parts = urlsplit(f"//{place}")
        if parts.netloc != place or "@" in place:
            return False
        name = parts.hostname or ""
        return name in _LOCAL_NAMES or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
