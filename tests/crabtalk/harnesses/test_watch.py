"""harness/watch in the daemon, against a web server on loopback."""

import contextlib
import threading

import pytest
import trio

from servers import Server, reply

pytestmark = pytest.mark.trio


class Site:
    """What a server gives, to be changed by a test."""

    def __init__(self):
        self.lock = threading.Lock()
        self.page = reply(b"one")
        self.etag = None

    def set(self, body=b"", *headers, status="200 OK"):
        with self.lock:
            self.page = reply(body, *headers, status=status)
            self.etag = next((header[6:] for header in headers if header.startswith("ETag: ")), None)

    def answer(self, connection, request):
        with self.lock:
            known = request.all("if-none-match")
            fresh = self.etag is not None and known == [self.etag]
            connection.sendall(reply(status="304 Not Modified") if fresh else self.page)


@pytest.fixture
def site():
    site = Site()
    with Server(site.answer) as server:
        site.server = server
        site.url = f"http://127.0.0.1:{server.port}/page"
        yield site


@pytest.fixture
async def watches(keeper, site):
    watches = keeper("watch")
    await watches.declare(
        hosts=[f"http://127.0.0.1:{site.server.port}"],
        zone="UTC",
        storage="1MiB",
        schedule=10,
        topics=["watch:*"],
    )
    return watches


async def test_a_change_is_published_and_no_change_is_not(watches, site):
    said = await watches.done("watch", url=site.url, every="1m")
    assert said.endswith(": status 200, 3 bytes, @every 1m\n")
    for body in (b"one", b"two", b"two", b"three", b"three"):
        site.set(body)
        run = await watches.next_wake()
        assert (run.outcome, run.depth) == ("done", 0)
    seen = [await watches.event("watch:changed") for _ in range(2)]
    assert [(event["before"]["size"], event["now"]["size"]) for event in seen] == [(3, 3), (3, 5)]
    assert {event["url"] for event in seen} == {site.url}
    assert len(site.server.requests) == 6
    assert await watches.events_so_far() == []


async def test_the_server_s_validator_saves_the_transfer(watches, site):
    site.set(b"x" * 1000, 'ETag: "v1"')
    await watches.done("watch", url=site.url, every="5m")
    assert (await watches.next_wake()).outcome == "done"
    assert site.server.requests[-1].all("if-none-match") == ['"v1"']
    site.set(b"y" * 1000, 'ETag: "v2"')
    await watches.next_wake()
    event = await watches.event("watch:changed")
    assert (event["before"]["etag"], event["now"]["etag"]) == ('"v1"', '"v2"')


async def test_a_server_that_is_down_is_told_of_once_and_backed_off_from(watches, site):
    await watches.done("watch", url=site.url, every="1m")
    site.set(b"busy", status="503 Service Unavailable")
    delays = []
    for _ in range(5):
        run = await watches.next_wake()
        assert (run.outcome, run.message) == ("failed", "the server answered with status 503")
        (wake,) = await watches.pending()
        delays.append(round((wake.at_ms - watches.clock.now_ms()) / 60_000))
    assert delays == [1, 2, 4, 8, 16]
    assert (await watches.event("watch:failing"))["reason"] == "the server answered with status 503"
    site.set(b"one")
    assert (await watches.next_wake()).outcome == "done"
    assert "before" not in await watches.event("watch:recovered")
    (wake,) = await watches.pending()
    assert wake.at_ms - watches.clock.now_ms() <= 60_000


async def test_a_watch_that_is_slow_is_called_and_ended_while_it_waits(watches, site):
    """The tools answer while a fetch hangs: a guest that waits holds nobody up."""
    released = threading.Event()
    plain = site.answer

    def hang(connection, request):
        released.wait(20)
        with contextlib.suppress(OSError):
            plain(connection, request)

    said = await watches.done("watch", url=site.url, every="1m")
    site.server.answer = hang
    await watches.advance()
    with trio.fail_after(20):
        while len(site.server.requests) < 2:  # noqa: ASYNC110 - about another thread
            await trio.sleep(0.005)
    assert site.url in await watches.done("list_watches")
    assert site.url in await watches.done("unwatch", id=said.split(":")[0])
    released.set()
    with trio.fail_after(20):
        while not await watches.runs():  # noqa: ASYNC110 - it is asked for
            await trio.sleep(0.005)
    assert await watches.done("list_watches") == "no watches\n"
    assert await watches.pending() == []


async def test_a_host_that_was_not_granted_is_not_watched(watches):
    outcome = await watches.call("watch", url="https://example.org/", every="1m")
    assert outcome.WhichOneof("outcome") == "failed"
    assert await watches.pending() == []
