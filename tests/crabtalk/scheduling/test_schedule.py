"""The capability as a guest calls it: fields in, a reply or a sentence out, its own wakes only."""

import json

import pytest

from berm import Refused
from berm.wire import WireError
from crabtalk.capabilities._failure import Failure
from crabtalk.capabilities.schedule import schedule
from crabtalk.chains import Chain
from crabtalk.errors import StoreError
from crabtalk.ids import new_id
from crabtalk.tools import Context, Trigger
from waking import START_MS, run_jumping

pytestmark = pytest.mark.trio(run=run_jumping)


@pytest.fixture
def guest(world, natives, bind, new_call):
    def guest(agent=None, harness="clockwork", depth=0, limit=4):
        chain = Chain(new_id(), started_ms=START_MS)
        context = Context(new_id(), agent or natives.me, harness, Trigger.TOOL, chain, depth, 0.0, gate=None)
        return bind(schedule(world.wakes, limit), new_call(context=context))

    return guest


async def listed(guest):
    return json.loads(await guest.wait("crabtalk.wake.list"))


async def test_scheduling_listing_and_cancelling(world, guest):
    me = guest()
    wake_id = (await me.wait("crabtalk.wake.schedule", START_MS + 1500, b"\0payload", "k")).decode()
    assert await listed(me) == [{"id": wake_id, "key": "k", "at_ms": START_MS + 2000}]
    assert world.wakes.get(wake_id).payload == b"\0payload"
    assert await me.wait("crabtalk.wake.cancel", wake_id) == b"1"
    assert await me.wait("crabtalk.wake.cancel", wake_id) == b"0"
    assert await listed(me) == []


async def test_an_empty_key_is_none(world, guest):
    me = guest()
    for _ in range(2):
        await me.wait("crabtalk.wake.schedule", START_MS, b"", "")
    assert [one["key"] for one in await listed(me)] == ["", ""]
    assert {world.wakes.get(one["id"]).key for one in await listed(me)} == {None}


async def test_a_list_is_whole_however_many_there_are(world, natives, guest):
    for n in range(1200):
        await world.wakes.schedule(natives.me.id, "clockwork", START_MS, b"", f"k{n}")
    me = guest()
    last = (await me.wait("crabtalk.wake.schedule", START_MS + 60_000, b"", "last")).decode()
    found = await listed(me)
    assert len(found) == 1201
    assert found[-1] == {"id": last, "key": "last", "at_ms": START_MS + 60_000}
    assert {one["key"] for one in found} == {"last", *(f"k{n}" for n in range(1200))}


async def test_a_list_that_would_be_too_long_says_so(guest, monkeypatch):
    monkeypatch.setattr("crabtalk.scheduling.wakes._LISTED_BYTES", 200)
    me = guest()
    for _ in range(2):
        await me.wait("crabtalk.wake.schedule", START_MS, b"", "")
    assert len(await listed(me)) == 2
    await me.wait("crabtalk.wake.schedule", START_MS, b"", "")
    with pytest.raises(Refused, match="more than 2 wakes are pending, which is the most that a list holds"):
        await listed(me)


async def test_others_wakes_are_not_there(world, natives, guest):
    natives.add("other", "on_wake")
    mine = (await guest().wait("crabtalk.wake.schedule", START_MS, b"", "")).decode()
    for stranger in (guest(harness="other"), guest(agent=natives.add_agent("stranger"))):
        assert await listed(stranger) == []
        assert await stranger.wait("crabtalk.wake.cancel", mine) == b"0"
    assert world.wakes.get(mine) is not None


async def test_what_runs_is_neither_listed_nor_cancelled(world, guest):
    me = guest()
    running = (await me.wait("crabtalk.wake.schedule", START_MS, b"", "k")).decode()
    await world.wakes.claim(running)
    upcoming = (await me.wait("crabtalk.wake.schedule", START_MS + 60_000, b"", "k")).decode()
    assert [one["id"] for one in await listed(me)] == [upcoming]
    assert await me.wait("crabtalk.wake.cancel", running) == b"0"
    assert await me.wait("crabtalk.wake.cancel", upcoming) == b"1"


async def test_the_declared_number_is_the_limit(guest):
    me = guest(limit=2)
    for _ in range(2):
        await me.wait("crabtalk.wake.schedule", START_MS, b"", "")
    with pytest.raises(Refused, match="2 wakes of harness `clockwork` are pending, which is its most"):
        await me.wait("crabtalk.wake.schedule", START_MS, b"", "")


@pytest.mark.parametrize(
    ("at_ms", "payload", "key", "why"),
    [
        (-1, b"", "", "instant: expected"),
        (START_MS, bytes((64 << 10) + 1), "", "payload is 65537 bytes long"),
        (START_MS, b"", "k" * 257, "key is 257 bytes long"),
    ],
)
async def test_what_is_out_of_bounds_is_refused(guest, at_ms, payload, key, why):
    with pytest.raises(Refused, match=why):
        await guest().wait("crabtalk.wake.schedule", at_ms, payload, key)


async def test_an_image_without_on_wake_is_told_so(guest):
    with pytest.raises(Refused, match="no `on_wake`"):
        await guest(harness="mute").wait("crabtalk.wake.schedule", START_MS, b"", "")


async def test_a_chain_at_its_depth_is_told_so(guest):
    with pytest.raises(Refused, match="depth 9 is beyond the chain's 8"):
        await guest(depth=8).wait("crabtalk.wake.schedule", START_MS + 1000, b"", "")


@pytest.mark.parametrize("at_ms", ["soon", "", "1.5", "0x10"])
async def test_an_instant_is_a_decimal_number(guest, at_ms):
    with pytest.raises(WireError):
        await guest().wait("crabtalk.wake.schedule", at_ms, b"", "")


async def test_a_store_that_does_not_work_is_said(world, guest, monkeypatch):
    async def fail(_batch):
        raise StoreError("store: disk is full")

    monkeypatch.setattr(world.engine, "commit", fail)
    with pytest.raises(Failure, match="the store does not work: store: disk is full"):
        await guest().wait("crabtalk.wake.schedule", START_MS, b"", "")
    assert await listed(guest()) == []


async def test_without_the_daemon_it_says_so(world, bind, call):
    with pytest.raises(Failure, match="there is no daemon here"):
        await bind(schedule(world.wakes, 1), call).wait("crabtalk.wake.schedule", START_MS, b"", "")


async def test_none_at_all_is_no_grant(world):
    with pytest.raises(ValueError, match="schedule: expected how many"):
        schedule(world.wakes, 0)
