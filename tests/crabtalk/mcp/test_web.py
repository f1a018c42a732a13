"""Hosting ASGI applications: what they hear and can do when their client goes away."""

import pytest
import trio
import trio.testing

from crabtalk.mcp import web

pytestmark = pytest.mark.trio

POST = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}"
START = {"type": "http.response.start", "status": 202, "headers": [(b"content-length", b"4")]}
BODY = {"type": "http.response.body", "body": b"null"}


async def exchange(application, talk):
    """Serve one connection whose client does what `talk` does with its end of it."""
    ours, theirs = trio.testing.memory_stream_pair()

    async def guard(_method, _path, _headers):
        return application

    async def client():
        await talk(theirs)
        await theirs.aclose()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(client)
        await web._serve_one(guard, trio.CapacityLimiter(1), ours)


async def read_body(receive):
    while (await receive())["more_body"]:
        pass


async def go_after_the_head(stream):
    await stream.send_all(POST)
    head = b""
    while b"\r\n\r\n" not in head:
        head += await stream.receive_some()
    assert head.startswith(b"HTTP/1.1 202")


async def test_what_comes_after_the_response_is_done_for_a_client_that_only_wants_the_status(caplog):
    """As the SDK does it, whose clients hang up at 202: the answer first, the notification then."""
    done = trio.Event()

    async def application(_scope, receive, send):
        await read_body(receive)
        await send(START)
        assert (await receive())["type"] == "http.disconnect"
        await send(BODY)
        await trio.lowlevel.checkpoint()
        done.set()

    await exchange(application, go_after_the_head)
    assert done.is_set()
    assert not caplog.records


async def test_what_cannot_be_written_any_more_is_dropped(caplog):
    done = trio.Event()

    async def application(_scope, receive, send):
        await read_body(receive)
        await trio.testing.wait_all_tasks_blocked()
        await send(START)
        await send(BODY)
        done.set()

    async def go_at_once(stream):
        await stream.send_all(POST)

    await exchange(application, go_at_once)
    assert done.is_set()
    assert not caplog.records


async def test_an_application_that_goes_on_for_a_client_that_has_gone_is_ended(autojump_clock):  # noqa: ARG001 - jumps
    ended = trio.Event()

    async def application(_scope, receive, send):
        await read_body(receive)
        await send(START)
        try:
            await trio.sleep_forever()
        finally:
            ended.set()

    began = trio.current_time()
    await exchange(application, go_after_the_head)
    assert ended.is_set()
    assert trio.current_time() - began == pytest.approx(5)


async def test_what_an_application_raises_is_logged_and_ends_the_connection(caplog):
    async def application(_scope, receive, _send):
        await read_body(receive)
        raise RuntimeError("oh")

    async def read_to_the_end(stream):
        await stream.send_all(POST)
        assert await stream.receive_some() == b""

    await exchange(application, read_to_the_end)
    [record] = caplog.records
    assert "failed" in record.getMessage()


async def test_an_answer_before_the_end_of_the_body_reaches_a_client_that_still_sends(caplog):
    async def too_large(_scope, _receive, send):
        await send(START)
        await send(BODY)

    answered = b""

    async def send_first(stream):
        nonlocal answered
        await stream.send_all(POST.replace(b"2", b"6", 1))
        while b"null" not in answered:
            answered += await stream.receive_some()
        await trio.testing.wait_all_tasks_blocked()
        await stream.send_all(b"more")

    await exchange(too_large, send_first)
    assert answered.startswith(b"HTTP/1.1 202")
    assert not caplog.records
