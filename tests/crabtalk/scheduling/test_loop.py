"""What wakes do while the daemon lives: when they run, in what order, and what they leave."""

import json

import pytest
import trio

from crabtalk.errors import Busy, StoreError
from crabtalk.ids import new_id
from crabtalk.scheduling.backlog import Pace
from crabtalk.store.engine import Write
from crabtalk.tools import Done, Failed, Trapped
from crabtalk.work import ExecutorLimits
from crabtalk.work_queue import Overloaded, QueueLimits
from waking import START_MS, World, run_jumping

pytestmark = pytest.mark.trio(run=run_jumping)

DAY_S = 24 * 3600


@pytest.fixture
def schedule(world, natives):
    async def schedule(after_s, payload=b"", key=None, *, agent=None, harness="clockwork", **more):
        at_ms = world.now_ms + int(after_s * 1000)
        return await world.wakes.schedule((agent or natives.me).id, harness, at_ms, payload, key, **more)

    return schedule


async def test_a_wake_runs_at_its_instant(world, natives, schedule):
    async with world.alive():
        record = await schedule(100)
        await trio.sleep(99.9)
        assert natives.seen == []
        await trio.sleep(0.2)
    (seen,) = natives.seen
    assert world.clock.start + 100 <= seen.at < world.clock.start + 100.01
    assert seen.argument == {
        "id": record.id,
        "key": "",
        "payload_base64": "",
        "scheduled_at_ms": START_MS + 100_000,
        "now_ms": START_MS + 100_000,
        "attempt": 1,
        "reason": "due",
    }
    assert world.wakes.get(record.id) is None
    assert world.wakes.statistics() == type(world.wakes.statistics())(0, None)
    assert world.engine.scan_keys("wake") == []


async def test_key_and_payload_reach_the_guest(world, natives, schedule):
    async with world.alive():
        await schedule(1, bytes(range(256)), "ключ")
        await trio.sleep(2)
    (seen,) = natives.seen
    assert seen.payload == bytes(range(256))
    assert seen.argument["key"] == "ключ"


async def test_each_occurrence_leaves_one_row(world, natives, schedule):
    endings = iter([Done(b"result"), Failed("no"), Trapped("memory_fault", "bad pointer")])

    async def act(_seen):
        return next(endings)

    natives.add("clockwork", "on_wake", act=act)
    async with world.alive():
        records = [await schedule(after, key=f"k{after}") for after in (1, 2, 3)]
        await trio.sleep(5)
    rows = world.rows()
    assert [row.outcome for row in rows] == ["done", "failed", "trap"]
    assert [row.subject for row in rows] == [record.id for record in records]
    assert [row.key for row in rows] == ["k1", "k2", "k3"]
    assert [row.scheduled_at_ms for row in rows] == [record.at_ms for record in records]
    assert {(row.trigger, row.tool, row.attempt, row.reason) for row in rows} == {
        ("wake", "on_wake", 1, "due")
    }
    assert world.engine.scan_keys("wake") == []


async def test_an_earlier_wake_is_not_delayed_by_a_later_one(world, natives, schedule):
    async with world.alive():
        await schedule(1000, b"later")
        await trio.sleep(1)
        await schedule(2, b"sooner")
        await trio.sleep(3)
        assert natives.payloads() == [b"sooner"]


async def test_a_wake_in_the_past_runs_at_once(world, natives, schedule):
    async with world.alive():
        await schedule(-5)
        await trio.sleep(0.01)
        assert [seen.argument["reason"] for seen in natives.seen] == ["due"]


async def test_the_epoch_counts_drains_and_grows_with_each_boot(world, natives, schedule):
    async with world.alive():
        for after in (1, 1, 2):
            await schedule(after)
        await trio.sleep(3)
    assert [row.epoch for row in world.rows()] == [(1 << 32) + 1, (1 << 32) + 1, (1 << 32) + 2]
    life = World(world.engine, natives, world.clock, boot=2)
    async with life.alive():
        await life.wakes.schedule(natives.me.id, "clockwork", 0)
        await trio.sleep(1)
    assert world.rows()[-1].epoch == (2 << 32) + 1


async def test_one_key_is_never_in_flight_twice(world, natives, schedule):
    flying = 0
    most = 0

    async def act(_seen):
        nonlocal flying, most
        flying += 1
        most = max(most, flying)
        await trio.sleep(10)
        flying -= 1

    natives.add("clockwork", "on_wake", act=act)
    async with world.alive():
        await schedule(1, b"first", "k")
        await trio.sleep(2)
        await schedule(1, b"replaced", "k")
        await schedule(1, b"second", "k")
        await schedule(1, b"unkeyed")
        await trio.sleep(4)
        assert natives.payloads() == [b"first", b"unkeyed"]  # the next occurrence waits, others do not
        await trio.sleep(20)
    assert natives.payloads() == [b"first", b"unkeyed", b"second"]
    assert most == 2
    assert world.endings() == ["done"] * 3


async def test_a_guest_that_arms_itself_again_first_runs_on(world, natives):
    async def act(seen):
        await world.wakes.schedule(
            natives.me.id,
            "clockwork",
            seen.argument["scheduled_at_ms"] + 60_000,
            b"",
            "tick",
            limit=1,
            chain=seen.context.chain,
            depth=seen.context.depth,
        )

    natives.add("clockwork", "on_wake", act=act)
    async with world.alive():
        await world.wakes.schedule(natives.me.id, "clockwork", START_MS + 1000, b"", "tick", limit=1)
        await trio.sleep(3600)
    assert len(natives.seen) == 60
    assert [seen.argument["scheduled_at_ms"] for seen in natives.seen[:3]] == [
        START_MS + 1000,
        START_MS + 61_000,
        START_MS + 121_000,
    ]
    assert {seen.argument["reason"] for seen in natives.seen} == {"due"}
    chains = [row.chain for row in world.rows()]
    assert len(set(chains)) == 60


async def test_what_others_schedule_while_a_wake_runs_takes_not_the_place_of_its_next(world, natives):
    async def schedule(key, **more):
        at_ms = world.now_ms + 60_000
        await world.wakes.schedule(natives.me.id, "clockwork", at_ms, b"", key, limit=1, **more)

    refused = 0

    async def act(seen):
        nonlocal refused
        with pytest.raises(Busy):  # as a tool of the harness, called meanwhile
            await schedule("junk")
        refused += 1
        await schedule("tick", chain=seen.context.chain, depth=seen.context.depth)

    natives.add("clockwork", "on_wake", act=act)
    async with world.alive():
        await schedule("tick")
        await trio.sleep(601)
        assert len(world.wakes.wakes_of(natives.me.id)) == 1
    assert refused == 10
    assert world.endings() == ["done"] * 10


async def test_cancelled_before_its_instant_it_does_not_run(world, natives, schedule):
    async with world.alive():
        record = await schedule(10)
        await trio.sleep(5)
        assert await world.wakes.cancel(record.id)
        await trio.sleep(20)
    assert natives.seen == []
    assert world.rows() == []


async def test_idle_the_loop_does_not_wake_up(world, natives, schedule):
    steps = 0
    step = world.loop._step

    def counted(*args):
        nonlocal steps
        steps += 1
        step(*args)

    world.loop._step = counted
    async with world.alive():
        await trio.sleep(10 * DAY_S)
        assert steps == 1
        await schedule(300)
        await trio.sleep(299)
        assert steps <= 12  # one for the new one, and one each 30 seconds
        await trio.sleep(10 * DAY_S)
        assert steps <= 16
    assert len(natives.seen) == 1


# Clocks


async def test_a_clock_set_forward_makes_wakes_due(world, natives, schedule):
    async with world.alive():
        await schedule(3600)
        await trio.sleep(1)
        world.clock.move(3600)
        await trio.sleep(31)
        (seen,) = natives.seen
        assert seen.argument["reason"] == "due"  # 30 s is what a step may take
        assert world.loop.statistics().clock_steps == 1


async def test_after_sleep_a_wake_is_late(world, natives, schedule):
    async with world.alive():
        await schedule(3600)
        await trio.sleep(1)
        world.clock.move(2 * 3600)
        await trio.sleep(31)
        (seen,) = natives.seen
        assert seen.argument["reason"] == "late"
        assert seen.argument["now_ms"] - seen.argument["scheduled_at_ms"] >= 3600_000
    assert [row.reason for row in world.rows()] == ["late"]
    assert world.loop.statistics().late == 1


async def test_a_clock_set_back_delays_wakes_and_runs_none_twice(world, natives, schedule):
    async with world.alive():
        await schedule(10, b"one")
        await schedule(100, b"two")
        await trio.sleep(11)
        world.clock.move(-3600)
        await trio.sleep(100)
        assert natives.payloads() == [b"one"]
        await trio.sleep(3600)
        assert natives.payloads() == [b"one", b"two"]
    assert world.endings() == ["done", "done"]


async def test_a_clock_set_back_while_wakes_wait_for_workers(natives, world):
    """What was due and had not begun is not due any more."""

    async def act(_seen):
        await trio.sleep(10)

    natives.add("clockwork", "on_wake", act=act)
    life = World(world.engine, natives, world.clock, pace=Pace(workers=1))
    async with life.alive():
        for name in (b"one", b"two"):
            await life.wakes.schedule(natives.me.id, "clockwork", START_MS + 1000, name)
        await trio.sleep(2)
        life.clock.move(-100)
        await trio.sleep(50)
        assert natives.payloads() == [b"one"]
        await trio.sleep(100)
        assert natives.payloads() == [b"one", b"two"]


async def test_a_clock_that_is_slewed_is_no_step(world, schedule):
    async with world.alive():
        await schedule(DAY_S)
        for _ in range(100):
            world.clock.move(0.5)
            await trio.sleep(40)
        assert world.loop.statistics().clock_steps == 0


@pytest.mark.parametrize(
    ("at_ms", "name"),
    [
        (1_774_746_000_000, "Berlin's clocks go forward, 2026-03-29 01:00 UTC"),
        (1_792_890_000_000, "Berlin's clocks go back, 2026-10-25 01:00 UTC"),
    ],
)
async def test_wakes_around_a_change_of_local_time_are_instants(world, natives, monkeypatch, at_ms, name):
    monkeypatch.setenv("TZ", "Europe/Berlin")
    world.clock.moved_ms = at_ms - 3_600_000 - START_MS
    async with world.alive():
        for quarter in range(9):
            await world.wakes.schedule(
                natives.me.id, "clockwork", at_ms - 3_600_000 + quarter * 900_000, str(quarter).encode()
            )
        await trio.sleep(7300)
    assert natives.payloads() == [str(quarter).encode() for quarter in range(9)], name
    gaps = [later.at - sooner.at for sooner, later in zip(natives.seen, natives.seen[1:], strict=False)]
    assert gaps == pytest.approx([900.0] * 8, abs=0.01)


# Many at once


async def test_overdue_wakes_are_paced_and_all_delivered(world, natives):
    for _ in range(500):
        await world.wakes.schedule(natives.me.id, "clockwork", START_MS)
    world.clock.move(2 * DAY_S)
    life = World(world.engine, natives, world.clock, boot=2, pace=Pace(late_per_s=10, late_burst=20))
    async with life.alive():
        await trio.sleep(0.55)
        assert 20 <= len(natives.seen) <= 26
        assert life.loop.statistics().spilled == 500 - len(natives.seen)
        await trio.sleep(20)
        assert 210 <= len(natives.seen) <= 230
        await trio.sleep(40)
    assert len(natives.seen) == 500
    assert {seen.argument["reason"] for seen in natives.seen} == {"late"}
    assert life.loop.statistics().spilled == 0


async def test_wakes_on_time_do_not_wait_for_overdue_ones(world, natives):
    for _ in range(500):
        await world.wakes.schedule(natives.me.id, "clockwork", START_MS)
    world.clock.move(DAY_S)
    life = World(world.engine, natives, world.clock, boot=2, pace=Pace(late_per_s=5, late_burst=5))
    async with life.alive():
        record = await life.wakes.schedule(natives.me.id, "clockwork", life.now_ms + 5000, b"on time")
        await trio.sleep(5.5)
        (seen,) = [one for one in natives.seen if one.payload == b"on time"]
        assert seen.argument["now_ms"] - record.at_ms < 20
        assert seen.argument["reason"] == "due"


async def test_one_agents_backlog_does_not_delay_anothers_wake(natives, world):
    async def act(_seen):
        await trio.sleep(10)

    natives.add("clockwork", "on_wake", act=act)
    other = natives.add_agent("other")
    life = World(world.engine, natives, world.clock, pace=Pace(workers=8, per_agent=4))
    async with life.alive():
        for _ in range(300):
            await life.wakes.schedule(natives.me.id, "clockwork", START_MS + 1000)
        await life.wakes.schedule(other.id, "clockwork", START_MS + 2000, b"other")
        await trio.sleep(2.5)
        assert [seen.agent for seen in natives.seen] == ["me"] * 4 + ["other"]
        assert life.loop.statistics().spilled == 296
        assert life.loop.statistics().running == 5


async def test_the_spill_beyond_the_workers_is_counted_and_drains(natives, world):
    async def act(_seen):
        await trio.sleep(1)

    natives.add("clockwork", "on_wake", act=act)
    life = World(world.engine, natives, world.clock, pace=Pace(workers=4, per_agent=4))
    async with life.alive():
        for _ in range(20):
            await life.wakes.schedule(natives.me.id, "clockwork", START_MS + 1000)
        await trio.sleep(1.5)
        assert (life.loop.statistics().running, life.loop.statistics().spilled) == (4, 16)
        await trio.sleep(5)
        assert (life.loop.statistics().running, life.loop.statistics().spilled) == (0, 0)
    assert len(natives.seen) == 20


async def test_a_full_executor_is_asked_again_and_no_wake_is_lost(natives, world):
    async def act(_seen):
        await trio.sleep(3)

    natives.add("clockwork", "on_wake", act=act)
    limits = ExecutorLimits(queue=QueueLimits(slots=2, slots_of_agent=2, background_slots=2, queued=1))
    life = World(world.engine, natives, world.clock, limits=limits)
    async with life.alive():
        for _ in range(12):
            await life.wakes.schedule(natives.me.id, "clockwork", START_MS + 1000)
        await trio.sleep(120)
    assert len(natives.seen) == 12
    assert world.endings() == ["done"] * 12
    assert world.engine.scan_keys("wake") == []


async def test_a_wake_that_an_executor_takes_only_after_a_day_runs_then(
    world, natives, schedule, monkeypatch
):
    run = world.executor.run

    async def busy(_work):
        await trio.lowlevel.checkpoint()
        raise Overloaded("the queue is full")

    async with world.alive():
        await schedule(1)
        monkeypatch.setattr(world.executor, "run", busy)
        await trio.sleep(DAY_S)
        monkeypatch.setattr(world.executor, "run", run)
        await trio.sleep(60)
    assert len(natives.seen) == 1
    assert world.endings() == ["done"]


# What cannot be delivered


async def test_a_wake_without_its_image_waits_and_runs_when_it_is_there(world, natives, schedule):
    async with world.alive():
        await schedule(10)
        natives.unloadable["clockwork"] = "image does not load: no manifest"
        await trio.sleep(3600)
        assert natives.seen == []
        assert world.loop.statistics().blocked == 1
        del natives.unloadable["clockwork"]
        world.loop.recheck(natives.me.id)
        await trio.sleep(0.1)
        (seen,) = natives.seen
        assert seen.argument["reason"] == "late"
        assert world.loop.statistics().blocked == 0
    assert world.endings() == ["done"]


async def test_it_is_found_again_without_being_told(world, natives, schedule):
    async with world.alive():
        await schedule(10)
        natives.unloadable["clockwork"] = "no"
        await trio.sleep(20)
        del natives.unloadable["clockwork"]
        await trio.sleep(61)
        assert len(natives.seen) == 1


async def test_what_cannot_be_linked_keeps_its_wake(world, natives, schedule):
    natives.unlinkable["clockwork"] = "root `/gone`: no such file or directory"
    async with world.alive():
        record = await schedule(10)
        await trio.sleep(3600)
        assert (natives.seen, world.rows()) == ([], [])
        assert world.loop.statistics().blocked == 1
        natives.unlinkable.clear()
        await trio.sleep(601)
    (row,) = world.rows()
    assert (row.outcome, row.subject, row.attempt) == ("done", record.id, 1)


async def test_a_link_that_fails_just_before_the_run_keeps_the_wake(world, natives, schedule):
    """The queue may be long: what was there when it was looked for is gone when its turn comes."""

    async def act(_seen):
        natives.unlinkable["clockwork"] = "root `/gone`: no such file or directory"
        return Trapped("link", natives.unlinkable["clockwork"])

    natives.add("clockwork", "on_wake", act=act)
    natives.add("watcher", "on_notify")
    async with world.alive():
        await world.bus.subscribe("harness:trap", target_harness=(natives.me.id, "watcher"))
        record = await schedule(10, key="k")
        await trio.sleep(DAY_S)
        assert len(natives.seen) == 1
        assert world.rows() == []
        assert (world.wakes.get(record.id), world.loop.statistics().blocked) == (record, 1)
        await trio.sleep(700)
    (row,) = world.rows()
    assert (row.outcome, row.subject) == ("missed", record.id)
    assert row.message.endswith(natives.unlinkable["clockwork"])


async def test_undeliverable_for_a_day_is_missed_with_a_row_and_an_event(world, natives, schedule):
    natives.add("watcher", "on_notify")
    async with world.alive():
        await world.bus.subscribe("wake:missed", target_harness=(natives.me.id, "watcher"))
        record = await schedule(10, key="k")
        natives.unloadable["clockwork"] = "image does not load: no manifest"
        await trio.sleep(DAY_S)
        assert world.rows() == []
        await trio.sleep(1000)
        await world.until(lambda: natives.seen)
    (notified,) = natives.seen
    assert notified.argument["source"] == "wake:missed"
    assert json.loads(notified.argument["payload"]) == {
        "id": record.id,
        "agent": natives.me.id,
        "harness": "clockwork",
        "key": "k",
        "scheduled_at_ms": record.at_ms,
    }
    missed, _ = world.rows()
    assert (missed.outcome, missed.subject, missed.trigger) == ("missed", record.id, "wake")
    assert missed.message == "not delivered for 24 hours: image does not load: no manifest"
    assert world.engine.scan_keys("wake") == []
    assert world.loop.statistics().missed == 1
    assert world.wakes.statistics().stored == 0


async def test_late_by_days_and_deliverable_is_delivered(world, natives, schedule):
    await schedule(10)
    world.clock.move(30 * DAY_S)
    async with World(world.engine, natives, world.clock, boot=2).alive():
        await trio.sleep(1)
    assert [seen.argument["reason"] for seen in natives.seen] == ["late"]


async def test_after_a_long_downtime_an_image_gets_a_minute_to_come_back(world, natives, schedule):
    await schedule(10)
    world.clock.move(3 * DAY_S)
    natives.unloadable["clockwork"] = "not yet"
    life = World(world.engine, natives, world.clock, boot=2)
    async with life.alive():
        await trio.sleep(50)
        del natives.unloadable["clockwork"]
        life.loop.recheck(natives.me.id)
        await trio.sleep(1)
    assert len(natives.seen) == 1


async def test_without_its_agent_a_wake_is_missed(world, natives, schedule):
    async with world.alive():
        await schedule(10)
        del natives.agents[natives.me.id]
        await trio.sleep(DAY_S + 1000)
    (row,) = world.rows()
    assert row.outcome == "missed"
    assert "there is no agent with the id" in row.message


async def test_a_wake_that_crashed_the_daemon_three_times_failed(world, natives, schedule):
    record = await schedule(10)
    for boot in (1, 2, 3):
        life = World(world.engine, natives, world.clock, boot=boot)
        await life.wakes.load()
        await life.wakes.claim(record.id)
    async with World(world.engine, natives, world.clock, boot=4).alive():
        await trio.sleep(20)
    assert natives.seen == []
    (row,) = world.rows()
    assert (row.outcome, row.attempt) == ("failed", 3)
    assert row.message == "the daemon ended 3 times while it ran"
    assert world.engine.scan_keys("wake") == []


async def test_a_spent_chain_fails_the_wake_with_its_reason(world, schedule):
    from crabtalk.chains import Chain

    chain = Chain(new_id(), started_ms=START_MS, invocations=1)
    async with world.alive():
        await schedule(5, chain=chain, depth=0)
        await schedule(6, chain=chain, depth=0)
        await trio.sleep(10)
    assert world.endings() == ["done", "failed"]
    assert "has started all the invocations" in world.rows()[1].message
    assert world.engine.scan_keys("wake") == []


async def test_a_wake_soon_goes_on_with_the_chain_and_a_later_one_names_its_parent(world, natives):
    depths = []

    async def act(seen):
        depths.append((seen.context.chain.id, seen.context.depth, seen.context.chain.parent))
        if len(depths) < 3:
            after_ms = 5000 if len(depths) == 1 else 60_000
            await world.wakes.schedule(
                natives.me.id,
                "clockwork",
                seen.argument["now_ms"] + after_ms,
                chain=seen.context.chain,
                depth=seen.context.depth,
            )

    natives.add("clockwork", "on_wake", act=act)
    async with world.alive():
        await world.wakes.schedule(natives.me.id, "clockwork", START_MS + 1000)
        await trio.sleep(100)
    (first, zero, none), (second, one, _), (third, again, parent) = depths
    assert (zero, one, again) == (0, 1, 0)
    assert none is None
    assert first == second == parent != third
    assert world.rows()[2].parent_chain == first


async def test_a_store_that_does_not_work_for_a_while_loses_no_wake(world, natives, schedule, monkeypatch):
    async def fail(_batch):
        raise StoreError("store: disk is full")

    async with world.alive():
        for _ in range(3):
            await schedule(10)
        with monkeypatch.context() as patched:
            patched.setattr(world.engine, "commit", fail)
            await trio.sleep(100)
        assert natives.seen == []
        await trio.sleep(100)
    assert len(natives.seen) == 3
    assert world.engine.scan_keys("wake") == []


@pytest.mark.parametrize("key", [None, "k"])
async def test_a_wake_that_cannot_be_given_back_runs_in_this_life(world, natives, schedule, monkeypatch, key):
    run, commit = world.executor.run, world.engine.commit

    async def fail(_batch):
        raise StoreError("store: disk is full")

    async def busy(_work):
        monkeypatch.setattr(world.engine, "commit", fail)
        raise Overloaded("the queue is full")

    async with world.alive():
        await schedule(10, key=key)
        monkeypatch.setattr(world.executor, "run", busy)
        await trio.sleep(100)
        monkeypatch.setattr(world.engine, "commit", commit)
        monkeypatch.setattr(world.executor, "run", run)
        await trio.sleep(100)
        assert (world.wakes.statistics().stored, world.loop.statistics().running) == (0, 0)
    assert [seen.argument["attempt"] for seen in natives.seen] == [1]
    assert world.engine.scan_keys("wake") == []


async def test_a_damaged_record_holds_up_no_other_wake(world, natives, schedule):
    async with world.alive():
        damaged = await schedule(10)
        await schedule(10, b"sound")
        (at,) = [key for key in world.engine.scan_keys("wake") if key.endswith(b"/id/" + damaged.id.encode())]
        await world.engine.commit([Write("wake", at, b"\x01{")])
        await trio.sleep(100)
    assert natives.payloads() == [b"sound"]


# Stopping


async def test_a_wake_cut_off_by_the_stop_runs_again_with_the_same_attempt(world, natives, schedule):
    async def act(_seen):
        await trio.sleep(1000)

    natives.add("clockwork", "on_wake", act=act)
    record = await schedule(1, key="k")
    async with world.alive():
        await trio.sleep(2)
        assert len(natives.seen) == 1
        await world.stop(drain_s=5)
    assert world.rows() == []
    assert world.wakes.get(record.id) == record
    natives.add("clockwork", "on_wake")
    async with World(world.engine, natives, world.clock, boot=2).alive():
        await trio.sleep(1)
    assert [seen.argument["attempt"] for seen in natives.seen] == [1, 1]
    assert world.endings() == ["done"]


async def test_a_wake_that_ends_while_the_daemon_drains_is_done(world, natives, schedule):
    async def act(_seen):
        await trio.sleep(3)

    natives.add("clockwork", "on_wake", act=act)
    await schedule(1)
    await schedule(4, b"never begins")
    async with world.alive():
        await trio.sleep(2)
        await world.stop(drain_s=10)
    assert world.endings() == ["done"]
    assert [one.payload for one in world.wakes.wakes_of(natives.me.id)] == [b"never begins"]


async def test_cut_off_without_a_stop_it_runs_again(world, natives, schedule):
    async def act(_seen):
        await trio.sleep(1000)

    natives.add("clockwork", "on_wake", act=act)
    record = await schedule(1)
    async with world.alive():
        await trio.sleep(2)
    assert world.rows() == []
    assert world.wakes.get(record.id).state in {"pending", "running"}
    natives.add("clockwork", "on_wake")
    async with World(world.engine, natives, world.clock, boot=2).alive():
        await trio.sleep(1)
    assert world.endings() == ["done"]


async def test_an_operator_who_cancels_the_run_ends_the_wake(world, natives, schedule):
    async def act(_seen):
        await trio.sleep(1000)

    natives.add("clockwork", "on_wake", act=act)
    async with world.alive():
        await schedule(1)
        await trio.sleep(2)
        (running,) = world.executor.running()
        world.executor.cancel(running.id, "not wanted")
        await trio.sleep(1)
    assert world.endings() == ["cancelled"]
    assert world.engine.scan_keys("wake") == []
