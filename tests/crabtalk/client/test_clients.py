"""Both clients against a server of its own process: replies, errors, streams, cancellation, ends."""

import subprocess
import sys
import threading
import time

import anyio
import pytest

from crabtalk.client import Client, ConnectionLost, NotRunning, SyncClient, connect
from crabtalk.client.replies import MAX_UNREAD, Replies
from crabtalk.errors import (
    BadRequest,
    Busy,
    DeadlinePassed,
    Internal,
    NotBuilt,
    NotFound,
    RemoteProtocolError,
    TooLarge,
    Unauthorized,
)
from crabtalk.wire.framing import frame
from crabtalk.wire.pb import crabtalk_pb2 as pb
from wire_servers import wire_server


@pytest.fixture(scope="module", params=["unix", "tcp"])
def any_server(request):
    with wire_server(tcp=request.param == "tcp") as server:
        yield server


@pytest.fixture
def server():
    with wire_server() as server:
        yield server


@pytest.fixture
def client(any_server):
    with SyncClient.connect(any_server.home, timeout_s=20) as client:
        yield client


def test_a_reply_is_its_body_and_a_pong_is_nothing(client):
    assert client.ping() is None
    assert client.call_tool(tool="echo", args=b"abc").done == b"abc"
    assert client.put_harness(name="x", elf=bytes(3 << 20)).size == 3 << 20


def test_an_error_is_raised_as_what_it_is(client):
    with pytest.raises(NotFound, match="no such tool: `missing`"):
        client.call_tool(tool="missing")
    with pytest.raises(Internal):
        client.call_tool(tool="broken")
    with pytest.raises(NotBuilt, match="`list_models` is not built yet"):
        client.list_models()
    client.ping()


def test_a_request_that_is_too_large_is_not_sent(client):
    with pytest.raises(TooLarge):
        client.call_tool(tool="echo", args=bytes(2 << 20))
    client.ping()


def test_a_large_reply_arrives(client):
    assert len(client.call_tool(tool="large", harness=str(10 << 20)).done) == 10 << 20


def test_a_stream_is_read_as_it_comes_and_has_an_end(client):
    with client.tail_events(source="1000") as events:
        assert [event.id for event in events] == [str(n) for n in range(1000)]
    client.ping()


def test_a_stream_that_is_refused_says_so(client):
    with client.tail_events(source="bad") as events, pytest.raises(BadRequest, match="not a source"):
        next(events)


def test_requests_may_be_made_while_a_stream_is_read(client):
    with client.tail_events(source="100") as events:
        for event in events:
            assert client.call_tool(tool="echo", args=event.id.encode()).done == event.id.encode()


def test_a_stream_can_be_asked_for_a_while(client):
    with client.tail_events() as events:
        assert events.next_within(10).id == "0"
        started = time.monotonic()
        assert events.next_within(0.05) is None
        assert 0.04 < time.monotonic() - started < 5


def test_a_stream_that_is_left_is_cancelled(client):
    with client.tail_events(source="flood") as events:
        next(events)
    until_nothing_runs(client)


def until_nothing_runs(client):
    until = time.monotonic() + 10
    while client.get_stats().running:
        assert time.monotonic() < until
        time.sleep(0.01)


def test_a_turn_ends_with_its_end(client):
    with client.stream(content="x") as events:
        kinds = [event.WhichOneof("event") for event in events]
    assert kinds == ["chunk"] * 1000 + ["end"]


def test_a_reply_that_does_not_come_in_time_is_an_error_and_the_call_is_cancelled(any_server):
    with SyncClient.connect(any_server.home, timeout_s=0.1) as client:
        with pytest.raises(DeadlinePassed, match=r"no reply came within 0\.1 s"):
            client.call_tool(tool="forever")
        client.timeout_s = 20
        until_nothing_runs(client)


def test_no_daemon_is_an_error_that_names_the_socket(tmp_path):
    with pytest.raises(
        NotRunning, match=rf"no daemon is running: there is no socket {tmp_path}/run/crabtalk"
    ):
        SyncClient.connect(tmp_path)


def test_a_dead_daemon_is_an_error_that_names_the_socket(server):
    server.kill()
    with pytest.raises(NotRunning, match=rf"no daemon answers at {server.socket}: connection refused"):
        SyncClient.connect(server.home)


def test_a_wrong_token_is_an_error():
    with wire_server(tcp=True) as server:
        (server.run_dir / "crabtalk.token").write_text("wrong\n")
        with pytest.raises(Unauthorized):
            SyncClient.connect(server.home, timeout_s=10)


def test_a_daemon_that_goes_away_is_an_error_now_and_later(server):
    with SyncClient.connect(server.home) as client:
        killer = threading.Timer(0.2, server.kill)
        killer.start()
        for _ in range(2):
            with pytest.raises(ConnectionLost):
                client.call_tool(tool="forever")
        killer.join()


def test_a_closed_client_says_so(any_server):
    client = SyncClient.connect(any_server.home)
    client.close()
    client.close()
    with pytest.raises(ConnectionLost, match="this client is closed"):
        client.ping()


def test_the_blocking_client_starts_without_an_event_loop():
    program = (
        "import sys; from crabtalk.client import SyncClient, NotRunning;"
        "print(sorted({'trio', 'anyio', 'asyncio'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.anyio
async def test_many_requests_are_in_flight_at_once(any_server):
    async with connect(any_server.home) as client:
        done = []

        async def call(number):
            tool = "soon" if number % 2 else "echo"
            outcome = await client.call_tool(tool=tool, args=b"%d" % number)
            done.append((number, outcome.done))

        async with anyio.create_task_group() as tasks:
            for number in range(200):
                tasks.start_soon(call, number)
        assert sorted(done) == [(number, b"%d" % number) for number in range(200)]


@pytest.mark.anyio
async def test_a_slow_request_does_not_hold_up_a_quick_one(any_server):
    async with connect(any_server.home) as client, anyio.create_task_group() as tasks:
        tasks.start_soon(call_for_ever, client)
        await anyio.sleep(0.05)
        with anyio.fail_after(10):
            assert (await client.call_tool(tool="echo", args=b"x")).done == b"x"
        tasks.cancel_scope.cancel()


async def call_for_ever(client):
    await client.call_tool(tool="forever")


@pytest.mark.anyio
async def test_a_cancelled_call_is_cancelled_at_the_daemon(any_server):
    async with connect(any_server.home) as client:
        with anyio.move_on_after(0.1):
            await client.call_tool(tool="forever")
        with anyio.fail_after(10):
            while (await client.get_stats()).running:  # noqa: ASYNC110 - the daemon tells nobody
                await anyio.sleep(0.01)


@pytest.mark.anyio
async def test_an_error_reaches_the_caller_as_itself(any_server):
    with pytest.raises(NotFound, match="no such tool: `missing`"):
        async with connect(any_server.home) as client:
            await client.call_tool(tool="missing")


@pytest.mark.anyio
async def test_a_stream_is_iterated(any_server):
    async with connect(any_server.home) as client:
        async with client.tail_events(source="500") as events:
            assert [event.id async for event in events] == [str(n) for n in range(500)]
        async with client.tail_events(source="flood") as events:
            async for _ in events:
                break
        with pytest.raises(BadRequest):
            async with client.tail_events(source="bad") as events:
                await anext(events)
        await client.ping()


@pytest.mark.anyio
async def test_a_daemon_that_goes_away_ends_all_requests(server):
    async with connect(server.home) as client:
        lost = []

        async def call():
            try:
                await client.call_tool(tool="forever")
            except ConnectionLost:
                lost.append(True)

        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(call)
            await anyio.sleep(0.2)
            server.kill()
        assert lost == [True] * 5
        with pytest.raises(ConnectionLost):
            await client.ping()


@pytest.mark.anyio
async def test_no_daemon_is_an_error(tmp_path):
    with pytest.raises(NotRunning):
        async with connect(tmp_path):
            pass


@pytest.mark.anyio
async def test_a_wrong_token_is_an_error_here_too():
    with wire_server(tcp=True) as server:
        (server.run_dir / "crabtalk.token").write_text("wrong\n")
        with pytest.raises(Unauthorized):
            async with connect(server.home):
                pass


def reply(request_id=None, **fields):
    return frame(pb.ServerMessage(request_id=request_id, **fields).SerializeToString())


def expect(replies, *, many=False):
    return replies.expect(pb.ClientMessage(), many=many)


def test_replies_find_their_requests_in_any_order():
    replies = Replies()
    first, second = expect(replies), expect(replies)
    assert replies.feed(reply(2, pong=pb.Pong()) + reply(1, pong=pb.Pong())) == [second, first]
    assert (first.ended, second.ended) == (True, True)


def test_a_reply_that_nobody_waits_for_is_dropped():
    replies = Replies()
    forgotten = expect(replies)
    replies.forget(forgotten)
    assert replies.feed(reply(1, pong=pb.Pong()) + reply(99, pong=pb.Pong())) == []


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"", ConnectionLost),
        (frame(b"\xff"), RemoteProtocolError),
        (reply(pong=pb.Pong()), RemoteProtocolError),
        (reply(error=pb.ErrorMsg(code=429, message="too many")), Busy),
        ((1 << 30).to_bytes(4, "big"), RemoteProtocolError),
    ],
)
def test_what_ends_the_connection_ends_every_request(data, kind):
    replies = Replies()
    waiting = [expect(replies), expect(replies, many=True)]
    assert replies.feed(data) == waiting
    assert {type(one.failure) for one in waiting} <= {kind, *kind.__subclasses__()}
    with pytest.raises(kind):
        expect(replies)


def test_a_stream_that_nobody_reads_ends_and_the_connection_goes_on():
    replies = Replies()
    stream, other = expect(replies, many=True), expect(replies)
    for _ in range(MAX_UNREAD + 1):
        replies.feed(reply(1, bus_event=pb.BusEvent()))
    assert isinstance(stream.failure, Busy)
    assert replies.feed(reply(2, pong=pb.Pong())) == [other]


def test_both_clients_have_a_method_for_every_request():
    requests = {field.name for field in pb.ClientMessage.DESCRIPTOR.oneofs_by_name["msg"].fields}
    for kind in (Client, SyncClient):
        assert {name for name in requests if callable(getattr(kind, name, None))} == requests - {
            "auth",
            "cancel",
        }
