"""Connections within the process: for embedders, and for tests with a clock of their own."""

from typing import Final

import trio

from crabtalk.dispatch import Peer
from crabtalk.transports.stream import Accepted

_ROOM_BYTES: Final = 1 << 16  # as much as a socket holds, about


class _Pipe:
    """One direction, with as much room as a socket would have."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.ended = False  # nobody writes any more
        self.broken = False  # nobody reads any more
        self.changed = trio.Event()

    def change(self) -> None:
        self.changed.set()
        self.changed = trio.Event()


class MemoryStream:
    """One end of a connection."""

    def __init__(self, incoming: _Pipe, outgoing: _Pipe) -> None:
        self._incoming = incoming
        self._outgoing = outgoing

    async def receive(self) -> bytes:
        """Wait for bytes and return them; none at the end, however it came about."""
        await trio.lowlevel.checkpoint()
        pipe = self._incoming
        while not pipe.data and not pipe.ended:
            await pipe.changed.wait()
        data = bytes(pipe.data)
        pipe.data.clear()
        pipe.change()
        return data

    def send_nowait(self, data: bytes | memoryview) -> int:
        """Return how many bytes were taken, 0 if it has to be waited for.

        Raises:
            BrokenPipeError: if nobody reads at the other end.
        """
        pipe = self._outgoing
        if pipe.broken or pipe.ended:
            raise BrokenPipeError("the other end is closed")
        taken = bytes(data[: _ROOM_BYTES - len(pipe.data)])
        pipe.data += taken
        pipe.change()
        return len(taken)

    async def wait_writable(self) -> None:
        """Return when `send_nowait` has room, or would say that the peer is gone."""
        await trio.lowlevel.checkpoint()
        pipe = self._outgoing
        while len(pipe.data) >= _ROOM_BYTES and not pipe.broken:
            await pipe.changed.wait()

    async def send_all(self, data: bytes) -> None:
        """Send everything; for the client's end.

        Raises:
            BrokenPipeError: if nobody reads at the other end.
        """
        view = memoryview(data)
        while view:
            view = view[self.send_nowait(view) :]
            await self.wait_writable()

    def end(self) -> None:
        """Send nothing more, and go on receiving; the other end sees it."""
        self._outgoing.ended = True
        self._outgoing.change()

    def close(self) -> None:
        """Let go; may be called twice."""
        self.end()
        self._incoming.broken = True
        self._incoming.ended = True
        self._incoming.data.clear()
        self._incoming.change()


def memory_pair() -> tuple[MemoryStream, MemoryStream]:
    """Return the two ends of a new connection."""
    there, back = _Pipe(), _Pipe()
    return MemoryStream(there, back), MemoryStream(back, there)


class MemoryListener:
    """Where clients of the same process come in."""

    needs_token = False

    def __init__(self, name: str = "memory") -> None:
        self._name = name
        self._send, self._receive = trio.open_memory_channel[Accepted](64)

    async def connect(self, name: str = "") -> MemoryStream:
        """Return a client's end of a new connection; `name` is the client's, as the listener's is else.

        Raises:
            trio.BrokenResourceError: if the listener is closed.
        """
        ours, theirs = memory_pair()
        await self._send.send(Accepted(ours, Peer(name or self._name, "memory", None)))
        return theirs

    async def accept(self) -> Accepted:
        """Wait for a client.

        Raises:
            trio.ClosedResourceError: if it was closed.
        """
        return await self._receive.receive()

    def close(self) -> None:
        """Let nobody in any more; may be called twice."""
        self._receive.close()
