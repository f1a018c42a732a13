# ruff: noqa: ARG001 - a clock that jumps is asked for and not used
"""A connection over memory, under a clock that jumps: order, ids, cancellation and ends."""

import logging

import pytest
import trio
import trio.testing

from crabtalk.server import Server
from crabtalk.transports.memory import MemoryListener
from crabtalk.wire.framing import MAX_FRAME_BYTES, frame
from crabtalk.wire.pb import crabtalk_pb2 as pb
from wire_tables import Record, table
from wires import PING, Wire, call, cancel, connected, ids

pytestmark = pytest.mark.trio


@pytest.fixture
def record():
    return Record()


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


async def test_the_replies_to_one_receive_go_out_in_few_sends(monkeypatch, autojump_clock):
    sends = []
    async with connected() as wire:
        stream = wire.connection._stream
        send = stream.send_nowait
        monkeypatch.setattr(stream, "send_nowait", lambda data: sends.append(len(data)) or send(data))
        await wire.send(*[call("echo", b"x", n) for n in range(16)])
        assert ids([await wire.next() for _ in range(16)]) == list(range(16))
    assert len(sends) == 2


async def test_requests_that_come_together_are_each_their_own(autojump_clock, caplog):
    """Whatever one does, those beside it are answered, in their order as far as they end at once."""
    tools = ["echo", "missing", "echo", "broken", "large", "echo", "soon", "late_missing", "echo", "echo"]
    async with connected() as wire:
        sent = [call(tool, b"%d" % n, n, harness="300000") for n, tool in enumerate(tools)]
        sent.insert(4, PING)
        sent.insert(7, pb.ClientMessage(request_id=50, ping=pb.PingMsg()))
        await wire.send(*sent)
        replies = [await wire.next() for _ in sent]
    assert ids(replies[:-2]) == [0, 1, 2, 3, 0, 4, 5, 50, 8, 9]
    assert sorted(ids(replies[-2:])) == [6, 7]
    codes = {reply.request_id: reply.error.code for reply in replies if reply.HasField("error")}
    assert codes == {1: 404, 3: 500, 7: 404}
    done = {reply.request_id: reply.tool_outcome.done for reply in replies if reply.HasField("tool_outcome")}
    assert len(done.pop(4)) == 300_000
    assert done == {n: b"%d" % n for n in (0, 2, 5, 6, 8, 9)}
    assert [record.message for record in caplog.records] == ["a call_tool request failed"]


async def test_an_id_that_comes_twice_together_is_refused_while_the_first_is_not_answered(autojump_clock):
    async with connected() as wire:
        calls = [call("echo", b"1", 1), call("echo", b"2", 1), call("soon", b"3", 1), call("echo", b"4", 1)]
        await wire.send(*calls)
        replies = [await wire.next() for _ in range(4)]
        assert ids(replies) == [1, 1, 1, 1]
        assert [reply.tool_outcome.done for reply in replies] == [b"1", b"2", b"", b"3"]
        assert replies[2].error.code == 409


async def test_a_cancel_that_comes_with_its_call_ends_it(record, autojump_clock):
    async with connected(record) as wire:
        await wire.send(call("forever", request_id=1), call("echo", b"x", 2), cancel(1, 3))
        replies = {reply.request_id: reply for reply in [await wire.next() for _ in range(3)]}
        assert replies[1].tool_outcome.trap.kind == "cancelled"
        assert replies[2].tool_outcome.done == b"x"
        assert record.running == 0


async def test_calls_that_come_together_are_no_more_than_may_be_in_flight(record, autojump_clock):
    async with connected(record, in_flight=3) as wire:
        await wire.send(*[call("forever", request_id=n) for n in range(5)])
        assert [(reply.request_id, reply.error.code) for reply in [await wire.next(), await wire.next()]] == [
            (3, 429),
            (4, 429),
        ]
        await trio.testing.wait_all_tasks_blocked()
        assert record.running == 3


async def test_large_replies_wait_until_those_before_them_are_read(autojump_clock):
    """Of calls that come together, none is begun while the replies of others fill the outbox."""
    async with connected(outbox_bytes=1 << 20) as wire:
        await wire.send(*[call("large", request_id=n, harness=str(900_000)) for n in range(16)])
        await trio.testing.wait_all_tasks_blocked()
        assert wire.connection._writer._outbox.size_bytes < 2 << 20
        replies = [await wire.next() for _ in range(16)]
    assert ids(replies) == list(range(16))


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


async def test_half_a_frame_and_then_the_end_cancels_what_was_started(record, autojump_clock):
    async with connected(record) as wire:
        await wire.send(call("forever", request_id=1))
        await trio.testing.wait_all_tasks_blocked()
        assert (record.running, record.cancelled) == (1, 0)
        await wire.stream.send_all(b"\x00\x00\x00\x10half")
        wire.stream.end()
        (reply,) = await wire.rest()
        assert (reply.request_id, reply.tool_outcome.trap.kind) == (1, "cancelled")
        assert (record.running, record.cancelled) == (0, 1)


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
