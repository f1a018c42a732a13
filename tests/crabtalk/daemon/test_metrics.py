"""Counts, and the server that shows them."""

import stat
import tempfile
from pathlib import Path

import pytest
import trio
from prometheus_client.parser import text_string_to_metric_families

from crabtalk.errors import ConfigError
from crabtalk.metrics import CONTENT_TYPE, Metrics
from crabtalk.metrics_server import listen, serve_metrics

pytestmark = pytest.mark.trio


@pytest.fixture
def directory():
    path = Path(tempfile.mkdtemp(dir="/tmp"))
    yield path
    for file in path.iterdir():
        file.unlink()
    path.rmdir()


def samples(text):
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def ask(path, request):
    stream = await trio.open_unix_socket(str(path))
    async with stream:
        await stream.send_all(request)
        answer = b""
        while part := await stream.receive_some():
            answer += part
    head, _, body = answer.partition(b"\r\n\r\n")
    return head.split(b"\r\n")[0].decode(), head, body.decode()


async def test_what_was_counted_is_what_is_read():
    metrics = Metrics("1.2.3")
    metrics.count_outcome("tool", "done", 80, 1000)
    metrics.count_outcome("tool", "done", 2_000_000, 1000)
    metrics.count_outcome("wake", "trap", 10, 5)
    metrics.count_wait("wake", 0.3)
    metrics.labelled("errors", "code", lambda: {"429": 2}, "replies")
    metrics.gauges(lambda: {"queue_depth": 7}, "work that waits")
    metrics.counters(lambda: {"wakes_missed": 3}, "wakes")
    found = samples(metrics.text().decode())
    assert found["crabtalk_build_info", (("version", "1.2.3"),)] == 1
    assert found["crabtalk_invocations_total", (("outcome", "done"), ("trigger", "tool"))] == 2
    assert found["crabtalk_invocations_total", (("outcome", "trap"), ("trigger", "wake"))] == 1
    assert found["crabtalk_invocation_seconds_bucket", (("le", "0.0001"), ("trigger", "tool"))] == 1
    assert found["crabtalk_invocation_seconds_bucket", (("le", "5"), ("trigger", "tool"))] == 2
    assert found["crabtalk_invocation_seconds_count", (("trigger", "tool"),)] == 2
    assert found["crabtalk_invocation_seconds_sum", (("trigger", "tool"),)] == pytest.approx(2.00008)
    assert found["crabtalk_queue_wait_seconds_bucket", (("le", "0.25"), ("trigger", "wake"))] == 0
    assert found["crabtalk_queue_wait_seconds_bucket", (("le", "1"), ("trigger", "wake"))] == 1
    assert "crabtalk_invocation_seconds from when it began to when it ended\n" in metrics.text().decode()
    assert found["crabtalk_instructions_total", ()] == 2005
    assert found["crabtalk_errors_total", (("code", "429"),)] == 2
    assert found["crabtalk_queue_depth", ()] == 7
    assert found["crabtalk_wakes_missed_total", ()] == 3
    assert found["process_resident_memory_bytes", ()] > 0


async def test_pages_are_served_to_the_owner(nursery, directory):
    pages = {
        "/metrics": lambda: (200, CONTENT_TYPE, Metrics("1").text()),
        "/healthz": lambda: (503, "text/plain", b"stopping\n"),
    }
    listener = listen("unix", directory / "m.sock")
    await nursery.start(serve_metrics, listener, pages)
    assert stat.S_IMODE((directory / "m.sock").stat().st_mode) == 0o600
    status, head, body = await ask(directory / "m.sock", b"GET /metrics?x=1 HTTP/1.1\r\nHost: x\r\n\r\n")
    assert status == "HTTP/1.1 200 "
    assert b"text/plain; version=0.0.4" in head
    assert "crabtalk_build_info" in body
    for request, expected in [
        (b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", ("HTTP/1.1 503 ", "stopping\n")),
        (b"GET /other HTTP/1.1\r\nHost: x\r\n\r\n", ("HTTP/1.1 404 ", "there are /metrics and /healthz\n")),
        (b"POST /metrics HTTP/1.1\r\nHost: x\r\n\r\n", ("HTTP/1.1 405 ", "only GET and HEAD are served\n")),
        (b"HEAD /healthz HTTP/1.1\r\nHost: x\r\n\r\n", ("HTTP/1.1 503 ", "")),
        (b"HEAD /other HTTP/1.1\r\nHost: x\r\n\r\n", ("HTTP/1.1 404 ", "")),
        (b"garbage\r\n\r\n", ("HTTP/1.1 400 ", "bad request\n")),
        (b"GET / HTTP/1.1\r\nA: " + b"x" * 20_000, ("HTTP/1.1 431 ", "bad request\n")),
    ]:
        status, _, body = await ask(directory / "m.sock", request)
        assert (status, body) == expected
    nursery.cancel_scope.cancel()


async def test_a_page_that_cannot_be_made_costs_its_connection_and_nothing_else(nursery, directory, caplog):
    pages = {"/metrics": lambda: 1 // 0, "/healthz": lambda: (200, "text/plain", b"ok\n")}
    await nursery.start(serve_metrics, listen("unix", directory / "m.sock"), pages)
    async with await trio.open_unix_socket(str(directory / "m.sock")) as stream:
        await stream.send_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        assert await stream.receive_some() == b""
    status, _, body = await ask(directory / "m.sock", b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
    assert (status, body) == ("HTTP/1.1 200 ", "ok\n")
    assert [record.message for record in caplog.records] == ["a request for metrics failed"]
    nursery.cancel_scope.cancel()


async def test_one_who_asks_slowly_is_hung_up_on(nursery, directory, autojump_clock):
    listener = listen("unix", directory / "m.sock")
    await nursery.start(serve_metrics, listener, {})
    stream = await trio.open_unix_socket(str(directory / "m.sock"))
    async with stream:
        await stream.send_all(b"GET /metrics HT")
        assert await stream.receive_some() == b""
    assert trio.current_time() - autojump_clock.rate >= 0
    nursery.cancel_scope.cancel()


async def test_a_stale_socket_is_replaced_and_another_file_is_not(directory):
    first = listen("unix", directory / "m.sock")
    await first.aclose()
    second = listen("unix", directory / "m.sock")
    await second.aclose()
    (directory / "file").write_text("keep")
    with pytest.raises(ConfigError, match="address already in use"):
        listen("unix", directory / "file")
    assert (directory / "file").read_text() == "keep"


async def test_a_port_that_is_taken_is_named():
    listener = listen("127.0.0.1:0", Path("unused"))
    port = listener.socket.getsockname()[1]
    with pytest.raises(ConfigError, match=rf"^metrics.listen: 127.0.0.1:{port}: address already in use"):
        listen(f"127.0.0.1:{port}", Path("unused"))
    await listener.aclose()
