"""`berm.http.start` and `collect`: requests in flight, which belong to one invocation."""

import threading

import anyio
import anyio.lowlevel
import pytest

from berm import Refused
from crabtalk.capabilities import _http
from crabtalk.capabilities._failure import Failure
from crabtalk.capabilities.web import web
from servers import reply

pytestmark = pytest.mark.anyio


class Gate:
    """A server whose answers wait until the test lets them go, by path."""

    def __init__(self, serve):
        self.open = {}
        self.server = serve(self.answer)

    def of(self, path):
        return self.open.setdefault(path, threading.Event())

    def answer(self, connection, request):
        path = request.line.split()[1]
        if self.of(path).wait(10):
            connection.sendall(reply(path.encode()))


@pytest.fixture
def gate(serve):
    return Gate(serve)


class Invocation:
    """An invocation's view: its own call, with the task group that its driver holds for it."""

    def __init__(self, bound, call, port, wire):
        self.bound, self.call, self.port, self.wire = bound, call, port, wire

    async def start(self, path):
        url = f"http://127.0.0.1:{self.port}{path}"
        return int(await self.bound.wait("berm.http.start", "GET", url, b"", call=self.call))

    async def collect(self, flight=""):
        flight, status, _, body = self.wire.unpack(
            await self.bound.wait("berm.http.collect", flight, call=self.call)
        )
        return int(flight), int(status), body


@pytest.fixture
def invocation(bind, new_call, wire):
    bound = None

    def invocation(tasks, port, **kwargs):
        nonlocal bound
        bound = bound or bind(web([f"http://127.0.0.1:{port}"]))
        return Invocation(bound, new_call(tasks=tasks, **kwargs), port, wire)

    return invocation


async def test_the_first_to_land_is_collected_first(gate, invocation):
    async with anyio.create_task_group() as tasks:
        guest = invocation(tasks, gate.server.port)
        flights = [await guest.start(f"/{name}") for name in "abc"]
        assert flights == [1, 2, 3]
        gate.of("/b").set()
        assert await guest.collect() == (2, 200, b"/b")
        gate.of("/c").set()
        assert await guest.collect() == (3, 200, b"/c")
        gate.of("/a").set()
        assert await guest.collect("1") == (1, 200, b"/a")
        with pytest.raises(Failure, match="no request is in flight"):
            await guest.collect()
        with pytest.raises(Failure, match="no such request: 1"):
            await guest.collect("1")
        tasks.cancel_scope.cancel()


async def test_one_is_waited_for_by_its_id_while_others_land(gate, invocation):
    async with anyio.create_task_group() as tasks:
        guest = invocation(tasks, gate.server.port)
        first, second = await guest.start("/a"), await guest.start("/b")
        gate.of("/b").set()
        with anyio.move_on_after(0.2) as scope:
            await guest.collect(first)
        assert scope.cancelled_caught
        gate.of("/a").set()
        assert await guest.collect(first) == (first, 200, b"/a")
        assert await guest.collect() == (second, 200, b"/b")
        tasks.cancel_scope.cancel()


async def test_sixteen_are_in_flight_until_they_are_collected(gate, invocation):
    async with anyio.create_task_group() as tasks:
        guest = invocation(tasks, gate.server.port)
        for i in range(16):
            await guest.start(f"/{i}")
            gate.of(f"/{i}").set()
        with pytest.raises(Failure, match="16 requests are in flight"):
            await guest.start("/more")
        first_done = (await guest.collect())[0]
        gate.of("/17").set()
        assert await guest.start("/17") == 17
        # Which of them is done first is the network's business; each is collected once.
        assert {(await guest.collect())[0] for _ in range(16)} == set(range(1, 18)) - {first_done}
        tasks.cancel_scope.cancel()


async def test_a_failure_is_collected_with_status_0(serve, invocation):
    server = serve(b"garbage\r\n\r\n")
    async with anyio.create_task_group() as tasks:
        guest = invocation(tasks, server.port)
        await guest.start("/")
        flight, status, message = await guest.collect()
        assert (flight, status) == (1, 0)
        assert b"broke the HTTP protocol" in message
        tasks.cancel_scope.cancel()


async def test_what_is_not_granted_does_not_even_start(serve, invocation):
    server = serve()
    async with anyio.create_task_group() as tasks:
        guest = invocation(tasks, server.port)
        with pytest.raises(Refused, match="host is not granted"):
            await guest.bound.wait("berm.http.start", "GET", "http://127.0.0.2/", b"", call=guest.call)
        with pytest.raises(Failure, match="no request is in flight"):
            await guest.collect()
        tasks.cancel_scope.cancel()


async def test_invocations_do_not_see_each_others_requests(gate, invocation):
    async with anyio.create_task_group() as tasks:
        mine, other = invocation(tasks, gate.server.port), invocation(tasks, gate.server.port)
        flight = await mine.start("/a")
        gate.of("/a").set()
        with pytest.raises(Failure, match="no such request"):
            await other.collect(flight)
        with pytest.raises(Failure, match="no request is in flight"):
            await other.collect()
        assert await other.start("/a") == 1
        assert (await mine.collect())[0] == flight
        tasks.cancel_scope.cancel()


async def test_the_end_of_an_invocation_hangs_up_and_forgets(serve, new_call, bind):
    server = serve(lambda connection, _request: server.until_hung_up(connection))
    bound = web([f"http://127.0.0.1:{server.port}"])
    async with anyio.create_task_group() as tasks:
        call = new_call(tasks=tasks)
        guest = bind(bound, call)
        for _ in range(3):
            await guest.wait("berm.http.start", "GET", f"http://127.0.0.1:{server.port}/", b"")
        with anyio.fail_after(10):
            while len(server.requests) < 3:  # noqa: ASYNC110 - another thread's list
                await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()
    assert [server.hung_up.get(timeout=5) for _ in range(3)] == [True] * 3
    with anyio.fail_after(10), pytest.raises(Failure, match="no request is in flight"):
        await guest.wait("berm.http.collect", "")


async def test_an_error_of_ours_is_an_answer_and_does_not_end_the_invocation(serve, invocation, monkeypatch):
    async def fail(*_):
        raise RuntimeError("bug")

    server = serve()
    monkeypatch.setattr(_http, "send", fail)
    async with anyio.create_task_group() as tasks:
        guest = invocation(tasks, server.port)
        await guest.start("/")
        assert await guest.collect() == (1, 0, b"RuntimeError: bug")
        tasks.cancel_scope.cancel()


async def test_without_a_task_group_nothing_is_started(serve, invocation):
    guest = invocation(None, serve().port)
    with pytest.raises(Failure, match="holds no requests open"):
        await guest.start("/")


@pytest.mark.parametrize("flight", ["x", "-1", "1.0", " 1", "\u0661", "9" * 30])
async def test_an_id_is_a_number(serve, invocation, flight):
    async with anyio.create_task_group() as tasks:
        guest = invocation(tasks, serve().port)
        with pytest.raises(Failure, match="no such request"):
            await guest.collect(flight)
        tasks.cancel_scope.cancel()
