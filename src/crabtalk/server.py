"""Lets clients in, keeps their connections, and ends them when the daemon stops."""

import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

import trio

from crabtalk.connection import LINGER_S, Budget, Connection, ConnectionLimits
from crabtalk.dispatch import Table
from crabtalk.errors import Busy, RequestError, Unauthorized
from crabtalk.transports.stream import Accepted, Listener
from crabtalk.wire.codec import encode_reply, error_reply

R = TypeVar("R")

LOG: Final = logging.getLogger(__name__)
_MAX_LINGERING: Final = 64


@dataclass(frozen=True, kw_only=True)
class ServerLimits:
    """What all connections together may take; picked, not measured."""

    connections: int = 1024
    unauthenticated: int = 64  # of them, those that have not shown their token yet
    large_frames_bytes: int = 128 << 20
    connection: ConnectionLimits = field(default_factory=ConnectionLimits)


@dataclass(frozen=True)
class ServerStatistics:
    """Counts since the server was made, and of now."""

    connections: int
    accepted: int
    refused: int
    requests: int
    in_flight: int
    errors: Mapping[int, int]  # replies that were errors, by code


class Server(Generic[R]):
    """Serves one table to the clients of any number of listeners."""

    def __init__(
        self, table: Table[R], runtime: R, *, token: str | None = None, limits: ServerLimits | None = None
    ) -> None:
        """Serve `table`; `token` is for those listeners that ask for one."""
        self._table = table
        self._runtime = runtime
        self._token = token
        self._limits = limits or ServerLimits()
        self._budget = Budget(self._limits.large_frames_bytes)
        self._listeners: set[Listener] = set()
        self._connections: set[Connection[R]] = set()
        self._ended = trio.lowlevel.ParkingLot()  # for whoever waits for the end of a connection
        self._stopped = False
        self._accepted = 0
        self._refused = 0
        self._lingering = 0  # refused, and told why
        self._past_requests = 0  # of connections that have ended, as the next
        self._past_errors: Counter[int] = Counter()

    def statistics(self) -> ServerStatistics:
        """Count."""
        return ServerStatistics(
            connections=len(self._connections),
            accepted=self._accepted,
            refused=self._refused,
            requests=self._past_requests + sum(one.requests for one in self._connections),
            in_flight=sum(one.in_flight for one in self._connections),
            errors=self._errors(),
        )

    def _errors(self) -> Mapping[int, int]:
        total = Counter(self._past_errors)
        for connection in self._connections:
            total.update(connection.errors)
        return total

    async def serve(
        self, listener: Listener, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Serve the clients of `listener` until `stop`, and then until they are gone.

        **Cancellation:** all connections are cut off.

        Raises:
            ValueError: if the listener asks for a token and there is none.
        """
        if listener.needs_token and self._token is None:
            raise ValueError("this listener needs a server that has a token")
        self._listeners.add(listener)
        try:
            async with trio.open_nursery() as nursery:
                task_status.started()
                while not self._stopped:
                    try:
                        accepted = await listener.accept()
                    except trio.ClosedResourceError:
                        break
                    self._let_in(accepted, nursery, needs_token=listener.needs_token)
        finally:
            self._listeners.discard(listener)
            listener.close()

    def stop(self) -> None:
        """Let nobody in any more; those who are in are served on."""
        self._stopped = True
        for listener in self._listeners:
            listener.close()

    async def close(self) -> None:
        """End all connections, after the replies of what is in flight.

        Tool calls are cancelled; what else is in flight is waited for.
        """
        self.stop()
        for connection in self._connections:
            connection.end()
        while self._connections:
            await self._ended.park()

    def _let_in(self, accepted: Accepted, nursery: trio.Nursery, *, needs_token: bool) -> None:
        refusal = self._refusal(accepted, needs_token=needs_token)
        if refusal is not None:
            self._refused += 1
            self._past_errors[refusal.code] += 1
            LOG.warning("refused a client, %s: %s", accepted.peer.name, refusal.message)
            nursery.start_soon(self._refuse, accepted, refusal)
            return
        self._accepted += 1
        connection = Connection(
            accepted.stream,
            self._table,
            self._runtime,
            accepted.peer,
            limits=self._limits.connection,
            budget=self._budget,
            token=self._token if needs_token else None,
        )
        self._connections.add(connection)
        nursery.start_soon(self._serve_connection, connection, name=accepted.peer.name)

    def _refusal(self, accepted: Accepted, *, needs_token: bool) -> RequestError | None:
        if accepted.refusal:
            return Unauthorized(accepted.refusal)
        if len(self._connections) >= self._limits.connections:
            return Busy(f"{self._limits.connections} clients are connected already")
        if needs_token and sum(one.owes_token for one in self._connections) >= self._limits.unauthenticated:
            return Busy("too many clients that have not shown their token")
        return None

    async def _serve_connection(self, connection: Connection[R]) -> None:
        try:
            await connection.serve()
        except Exception:
            LOG.exception("the connection of %s failed", connection.peer.name)
        finally:
            self._past_requests += connection.requests
            self._past_errors.update(connection.errors)
            self._connections.discard(connection)
            self._ended.unpark_all()

    async def _refuse(self, accepted: Accepted, refusal: RequestError) -> None:
        """Say why and close; a moment later, if there is room, for a peer that sends before it reads."""
        self._lingering += 1
        try:
            accepted.stream.send_nowait(encode_reply(error_reply(refusal), None))
            accepted.stream.end()
            if self._lingering <= _MAX_LINGERING:
                with trio.move_on_after(LINGER_S):
                    while await accepted.stream.receive():
                        pass
        except BrokenPipeError:
            pass
        finally:
            self._lingering -= 1
            accepted.stream.close()
