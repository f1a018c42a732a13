"""What a connection asks of a transport, and the same for sockets.

Sockets are used without trio's wrappers: a reply is sent from where it was made, with no task switch, and
only what the kernel does not take at once waits for its turn.
"""

import contextlib
import errno
import socket
from dataclasses import dataclass
from typing import Any, Final, Protocol

import trio

from crabtalk.dispatch import Peer

RECEIVE_BYTES: Final = 1 << 16
# Of `accept`: the connection is gone already, or never was one of ours.
_GONE: Final = frozenset({errno.ECONNABORTED, errno.EPROTO, errno.EPERM})
# Of `accept`: there is no room for another connection at the moment.
_NO_ROOM: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS})
_PAUSE_S: Final = 0.1


class ByteStream(Protocol):
    """A connection's bytes, in both directions. Used by one receiver and one sender at a time."""

    async def receive(self) -> bytes:
        """Wait for bytes and return them; none at the end, however it came about."""

    def send_nowait(self, data: bytes | memoryview) -> int:
        """Return how many bytes were taken, 0 if it has to be waited for.

        Raises:
            BrokenPipeError: if nobody reads at the other end.
        """

    async def wait_writable(self) -> None:
        """Return when `send_nowait` has room, or would say that the peer is gone."""

    def end(self) -> None:
        """Send nothing more, and go on receiving; the other end sees it."""

    def close(self) -> None:
        """Let go; may be called twice."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """A new connection."""

    stream: ByteStream
    peer: Peer
    refusal: str = ""  # why it is closed at once


class Listener(Protocol):
    """Where clients come in."""

    needs_token: bool  # the first request has to be `auth`

    async def accept(self) -> Accepted:
        """Wait for a client.

        Raises:
            trio.ClosedResourceError: if it was closed.
        """

    def close(self) -> None:
        """Let nobody in any more, and remove what clients find it by; may be called twice."""


class SocketStream:
    """A connected stream socket."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)  # noqa: FBT003 - takes no keyword
        self._sock = sock

    async def receive(self) -> bytes:
        """Wait for bytes and return them; none at the end, however it came about."""
        while True:
            await trio.lowlevel.wait_readable(self._sock)
            try:
                return self._sock.recv(RECEIVE_BYTES)
            except BlockingIOError:
                continue
            except OSError:
                return b""

    def send_nowait(self, data: bytes | memoryview) -> int:
        """Return how many bytes were taken, 0 if it has to be waited for.

        Raises:
            BrokenPipeError: if nobody reads at the other end.
        """
        try:
            return self._sock.send(data)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise BrokenPipeError(str(error)) from error

    async def wait_writable(self) -> None:
        """Return when `send_nowait` has room, or would say that the peer is gone."""
        await trio.lowlevel.wait_writable(self._sock)

    def end(self) -> None:
        """Send nothing more, and go on receiving; the other end sees it."""
        with contextlib.suppress(OSError):  # gone already
            self._sock.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Let go; may be called twice."""
        if self._sock.fileno() != -1:
            trio.lowlevel.notify_closing(self._sock)
            self._sock.close()


async def accept_socket(listener: socket.socket) -> tuple[socket.socket, Any]:
    """Wait for a connection, and its peer's address; a machine that has no room for it is waited for, too.

    Raises:
        trio.ClosedResourceError: if the listener was closed.
    """
    while True:
        if listener.fileno() == -1:
            raise trio.ClosedResourceError("the listener is closed")
        await trio.lowlevel.wait_readable(listener)
        try:
            return listener.accept()
        except BlockingIOError:
            continue
        except OSError as error:
            if error.errno in _NO_ROOM:
                await trio.sleep(_PAUSE_S)
            elif error.errno not in _GONE:
                raise


def close_listening(listener: socket.socket) -> None:
    """Close a listening socket, whether or not a task waits for it; may be called twice."""
    if listener.fileno() != -1:
        with contextlib.suppress(RuntimeError):  # not within trio, so nobody waits
            trio.lowlevel.notify_closing(listener)
        listener.close()
