"""What came back, sorted by the requests it belongs to; for both clients, without I/O."""

from collections import deque
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from google.protobuf.message import DecodeError

from crabtalk.client.finding import ConnectionLost
from crabtalk.errors import Busy, CrabtalkError, RemoteProtocolError
from crabtalk.wire.codec import error_of
from crabtalk.wire.framing import FrameReader
from crabtalk.wire.pb import crabtalk_pb2 as pb

T = TypeVar("T")

MAX_UNREAD: Final = 10_000  # replies of a stream that its reader has not asked for


@dataclass(slots=True)
class Expected:
    """A request whose replies are waited for."""

    request_id: int
    many: bool
    replies: deque[pb.ServerMessage] = field(default_factory=deque)
    ended: bool = False  # its last reply is here
    failure: CrabtalkError | None = None  # raised when the replies before it were read


class Replies:
    """Sorts replies; one whose request nobody waits for any more is dropped."""

    def __init__(self) -> None:
        self.failure: CrabtalkError | None = None  # of the connection; nothing comes any more
        self._reader = FrameReader()
        self._expected: dict[int, Expected] = {}
        self._last_id = 0

    def expect(self, message: pb.ClientMessage, *, many: bool) -> Expected:
        """Give a request its id, and keep what will be replied.

        Raises:
            CrabtalkError: if the connection has ended.
        """
        if self.failure is not None:
            raise self.failure
        self._last_id += 1
        message.request_id = self._last_id
        expected = self._expected[self._last_id] = Expected(self._last_id, many)
        return expected

    def forget(self, expected: Expected) -> None:
        """Drop what still comes for a request."""
        self._expected.pop(expected.request_id, None)

    def feed(self, data: bytes) -> list[Expected]:
        """Take what arrived, nothing at the end; return those for whom there is something."""
        if not data:
            return self._end(ConnectionLost("the daemon closed the connection"))
        reached = []
        for payload in self._reader.feed(data):
            try:
                reply = pb.ServerMessage.FromString(bytes(payload))
            except DecodeError:
                return self._end(RemoteProtocolError("the daemon sent what is no message of the protocol"))
            if not reply.HasField("request_id"):
                # All our requests have ids, so this is about the connection; it is closed next.
                what = error_of(reply.error) if reply.HasField("error") else None
                return self._end(what or RemoteProtocolError("the daemon sent a reply without a request id"))
            expected = self._expected.get(reply.request_id)
            if expected is not None:
                self._sort(expected, reply)
                reached.append(expected)
        if self._reader.error is not None:
            return [*reached, *self._end(self._reader.error)]
        return reached

    def fail(self, error: CrabtalkError) -> list[Expected]:
        """End the connection from this side; return those who wait."""
        return self._end(error)

    def _sort(self, expected: Expected, reply: pb.ServerMessage) -> None:
        kind = reply.WhichOneof("msg")
        if kind == "error":
            expected.failure = error_of(reply.error)
        elif not (expected.many and kind == "pong"):
            expected.replies.append(reply)
        last = not expected.many or kind in {"error", "pong"}
        if last or (kind == "stream" and reply.stream.HasField("end")):
            expected.ended = True
            self.forget(expected)
        elif len(expected.replies) > MAX_UNREAD:
            expected.failure = Busy(f"{MAX_UNREAD} replies of a stream were not read")
            expected.ended = True
            self.forget(expected)

    def _end(self, error: CrabtalkError) -> list[Expected]:
        if self.failure is None:
            self.failure = error
        waiting = list(self._expected.values())
        for expected in waiting:
            expected.failure = self.failure
            expected.ended = True
        self._expected.clear()
        return waiting


def body_of(reply: pb.ServerMessage, name: str, kind: type[T]) -> T:
    """Return what is in a reply.

    Raises:
        RemoteProtocolError: if it is another kind of reply.
    """
    found = reply.WhichOneof("msg")
    body: Any = getattr(reply, name)
    if found != name or not isinstance(body, kind):
        raise RemoteProtocolError(f"expected a reply `{name}`, got `{found}`")
    return body
