"""JSON-RPC over lines of bytes, as the SDK's sessions want it; imports the SDK.

Both sides use it: for a server's pipes, and for a client's socket. What is no JSON-RPC is counted, told to
`junk` and skipped; a line without an end within the bound ends the connection. Who answers does not read from
a peer that leaves its answers unread, as each request that is read takes memory until its answer is.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

import anyio
import trio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from crabtalk.mcp.lines import LineReader, LineTooLong

Streams = tuple[
    MemoryObjectReceiveStream[SessionMessage | Exception],
    MemoryObjectSendStream[SessionMessage],
]

_WAITING_MESSAGES: Final = 256  # to be written: room for a cancellation while the peer is slow
_UNREAD: Final = 32  # answers that a peer may leave unread before nothing more is read from it
_WRITE_S: Final = 30.0  # for one message; a peer that reads more slowly is gone
_CHUNK: Final = 1 << 16
_GONE: Final = (trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError, OSError)

Receive = Callable[[int], Awaitable[bytes]]
SendAll = Callable[[bytes], Awaitable[None]]


@asynccontextmanager
async def framed(
    receive: Receive,
    send_all: SendAll,
    junk: Callable[[str], None],
    gone: Callable[[], None],
    *,
    answering: bool = False,
) -> AsyncGenerator[Streams]:
    """Speak JSON-RPC over a stream of bytes until the block ends; `gone` is called when the peer is."""
    read_in, read_out = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write_in, write_out = anyio.create_memory_object_stream[SessionMessage](_WAITING_MESSAGES)
    written = trio.lowlevel.ParkingLot()

    async def until_read() -> None:
        while answering and write_in.statistics().current_buffer_used >= _UNREAD:
            await written.park()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(_read, receive, read_in, junk, gone, until_read)
        nursery.start_soon(_write, write_out, send_all, read_in, gone, written.unpark_all)
        try:
            yield read_out, write_in
        finally:
            with trio.move_on_after(1.0, shield=True):
                await _flush(write_in, write_out)
            nursery.cancel_scope.cancel()
            for stream in (read_in, read_out, write_in, write_out):
                stream.close()


async def _read(
    receive: Receive,
    messages: MemoryObjectSendStream[SessionMessage | Exception],
    junk: Callable[[str], None],
    gone: Callable[[], None],
    until_read: Callable[[], Awaitable[None]],
) -> None:
    try:
        await _read_messages(receive, messages, junk, until_read)
    finally:
        gone()


async def _read_messages(
    receive: Receive,
    messages: MemoryObjectSendStream[SessionMessage | Exception],
    junk: Callable[[str], None],
    until_read: Callable[[], Awaitable[None]],
) -> None:
    reader = LineReader()
    with messages, suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, *_GONE):
        while data := await receive(_CHUNK):
            try:
                lines = reader.feed(data)
            except LineTooLong as error:
                junk(str(error))
                return
            for line in lines:
                if (message := _parsed(line, junk)) is not None:
                    await messages.send(message)
                    await until_read()


def _parsed(line: bytes, junk: Callable[[str], None]) -> SessionMessage | None:
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError:
        junk(line[:4096].decode(errors="replace"))
        return None


async def _write(
    messages: MemoryObjectReceiveStream[SessionMessage],
    send_all: SendAll,
    read: MemoryObjectSendStream[SessionMessage | Exception],
    gone: Callable[[], None],
    written: Callable[[], object],
) -> None:
    with messages, suppress(anyio.ClosedResourceError, *_GONE):
        async for one in messages:
            text = one.message.model_dump_json(by_alias=True, exclude_unset=True)
            with trio.fail_after(_WRITE_S):
                await send_all(text.encode() + b"\n")
            written()
        return
    # The peer reads no more: whoever waits for it is told, by the end of what it says.
    read.close()
    gone()


async def _flush(
    write_in: MemoryObjectSendStream[SessionMessage],
    write_out: MemoryObjectReceiveStream[SessionMessage],
) -> None:
    """Let what was said go out, a cancellation above all."""
    write_in.close()
    while write_out.statistics().current_buffer_used:  # noqa: ASYNC110 - for a moment at the end
        await trio.sleep(0.005)
