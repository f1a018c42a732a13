"""One connection, from its first byte to its last: requests in, replies out, side by side.

Rule 1: a handler that answers at once costs no task, and the replies to what one receive brought go out
in few sends. Rule 2: nothing grows without bound: a connection whose replies are not read is not read from
either, and its subscriptions lose events and are told how many. Rule 3: a connection ends in one place,
`serve`; whatever ended it, its tool calls and subscriptions are cancelled and everything else is let finish.

Who may connect is the server's business, what a request means the handlers'.
"""

import hmac
import logging
import math
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import trio

from crabtalk.dispatch import TURNS, Peer, Request, Table
from crabtalk.errors import (
    Busy,
    Cancelled,
    DeadlinePassed,
    Internal,
    NotBuilt,
    RequestError,
    ShuttingDown,
    StoreError,
    TooLarge,
    Unauthorized,
)
from crabtalk.jobs import Job, Jobs, Waiting
from crabtalk.reply_writer import ReplyWriter
from crabtalk.transports.stream import ByteStream
from crabtalk.wire.codec import Rejected, decode_request, error_reply
from crabtalk.wire.framing import MAX_FRAME_BYTES, MAX_PLAIN_BYTES, FrameReader, Payload
from crabtalk.wire.outbox import Outbox
from crabtalk.wire.pb import crabtalk_pb2 as pb

R = TypeVar("R")

LOG: Final = logging.getLogger(__name__)
_BATCH: Final = 8  # requests that are served before their replies go out: the client works on them meanwhile
_TURN: Final = 32  # requests that are served before other connections get their turn
_AUTH_BYTES: Final = 4096  # of the first frame where a token is asked for
LINGER_S: Final = 1.0  # for a peer that is still sending to see why it is closed
_ALWAYS: Final = frozenset({"ping", "cancel", "auth"})  # served however many requests are in flight


@dataclass(frozen=True, kw_only=True)
class ConnectionLimits:
    """What one connection may take; picked, not measured."""

    in_flight: int = 256  # requests that are not answered at once
    waiting: int = 256  # requests without an id that wait for one before them
    waiting_bytes: int = 1 << 20
    outbox_bytes: int = 1 << 20
    outbox_frames: int = 4096
    write_deadline_s: float = 30.0  # for a turn whose client does not read
    frame_deadline_s: float = 60.0  # from a frame's first byte to its last
    auth_deadline_s: float = 5.0
    flush_deadline_s: float = 5.0  # for the last replies of a connection that ends


class Budget:
    """Bytes that all connections together may hold of frames that are large."""

    SMALL_BYTES: Final = 1 << 16  # a frame up to here is not counted

    def __init__(self, total_bytes: int = 128 << 20) -> None:
        self.left_bytes = total_bytes

    def take(self, size_bytes: int) -> bool:
        """Take some, if there is enough left."""
        if size_bytes > self.left_bytes:
            return False
        self.left_bytes -= size_bytes
        return True

    def give_back(self, size_bytes: int) -> None:
        """Give back what was taken."""
        self.left_bytes += size_bytes


class Connection(Generic[R]):
    """Serves one peer."""

    def __init__(
        self,
        stream: ByteStream,
        table: Table[R],
        runtime: R,
        peer: Peer,
        *,
        limits: ConnectionLimits,
        budget: Budget,
        token: str | None = None,
    ) -> None:
        """Serve `peer`; with a `token`, the first request has to show it."""
        self.peer = peer
        self.requests = 0
        self._stream = stream
        self._table = table
        self._runtime = runtime
        self._limits = limits
        self._budget = budget
        self.owes_token = token is not None
        self._token = token
        self._reader = FrameReader(MAX_FRAME_BYTES, MAX_PLAIN_BYTES)
        self._frame_began = math.inf
        self._frame_held = 0  # of the budget, for the frame that is being received
        self._jobs = Jobs(limits.in_flight, limits.waiting, limits.waiting_bytes)
        self._job_ended = trio.lowlevel.ParkingLot()
        outbox = Outbox(limits.outbox_bytes, limits.outbox_frames)
        self._writer = ReplyWriter(stream, outbox, self._jobs.end_lossy)
        self._reading = trio.CancelScope()
        self._end_cause: RequestError = Cancelled("the connection was closed")

    @property
    def errors(self) -> Mapping[int, int]:
        """How many replies were errors, by code."""
        return self._writer.errors

    @property
    def in_flight(self) -> int:
        """How many requests are not answered yet."""
        return len(self._jobs)

    def end(self) -> None:
        """Read no more; `serve` returns when what is in flight has ended and its replies are sent."""
        self._end_cause = ShuttingDown("the daemon is stopping")
        self._reading.cancel()

    async def serve(self) -> None:
        """Serve until the peer is gone, or has to go.

        **Cancellation:** everything of this connection is cancelled, and the stream is closed.
        """
        try:
            async with trio.open_nursery() as self._nursery:
                self._nursery.start_soon(self._write)
                refusal = None
                with self._reading:
                    refusal = await self._read()
                if refusal is not None:
                    self._writer.put(error_reply(refusal), None)
                await self._finish()
                if refusal is not None:
                    await self._linger()
                self._nursery.cancel_scope.cancel()
        finally:
            self._release_frame()
            self._stream.close()

    async def _write(self) -> None:
        await self._writer.run()
        self._reading.cancel()

    async def _finish(self) -> None:
        self._jobs.cancel_all(self._end_cause)
        while self._jobs:
            await self._job_ended.park()
        with trio.move_on_after(self._limits.flush_deadline_s):
            await self._writer.until_sent()

    async def _linger(self) -> None:
        """Read on for a moment: closing with bytes unread takes the error from a peer that still sends."""
        self._stream.end()
        with trio.move_on_after(LINGER_S):
            while await self._stream.receive():
                pass

    # What comes in.

    async def _read(self) -> RequestError | None:
        """Serve what comes until it ends; an error says why the peer has to go."""
        try:
            if self._token is not None:
                await self._authenticate(self._token)
            while data := await self._receive():
                await self._serve_all(self._reader.feed(data))
        except RequestError as error:
            return error
        return None

    async def _receive(self) -> bytes:
        """Return what arrives next.

        Raises:
            DeadlinePassed: if a frame takes too long.
        """
        if not self._reader.partial:
            self._frame_began = math.inf
            return await self._stream.receive()
        if self._frame_began == math.inf:
            self._frame_began = trio.current_time()
        with trio.move_on_at(self._frame_began + self._limits.frame_deadline_s):
            return await self._stream.receive()
        raise DeadlinePassed(f"a frame was not complete after {self._limits.frame_deadline_s:g} s")

    async def _authenticate(self, token: str) -> None:
        """Wait for the first request, and serve what comes along with it.

        Raises:
            Unauthorized: if it does not show the token.
            DeadlinePassed: if it does not come.
        """
        payloads: list[Payload] = []
        with trio.move_on_after(self._limits.auth_deadline_s) as scope:
            while not payloads:
                data = await self._stream.receive()
                payloads = self._reader.feed(data)
                if not data or self._reader.expected_bytes > _AUTH_BYTES or self._reader.error:
                    break
        self.owes_token = False  # it is let in or sent away
        if scope.cancelled_caught:
            raise DeadlinePassed(f"no `auth` came within {self._limits.auth_deadline_s:g} s")
        if not payloads or not _shows(payloads[0], token):
            raise Unauthorized("the first request has to be `auth` with the token of this daemon")
        await self._serve_all(payloads)

    async def _serve_all(self, payloads: list[Payload]) -> None:
        """Serve what one receive brought, and answer it in one send.

        Raises:
            TooLarge: if a frame is being received that is larger than it may be.
            Busy: if there is no room for it at the moment.
        """
        if payloads:
            # The first one is what was being received; what it holds is counted anew while it is served.
            self._frame_began = math.inf
            self._release_frame()
        for start in range(0, len(payloads), _BATCH):
            if start:
                self._writer.flush()
            if start and not start % _TURN:
                await trio.lowlevel.checkpoint()
            await self._serve_some(payloads[start : start + _BATCH])
        self._writer.flush()
        if self._reader.error is not None:
            raise TooLarge(str(self._reader.error))
        self._hold_frame()

    async def _serve_some(self, payloads: list[Payload]) -> None:
        """Serve requests in their order; neighbours that have a batch handler go to it together.

        Only requests with an id do: those without one wait for each other.
        """
        batch: dict[int, Request] = {}
        kind = ""  # the field of all that are in the batch
        for payload in payloads:
            self.requests += 1
            try:
                field, body, request_id = decode_request(payload)
            except Rejected as rejected:
                self._writer.put(error_reply(rejected.error), rejected.request_id)
                continue
            if request_id is not None and field in self._table.batched and len(payload) <= Budget.SMALL_BYTES:
                if batch and (field != kind or request_id in batch or len(batch) >= self._jobs.room):
                    await self._serve_batch(kind, batch)
                kind = field
                batch[request_id] = Request(body, request_id, self.peer)
                continue
            if batch:
                await self._serve_batch(kind, batch)
            self._serve_or_keep(field, Request(body, request_id, self.peer), len(payload))
            if self._writer.full or self._jobs.crowded:
                await self._until_room()
        if batch:
            await self._serve_batch(kind, batch)

    async def _serve_batch(self, field: str, batch: dict[int, Request]) -> None:
        """Answer the requests of a batch, or start what will; it is empty then."""
        requests = list(batch.values())
        if not self._jobs.let_in(batch.keys()):
            requests = [request for request in requests if self._is_let_in(request)]
        batch.clear()
        while requests:
            try:
                replies = self._table.batched[field](self._runtime, requests)
            except Exception as error:  # noqa: BLE001 - whatever a handler raises is its request's
                replies = [_as_request_error(error, field)]
            for request, reply in zip(requests, replies, strict=False):
                if isinstance(reply, pb.ServerMessage):
                    self._writer.put(reply, request.request_id)
                else:
                    self._answer(field, request, reply)
            requests = requests[len(replies) :]
            if self._writer.full:
                await self._until_room()

    def _is_let_in(self, request: Request) -> bool:
        try:
            self._jobs.check(request.request_id, always=False)
        except RequestError as error:
            self._writer.put(error_reply(error), request.request_id)
            return False
        return True

    async def _until_room(self) -> None:
        await self._writer.until_low()
        while self._jobs.crowded:
            await self._job_ended.park()

    def _hold_frame(self) -> None:
        """Take from the budget what the frame that is being received will need.

        Raises:
            Busy: if there is not enough left.
        """
        needed = self._reader.expected_bytes
        if needed <= Budget.SMALL_BYTES or self._frame_held:
            return
        if not self._budget.take(needed):
            raise Busy("too many large requests are being received at the moment")
        self._frame_held = needed

    def _release_frame(self) -> None:
        self._budget.give_back(self._frame_held)
        self._frame_held = 0

    # What becomes of a request.

    def _serve_or_keep(self, field: str, request: Request, size_bytes: int) -> None:
        if self._jobs.has_to_wait(request.request_id):
            self._jobs.wait(Waiting(field, request.body, size_bytes))
        else:
            self._serve_request(field, request, size_bytes)

    def _serve_request(self, field: str, request: Request, size_bytes: int) -> None:
        """Answer a request, or start what will."""
        held_bytes = 0
        reply: pb.ServerMessage | Awaitable[pb.ServerMessage] | Job | RequestError
        try:
            self._jobs.check(request.request_id, always=field in _ALWAYS)
            if size_bytes > Budget.SMALL_BYTES:
                held_bytes = self._hold_request(size_bytes)
            handler = self._table.handlers.get(field)
            reply = handler(self._runtime, request) if handler is not None else self._special(field, request)
        except Exception as error:  # noqa: BLE001 - whatever a handler raises is its request's
            reply = _as_request_error(error, field)
        self._answer(field, request, reply, held_bytes)

    def _answer(
        self,
        field: str,
        request: Request,
        reply: pb.ServerMessage | Awaitable[pb.ServerMessage] | Job | RequestError,
        held_bytes: int = 0,
    ) -> None:
        """Put a reply, or start what will be answered later."""
        if isinstance(reply, RequestError):
            reply = error_reply(reply)
        if isinstance(reply, pb.ServerMessage):
            self._writer.put(reply, request.request_id)
            if held_bytes:
                self._budget.give_back(held_bytes)
            return
        job = reply if isinstance(reply, Job) else Job(field, request.request_id, reply)
        job.held_bytes = held_bytes
        self._jobs.add(job)
        self._nursery.start_soon(self._run, job)

    def _hold_request(self, size_bytes: int) -> int:
        """Take from the budget what a large request needs while it is served.

        Raises:
            Busy: if there is not enough left.
        """
        if not self._budget.take(size_bytes):
            raise Busy("too many large requests are being served at the moment")
        return size_bytes

    def _special(self, field: str, request: Request) -> pb.ServerMessage | Job:
        """Answer what is about the connection itself, or open a stream.

        Raises:
            NotBuilt: if this daemon does not serve it.
        """
        stream = self._table.streams.get(field)
        if stream is not None:
            job = Job(field, request.request_id, subscription=field not in TURNS)
            sender = _Sender(job, self._writer, self._limits.write_deadline_s)
            job.work = stream(self._runtime, request, sender)
            return job
        if field == "cancel":
            # What has ended already is what the client wanted, too.
            self._jobs.cancel(request.body.request_id, Cancelled("cancelled by the client"))
        elif field != "auth":
            raise NotBuilt(f"`{field}` is not built yet")
        return pb.ServerMessage(pong=pb.Pong())

    async def _run(self, job: Job) -> None:
        """See a request to its end, answer it, and serve those that waited for it."""
        reply: pb.ServerMessage | None = None
        try:
            with job.scope:
                reply = await job.work if job.work is not None else None
                if reply is None and job.subscription:
                    reply = pb.ServerMessage(pong=pb.Pong())
        except Exception as error:  # noqa: BLE001 - whatever a handler raises is its request's
            reply = error_reply(_as_request_error(error, job.field))
        if job.lost:
            reply = error_reply(Busy(f"{job.lost} events were lost: the client reads slower than they come"))
        elif job.scope.cancelled_caught:
            reply = _reply_to_cancelled(job)
        self._budget.give_back(job.held_bytes)
        if reply is not None:
            self._writer.put_and_send(reply, job.request_id)
        self._jobs.remove(job)
        await self._serve_waiting()
        self._job_ended.unpark_all()

    async def _serve_waiting(self) -> None:
        while (waiting := self._jobs.next_waiting()) is not None:
            self._serve_request(waiting.field, Request(waiting.body, None, self.peer), waiting.size_bytes)
            self._writer.send_soon()
            if self._writer.full:
                await self._writer.until_low()


class _Sender:
    """The `Send` of one stream."""

    def __init__(self, job: Job, writer: ReplyWriter, deadline_s: float) -> None:
        self._job = job
        self._writer = writer
        self._deadline_s = deadline_s

    async def __call__(self, message: pb.ServerMessage) -> None:
        if self._job.lost or self._writer.full:
            if self._job.subscription:
                self._job.lost += 1
                await trio.lowlevel.checkpoint()
                return
            await self._until_room()
        self._writer.put_and_send(message, self._job.request_id)
        await trio.lowlevel.checkpoint()

    async def _until_room(self) -> None:
        with trio.move_on_after(self._deadline_s) as scope:
            await self._writer.until_low()
        if scope.cancelled_caught:
            raise DeadlinePassed(f"the client did not read for {self._deadline_s:g} s")


def _shows(payload: Payload, token: str) -> bool:
    try:
        field, body, _ = decode_request(payload)
    except Rejected:
        return False
    return field == "auth" and hmac.compare_digest(body.token.encode(), token.encode())


def _as_request_error(error: Exception, field: str) -> RequestError:
    """Return what the client hears; what is not its business is logged instead."""
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    if isinstance(error, RequestError):
        return error
    if isinstance(error, StoreError):
        LOG.error("a %s request failed: %s", field, error)
        return Internal(f"the store does not work: {error}")
    LOG.error("a %s request failed", field, exc_info=error)
    return Internal("an internal error, please report it; the log of the daemon has the details")


def _reply_to_cancelled(job: Job) -> pb.ServerMessage:
    cause = job.cause or Cancelled("cancelled")
    if job.field == "call_tool":
        trap = pb.Trap(kind="cancelled", message=cause.message)
        return pb.ServerMessage(tool_outcome=pb.ToolOutcome(trap=trap))
    return error_reply(cause)
