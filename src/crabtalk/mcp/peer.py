"""One server, shared by all agents that say the same about it: connected, kept, evicted, connected again.

One task owns the connection, from `run`; calls come from any task and wait for it where that makes sense.
A connection that fails or ends is tried again, more slowly each time, and one that nobody used for long is
closed until somebody calls. Knows how to connect only as a function, and imports no SDK.
"""

import logging
import math
import random
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Protocol

import trio

from crabtalk.mcp.ring import Ring
from crabtalk.mcp.servers import ServerConfig, ServerTool
from crabtalk.tools import Outcome, Trapped

logger = logging.getLogger(__name__)

CONNECT_S: Final = 60.0  # for a server to start and say what it has; some fetch themselves first
FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 60.0
_STEADY_S: Final = 60.0  # a connection that lasted this long was a good one: pauses start anew
_DEBOUNCE_S: Final = 0.2  # between news of changed tools and asking for them
_DEBOUNCE_LONGEST_S: Final = 5.0
_REASON_CHARACTERS: Final = 500
_UNREACHABLE: Final = "the tool's server cannot be reached at the moment"
_LEAST_S: Final = 0.001


class Status(StrEnum):
    """Where a server stands."""

    CONNECTING = "connecting"
    CONNECTED = "connected"
    DISCONNECTED = "disconnected"
    FAILED = "failed"


class Connection(Protocol):
    """An open connection; see `session.Session`."""

    lost: trio.Event

    @property
    def about(self) -> str:
        """Who answers."""

    def end(self) -> str:
        """Say why it ended."""

    async def tools(self) -> tuple[ServerTool, ...]:
        """List the tools."""

    async def call(self, name: str, arguments: dict[str, Any], timeout_s: float) -> Outcome:
        """Call one."""


# Given the server, its ring, and what to call when its tools have changed.
Connect = Callable[[ServerConfig, Ring, Callable[[], None]], AbstractAsyncContextManager[Connection]]


class _End(StrEnum):
    IDLE = "idle"
    LOST = "lost"
    ASKED = "asked"


@dataclass(slots=True)
class _Wishes:
    """What others want of the owner; `poked` says that there is something."""

    poked: trio.Event
    anew: bool = False  # connect again, now
    needed: bool = False  # somebody calls
    stale: bool = False  # the tools have changed


class Peer:
    """A server; for trio's thread."""

    def __init__(
        self,
        config: ServerConfig,
        ring: Ring,
        connect: Connect,
        told: Callable[["Peer"], None],
        *,
        idle_s: Callable[[], float],
    ) -> None:
        """`told` hears of every change of `status` or `tools`; `idle_s` says how long it is kept unused."""
        self.config = config
        self.ring = ring
        self.status = Status.CONNECTING
        self.error = ""
        self.tools: tuple[ServerTool, ...] = ()
        self.calls = 0  # under way
        self.connections = 0  # that there were
        self._connect = connect
        self._told = told
        self._idle_s = idle_s
        self._used_s = trio.current_time()
        self._connection: Connection | None = None
        self._settled = trio.Event()  # it is known whether there is a connection
        self._wishes = _Wishes(trio.Event())
        self._scope = trio.CancelScope()
        self._closed = trio.Event()

    def named(self, name: str) -> ServerTool | None:
        """Return the tool of this name, None if there is none."""
        return next((one for one in self.tools if one.name == name), None)

    async def call(self, name: str, arguments: dict[str, Any], deadline: float) -> Outcome:
        """Call a tool; waits for a connection that is being made, or was closed because nobody used it.

        **Cancellation:** the server is told.
        """
        self.calls += 1
        try:
            connection = await self._current(deadline)
            if connection is None:
                return Trapped("mcp", self.error or "it is not connected", sentence=_UNREACHABLE)
            return await connection.call(name, arguments, max(_LEAST_S, deadline - trio.current_time()))
        finally:
            self.calls -= 1
            self._used_s = trio.current_time()

    async def settled(self) -> None:
        """Return when it is known whether there is a connection."""
        await self._settled.wait()

    def reconnect(self) -> None:
        """Connect anew, now."""
        self._settled = trio.Event()
        self.status, self.error = Status.CONNECTING, ""
        self._wish(anew=True)

    def close(self) -> None:
        """End it for good; `closed` says when it has."""
        self._scope.cancel()

    async def closed(self) -> None:
        """Return when nothing of it is left."""
        await self._closed.wait()

    async def run(self) -> None:
        """Own the connection until `close`."""
        try:
            with self._scope:
                await self._live()
        finally:
            self._connection = None
            self._settled.set()
            self._closed.set()

    async def _current(self, deadline: float) -> Connection | None:
        if self._connection is None and (self.status is Status.CONNECTING or self._is_asleep()):
            self._wish(needed=True)
            with trio.move_on_at(deadline):
                await self._settled.wait()
        return self._connection

    def _is_asleep(self) -> bool:
        return self.status is Status.DISCONNECTED and not self.error

    async def _live(self) -> None:
        failures = 0
        while True:
            began = trio.current_time()
            end = await self._one_connection()
            if end is _End.ASKED:
                failures = 0
            elif end is _End.IDLE:
                failures = 0
                await self._until(lambda: self._wishes.needed or self._wishes.anew)
            else:
                failures = 0 if trio.current_time() - began > _STEADY_S and end is _End.LOST else failures
                await self._pause(failures)
                failures += 1

    async def _pause(self, failures: int) -> None:
        if not self.config.auto_restart:
            await self._until(lambda: self._wishes.anew)
            return
        pause_s = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(failures, 10))
        with trio.move_on_after(pause_s * random.uniform(0.8, 1.2)):  # noqa: S311 - so that not all come at once
            await self._until(lambda: self._wishes.anew)

    async def _one_connection(self) -> _End | None:
        """Connect and stay connected; None: it did not come to that."""
        self._settled = trio.Event() if self._settled.is_set() else self._settled
        self._wishes.anew = self._wishes.needed = False
        self._become(Status.CONNECTING)
        limit = trio.CancelScope(deadline=trio.current_time() + CONNECT_S)
        end: _End | None = None
        reason = f"it did not answer within {CONNECT_S:.0f} s"
        try:
            with limit:
                async with self._connect(self.config, self.ring, self._changed) as connection:
                    self.tools = await connection.tools()
                    limit.deadline = math.inf
                    end = await self._stay(connection)
                    reason = connection.end()
        except Exception as error:  # noqa: BLE001 - whatever the server or the SDK does, the daemon goes on
            reason, end = _reason(error), _End.LOST if end else None
        self._connection = None
        self._after(end, self.ring.shown(reason)[:_REASON_CHARACTERS])
        return end

    def _after(self, end: _End | None, reason: str) -> None:
        if end is _End.IDLE:
            self._become(Status.DISCONNECTED)
        elif end is _End.LOST:
            self._become(Status.DISCONNECTED, reason)
        elif end is None:
            self._become(Status.FAILED, reason)
        if end is not _End.ASKED and end is not _End.IDLE:
            self.ring.note(reason, "error")
            self._settled.set()

    async def _stay(self, connection: Connection) -> _End:
        """Keep a connection as long as it is good for something."""
        self._connection = connection
        self.connections += 1
        self._used_s = trio.current_time()
        self._wishes.anew = self._wishes.needed = False  # fulfilled
        self.ring.note(f"connected: {connection.about}; {len(self.tools)} tools")
        self._become(Status.CONNECTED)
        self._settled.set()
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._watch, connection)
                end = await self._attend(connection)
                nursery.cancel_scope.cancel()
        finally:
            self._connection = None
            if self.status is Status.CONNECTED:
                self._settled = trio.Event()
        return end

    async def _watch(self, connection: Connection) -> None:
        await connection.lost.wait()
        self._wishes.poked.set()

    async def _attend(self, connection: Connection) -> _End:
        debounce_s = _DEBOUNCE_S
        while True:
            with trio.move_on_at(self._used_s + self._idle_s()):
                await self._wishes.poked.wait()
            self._wishes.poked = trio.Event()
            if connection.lost.is_set():
                return _End.LOST
            if self._wishes.anew:
                return _End.ASKED
            if self._wishes.stale:
                with trio.move_on_after(debounce_s):
                    await connection.lost.wait()
                self._wishes.stale = False
                await self._relist(connection)
                # One that never stops telling of changes is asked less and less often.
                debounce_s = min(_DEBOUNCE_LONGEST_S, debounce_s * 1.5)
                self._wishes.poked.set()
            elif trio.current_time() >= self._used_s + self._idle_s() and not self.calls:
                return _End.IDLE
            elif self.calls:
                self._used_s = trio.current_time()

    async def _relist(self, connection: Connection) -> None:
        try:
            tools = await connection.tools()
        except Exception as error:  # noqa: BLE001 - the tools that are known stay
            self.ring.note(f"its tools cannot be listed: {_reason(error)}", "error")
            return
        if tools != self.tools:
            self.tools = tools
            self.ring.note(f"its tools have changed: {len(tools)}")
            self._told(self)

    def _changed(self) -> None:
        self._wish(stale=True)

    def _wish(self, *, anew: bool = False, needed: bool = False, stale: bool = False) -> None:
        wishes = self._wishes
        wishes.anew |= anew
        wishes.needed |= needed
        wishes.stale |= stale
        wishes.poked.set()

    async def _until(self, fulfilled: Callable[[], bool]) -> None:
        while not fulfilled():
            await self._wishes.poked.wait()
            self._wishes.poked = trio.Event()

    def _become(self, status: Status, error: str = "") -> None:
        self.status, self.error = status, error
        self._told(self)


def _reason(error: BaseException) -> str:
    """Say in a sentence what went wrong: of a group, the first that says something."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, OSError):
        return f"it cannot be started: {error.strerror.lower() if error.strerror else error}"
    text = str(error) or type(error).__name__
    return (
        text if type(error).__module__.startswith(("mcp", "crabtalk")) else f"{type(error).__name__}: {text}"
    )
