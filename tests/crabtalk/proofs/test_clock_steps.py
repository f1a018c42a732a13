"""The daemon's clock set forward and back, and local time that changes, with real guests in the real runtime.

Trio's clock runs a hundred times too fast here, and the wall clock with it; steps of the wall clock come on
top.
"""

import json
import random
from collections import Counter
from datetime import UTC, datetime

import pytest
import trio
import trio.testing

from crabtalk.store.interfaces.audit import Audit
from crabtalk.store.memory import MemoryEngine
from crabtalk.wire.pb import crabtalk_pb2 as pb
from daemon_client import serving
from guest_images import image_path
from proving import HARNESS, HOUR_MS, Run
from waking import START_MS, MovedClock

RATE = 100
LOOKS_S = 31  # the loop reads the wall clock at least every 30 s


def run_fast(function, clock=None, instruments=()):  # noqa: ARG001 - as pytest-trio calls it
    return trio.run(function, clock=trio.testing.MockClock(rate=RATE), instruments=instruments)


pytestmark = pytest.mark.trio(run=run_fast)


class Waker:
    """An agent with the harness `ledger` in a daemon within the test."""

    def __init__(self, daemon, clock, engine, agent):
        self.daemon, self.clock, self.engine, self.agent = daemon, clock, engine, agent

    async def schedule(self, at_ms):
        made = await self.daemon.client.ask(
            schedule_wake=pb.ScheduleWakeMsg(agent=self.agent, harness=HARNESS, at_ms=at_ms)
        )
        return made.id

    async def runs(self):
        said = await self.daemon.client.call(self.agent, HARNESS, "list", json.dumps({"prefix": "ran/"}))
        found = []
        for line in said.done.decode().splitlines():
            key, marks = line.split(" ")
            _, wake, attempt, at_ms = key.split("/")
            found += [Run(wake, int(attempt), int(at_ms))] * len(marks)
        return sorted(found, key=lambda run: run.at_ms)

    async def until_ran(self, count):
        """Wait until so many have run and left their rows; real time for a busy machine to run them in."""
        with trio.fail_after(20 * LOOKS_S):
            while len(self.rows()) < count:  # noqa: ASYNC110 - it is asked for
                await trio.sleep(1)
        return await self.runs()

    def rows(self):
        self.engine.flush()
        return [row for row in Audit(self.engine).since(0, 10_000) if row.trigger == "wake"]


@pytest.fixture
async def waker():
    clock, engine = MovedClock(), MemoryEngine()
    async with serving(engine, clock=clock) as daemon:
        await daemon.client.put(HARNESS, image_path("ledger"))
        declared = {"name": HARNESS, "storage": "1MiB", "zone": "UTC", "schedule": 100, "deadline": 3600}
        agent = await daemon.client.declare("ann", declared)
        yield Waker(daemon, clock, engine, agent)


async def test_set_forward_what_was_passed_over_runs_late_and_once(waker):
    wake = await waker.schedule(START_MS + HOUR_MS)
    later = await waker.schedule(START_MS + 100 * HOUR_MS)
    waker.clock.move(24 * 3600)
    await waker.until_ran(1)
    await trio.sleep(LOOKS_S)
    (run,) = await waker.runs()
    assert (run.subject, run.attempt) == (wake, 1)
    assert run.at_ms >= START_MS + 24 * HOUR_MS
    (row,) = waker.rows()
    assert (row.subject, row.reason, row.outcome) == (wake, "late", "done")
    listed = await waker.daemon.client.ask(list_wakes=pb.ListWakesMsg(agent=waker.agent))
    assert [one.id for one in listed.wakes] == [later]


async def test_set_back_nothing_runs_again_and_what_was_due_soon_waits(waker):
    first = await waker.schedule(START_MS + 10_000)
    second = await waker.schedule(START_MS + 300_000)
    assert [run.subject for run in await waker.until_ran(1)] == [first]
    waker.clock.move(-3600)
    await trio.sleep(250)
    assert [run.subject for run in await waker.runs()] == [first]
    waker.clock.move(3600)
    assert [run.subject for run in await waker.until_ran(2)] == [first, second]


async def test_whatever_the_clock_does_each_wake_runs_once_and_not_before_its_instant(waker):
    seed = random.randrange(1 << 30)
    chance = random.Random(seed)
    due = {}
    for _ in range(15):
        for _ in range(3):
            at_ms = waker.clock.now_ms() + chance.randrange(-60_000, 1_200_000)
            due[await waker.schedule(at_ms)] = at_ms
        while waker.daemon.runtime.loop.statistics().running:  # noqa: ASYNC110 - it is asked for
            await trio.sleep(0.1)  # what was found due shall see the clock that it was due by
        waker.clock.move(chance.choice([-3600, -30, -1, 0, 0, 5, 600, 3600]))
        await trio.sleep(chance.uniform(0, LOOKS_S))
    waker.clock.move(30 * 3600)  # further than all steps back together
    await waker.until_ran(len(due))
    await trio.sleep(LOOKS_S)
    ran = await waker.runs()
    assert Counter(run.subject for run in ran) == Counter(due.keys()), seed
    assert [run for run in ran if run.at_ms < due[run.subject]] == [], seed
    assert {run.attempt for run in ran} == {1}, seed
    assert Counter(row.subject for row in waker.rows()) == Counter(due.keys()), seed


def instant(text):
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("when", "start", "expected"),
    [
        ("every day 08:00", "2026-03-27T12:00", ["2026-03-28T07:00", "2026-03-29T06:00", "2026-03-30T06:00"]),
        ("every day 08:00", "2026-10-23T12:00", ["2026-10-24T06:00", "2026-10-25T07:00", "2026-10-26T07:00"]),
        # 02:30 is left out on the first of these days, and becomes 03:30; it comes twice on the second.
        ("every day 02:30", "2026-03-27T12:00", ["2026-03-28T01:30", "2026-03-29T01:30", "2026-03-30T00:30"]),
        ("every day 02:30", "2026-10-23T12:00", ["2026-10-24T00:30", "2026-10-25T00:30", "2026-10-26T01:30"]),
    ],
)
async def test_local_time_that_changes_is_the_guests_calendar(when, start, expected):
    clock, engine = MovedClock(), MemoryEngine()
    clock.moved_ms = instant(start) - START_MS
    async with serving(engine, clock=clock) as daemon:
        client = daemon.client
        await client.put("reminders", image_path("reminders"))
        declared = {"zone": "Europe/Berlin", "storage": "1MiB", "schedule": 9, "topics": ["reminders:*"]}
        agent = await client.declare("ann", {"name": "reminders", "deadline": 3600, **declared})
        tail = await client.send(tail_events=pb.TailEventsMsg(source="reminders:*"))
        args = json.dumps({"when": f"{when} Europe/Berlin", "text": "up"})
        said = await client.call(agent, "reminders", "remind", args)
        assert said.WhichOneof("outcome") == "done", said
        fired = []
        for _ in expected:
            # From half a minute before each day's instant the clock runs on by itself.
            (wake,) = (await client.ask(list_wakes=pb.ListWakesMsg(agent=agent))).wakes
            clock.moved_ms += wake.at_ms - 30_000 - clock.now_ms()
            with trio.fail_after(3 * LOOKS_S):
                event = json.loads((await client.receive(tail)).payload)
            fired.append(datetime.fromtimestamp(event["due_ms"] / 1000, UTC).strftime("%Y-%m-%dT%H:%M"))
            assert event["late"] is False
            await trio.sleep(5)  # the run that published it ends
        assert fired == expected
    engine.flush()
    rows = [row for row in Audit(engine).since(0, 1000) if row.trigger == "wake"]
    assert [row.outcome for row in rows] == ["done"] * len(expected)
