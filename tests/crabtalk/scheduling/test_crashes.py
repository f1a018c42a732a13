"""The power fails between every pair of steps: nothing acknowledged is lost, and what happens has one row."""

from collections import Counter

import pytest
import trio

from crabtalk.store.interfaces.audit import Audit
from crabtalk.store.sqlite import SqliteEngine
from crabtalk.tools import Failed
from waking import FailingEngine, MovedClock, Natives, PowerCut, World

pytestmark = pytest.mark.trio

COMMITS = 27  # of a life without a failure; a test counts them


class Story:
    """What is done in a first life, and what was acknowledged of it."""

    def __init__(self):
        self.natives = Natives()
        self.me = self.natives.add_agent("me")
        self.natives.add("clockwork", "on_wake", act=self.on_wake)
        self.natives.add("listener", "on_notify", act=self.on_notify)
        self.life = 0
        self.world = None
        self.wakes = {}  # acknowledged: id -> key
        self.cancelled = set()
        self.events = []  # acknowledged
        self.runs = Counter()  # (life, subject)

    async def on_wake(self, seen):
        self.runs[self.life, seen.argument["id"]] += 1
        if seen.payload == b"again":
            await self.schedule(0, b"once more", "k")
        if seen.payload == b"tell":
            event = await self.world.bus.publish("told:by:wake", "from a wake")
            self.events.append(event.id)
        return Failed("no") if seen.payload == b"fail" else None

    async def on_notify(self, seen):
        self.runs[self.life, seen.argument["id"]] += 1

    async def schedule(self, at_ms, payload, key=None):
        record = await self.world.wakes.schedule(self.me.id, "clockwork", at_ms, payload, key)
        self.wakes[record.id] = key

    async def begin(self):
        await self.world.bus.subscribe("told:*", target_harness=(self.me.id, "listener"))
        for number in range(3):
            event = await self.world.bus.publish("told:first", str(number))
            self.events.append(event.id)
        await self.schedule(0, b"again", "k")
        await self.schedule(0, b"fail")
        await self.schedule(0, b"tell")
        far = await self.world.wakes.schedule(self.me.id, "clockwork", 10**13, b"never")
        self.cancelled.add(far.id)
        await self.world.wakes.cancel(far.id)

    def is_quiet(self):
        return self.world.wakes.statistics().stored == 0 and self.world.bus.statistics().waiting == 0

    async def live(self, path, fail_at, *, after=False):
        """Live until everything is quiet or the power fails; report the commits, and whether it failed."""
        self.life += 1
        inner = SqliteEngine(path)
        engine = FailingEngine(inner, fail_at, after=after)
        try:
            with trio.fail_after(20):
                await self._live(engine)
        except* PowerCut:
            pass
        finally:
            inner.close()
        return engine.commits, engine.failed

    async def _live(self, engine):
        self.world = World(engine, self.natives, MovedClock(), boot=self.life)
        async with self.world.alive():
            if self.life == 1:
                await self.begin()
            for record in self.world.wakes.wakes_of(self.me.id):
                if record.payload == b"never":  # whose cancelling was not acknowledged
                    await self.world.wakes.cancel(record.id)
            await self.world.until(self.is_quiet, 10)
            await self.world.stop()

    def check(self, path):
        engine = SqliteEngine(path)
        try:
            rows = list(reversed(Audit(engine).latest(1000)))
            keys = engine.scan_keys("wake")
            problems = engine.check()
        finally:
            engine.close()
        assert problems == []
        assert keys == []
        by_subject = Counter(row.subject for row in rows)
        assert max(by_subject.values(), default=0) <= 1, "an occurrence has two rows"
        for event in self.events:
            assert by_subject[event] == 1, "an acknowledged event was not delivered"
        for wake, key in self.wakes.items():
            replaced = key is not None and list(self.wakes.values()).count(key) > 2
            assert by_subject[wake] == 1 or replaced, "an acknowledged wake did not run"
        assert not self.cancelled & by_subject.keys()
        assert set(self.runs.values()) <= {1}, "something ran twice in one life"
        first = [row.started_ms for row in rows if row.subject in self.events[:3]]
        assert first == sorted(first)


async def test_a_life_without_a_failure(tmp_path):
    story = Story()
    commits, failed = await story.live(tmp_path / "store.db", None)
    assert (commits, failed) == (COMMITS, False)
    story.check(tmp_path / "store.db")
    assert len(story.wakes) == 4
    assert len(story.events) == 4


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("fail_at", range(1, COMMITS + 1))
async def test_the_power_fails_at_a_commit(tmp_path, fail_at, after):
    story = Story()
    _, failed = await story.live(tmp_path / "store.db", fail_at, after=after)
    assert failed
    _, failed = await story.live(tmp_path / "store.db", None)
    assert not failed
    story.check(tmp_path / "store.db")


@pytest.mark.parametrize("first", [9, 12, 15, 18, 21])
@pytest.mark.parametrize("second", [1, 2, 3, 4, 5])
async def test_the_power_fails_twice(tmp_path, first, second):
    story = Story()
    await story.live(tmp_path / "store.db", first, after=True)
    await story.live(tmp_path / "store.db", second, after=bool(second % 2))
    _, failed = await story.live(tmp_path / "store.db", None)
    assert not failed
    story.check(tmp_path / "store.db")
