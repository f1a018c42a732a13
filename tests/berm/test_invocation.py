"""Driving an invocation by hand: every stop is visible, and nothing can be done in the wrong order."""

import gc
import time

import pytest

import berm
from berm import Capability, TrapCode, _guest

pytestmark = pytest.mark.core


@pytest.fixture
def waiting(loaded):
    """Return a harness whose `test.wait` is blocking, so that a driver sees it."""
    return loaded(
        Capability("test.wait", lambda _call, request: request.upper(), blocking=True),
        Capability("test.ask", lambda _call, request: request),
    )


def test_quick_tool_is_done_in_one_step(plain):
    with plain.start("echo", "x") as invocation:
        outcome = invocation.advance()
        assert outcome.text == "x"
        assert invocation.outcome is outcome
        assert invocation.closed
        assert invocation.instructions == outcome.instructions
        assert 0 < outcome.duration_ns <= invocation.duration_ns


def test_long_computation_takes_slices_of_the_size_asked_for(plain):
    invocation = plain.start("compute", "1000000")
    steps = 0
    while (outcome := invocation.advance(100_000)) is None:
        assert invocation.computing
        steps += 1
    assert outcome.text == "1000000"
    assert steps >= outcome.instructions // 100_000  # time ends a slice as well


def test_slices_do_not_change_what_is_computed(plain):
    whole = plain.call("compute", "3000")
    invocation = plain.start("compute", "3000")
    while (outcome := invocation.advance(7)) is None:
        pass
    assert (outcome.data, outcome.instructions) == (whole.data, whole.instructions)


def test_blocking_capability_is_handed_to_the_driver(waiting):
    invocation = waiting.start("wait", "abc", context="c")
    step = invocation.advance()
    assert isinstance(step, berm.HostCall)
    assert step.capability.name == "test.wait"
    assert step.request == b"abc"
    assert step.call.context == "c"
    invocation.reply(step.capability.function(step.call, step.request))
    assert invocation.advance().text == "0:ABC"


def test_inline_capability_is_not(waiting):
    assert waiting.start("ask", "abc").advance().text == "0:abc"


def test_error_of_a_handed_out_capability_is_heard(waiting):
    invocation = waiting.start("wait", "")
    invocation.advance()
    invocation.reply_error(berm.Refused("no"))
    assert invocation.advance().text == "2:no"


def test_guest_keeps_its_state_while_suspended(waiting):
    invocation = waiting.start("keeps_state", "")
    invocation.advance()
    others = [waiting.call("count", "").text for _ in range(20)]
    invocation.reply(b"")
    assert (invocation.advance().text, set(others)) == ("ok", {"1"})


def test_many_guests_are_suspended_at_once(waiting):
    invocations = [waiting.start("wait", f"{n}") for n in range(200)]
    steps = [invocation.advance() for invocation in invocations]
    for invocation, step in zip(reversed(invocations), reversed(steps), strict=True):
        invocation.reply(step.request + b"!")
    assert [invocation.advance().text for invocation in invocations] == [f"0:{n}!" for n in range(200)]


def test_advance_without_the_reply_is_an_error_and_changes_nothing(waiting):
    invocation = waiting.start("wait", "x")
    invocation.advance()
    for method in (invocation.advance, invocation.run, invocation.compute):
        with pytest.raises(RuntimeError, match=r"`test\.wait` has not been replied to"):
            method()
    invocation.reply(b"y")
    assert invocation.advance().text == "0:y"


def test_reply_that_nobody_waits_for_is_an_error(waiting):
    invocation = waiting.start("wait", "x")
    with pytest.raises(RuntimeError, match="no capability call waits"):
        invocation.reply(b"")
    invocation.advance()
    invocation.reply(b"")
    with pytest.raises(RuntimeError, match="no capability call waits"):
        invocation.reply_error(ValueError())


@pytest.mark.usefixtures("no_guest_left")
def test_slice_ends_in_time_whatever_an_instruction_costs(attacks):
    """Its 50,000 instructions would copy some 600 GB, on the loop of whoever drives it."""
    with attacks.start("fail_with_everything", "") as invocation:
        for _ in range(3):
            began = time.monotonic()
            assert invocation.advance(50_000) is None
            assert time.monotonic() - began < 2
            assert invocation.computing


def test_invocation_that_nothing_started_is_closed():
    invocation = berm.Invocation()
    invocation.interrupt()
    assert (invocation.closed, invocation.nesting, invocation.running_ids) == (True, 0, ())


@pytest.mark.parametrize("kind", [berm.Call, berm.HostCall])
def test_facts_of_an_invocation_cannot_be_made_up(kind):
    with pytest.raises(TypeError, match="is made by an invocation"):
        kind()
    blank = kind.__new__(kind)  # what no constructor has seen is harmless
    for name in ("context", "chain", "cancelled", "deadline_left", "tasks", "capability", "request"):
        getattr(blank, name, None)


def test_finished_invocation_cannot_go_on(plain):
    invocation = plain.start("echo", "x")
    invocation.run()
    for method in (invocation.advance, invocation.run, invocation.compute):
        with pytest.raises(ValueError, match="the invocation is closed"):
            method()
    invocation.close()
    invocation.interrupt()


@pytest.mark.usefixtures("no_guest_left")
def test_close_at_any_point_gives_everything_back(waiting):
    waiting.start("wait", "x").close()
    suspended = waiting.start("wait", "x")
    suspended.advance()
    suspended.close()
    suspended.close()
    assert suspended.closed
    with pytest.raises(RuntimeError):
        suspended.reply(b"")


@pytest.mark.usefixtures("no_guest_left")
def test_dropped_invocation_gives_everything_back(waiting):
    invocation = waiting.start("wait", "x")
    invocation.advance()
    del invocation


def test_dropped_harness_gives_everything_back(engine, plain_image):
    gc.collect()
    guests = _guest.live_guests()
    harness = berm.Harness.load(engine, plain_image)
    harness.call("echo", "x")
    assert _guest.live_guests() == guests + 1
    del harness
    gc.collect()
    assert _guest.live_guests() == guests


def test_few_idle_guests_are_kept(waiting):
    gc.collect()
    guests = _guest.live_guests()
    invocations = [waiting.start("wait", "x") for _ in range(50)]
    assert _guest.live_guests() >= guests + 49
    for invocation in invocations:
        invocation.close()
    assert _guest.live_guests() <= guests + 8


@pytest.mark.usefixtures("no_guest_left")
def test_interrupt_ends_a_suspended_guest_at_its_next_step(waiting):
    invocation = waiting.start("wait", "x")
    step = invocation.advance()
    assert step.call.cancelled is False
    invocation.interrupt()
    assert step.call.cancelled is True
    assert invocation.interrupted
    invocation.reply(b"")
    with pytest.raises(berm.Trap) as caught:
        invocation.advance()
    assert caught.value.code is TrapCode.INTERRUPTED
    assert invocation.closed
    assert invocation.outcome is None
    assert invocation.instructions > 0


def test_interrupt_before_the_start(plain):
    invocation = plain.start("echo", "x")
    invocation.interrupt()
    with pytest.raises(berm.Trap) as caught:
        invocation.advance()
    assert caught.value.code is TrapCode.INTERRUPTED


def test_interrupt_of_one_invocation_leaves_the_next_alone(plain):
    invocation = plain.start("echo", "x")
    invocation.interrupt()
    invocation.close()
    assert plain.call("echo", "y").text == "y"


def test_deadline_runs_on_while_suspended(waiting):
    invocation = waiting.start("wait", "x", limits=berm.Limits(deadline=0.02))
    invocation.advance()
    assert invocation.deadline_left <= 0.02
    time.sleep(0.03)
    assert invocation.deadline_left == 0.0
    invocation.reply(b"")
    with pytest.raises(berm.Trap) as caught:
        invocation.advance()
    assert caught.value.code is TrapCode.DEADLINE


def test_expire_ends_a_suspended_guest_by_its_deadline(waiting):
    invocation = waiting.start("wait", "x")
    invocation.advance()
    invocation.expire()
    with pytest.raises(berm.Trap) as caught:
        invocation.advance()
    assert caught.value.code is TrapCode.DEADLINE
    with pytest.raises(RuntimeError, match="no guest is suspended"):
        invocation.expire()


def test_compute_stops_where_the_host_is_needed(waiting):
    invocation = waiting.start("compute_then_ask", "5000000")
    assert invocation.advance(50_000) is None
    invocation.compute()
    outcome = invocation.advance()
    assert outcome.text == "1"


def test_compute_leaves_traps_to_advance(plain):
    invocation = plain.start("compute", "100000000", limits=berm.Limits(fuel=10_000_000))
    invocation.compute()
    with pytest.raises(berm.Trap) as caught:
        invocation.advance()
    assert caught.value.code is TrapCode.OUT_OF_FUEL


def test_talkative_guest_lets_its_driver_look_around(loaded):
    harness = loaded(Capability("test.ask", lambda _call, _request: time.sleep(0.0005) or b"x"))
    invocation = harness.start("ask_often", "20")
    steps = 0
    while (outcome := invocation.advance()) is None:
        assert not invocation.computing
        steps += 1
    assert outcome.text == "20"
    assert steps > 2


def test_run_finishes_what_was_begun_by_steps(waiting):
    invocation = waiting.start("wait_often", "5")
    invocation.advance()
    invocation.reply(b"abc")
    assert invocation.run().text == str(3 + 4)


def test_invocation_shows_its_machine_for_profilers(plain):
    invocation = plain.start("compute", "1000")
    invocation.machine.start_profile()
    outcome = None
    machine = invocation.machine
    while outcome is None:
        outcome = invocation.advance()
    assert sum(count for _address, count in machine.profile()) >= outcome.instructions - 1
    assert invocation.machine is None
    assert plain.call("compute", "10").text == "10"


def test_wake_and_notify_can_be_started(plain):
    assert plain.start_wake("now").run().text == "now"
    assert plain.start_notify("news").run().message == "nothing to say"


@pytest.mark.usefixtures("no_guest_left")
def test_begin_is_all_of_a_quick_tool_and_the_start_of_any_other(waiting):
    done = waiting.begin("echo", "x")
    assert (done.text, done.instructions) == ("x", waiting.call("echo", "x").instructions)
    whole = waiting.call("compute", "100000")
    invocation = waiting.begin("compute", "100000")
    while (outcome := invocation.advance()) is None:
        assert invocation.computing
    assert (outcome.data, outcome.instructions) == (whole.data, whole.instructions)
    with waiting.begin("wait", "abc", context="c") as invocation:
        step = invocation.advance()
        assert (step.request, step.call.context) == (b"abc", "c")
        invocation.reply(b"ABC")
        assert invocation.advance().text == "0:ABC"


@pytest.mark.usefixtures("no_guest_left")
def test_what_begin_finds_is_the_invocation_s_to_raise(attacks):
    """Also the trap of a result that was looked at already: it is raised once, where it belongs."""
    limits = berm.Limits(output=10)
    for tool, args, code in (
        ("result_huge", b"11", TrapCode.OUTPUT_LIMIT),
        ("aborts", b"", TrapCode.ILLEGAL_INSTRUCTION),
    ):
        invocation = attacks.begin(tool, args, limits=limits)
        assert isinstance(invocation, berm.Invocation)
        with pytest.raises(berm.Trap) as caught:
            invocation.advance()
        assert caught.value.code is code
        assert caught.value.symbol == f"berm_tool_{tool}"
        assert invocation.closed
        assert invocation.instructions > 0
    with pytest.raises(berm.NoSuchTool):
        attacks.begin("nothing", b"")


def test_begin_charges_the_chain(plain):
    chain = berm.Chain(fuel=1_000_000)
    done = plain.begin("echo", "x", chain=chain)
    assert chain.fuel_left == 1_000_000 - done.instructions


@pytest.mark.parametrize("bounds", [{"fuel": 0}, {"max_depth": 1.5}, {"deadline": 0}, {"invocations": True}])
def test_a_chain_says_which_bound_is_wrong(bounds):
    with pytest.raises((TypeError, ValueError), match=next(iter(bounds))):
        berm.Chain(**bounds)
