"""The pure decisions: what starts, what waits for what, and how long nothing changes."""

import random

import pytest

from crabtalk.ids import new_id
from crabtalk.scheduling.backlog import Backlog, Pace
from crabtalk.scheduling.due_set import DueSet
from crabtalk.store.interfaces.wakes import WakeRecord

NOW = 1_800_000_000_000


class Wakes:
    """Wakes by id, and a backlog over them."""

    def __init__(self, **pace):
        self.records = {}
        self.due = DueSet()
        self.backlog = Backlog(self.due, Pace(**pace), self.records.get)

    def add(self, after_s=0.0, agent="a", harness="h", key=None):
        record = WakeRecord(new_id(), agent, harness, NOW + int(after_s * 1000), b"", key)
        self.records[record.id] = record
        self.due.add(record.at_ms, record.id)
        return record.id

    def take(self, after_s=0.0, at=None):
        return self.backlog.take(NOW + int(after_s * 1000), after_s if at is None else at)

    def ids(self, after_s=0.0):
        return [item.id for item in self.take(after_s)]


def test_nothing_is_due_before_its_instant():
    wakes = Wakes()
    wake = wakes.add(10)
    assert wakes.take(9.999) == []
    assert wakes.backlog.wait_s(NOW + 9999, 9.999) == pytest.approx(0.001)
    assert wakes.ids(10) == [wake]


def test_without_wakes_there_is_nothing_to_wait_for():
    wakes = Wakes()
    assert wakes.take() == []
    assert wakes.backlog.wait_s(NOW, 0.0) is None


def test_a_sleep_is_bounded():
    wakes = Wakes()
    wakes.add(10_000)
    wakes.take()
    assert wakes.backlog.wait_s(NOW, 0.0) == 30.0


@pytest.mark.parametrize(("workers", "share"), [(1, 1), (2, 1), (4, 3), (64, 48)])
def test_one_agent_leaves_some_workers_to_others(workers, share):
    wakes = Wakes(workers=workers)
    for _ in range(100):
        wakes.add()
    assert len(wakes.take()) == share


def test_full_workers_wait_for_one_of_them_only():
    wakes = Wakes(workers=2, per_agent=2)
    for _ in range(3):
        wakes.add()
    items = wakes.take()
    assert len(items) == 2
    assert wakes.take(1) == []
    assert wakes.backlog.wait_s(NOW + 1000, 1.0) is None
    wakes.backlog.finish(items[0])
    assert len(wakes.take(1)) == 1


def test_wakes_that_are_gone_are_passed_over():
    wakes = Wakes(workers=2)
    gone = [wakes.add() for _ in range(500)]
    left = wakes.add()
    for one in gone:
        del wakes.records[one]
    found = []
    for _ in range(20):
        found += wakes.ids()
        if wakes.backlog.wait_s(NOW, 0.0) not in {0.0, 0.002}:
            break
    assert found == [left]


def test_agents_take_turns():
    wakes = Wakes(workers=6, per_agent=6)
    for agent in "aaaabb":
        wakes.add(agent=agent)
    assert [item.agent_id for item in wakes.take()] == ["a", "b", "a", "b", "a", "a"]


def test_an_agent_has_its_share_of_workers_only():
    wakes = Wakes(workers=4, per_agent=2)
    for _ in range(9):
        wakes.add()
    first = wakes.take()
    assert len(first) == 2
    wakes.add(agent="b")
    assert [item.agent_id for item in wakes.take()] == ["b"]
    wakes.backlog.finish(first[0])
    assert len(wakes.take()) == 1


def test_a_step_reads_a_bounded_number_of_records_and_goes_on():
    wakes = Wakes(workers=4, per_agent=2)
    for _ in range(1000):
        wakes.add()
    wakes.add(agent="b")
    steps, found = 0, []
    while True:
        found += wakes.take()
        steps += 1
        if wakes.backlog.wait_s(NOW, 0.0) not in {0.0, 0.002}:
            break
    assert 1000 / 64 <= steps <= 1000 / 64 + 2
    assert [item.agent_id for item in found] == ["a", "a", "b"]
    assert wakes.backlog.spilled(NOW) == 998


@pytest.mark.parametrize("blocked", [False, True])
@pytest.mark.parametrize("after_s", [-1000, 0])
def test_very_many_of_one_agent_are_read_once_and_hold_nobody_up(blocked, after_s):
    wakes = Wakes(workers=4, per_agent=2, late_burst=100)
    for n in range(10_000):
        wakes.add(after_s, key=f"k{n}")
    other = wakes.add(after_s + 1, agent="b")
    reads = []
    wakes.backlog._find = lambda wake_id: reads.append(wake_id) or wakes.records.get(wake_id)
    started, steps = [], 0
    now_s = at = 1.0
    while other not in started:
        items = wakes.take(now_s, at)
        steps += 1
        started += [item.id for item in items]
        for item in items:
            if blocked and item.agent_id == "a":
                wakes.backlog.block(item, at)
        if other not in started:
            at += wakes.backlog.wait_s(NOW + int(now_s * 1000), at)
    assert steps < 10_001 / 64 + 10
    assert at < 5.0
    backlog = wakes.backlog
    assert len(backlog._on_time) + len(backlog._late) <= 64
    assert (backlog.blocked if blocked else backlog.spilled(NOW + 1000) + 2) == 10_000
    known = len(reads)
    assert known <= 10_001
    wakes.take(now_s, at)
    assert len(reads) == known  # nothing is looked for while nothing can start
    assert backlog.wait_s(NOW + 1000, at) is None or backlog.wait_s(NOW + 1000, at) > 1.0


def test_late_ones_of_one_agent_that_has_room_hold_nobody_up():
    wakes = Wakes()
    for _ in range(5000):
        wakes.add(-2000)
    other = wakes.add(-1000, agent="b")
    started, at = [], 0.0
    while other not in started:
        for item in wakes.take(at=at):
            started.append(item.id)
            wakes.backlog.finish(item)
        at += max(wakes.backlog.wait_s(NOW, at), 0.01)
    assert at < 10  # and not the 100 s that all before it take at 50 a second


def test_what_was_put_aside_takes_its_turns_when_there_is_room():
    wakes = Wakes(workers=4, per_agent=2)
    ids = [wakes.add(n / 1000) for n in range(1000)]
    found, items = [], []
    for _ in range(5000):
        for item in items:
            wakes.backlog.finish(item)
        items = wakes.take(1)
        found += [item.id for item in items]
        if len(found) == 1000:
            break
    assert sorted(found) == sorted(ids)
    assert wakes.backlog.spilled(NOW + 1000) == 0


def test_one_key_of_one_harness_flies_once():
    wakes = Wakes()
    first = wakes.add(key="k")
    second = wakes.add(key="k")
    other = wakes.add(key="k", harness="other")
    third = wakes.add(key="k")
    items = wakes.take()
    assert [item.id for item in items] == [first, other]
    assert wakes.backlog.spilled(NOW) == 2
    wakes.backlog.finish(items[0])
    (again,) = wakes.take()
    assert again.id == second
    wakes.backlog.finish(again)
    assert wakes.ids() == [third]


def test_late_ones_are_paced_and_those_on_time_are_not():
    wakes = Wakes(late_per_s=2, late_burst=3)
    for _ in range(10):
        wakes.add(-1000)
    on_time = [wakes.add() for _ in range(5)]
    assert len(wakes.take()) == 8
    assert not set(on_time) & {due.id for due in wakes.due.first(100)}
    assert wakes.take(0.4) == []
    assert wakes.backlog.wait_s(NOW + 400, 0.4) == pytest.approx(0.1)
    assert len(wakes.take(0.5)) == 1
    assert len(wakes.take(2.5)) == 3  # the burst bounds what a pause saves up


def test_postponed_ones_come_back_first():
    wakes = Wakes(workers=1)
    first, second = wakes.add(), wakes.add()
    (item,) = wakes.take()
    assert item.id == first
    wakes.backlog.postpone(item, 5.0)
    assert wakes.ids() == [second]
    wakes.backlog.finish(wakes.backlog._running[second])
    assert wakes.take() == []
    assert wakes.backlog.wait_s(NOW, 0.0) == 5.0
    assert wakes.ids(5) == [first]


def test_a_blocked_harness_holds_its_wakes_together():
    wakes = Wakes(per_agent=1)
    ids = [wakes.add() for _ in range(5)]
    other = wakes.add(harness="other")
    (item,) = wakes.take()
    wakes.backlog.block(item, 0.0)
    (item,) = wakes.take()
    assert item.id == other
    wakes.backlog.finish(item)
    assert wakes.take() == []
    assert wakes.backlog.blocked == 5
    assert wakes.backlog.to_retry(59.0) == []
    assert wakes.backlog.to_retry(60.0) == [("a", "h")]
    wakes.backlog.unblock(("a", "h"))
    assert wakes.ids() == ids[:1]


def test_a_blocked_harness_is_asked_for_less_and_less_often():
    wakes = Wakes()
    wakes.add()
    wakes.backlog.block(wakes.take()[0], 0.0)
    asked, at = [], 0.0
    while at < 4000:
        at += 1.0
        if owners := wakes.backlog.to_retry(at):
            asked.append(at)
            assert wakes.backlog.keep(owners[0], at, 0) == []
    assert asked[:5] == [60, 180, 420, 900, 1500]


def test_a_change_of_the_agent_hastens_it():
    wakes = Wakes()
    wakes.add()
    wakes.backlog.block(wakes.take()[0], 0.0)
    wakes.backlog.hasten("b", 1.0)
    assert wakes.backlog.to_retry(1.0) == []
    wakes.backlog.hasten("a", 1.0)
    assert wakes.backlog.to_retry(1.0) == [("a", "h")]


def test_only_old_ones_of_a_blocked_harness_are_given_up_and_not_at_first_sight():
    wakes = Wakes(late_burst=100)
    old, young = wakes.add(-100_000), wakes.add(-10)
    for item in wakes.take():
        wakes.backlog.block(item, 0.0)
    assert wakes.backlog.keep(("a", "h"), 30.0, NOW - 86_400_000) == []
    lost = wakes.backlog.keep(("a", "h"), 60.0, NOW - 86_400_000)
    assert [item.id for item in lost] == [old]
    assert wakes.backlog.blocked == 1
    wakes.backlog.unblock(("a", "h"))
    assert wakes.ids() == [young]


def test_very_many_are_given_up_a_thousand_at_a_time():
    wakes = Wakes(late_burst=100)
    for _ in range(1500):
        wakes.add(-100_000)
    while wakes.backlog.blocked < 1500:
        for item in wakes.take():
            wakes.backlog.block(item, 0.0)
    assert wakes.backlog.to_retry(60.0) == [("a", "h")]
    assert len(wakes.backlog.keep(("a", "h"), 60.0, NOW)) == 1000
    assert wakes.backlog.to_retry(60.0) == [("a", "h")]
    assert len(wakes.backlog.keep(("a", "h"), 60.0, NOW)) == 500
    assert wakes.backlog.blocked == 0
    assert wakes.backlog.wait_s(NOW, 60.0) is None


def test_what_is_not_due_any_more_goes_back():
    wakes = Wakes(workers=1)
    first, second = wakes.add(), wakes.add()
    (item,) = wakes.take()
    assert item.id == first
    wakes.backlog.finish(item)
    assert wakes.take(-100, at=1.0) == []
    assert (NOW, second) in wakes.due
    assert wakes.ids() == [second]


def test_an_instant_of_the_first_minute_of_time_is_late():
    wakes = Wakes()
    wakes.records.clear()
    record = WakeRecord(new_id(), "a", "h", 0, b"")
    wakes.records[record.id] = record
    wakes.due.add(0, record.id)
    assert wakes.ids() == [record.id]
    assert Wakes().backlog.take(10, 0.0) == []  # a clock that is at the beginning of time itself


@pytest.mark.parametrize("seed", range(20))
def test_whatever_happens_every_wake_starts_once_and_bounds_hold(seed, monkeypatch):
    choose = random.Random(seed)
    if seed % 2:  # much is put aside
        monkeypatch.setattr("crabtalk.scheduling.backlog._HELD", 2)
        monkeypatch.setattr("crabtalk.scheduling.backlog._REFILL", 1)
    wakes = Wakes(workers=5, per_agent=3, late_per_s=3, late_burst=4)
    expected = set()
    started, running = [], []
    now_s, at = 0.0, 0.0
    for step in range(4000):
        if step < 1500 and choose.random() < 0.4:
            agent, key = choose.choice("abc"), choose.choice([None, "k", "l"])
            expected.add(wakes.add(now_s + choose.uniform(-200, 20), agent=agent, key=key))
        now_s, at = now_s + choose.uniform(-0.5, 1.5), at + 0.5
        items = wakes.take(now_s, at)
        running += items
        flights = [item.flight for item in running if item.flight]
        assert len(flights) == len(set(flights))
        assert len(running) <= 5
        assert all(sum(item.agent_id == agent for item in running) <= 3 for agent in "abc")
        assert all(item.at_ms <= NOW + int(now_s * 1000) for item in items)
        for item in list(running):
            fate = choose.random() if step < 2500 else 0.0
            if fate < 0.5:
                running.remove(item)
                started.append(item.id)
                wakes.backlog.finish(item)
            elif fate < 0.6:
                running.remove(item)
                wakes.backlog.postpone(item, at + 2)
            elif fate < 0.65:
                running.remove(item)
                wakes.backlog.block(item, at)
        for owner in wakes.backlog.to_retry(at):
            wakes.backlog.unblock(owner)
    assert len(started) == len(set(started))
    assert set(started) == expected
    assert wakes.backlog.running == wakes.backlog.blocked == wakes.backlog.spilled(NOW + 10**9) == 0
    assert len(wakes.due) == 0
