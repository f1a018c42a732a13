"""Guests that never end on every worker: tool calls, wakes and events of others go on, through the socket."""

import time

import pytest

from crabtalk.wire.framing import FrameReader
from crabtalk.wire.pb import crabtalk_pb2 as pb
from daemons import running_daemon
from proving import HARNESS, call, connect, declare, encoded, now_ms, percentile, runs, tool_request, until

WORKERS = 2
LOOPING = 4 * WORKERS
# Ten times what it should be, for a machine that runs other tests as well: an answer, and the end of a guest.
ANSWER_S = 1.0
ENDED_S = 0.5
CONFIG = f"[executor]\nworkers = {WORKERS}\n[shutdown]\ndrain = 0\n"


@pytest.fixture
def daemon():
    with running_daemon(CONFIG) as daemon:
        yield daemon


def loop_everywhere(client, home, looping, short):
    """Begin tool calls, wakes and events that never end; return the connection of the calls."""
    sock = connect(home.root)
    for number in range(LOOPING):
        sock.sendall(tool_request(looping, "spin", number + 1))
        at_ms = now_ms()
        client.schedule_wake(agent=short, harness=HARNESS, at_ms=at_ms, payload=b"spin")
    client.subscribe_event(source="load:spin", target_harness=f"{short}/{HARNESS}")
    client.publish_event(source="load:spin", payload="spin")
    until(lambda: len(computing(client)) >= 2 * LOOPING)
    return sock


def computing(client):
    return [one for one in client.list_running().invocations if one.tool in {"spin", "on_wake", "on_notify"}]


def answer_times(client, agent, count):
    took = []
    for _ in range(count):
        began = time.perf_counter()
        assert call(client, agent, "say", text="so") == "so"
        took.append(time.perf_counter() - began)
    return took


def ended(sock, request_id):
    """Wait for a call's answer; return its trap and how long it took."""
    reader, began = FrameReader(), time.perf_counter()
    while True:
        for payload in reader.feed(sock.recv(1 << 16)):
            reply = pb.ServerMessage.FromString(payload)
            if reply.request_id == request_id:
                return reply, time.perf_counter() - began


def test_others_are_served_while_every_worker_loops(daemon):
    with daemon.client() as client:
        looping, short, quick = (
            declare(client, name, deadline=deadline) for name, deadline in (("a", 600), ("b", 20), ("c", 60))
        )
        client.subscribe_event(source="load:news", target_harness=f"{quick}/{HARNESS}")
        sock = loop_everywhere(client, daemon.home, looping, short)
        with sock:
            due = (now_ms() // 1000 + 2) * 1000
            woken = client.schedule_wake(agent=quick, harness=HARNESS, at_ms=due, payload=b"1000").id
            client.publish_event(source="load:news", payload="x")
            took = answer_times(client, quick, 300)
            assert percentile(took, 99) < ANSWER_S
            assert len(until(lambda: runs(client, quick, "heard"), 10)) == 1
            (run,) = until(lambda: runs(client, quick, "ran"), 10)
            assert (run.subject, run.attempt) == (woken, 1)
            assert due <= run.at_ms < due + ANSWER_S * 1000
            # One of the looping agent is stopped at once, though all workers are taken.
            sock.sendall(encoded(1000, cancel=pb.CancelMsg(request_id=3)))
            reply, seconds = ended(sock, 3)
            assert (reply.tool_outcome.trap.kind or reply.error.code) in {"cancelled", 499}
            assert seconds < ENDED_S
        until(lambda: not [one for one in computing(client) if one.agent == looping], ENDED_S * 4)
        check_stop(daemon, client, short)


def check_stop(daemon, client, short):
    """Stop it while wakes loop: they are there at the next start, and nothing is held up."""
    waiting = {wake.id for wake in client.list_wakes(agent=short).wakes}
    assert len(waiting) == LOOPING
    began = time.monotonic()
    assert daemon.stop() == 0
    assert time.monotonic() - began < 10
    daemon.start()
    with daemon.client() as again:
        assert {wake.id for wake in again.list_wakes(agent=short).wakes} == waiting
    assert daemon.stop() == 0


def test_each_loop_ends_at_its_deadline_and_leaves_its_row(daemon):
    with daemon.client() as client:
        short = declare(client, "b", deadline=1)
        sock = loop_everywhere_short(client, daemon.home, short)
        with sock:
            until(lambda: not client.list_running().invocations, 60)
        rows = client.list_invocations(limit=1000, harness=HARNESS).invocations
        assert [row.outcome for row in rows] == ["trap"] * len(rows)
        assert sorted(row.trigger for row in rows) == ["tool"] * LOOPING + ["wake"] * LOOPING
        assert {"deadline" in row.message for row in rows} == {True}
        assert daemon.stop() == 0


def loop_everywhere_short(client, home, short):
    sock = connect(home.root)
    for number in range(LOOPING):
        client.schedule_wake(agent=short, harness=HARNESS, at_ms=now_ms(), payload=b"spin")
        sock.sendall(tool_request(short, "spin", number + 1))
    until(lambda: len(client.list_invocations(limit=1000).invocations) >= 2 * LOOPING, 60)
    return sock
