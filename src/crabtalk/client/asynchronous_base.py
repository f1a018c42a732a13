"""What the methods of `Client` stand on: one connection, one task that reads, any number that wait."""

from collections.abc import Callable
from types import TracebackType
from typing import Final, Generic, Self, TypeVar

import anyio
import anyio.abc

from crabtalk.client.finding import ConnectionLost
from crabtalk.client.replies import Expected, Replies, body_of
from crabtalk.wire.codec import encode_request
from crabtalk.wire.pb import crabtalk_pb2 as pb

T = TypeVar("T")

_RECEIVE_BYTES: Final = 1 << 16


class AsyncBase:
    """A connection for any number of tasks; `run` has to run as long as it is used."""

    def __init__(self, stream: anyio.abc.ByteStream) -> None:
        """Take over a connected stream."""
        self._stream_of_bytes = stream
        self._replies = Replies()
        self._arrived: dict[int, anyio.Event] = {}  # of those who wait, by request id
        self._outgoing: list[bytes] = []
        self._something_to_send = anyio.Event()

    async def run(self) -> None:
        """Receive and send until the connection ends."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._send_all)
            while self._replies.failure is None:
                try:
                    data = await self._stream_of_bytes.receive(_RECEIVE_BYTES)
                except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                    data = b""
                self._wake(self._replies.feed(data))
            tasks.cancel_scope.cancel()

    async def _send_all(self) -> None:
        """Send what there is, all of it together; in a task alone, so that no cancellation cuts a frame."""
        while True:
            await self._something_to_send.wait()
            self._something_to_send = anyio.Event()
            together = b"".join(self._outgoing)
            self._outgoing.clear()
            try:
                await self._stream_of_bytes.send(together)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                return  # the receiver sees the end as well, and what the daemon said before it

    async def aclose(self) -> None:
        """End the connection, and with it tool calls and subscriptions; may be called twice."""
        self._wake(self._replies.fail(ConnectionLost("this client is closed")))
        await self._stream_of_bytes.aclose()

    async def _request(self, message: pb.ClientMessage, name: str, kind: type[T]) -> T:
        """Send a request and return the body of its reply.

        **Cancellation:** the daemon is told, and stops a tool call.

        Raises:
            RequestError: as the daemon answers.
            ConnectionLost: if it went away before that.
        """
        expected = self._replies.expect(message, many=False)
        try:
            self._send(message)
            while not expected.ended:
                await self._wait(expected)
        finally:
            self._cancel(expected)
        if expected.failure is not None:
            raise expected.failure
        return body_of(expected.replies.popleft(), name, kind)

    def _stream(self, message: pb.ClientMessage, name: str, kind: type[T]) -> "AsyncStream[T]":
        return AsyncStream(self, message, lambda reply: body_of(reply, name, kind))

    def _send(self, message: pb.ClientMessage) -> None:
        """Have a request sent.

        Raises:
            TooLarge: if it does not fit a frame.
        """
        self._outgoing.append(encode_request(message))
        self._something_to_send.set()

    async def _wait(self, expected: Expected) -> None:
        """Return when something came for a request."""
        event = self._arrived[expected.request_id] = anyio.Event()
        try:
            await event.wait()
        finally:
            self._arrived.pop(expected.request_id, None)

    def _wake(self, reached: list[Expected]) -> None:
        for expected in reached:
            event = self._arrived.get(expected.request_id)
            if event is not None:
                event.set()

    def _cancel(self, expected: Expected) -> None:
        """Stop a request that has not ended, and drop what still comes for it."""
        if expected.ended:
            return
        self._replies.forget(expected)
        if self._replies.failure is None:
            message = pb.ClientMessage(cancel=pb.CancelMsg(request_id=expected.request_id))
            self._replies.forget(self._replies.expect(message, many=False))
            self._send(message)


class AsyncStream(Generic[T]):
    """The replies to one request, as they come: `async with client.tail_logs() as lines`.

    Iteration ends with the daemon's last reply; the request is cancelled at the end of the block.
    """

    def __init__(
        self, base: AsyncBase, message: pb.ClientMessage, body: Callable[[pb.ServerMessage], T]
    ) -> None:
        self._base = base
        self._message = message
        self._body = body
        self._expected: Expected | None = None

    async def __aenter__(self) -> Self:
        """Send the request."""
        base = self._base
        self._expected = base._replies.expect(self._message, many=True)  # noqa: SLF001 - two halves of one thing
        try:
            base._send(self._message)  # noqa: SLF001 - as above
        except BaseException:
            base._replies.forget(self._expected)  # noqa: SLF001 - as above
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Cancel the request, if it has not ended."""
        if self._expected is not None:
            self._base._cancel(self._expected)  # noqa: SLF001 - as above

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        expected = self._expected
        if expected is None:
            raise ValueError("a stream is used within `async with`")
        while not expected.replies:
            if expected.failure is not None:
                raise expected.failure
            if expected.ended:
                raise StopAsyncIteration
            await self._base._wait(expected)  # noqa: SLF001 - as above
        return self._body(expected.replies.popleft())
