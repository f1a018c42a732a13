"""What the service of wakes promises to whoever schedules."""

import pytest
import trio

from crabtalk.chains import Chain, ChainSpent
from crabtalk.errors import BadRequest, Busy, Conflict, NotFound, TooLarge
from crabtalk.ids import new_id
from crabtalk.scheduling.due_set import MAX_AT_MS
from crabtalk.store.interfaces.wakes import Wakes
from waking import START_MS, World, run_jumping

pytestmark = pytest.mark.trio(run=run_jumping)


@pytest.fixture(autouse=True)
async def counted_right(world):
    """Whatever a test did, what is counted has to be what the store has."""
    yield
    service, stored = world.wakes, Wakes(world.engine)
    assert (service._stored, service._made) == (len(stored.keys()), stored.made())


@pytest.fixture
def schedule(world, natives):
    async def schedule(at_ms=START_MS + 10_000, payload=b"", key=None, **more):
        return await world.wakes.schedule(natives.me.id, "clockwork", at_ms, payload, key, **more)

    return schedule


async def test_what_is_scheduled_is_stored(world, schedule):
    record = await schedule(payload=b"\0binary", key="k")
    assert Wakes(world.engine).get(record.id) == record
    assert (record.state, record.attempt, record.payload, record.key) == ("pending", 1, b"\0binary", "k")
    assert world.wakes.due.earliest() == record.at_ms


@pytest.mark.parametrize(("at_ms", "rounded"), [(0, 0), (1, 1000), (999, 1000), (1000, 1000), (1001, 2000)])
async def test_instants_are_rounded_up_to_a_second(schedule, at_ms, rounded):
    assert (await schedule(at_ms)).at_ms == rounded


@pytest.mark.parametrize("at_ms", [-1, MAX_AT_MS + 1, 1 << 70])
async def test_an_instant_out_of_range_is_refused(world, schedule, at_ms):
    with pytest.raises(BadRequest, match="instant: expected Unix milliseconds"):
        await schedule(at_ms)
    assert world.wakes.statistics().stored == 0


async def test_payload_and_key_are_bounded(schedule):
    await schedule(payload=bytes(64 << 10), key="k" * 256)
    with pytest.raises(TooLarge, match="payload is 65537 bytes long, at most 65536"):
        await schedule(payload=bytes((64 << 10) + 1))
    for key in ("", "k" * 257, "é" * 129):
        with pytest.raises(BadRequest, match=r"key is .* from 1 to 256 are taken"):
            await schedule(key=key)


async def test_the_target_has_to_be_there_and_export_on_wake(world, natives):
    with pytest.raises(NotFound, match="no agent has the id"):
        await world.wakes.schedule(new_id(), "clockwork", 0)
    with pytest.raises(NotFound, match="no harness `nobody`"):
        await world.wakes.schedule(natives.me.id, "nobody", 0)
    with pytest.raises(BadRequest, match="no `on_wake`"):
        await world.wakes.schedule(natives.me.id, "mute", 0)


async def test_a_limit_costs_no_more_the_nearer_it_is(world, schedule, monkeypatch):
    """A harness may be allowed a hundred thousand: counting them each time would hold the daemon up."""
    for _ in range(500):
        await schedule(limit=100_000)
    scan_keys, read = world.engine.scan_keys, []
    monkeypatch.setattr(
        world.engine, "scan_keys", lambda *args: read.append(found := scan_keys(*args)) or found
    )
    await schedule(limit=100_000)
    with pytest.raises(Busy, match="501 wakes of harness `clockwork` are pending, which is its most"):
        await schedule(limit=501)
    assert sum(map(len, read)) == 0


async def test_the_same_key_replaces(world, schedule):
    first = await schedule(START_MS + 5000, b"first", "k")
    second = await schedule(START_MS + 9000, b"second", "k")
    other = await schedule(START_MS + 7000, b"other", "other")
    assert await world.wakes.cancel(first.id) is False
    assert [one.id for one in world.wakes.wakes_of(first.agent_id)] == [other.id, second.id]
    assert [due.id for due in world.wakes.due.first(10)] == [other.id, second.id]
    assert world.wakes.statistics().stored == 2


async def test_keys_of_two_harnesses_are_two(world, natives, schedule):
    natives.add("other", "on_wake")
    first = await schedule(key="k")
    second = await world.wakes.schedule(natives.me.id, "other", START_MS, b"", "k")
    assert {one.id for one in world.wakes.wakes_of(natives.me.id)} == {first.id, second.id}


async def test_one_key_at_once_from_many_tasks_leaves_one_wake(world, natives, schedule):
    async with trio.open_nursery() as nursery:
        for at in range(50):
            nursery.start_soon(schedule, START_MS + at * 1000, b"", "k")
    (left,) = world.wakes.wakes_of(natives.me.id)
    assert [due.id for due in world.wakes.due.first(10)] == [left.id]
    assert world.wakes.statistics().stored == 1


async def test_cancelling_says_whether_there_was_one(world, schedule):
    record = await schedule()
    assert await world.wakes.cancel(record.id)
    assert not await world.wakes.cancel(record.id)
    assert not await world.wakes.cancel("../../etc/passwd")
    assert world.wakes.statistics().stored == len(world.wakes.due) == 0


async def test_an_owner_cancels_its_own_only(world, natives, schedule):
    record = await schedule()
    assert not await world.wakes.cancel(record.id, (natives.me.id, "other"))
    assert not await world.wakes.cancel(record.id, (new_id(), "clockwork"))
    assert await world.wakes.cancel(record.id, (natives.me.id, "clockwork"))


async def test_a_running_wake_is_not_cancelled(world, schedule):
    record = await schedule()
    await world.wakes.claim(record.id)
    with pytest.raises(Conflict, match="is running"):
        await world.wakes.cancel(record.id)
    assert not await world.wakes.cancel(record.id, (record.agent_id, record.harness))
    assert world.wakes.get(record.id).state == "running"


async def test_the_limit_counts_pending_wakes_of_the_harness(world, natives, schedule):
    natives.add("other", "on_wake")
    await world.wakes.schedule(natives.me.id, "other", START_MS)
    kept = [await schedule(limit=3, key=f"k{n}") for n in range(3)]
    with pytest.raises(Busy, match="3 wakes of harness `clockwork` are pending"):
        await schedule(limit=3)
    await schedule(limit=3, key="k0")  # replaces
    await world.wakes.claim(kept[1].id)  # runs, and may arm itself again
    await schedule(limit=3, key="k1")
    with pytest.raises(Busy):
        await schedule(limit=3)
    assert await world.wakes.cancel(kept[2].id)
    await schedule(limit=3)


async def test_what_clients_schedule_is_not_of_the_harness_own_number(world, schedule):
    for n in range(5):
        await schedule(key=f"c{n}")
    await schedule(limit=1)
    with pytest.raises(Busy, match="1 wakes of harness `clockwork` are pending, which is its most"):
        await schedule(limit=1)
    with pytest.raises(Busy):
        await schedule(limit=1, key="c0")  # that would be a second one of its own
    assert len(world.wakes.wakes_of((await schedule()).agent_id)) == 7


async def test_the_next_occurrence_of_a_running_key_has_room_whatever_came_meanwhile(world, schedule):
    first = await schedule(limit=2, key="k")
    running = await world.wakes.claim(first.id)
    await schedule(limit=2)
    with pytest.raises(Busy, match=r"2 wakes of .* are pending, or the next ones of 1 that run, which"):
        await schedule(limit=2)
    await schedule(limit=2, key="k")
    await schedule(limit=2, key="k")  # in the place of the one before it
    with pytest.raises(Busy, match=r"2 wakes of .* are pending, which is its most"):
        await schedule(limit=2)
    await world.engine.commit(world.wakes.removal(running))
    with pytest.raises(Busy):  # before the service has heard of that end, too
        await schedule(limit=2)
    world.wakes.ended(running)
    with pytest.raises(Busy):
        await schedule(limit=2, key="other")


async def test_a_place_is_kept_for_as_long_as_its_wake_runs(world, schedule):
    running = await world.wakes.claim((await schedule(limit=1, key="k")).id)
    await schedule(key="k")  # a client's, for which no place was kept
    with pytest.raises(Busy):
        await schedule(limit=1)
    await world.engine.commit(world.wakes.removal(running))
    world.wakes.ended(running)
    await schedule(limit=1)


async def test_the_next_occurrence_has_room_where_everybody_has_too_many(world, schedule):
    running = await world.wakes.claim((await schedule(limit=1, key="k")).id)
    world.wakes._max_wakes = 2
    await schedule()
    with pytest.raises(Busy, match="2 wakes are stored, which is the most"):
        await schedule()
    await schedule(limit=1, key="k")
    await world.engine.commit(world.wakes.removal(running))
    world.wakes.ended(running)
    assert world.wakes.statistics().stored == 2


async def test_the_limit_holds_for_many_at_once(world, natives, schedule):
    refused = 0

    async def attempt():
        nonlocal refused
        try:
            await schedule(limit=5)
        except Busy:
            refused += 1

    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(attempt)
    assert refused == 15
    assert len(world.wakes.wakes_of(natives.me.id)) == 5


async def test_all_wakes_together_are_bounded(world, schedule):
    world.wakes._max_wakes = 2
    await schedule(key="k")
    await schedule()
    with pytest.raises(Busy, match="2 wakes are stored, which is the most"):
        await schedule()
    await schedule(key="k")


async def test_a_claim_is_given_once_in_a_life(world, schedule):
    record = await schedule(key="k")
    running = await world.wakes.claim(record.id)
    assert (running.state, running.claim, running.attempt) == ("running", "boot-1", 1)
    assert await world.wakes.claim(record.id) is None
    assert await world.wakes.claim(new_id()) is None


async def test_claims_at_once_are_one_claim(world, schedule):
    record = await schedule()
    claims = []

    async def claim():
        claims.append(await world.wakes.claim(record.id))

    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(claim)
    assert sum(claim is not None for claim in claims) == 1


async def test_cancelling_and_claiming_at_once_is_one_of_both(world, schedule):
    for _ in range(20):
        record = await schedule()
        results = {}

        async def cancel(record, results):
            try:
                results["cancelled"] = await world.wakes.cancel(record.id)
            except Conflict:
                results["cancelled"] = False

        async def claim(record, results):
            results["claimed"] = await world.wakes.claim(record.id) is not None

        async with trio.open_nursery() as nursery:
            nursery.start_soon(cancel, record, results)
            nursery.start_soon(claim, record, results)
        assert results["cancelled"] != results["claimed"]
        assert (world.wakes.get(record.id) is not None) == results["claimed"]


async def test_scheduling_the_running_key_makes_the_next_occurrence(world, schedule):
    first = await schedule(key="k")
    await world.wakes.claim(first.id)
    second = await schedule(key="k", payload=b"second")
    third = await schedule(key="k", payload=b"third")  # replaces the second, not the one that runs
    assert world.wakes.get(first.id).state == "running"
    assert world.wakes.get(second.id) is None
    assert world.wakes.get(third.id).state == "pending"


async def test_a_released_wake_keeps_its_attempt(world, schedule):
    record = await schedule(key="k")
    running = await world.wakes.claim(record.id)
    await world.wakes.release(running)
    assert world.wakes.get(record.id) == record
    assert (await world.wakes.claim(record.id)).attempt == 1


async def test_a_dead_claim_counts_as_an_attempt_and_three_are_enough(world, natives, schedule):
    record = await schedule()
    for boot in (1, 2, 3):
        life = World(world.engine, natives, world.clock, boot=boot)
        await life.wakes.load()
        running = await life.wakes.claim(record.id)
        assert (running.attempt, running.claim) == (boot, f"boot-{boot}")
    life = World(world.engine, natives, world.clock, boot=4)
    exhausted = await life.wakes.claim(record.id)
    assert life.wakes.is_exhausted(exhausted)
    assert life.wakes.get(record.id).claim == "boot-3"


async def test_loading_finds_pending_and_running(world, natives, schedule):
    records = [await schedule(START_MS + at) for at in (3000, 1000, 2000)]
    await world.wakes.claim(records[0].id)
    life = World(world.engine, natives, world.clock, boot=2)
    await life.wakes.load()
    assert [due.id for due in life.wakes.due.first(9)] == [records[one].id for one in (1, 2, 0)]
    assert life.wakes.statistics().stored == 3


async def test_forgetting_an_agent_removes_its_wakes(world, natives, schedule):
    await schedule(key="k")
    other = natives.add_agent("other")
    kept = await world.wakes.schedule(other.id, "clockwork", START_MS)
    await world.engine.commit(world.wakes.forget_writes(natives.me.id))
    world.wakes.forgotten(natives.me.id)
    assert world.wakes.wakes_of(natives.me.id) == []
    assert [due.id for due in world.wakes.due.first(9)] == [kept.id]
    assert world.wakes.statistics().stored == 1
    assert world.engine.scan_keys("wake", b"", None, 100) == world.engine.scan_keys("wake")
    assert len(world.engine.scan_keys("wake")) == 3  # its record, its instant, its owner


async def test_a_wake_within_a_minute_inherits_the_chain(schedule):
    chain = Chain(new_id(), started_ms=START_MS)
    soon = await schedule(START_MS + 59_000, chain=chain, depth=2)
    later = await schedule(START_MS + 60_000, chain=chain, depth=2)
    assert (soon.chain.id, soon.chain.depth) == (chain.id, 3)
    assert later.chain.id == chain.id  # as the parent of its own


async def test_a_chain_at_its_end_schedules_nothing_soon(schedule):
    chain = Chain(new_id(), started_ms=START_MS)
    with pytest.raises(ChainSpent, match="depth 9 is beyond the chain's 8"):
        await schedule(START_MS + 1000, chain=chain, depth=8)
    await schedule(START_MS + 60_000, chain=chain, depth=8)


async def test_locks_are_gone_when_nobody_holds_them(world, schedule):
    record = await schedule(key="k", limit=9)
    await world.wakes.cancel(record.id)
    assert len(world.wakes._locks) == 0


async def test_upcoming_are_the_first_of_everybody_that_have_not_ended(world, natives, schedule):
    other = natives.add_agent("other")
    late = await schedule(START_MS + 9000)
    soon = await world.wakes.schedule(other.id, "clockwork", START_MS + 1000)
    assert list(world.wakes.upcoming(10)) == [soon, late]
    assert list(world.wakes.upcoming(1)) == [soon]
    world.wakes.due.pop_due(START_MS + 10_000, 10)  # they are due, and wait for their turn
    running = await world.wakes.claim(soon.id)
    assert list(world.wakes.upcoming(10)) == [running, late]
    statistics = world.wakes.statistics()
    assert (statistics.stored, statistics.running) == (2, 1)


async def test_the_first_of_a_harness_are_looked_for_among_its_own(world, natives, schedule):
    natives.add("another", "on_wake")
    natives.add("zebra", "on_wake")
    other = natives.add_agent("other")
    for n in range(5):
        await schedule(START_MS + n * 1000)
    first = await world.wakes.schedule(other.id, "zebra", START_MS + 6000)
    second = await world.wakes.schedule(natives.me.id, "zebra", START_MS + 7000)
    await world.wakes.schedule(natives.me.id, "another", START_MS + 9000)
    everybody = [natives.me.id, other.id]
    assert list(world.wakes.upcoming(3, everybody, "zebra")) == [first, second]
    assert list(world.wakes.upcoming(1, everybody, "zebra")) == [first]
    soonest = list(world.wakes.upcoming(5, [natives.me.id]))
    assert [one.at_ms for one in soonest] == [START_MS + n * 1000 for n in range(5)]
    assert world.wakes.wakes_of(natives.me.id, limit=5) == soonest
