"""Lists that are larger than a reply: what they lose, and what is said of it."""

import json

import pytest

from conversing import conversing, history, says, sent
from crabtalk.errors import TooLarge
from crabtalk.handlers import fitting
from crabtalk.handlers.fitting import first_fitting
from crabtalk.wire.codec import encode_reply
from crabtalk.wire.pb import crabtalk_pb2 as pb
from daemon_client import Refused
from guest_images import image_path

HOUR_MS = 3_600_000


@pytest.fixture
def small(monkeypatch):
    """Let a reply hold little."""

    def hold(size_bytes):
        monkeypatch.setattr(fitting, "MAX_LIST_BYTES", size_bytes)

    return hold


def infos(count, size):
    return [pb.SkillInfo(name=f"{number:04}", description="x" * size) for number in range(count)]


def test_a_list_that_fits_is_as_it_was(small):
    small(200)
    assert fitting.fitting(iter(infos(3, 30)), "") == infos(3, 30)


def test_what_can_be_left_out_is_left_out_of_all(small):
    small(200)
    found = fitting.fitting(iter(infos(12, 30)), "", lambda info: info.ClearField("description"))
    assert found == [pb.SkillInfo(name=f"{number:04}") for number in range(12)]


@pytest.mark.parametrize("lighten", [None, lambda info: info.ClearField("description")])
def test_a_list_that_does_not_fit_is_refused_before_all_of_it_was_made(small, lighten):
    small(200)
    made = []

    def many():
        for info in infos(1000, 30):
            made.append(info)
            yield info

    with pytest.raises(TooLarge, match=r"larger than a reply may be, after \d+ entries; ask for less"):
        fitting.fitting(many(), "ask for less", lighten)
    assert len(made) < 20


def test_the_first_ones_fit_whatever_their_sizes():
    wakes = [pb.WakeInfo(id="x", payload=b"x" * (1 << 16)) for _ in range(400)]
    found = first_fitting(wakes)
    assert 250 < len(found) < 256
    reply = pb.ServerMessage(wake_list=pb.WakeList(wakes=found))
    assert not pb.ServerMessage.FromString(encode_reply(reply, 1 << 63)[4:]).HasField("error")
    many = [pb.SkillInfo(name="x")] * 3_000_000
    reply = pb.ServerMessage(skill_list=pb.SkillList(skills=first_fitting(many)))
    assert not pb.ServerMessage.FromString(encode_reply(reply, 1 << 63)[4:]).HasField("error")


@pytest.mark.trio
async def test_wakes_with_large_payloads_are_listed_as_far_as_they_fit(client, served):
    await client.put("alarm", image_path("alarm"))
    ann = await client.declare("ann", "alarm")
    at_ms = (served.runtime.clock.now_ms() // 1000) * 1000 + HOUR_MS
    for number in range(260):
        await client.ask(
            schedule_wake=pb.ScheduleWakeMsg(
                agent=ann, harness="alarm", at_ms=at_ms + number * 1000, payload=bytes(1 << 16)
            )
        )
    for asked in (pb.ListWakesMsg(), pb.ListWakesMsg(agent=ann), pb.ListWakesMsg(agent=ann, harness="alarm")):
        found = (await client.ask(list_wakes=asked)).wakes
        assert [(one.at_ms - at_ms) // 1000 for one in found] == list(range(len(found)))
        assert 250 < len(found) < 260


@pytest.mark.trio
async def test_agents_whose_configurations_do_not_fit_are_listed_without(client, small):
    for number in range(8):
        await client.declare(f"ann-{number}", description="x" * 100)
    small(2000)
    found = (await client.ask(list_agents=pb.ListAgentsMsg())).agents
    assert [(one.name, one.config) for one in found] == [(f"ann-{number}", "") for number in range(8)]
    assert json.loads((await client.ask(get_agent=pb.GetAgentMsg(name="ann-3"))).config)
    small(200)
    with pytest.raises(Refused, match=r"413: the list is larger than a reply may be.*`get_agent`"):
        await client.ask(list_agents=pb.ListAgentsMsg())


@pytest.mark.trio
async def test_images_are_listed_without_their_manifests_where_those_do_not_fit(client, small):
    names = ["alarm", "another", "third"]
    for name in names:
        await client.put(name, image_path("alarm"))
    whole = (await client.ask(list_harnesses=pb.ListHarnessesMsg())).harnesses
    small(whole[0].ByteSize() * 2)
    found = (await client.ask(list_harnesses=pb.ListHarnessesMsg())).harnesses
    assert [one.name for one in found] == names
    assert {one.usage for one in found} == {""}
    assert [tool.name for tool in found[0].tools] == [tool.name for tool in whole[0].tools]
    assert whole[0].usage
    assert (await client.ask(inspect_harness=pb.InspectHarnessMsg(name="third"))).usage


@pytest.mark.trio
async def test_of_a_long_history_the_newest_part_is_shown_and_the_rest_is_said(small):
    async with conversing(*(says(f"answer {number}") for number in range(3))) as daemon:
        ann = await daemon.client.declare("ann")
        for number in range(3):
            await sent(daemon.client, ann, f"question {number}")
        assert len(await history(daemon.client)) == 6
        small(85)
        assert await history(daemon.client) == [
            ("system", "3 earlier messages are not shown: with them, the history is larger than a reply"),
            ("assistant", "answer 1"),
            ("user", "question 2"),
            ("assistant", "answer 2"),
        ]
