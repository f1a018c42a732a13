"""Real guests under the executor: both paths alike, threads in turn, cancellation, deadlines, suspension."""

import threading
import time

import pytest
import trio

from berm import Capability
from crabtalk import invocation as driver
from crabtalk.errors import NotFound
from crabtalk.tools import Done, Failed, Trigger
from crabtalk.work import ExecutorLimits
from crabtalk.work_queue import QueueLimits

from .conftest import Raw

pytestmark = [pytest.mark.trio, pytest.mark.usefixtures("no_guest_left")]

FOREVER = b"1000000000000"


@pytest.fixture(params=["first slice", "thread"])
def path(request, monkeypatch):
    """Let short tools end in their first slice, or never."""
    if request.param == "thread":
        monkeypatch.setattr(driver, "FIRST_SLICE", 1)


@pytest.fixture
def raw(setup, plain):
    """Return a function that puts the plain guest, with these capabilities, behind an executor."""

    def raw(*capabilities, **options):
        return setup(Raw(native=plain(*capabilities)), **options)

    return raw


async def until(condition, limit_s=10):
    with trio.fail_after(limit_s):
        while not condition():  # noqa: ASYNC110 - what it waits for are facts of threads, not events
            await trio.sleep(0.001)


# The same on both paths


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize(
    ("tool", "args", "outcome"),
    [
        ("echo", b"hello", Done(b"hello")),
        ("echo", b"", Done(b"")),
        ("fails", b"no such thing", Failed("no such thing")),
        ("count", b"", Done(b"1")),
        ("compute", b"20000", Done(b"20000")),
    ],
)
async def test_outcomes(raw, tool, args, outcome):
    s = raw()
    for _ in range(2):
        ended = await s.run(tool, args)
        assert type(ended)(*ended_of(ended)) == outcome
        assert ended.instructions > 5
    assert [row.instructions for row in s.rows] == [ended.instructions] * 2


def ended_of(ended):
    return (ended.data,) if isinstance(ended, Done) else (ended.message,)


@pytest.mark.usefixtures("path")
async def test_traps(raw):
    s = raw()
    outcome = await s.run("unbound")
    assert outcome.kind == "unknown_host_call"
    assert [row.outcome for row in s.rows] == ["trap"]


@pytest.mark.usefixtures("path")
async def test_unknown_tools(raw):
    with pytest.raises(NotFound):
        await raw().run("no_such_tool")


@pytest.mark.usefixtures("path")
async def test_deadlines_are_the_guest_s_own_to_explain(raw):
    s = raw(deadline_s=0.1)
    began = time.monotonic()
    outcome = await s.run("compute", FOREVER)
    assert outcome.kind == "deadline"
    assert "berm_tool_compute" in outcome.message  # where it was, which only berm knows
    assert time.monotonic() - began < 2


@pytest.mark.usefixtures("path")
async def test_a_caller_s_deadline(raw):
    assert (await raw().run("compute", FOREVER, deadline_s=0.1)).kind == "deadline"


@pytest.mark.usefixtures("path")
async def test_wakes(raw):
    s = raw()
    work = s.work("on_wake", b"now", trigger=Trigger.WAKE, interactive=False, finish=lambda _o, _r: [])
    outcome = await s.executor.run(work)
    assert outcome.data == b"now"
    assert [(row.trigger, row.tool) for row in s.rows] == [("wake", "on_wake")]


@pytest.mark.usefixtures("path")
async def test_a_chain_s_fuel_bounds_a_guest(raw):
    s = raw()
    await s.run("echo")
    chain = chain_of(fuel=1_000_000)
    outcome = await s.run("compute", FOREVER, chain=chain, depth=1)
    assert outcome.kind == "out_of_fuel"
    assert "the chain has used all its fuel" in outcome.message
    assert chain.refusal(1) == "the chain has used all its fuel"


def chain_of(**options):
    from crabtalk.chains import Chain

    return Chain("chain", started_ms=0, **options)


# The loop and the threads


async def test_a_quick_tool_never_leaves_the_loop(raw):
    s = raw()
    before = threading.active_count()
    outcome = s.start("echo", b"x")
    assert outcome.data == b"x"
    assert threading.active_count() == before


async def test_the_loop_goes_on_while_a_guest_computes(raw):
    s = raw()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(s.run, "compute", b"100000000")
        await until(lambda: s.executor.statistics().computing)
        ticks = 0
        while not s.executor.idle:
            await trio.sleep(0.001)
            ticks += 1
    assert ticks > 5


async def test_inline_capabilities_run_where_the_guest_does(raw):
    threads = set()
    ask = Capability("test.ask", lambda _call, _request: threads.add(threading.get_ident()) or b"x")
    outcome = await raw(ask).run("compute_then_ask", b"5000000")
    assert outcome.data == b"1"
    assert len(threads) == 1


async def test_blocking_capabilities_run_in_threads_of_their_own(raw):
    threads = []

    def block(_call, request):
        threads.append(threading.get_ident())
        return request.upper()

    s = raw(Capability("test.block", block, blocking=True), limits=ExecutorLimits(workers=1))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(s.run, "compute", FOREVER)
        await until(lambda: s.executor.statistics().computing)
        assert (await s.run("block", b"abc")).data == b"0:ABC"
        nursery.cancel_scope.cancel()
    assert threads
    assert threading.get_ident() not in threads


async def test_what_a_capability_raises_is_its_guest_s_to_hear(raw):
    def broken(_call, _request):
        raise LookupError("no such thing")

    async def broken_too(_call, _request):
        raise LookupError("no such thing")

    s = raw(Capability("test.block", broken, blocking=True), Capability("test.wait", broken_too))
    for tool in ("block", "wait"):
        assert (await s.run(tool, b"x")).data == b"2:no such thing"


async def test_looping_guests_on_all_workers_do_not_hold_up_others(raw):
    """Not their first slices, and not their computations: long guests take turns."""
    s = raw(limits=ExecutorLimits(workers=2), concurrency=100, deadline_s=60)
    async with trio.open_nursery() as nursery:
        for _ in range(16):
            nursery.start_soon(lambda: s.run("compute", FOREVER, of="loops"))
        await until(lambda: s.executor.statistics().waiting_to_compute == 14)
        quick = []
        for _ in range(50):
            began = time.monotonic()
            assert (await s.run("echo", b"x", of="quick")).data == b"x"
            quick.append(time.monotonic() - began)
            await trio.sleep(0.001)
        began = time.monotonic()
        assert (await s.run("compute", b"10000000", of="quick")).data == b"10000000"
        longer = time.monotonic() - began
        nursery.cancel_scope.cancel()
    assert sorted(quick)[25] < 0.02
    assert longer < 5
    assert [row.outcome for row in s.rows].count("cancelled") == 16


async def test_computing_guests_of_one_agent_share_its_threads(raw):
    s = raw(limits=ExecutorLimits(workers=1))
    ends = []

    async def call(rounds):
        await s.run("compute", rounds)
        ends.append(rounds)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(call, b"300000000")
        await until(lambda: s.executor.statistics().computing)
        nursery.start_soon(call, b"1000000")
    assert ends == [b"1000000", b"300000000"]


# Stopping


async def cancelled_after(s, condition, *call, **facts):
    """Start a call, cancel it when `condition` holds, and return how many seconds that took."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: s.run(*call, **facts))
        await until(condition)
        began = time.monotonic()
        nursery.cancel_scope.cancel()
    return time.monotonic() - began


async def test_a_cancelled_guest_stops_at_once(raw):
    s = raw()
    took = [
        await cancelled_after(s, lambda: s.executor.statistics().computing, "compute", FOREVER)
        for _ in range(20)
    ]
    assert sorted(took)[10] < 0.010
    assert max(took) < 0.5
    assert [row.outcome for row in s.rows] == ["cancelled"] * 20


async def test_a_guest_that_waits_for_a_thread_stops_at_once(raw):
    s = raw(limits=ExecutorLimits(workers=1))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(s.run, "compute", FOREVER)
        await until(lambda: s.executor.statistics().computing)
        waiting = s.executor.statistics
        took = await cancelled_after(s, lambda: waiting().waiting_to_compute, "compute", FOREVER)
        assert s.executor.statistics().waiting_to_compute == 0
        nursery.cancel_scope.cancel()
    assert took < 0.5


async def test_a_guest_that_waits_for_a_thread_has_a_deadline(raw):
    s = raw(limits=ExecutorLimits(workers=1))
    async with trio.open_nursery() as nursery:
        # A capability that computes in the thread of its guest keeps the only worker.
        nursery.start_soon(lambda: s.run("compute", FOREVER, deadline_s=30))
        await until(lambda: s.executor.statistics().computing)
        outcome = await s.run("compute", FOREVER, deadline_s=0.2)
        assert outcome.kind == "deadline"
        nursery.cancel_scope.cancel()


async def test_a_suspended_guest_stops_at_once_and_what_it_waited_for_is_closed(raw):
    closed = []

    async def wait(_call, _request):
        try:
            await trio.sleep_forever()
        finally:
            closed.append(True)

    s = raw(Capability("test.wait", wait))
    took = await cancelled_after(s, lambda: s.states() == ["suspended"], "wait", b"x")
    assert took < 0.5
    assert closed == [True]
    assert s.executor.statistics().queue.suspended == 0


async def test_a_blocking_capability_is_waited_for_and_told(raw):
    began, told = threading.Event(), []

    def block(call, _request):
        began.set()
        until_s = time.monotonic() + 10
        while not call.cancelled and time.monotonic() < until_s:
            time.sleep(0.001)
        told.append(call.cancelled)
        return b""

    s = raw(Capability("test.block", block, blocking=True))
    took = await cancelled_after(s, began.is_set, "block", b"x")
    assert told == [True]
    assert took < 5


async def test_a_blocking_capability_that_overstays_the_deadline_is_told(raw):
    def block(call, _request):
        until_s = time.monotonic() + 10
        while not call.cancelled and time.monotonic() < until_s:
            time.sleep(0.001)
        return b""

    s = raw(Capability("test.block", block, blocking=True), deadline_s=0.1)
    began = time.monotonic()
    assert (await s.run("block", b"x")).kind == "deadline"
    assert time.monotonic() - began < 5


async def test_a_guest_that_is_stuck_in_a_capability_is_named_in_the_log(raw, caplog, monkeypatch):
    monkeypatch.setattr("crabtalk.watchdog._STUCK_S", 0.05)
    began, let_go = threading.Event(), threading.Event()

    def block(_call, request):
        began.set()
        let_go.wait(10)
        return request

    s = raw(Capability("test.block", block, blocking=True))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(s.run, "block", b"x")
        await until(began.is_set)
        nursery.cancel_scope.cancel()
        with trio.CancelScope(shield=True):
            await until(lambda: len(caplog.records) > 1)
        let_go.set()
    assert "of `native` was stopped 0 s ago and is still busy with `test.block`" in caplog.text


# Suspending


async def test_a_suspended_guest_gives_its_slot_away_and_keeps_its_state(raw):
    running = []

    async def wait(_call, request):
        running.append(s.executor.statistics().queue)
        await trio.sleep(0.001)
        return request

    s = raw(Capability("test.wait", wait))
    assert (await s.run("keeps_state")).data == b"ok"
    (seen,) = running
    assert (seen.running, seen.suspended) == (0, 1)
    assert 4096 <= seen.suspended_bytes <= 64 << 10


async def test_a_thousand_guests_wait_together(raw):
    go = trio.Event()

    async def wait(_call, request):
        await go.wait()
        return request

    s = raw(
        Capability("test.wait", wait),
        limits=ExecutorLimits(queue=QueueLimits(suspended_of_harness=1000, suspended=1000)),
        concurrency=10,
    )
    async with trio.open_nursery() as nursery:
        for number in range(1000):
            nursery.start_soon(s.run, "wait", str(number).encode())
        await until(lambda: s.executor.statistics().queue.suspended == 1000)
        assert s.executor.statistics().queue.suspended_bytes < 64 << 20
        go.set()
    assert [row.outcome for row in s.rows] == ["done"] * 1000


async def test_one_guest_too_many_hears_that_it_cannot_wait(raw):
    """Its call was accepted, so that it goes on: what it cannot have is this capability."""
    first, go = trio.Event(), threading.Event()

    async def wait(_call, request):
        first.set()
        await trio.sleep_forever()
        return request

    def block(_call, request):
        go.wait(10)
        return request

    s = raw(
        Capability("test.wait", wait),
        Capability("test.block", block, blocking=True),
        limits=ExecutorLimits(queue=QueueLimits(suspended_of_harness=1)),
    )
    outcomes = []

    async def call():
        outcomes.append((await s.run("block_then_wait", b"x")).data)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(call)
        await until(lambda: s.executor.statistics().blocking)
        nursery.start_soon(s.run, "wait", b"x")
        await first.wait()
        go.set()
        await until(lambda: outcomes)
        nursery.cancel_scope.cancel()
    assert outcomes == [b"2:1 calls of `native` wait for something already"]


async def test_deadlines_run_while_a_guest_is_suspended(raw):
    async def wait(_call, _request):
        await trio.sleep_forever()

    s = raw(Capability("test.wait", wait), deadline_s=0.1)
    outcome = await s.run("wait", b"x")
    assert outcome.kind == "deadline"
    assert "berm_tool_wait" in outcome.message


async def test_a_guest_s_tasks_end_with_it(raw):
    ended = []

    async def background():
        try:
            await trio.sleep_forever()
        finally:
            ended.append(True)

    async def wait(call, request):
        call.tasks.start_soon(background)
        await trio.lowlevel.checkpoint()
        return request

    s = raw(Capability("test.wait", wait))
    assert (await s.run("wait", b"x")).data == b"0:x"
    assert ended == [True]


async def test_a_task_that_breaks_while_it_is_cancelled_is_not_the_caller_s_to_hear(raw, caplog):
    async def background():
        try:
            await trio.sleep_forever()
        finally:
            raise ZeroDivisionError("by zero")

    async def wait(call, _request):
        call.tasks.start_soon(background)
        await trio.sleep_forever()

    s = raw(Capability("test.wait", wait))
    await cancelled_after(s, lambda: s.states() == ["suspended"], "wait", b"x")
    assert [row.outcome for row in s.rows] == ["cancelled"]
    assert len(caplog.records) == 1


async def test_a_task_of_a_guest_that_breaks_is_a_trap_of_ours(raw, caplog):
    async def background():
        raise ZeroDivisionError("by zero")

    async def wait(call, _request):
        call.tasks.start_soon(background)
        await trio.sleep_forever()

    s = raw(Capability("test.wait", wait))
    outcome = await s.run("wait", b"x")
    assert outcome.kind == "internal"
    assert s.executor.idle
    assert len(caplog.records) == 1
