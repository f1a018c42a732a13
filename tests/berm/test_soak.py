"""Long counts: memory stays flat over a hundred thousand invocations of every kind."""

import gc
import os
from pathlib import Path

import anyio
import pytest

import berm
from berm import Capability, aio
from berm.wire import pack_fields

pytestmark = pytest.mark.soak

ROUNDS = 100_000
GROWTH = 2 << 20  # bytes that a flat process may still grow by: allocator noise


def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def grown(work, rounds=ROUNDS):
    """Run `work` often and return by how much the process grew after the first tenth."""
    for _ in range(rounds // 10):
        work()
    gc.collect()
    before = resident()
    for _ in range(rounds):
        work()
    gc.collect()
    return resident() - before


def dies(harness, tool, argument="", **options):
    try:
        harness.call(tool, argument, **options)
    except berm.Trap:
        return
    raise AssertionError(tool)


@pytest.fixture
def harness(loaded, plain):
    async def wait(_call, request):
        await anyio.lowlevel.checkpoint()
        return request

    def refuse(_call, _request):
        raise berm.Refused("no")

    return loaded(
        Capability("test.ask", lambda _call, request: request * 2),
        Capability("test.block", lambda _call, request: request, blocking=True),
        Capability("test.wait", wait),
        Capability("berm.get", refuse),
        berm.calls(lambda _call, _name: plain),
    )


@pytest.mark.usefixtures("no_guest_left")
def test_a_hundred_thousand_calls_are_flat(harness):
    blob = b"x" * 256
    assert grown(lambda: harness.call("echo", blob)) < GROWTH


@pytest.mark.usefixtures("no_guest_left")
def test_every_kind_of_call_is_flat(harness):
    def work():
        harness.call("echo", b"x" * 5000)
        harness.call("fails", "no")
        harness.call("ask", b"x" * 3000)
        harness.call("get", "k")
        harness.call("heap", "")
        harness.call("logs", "")
        harness.call("call", pack_fields([b"p", b"echo", b"x"]))
        harness.start("block", "x").close()
        invocation = harness.start("block", "x")
        invocation.advance()
        invocation.close()

    assert grown(work, ROUNDS // 10) < GROWTH


@pytest.mark.usefixtures("no_guest_left")
def test_every_kind_of_death_is_flat(harness, attacks):
    def work():
        dies(harness, "unbound")
        dies(harness, "latin1")
        dies(harness, "compute", "1000000", limits=berm.Limits(fuel=50_000))
        dies(attacks, "read8", "0")
        dies(attacks, "jump_data")
        dies(attacks, "log_flood", limits=berm.Limits(fuel=30_000, log=100))
        dies(attacks, "recurse", "0")

    assert grown(work, 2000) < GROWTH


def test_loading_again_and_again_is_flat(engine, plain_image):
    assert grown(lambda: berm.Harness.load(engine, plain_image).call("echo", "x"), 5000) < GROWTH


def test_engines_that_come_and_go_are_flat(plain_image):
    def work():
        with berm.Engine(berm.Config()) as engine:
            berm.Harness.load(engine, plain_image).call("echo", "x")

    assert grown(work, 500) < GROWTH


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.usefixtures("no_guest_left")
def test_awaited_calls_are_flat(harness, backend):
    async def many():
        async def work():
            await aio.call(harness, "wait", "x")
            await aio.call(harness, "block", "x")
            await aio.call(harness, "echo", "x")
            with anyio.CancelScope() as scope:
                scope.cancel()
                await aio.call(harness, "wait", "x")

        for _ in range(300):
            await work()
        gc.collect()
        before = resident()
        for _ in range(3000):
            await work()
        gc.collect()
        return resident() - before

    assert anyio.run(many, backend=backend) < GROWTH
