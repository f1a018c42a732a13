"""One server's life, with a connection that is made here and a clock that jumps."""

from contextlib import asynccontextmanager

import pytest
import trio

from crabtalk.clock import SystemClock
from crabtalk.mcp.peer import Peer, Status
from crabtalk.mcp.ring import Ring
from crabtalk.mcp.servers import ServerConfig, ServerTool
from crabtalk.tools import Done

pytestmark = pytest.mark.trio

ECHO = ServerTool("echo", "", {})


class Connection:
    def __init__(self, far):
        self.far = far
        self.lost = trio.Event()
        self.about = "a server"
        self.open = True

    def end(self):
        return "it went away"

    async def tools(self):
        self.far.listed += 1
        await trio.sleep(0.1)
        return tuple(self.far.tools)

    async def call(self, name, _arguments, _timeout_s):
        assert self.open
        await trio.sleep(self.far.takes_s)
        return Done(name.encode())


class Far:
    """The other end: how connecting to it goes."""

    def __init__(self):
        self.tools, self.takes_s, self.listed = [ECHO], 0.0, 0
        self.refuses = 0  # so many times
        self.connections = []
        self.attempts = []
        self.changed = lambda: None

    @asynccontextmanager
    async def connect(self, _config, _ring, changed):
        self.attempts.append(trio.current_time())
        self.changed = changed
        await trio.sleep(0.5)
        if self.refuses:
            self.refuses -= 1
            raise ExceptionGroup("several", [OSError("not today")])
        connection = Connection(self)
        self.connections.append(connection)
        try:
            yield connection
        finally:
            connection.open = False


@pytest.fixture
def far():
    return Far()


@pytest.fixture
def make(far, nursery):
    def start(**config):
        told = []
        ring = Ring(SystemClock())
        server = ServerConfig(name="x", command="x", **config)
        peer = Peer(server, ring, far.connect, lambda one: told.append(one.status), idle_s=lambda: 600.0)
        peer.told = told
        nursery.start_soon(peer.run)
        return peer

    return start


async def called(peer, timeout_s=60.0):
    outcome = await peer.call("echo", {}, trio.current_time() + timeout_s)
    return outcome.data if isinstance(outcome, Done) else outcome.message


async def test_a_call_waits_for_a_connection_that_is_being_made(autojump_clock, make, far):  # noqa: ARG001 - jumps
    assert await called(make()) == b"echo"


async def test_a_call_waits_no_longer_than_it_may(autojump_clock, make, far):  # noqa: ARG001 - jumps
    peer = make()
    began = trio.current_time()
    assert await called(peer, 0.2) == "it is not connected"
    assert trio.current_time() - began == pytest.approx(0.2)


async def test_attempts_come_more_and_more_slowly_and_a_minute_apart_at_most(autojump_clock, make, far):  # noqa: ARG001 - jumps
    far.refuses = 12
    make()
    await trio.sleep(900)
    pauses = [after - before - 0.5 for before, after in zip(far.attempts, far.attempts[1:], strict=False)]
    for number, pause in enumerate(pauses):
        expected = min(60.0, 2.0**number)
        assert 0.8 * expected <= pause <= 1.2 * expected
    assert len(far.connections) == 1


async def test_who_calls_between_attempts_is_told_why_at_once(autojump_clock, make, far):  # noqa: ARG001 - jumps
    far.refuses = 1
    peer = make()
    await peer.settled()
    assert (peer.status, peer.error) == (Status.FAILED, "it cannot be started: not today")
    assert await called(peer) == "it cannot be started: not today"
    await trio.sleep(3)
    assert await called(peer) == b"echo"


async def test_nobody_calls_so_it_is_closed_and_the_next_call_opens_it(autojump_clock, make, far):  # noqa: ARG001 - jumps
    peer = make()
    await called(peer)
    await trio.sleep(599)
    await called(peer)
    await trio.sleep(599)
    assert peer.status is Status.CONNECTED
    await trio.sleep(3)
    assert (peer.status, peer.error, peer.tools) == (Status.DISCONNECTED, "", (ECHO,))
    await trio.sleep(10_000)
    assert len(far.attempts) == 1
    assert await called(peer) == b"echo"
    assert len(far.attempts) == 2


async def test_a_long_call_is_not_idle(autojump_clock, make, far):  # noqa: ARG001 - jumps
    peer = make()
    far.takes_s = 2000.0
    assert await called(peer, 3000) == b"echo"
    assert len(far.connections) == 1


async def test_a_reconnect_is_made_at_once_even_in_a_pause(autojump_clock, make, far):  # noqa: ARG001 - jumps
    far.refuses = 8
    peer = make()
    await trio.sleep(100)
    far.refuses = 0
    peer.reconnect()
    assert await called(peer) == b"echo"
    assert far.attempts[-1] == pytest.approx(trio.current_time() - 0.6)
    first = far.connections[-1]
    peer.reconnect()
    await trio.sleep(5)
    assert not first.open
    assert far.connections[-1].open


async def test_a_lost_connection_is_made_again(autojump_clock, make, far):  # noqa: ARG001 - jumps
    peer = make()
    await called(peer)
    await trio.sleep(100)
    far.connections[0].lost.set()
    await trio.sleep(0.01)
    assert (peer.status, peer.error) == (Status.DISCONNECTED, "it went away")
    await trio.sleep(3)
    assert peer.status is Status.CONNECTED
    assert peer.told == ["connecting", "connected", "disconnected", "connecting", "connected"]


async def test_news_of_changed_tools_are_gathered(autojump_clock, make, far):  # noqa: ARG001 - jumps
    peer = make()
    await called(peer)
    far.tools.append(ServerTool("new", "", {}))
    for _ in range(100):
        far.changed()
    await trio.sleep(1)
    assert far.listed == 2
    assert [one.name for one in peer.tools] == ["echo", "new"]


async def test_a_server_that_never_stops_telling_of_changes_is_asked_less_and_less(autojump_clock, make, far):  # noqa: ARG001 - jumps
    peer = make()
    await called(peer)
    for _ in range(10_000):
        far.changed()
        await trio.sleep(0.01)
    assert far.listed < 40


async def test_what_takes_too_long_to_connect_has_failed(autojump_clock, make, monkeypatch):  # noqa: ARG001 - jumps
    async def tools(_self):
        await trio.sleep_forever()

    monkeypatch.setattr(Connection, "tools", tools)
    peer = make(auto_restart=False)
    await peer.settled()
    assert (peer.status, peer.error) == (Status.FAILED, "it did not answer within 60 s")


async def test_a_closed_peer_lets_go_of_everything(autojump_clock, make, far):  # noqa: ARG001 - jumps
    peer = make()
    await called(peer)
    peer.close()
    await peer.closed()
    assert not far.connections[0].open
    assert await called(peer, 1) == "it is not connected"
