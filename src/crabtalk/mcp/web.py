"""HTTP for MCP clients: h11 over trio as a host of ASGI applications; knows no MCP.

Who may come in is decided by a guard before anything else is looked at; the application that it names gets
the request, its body, and word of the client's going away. Every wait has a bound, but for that of a response
that is a stream: it goes on for as long as both sides like, and each piece of it has to be read in time.
"""

import logging
from collections.abc import Awaitable, Callable, MutableMapping
from functools import partial
from typing import Any, Final

import h11
import trio

logger = logging.getLogger(__name__)

MAX_CONNECTIONS: Final = 256
_HEAD_BYTES: Final = 32 << 10
_CHUNK: Final = 1 << 16
_IDLE_S: Final = 60.0  # between requests, and for a head
_BODY_S: Final = 30.0
_WRITE_S: Final = 30.0  # for one piece of a response
_LINGER_S: Final = 1.0
_LEAVE_S: Final = 5.0  # for an application whose client has gone
_OF_THE_CONNECTION: Final = (
    trio.BrokenResourceError,
    trio.ClosedResourceError,
    trio.TooSlowError,
    OSError,
)
_REFUSE_S: Final = 0.5  # before a refusal is said: nobody guesses fast

Message = MutableMapping[str, Any]
Application = Callable[
    [MutableMapping[str, Any], Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]],
    Awaitable[None],
]


class Refused(Exception):  # noqa: N818 - what happened
    """A request is not served; says what is answered."""

    def __init__(self, status: int, text: str, **headers: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


# Returns what serves a request, by its method, path and headers (in lower case); raises `Refused`.
Guard = Callable[[str, str, dict[str, str]], Awaitable[Application]]


async def serve_http(
    listener: trio.SocketListener,
    guard: Guard,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until cancelled; closes the listener."""
    limit = trio.CapacityLimiter(MAX_CONNECTIONS)
    async with listener, trio.open_nursery() as nursery:
        task_status.started()
        await trio.serve_listeners(partial(_serve_one, guard, limit), [listener], handler_nursery=nursery)


async def _serve_one(guard: Guard, limit: trio.CapacityLimiter, stream: trio.SocketStream) -> None:
    async with stream:
        try:
            limit.acquire_on_behalf_of_nowait(stream)
        except trio.WouldBlock:
            return
        try:
            await _Connection(guard, stream).serve()
        except* (*_OF_THE_CONNECTION, h11.ProtocolError):
            pass
        except* Exception:
            logger.exception("serving an MCP client over HTTP failed")
        finally:
            limit.release_on_behalf_of(stream)


class _Connection:
    """One client; its requests are served one after the other."""

    def __init__(self, guard: Guard, stream: trio.SocketStream) -> None:
        self._guard = guard
        self._stream = stream
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=_HEAD_BYTES)

    async def serve(self) -> None:
        while True:
            try:
                request = await self._next_request()
            except h11.RemoteProtocolError as error:
                await self._answer(Refused(error.error_status_hint, "bad request"))
                return
            if request is None:
                return
            method, path, headers = _read(request)
            try:
                application = await self._guard(method, path, headers)
            except Refused as refusal:
                await trio.sleep(_REFUSE_S)
                await self._answer(refusal, head_only=method == "HEAD")
                return
            if not await _Exchange(self._http, self._stream, request).run(application):
                await self._linger()
                return
            self._http.start_next_cycle()

    async def _next_request(self) -> h11.Request | None:
        with trio.fail_after(_IDLE_S):
            while True:
                event = self._http.next_event()
                if event is not h11.NEED_DATA:
                    return event if isinstance(event, h11.Request) else None
                self._http.receive_data(await self._stream.receive_some(_CHUNK))

    async def _answer(self, refusal: Refused, *, head_only: bool = False) -> None:
        body = f"{refusal.text}\n".encode()
        headers = {
            "Content-Type": "text/plain",
            "Content-Length": str(len(body)),
            "Connection": "close",
            **refusal.headers,
        }
        parts = (
            self._http.send(h11.Response(status_code=refusal.status, headers=list(headers.items()))),
            self._http.send(h11.Data(data=b"" if head_only else body)),
            self._http.send(h11.EndOfMessage()),
        )
        with trio.move_on_after(_WRITE_S):
            await self._stream.send_all(b"".join(part or b"" for part in parts))
            await self._linger()

    async def _linger(self) -> None:
        """Read on for a moment: closing with bytes unread takes the answer from a client that still sends."""
        with trio.move_on_after(_LINGER_S):
            await self._stream.send_eof()
            while await self._stream.receive_some(_CHUNK):
                pass


class _Exchange:
    """One request and its response."""

    def __init__(self, http: h11.Connection, stream: trio.SocketStream, request: h11.Request) -> None:
        self._http = http
        self._stream = stream
        self._request = request
        self._body_read = trio.Event()
        self._gone = trio.Event()  # the client
        self._sending = trio.Lock()
        self._deadline = trio.current_time() + _BODY_S

    async def run(self, application: Application) -> bool:
        """Serve it; False if the connection can serve no other."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch)
            leaving = trio.CancelScope()
            nursery.start_soon(self._hurry, leaving)
            with leaving:
                try:
                    await application(self._scope(), self._receive, self._send)
                except Exception:
                    logger.exception("a request of an MCP client failed")
                    self._gone.set()
            nursery.cancel_scope.cancel()
        done = self._http.our_state is h11.DONE and self._http.their_state is h11.DONE
        return done and not self._gone.is_set()

    def _scope(self) -> dict[str, Any]:
        path, _, query = self._request.target.partition(b"?")
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": self._request.method.decode("ascii"),
            "scheme": "http",
            "path": path.decode("ascii", "replace"),
            "raw_path": path,
            "query_string": query,
            "root_path": "",
            "headers": [(name.lower(), value) for name, value in self._request.headers],
            "client": None,
            "server": None,
            "state": {},
        }

    async def _receive(self) -> Message:
        if self._body_read.is_set():
            await self._gone.wait()
        if self._gone.is_set():
            return {"type": "http.disconnect"}
        try:
            with trio.fail_at(self._deadline):
                return await self._next_part()
        except (h11.RemoteProtocolError, trio.TooSlowError, trio.BrokenResourceError):
            self._gone.set()
            return {"type": "http.disconnect"}

    async def _next_part(self) -> Message:
        while True:
            event = self._http.next_event()
            if isinstance(event, h11.Data):
                return {"type": "http.request", "body": bytes(event.data), "more_body": True}
            if isinstance(event, h11.EndOfMessage):
                self._body_read.set()
                return {"type": "http.request", "body": b"", "more_body": False}
            if event is not h11.NEED_DATA:
                self._gone.set()
                return {"type": "http.disconnect"}
            if self._http.they_are_waiting_for_100_continue:
                await self._write(self._http.send(h11.InformationalResponse(status_code=100, headers=[])))
            self._http.receive_data(await self._stream.receive_some(_CHUNK))

    async def _send(self, message: Message) -> None:
        """Send a part of the response, or nothing to a client that has gone.

        As ASGI has it before its 2.4, that is no error: a client that only wants the status may go as soon as
        it has that, and what the application still does about the request has to be done.
        """
        async with self._sending:
            if self._gone.is_set():
                return
            if message["type"] == "http.response.start":
                headers = [(bytes(name), bytes(value)) for name, value in message.get("headers", ())]
                kept = [(name, value) for name, value in headers if name.lower() != b"connection"]
                await self._write(self._http.send(h11.Response(status_code=message["status"], headers=kept)))
            elif message["type"] == "http.response.body":
                data = self._http.send(h11.Data(data=message.get("body", b"")))
                end = None if message.get("more_body") else self._http.send(h11.EndOfMessage())
                await self._write((data or b"") + (end or b""))

    async def _write(self, data: bytes | None) -> None:
        try:
            with trio.fail_after(_WRITE_S):
                await self._stream.send_all(data or b"")
        except (trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError):
            self._gone.set()

    async def _watch(self) -> None:
        """Notice that the client goes away while its request is served."""
        await self._body_read.wait()
        try:
            # What it sends now belongs to its next request, which waits; more than a little is not taken.
            while len(self._http.trailing_data[0]) < _HEAD_BYTES:
                data = await self._stream.receive_some(_CHUNK)
                if not data:
                    break
                self._http.receive_data(data)
            else:
                return
        except trio.BrokenResourceError:
            pass
        self._gone.set()

    async def _hurry(self, leaving: trio.CancelScope) -> None:
        """End an application that goes on for a client that has gone."""
        await self._gone.wait()
        leaving.deadline = trio.current_time() + _LEAVE_S


def _read(request: h11.Request) -> tuple[str, str, dict[str, str]]:
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in request.headers}
    path = request.target.partition(b"?")[0].decode("ascii", "replace")
    return request.method.decode("ascii"), path, headers
