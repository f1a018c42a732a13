"""What mypy must say about berm's public API; read by `make lint`, never run. See rvcore_use.py."""

from typing import assert_type

import berm
from berm import aio


def load(elf: bytes, capability: berm.Capability) -> berm.Harness:
    engine = berm.Engine(berm.Config(memory_size=1 << 26))
    harness = berm.Harness.load(engine, elf, [capability], sha256="00" * 32)
    assert_type(harness, berm.Harness)
    assert_type(harness.tools, tuple[str, ...])
    assert_type(harness.manifest, berm.Manifest)
    berm.Harness.load(engine, elf, capability)  # type: ignore[arg-type]
    return harness


def call(harness: berm.Harness) -> None:
    limits = berm.Limits(fuel=10**9, deadline=1.5, output=1 << 20, log=1 << 16)
    limits.fuel = 5  # type: ignore[misc]
    berm.Limits(10**9)  # type: ignore[call-arg]
    berm.Limits(seconds=1)  # type: ignore[call-arg]
    outcome = harness.call("echo", b"{}", limits=limits, context=object(), raw=True)
    assert_type(outcome, berm.Done | berm.Failed)
    harness.call("echo", {})  # type: ignore[arg-type]
    harness.call("echo", "{}", limits=5)  # type: ignore[arg-type]
    match outcome:
        case berm.Done(data):
            assert_type(data, bytes)
            assert_type(outcome.text, str)
        case berm.Failed(message):
            assert_type(message, str)
    assert_type(outcome.duration_ns, int)
    assert_type(outcome.instructions, int)
    assert_type(harness.wake("now"), berm.Done | berm.Failed)
    assert_type(harness.notify(b"news"), berm.Done | berm.Failed)


def drive(harness: berm.Harness) -> None:
    invocation = harness.start("echo", "{}")
    assert_type(invocation, berm.Invocation)
    assert_type(invocation.run(), berm.Done | berm.Failed)
    step = invocation.advance(1000)
    if isinstance(step, berm.HostCall):
        assert_type(step.request, bytes)
        invocation.reply(step.capability.function(step.call, step.request))


async def drive_on_a_loop(harness: berm.Harness) -> None:
    assert_type(await aio.call(harness, "echo", "{}"), berm.Done | berm.Failed)
    await aio.call(harness, "echo")  # type: ignore[call-arg]


@berm.capability("test.shout", blocking=True, aliases=("test.yell",))
def shout(call: berm.Call, text: str) -> str:
    assert_type(call.depth, int)
    assert_type(call.deadline_left, float)
    if not text:
        raise berm.Refused("nothing to shout")
    return text.upper()


def bind(harness: berm.Harness) -> tuple[berm.Capability, ...]:
    assert_type(shout, berm.Capability)
    plain = berm.Capability("test.plain", lambda _call, request: request)
    peers = berm.calls(lambda _call, name: harness if name == "peer" else None)
    assert_type(peers, berm.Capability)
    return plain, peers, shout


def catch(harness: berm.Harness) -> str:
    try:
        harness.call("echo", "{}")
    except berm.Trap as trap:
        return trap.code.name
    except berm.NoSuchTool as error:
        return error.name
    except berm.BermError as error:
        return str(error)
    return ""
