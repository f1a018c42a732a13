"""Signals, signs of life, and what is done every so often."""

import os
import signal
import subprocess
import sys

import pytest
import trio

from crabtalk.config import AuditConfig
from crabtalk.ids import new_id
from crabtalk.lifecycle import Lifecycle, allow_descriptors, every, obey_signals, show_life
from crabtalk.retention import expire
from crabtalk.store.engine import Trouble
from crabtalk.store.interfaces.audit import Audit, AuditRow
from crabtalk.store.memory import MemoryEngine


async def no_reload():
    raise AssertionError("not asked for")


@pytest.mark.trio
async def test_the_first_signal_asks_for_an_orderly_end(nursery):
    living = Lifecycle()
    await nursery.start(obey_signals, living, no_reload)
    os.kill(os.getpid(), signal.SIGTERM)
    await living.stopping.wait()
    assert not living.hurry.cancel_called
    nursery.cancel_scope.cancel()


@pytest.mark.trio
async def test_hangup_reloads_and_nothing_else(nursery):
    living = Lifecycle()
    reloaded = trio.Event()

    async def reload():
        reloaded.set()
        await trio.lowlevel.checkpoint()

    await nursery.start(obey_signals, living, reload)
    os.kill(os.getpid(), signal.SIGHUP)
    await reloaded.wait()
    assert not living.stopping.is_set()
    nursery.cancel_scope.cancel()


STUBBORN = """
import os, signal, time, trio
from crabtalk.lifecycle import Lifecycle, obey_signals
async def main():
    living = Lifecycle()
    async with trio.open_nursery() as nursery:
        await nursery.start(obey_signals, living, lambda: None)
        print("ready", flush=True)
        await living.stopping.wait()
        with living.hurry:
            print("draining", flush=True)
            await trio.sleep(600)
        print("hurried", flush=True)
        time.sleep(600)  # something that does not end
trio.run(main)
"""


def test_the_second_signal_ends_a_process_that_does_not_want_to():
    with subprocess.Popen([sys.executable, "-c", STUBBORN], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        process.terminate()
        assert process.stdout.readline() == "draining\n"
        process.terminate()
        assert process.stdout.readline() == "hurried\n"
        assert process.wait(10) == 1


@pytest.mark.trio
async def test_a_sign_of_life_comes_three_times_in_each_period(autojump_clock):  # noqa: ARG001 - jumps
    class Manager:
        watchdog_s = 30.0
        heard = 0

        def alive(self):
            self.heard += 1

    manager = Manager()
    with trio.move_on_after(60.5):
        await show_life(manager, lambda: None, "serving")
    assert manager.heard == 7


@pytest.mark.trio
async def test_trouble_is_the_status_while_it_lasts_and_a_restart_is_left_to_who_can_make_one(
    autojump_clock,  # noqa: ARG001 - jumps
    caplog,
):
    said = []

    class Manager:
        watchdog_s = 30.0

        def alive(self):
            said.append((trio.current_time() - began, "alive"))

        def status(self, text):
            said.append((trio.current_time() - began, text))

    def trouble():
        now = trio.current_time() - began
        if now < 15:
            return None
        if now < 35:
            return Trouble(f"the disk is full: {now:.0f}", lasting=False)
        return Trouble("an fsync failed", lasting=True) if now > 45 else None

    began = trio.current_time()
    with caplog.at_level("INFO"), trio.move_on_after(75):
        await show_life(Manager(), trouble, "serving")
    assert [(round(at), what) for at, what in said] == [
        (0, "alive"),
        (10, "alive"),
        (20, "the disk is full: 20"),
        (20, "alive"),
        (30, "the disk is full: 30"),
        (30, "alive"),
        (40, "serving"),
        (40, "alive"),
        (50, "an fsync failed"),
        (60, "an fsync failed"),
        (70, "an fsync failed"),
    ]
    assert [(one.levelname, one.message) for one in caplog.records] == [
        ("ERROR", "the disk is full: 20"),
        ("INFO", "the store takes what is written again"),
        ("ERROR", "an fsync failed"),
    ]


@pytest.mark.trio
async def test_what_fails_is_done_again(autojump_clock, caplog):  # noqa: ARG001 - jumps
    times = []

    async def act():
        times.append(trio.current_time())
        await trio.lowlevel.checkpoint()
        raise ValueError("once")

    with trio.move_on_after(25):
        await every(10, "counting", act)
    assert len(times) == 3
    assert "counting failed" in caplog.text


def test_descriptors_are_taken_as_far_as_the_system_lets_us():
    program = (
        "import resource; from crabtalk.lifecycle import allow_descriptors\n"
        "hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))\n"
        "allow_descriptors()\n"
        "print(resource.getrlimit(resource.RLIMIT_NOFILE) == (min(hard, 1 << 16), hard))"
    )
    assert (
        subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=True).stdout
        == "True\n"
    )
    allow_descriptors()


@pytest.mark.trio
async def test_rows_expire_by_age_and_by_number():
    class Clock:
        def now_ms(self):
            return 10_000_000

        def monotonic(self):
            return 0.0

    store = MemoryEngine()
    audit = Audit(store)
    for started_ms in range(0, 10_000_000, 500_000):
        await store.commit(
            audit.row(
                AuditRow(new_id(), "tool", "a", "a", "h", "t", "", started_ms, 1, 1, "done", "", 0, "c")
            )
        )
    config = AuditConfig(keep=5000.0, keep_rows=1000)
    assert await expire(audit, store, config, Clock()) == 10
    assert min(row.started_ms for row in audit.latest(100)) == 5_000_000
    assert await expire(audit, store, AuditConfig(keep=5000.0, keep_rows=3), Clock()) == 7
    assert [row.started_ms for row in audit.latest(100)] == [9_500_000, 9_000_000, 8_500_000]
    assert await expire(audit, store, config, Clock()) == 0
