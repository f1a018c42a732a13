# ruff: noqa: ARG001 - a clock that jumps is asked for and not used
"""A connection over memory, under a clock that jumps: order, ids, cancellation, bounds and ends."""

import logging
from contextlib import asynccontextmanager

import pytest
import trio

from crabtalk.connection import Budget, Connection, ConnectionLimits
from crabtalk.dispatch import Peer
from crabtalk.server import Server, ServerLimits
from crabtalk.transports.memory import MemoryListener, memory_pair
from crabtalk.wire.framing import MAX_FRAME_BYTES, FrameReader, frame
from crabtalk.wire.pb import crabtalk_pb2 as pb
from wire_tables import TOOLS, Record, table

pytestmark = pytest.mark.trio


class Wire:
    """A client that sends bytes and sees every reply."""

    def __init__(self, stream):
        self.stream = stream
        self.reader = FrameReader()
        self.replies = []
        self.closed = False

    async def send(self, *messages):
        await self.stream.send_all(b"".join(frame(one.SerializeToString()) for one in messages))

    async def next(self):
        while not self.replies:
            data = await self.stream.receive()
            if not data:
                self.closed = True
                return None
            self.replies += map(pb.ServerMessage.FromString, self.reader.feed(data))
        return self.replies.pop(0)

    async def rest(self):
        """Return all replies until the end of the connection."""
        found = []
        while (reply := await self.next()) is not None:
            found.append(reply)
        return found

    async def ask(self, **request):
        await self.send(pb.ClientMessage(**request))
        return await self.next()


def call(tool, args=b"", request_id=None, harness=""):
    body = pb.CallToolMsg(tool=tool, args=args, harness=harness)
    return pb.ClientMessage(request_id=request_id, call_tool=body)


def cancel(request_id, own_id):
    return pb.ClientMessage(request_id=own_id, cancel=pb.CancelMsg(request_id=request_id))


PING = pb.ClientMessage(ping=pb.PingMsg())


@asynccontextmanager
async def connected(record=None, *, token=None, budget=None, **limits):
    ours, theirs = memory_pair()
    connection = Connection(
        ours,
        table(),
        record or Record(),
        Peer("test", "memory", None),
        limits=ConnectionLimits(**limits),
        budget=budget or Budget(),
        token=token,
    )
    wire = Wire(theirs)
    wire.connection = connection
    # Under a clock that jumps, what would hang fails.
    with trio.fail_after(1000):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(connection.serve)
            yield wire
            theirs.close()


@pytest.fixture
def record():
    return Record()


def ids(replies):
    return [reply.request_id for reply in replies]


async def test_a_request_is_answered(autojump_clock):
    async with connected() as wire:
        reply = await wire.ask(request_id=3, ping=pb.PingMsg())
        assert (reply.request_id, reply.WhichOneof("msg")) == (3, "pong")


async def test_a_reply_to_a_request_without_an_id_has_none(autojump_clock):
    async with connected() as wire:
        assert not (await wire.ask(ping=pb.PingMsg())).HasField("request_id")


async def test_replies_with_ids_overtake_each_other(autojump_clock):
    async with connected() as wire:
        await wire.send(call("after", b"slow", 1, harness="2"), call("after", b"fast", 2, harness="1"))
        await wire.send(call("echo", b"first", 3))
        replies = [await wire.next() for _ in range(3)]
        assert ids(replies) == [3, 2, 1]
        assert [reply.tool_outcome.done for reply in replies] == [b"first", b"fast", b"slow"]


async def test_requests_without_ids_are_answered_in_order(autojump_clock):
    async with connected() as wire:
        await wire.send(
            call("after", b"1", harness="2"), call("echo", b"2"), call("soon", b"3"), PING, call("echo", b"5")
        )
        replies = [await wire.next() for _ in range(5)]
        assert [reply.tool_outcome.done for reply in replies] == [b"1", b"2", b"3", b"", b"5"]


async def test_one_with_an_id_overtakes_those_without(autojump_clock):
    async with connected() as wire:
        await wire.send(call("after", b"1", harness="1"), call("echo", b"2"), call("echo", b"x", 9))
        assert ids([await wire.next() for _ in range(3)]) == [9, 0, 0]


async def test_the_replies_to_one_receive_go_out_in_one_send(monkeypatch, autojump_clock):
    sends = []
    async with connected() as wire:
        stream = wire.connection._stream
        send = stream.send_nowait
        monkeypatch.setattr(stream, "send_nowait", lambda data: sends.append(len(data)) or send(data))
        await wire.send(*[call("echo", b"x", n) for n in range(16)])
        assert ids([await wire.next() for _ in range(16)]) == list(range(16))
    assert len(sends) == 1


@pytest.mark.parametrize("tool", ["missing", "late_missing"])
async def test_a_refusal_is_the_reply_with_its_code(tool, autojump_clock):
    async with connected() as wire:
        reply = await wire.ask(request_id=1, call_tool=pb.CallToolMsg(tool=tool))
        assert (reply.request_id, reply.error.code) == (1, 404)
        assert reply.error.message == f"no such tool: `{tool}`"


@pytest.mark.parametrize("tool", ["broken", "late_broken"])
async def test_a_mistake_of_ours_is_logged_and_says_nothing_of_itself(tool, caplog, autojump_clock):
    async with connected() as wire:
        with caplog.at_level(logging.ERROR):
            reply = await wire.ask(request_id=1, call_tool=pb.CallToolMsg(tool=tool))
        assert reply.error.code == 500
        assert "secret" not in reply.error.message
        assert (await wire.ask(ping=pb.PingMsg())).HasField("pong")
    assert "a mistake with a secret in it" in caplog.text


async def test_what_is_not_built_says_so(autojump_clock):
    async with connected() as wire:
        reply = await wire.ask(request_id=1, list_models=pb.ListModelsMsg())
        assert (reply.error.code, reply.error.message) == (501, "`list_models` is not built yet")


@pytest.mark.parametrize(
    ("payload", "code"), [(b"", 400), (b"\x0a\xff", 400), (b"\x1a\x00", 400), (b"\xff" * 50, 400)]
)
async def test_a_payload_that_is_no_request_is_answered_and_the_connection_stays(
    payload, code, autojump_clock
):
    async with connected() as wire:
        await wire.stream.send_all(frame(payload))
        assert (await wire.next()).error.code == code
        assert (await wire.ask(ping=pb.PingMsg())).HasField("pong")


async def test_a_length_beyond_the_bound_is_answered_and_closed(autojump_clock):
    async with connected() as wire:
        await wire.send(PING)
        await wire.stream.send_all((MAX_FRAME_BYTES + 1).to_bytes(4, "big"))
        replies = await wire.rest()
        assert [reply.WhichOneof("msg") for reply in replies] == ["pong", "error"]
        assert replies[1].error.code == 413


async def test_half_a_frame_and_then_the_end_closes(autojump_clock):
    async with connected() as wire:
        await wire.stream.send_all(b"\x00\x00\x00\x10half")
        wire.stream.end()
        assert await wire.rest() == []


async def test_a_frame_that_takes_too_long_is_answered_and_closed(autojump_clock):
    async with connected(frame_deadline_s=10) as wire:
        started = trio.current_time()
        for byte in frame(b"abc")[:4]:
            await wire.stream.send_all(bytes([byte]))
            await trio.sleep(3)
        (reply,) = await wire.rest()
        assert (reply.error.code, trio.current_time() - started) == (504, pytest.approx(12, abs=2))


async def test_frames_that_end_in_time_may_follow_each_other_for_ever(autojump_clock):
    """A receive that ends within a frame begins a new time each."""
    data = frame(PING.SerializeToString())
    async with connected(frame_deadline_s=10) as wire:
        for turn in range(10):
            await wire.stream.send_all(data[2:] + data[:2] if turn else data + data[:2])
            await trio.sleep(5)
            assert (await wire.next()).HasField("pong")


async def test_an_id_that_is_in_use_is_refused_and_the_first_request_goes_on(record, autojump_clock):
    async with connected(record) as wire:
        await wire.send(call("forever", request_id=1), call("echo", request_id=1))
        reply = await wire.next()
        assert (reply.request_id, reply.error.code) == (1, 409)
        record.release.set()
        assert (await wire.next()).HasField("pong")
        assert (await wire.ask(request_id=1, ping=pb.PingMsg())).HasField("pong")


async def test_cancel_ends_a_tool_call_with_a_trap(record, autojump_clock):
    async with connected(record) as wire:
        await wire.send(call("forever", request_id=1))
        await wire.send(cancel(1, own_id=2))
        replies = {reply.request_id: reply for reply in [await wire.next(), await wire.next()]}
        assert replies[2].HasField("pong")
        assert replies[1].tool_outcome.trap.kind == "cancelled"
    assert (record.running, record.cancelled) == (0, 1)


async def test_cancel_ends_a_subscription_with_an_error(record, autojump_clock):
    async with connected(record) as wire:
        await wire.send(pb.ClientMessage(request_id=1, tail_events=pb.TailEventsMsg()))
        assert (await wire.next()).HasField("bus_event")
        await wire.send(cancel(1, own_id=2))
        replies = {reply.request_id: reply for reply in [await wire.next(), await wire.next()]}
        assert (replies[1].error.code, replies[1].error.message) == (499, "cancelled by the client")


async def test_cancel_of_what_has_ended_or_never_was_is_answered(autojump_clock):
    async with connected() as wire:
        assert (await wire.ask(request_id=2, cancel=pb.CancelMsg(request_id=1))).HasField("pong")


async def test_cancel_does_not_stop_what_has_to_be_finished(record, autojump_clock):
    async with connected(record) as wire:
        await wire.send(pb.ClientMessage(request_id=1, publish_event=pb.PublishEventMsg()), cancel(1, 2))
        assert (await wire.next()).request_id == 2
        record.release.set()
        reply = await wire.next()
        assert (reply.request_id, reply.WhichOneof("msg")) == (1, "pong")


async def test_the_end_cancels_tool_calls_and_subscriptions_and_lets_the_rest_finish(record, autojump_clock):
    async with connected(record) as wire:
        await wire.send(
            call("forever", request_id=1),
            call("forever"),
            pb.ClientMessage(request_id=2, tail_events=pb.TailEventsMsg()),
            pb.ClientMessage(request_id=3, publish_event=pb.PublishEventMsg()),
        )
        assert (await wire.next()).HasField("bus_event")
        wire.stream.close()
        await trio.testing.wait_all_tasks_blocked()
        assert (record.running, record.cancelled) == (1, 2)
        record.release.set()
    assert (record.running, record.cancelled) == (0, 2)


async def test_a_client_that_only_stops_sending_gets_its_replies(record, autojump_clock):
    async with connected(record) as wire:
        await wire.send(
            call("echo", b"x", 1), pb.ClientMessage(request_id=2, publish_event=pb.PublishEventMsg())
        )
        wire.stream.end()
        await trio.sleep(1)
        record.release.set()
        replies = await wire.rest()
        assert [(one.request_id, one.WhichOneof("msg")) for one in replies] == [
            (1, "tool_outcome"),
            (2, "pong"),
        ]


async def test_a_cancelled_server_leaves_nothing_running(record, autojump_clock):
    async with trio.open_nursery() as nursery:
        listener = MemoryListener()
        server = Server(table(), record)
        await nursery.start(server.serve, listener)
        wire = Wire(await listener.connect())
        await wire.send(call("forever", request_id=1), call("forever"), PING)
        await trio.testing.wait_all_tasks_blocked()
        assert (record.running, server.statistics().in_flight) == (2, 3)
        nursery.cancel_scope.cancel()
    assert record.running == 0
    assert server.statistics().connections == 0
    assert await wire.rest() == []


async def test_a_daemon_that_stops_answers_what_is_in_flight(record, autojump_clock):
    async with trio.open_nursery() as nursery:
        listener = MemoryListener()
        server = Server(table(), record)
        await nursery.start(server.serve, listener)
        wire = Wire(await listener.connect())
        await wire.send(
            call("forever"),
            PING,
            pb.ClientMessage(request_id=1, tail_events=pb.TailEventsMsg()),
            pb.ClientMessage(request_id=2, publish_event=pb.PublishEventMsg()),
        )
        assert (await wire.next()).HasField("bus_event")
        nursery.start_soon(server.close)
        await trio.testing.wait_all_tasks_blocked()
        record.release.set()
        replies = {}
        for reply in await wire.rest():
            replies.setdefault(reply.request_id, []).append(reply)
        assert replies[1][0].error.code == 503
        assert replies[2][0].HasField("pong")
        first, second = replies[0]  # those without an id, in order
        assert first.tool_outcome.trap.kind == "cancelled"
        assert second.error.code == 503
        with pytest.raises(trio.BrokenResourceError):
            await listener.connect()


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
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("tool", TOOLS)
async def test_every_way_to_answer_is_counted_once(tool, record, autojump_clock):
    record.release.set()
    async with connected(record) as wire:
        reply = await wire.ask(request_id=5, call_tool=pb.CallToolMsg(tool=tool, harness="0"))
        assert reply.request_id == 5
        assert wire.connection.in_flight == 0
