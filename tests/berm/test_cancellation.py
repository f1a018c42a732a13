"""A cancellation wherever an invocation can stand: the guest stops, threads are awaited, nothing is left."""

import asyncio
import threading
import time

import anyio
import pytest

import berm
from berm import Capability, aio
from berm.wire import pack_fields

pytestmark = [pytest.mark.anyio, pytest.mark.core]


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request):
    return request.param


async def cancelled_after(seconds, work):
    """Run `work` under a scope that is cancelled after `seconds`; return how long the whole took."""
    began = time.monotonic()
    with anyio.move_on_after(seconds) as scope:
        await work
    assert scope.cancelled_caught
    return time.monotonic() - began


@pytest.mark.usefixtures("no_guest_left")
async def test_while_computing_in_a_thread(plain):
    threads = threading.active_count()
    took = await cancelled_after(0.05, aio.call(plain, "compute", "9000000000"))
    assert 0.05 <= took < 1
    # The pool keeps its worker, which is idle; the runner of these tests may have one for trio's events.
    assert threading.active_count() <= threads + 2
    assert plain.call("echo", "x").text == "x"


@pytest.mark.parametrize("tool", ["spin", "tail_chain", "indirect_chain"])
@pytest.mark.usefixtures("no_guest_left")
async def test_while_spinning(attacks, tool):
    assert await cancelled_after(0.02, aio.call(attacks, tool, "")) < 1


@pytest.mark.usefixtures("no_guest_left")
async def test_while_flooding_an_inline_capability(attacks):
    assert await cancelled_after(0.02, aio.call(attacks, "ask_flood", "")) < 1


@pytest.mark.usefixtures("no_guest_left")
async def test_while_an_async_capability_waits(loaded):
    events = []

    async def wait(call, _request):
        try:
            await anyio.sleep_forever()
        finally:
            events.append(call.tool)

    assert await cancelled_after(0.02, aio.call(loaded(Capability("test.wait", wait)), "wait", "")) < 1
    assert events == ["wait"]


async def test_async_capability_cleans_up_before_the_memory_is_given_back(loaded, engine):
    live = []
    before = engine.statistics().arenas_live

    async def wait(_call, _request):
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.01)
                live.append(engine.statistics().arenas_live)

    await cancelled_after(0.02, aio.call(loaded(Capability("test.wait", wait)), "wait", ""))
    assert live == [before + 1]
    assert engine.statistics().arenas_live == before


@pytest.mark.usefixtures("no_guest_left")
async def test_while_a_blocking_capability_runs_it_is_told_and_waited_for(loaded):
    events = []

    def block(call, _request):
        while not call.cancelled:
            time.sleep(0.001)
        events.append("told")
        time.sleep(0.05)
        events.append("ended")
        return b""

    harness = loaded(Capability("test.block", block, blocking=True))
    took = await cancelled_after(0.02, aio.call(harness, "block", ""))
    assert events == ["told", "ended"]
    assert took >= 0.07


@pytest.mark.usefixtures("no_guest_left")
async def test_while_a_callee_computes(engine, plain_image):
    inner = berm.Harness.load(engine, plain_image)
    outer = berm.Harness.load(engine, plain_image, [berm.calls(lambda _call, _name: inner)])
    work = aio.call(outer, "call", pack_fields([b"x", b"compute", b"9000000000"]))
    assert await cancelled_after(0.05, work) < 1


@pytest.mark.usefixtures("no_guest_left")
async def test_while_a_callee_waits_its_tasks_end_too(engine, plain_image):
    events = []

    async def background():
        try:
            await anyio.sleep_forever()
        finally:
            events.append("task")

    async def wait(call, _request):
        call.tasks.start_soon(background)
        try:
            await anyio.sleep_forever()
        finally:
            events.append("wait")

    inner = berm.Harness.load(engine, plain_image, [Capability("test.wait", wait)])
    outer = berm.Harness.load(engine, plain_image, [berm.calls(lambda _call, _name: inner)])
    work = aio.call(outer, "call", pack_fields([b"x", b"wait", b""]))
    assert await cancelled_after(0.02, work) < 1
    assert sorted(events) == ["task", "wait"]


@pytest.mark.parametrize("moment", range(1, 7))
@pytest.mark.usefixtures("no_guest_left")
async def test_at_each_suspension_in_turn(loaded, moment):
    """The guest waits six times; whichever is cancelled, everything after it does not happen."""
    seen = 0
    with anyio.CancelScope() as scope:

        async def wait(_call, _request):
            nonlocal seen
            seen += 1
            if seen == moment:
                scope.cancel()
            await anyio.lowlevel.checkpoint()
            return b"x"

        await aio.call(loaded(Capability("test.wait", wait)), "wait_often", "6")
    assert scope.cancelled_caught
    assert seen == moment


@pytest.mark.parametrize("moment", range(1, 5))
@pytest.mark.usefixtures("no_guest_left")
async def test_at_each_blocking_call_in_turn(loaded, moment, anyio_backend):
    """A cancellation that arrives while a thread works takes effect once it has ended."""
    seen = 0
    if anyio_backend == "trio":
        import trio

        token = trio.lowlevel.current_trio_token()

        def later(function):
            token.run_sync_soon(function)
    else:
        import asyncio

        loop = asyncio.get_running_loop()

        def later(function):
            loop.call_soon_threadsafe(function)

    with anyio.CancelScope() as scope:

        def block(call, _request):
            nonlocal seen
            seen += 1
            if seen == moment:
                later(scope.cancel)
                while not call.cancelled:
                    time.sleep(0.001)
            return b"x"

        await aio.call(loaded(Capability("test.wait", block, blocking=True)), "wait_often", "4")
    assert scope.cancelled_caught
    assert seen == moment


@pytest.mark.usefixtures("no_guest_left")
async def test_many_at_once(attacks):
    with anyio.move_on_after(0.05) as scope:
        async with anyio.create_task_group() as group:
            for _ in range(10):
                group.start_soon(aio.call, attacks, "spin", "")
    assert scope.cancelled_caught
    assert attacks.call("find_leftovers", "").text == "0"


@pytest.mark.usefixtures("no_guest_left")
async def test_one_leaves_its_siblings_alone(plain, attacks):
    results = []

    async def good():
        results.append((await aio.call(plain, "compute", "20000000")).text)

    async with anyio.create_task_group() as group:
        group.start_soon(good)
        await cancelled_after(0.01, aio.call(attacks, "spin", ""))
    assert results == ["20000000"]


# asyncio's own cancellation, which knows no shields


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.usefixtures("no_guest_left")
async def test_task_of_asyncio_is_cancelled_while_computing(attacks, times):
    task = asyncio.create_task(aio.call(attacks, "spin", ""))
    await asyncio.sleep(0.05)
    for _ in range(times):
        task.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.usefixtures("no_guest_left")
async def test_task_of_asyncio_waits_for_a_blocking_capability(loaded):
    events = []
    begun = threading.Event()

    def block(call, _request):
        begun.set()
        while not call.cancelled:
            time.sleep(0.001)
        time.sleep(0.05)
        events.append("ended")
        return b""

    task = asyncio.create_task(aio.call(loaded(Capability("test.block", block, blocking=True)), "block", ""))
    await asyncio.to_thread(begun.wait)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert events == ["ended"]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.usefixtures("no_guest_left")
async def test_task_of_asyncio_is_cancelled_while_it_waits_for_a_thread(attacks):
    limiter = anyio.CapacityLimiter(1)
    async with limiter:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(aio.call(attacks, "spin", "", limiter=limiter), 0.05)
