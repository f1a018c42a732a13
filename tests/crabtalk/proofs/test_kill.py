"""`kill -9` at random moments under load: after each restart, all that was acknowledged is compared.

Clients keep a journal of what the daemon said yes to, and the guest writes down when it began to run each
wake and each event. Some of the kills hit the daemon while it starts. At the end each occurrence has one row
of the audit, and each run of one beyond its first has a kill before it.
"""

import contextlib
import hashlib
import itertools
import random
import threading
import time
from bisect import bisect_right
from collections import Counter, defaultdict
from typing import NamedTuple

import pytest

from crabtalk.errors import CrabtalkError, RequestError
from crabtalk.store.checking import check_records
from crabtalk.store.interfaces.audit import Audit
from crabtalk.store.opening import open_store
from daemons import running_daemon
from guest_images import image
from proving import HARNESS, HOUR_MS, call, crabtalk, declare, now_ms, put, refused, runs, settle

CLIENTS = 4
MOST_LATER = 400  # wakes that are pending when the next life begins
SOURCE = "load:news"
GIVEN_UP = "the daemon ended 3 times while it ran"
STARTS_S = 2.0  # about how long a start takes


class Life(NamedTuple):
    """From before a daemon was started until after it was gone."""

    start_ms: int
    end_ms: int


class Journal:
    """What the daemon has acknowledged."""

    def __init__(self):
        self.lock = threading.Lock()
        self.numbers = itertools.count(1)
        self.soon = set()  # ids of wakes
        self.later = set()
        self.cancelled = set()
        self.kept = {}  # key -> value, each written once
        self.attempted = Counter()  # client -> the last value that it tried to write into its one key
        self.counted = Counter()  # client -> the last one that was acknowledged
        self.subscribed = set()
        self.unsubscribed = set()
        self.images = {}
        self.removed = set()
        self.events = 0
        self.answers = 0
        self.wrong = []
        self.lives = []


class Client:
    """Asks for random things in a thread of its own until the daemon is gone."""

    def __init__(self, daemon, agent, journal, name, seed):
        self.agent, self.journal, self.name = agent, journal, name
        self.random = random.Random(seed)
        self.client = daemon.client()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        kinds = [self.wake_soon] * 5 + [self.guest_wakes] * 2 + [self.keep] * 3 + [self.count] * 3
        kinds += [self.publish] * 2 + [self.wake_later, self.cancel, self.say, self.subscription, self.image]
        with self.client:
            try:
                while True:
                    with refused(429):  # as many as there may be
                        self.random.choice(kinds)()
                    self.journal.answers += 1
            except RequestError as error:
                self.journal.wrong.append(repr(error))
            except CrabtalkError:
                pass  # it is gone

    def schedule(self, at_ms, rounds=0):
        payload = b"%d" % rounds
        return self.client.schedule_wake(agent=self.agent, harness=HARNESS, at_ms=at_ms, payload=payload).id

    def wake_soon(self):
        rounds = self.random.choice([0, 1000, 100_000, 10_000_000])
        self.journal.soon.add(self.schedule(now_ms() + self.random.randrange(1000), rounds))

    def guest_wakes(self):
        at_ms = now_ms() + self.random.randrange(1000)
        self.journal.soon.add(call(self.client, self.agent, "wake_me", at_ms=at_ms))

    def wake_later(self):
        self.journal.later.add(self.schedule(now_ms() + HOUR_MS))

    def cancel(self):
        wake = self.schedule(now_ms() + HOUR_MS)
        self.client.cancel_wake(id=wake)
        self.journal.cancelled.add(wake)

    def keep(self):
        key = f"kept/{next(self.journal.numbers)}"
        value = str(self.random.random()) * self.random.randrange(1, 100)
        call(self.client, self.agent, "keep", key=key, value=value)
        self.journal.kept[key] = value

    def count(self):
        self.journal.attempted[self.name] += 1
        value = self.journal.attempted[self.name]
        call(self.client, self.agent, "keep", key=f"counted/{self.name}", value=str(value))
        self.journal.counted[self.name] = value

    def publish(self):
        self.client.publish_event(source=SOURCE, payload="x" * self.random.randrange(2000))
        with self.journal.lock:
            self.journal.events += 1

    def say(self):
        assert call(self.client, self.agent, "say", text="so") == "so"

    def subscription(self):
        source = f"quiet:s{next(self.journal.numbers)}"
        made = self.client.subscribe_event(source=source, target_harness=f"{self.agent}/{HARNESS}").id
        if self.random.random() < 0.7 or len(self.journal.subscribed) > 100:
            self.client.unsubscribe_event(id=made)
            self.journal.unsubscribed.add(made)
        else:
            self.journal.subscribed.add(made)

    def image(self):
        # Bytes behind what the ELF file describes: another image that does the same.
        number = next(self.journal.numbers)
        name, elf = f"image-{number}", image("ledger") + number.to_bytes(8, "little")
        put(self.client, name, elf)
        if self.random.random() < 0.7 or len(self.journal.images) > 50:
            self.client.remove_harness(name=name)
            self.journal.removed.add(name)
        else:
            self.journal.images[name] = hashlib.sha256(elf).hexdigest()


def lost(client, agent, journal):
    """Compare the journal with a daemon that has just started; say what is not as it was acknowledged."""
    listed = {wake.id for wake in client.list_wakes(agent=agent).wakes}
    ran = {run.subject for run in runs(client, agent, "ran")}  # after that: what is in neither was lost
    kept = dict(line.split(" ") for line in call(client, agent, "list", prefix="kept/").splitlines())
    counted = dict(line.split(" ") for line in call(client, agent, "list", prefix="counted/").splitlines())
    subscribed = {one.id for one in client.list_subscriptions().subscriptions}
    images = {one.name: one.sha256 for one in client.list_harnesses().harnesses}
    wrong = {
        "wakes lost": unexplained(client, journal.soon - listed - ran),
        "later wakes lost": journal.later - listed,
        "later wakes ran": journal.later & ran,
        "cancelled wakes there": journal.cancelled & (listed | ran),
        "keys lost": {key for key, value in journal.kept.items() if kept.get(key) != value},
        "counters": {
            name: counted.get(f"counted/{name}")
            for name, value in journal.counted.items()
            if not value <= int(counted.get(f"counted/{name}", 0)) <= journal.attempted[name]
        },
        "subscriptions lost": journal.subscribed - subscribed,
        "subscriptions back": journal.unsubscribed & subscribed,
        "images lost": {name for name, sha256 in journal.images.items() if images.get(name) != sha256},
        "images back": journal.removed & images.keys(),
    }
    return {what: found for what, found in wrong.items() if found}


def unexplained(client, wakes):
    """Return these wakes unless as many were given up: three times claimed, and killed before they ended."""
    if not wakes:
        return wakes
    rows = client.list_invocations(limit=10_000, harness=HARNESS).invocations
    given_up = [row for row in rows if row.trigger == "wake" and GIVEN_UP in row.message]
    return wakes if len(given_up) < len(wakes) else set()


def damage(home):
    """Look at the file as it was left."""
    with open_store(home.store_file, create=False, read_only=True) as store:
        return store.check() or check_records(store)


def start(daemon, journal, chance):
    """Start it; sometimes it is killed meanwhile, and started again."""
    while chance.random() < 0.25:
        began, old = now_ms(), daemon.process
        killer = threading.Thread(target=kill_soon, args=(daemon, old, chance.uniform(0.0, STARTS_S)))
        killer.start()
        with contextlib.suppress(RuntimeError):
            daemon.start()
        killer.join()
        if daemon.running:
            daemon.kill()
        journal.lives.append(Life(began, now_ms()))
    journal.lives.append(Life(now_ms(), 0))
    daemon.start()


def kill_soon(daemon, old, after_s):
    while daemon.process is old:
        time.sleep(0.001)
    time.sleep(after_s)
    daemon.process.kill()


def kill(daemon, journal):
    daemon.kill()
    journal.lives[-1] = journal.lives[-1]._replace(end_ms=now_ms())


def one_life(daemon, agent, journal, chance):
    """Load it for a moment, pull the plug, start it again and compare."""
    seeds = [chance.random() for _ in range(CLIENTS)]
    clients = [Client(daemon, agent, journal, number, seed) for number, seed in enumerate(seeds)]
    time.sleep(chance.uniform(0.02, 0.8))
    kill(daemon, journal)
    for one in clients:
        one.thread.join(30)
        assert not one.thread.is_alive()
    assert journal.wrong == []
    if chance.random() < 0.3:
        assert damage(daemon.home) == []
    start(daemon, journal, chance)
    with daemon.client() as client:
        found = lost(client, agent, journal)
        assert found == {}, found
        while len(journal.later) > MOST_LATER:  # a list of wakes has a bound
            wake = journal.later.pop()
            client.cancel_wake(id=wake)
            journal.cancelled.add(wake)


def check_runs(noted, rows, lives):
    """Check the runs of wakes or events: one row for each, and a kill between any two runs of one."""
    by_subject = defaultdict(list)
    for run in noted:
        by_subject[run.subject].append(run)
    repeated = 0
    for subject, found in by_subject.items():
        for one, next_one in itertools.pairwise(found):
            repeated += 1
            assert any(one.at_ms <= life.end_ms <= next_one.at_ms for life in lives[:-1]), found
        (row,) = rows[subject]
        if row.trigger == "wake":
            attempts = [run.attempt for run in found]
            assert attempts == sorted(set(attempts)), found
            assert attempts[-1] == row.attempt or row.message == GIVEN_UP, (found, row)
        else:
            assert len(found) <= row.attempt, (found, row)
    assert [found for found in rows.values() if len(found) != 1] == []
    ended = [row for (row,) in rows.values()]
    assert [row for row in ended if row.outcome != "done" and GIVEN_UP not in row.message] == []
    assert {row.subject for row in ended if row.outcome == "done"} - by_subject.keys() == set()
    return repeated


def check_boots(rows, lives):
    """Check that the epochs of one life of the daemon carry one boot's number, and that these ascend."""
    starts, boots = [life.start_ms for life in lives], defaultdict(set)
    for row in rows:
        if row.epoch is not None:
            boots[bisect_right(starts, row.started_ms)].add(row.epoch >> 32)
    numbers = [boots[life] for life in sorted(boots)]
    assert {len(found) for found in numbers} == {1}, boots
    assert all(a < b for (a,), (b,) in itertools.pairwise(numbers)), boots


def check_end(daemon, agent, journal):
    with daemon.client() as client:
        time.sleep(1.1)  # the last wakes are due now
        settle(client)
        found = lost(client, agent, journal)
        assert found == {}, found
        ran, heard = runs(client, agent, "ran"), runs(client, agent, "heard")
    assert daemon.stop() == 0
    checked = crabtalk(daemon.home, "store", "check")
    assert (checked.returncode, checked.stdout) == (0, ""), checked
    with open_store(daemon.home.store_file) as store:
        rows = Audit(store).since(0, 10_000_000)
    by_subject = {"wake": defaultdict(list), "event": defaultdict(list)}
    for row in rows:
        if row.subject:
            by_subject[row.trigger][row.subject].append(row)
    assert journal.soon - by_subject["wake"].keys() == set()
    assert len(by_subject["event"]) >= journal.events
    again = check_runs(ran, by_subject["wake"], journal.lives)
    again += check_runs(heard, by_subject["event"], journal.lives)
    check_boots(rows, journal.lives)
    given_up = [row for row in rows if GIVEN_UP in row.message]
    return (
        f"{len(journal.lives) - 1} kills, {journal.answers} answers: {len(journal.soon)} wakes and"
        f" {journal.events} events, {again} of them run again after a kill, {len(given_up)} given up after"
        f" three kills; {len(journal.kept)} keys"
    )


@pytest.mark.parametrize("kills", [6, pytest.param(200, marks=pytest.mark.soak)])
def test_nothing_acknowledged_is_lost_and_nothing_runs_twice(kills, capsys):
    seed = random.randrange(1 << 30)
    chance, journal = random.Random(seed), Journal()
    try:
        with running_daemon() as daemon:
            journal.lives.append(Life(now_ms() - 60_000, 0))
            with daemon.client() as client:
                agent = declare(client)
                client.subscribe_event(source=SOURCE, target_harness=f"{agent}/{HARNESS}")
            while len(journal.lives) <= kills:
                one_life(daemon, agent, journal, chance)
            said = check_end(daemon, agent, journal)
    except BaseException:
        print(f"seed {seed}")
        raise
    if kills > 100:
        with capsys.disabled():
            print(f"\n{said} (seed {seed})")
