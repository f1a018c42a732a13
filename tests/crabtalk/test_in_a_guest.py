"""The machine's capabilities as guests meet them: through the SDK, berm's drivers, and every way to end."""

import json
import sys
import threading
import time

import anyio
import pytest

import berm
from berm import TrapCode, aio
from crabtalk.capabilities import entry
from crabtalk.capabilities.files import files
from crabtalk.capabilities.web import web
from guest_images import image
from processes import Marker
from servers import Server, reply

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def engine():
    with berm.Engine(berm.Config()) as engine:
        yield engine


@pytest.fixture
def serve():
    started = []

    def serve(answer):
        started.append(Server(answer).__enter__())
        return started[-1]

    yield serve
    for server in started:
        server.__exit__()


@pytest.fixture
def silent(serve):
    """A server that never answers, and notes who hangs up."""
    server = serve(lambda connection, _request: server.until_hung_up(connection))
    return server


def url_of(server, path="/"):
    return f"http://127.0.0.1:{server.port}{path}"


def hosts_of(server):
    return web([f"http://127.0.0.1:{server.port}"])


def hung_up(server, count):
    return [server.hung_up.get(timeout=10) for _ in range(count)] == [True] * count


async def until(condition):
    with anyio.fail_after(20):
        while not condition():  # noqa: ASYNC110 - about other threads and processes
            await anyio.sleep(0.01)


# Each capability once, through its typed wrapper


async def test_files(engine, tmp_path):
    (tmp_path / "other").mkdir()
    harness = berm.Harness.load(engine, image("wrappers"), files(tmp_path))
    args = json.dumps({"path": "a.txt", "content": "héllo"})
    for outcome in (harness.call("fs", args), await aio.call(harness, "fs", args)):
        assert outcome.text.startswith("héllo 6; file 6 ")
        assert outcome.text.endswith("1 no such file or directory: `a.txt`")
    escape = harness.call("fs", json.dumps({"path": "../a.txt"}))
    assert escape.message.endswith("path leaves the root: `../a.txt`")


async def test_commands(engine, tmp_path):
    (tmp_path / "sub").mkdir()
    harness = berm.Harness.load(engine, image("wrappers"), entry.root([str(tmp_path)]))
    args = json.dumps({"command": "pwd; echo $NAME-$EMPTY >&2; yes | head -c 2000000; exit 7"})
    outcome = await aio.call(harness, "exec", args)
    kept, err, exit_code, dropped, none = outcome.text.rsplit("|", 4)
    assert kept.startswith(f"{tmp_path}/sub\ny\n")
    assert (err, exit_code, none) == ("value-\n", "7", "0")
    assert int(dropped) > 900_000


async def test_the_web(engine, serve):
    server = serve(
        lambda connection, request: connection.sendall(reply(request.line[:4].encode(), "Content-Type: a/b"))
    )
    harness = berm.Harness.load(engine, image("wrappers"), hosts_of(server))
    outcome = await aio.call(harness, "http", json.dumps({"url": url_of(server)}))
    assert outcome.text == "200 a/b GET ;1: 200 a/b POST;"


async def test_the_clock(engine):
    harness = berm.Harness.load(engine, image("wrappers"), entry.zone(["Europe/Berlin"]))
    outcome = harness.call("clock", json.dumps({"zone": "Europe/Berlin"}))
    stamp, _, rest = outcome.text.partition(";")
    assert stamp.endswith(" Europe/Berlin")
    offset_s, has_next, next_ms = rest.split()
    assert (offset_s in {"3600", "7200"}, has_next) == (True, "1")
    assert 0 < int(next_ms) - time.time() * 1000 < 200 * 86_400_000


async def test_storage(engine, tmp_path):
    harness = berm.Harness.load(engine, image("wrappers"), entry.storage([str(tmp_path / "store")]))
    outcome = harness.call("kv", json.dumps({"count": 30}))
    assert outcome.text == "30 1 1 0 10 0"


async def test_async_capabilities_need_an_async_driver(engine, tmp_path):
    harness = berm.Harness.load(engine, image("wrappers"), entry.root([str(tmp_path)]))
    with pytest.raises(berm.AsyncCapabilityError, match=r"berm.exec.run"):
        harness.call("exec", json.dumps({"command": "true"}))


# How an invocation can end while it waits


async def test_many_requests_are_in_flight_together(engine, serve):
    together = threading.Barrier(8)

    def answer(connection, _request):
        together.wait(10)
        connection.sendall(reply(b"together"))

    server = serve(answer)
    harness = berm.Harness.load(engine, image("machine"), hosts_of(server))
    outcome = await aio.call(harness, "gather", json.dumps({"url": url_of(server), "count": 8}))
    assert outcome.text == "200 together;" * 8


async def test_the_seventeenth_request_fails_the_call(engine, silent):
    harness = berm.Harness.load(engine, image("machine"), hosts_of(silent))
    outcome = await aio.call(harness, "leave", json.dumps({"url": url_of(silent), "count": 17}))
    assert "16 requests are in flight" in outcome.message


async def test_requests_end_with_a_guest_that_returns(engine, silent):
    harness = berm.Harness.load(engine, image("machine"), hosts_of(silent))

    async def leave():
        outcome = await aio.call(harness, "leave", json.dumps({"url": url_of(silent), "count": 3}))
        assert outcome.text == "left 3"

    for _ in range(3):  # a second invocation finds none of the first one's
        await leave()
    assert hung_up(silent, len(silent.requests))


async def test_requests_end_with_a_guest_that_traps(engine, silent):
    harness = berm.Harness.load(engine, image("machine"), hosts_of(silent))
    with pytest.raises(berm.Trap) as caught:
        await aio.call(harness, "crash", json.dumps({"url": url_of(silent), "count": 3}))
    assert caught.value.code is TrapCode.STORE_FAULT
    assert hung_up(silent, len(silent.requests))


async def test_requests_end_with_a_guest_whose_deadline_passes(engine, silent):
    harness = berm.Harness.load(engine, image("machine"), hosts_of(silent))
    for tool in ("wait", "spin"):
        started = time.monotonic()
        args = json.dumps({"url": url_of(silent), "count": 2})
        with pytest.raises(berm.Trap) as caught:
            await aio.call(harness, tool, args, limits=berm.Limits(deadline=0.5))
        assert caught.value.code is TrapCode.DEADLINE
        assert time.monotonic() - started < 5
    assert hung_up(silent, len(silent.requests))


async def test_requests_end_with_a_guest_that_is_cancelled(engine, silent):
    harness = berm.Harness.load(engine, image("machine"), hosts_of(silent))
    async with anyio.create_task_group() as tasks:
        args = json.dumps({"url": url_of(silent), "count": 3})
        tasks.start_soon(aio.call, harness, "wait", args)
        await until(lambda: len(silent.requests) == 3)
        tasks.cancel_scope.cancel()
    assert hung_up(silent, 3)


async def test_requests_of_a_callee_end_with_it_and_those_of_its_caller_do_not(engine, silent, serve):
    callee_done = threading.Event()

    def answer(connection, _request):
        callee_done.wait(10)
        connection.sendall(reply(b"mine"))

    mine = serve(answer)
    callee = berm.Harness.load(engine, image("machine"), hosts_of(silent))
    caller = berm.Harness.load(
        engine, image("machine"), [*hosts_of(mine), berm.calls(lambda _call, _name: callee)]
    )
    args = {"url": url_of(mine), "other": json.dumps({"url": url_of(silent), "count": 2})}
    outcome = None

    async def call():
        nonlocal outcome
        outcome = await aio.call(caller, "around", json.dumps(args))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(call)
        await until(lambda: silent.hung_up.qsize() == len(silent.requests) and mine.requests)
        callee_done.set()
    assert outcome.text == "left 2, got mine"


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("how", ["deadline", "cancel"])
async def test_a_command_ends_with_its_invocation(engine, tmp_path, how):
    (tmp_path / "sub").mkdir()
    marker = Marker()
    harness = berm.Harness.load(engine, image("wrappers"), entry.root([str(tmp_path)]))
    args = json.dumps({"command": f"setsid sleep {marker.seconds} & sleep {marker.seconds}"})
    started = time.monotonic()
    if how == "deadline":
        with pytest.raises(berm.Trap) as caught:
            await aio.call(harness, "exec", args, limits=berm.Limits(deadline=1.0))
        assert caught.value.code is TrapCode.DEADLINE
    else:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(aio.call, harness, "exec", args)
            await until(lambda: marker.sleepers() == 2)
            tasks.cancel_scope.cancel()
    assert time.monotonic() - started < 20
    assert marker.alive() == []
