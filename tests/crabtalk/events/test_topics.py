"""The capability as a guest calls it: the declared topics and nothing else."""

import pytest

from berm import Refused
from berm.wire import WireError
from crabtalk.capabilities._failure import Failure
from crabtalk.capabilities.topics import topics
from crabtalk.chains import Chain
from crabtalk.ids import new_id
from crabtalk.tools import Context, Trigger
from waking import START_MS, run_jumping

pytestmark = pytest.mark.trio(run=run_jumping)


@pytest.fixture
def guest(world, natives, bind, new_call):
    def guest(*patterns, harness="listener", depth=0):
        chain = Chain(new_id(), started_ms=START_MS)
        context = Context(new_id(), natives.me, harness, Trigger.TOOL, chain, depth, 0.0, gate=None)
        return bind(topics(world.bus, patterns), new_call(context=context))

    return guest


async def test_publishing_what_is_granted(world, guest):
    with world.bus.tail("") as tail:
        assert await guest("build:*").wait("crabtalk.event.publish", "build:done", "päyload") == b""
        event = await anext(tail)
    assert (event.source, event.payload) == ("build:done", "päyload")


@pytest.mark.parametrize("source", ["build", "builds:x", "other:done", "wake:missed", "harness:trap"])
async def test_what_is_not_granted_is_refused(guest, source):
    with pytest.raises(Refused, match=f"source is not granted: {source}"):
        await guest("build:*", "wake:*", "harness:trap").wait("crabtalk.event.publish", source, "")


@pytest.mark.parametrize("source", ["", "build:*", "build:\n", "x" * 129])
async def test_what_is_no_source_is_said(guest, source):
    with pytest.raises(Failure, match="event source"):
        await guest("build:*").wait("crabtalk.event.publish", source, "")


async def test_a_payload_is_text_of_64_kib(guest):
    with pytest.raises(WireError):
        await guest("a").wait("crabtalk.event.publish", "a", b"\xff")
    with pytest.raises(Refused, match="payload is 65537 bytes long"):
        await guest("a").wait("crabtalk.event.publish", "a", "x" * ((64 << 10) + 1))


async def test_subscribing_is_for_oneself(world, natives, guest):
    me = guest("build:*")
    subscription = int(await me.wait("crabtalk.event.subscribe", "build:web:*", 1))
    (record,) = world.bus.subscriptions()
    assert (record.id, record.source, record.once, record.by) == (
        subscription,
        "build:web:*",
        True,
        "harness",
    )
    assert record.target_harness == (natives.me.id, "listener")
    assert await me.wait("crabtalk.event.unsubscribe", subscription) == b"1"
    assert await me.wait("crabtalk.event.unsubscribe", subscription) == b"0"


async def test_others_subscriptions_stay(world, natives, guest):
    natives.add("other", "on_notify")
    subscription = await guest("a").wait("crabtalk.event.subscribe", "a", 0)
    assert await guest("a", harness="other").wait("crabtalk.event.unsubscribe", subscription) == b"0"
    assert len(world.bus.subscriptions()) == 1


@pytest.mark.parametrize(
    ("declared", "wanted", "granted"),
    [
        ("build:*", "build:done", True),
        ("build:*", "build:*", True),
        ("build:*", "build:web:*", True),
        ("build:done", "build:done", True),
        ("build:done", "build:*", False),
        ("build:web:*", "build:*", False),
        ("build:*", "build", False),
        ("wake:missed", "wake:missed", True),
        ("wake:*", "wake:*", True),
        ("wake:*", "wake:missed", False),  # what is reserved is granted word for word
        ("harness:trap", "wake:missed", False),
    ],
)
async def test_what_may_be_subscribed_to(guest, declared, wanted, granted):
    me = guest(declared)
    if granted:
        assert int(await me.wait("crabtalk.event.subscribe", wanted, 0)) > 0
    else:
        with pytest.raises(Refused, match="source is not granted"):
            await me.wait("crabtalk.event.subscribe", wanted, 0)


async def test_once_is_a_truth_value(guest):
    with pytest.raises(Failure, match="once: expected 0 or 1, got 2"):
        await guest("a").wait("crabtalk.event.subscribe", "a", 2)


async def test_an_image_without_on_notify_is_told_so(guest):
    with pytest.raises(Refused, match="no `on_notify`"):
        await guest("a", harness="deaf").wait("crabtalk.event.subscribe", "a", 0)


async def test_the_chain_goes_along(natives, guest, world):
    with pytest.raises(Refused, match="depth 9 is beyond"):
        await guest("a", depth=8).wait("crabtalk.event.publish", "a", "")
    await world.bus.subscribe("a", target_harness=(natives.me.id, "listener"))
    async with world.alive():
        await guest("a", depth=2).wait("crabtalk.event.publish", "a", "")
        await world.until(lambda: natives.seen)
    assert natives.seen[0].context.depth == 3


async def test_a_malformed_topic_is_an_error_of_the_declaration(world):
    with pytest.raises(ValueError, match="event pattern"):
        topics(world.bus, ["*"])
