"""Pulling the plug under load: what was acknowledged is there, and each occurrence has one row."""

import contextlib
import hashlib
import itertools
import json
import random
import threading
import time
from collections import Counter

import pytest

from crabtalk.errors import CrabtalkError
from crabtalk.store.interfaces.audit import Audit
from crabtalk.store.interfaces.harnesses import Harnesses
from crabtalk.store.interfaces.sessions import Sessions
from crabtalk.store.interfaces.subscriptions import Subscriptions
from crabtalk.store.interfaces.wakes import Wakes
from crabtalk.store.opening import open_store
from daemons import running_daemon
from guest_images import image

HOUR_MS = 3_600_000
CLIENTS = 4
SOURCE = "load:news"


def now_ms():
    return time.time_ns() // 1_000_000


class Acknowledged:
    """What the daemon has said yes to."""

    def __init__(self):
        self.soon = set()  # ids of wakes that are due by now
        self.later = set()
        self.cancelled = set()
        self.replaced = {}  # key -> id of its newest wake
        self.subscriptions = set()
        self.sessions = set()
        self.images = set()
        self.events = 0
        self.lock = threading.Lock()


class Load:
    """One client that asks for random things until the daemon is gone."""

    def __init__(self, daemon, agent, said, seed, numbers):
        self.random = random.Random(seed)
        self.agent = agent
        self.said = said
        self.numbers = numbers
        self.client = daemon.client()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        kinds = [self.wake_soon] * 6 + [self.wake_later, self.replace, self.cancel, self.publish, self.call]
        kinds += [self.session, self.subscribe, self.image]
        with self.client, contextlib.suppress(CrabtalkError):
            while True:
                self.random.choice(kinds)()

    def schedule(self, at_ms, key=None):
        return self.client.schedule_wake(
            agent=self.agent, harness="alarm", at_ms=at_ms, payload=b"{}", key=key
        ).id

    def wake_soon(self):
        self.said.soon.add(self.schedule(now_ms() + self.random.randrange(1500)))

    def wake_later(self):
        self.said.later.add(self.schedule(now_ms() + HOUR_MS))

    def replace(self):
        key = f"key-{self.random.randrange(4)}"
        with self.said.lock:  # so that we know which one came last
            self.said.replaced[key] = None  # either it or its successor is there, if we do not hear of it
            self.said.replaced[key] = self.schedule(now_ms() + HOUR_MS, key)

    def cancel(self):
        wake = self.schedule(now_ms() + HOUR_MS)
        self.client.cancel_wake(id=wake)
        self.said.cancelled.add(wake)

    def publish(self):
        self.client.publish_event(source=SOURCE, payload="x" * self.random.randrange(2000))
        with self.said.lock:
            self.said.events += 1

    def call(self):
        self.client.call_tool(agent=self.agent, harness="alarm", tool="say", args=b'{"text": "x"}')

    def session(self):
        handle = f"s{next(self.numbers)}"
        self.client.create_session(session_handle=handle, agent=self.agent)
        self.said.sessions.add(handle)

    def subscribe(self):
        if len(self.said.subscriptions) < 40:
            source = f"other:s{next(self.numbers)}"
            made = self.client.subscribe_event(source=source, target_harness=f"{self.agent}/alarm")
            self.said.subscriptions.add(made.id)

    def image(self):
        if len(self.said.images) < 20:
            # Bytes behind what the ELF file describes: another image that does the same.
            elf = image("alarm") + next(self.numbers).to_bytes(8, "little")
            name = f"image-{next(self.numbers)}"
            sha256 = hashlib.sha256(elf).hexdigest()
            self.client.put_harness(name=name, elf=elf, sha256=sha256)
            self.said.images.add((name, sha256))


def declare(daemon):
    with daemon.client() as client:
        elf = image("alarm")
        client.put_harness(name="alarm", elf=elf, sha256=hashlib.sha256(elf).hexdigest())
        declared = {"name": "alarm", "schedule": 100_000, "topics": ["alarm:*"], "concurrency": 64}
        agent = client.create_agent(name="ann", config=json.dumps({"harnesses": [declared]})).id
        client.subscribe_event(source=SOURCE, target_harness=f"{agent}/alarm")
    return agent


def settle(daemon):
    """Wait until all that was due has run and all that was published has arrived."""
    with daemon.client() as client:
        ends = time.monotonic() + 120
        while time.monotonic() < ends:
            busy = client.list_running().invocations
            due = [one for one in client.list_wakes().wakes if one.at_ms <= now_ms()]
            if not busy and not due:
                time.sleep(0.3)
                if not client.list_running().invocations:
                    return
            time.sleep(0.1)
    raise AssertionError("it did not settle")


def cut(daemon, cycles, seed):
    said, numbers, chance = Acknowledged(), itertools.count(), random.Random(seed)
    agent = declare(daemon)
    for cycle in range(cycles):
        loads = [Load(daemon, agent, said, f"{seed}/{cycle}/{n}", numbers) for n in range(CLIENTS)]
        time.sleep(chance.uniform(0.05, 1.5))
        daemon.kill()
        for load in loads:
            load.thread.join(30)
            assert not load.thread.is_alive()
        daemon.start()
    time.sleep(2.5)  # the last of those that are due soon are due now
    settle(daemon)
    assert daemon.stop() == 0
    return agent, said


def verify(home, agent, said):
    with open_store(home.store_file) as store:
        assert store.check() == []
        wakes, rows = Wakes(store), Audit(store).since(0, 10_000_000)
        ran = Counter(row.subject for row in rows if row.trigger == "wake")
        heard = Counter(row.subject for row in rows if row.trigger == "event")
        stored = {record.id for record in wakes.by_owner(agent, None)}
        keyed = {record.key: record.id for record in wakes.by_owner(agent, None) if record.key}
        assert {wake: count for wake, count in ran.items() if count != 1} == {}
        assert {event: count for event, count in heard.items() if count != 1} == {}
        assert said.soon - ran.keys() == set()
        assert said.soon & stored == set()
        assert said.later - stored == set()
        assert said.cancelled & (stored | ran.keys()) == set()
        assert {key: one for key, one in said.replaced.items() if one and keyed.get(key) != one} == {}
        assert len(heard) >= said.events
        assert all((row.attempt or 1) <= 3 for row in rows)
        handles = {record.handle for record in Sessions(store).of_agent(agent)}
        assert said.sessions - handles == set()
        assert said.subscriptions - {record.id for record in Subscriptions(store).all()} == set()
        images = Harnesses(store)
        assert {(name, sha256) for name, sha256 in said.images if images.get(name).sha256 != sha256} == set()
        for _, sha256 in said.images:
            assert hashlib.sha256(images.elf(sha256)).hexdigest() == sha256
    return len(rows), len(said.soon), said.events


@pytest.mark.parametrize("cycles", [3, pytest.param(200, marks=pytest.mark.soak)])
def test_nothing_acknowledged_is_lost_and_nothing_happens_twice(cycles, capsys):
    seed = random.randrange(1 << 30)
    with running_daemon() as daemon:
        agent, said = cut(daemon, cycles, seed)
        rows, wakes, events = verify(daemon.home, agent, said)
    with capsys.disabled():
        if cycles > 3:
            print(f"\n{cycles} cuts (seed {seed}): {rows} rows, {wakes} wakes ran, {events} events arrived")
