"""Harnesses that come with the program: declared, listed and called as any other, and open to embedders."""

import json

import pytest
import trio

import berm
from crabtalk.builtins import Builtins
from crabtalk.store.memory import MemoryEngine
from crabtalk.tools import Done, Failed
from crabtalk.wire.pb import crabtalk_pb2 as pb
from daemon_client import Refused, serving
from guest_images import image_path

pytestmark = pytest.mark.trio


class Clockwork:
    """What somebody who embeds the daemon might add."""

    name = "clockwork"
    manifest = berm.Manifest(
        abi_version=0,
        tools=(
            berm.Tool("tick", "Ticks.", {"type": "object"}),
            berm.Tool("fail", "Says no.", {"type": "object"}),
            berm.Tool("wait", "Waits for ever.", {"type": "object"}),
            berm.Tool("break", "Breaks.", {"type": "object"}),
        ),
        usage="Ticks when asked.",
    )

    def __init__(self):
        self.stopped = 0

    async def call(self, context, tool, args):
        if tool == "tick":
            return Done(f"{context.agent.name} {context.harness} {args.decode()}".encode())
        if tool == "fail":
            return Failed("not today")
        if tool == "break":
            raise RuntimeError("a cog")
        try:
            await trio.sleep_forever()
        finally:
            self.stopped += 1


@pytest.fixture
def clockwork():
    return Clockwork()


@pytest.fixture
async def daemon(clockwork):
    store = MemoryEngine()
    async with serving(store, builtins=[clockwork]) as daemon:
        yield daemon
    store.close()


async def refusal(asking):
    with pytest.raises(Refused) as caught:
        await asking
    return caught.value.code, caught.value.message


async def test_it_is_called_through_the_executor(daemon):
    agent = await daemon.client.declare("ann", {"name": "cw", "builtin": "clockwork"})
    assert (await daemon.client.call(agent, "cw", "tick", "now")).done == b"ann cw now"
    assert (await daemon.client.call(agent, "cw", "fail")).failed == "not today"
    broken = await daemon.client.call(agent, "cw", "break")
    assert (broken.trap.kind, broken.trap.message) == ("internal", "RuntimeError: a cog")
    assert (await refusal(daemon.client.call(agent, "cw", "tock"))) == (
        404,
        "harness `cw` has no tool `tock`",
    )
    assert (await refusal(daemon.client.call(agent, "cw", "on_wake")))[0] == 404


async def test_its_bounds_are_enforced(daemon, clockwork):
    agent = await daemon.client.declare(
        "ann", {"name": "cw", "builtin": "clockwork", "deadline": 0.1, "rate": "2/h"}
    )
    with trio.fail_after(5):
        outcome = await daemon.client.call(agent, "cw", "wait")
    assert outcome.trap.kind == "deadline"
    assert clockwork.stopped == 1
    await daemon.client.call(agent, "cw", "tick")
    assert (await refusal(daemon.client.call(agent, "cw", "tick")))[0] == 429


async def test_a_client_that_goes_stops_it(daemon, clockwork):
    agent = await daemon.client.declare("ann", {"name": "cw", "builtin": "clockwork"})
    call = pb.CallToolMsg(agent=agent, harness="cw", tool="wait", args=b"{}")
    request_id = await daemon.client.send(call_tool=call)
    await daemon.client.ask(ping=pb.PingMsg())
    await daemon.client.ask(cancel=pb.CancelMsg(request_id=request_id))
    assert (await daemon.client.receive(request_id)).trap.kind == "cancelled"
    assert clockwork.stopped == 1


async def test_it_is_shown_beside_images(daemon):
    agent = await daemon.client.declare("ann", {"name": "cw", "builtin": "clockwork", "prefix": "c"})
    (info,) = (await daemon.client.ask(list_harnesses=pb.ListHarnessesMsg(agent=agent))).harnesses
    assert (info.name, info.usage, info.digest) == ("cw", "Ticks when asked.", "builtin:clockwork")
    assert [tool.name for tool in info.tools] == ["tick", "fail", "wait", "break"]
    assert (list(info.bound), info.sha256, info.size, info.error) == ([], "", 0, "")
    tools = daemon.runtime.toolbox.tools(daemon.runtime.agents.get(agent))
    assert list(tools) == ["c__tick", "c__fail", "c__wait", "c__break"]


async def test_an_unknown_one_is_refused_with_the_nearest(daemon):
    declared = {"name": "cw", "builtin": "clokwork"}
    assert await refusal(daemon.client.declare("ann", declared)) == (
        400, "no harness `clokwork` is built in; did you mean `clockwork`? - at `harnesses[0].builtin`",
    )  # fmt: skip


async def test_tools_of_one_name_are_refused(daemon):
    twice = [{"name": "a", "builtin": "clockwork"}, {"name": "b", "builtin": "clockwork"}]
    code, message = await refusal(daemon.client.declare("ann", *twice))
    assert code == 400
    assert message.startswith("tool `tick` is one of harness `a` and of `b`: give one of them a prefix")
    await daemon.client.declare("ann", twice[0], {**twice[1], "prefix": "b"})


async def test_it_cannot_be_scheduled_subscribed_or_upgraded(daemon):
    agent = await daemon.client.declare("ann", {"name": "cw", "builtin": "clockwork"})
    at_ms = daemon.runtime.clock.now_ms() + 3_600_000
    wake = pb.ScheduleWakeMsg(agent=agent, harness="cw", at_ms=at_ms)
    assert (await refusal(daemon.client.ask(schedule_wake=wake)))[0] == 400
    subscription = pb.SubscribeEventMsg(source="news", target_harness=f"{agent}/cw")
    assert (await refusal(daemon.client.ask(subscribe_event=subscription)))[0] == 400
    upgrade = pb.UpgradeHarnessMsg(agent=agent, name="cw")
    assert await refusal(daemon.client.ask(upgrade_harness=upgrade)) == (
        400, "harness `cw` is built in: it changes with the program",
    )  # fmt: skip


async def test_a_harness_becomes_built_in_and_an_image_again(daemon):
    await daemon.client.put("alarm", image_path("alarm"))
    agent = await daemon.client.declare("ann", "alarm")

    async def update(harness):
        config = json.dumps({"harnesses": [harness]})
        info = await daemon.client.ask(update_agent=pb.UpdateAgentMsg(agent=agent, config=config))
        return json.loads(info.config)["harnesses"][0]

    built_in = {"name": "alarm", "builtin": "clockwork"}
    assert await update(built_in) == built_in
    assert (await daemon.client.call(agent, "alarm", "tick", "x")).done == b"ann alarm x"
    # An image of the same name is nobody's now, and can go; with it here, it is pinned anew.
    image = await update({"name": "alarm"})
    assert len(image["sha256"]) == 64
    assert (await refusal(daemon.client.ask(remove_harness=pb.RemoveHarnessMsg(name="alarm"))))[0] == 409
    await update(built_in)
    await daemon.client.ask(remove_harness=pb.RemoveHarnessMsg(name="alarm"))


async def test_one_that_is_not_here_any_more_says_so():
    store = MemoryEngine()
    async with serving(store, builtins=[Clockwork()]) as daemon:
        agent = await daemon.client.declare("ann", {"name": "cw", "builtin": "clockwork"})
    async with serving(store) as daemon:
        outcome = await daemon.client.call(agent, "cw", "tick")
        assert (outcome.trap.kind, outcome.trap.message) == ("load", "no harness `clockwork` is built in")
        (info,) = (await daemon.client.ask(list_harnesses=pb.ListHarnessesMsg(agent=agent))).harnesses
        assert info.error == "no harness `clockwork` is built in"
        # And an update of something else is still possible.
        change = pb.UpdateAgentMsg(agent=agent, config='{"description": "x"}')
        assert (await daemon.client.ask(update_agent=change)).description == "x"
    store.close()


async def test_two_of_one_name_are_a_mistake_of_the_embedder():
    with pytest.raises(ValueError, match="two built-in harnesses named clockwork"):
        Builtins([Clockwork(), Clockwork()])
