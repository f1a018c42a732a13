"""Bounds of `berm.http.fetch` while reading: size, time, and answers that are broken."""

import socket
import time

import anyio
import anyio.lowlevel
import pytest

from crabtalk.capabilities import web as module
from crabtalk.capabilities._failure import Failure
from crabtalk.capabilities.web import web
from descriptors import open_descriptors
from servers import reply

pytestmark = pytest.mark.anyio


def chunks(*parts):
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts)


BIG = {
    "length": lambda size: b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + b"x" * size,
    "chunked": lambda size: (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        + chunks(
            *[b"x" * (1 << 16)] * (size >> 16), *([b"x" * (size % (1 << 16))] if size % (1 << 16) else [])
        )
        + b"0\r\n\r\n"
    ),
    "to the end": lambda size: b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * size,
}


@pytest.mark.parametrize("framing", BIG)
async def test_the_bound_of_a_body_is_exact(get, serve, framing):
    assert len((await get(serve(BIG[framing](10 << 20))))[2]) == 10 << 20
    with pytest.raises(Failure, match="body is larger than 10485760 bytes"):
        await get(serve(BIG[framing]((10 << 20) + 1)))


async def test_an_endless_body_is_cut_off_and_hung_up_on(get, serve):
    def pour(connection, _request):
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        try:
            while True:
                connection.sendall(b"x" * 65536)
        except OSError:
            server.hung_up.put(True)

    server = serve(pour)
    with pytest.raises(Failure, match="body is larger"):
        await get(server)
    assert server.hung_up.get(timeout=10)


async def test_the_bound_of_headers_is_exact(get, serve):
    fixed = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n"
    room = (64 << 10) - len("Content-Length: 0\r\n") - len("A: \r\n")
    fits = fixed + b"A: " + b"x" * room + b"\r\n\r\n"
    assert (await get(serve(fits)))[0] == 200
    with pytest.raises(Failure, match=r"headers are larger than 65536 bytes|Receive buffer too long"):
        await get(serve(fixed + b"A: " + b"x" * (room + 1) + b"\r\n\r\n"))


@pytest.mark.parametrize("line", [b"A: b\r\n", b"x" * 1000, b" folded\r\n"])
async def test_endless_headers_are_cut_off(get, serve, line):
    def pour(connection, _request):
        connection.sendall(b"HTTP/1.1 200 OK\r\n")
        try:
            while True:
                connection.sendall(line * 100)
        except OSError:
            server.hung_up.put(True)

    server = serve(pour)
    with pytest.raises(Failure, match="broke the HTTP protocol"):
        await get(server)
    assert server.hung_up.get(timeout=10)


def dripping(head, drop):
    def drip(connection, _request):
        connection.sendall(head)
        try:
            while True:
                connection.sendall(drop)
                time.sleep(0.02)
        except OSError:
            return

    return drip


@pytest.mark.parametrize(
    ("head", "drop"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n", b"x"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
        (b"HTTP/1.1 200 OK\r\n\r\n", b"x"),
        (b"HTTP/1.1 200 OK\r\n", b"A: b\r\n"),
        (b"HTTP/1.1 200 OK\r\nA: ", b"x"),
        (b"HTT", b""),
        (b"", b"HTTP/1.1 102 Processing\r\n\r\n"),
    ],
)
async def test_a_dripping_answer_ends_with_the_time(get, serve, new_call, head, drop):
    started = time.monotonic()
    with pytest.raises(Failure, match=r"no complete answer from `127.0.0.1` within 0.3 s"):
        await get(serve(dripping(head, drop)), call=new_call(deadline_left=0.3))
    assert time.monotonic() - started < 3


async def test_a_server_that_reads_nothing_ends_with_the_time(bind, new_call):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        bound = bind(web([f"http://127.0.0.1:{port}"]), new_call(deadline_left=0.3))
        with pytest.raises(Failure, match=r"within 0.3 s"):
            await bound.wait("berm.http.fetch", "POST", f"http://127.0.0.1:{port}/", b"x" * (10 << 20))


async def test_the_limit_is_half_a_minute():
    assert (module.LIMIT_S, module.Web(None).limit_s) == (30, 30)


async def test_a_body_of_tiny_chunks_leaves_the_loop_to_others(get, serve):
    answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 30_000 + b"0\r\n\r\n"
    ticks = 0

    async def tick():
        nonlocal ticks
        while True:
            await anyio.lowlevel.checkpoint()
            ticks += 1

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(tick)
        assert len((await get(serve(answer)))[2]) == 30_000
        tasks.cancel_scope.cancel()
    assert ticks > 400  # reading alone would wait a few times only


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"", "without an answer"),
        (b"SSH-2.0-OpenSSH_9.6\r\n\r\n", "illegal status line"),
        (b"\0\1\2\3" * 100, "illegal"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc", "closed connection"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc", "closed connection"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "chunk"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef", "onflicting"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nabcdef", "Content-Length"),
        (b"HTTP/1.1 200 OK\r\nA\0: b\r\n\r\n", "illegal header"),
        (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", "another protocol|broke"),
    ],
)
async def test_a_broken_answer_is_an_error_that_says_so(get, serve, answer, why):
    with pytest.raises(Failure, match=why):
        await get(serve(answer))


async def test_a_connection_that_is_reset_is_an_error(get, serve):
    def reset(connection, _request):
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        connection.close()

    with pytest.raises(Failure, match="broke"):
        await get(serve(reset))


async def test_a_cancelled_fetch_hangs_up(get, serve):
    server = serve(lambda connection, _request: server.until_hung_up(connection))
    with anyio.move_on_after(0.2) as scope:
        await get(server)
    assert scope.cancelled_caught
    assert server.hung_up.get(timeout=5)


async def test_no_descriptor_is_leaked(get, serve):
    good, bad = serve(reply(b"x")), serve(b"garbage\r\n\r\n")

    async def settled():
        """Look when the server's threads have closed their ends, which are ours too."""
        with anyio.fail_after(10):
            while any(end.fileno() >= 0 for end in good.sockets + bad.sockets):  # noqa: ASYNC110 - threads
                await anyio.sleep(0.01)
        return open_descriptors()

    await get(good)
    before = await settled()
    for _ in range(5):
        await get(good)
        with pytest.raises(Failure):
            await get(bad)
    with anyio.fail_after(10):  # other tests' threads close theirs when they come to it
        while not (await settled()).items() <= before.items():  # noqa: ASYNC110 - threads
            await anyio.sleep(0.05)
