"""Any guest stops soon after it is told to, whatever it does and whoever tells it.

The promise is a millisecond; a test allows ten, and the best of a few tries counts, as the machine may be
busy.
"""

import json
import signal
import threading
import time

import pytest

import berm
import rvcore
from rvcore import ExitReason

from .guests import MIB, Guest, link

ROOMY = rvcore.Config(memory_size=1 << 30, stack_size=MIB)
ALLOWED_S = 0.010
TRIES = 8

# Each `f` runs for minutes at least.
GUESTS = {
    "a loop of one instruction": "f: j f",
    "a loop of many instructions": "f: " + "addi a0, a0, 1; " * 3000 + "j f",
    "a loop of divisions": "f: li a0, -1; li a1, 7; _l: div a2, a0, a1; rem a3, a0, a1; div a2, a0, a1; j _l",
    "a loop of misaligned accesses": "f: lui a0, 0x30; _l: sd a1, 2045(a0); ld a1, -3(a0); j _l",
    "a loop of atomics": "f: lui a0, 0x30; _l: amoadd.d a1, a1, (a0); lr.w a2, (a0); sc.w a3, a2, (a0); j _l",
    "recursion that comes back": """
        f:  li a0, 60
        fib: li a1, 2
            bltu a0, a1, _out
            addi sp, sp, -32
            sd ra, 24(sp)
            sd a0, 16(sp)
            addi a0, a0, -1
            jal fib
            sd a0, 8(sp)
            ld a0, 16(sp)
            addi a0, a0, -2
            jal fib
            ld a1, 8(sp)
            add a0, a0, a1
            ld ra, 24(sp)
            addi sp, sp, 32
        _out: ret
        """,
    "a chain of direct tail calls": "f: tail _g; nop; _h: tail f; _g: tail _h",
    "a chain of indirect tail calls": "f: la t1, g; jr t1; g: la t1, h; jr t1; h: la t1, f; jr t1",
    "calls and returns": "f: jal g; jal h; j f; g: ret; h: mv t0, ra; jr t0",
    "forward branches": "f: " + "".join(f"beqz zero, _l{i}; nop; _l{i}: " for i in range(2000)) + "j f",
    # In functions that run into each other, as a trap looks through the one that it is in.
    "a long way straight on": "f: " + "".join(f"n{i}: {'c.nop; ' * 3000}" for i in range(30)) + "tail f",
    "a walk over pages that are only read": """
        f:  lui a2, 0x30000
            lui a3, 1
            lui a0, 0x40
        _l: lb a1, 0(a0)
            add a0, a0, a3
            bltu a0, a2, _l
            j f
        """,
    "a walk over fresh pages": """
        f:  lui a2, 0x30000
            lui a3, 1
        _m: lui a0, 0x40
        _l: sb a1, 0(a0)
            add a0, a0, a3
            bltu a0, a2, _l
            addi a1, a1, 1
            j _m
        """,
}
TARGETS = {"a chain of indirect tail calls": ("f", "g", "h")}


def made(kind, config=ROOMY):
    return Guest(GUESTS[kind], config=config, targets=TARGETS.get(kind, ()))


def delay_of_interrupt(kind):
    """Run in a thread, interrupt from this one, and say how long the run took to stop."""
    with made(kind) as g:
        call = g.start("f")
        ended = []

        def run():
            done = call.run()
            ended.append((time.perf_counter(), done.reason))

        thread = threading.Thread(target=run)
        thread.start()
        # Until it has run for a while without the GIL.
        time.sleep(0.02)
        start = time.perf_counter()
        g.store.interrupt()
        thread.join(20)
        assert ended, "still running"
        assert ended[0][1] is ExitReason.INTERRUPTED
        assert call.instructions > 1000
        # And it can go on.
        before = call.instructions
        assert call.run(1000).reason is ExitReason.OUT_OF_FUEL
        assert call.instructions == before + 1000
        return ended[0][0] - start


def best_of(measure):
    delays = []
    for _ in range(TRIES):
        delays.append(measure())
        if delays[-1] < ALLOWED_S:
            return
    pytest.fail(f"took {min(delays):.4f} s at best, expected less than {ALLOWED_S}")


@pytest.mark.parametrize("kind", GUESTS)
def test_an_interrupt_from_another_thread_stops(kind):
    best_of(lambda: delay_of_interrupt(kind))


@pytest.mark.core
@pytest.mark.parametrize(
    "kind", ["a loop of one instruction", "a walk over fresh pages", "calls and returns"]
)
def test_an_interrupt_stops_on_any_build(kind):
    delay_of_interrupt(kind)


def berm_image(kind):
    text = GUESTS[kind].replace("f:", "berm_tool_f:", 1)
    manifest = {
        "abi_version": 0,
        "tools": [{"name": "f", "description": "", "parameters": {"type": "object"}}],
    }
    targets = tuple(name.replace("f", "berm_tool_f") for name in TARGETS.get(kind, ()))
    for old, new in (("jal f", "jal berm_tool_f"), ("j f", "j berm_tool_f"), (", f;", ", berm_tool_f;"),
                     ("tail f", "tail berm_tool_f"), ("la t1, f", "la t1, berm_tool_f")):  # fmt: skip
        text = text.replace(old, new)
    return link(
        text.replace("berm_tool_fib", "fib"), targets=targets, manifest=json.dumps(manifest).encode()
    )[0]


@pytest.mark.parametrize("kind", GUESTS)
def test_a_deadline_stops_on_time(kind):
    engine = berm.Engine(ROOMY)
    harness = berm.Harness.load(engine, berm_image(kind))

    def lateness():
        start = time.perf_counter()
        with pytest.raises(berm.Trap) as ended:
            harness.call("f", b"", limits=berm.Limits(deadline=0.02, fuel=10**15))
        took = time.perf_counter() - start
        assert ended.value.code is berm.TrapCode.DEADLINE
        assert took >= 0.02
        return took - 0.02

    best_of(lateness)


@pytest.mark.core
def test_an_interrupt_before_the_run_stops_it_at_once():
    with made("a loop of one instruction") as g:
        call = g.start("f")
        g.store.interrupt()
        assert call.run().reason is ExitReason.INTERRUPTED
        assert call.instructions == 0
        # It was for that run only.
        assert call.run(10).reason is ExitReason.OUT_OF_FUEL


@pytest.mark.core
def test_an_interrupt_before_the_call_is_none_of_its_business():
    with made("a loop of one instruction") as g:
        g.store.interrupt()
        assert g.start("f").run(10).reason is ExitReason.OUT_OF_FUEL


@pytest.mark.core
def test_an_interrupt_by_a_host_function_stops_behind_its_call():
    seen = []

    def host(*_):
        seen.append(1)
        g.store.interrupt()
        return 7

    with Guest("f: li a7, 5; ecall; addi a0, a0, 1; j f", hosts={5: host}) as g:
        call = g.start("f")
        assert call.run().reason is ExitReason.INTERRUPTED
        assert (len(seen), call.instructions) == (1, 2)
        assert call.run().reason is ExitReason.INTERRUPTED
        assert (len(seen), call.instructions) == (2, 6)


@pytest.mark.core
def test_calling_an_interrupted_function_is_a_trap():
    with Guest("f: li a7, 5; ecall; j f", hosts={5: lambda *_: g.store.interrupt()}) as g:
        with pytest.raises(rvcore.Trap) as raised:
            g.call("f")
        assert raised.value.code is rvcore.TrapCode.INTERRUPTED


@pytest.mark.core
def test_many_interrupts_are_one():
    with made("a loop of one instruction") as g:
        call = g.start("f")
        for _ in range(5):
            g.store.interrupt()
        assert call.run().reason is ExitReason.INTERRUPTED
        assert call.run(100).reason is ExitReason.OUT_OF_FUEL


@pytest.mark.core
def test_a_signal_is_handled_while_a_guest_runs_and_the_run_can_go_on():
    class AlarmError(Exception):
        pass

    def ring(_number, _frame):
        raise AlarmError

    with made("a loop of one instruction") as g:
        call = g.start("f")
        before = signal.signal(signal.SIGALRM, ring)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.02)
            with pytest.raises(AlarmError):
                call.run(3_000_000_000)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        ran = call.instructions
        assert 20_000 < ran < 2_000_000_000
        assert call.run(100).reason is ExitReason.OUT_OF_FUEL
        assert call.instructions == ran + 100


@pytest.mark.core
def test_other_threads_run_while_a_guest_does():
    """The GIL is free: this thread counts while the guest spins in the other."""
    with made("a loop of one instruction") as g:
        call = g.start("f")
        thread = threading.Thread(target=call.run)
        thread.start()
        count, end = 0, time.perf_counter() + 0.2
        while time.perf_counter() < end:
            count += 1
        g.store.interrupt()
        thread.join(20)
        assert not thread.is_alive()
        # With the GIL held by the guest for 10 ms at a time this would be a few dozen.
        assert count > 2000
