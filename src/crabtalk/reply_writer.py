"""The sending half of a connection: replies go out as far as the peer reads, the rest waits in order."""

from collections import Counter
from collections.abc import Callable

import trio

from crabtalk.known_secrets import KNOWN
from crabtalk.transports.stream import ByteStream
from crabtalk.wire.codec import encode_reply
from crabtalk.wire.outbox import Outbox
from crabtalk.wire.pb import crabtalk_pb2 as pb


class ReplyWriter:
    """Owns what is not sent yet; `run` is the task that sends what the peer did not take at once."""

    def __init__(self, stream: ByteStream, outbox: Outbox, on_room: Callable[[], None]) -> None:
        """Call `on_room` whenever the outbox is low again after it was full."""
        self.peer_is_gone = False
        self.errors: Counter[int] = Counter()  # replies that were errors, by code
        self._stream = stream
        self._outbox = outbox
        self._on_room = on_room
        self._was_full = False
        self._blocked = False  # `run` waits for the peer to read, and nobody else may send
        self._work = trio.lowlevel.ParkingLot()
        self._progress = trio.lowlevel.ParkingLot()

    @property
    def full(self) -> bool:
        """Whether nobody should be let in who wants to send more."""
        full = self._outbox.full
        if full:
            self._was_full = True
        return full

    def put(self, message: pb.ServerMessage, request_id: int | None) -> None:
        """Add a reply, to be sent by `flush`; sets its request id."""
        if message.HasField("error"):
            self.errors[message.error.code] += 1
            if KNOWN:
                message.error.message = KNOWN.text(message.error.message)
        if not self.peer_is_gone:
            self._outbox.put(encode_reply(message, request_id))

    def put_and_send(self, message: pb.ServerMessage, request_id: int | None) -> None:
        """Add a reply that is sent soon, with all others that are ready by then."""
        self.put(message, request_id)
        self._work.unpark()

    def send_soon(self) -> None:
        """Have `run` send what was put."""
        self._work.unpark()

    def flush(self) -> None:
        """Send as much as the peer takes without waiting."""
        while self._outbox and not self._blocked:
            data = self._outbox.take()
            try:
                sent = self._stream.send_nowait(data)
            except BrokenPipeError:
                self._lose_peer()
                return
            if sent < len(data):
                self._outbox.put_back(memoryview(data)[sent:])
                self._blocked = True
                self._work.unpark()
        self._tell_progress()

    async def run(self) -> None:
        """Send what could not be sent at once, until cancelled or the peer is gone."""
        while not self.peer_is_gone:
            if self._blocked:
                await self._stream.wait_writable()
                self._blocked = False
            elif not self._outbox:
                await self._work.park()
            self.flush()

    async def until_low(self) -> None:
        """Return when others may be let in again, or the peer is gone."""
        self.flush()
        while not self._outbox.low and not self.peer_is_gone:
            await self._progress.park()

    async def until_sent(self) -> None:
        """Return when everything was sent, or the peer is gone."""
        self.flush()
        while self._outbox and not self.peer_is_gone:
            await self._progress.park()

    def _lose_peer(self) -> None:
        self.peer_is_gone = True
        self._outbox.clear()
        self._work.unpark()
        self._tell_progress()

    def _tell_progress(self) -> None:
        if self._progress:
            self._progress.unpark_all()
        if self._was_full and self._outbox.low:
            self._was_full = False
            self._on_room()
