"""What the methods of `SyncClient` stand on: one blocking socket, and replies read as they are asked for."""

import contextlib
import socket
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Final, Generic, Self, TypeVar

from crabtalk.client.finding import ConnectionLost
from crabtalk.client.replies import Expected, Replies, body_of
from crabtalk.errors import DeadlinePassed
from crabtalk.wire.codec import encode_request
from crabtalk.wire.framing import frame
from crabtalk.wire.pb import crabtalk_pb2 as pb

T = TypeVar("T")

_RECEIVE_BYTES: Final = 1 << 16


class SyncBase:
    """A connection for one thread at a time."""

    def __init__(self, sock: socket.socket, *, timeout_s: float | None = None) -> None:
        """Take over a connected socket; wait at most `timeout_s` for the reply to a request."""
        self.timeout_s = timeout_s
        self._sock = sock
        self._replies = Replies()

    def close(self) -> None:
        """End the connection, and with it tool calls and subscriptions; may be called twice."""
        self._replies.fail(ConnectionLost("this client is closed"))
        self._sock.close()

    def _request(self, message: pb.ClientMessage, name: str, kind: type[T]) -> T:
        """Send a request and return the body of its reply.

        Raises:
            RequestError: as the daemon answers; `DeadlinePassed` also if it does not.
            ConnectionLost: if it went away before that.
        """
        expected = self._send(message, many=False)
        reply = self._next(expected, _deadline(self.timeout_s))
        if reply is None:
            self._cancel(expected)
            raise DeadlinePassed(f"no reply came within {self.timeout_s:g} s")
        return body_of(reply, name, kind)

    def _stream(self, message: pb.ClientMessage, name: str, kind: type[T]) -> "SyncStream[T]":
        return SyncStream(self, self._send(message, many=True), name, kind)

    def _send(self, message: pb.ClientMessage, *, many: bool) -> Expected:
        expected = self._replies.expect(message, many=many)
        try:
            data = encode_request(message)
        except Exception:
            self._replies.forget(expected)
            raise
        try:
            self._sock.settimeout(self.timeout_s)
            self._sock.sendall(data)
        except OSError as error:
            # The daemon may have said why before it closed.
            self._drain()
            self._replies.fail(ConnectionLost(f"the daemon is gone: {error}"))
        return expected

    def _drain(self) -> None:
        """Read what is there."""
        with contextlib.suppress(OSError):
            self._sock.settimeout(0)
            while self._replies.failure is None:
                self._replies.feed(self._sock.recv(_RECEIVE_BYTES))

    def _next(self, expected: Expected, deadline: float | None) -> pb.ServerMessage | None:
        """Return the next reply to a request; None if it does not come by `deadline`.

        Raises:
            StopIteration: if there is nothing more.
            CrabtalkError: if that is what came.
        """
        while True:
            if expected.replies:
                return expected.replies.popleft()
            if expected.failure is not None:
                raise expected.failure
            if expected.ended:
                raise StopIteration
            data = self._receive(deadline)
            if data is None:
                return None
            self._replies.feed(data)

    def _receive(self, deadline: float | None) -> bytes | None:
        """Return what arrives next, nothing at the end; None at `deadline`."""
        try:
            # A timeout of 0 would make the socket one that never waits.
            self._sock.settimeout(None if deadline is None else max(deadline - time.monotonic(), 1e-4))
            return self._sock.recv(_RECEIVE_BYTES)
        except TimeoutError:
            return None
        except OSError:
            return b""

    def _cancel(self, expected: Expected) -> None:
        """Stop a request, and drop what still comes for it."""
        if expected.ended:
            return
        self._replies.forget(expected)
        if self._replies.failure is None:
            message = pb.ClientMessage(cancel=pb.CancelMsg(request_id=expected.request_id))
            self._replies.forget(self._replies.expect(message, many=False))
            with contextlib.suppress(OSError):
                self._sock.sendall(frame(message.SerializeToString()))


class SyncStream(Generic[T]):
    """The replies to one request, as they come; ends with the daemon's last one.

    As a context manager it is cancelled at the end of the block.
    """

    def __init__(self, base: SyncBase, expected: Expected, name: str, kind: type[T]) -> None:
        self._base = base
        self._expected = expected
        self._name = name
        self._kind = kind

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        reply = self._base._next(self._expected, None)  # noqa: SLF001 - two halves of one thing
        assert reply is not None  # noqa: S101 - there is no deadline
        return body_of(reply, self._name, self._kind)

    def next_within(self, timeout_s: float) -> T | None:
        """Return the next reply; None if none comes within `timeout_s`, or the stream has ended.

        Raises:
            RequestError: if the daemon ended the stream with an error.
            ConnectionLost: if it went away.
        """
        try:
            reply = self._base._next(self._expected, _deadline(timeout_s))  # noqa: SLF001 - as above
        except StopIteration:
            return None
        return None if reply is None else body_of(reply, self._name, self._kind)

    def close(self) -> None:
        """Cancel the stream; may be called twice."""
        self._base._cancel(self._expected)  # noqa: SLF001 - as above
        self._expected.ended = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _deadline(timeout_s: float | None) -> float | None:
    return None if timeout_s is None else time.monotonic() + timeout_s
