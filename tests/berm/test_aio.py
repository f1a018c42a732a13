"""Driving harnesses on asyncio and trio: the same outcomes, a free loop, capabilities where they belong."""

import threading

import anyio
import anyio.lowlevel
import pytest

import berm
from berm import Capability, TrapCode, aio
from berm.wire import pack_fields

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request):
    return request.param


async def test_quick_tool_never_leaves_the_loop(plain):
    before = threading.active_count()
    outcome = await aio.call(plain, "echo", "hello")
    assert outcome.text == "hello"
    assert threading.active_count() == before


async def test_call_is_a_checkpoint_before_anything_runs(plain):
    with anyio.CancelScope() as scope:
        scope.cancel()
        await aio.call(plain, "no such tool", "")
    assert scope.cancelled_caught


async def test_failed_and_traps_are_as_in_a_synchronous_call(plain):
    assert (await aio.call(plain, "fails", "no")).message == "no"
    with pytest.raises(berm.Trap) as caught:
        await aio.call(plain, "unbound", "")
    assert caught.value.code is TrapCode.UNKNOWN_HOST_CALL
    with pytest.raises(berm.NoSuchTool):
        await aio.call(plain, "nothing", "") and await aio.call(plain, "nope", "")


async def test_options_are_those_of_a_synchronous_call(plain):
    assert (await aio.call(plain, "latin1", "", raw=True)).data == b"caf\xe9"
    with pytest.raises(berm.Trap) as caught:
        await aio.call(plain, "compute", "100000000", limits=berm.Limits(fuel=1_000_000))
    assert caught.value.code is TrapCode.OUT_OF_FUEL


async def test_wake_and_notify(plain, attacks):
    assert (await aio.wake(plain, "now")).text == "now"
    assert (await aio.notify(plain, "x")).message == "nothing to say"
    with pytest.raises(berm.NoSuchEntry):
        await aio.wake(attacks, "now")


async def test_loop_goes_on_while_a_guest_computes(plain):
    ticks = 0
    done = False

    async def tick():
        nonlocal ticks
        while not done:
            await anyio.sleep(0.001)
            ticks += 1

    async with anyio.create_task_group() as group:
        group.start_soon(tick)
        outcome = await aio.call(plain, "compute", "60000000")
        done = True
    assert outcome.text == "60000000"
    assert ticks > 5


async def test_deadline_ends_a_guest_in_a_thread(plain):
    with pytest.raises(berm.Trap) as caught:
        await aio.call(plain, "compute", "9000000000", limits=berm.Limits(deadline=0.05))
    assert caught.value.code is TrapCode.DEADLINE


async def test_async_capability_is_awaited_on_the_loop_with_the_guest_suspended(loaded):
    main = threading.get_ident()
    threads = []

    async def wait(_call, request):
        threads.append(threading.get_ident())
        await anyio.sleep(0.001)
        return request[::-1]

    harness = loaded(Capability("test.wait", wait))
    assert (await aio.call(harness, "wait", "abc")).text == "0:cba"
    assert threads == [main]


async def test_inline_capability_runs_on_the_loop_also_after_a_computation(loaded):
    threads = []
    harness = loaded(
        Capability("test.ask", lambda _call, _request: threads.append(threading.get_ident()) or b"x")
    )
    assert (await aio.call(harness, "compute_then_ask", "5000000")).text == "1"
    assert threads == [threading.get_ident()]


async def test_blocking_capability_runs_in_a_thread(loaded):
    threads = []

    def block(_call, request):
        threads.append(threading.get_ident())
        return request.upper()

    harness = loaded(Capability("test.block", block, blocking=True))
    assert (await aio.call(harness, "block", "abc")).text == "0:ABC"
    assert threads[0] != threading.get_ident()


@pytest.mark.parametrize("error", [ValueError("no"), StopIteration("no"), StopAsyncIteration("no")])
async def test_what_capabilities_raise_is_their_guests_to_hear(loaded, error):
    def block(_call, _request):
        raise error

    async def wait(_call, _request):
        raise error

    harness = loaded(Capability("test.block", block, blocking=True), Capability("test.wait", wait))
    assert (await aio.call(harness, "block", "")).text == "2:no"
    text = (await aio.call(harness, "wait", "")).text
    assert text == "2:no" or text.startswith("2:coroutine raised Stop")


async def test_refusals_and_wrong_replies_of_async_capabilities(loaded):
    async def refuse(_call, _request):
        raise berm.Refused("never")

    async def wrong(_call, _request):
        return 3

    harness = loaded(Capability("berm.get", refuse), Capability("test.wait", wrong))
    assert (await aio.call(harness, "get", "")).text == "3:never"
    assert (
        await aio.call(harness, "wait", "")
    ).text == "2:capability `test.wait` returned int, expected bytes"


@pytest.mark.usefixtures("no_guest_left")
async def test_deadline_bounds_an_async_capability(loaded):
    ended = []

    async def wait(_call, _request):
        try:
            await anyio.sleep(60)
        finally:
            ended.append(True)

    harness = loaded(Capability("test.wait", wait))
    with anyio.fail_after(5), pytest.raises(berm.Trap) as caught:
        await aio.call(harness, "wait", "", limits=berm.Limits(deadline=0.05))
    assert caught.value.code is TrapCode.DEADLINE
    assert ended == [True]


@pytest.mark.usefixtures("no_guest_left")
async def test_a_thousand_guests_wait_at_once(loaded, engine):
    release, everybody_waits = anyio.Event(), anyio.Event()
    waiting = 0

    async def wait(_call, request):
        nonlocal waiting
        waiting += 1
        if waiting == 1000:
            everybody_waits.set()
        await release.wait()
        return request

    harness = loaded(Capability("test.wait", wait))
    texts = []

    async def one(number):
        texts.append((await aio.call(harness, "wait", str(number))).text)

    threads = threading.active_count()
    async with anyio.create_task_group() as group:
        for number in range(1000):
            group.start_soon(one, number)
        await everybody_waits.wait()
        assert engine.statistics().arenas_live >= 1000
        assert threading.active_count() == threads
        release.set()
    assert sorted(texts) == sorted(f"0:{number}" for number in range(1000))


async def test_talkative_guest_lets_the_loop_run(loaded):
    ticks = 0
    harness = loaded(Capability("test.ask", lambda _call, _request: b"x"))

    async def tick(task_status):
        nonlocal ticks
        task_status.started()
        while True:
            await anyio.lowlevel.checkpoint()
            ticks += 1

    async with anyio.create_task_group() as group:
        await group.start(lambda *, task_status: tick(task_status))
        await aio.call(harness, "ask_often", "300000")
        group.cancel_scope.cancel()
    assert ticks > 3


async def test_limiter_bounds_the_threads(plain):
    limiter = anyio.CapacityLimiter(1)
    seen = []

    async def one():
        await aio.call(plain, "compute", "3000000", limiter=limiter)
        seen.append(limiter.borrowed_tokens)

    async with anyio.create_task_group() as group:
        for _ in range(4):
            group.start_soon(one)
    assert max(seen) <= 1
    assert len(seen) == 4


# Tasks that outlive one capability call


@pytest.mark.usefixtures("no_guest_left")
async def test_tasks_run_on_between_calls_and_end_with_the_guest(loaded):
    events = []

    async def background():
        events.append("started")
        try:
            await anyio.sleep_forever()
        finally:
            events.append("ended")

    async def wait(call, _request):
        if not events:
            call.tasks.start_soon(background)
            await anyio.lowlevel.checkpoint()
        await anyio.sleep(0.001)
        events.append("call")
        return b""

    harness = loaded(Capability("test.wait", wait))
    assert (await aio.call(harness, "wait_often", "3")).text == "0"
    assert events == ["started", "call", "call", "call", "ended"]


@pytest.mark.usefixtures("no_guest_left")
async def test_tasks_end_when_the_guest_dies(loaded):
    ended = []

    async def background():
        try:
            await anyio.sleep_forever()
        finally:
            ended.append(True)

    async def wait(call, _request):
        call.tasks.start_soon(background)
        await anyio.sleep(0.001)
        return b"x" * 1000

    harness = loaded(Capability("test.wait", wait))
    with pytest.raises(berm.Trap):
        await aio.call(harness, "wait_often", "3000000", limits=berm.Limits(fuel=400))
    assert ended[0]


@pytest.mark.usefixtures("no_guest_left")
async def test_tasks_of_a_callee_end_with_it_and_are_its_own(engine, plain_image):
    events = []
    groups = []

    async def background(name):
        try:
            await anyio.sleep_forever()
        finally:
            events.append(f"{name} ended")

    async def wait(call, _request):
        groups.append(call.tasks)
        call.tasks.start_soon(background, call.tool)
        await anyio.sleep(0.001)
        return b""

    waits = Capability("test.wait", wait)
    inner = berm.Harness.load(engine, plain_image, [waits])
    outer = berm.Harness.load(
        engine,
        plain_image,
        [
            waits,
            berm.calls(lambda _call, _name: inner),
            Capability("test.block", lambda *_: b"", blocking=True),
        ],
    )
    assert (await aio.call(outer, "call", pack_fields([b"x", b"wait", b""]))).text == "0:0:"
    assert events == ["wait ended"]
    assert len(groups) == 1


@pytest.mark.usefixtures("no_guest_left")
async def test_call_of_a_harness_that_awaits(engine, plain_image):
    async def wait(_call, request):
        await anyio.sleep(0.001)
        return request

    inner = berm.Harness.load(engine, plain_image, [Capability("test.wait", wait)])
    outer = berm.Harness.load(engine, plain_image, [berm.calls(lambda _call, _name: inner)])
    assert (await aio.call(outer, "call", pack_fields([b"x", b"wait", b"y"]))).text == "0:0:y"
