"""Hostile clients of every kind at once against the real daemon, and one client beside them that behaves.

The layer of connections has tests of its own; here are sockets, executor, store and images behind it.
"""

import contextlib
import json
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import hostile
from daemons import running_daemon
from proving import (
    HARNESS,
    HOUR_MS,
    call,
    connect,
    crabtalk,
    declare,
    now_ms,
    percentile,
    refused,
    resident_bytes,
    settle,
    until,
)

# Ten times what a machine needs that does nothing else; beside other tests this one shall not fail.
ANSWER_S = 3.0
FRESH_S = 10.0  # with all those who connect before it
# Frames that are being received may have 128 MiB in all; replies that nobody reads, 1 MiB a connection.
GROWTH_BYTES = 400 << 20
CONFIG = "tcp = {enabled = true, port = 0}\n"


class Watch:
    """Measures what a process has in memory at most, until the block ends."""

    def __init__(self, daemon):
        self.daemon = daemon
        self.most_bytes = self.first_bytes = resident_bytes(daemon)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self):
        while not self._over.wait(0.02):
            self.most_bytes = max(self.most_bytes, resident_bytes(self.daemon))

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()

    @property
    def growth_bytes(self):
        return self.most_bytes - self.first_bytes


class Client:
    """A client that behaves: calls tools, keeps values, schedules wakes; and how long each took."""

    def __init__(self, client, agent):
        self.client, self.agent = client, agent
        self.kept = []
        self.wakes = []

    def work(self, number):
        """Ask for a few things; return how long each answer took."""
        kinds = [self.client.ping, lambda: call(self.client, self.agent, "say", text="so")]
        if number % 5 == 0:
            kinds += [lambda: self.keep(number), self.schedule]
        took = []
        for ask in kinds:
            began = time.perf_counter()
            ask()
            took.append(time.perf_counter() - began)
        return took

    def keep(self, number):
        assert call(self.client, self.agent, "keep", key=f"kept/{number}", value=str(number)) == "kept"
        self.kept.append(number)

    def schedule(self):
        wake = self.client.schedule_wake(agent=self.agent, harness=HARNESS, at_ms=now_ms() + HOUR_MS)
        self.wakes.append(wake.id)

    def lost(self):
        """List what was acknowledged and is not there."""
        there = {wake.id for wake in self.client.list_wakes(agent=self.agent).wakes}
        kept = dict(
            line.split(" ") for line in call(self.client, self.agent, "list", prefix="kept/").splitlines()
        )
        return [wake for wake in self.wakes if wake not in there] + [
            number for number in self.kept if kept.get(f"kept/{number}") != str(number)
        ]


def attack(daemon, agent, seconds, seed):
    arguments = [sys.executable, hostile.__file__, str(daemon.home.root), agent, str(seconds), str(seed)]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def descriptors(daemon):
    return len(list(Path(f"/proc/{daemon.process.pid}/fd").iterdir()))


@pytest.mark.parametrize("seconds", [3, pytest.param(60, marks=pytest.mark.soak)])
def test_whoever_behaves_is_answered_beside_all_attacks_at_once(seconds, capsys):
    seed = random.randrange(1 << 30)
    with running_daemon(CONFIG) as daemon, daemon.client() as connection:
        good = Client(connection, declare(connection, "good"))
        victim = declare(connection, "victim")
        alone = [took for number in range(200) for took in good.work(number)]
        before = descriptors(daemon)
        with Watch(daemon) as watch:
            attackers = attack(daemon, victim, seconds, seed)
            beside, fresh, made = work_beside(attackers, daemon, good)
        assert {kind.split()[0] for kind in made} == set(hostile.KINDS)
        assert "guesses that were let in" not in made
        assert percentile(beside, 99) < ANSWER_S, (seed, made)
        assert fresh, (seed, made)
        assert max(fresh) < FRESH_S, (seed, made)
        assert watch.growth_bytes < GROWTH_BYTES, (seed, made)
        check_quiet(daemon, connection, before)
        with idle_connections(daemon):
            beside_idle = [took for number in range(200) for took in good.work(number)]
        assert percentile(beside_idle, 99) < ANSWER_S
        check_quiet(daemon, connection, before)
        assert good.lost() == []
        assert daemon.stop() == 0
        assert [line for line in daemon.log if "Traceback" in line or " ERROR " in line] == []
        assert crabtalk(daemon.home, "store", "check").returncode == 0
    if seconds > 10:
        with capsys.disabled():
            print(figures({"alone": alone, "beside idle": beside_idle}, beside, fresh, watch, made, seed))


@contextlib.contextmanager
def idle_connections(daemon):
    """Hold as many connections that say nothing as the attackers hold at most at once."""
    with contextlib.ExitStack() as stack:
        for _ in range(hostile.IDLE):
            stack.enter_context(connect(daemon.home.root))
        time.sleep(0.5)  # as the attackers do
        yield


def work_beside(attackers, daemon, good):
    """Work until the attackers are done; return how long answers and new clients took, and what was done."""
    beside, fresh, number = [], [], 1000
    while attackers.poll() is None:
        beside += good.work(number)
        if number % 20 == 0:
            began = time.perf_counter()
            with refused(429), daemon.client() as client:  # there may be as many as there may be
                client.ping()
                fresh.append(time.perf_counter() - began)
        number += 1
    said, errors = attackers.communicate()
    assert (attackers.returncode, errors) == (0, ""), errors
    return beside, fresh, json.loads(said)


def check_quiet(daemon, client, before):
    """Check that nothing of the attackers is left: nothing runs, and their sockets are closed."""
    with refused(429):
        settle(client, 30)
    until(lambda: client.get_stats().running == 0, 30)
    until(lambda: descriptors(daemon) <= before, 30)


def figures(others, beside, fresh, watch, made, seed):
    attacks = sum(count for kind, count in made.items() if not kind.endswith("refused"))
    compared = ", ".join(f"{name}: p99 {percentile(took, 99) * 1e3:.1f} ms" for name, took in others.items())
    return (
        f"\n{attacks} attacks (seed {seed}): {made}\n"
        f"{len(beside)} answers beside them: p50 {percentile(beside, 50) * 1e3:.1f} ms,"
        f" p99 {percentile(beside, 99) * 1e3:.1f} ms, slowest {max(beside) * 1e3:.0f} ms"
        f" ({compared})\n"
        f"{len(fresh)} new clients: p50 {percentile(fresh, 50) * 1e3:.1f} ms, slowest {max(fresh) * 1e3:.0f}"
        f" ms; memory grew by {watch.growth_bytes >> 20} MiB at most"
    )
