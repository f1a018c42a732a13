"""Threads: one harness called from many, guests at the same time, one invocation wanted twice, signals."""

import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

import berm
from berm import Capability, TrapCode
from rvcore._handlers import FAST

pytestmark = pytest.mark.core

# A busy machine may take its time; builds that are not the release take longer, a sanitizer's several times
# as long.
PROMPT_S = 0.5 if FAST else 2.0


def in_threads(count, work):
    """Run `work(n)` in `count` threads at once and return the results; a failure is raised here."""
    results = [None] * count
    barrier = threading.Barrier(count)

    def run(number):
        barrier.wait()
        try:
            results[number] = work(number)
        except BaseException as error:  # noqa: BLE001 - raised below
            results[number] = error

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results


@pytest.mark.usefixtures("no_guest_left")
def test_many_threads_call_one_harness(loaded):
    harness = loaded(Capability("test.ask", lambda call, request: request + str(call.context).encode()))

    def work(number):
        for round_ in range(60):
            text = f"{number}-{round_}"
            assert harness.call("echo", text).text == text
            assert harness.call("count", "").text == "1"
            assert harness.call("ask", text, context=number).text == f"0:{text}{number}"
            if round_ % 20 == 0:
                assert harness.call("compute", "100000").text == "100000"
        return True

    assert in_threads(8, work) == [True] * 8


def test_harness_loads_in_many_threads_at_once(plain_image, attacks_image):
    with berm.Engine(berm.Config()) as engine:

        def work(number):
            for _ in range(10):
                harness = berm.Harness.load(engine, (plain_image, attacks_image)[number % 2])
            return harness.sha256

        assert len(set(in_threads(8, work))) == 2


def test_guests_compute_while_another_guest_spins(plain, attacks):
    """Had the spinning guest the GIL, nothing here would go on; bench/ measures how parallel it is."""
    spinning = attacks.start("spin", "")
    thread = threading.Thread(target=spinning.compute)
    thread.start()
    assert in_threads(2, lambda _number: plain.call("compute", "10000000").text) == ["10000000"] * 2
    assert thread.is_alive()
    spinning.interrupt()
    thread.join(5)
    assert not thread.is_alive()
    spinning.close()


def test_another_thread_runs_while_a_guest_computes(plain):
    ticks = []
    stop = threading.Event()

    def tick():
        while not stop.is_set():
            ticks.append(None)
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    plain.call("compute", "60000000")
    stop.set()
    thread.join()
    assert len(ticks) > 5


def test_one_invocation_from_two_threads_is_an_error(attacks):
    invocation = attacks.start("spin", "")
    started = threading.Event()

    def drive():
        started.set()
        invocation.compute()

    thread = threading.Thread(target=drive)
    thread.start()
    started.wait()
    time.sleep(0.01)  # the switch interval: the thread is inside by now, and stays there
    with pytest.raises(RuntimeError, match="the invocation is being driven, interrupt it first"):
        invocation.close()
    for method in (invocation.advance, invocation.run, invocation.compute):
        with pytest.raises(RuntimeError, match="is being driven already"):
            method()
    invocation.interrupt()
    thread.join(5)
    assert not thread.is_alive()
    with pytest.raises(berm.Trap) as caught:
        invocation.advance()
    assert caught.value.code is TrapCode.INTERRUPTED


@pytest.mark.parametrize(
    "tool",
    ["spin", "tail_chain", "indirect_chain", "recurse", "log_flood", "ask_flood", "fail_with_everything"],
)
@pytest.mark.usefixtures("no_guest_left")
def test_interrupt_from_another_thread_stops_any_guest_at_once(attacks, tool):
    for delay in (0, 0.001, 0.02):
        invocation = attacks.start(tool, "0")
        timer = threading.Timer(delay, invocation.interrupt)
        timer.start()
        began = time.monotonic()
        with pytest.raises(berm.Trap) as caught:
            invocation.run()
        assert caught.value.code in {TrapCode.INTERRUPTED, TrapCode.STACK_OVERFLOW}
        assert time.monotonic() - began < delay + PROMPT_S
        timer.join()


@pytest.mark.usefixtures("no_guest_left")
def test_interrupts_that_race_with_the_end_do_no_harm(plain):
    for round_ in range(300):
        invocation = plain.start("compute", str(round_ * 37))
        thread = threading.Thread(target=invocation.interrupt)
        thread.start()
        try:
            assert invocation.run().text == str(round_ * 37)
        except berm.Trap as trap:
            assert trap.code is TrapCode.INTERRUPTED  # noqa: PT017 - either end is right
        thread.join()
    assert plain.call("echo", "x").text == "x"


def test_guest_started_in_one_thread_goes_on_in_another(loaded):
    harness = loaded(Capability("test.wait", lambda _call, request: request, blocking=True))
    invocation = harness.start("wait_often", "10")
    while True:
        step = in_threads(1, lambda _number: invocation.advance())[0]
        if not isinstance(step, berm.HostCall):
            break
        in_threads(1, lambda _number, step=step: invocation.reply(step.request))
    assert step.text == "10"


SIGNALLED = """
import os, signal, sys, threading, time
sys.path.insert(0, {tests!r})
import berm, rawguests
harness = berm.Harness.load(berm.Engine(berm.Config()), rawguests.build("attacks"),
                            [berm.Capability("test.ask", lambda call, request: b"x")])
threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
began = time.monotonic()
try:
    harness.call({tool!r}, "0")
except KeyboardInterrupt:
    print("interrupted", time.monotonic() - began < 2, harness.call("find_leftovers", "").text)
"""


@pytest.mark.parametrize("tool", ["spin", "ask_flood"])
def test_keyboard_interrupt_surfaces_from_a_guest_that_never_ends(tool):
    tests = str(Path(__file__).parents[1])
    program = SIGNALLED.format(tests=tests, tool=tool)
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert (result.stdout.split(), result.stderr) == (["interrupted", "True", "0"], "")


@pytest.mark.usefixtures("no_guest_left")
def test_keyboard_interrupt_during_advance_closes_the_invocation(attacks):
    invocation = attacks.start("spin", "")
    previous = signal.signal(signal.SIGALRM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        with pytest.raises(KeyboardInterrupt):  # noqa: PT012 - whichever step it is that the signal meets
            while invocation.advance() is None:
                pass
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    invocation.close()
    assert invocation.closed


def test_guest_may_outlive_its_module(attacks_image, tmp_path):
    """What modules hold is gone when the last guests die with the interpreter."""
    image = tmp_path / "attacks.elf"
    image.write_bytes(attacks_image)
    script = f"""
        import pathlib, sys, berm
        ask = berm.Capability("test.ask", lambda call, request: b"", blocking=True)
        harness = berm.Harness.load(berm.Engine(), pathlib.Path({str(image)!r}).read_bytes(), [ask])
        invocation = harness.start("ask_flood", "")
        invocation.advance()
        sys.kept = [sys, invocation]
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
