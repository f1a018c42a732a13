# ruff: noqa: ARG001 - a clock that jumps is asked for and not used
"""The bounds of a connection, under a clock that jumps: what is refused, waits, is lost or ends it."""

import pytest
import trio
import trio.testing

from crabtalk.connection import Budget
from crabtalk.server import Server, ServerLimits
from crabtalk.transports.memory import MemoryListener
from crabtalk.wire.framing import frame
from crabtalk.wire.pb import crabtalk_pb2 as pb
from wire_tables import TOOLS, Record, table
from wires import PING, Wire, call, cancel, connected, ids

pytestmark = pytest.mark.trio


@pytest.fixture
def record():
    return Record()


async def test_too_many_requests_in_flight_are_refused_and_a_ping_is_not(record, autojump_clock):
    async with connected(record, in_flight=3) as wire:
        await wire.send(*[call("forever", request_id=n) for n in range(1, 6)])
        refused = [await wire.next(), await wire.next()]
        assert ids(refused) == [4, 5]
        assert {reply.error.code for reply in refused} == {429}
        assert (await wire.ask(request_id=9, ping=pb.PingMsg())).HasField("pong")
        await wire.send(cancel(1, own_id=10))
        await wire.next()
        await wire.next()
        await wire.send(call("echo", request_id=4))
        assert (await wire.next()).request_id == 4


async def test_requests_that_wait_for_their_turn_are_bounded(record, autojump_clock):
    """Beyond the bound nothing is read, so that the client is the one who waits."""
    async with connected(record, waiting=10) as wire:
        await wire.send(call("forever"), *[call("echo", b"%d" % n) for n in range(50)])
        await trio.testing.wait_all_tasks_blocked()
        assert wire.connection.in_flight == 11
        record.release.set()
        assert (await wire.next()).HasField("pong")
        assert [(await wire.next()).tool_outcome.done for _ in range(50)] == [b"%d" % n for n in range(50)]


async def test_a_client_that_does_not_read_is_not_read_from(record, autojump_clock):
    async with connected(record, outbox_bytes=100_000) as wire:
        served = wire.connection

        async def ask_without_end():
            for n in range(400):
                await wire.send(call("large", request_id=n, harness="50000"))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask_without_end)
            await trio.testing.wait_all_tasks_blocked()
            assert served.requests < 10
            assert served._writer._outbox.size_bytes < 200_000
            assert ids([await wire.next() for _ in range(400)]) == list(range(400))


async def test_a_flood_of_requests_in_one_receive_does_not_outgrow_the_bound(autojump_clock):
    async with connected(outbox_bytes=100_000) as wire:
        served = wire.connection
        await wire.send(*[call("large", request_id=n, harness="50000") for n in range(500)])
        await trio.testing.wait_all_tasks_blocked()
        assert served._writer._outbox.size_bytes < 200_000
        assert ids([await wire.next() for _ in range(500)]) == list(range(500))


async def test_many_small_requests_let_others_have_their_turn(autojump_clock):
    turns = []

    async def other():
        while True:
            turns.append(None)
            await trio.lowlevel.checkpoint()

    async with connected() as wire, trio.open_nursery() as nursery:
        await trio.testing.wait_all_tasks_blocked()
        data = frame(PING.SerializeToString()) * 5000
        wire.stream._outgoing.data += data
        nursery.start_soon(other)
        wire.stream._outgoing.change()
        for _ in range(5000):
            await wire.next()
        nursery.cancel_scope.cancel()
    assert len(turns) >= 100


async def test_a_subscriber_that_does_not_read_loses_events_and_hears_how_many(record, autojump_clock):
    async with connected(record, outbox_bytes=20_000) as wire:
        await wire.send(pb.ClientMessage(request_id=1, tail_events=pb.TailEventsMsg(source="2000")))
        while record.running == 0:
            await trio.lowlevel.checkpoint()
        while record.running:
            await trio.lowlevel.checkpoint()
        # It ended by itself after all were lost; its last reply says what became of them.
        replies = []
        while not replies or not replies[-1].HasField("error"):
            replies.append(await wire.next())
        received = len(replies) - 1
        assert [one.bus_event.id for one in replies[:-1]] == [str(n) for n in range(received)]
        assert 0 < received < 1000
        assert (replies[-1].request_id, replies[-1].error.code) == (1, 429)
        assert replies[-1].error.message.startswith(f"{2000 - received} events were lost")
        assert (await wire.ask(ping=pb.PingMsg())).HasField("pong")


async def test_a_flooded_subscriber_is_dropped_when_it_reads_again(record, autojump_clock):
    async with connected(record, outbox_bytes=20_000) as wire:
        await wire.send(pb.ClientMessage(request_id=1, tail_events=pb.TailEventsMsg(source="flood")))
        for _ in range(500):
            await trio.lowlevel.checkpoint()
        assert record.running == 1
        replies = [await wire.next()]
        while not replies[-1].HasField("error"):
            replies.append(await wire.next())
        assert "events were lost" in replies[-1].error.message
        await trio.testing.wait_all_tasks_blocked()
        assert record.running == 0


async def test_a_slow_subscriber_does_not_slow_another_connection_down(record, autojump_clock):
    async with connected(record, outbox_bytes=20_000) as slow, connected(record) as quick:
        await slow.send(pb.ClientMessage(request_id=1, tail_events=pb.TailEventsMsg(source="flood")))
        for n in range(200):
            assert (await quick.ask(request_id=n, ping=pb.PingMsg())).HasField("pong")


async def test_a_subscription_that_has_an_end_says_so(autojump_clock):
    async with connected() as wire:
        await wire.send(pb.ClientMessage(request_id=1, tail_events=pb.TailEventsMsg(source="3")))
        kinds = [(await wire.next()).WhichOneof("msg") for _ in range(4)]
        assert kinds == ["bus_event", "bus_event", "bus_event", "pong"]


async def test_a_subscription_that_is_refused_says_why(autojump_clock):
    async with connected() as wire:
        reply = await wire.ask(request_id=1, tail_events=pb.TailEventsMsg(source="bad"))
        assert (reply.request_id, reply.error.message) == (1, "not a source: `bad`")


async def test_a_subscription_without_an_id_does_not_hold_up_what_follows(autojump_clock):
    async with connected() as wire:
        await wire.send(pb.ClientMessage(tail_events=pb.TailEventsMsg()), PING)
        kinds = {(await wire.next()).WhichOneof("msg") for _ in range(2)}
        assert kinds == {"bus_event", "pong"}


async def test_a_turn_waits_for_its_client(record, autojump_clock):
    async with connected(record, outbox_bytes=20_000) as wire:
        turn = pb.StreamMsg(content="x" * 500)
        await wire.send(pb.ClientMessage(request_id=1, stream=turn))
        await trio.testing.wait_all_tasks_blocked()
        replies = [await wire.next() for _ in range(1001)]
        assert {reply.request_id for reply in replies} == {1}
        assert replies[-1].stream.HasField("end")


async def test_a_turn_whose_client_does_not_read_is_cancelled_after_a_while(record, autojump_clock):
    async with connected(record, outbox_bytes=20_000, write_deadline_s=30) as wire:
        await wire.send(pb.ClientMessage(request_id=1, stream=pb.StreamMsg(content="x" * 500)))
        await trio.sleep(29)
        assert record.running == 1
        await trio.sleep(2)
        assert record.running == 0
        replies = [await wire.next()]
        while not replies[-1].HasField("error"):
            replies.append(await wire.next())
        assert replies[-1].error.code == 504
        assert not any(reply.stream.HasField("end") for reply in replies)


async def test_a_turn_goes_on_when_its_client_is_gone(record, autojump_clock):
    async with connected(record, outbox_bytes=20_000) as wire:
        await wire.send(pb.ClientMessage(request_id=1, stream=pb.StreamMsg(content="x" * 500)))
        await trio.testing.wait_all_tasks_blocked()
        assert record.running == 1
        wire.stream.close()
    assert record.running == 0


async def test_large_requests_are_bounded_while_they_are_received(autojump_clock):
    budget = Budget(1_000_000)
    head = (900_000).to_bytes(4, "big")
    async with connected(budget=budget) as first, connected(budget=budget) as second:
        await first.stream.send_all(head + b"\x00")
        await trio.testing.wait_all_tasks_blocked()
        assert budget.left_bytes == 1_000_000 - 900_004
        await second.stream.send_all(head + b"\x00")
        (reply,) = await second.rest()
        assert reply.error.code == 429
        first.stream.end()
        await first.rest()
    assert budget.left_bytes == 1_000_000


async def test_large_requests_are_bounded_while_they_are_served(record, autojump_clock):
    budget = Budget(150_000)
    large = pb.ClientMessage(request_id=1, remove_harness=pb.RemoveHarnessMsg(name="x" * 100_000))
    async with connected(record, budget=budget) as wire:
        await wire.send(large)
        await trio.testing.wait_all_tasks_blocked()
        assert budget.left_bytes < 50_000
        async with connected(record, budget=budget) as other:
            await other.send(large)
            assert (await other.next()).error.code == 429
        record.release.set()
        assert (await wire.next()).HasField("pong")
        assert budget.left_bytes == 150_000


@pytest.mark.parametrize("good", [True, False])
async def test_the_token_is_asked_for(good, autojump_clock):
    async with connected(token="abc") as wire:
        await wire.send(pb.ClientMessage(request_id=1, auth=pb.AuthMsg(token="abc" if good else "abd")), PING)
        if good:
            replies = [await wire.next(), await wire.next()]
            assert [one.WhichOneof("msg") for one in replies] == ["pong", "pong"]
        else:
            (reply,) = await wire.rest()
            assert reply.error.code == 401


@pytest.mark.parametrize(
    "first",
    [
        frame(PING.SerializeToString()),
        frame(b""),
        frame(b"\xff"),
        (5000).to_bytes(4, "big"),
        (1 << 30).to_bytes(4, "big"),
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
)
async def test_whatever_comes_before_the_token_ends_the_connection(first, autojump_clock):
    async with connected(token="abc") as wire:
        await wire.stream.send_all(first)
        (reply,) = await wire.rest()
        assert reply.error.code == 401


async def test_a_token_that_does_not_come_ends_the_connection(autojump_clock):
    async with connected(token="abc") as wire:
        started = trio.current_time()
        (reply,) = await wire.rest()
        assert (reply.error.code, trio.current_time() - started) == (504, pytest.approx(5, abs=1.5))


async def test_without_a_token_auth_is_answered(autojump_clock):
    async with connected() as wire:
        assert (await wire.ask(auth=pb.AuthMsg(token="x"))).HasField("pong")


async def test_more_connections_than_allowed_are_refused(autojump_clock):
    async with trio.open_nursery() as nursery:
        listener = MemoryListener()
        server = Server(table(), Record(), limits=ServerLimits(connections=2))
        await nursery.start(server.serve, listener)
        wires = [Wire(await listener.connect()) for _ in range(3)]
        assert (await wires[0].ask(ping=pb.PingMsg())).HasField("pong")
        (reply,) = await wires[2].rest()
        assert reply.error.code == 429
        wires[0].stream.close()
        await trio.testing.wait_all_tasks_blocked()
        assert (await Wire(await listener.connect()).ask(ping=pb.PingMsg())).HasField("pong")
        counted = server.statistics()
        assert (counted.connections, counted.accepted, counted.refused) == (2, 3, 1)
        assert counted.errors == {429: 1}
        await wires[1].ask(list_models=pb.ListModelsMsg())
        assert server.statistics().errors == {429: 1, 501: 1}
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("tool", TOOLS)
async def test_every_way_to_answer_is_counted_once(tool, record, autojump_clock):
    record.release.set()
    async with connected(record) as wire:
        reply = await wire.ask(request_id=5, call_tool=pb.CallToolMsg(tool=tool, harness="0"))
        assert reply.request_id == 5
        assert wire.connection.in_flight == 0
