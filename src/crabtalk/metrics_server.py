"""Answers `GET` and `HEAD` of `/metrics` and `/healthz`, on a unix socket of the home or a loopback port.

One request a connection, a bounded number of connections, and a deadline for each: whoever asks slowly is
hung up on. h11 reads what they say.
"""

import logging
import os
import socket
import stat
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import h11
import trio

from crabtalk.errors import ConfigError

logger = logging.getLogger(__name__)

_DEADLINE_S: Final = 5.0
_MAX_CONNECTIONS: Final = 16
_RECEIVE_BYTES: Final = 8192
_BACKLOG: Final = 16
_LINGER_READS: Final = 16

# Content type and body, made when they are asked for.
Page = Callable[[], tuple[int, str, bytes]]


async def serve_metrics(
    listener: trio.SocketListener,
    pages: dict[str, Page],
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve `pages` by their path until cancelled; closes the listener."""
    limit = trio.CapacityLimiter(_MAX_CONNECTIONS)
    address = listener.socket.getsockname()
    try:
        async with listener, trio.open_nursery() as nursery:
            task_status.started()
            await trio.serve_listeners(partial(_serve_one, pages, limit), [listener], handler_nursery=nursery)
    finally:
        if isinstance(address, str):
            _remove(Path(address))


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)  # ours: whoever holds the home's lock is the only one here


def listen(where: str, socket_path: Path) -> trio.SocketListener:
    """Listen as `metrics.listen` says: `unix` or a loopback address with a port.

    Raises:
        ConfigError: if that cannot be.
    """
    try:
        return _listen_unix(socket_path) if where == "unix" else _listen_tcp(where)
    except OSError as error:
        place = socket_path if where == "unix" else where
        raise ConfigError(f"metrics.listen: {place}: {(error.strerror or str(error)).lower()}") from error


def _listen_unix(path: Path) -> trio.SocketListener:
    # Whoever holds the home's lock is the only one here: what is left is of a daemon that is gone.
    if path.exists() and stat.S_ISSOCK(path.lstat().st_mode):
        path.unlink()
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        before = os.umask(0o177)
        try:
            listening.bind(os.fspath(path))
        finally:
            os.umask(before)
        return _listening(listening)
    except BaseException:
        listening.close()
        raise


def _listen_tcp(where: str) -> trio.SocketListener:
    host, _, port = where.rpartition(":")
    host = host.strip("[]")
    listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, int(port)))
        return _listening(listening)
    except BaseException:
        listening.close()
        raise


def _listening(listening: socket.socket) -> trio.SocketListener:
    listening.listen(_BACKLOG)
    return trio.SocketListener(trio.socket.from_stdlib_socket(listening))


async def _serve_one(pages: dict[str, Page], limit: trio.CapacityLimiter, stream: trio.SocketStream) -> None:
    async with stream:
        try:
            limit.acquire_on_behalf_of_nowait(stream)
        except trio.WouldBlock:
            return
        try:
            with trio.move_on_after(_DEADLINE_S):
                await _answer(pages, stream)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        except Exception:
            # It is no reason for the daemon to end.
            logger.exception("a request for metrics failed")
        finally:
            limit.release_on_behalf_of(stream)


async def _answer(pages: dict[str, Page], stream: trio.SocketStream) -> None:
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=_RECEIVE_BYTES)
    head_only = False
    try:
        request = await _request(connection, stream)
        if request is None:
            return
        status, kind, body = _page(pages, request)
        head_only = request.method == b"HEAD"
    except h11.RemoteProtocolError as error:
        status, kind, body = error.error_status_hint, "text/plain", b"bad request\n"
    headers = [("Content-Type", kind), ("Content-Length", str(len(body))), ("Connection", "close")]
    head = connection.send(h11.Response(status_code=status, headers=headers))
    rest = [connection.send(h11.Data(data=b"" if head_only else body)), connection.send(h11.EndOfMessage())]
    await stream.send_all(b"".join(part or b"" for part in (head, *rest)))
    await _linger(stream)


async def _linger(stream: trio.SocketStream) -> None:
    """Let the answer arrive: closing with unread bytes of the request would take it back."""
    await stream.send_eof()
    for _ in range(_LINGER_READS):
        if not await stream.receive_some(_RECEIVE_BYTES):
            return


async def _request(connection: h11.Connection, stream: trio.SocketStream) -> h11.Request | None:
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await stream.receive_some(_RECEIVE_BYTES))
        else:
            return event if isinstance(event, h11.Request) else None


def _page(pages: dict[str, Page], request: h11.Request) -> tuple[int, str, bytes]:
    if request.method not in {b"GET", b"HEAD"}:
        return 405, "text/plain", b"only GET and HEAD are served\n"
    path = request.target.partition(b"?")[0].decode("ascii", "replace")
    if path not in pages:
        return 404, "text/plain", b"there are /metrics and /healthz\n"
    return pages[path]()
