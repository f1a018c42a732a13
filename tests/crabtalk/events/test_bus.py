"""What events promise: stored before they are acknowledged, delivered in order, once each."""

import json

import pytest
import trio

from crabtalk.chains import MAX_INVOCATIONS, Chain, ChainSpent
from crabtalk.errors import BadRequest, Busy, NotFound, TooLarge
from crabtalk.events.routes import MAX_OF_HARNESS, MAX_WAITING
from crabtalk.ids import new_id
from crabtalk.scheduling.chaining import inherited
from crabtalk.store.interfaces.subscriptions import Subscriptions
from crabtalk.tools import Failed, Trapped, Trigger
from crabtalk.work import ExecutorLimits, Work
from crabtalk.work_queue import Overloaded, QueueLimits
from waking import START_MS, World, run_jumping

pytestmark = pytest.mark.trio(run=run_jumping)

DAY_S = 24 * 3600


@pytest.fixture
def subscribe(world, natives):
    async def subscribe(source, harness="listener", *, agent=None, **more):
        return await world.bus.subscribe(source, target_harness=((agent or natives.me).id, harness), **more)

    return subscribe


async def test_an_event_reaches_its_subscriber(world, natives, subscribe):
    async with world.alive():
        subscription = await subscribe("build:*")
        event = await world.bus.publish("build:done", "päyload")
        await trio.sleep(1)
    (seen,) = natives.seen
    assert seen.argument == {
        "id": event.id,
        "source": "build:done",
        "payload": "päyload",
        "published_at_ms": START_MS,
        "subscription": subscription.id,
    }
    (row,) = world.rows()
    assert (row.trigger, row.tool, row.outcome, row.subject) == ("event", "on_notify", "done", event.id)
    assert world.bus.statistics().waiting == 0


async def test_an_event_without_subscribers_costs_no_commit(world):
    before = world.engine.statistics().commits
    await world.bus.publish("build:done", "")
    assert world.engine.statistics().commits == before


async def test_it_is_in_the_store_before_it_is_acknowledged(world, subscribe):
    subscription = await subscribe("build:done")
    event = await world.bus.publish("build:done", "x")
    (stored,) = Subscriptions(world.engine).deliveries(subscription.id)
    assert (stored.event_id, stored.payload, stored.attempt) == (event.id, "x", 1)


async def test_every_matching_subscription_gets_it_and_no_other(world, natives, subscribe):
    natives.add("second", "on_notify")
    async with world.alive():
        await subscribe("a:*")
        await subscribe("a:b", "second")
        await subscribe("a:b:*", "second")
        await subscribe("a", "second")
        await world.bus.publish("a:b", "")
        await trio.sleep(1)
    assert sorted(seen.harness for seen in natives.seen) == ["listener", "second"]


async def test_the_same_subscription_is_made_once(world, subscribe):
    first = await subscribe("a")
    assert await subscribe("a") == first
    assert await subscribe("a", once=True) != first
    assert await subscribe("a", by="harness") != first
    assert len(world.bus.subscriptions()) == 3


async def test_events_come_in_order_one_at_a_time(world, natives, subscribe):
    running = 0

    async def act(_seen):
        nonlocal running
        running += 1
        assert running == 1
        await trio.sleep(0.01)
        running -= 1

    natives.add("listener", "on_notify", act=act)
    async with world.alive():
        await subscribe("n:*")
        for number in range(100):
            await world.bus.publish(f"n:{number % 3}", str(number))
        await trio.sleep(5)
    assert natives.payloads() == [str(number) for number in range(100)]


async def test_publishers_at_once_agree_with_the_store_on_the_order(world, natives, subscribe):
    order = []

    async def publish(number):
        order.append((await world.bus.publish("n:x", str(number))).id)

    async with world.alive():
        subscription = await subscribe("n:*")
        world.bus._deliveries._nursery = None  # nobody delivers yet
        async with trio.open_nursery() as nursery:
            for number in range(50):
                nursery.start_soon(publish, number)
        stored = [one.payload for one in Subscriptions(world.engine).deliveries(subscription.id)]
    life = World(world.engine, natives, world.clock, boot=2)
    async with life.alive():
        await trio.sleep(1)
    assert natives.payloads() == stored
    assert sorted(stored) == sorted(map(str, range(50)))


async def test_once_is_once_also_for_many_events_at_once(world, natives, subscribe):
    async with world.alive():
        await subscribe("n:*", once=True)
        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(world.bus.publish, "n:x", str(number))
        await trio.sleep(1)
        assert world.bus.subscriptions() == []
    assert len(natives.seen) == 1
    assert Subscriptions(world.engine).all() == []


async def test_once_survives_a_restart_without_a_second_event(world, natives, subscribe):
    await subscribe("n", once=True)
    await world.bus.publish("n", "first")
    life = World(world.engine, natives, world.clock, boot=2)
    await life.bus.load()
    await life.bus.publish("n", "second")
    async with World(world.engine, natives, world.clock, boot=3).alive():
        await trio.sleep(1)
    assert natives.payloads() == ["first"]


async def test_once_that_was_not_stored_is_not_spent(world, natives, subscribe, monkeypatch):
    await subscribe("n", once=True)

    async def fail(_batch):
        raise OSError("no space")

    with monkeypatch.context() as patched:
        patched.setattr(world.engine, "commit", fail)
        with pytest.raises(OSError, match="no space"):
            await world.bus.publish("n", "lost")
    async with world.alive():
        await world.bus.publish("n", "kept")
        await trio.sleep(1)
    assert natives.payloads() == ["kept"]


async def test_unsubscribing_drops_what_waits(world, natives, subscribe):
    async def act(_seen):
        await trio.sleep(10)

    natives.add("listener", "on_notify", act=act)
    async with world.alive():
        subscription = await subscribe("n")
        for number in range(5):
            await world.bus.publish("n", str(number))
        await trio.sleep(1)
        assert await world.bus.unsubscribe(subscription.id)
        assert not await world.bus.unsubscribe(subscription.id)
        await trio.sleep(100)
        assert await world.bus.publish("n", "nobody listens")
    assert natives.payloads() == ["0"]
    assert world.endings() == ["done"]
    assert Subscriptions(world.engine).all() == []
    assert list(Subscriptions(world.engine).all_deliveries()) == []


async def test_a_harness_removes_its_own_subscriptions_only(world, natives, subscribe):
    mine = await subscribe("n", by="harness")
    clients = await subscribe("n", by="client")
    owner = (natives.me.id, "listener")
    assert not await world.bus.unsubscribe(mine.id, (natives.me.id, "other"))
    assert not await world.bus.unsubscribe(clients.id, owner)
    assert await world.bus.unsubscribe(mine.id, owner)


async def test_ids_are_never_given_twice(world, natives, subscribe):
    first = await subscribe("a")
    await world.bus.unsubscribe(first.id)
    life = World(world.engine, natives, world.clock, boot=2)
    await life.bus.load()
    second = await life.bus.subscribe("b", target_harness=(natives.me.id, "listener"))
    assert second.id > first.id


async def test_who_may_be_subscribed(world, natives, subscribe):
    both = {"target_harness": (natives.me.id, "listener"), "target_agent": natives.me.id}
    with pytest.raises(BadRequest, match="target: expected either"):
        await world.bus.subscribe("a", **both)
    with pytest.raises(BadRequest, match="target: expected"):
        await world.bus.subscribe("a", target_harness=None)
    with pytest.raises(NotFound, match="no agent"):
        await world.bus.subscribe("a", target_harness=(new_id(), "listener"))
    with pytest.raises(NotFound, match="no harness"):
        await subscribe("a", "nobody")
    with pytest.raises(BadRequest, match="no `on_notify`"):
        await subscribe("a", "deaf")
    with pytest.raises(BadRequest, match="event pattern"):
        await subscribe("*")


async def test_a_harness_has_so_many_subscriptions(world, natives, subscribe):
    natives.add("other", "on_notify")
    for number in range(MAX_OF_HARNESS):
        await subscribe(f"n:{number}")
    with pytest.raises(Busy, match="has 64 subscriptions, which is the most"):
        await subscribe("one:more")
    await subscribe("n:0")
    await subscribe("n", "other")
    assert len(world.bus.subscriptions()) == MAX_OF_HARNESS + 1


@pytest.mark.parametrize("source", ["wake:missed", "harness:trap", "daemon:started", "agent:x:done", "mcp:x"])
async def test_nobody_outside_publishes_what_is_the_daemons(world, source):
    with pytest.raises(BadRequest, match="come from the daemon only"):
        await world.bus.publish(source, "")


async def test_events_are_bounded(world):
    await world.bus.publish("a", "x" * (64 << 10))
    with pytest.raises(TooLarge, match="payload is 65538 bytes long"):
        await world.bus.publish("a", "é" * (32 << 10) + "xx")
    with pytest.raises(BadRequest, match="no text"):
        await world.bus.publish("a", "\ud800")
    with pytest.raises(BadRequest, match="event source"):
        await world.bus.publish("a:*", "")


# Bounded queues


async def test_publishers_hear_of_a_full_queue_and_nobody_gets_half_an_event(world, natives, subscribe):
    natives.add("other", "on_notify")
    await subscribe("n")
    for number in range(MAX_WAITING):
        await world.bus.publish("n", str(number))
    await subscribe("n", "other")
    with pytest.raises(Busy, match="publish again later"):
        await world.bus.publish("n", "too much")
    async with world.alive():
        await trio.sleep(10)
    assert len([seen for seen in natives.seen if seen.harness == "listener"]) == MAX_WAITING
    assert len([seen for seen in natives.seen if seen.harness == "other"]) == 0


async def test_the_bytes_of_a_queue_are_bounded_too(world, subscribe):
    await subscribe("n")
    sent = 0
    with pytest.raises(Busy):  # noqa: PT012 - as long as it takes
        while sent < 1000:
            await world.bus.publish("n", "x" * (64 << 10))
            sent += 1
    assert sent == (8 << 20) // ((64 << 10) + 256) + 1


async def test_a_stuck_subscriber_loses_events_with_a_row_and_holds_up_nobody(world, natives, subscribe):
    natives.add("other", "on_notify")
    async with world.alive():
        stuck = await subscribe("n")
        natives.unloadable["listener"] = "no"
        for _ in range(MAX_WAITING):
            await world.bus.publish("n", "kept")
        await subscribe("n", "other")
        with pytest.raises(Busy):
            await world.bus.publish("n", "refused")
        await trio.sleep(61)
        lost = await world.bus.publish("n", "lost for one")
        await trio.sleep(1)
        assert [(seen.harness, seen.payload) for seen in natives.seen] == [("other", "lost for one")]
        refused, _ = world.rows()
        assert (refused.outcome, refused.subject, refused.harness) == ("refused", lost.id, "listener")
        assert refused.message == (
            f"subscription {stuck.id} has 1000 events waiting, and none gets delivered"
        )
        assert world.bus.statistics().lost == 1
        del natives.unloadable["listener"]
        world.bus.recheck(natives.me.id)
        await trio.sleep(10)
    assert natives.payloads().count("kept") == MAX_WAITING


async def test_what_a_full_queue_loses_of_the_daemons_own_has_rows_too(world, natives, subscribe):
    async with world.alive():
        full = await subscribe("harness:trap")
        natives.unloadable["listener"] = "no"
        for number in range(MAX_WAITING + 5):
            world.bus.emit("harness:trap", {"number": number})
            if number % 500 == 0:
                await trio.sleep(0.1)
        await trio.sleep(11)
        (first,) = world.rows()
        assert (first.outcome, first.harness, first.reason) == ("refused", "listener", "harness:trap")
        assert first.message == f"subscription {full.id} has 1000 events waiting"
        world.bus.emit("harness:trap", {})
        await trio.sleep(1)
        _, second = world.rows()
        assert second.message.endswith("(4 more that it lost were not listed)")
        assert world.bus.statistics().lost == 6


async def test_a_full_executor_delays_events_and_loses_none(natives, world, subscribe):
    async def act(_seen):
        await trio.sleep(1)

    natives.add("listener", "on_notify", act=act)
    limits = ExecutorLimits(queue=QueueLimits(slots=1, slots_of_agent=1, background_slots=1, queued=1))
    for number in range(10):
        await subscribe(f"n:{number}")
        await world.bus.publish(f"n:{number}", str(number))
    async with World(world.engine, natives, world.clock, boot=2, limits=limits).alive():
        await trio.sleep(120)
    assert sorted(natives.payloads()) == [str(number) for number in range(10)]
    assert world.endings() == ["done"] * 10


async def test_an_event_that_an_executor_takes_only_after_a_day_is_delivered_then(
    natives, world, subscribe, monkeypatch, caplog
):
    run = world.executor.run

    async def busy(_work):
        await trio.lowlevel.checkpoint()
        raise Overloaded("the queue is full")

    async with world.alive():
        await subscribe("n")
        monkeypatch.setattr(world.executor, "run", busy)
        await world.bus.publish("n", "late")
        await trio.sleep(DAY_S)
        monkeypatch.setattr(world.executor, "run", run)
        await trio.sleep(60)
    assert natives.payloads() == ["late"]
    assert not caplog.records


# Outcomes


async def test_a_guest_that_fails_or_traps_has_had_its_event(world, natives, subscribe):
    endings = iter([Failed("no"), Trapped("memory_fault", "bad"), None])

    async def act(_seen):
        return next(endings)

    natives.add("listener", "on_notify", act=act)
    async with world.alive():
        await subscribe("n")
        for number in range(3):
            await world.bus.publish("n", str(number))
        await trio.sleep(1)
    assert natives.payloads() == ["0", "1", "2"]
    assert world.endings() == ["failed", "trap", "done"]


async def test_an_undeliverable_event_waits_and_is_missed_after_a_day(world, natives, subscribe):
    async with world.alive():
        await subscribe("n", once=True)
        natives.unloadable["listener"] = "image does not load"
        event = await world.bus.publish("n", "x")
        await trio.sleep(DAY_S - 1000)
        assert world.rows() == []
        await trio.sleep(3000)
        (row,) = world.rows()
        assert (row.outcome, row.subject) == ("missed", event.id)
        assert row.message == "not delivered for 24 hours: image does not load"
        assert world.bus.subscriptions() == []
        assert world.bus.statistics().missed == 1


async def test_what_cannot_be_linked_keeps_its_event(world, natives, subscribe):
    natives.unlinkable["listener"] = "root `/gone`: no such file or directory"
    async with world.alive():
        await subscribe("n")
        event = await world.bus.publish("n", "x")
        await trio.sleep(3600)
        assert (natives.seen, world.rows()) == ([], [])
        natives.unlinkable.clear()
        await trio.sleep(601)
    (row,) = world.rows()
    assert (row.outcome, row.subject, row.attempt) == ("done", event.id, 1)


async def test_a_link_that_fails_just_before_the_run_keeps_the_event(world, natives, subscribe):
    async def act(_seen):
        natives.unlinkable["listener"] = "root `/gone`: no such file or directory"
        return Trapped("link", natives.unlinkable["listener"])

    natives.add("listener", "on_notify", act=act)
    async with world.alive():
        await subscribe("n")
        event = await world.bus.publish("n", "x")
        await trio.sleep(DAY_S)
        assert len(natives.seen) == 1
        assert world.rows() == []
        (waiting,) = Subscriptions(world.engine).all_deliveries()
        assert waiting.attempt == 1  # nothing counts that did not begin
        await trio.sleep(700)
    (row,) = world.rows()
    assert (row.outcome, row.subject) == ("missed", event.id)
    assert row.message.endswith(natives.unlinkable["listener"])


async def test_it_is_delivered_when_the_image_comes_back(world, natives, subscribe):
    async with world.alive():
        await subscribe("n")
        natives.unloadable["listener"] = "image does not load"
        await world.bus.publish("n", "x")
        await trio.sleep(1000)
        del natives.unloadable["listener"]
        world.bus.recheck(natives.me.id)
        await trio.sleep(0.1)
    assert natives.payloads() == ["x"]


async def test_what_crashed_the_daemon_three_times_failed(world, natives, subscribe):
    async def act(_seen):
        await trio.sleep_forever()

    natives.add("listener", "on_notify", act=act)
    await subscribe("n")
    event = await world.bus.publish("n", "x")
    (stored,) = Subscriptions(world.engine).all_deliveries()
    from dataclasses import replace

    for attempt in (2, 3, 4):  # what a crash in a run leaves
        await world.engine.commit(Subscriptions(world.engine).save_delivery(replace(stored, attempt=attempt)))
        life = World(world.engine, natives, world.clock, boot=attempt)
        async with life.alive():
            await trio.sleep(1)
            if attempt < 4:
                assert natives.seen[-1].argument["id"] == event.id
    (row,) = world.rows()
    assert (row.outcome, row.subject) == ("failed", event.id)
    assert row.message == "the daemon ended 3 times while it ran"


async def test_cut_off_by_the_stop_it_runs_again_with_the_same_attempt(world, natives, subscribe):
    async def act(_seen):
        await trio.sleep(1000)

    natives.add("listener", "on_notify", act=act)
    async with world.alive():
        await subscribe("n")
        await world.bus.publish("n", "x")
        await trio.sleep(1)
        await world.stop(drain_s=2)
    assert world.rows() == []
    (stored,) = Subscriptions(world.engine).all_deliveries()
    assert stored.attempt == 1
    natives.add("listener", "on_notify")
    async with World(world.engine, natives, world.clock, boot=2).alive():
        await trio.sleep(1)
    assert [row.outcome for row in world.rows()] == ["done"]
    assert [row.attempt for row in world.rows()] == [1]


async def test_a_store_that_does_not_work_for_a_while_loses_nothing(world, natives, subscribe, monkeypatch):
    from crabtalk.errors import StoreError

    async def fail(_batch):
        raise StoreError("store: disk is full")

    await subscribe("n")
    for number in range(3):
        await world.bus.publish("n", str(number))
    with monkeypatch.context() as patched:
        patched.setattr(world.engine, "commit", fail)
        async with world.alive():
            await trio.sleep(100)
            assert natives.seen == []
            patched.undo()
            await trio.sleep(100)
    assert natives.payloads() == ["0", "1", "2"]


# Chains


async def test_an_event_goes_on_with_the_chain_one_deeper(world, natives, subscribe):
    chain = Chain(new_id(), started_ms=START_MS)
    async with world.alive():
        await subscribe("n")
        await world.bus.publish("n", "x", chain=chain, depth=3)
        await trio.sleep(1)
    (seen,) = natives.seen
    assert (seen.context.chain.id, seen.context.depth) == (chain.id, 4)


async def test_two_harnesses_that_wake_each_other_stop_at_the_depth(world, natives, subscribe):
    spent = []

    async def act(seen):
        try:
            await world.bus.publish("n", seen.payload, chain=seen.context.chain, depth=seen.context.depth)
        except ChainSpent as error:
            spent.append(str(error))

    natives.add("listener", "on_notify", act=act)
    async with world.alive():
        await subscribe("n")
        await world.bus.publish("n", "x")
        await trio.sleep(10)
    assert len(natives.seen) == 9  # depth 0 to 8
    assert len(spent) == 1
    assert "depth 9 is beyond the chain's 8" in spent[0]


async def test_events_of_one_chain_share_its_invocations(world, natives, subscribe):
    """Many subscribers that publish on do not multiply without end."""

    async def act(seen):
        for _ in range(4):
            await world.bus.publish("n", "x", chain=seen.context.chain, depth=seen.context.depth)

    natives.add("listener", "on_notify", act=act)
    async with world.alive():
        await subscribe("n")
        await world.bus.publish("n", "x")
        await trio.sleep(600)
    assert len(natives.seen) <= 257


# Built-in events


async def test_a_trap_is_an_event_with_ids_only(world, natives, subscribe):
    async def act(_seen):
        return Trapped("memory_fault", "secret words")

    natives.add("bad", "on_wake", act=act)
    async with world.alive():
        await subscribe("harness:trap")
        await world.wakes.schedule(natives.me.id, "bad", START_MS)
        await trio.sleep(1)
    (trap,) = [seen for seen in natives.seen if seen.entry == "on_notify"]
    row = world.rows()[0]
    assert json.loads(trap.payload) == {
        "invocation": row.id,
        "trigger": "wake",
        "agent": natives.me.id,
        "agent_name": "me",
        "harness": "bad",
        "tool": "on_wake",
        "kind": "memory_fault",
        "chain": row.chain,
    }
    assert trap.context.depth == 1


async def test_the_event_of_a_trap_goes_on_with_what_its_chain_had_left(world, natives, subscribe):
    async def act(seen):
        seen.context.chain.berm.charge(5)
        seen.context.chain.tokens_left = 7
        return Trapped("memory_fault", "bad")

    natives.add("bad", "tool", act=act)
    async with world.alive():
        await subscribe("harness:trap")
        await world.executor.run(Work(Trigger.TOOL, natives.me, "bad", "tool", b"{}"))
        await trio.sleep(1)
    first, told = (seen.context.chain for seen in natives.seen)
    assert told.id == first.id
    assert (told.berm.fuel_left, told.tokens_left) == (first.berm.fuel_left, 7)
    assert told.berm.invocations_left == MAX_INVOCATIONS - 2


async def test_a_listener_of_traps_that_traps_stops_at_the_depth(world, natives, subscribe):
    async def act(_seen):
        return Trapped("memory_fault", "again")

    natives.add("listener", "on_notify", act=act)
    natives.add("bad", "on_wake", act=act)
    async with world.alive():
        await subscribe("harness:trap")
        await world.wakes.schedule(natives.me.id, "bad", START_MS)
        await trio.sleep(100)
        assert world.bus.statistics().dropped == 1
    assert len(natives.seen) == 9


async def test_the_daemons_own_events_are_bounded(world):
    with world.bus.tail("daemon:*"):
        for _ in range(1500):
            world.bus.emit("daemon:started", {})
        assert world.bus.statistics().dropped == 500


async def test_emitting_is_publishing(world, natives, subscribe):
    async with world.alive():
        await subscribe("daemon:started")
        world.bus.emit("daemon:started", {"boot": 1})
        await trio.sleep(1)
    assert [json.loads(one) for one in natives.payloads()] == [{"boot": 1}]


# Watching


async def test_a_tail_sees_what_fits_its_pattern(world):
    async with world.alive():
        with world.bus.tail("a:*") as some, world.bus.tail("") as every:
            for source in ("a:b", "b", "a"):
                await world.bus.publish(source, source)
            world.bus.emit("daemon:started", {})
            await trio.sleep(0.1)
            assert (await anext(some)).source == "a:b"
            assert [(await anext(every)).source for _ in range(4)] == ["a:b", "b", "a", "daemon:started"]
            assert world.bus.statistics().tails == 2
        assert world.bus.statistics().tails == 0


async def test_a_tail_that_is_not_read_loses_and_counts(world):
    with world.bus.tail("n") as tail:
        for number in range(300):
            await world.bus.publish("n", str(number))
        assert tail.lost == 300 - 256
        assert [(await anext(tail)).payload for _ in range(3)] == ["0", "1", "2"]


async def test_what_is_no_pattern_is_not_watched(world):
    with pytest.raises(BadRequest, match="event pattern"):
        world.bus.tail("*")
    assert world.bus.statistics().tails == 0


# Restarts and agents


async def test_subscriptions_and_waiting_events_survive_a_restart(world, natives, subscribe):
    subscription = await subscribe("n:*")
    for number in range(5):
        await world.bus.publish("n:x", str(number))
    life = World(world.engine, natives, world.clock, boot=2)
    async with life.alive():
        await life.bus.publish("n:x", "5")
        await trio.sleep(1)
        assert life.bus.subscriptions() == [subscription]
    assert natives.payloads() == ["0", "1", "2", "3", "4", "5"]


async def test_events_of_no_subscription_are_cleared_away_at_the_start(world, natives, subscribe):
    subscription = await subscribe("n")
    await world.bus.publish("n", "x")
    records = Subscriptions(world.engine)
    await world.engine.commit([records.remove(subscription.id)[0]])
    assert len(list(records.all_deliveries())) == 1
    await World(world.engine, natives, world.clock, boot=2).bus.load()
    assert list(records.all_deliveries()) == []


async def test_forgetting_an_agent_removes_its_subscriptions(world, natives, subscribe):
    other = natives.add_agent("other")
    async with world.alive():
        await subscribe("n")
        kept = await subscribe("n", agent=other)
        await world.engine.commit(world.bus.forget_writes(natives.me.id))
        world.bus.forgotten(natives.me.id)
        assert world.bus.subscriptions() == [kept]
        await world.bus.publish("n", "x")
        await trio.sleep(1)
    assert [seen.agent for seen in natives.seen] == ["other"]
    assert Subscriptions(world.engine).all() == [kept]


async def test_what_is_inherited_is_refused_when_the_chain_is_spent():
    chain = Chain(new_id(), started_ms=START_MS, invocations=1)
    assert inherited(chain, 0).depth == 1
    chain.admit(0)
    with pytest.raises(ChainSpent, match="all the invocations"):
        inherited(chain, 0)
