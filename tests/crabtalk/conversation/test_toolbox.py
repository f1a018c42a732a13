"""Which tools an agent has, under which names, in which order, and within what."""

import pytest

from conversing import Hands, calls, conversing, says, sent
from crabtalk.declarations import Bounds
from crabtalk.errors import NotFound
from crabtalk.tools import Tool

pytestmark = pytest.mark.trio


def nothing(_context, _given):
    return "nothing"


def named(harness, *names, usage=""):
    return Hands(harness, usage, **dict.fromkeys(names, nothing))


async def test_declared_harnesses_come_first_and_in_their_order():
    others = [named("zeta", "z", usage="Zeta."), named("alpha", "a", usage="Alpha.")]
    async with conversing(hands=others) as daemon:
        runtime = daemon.runtime
        ann = await daemon.client.declare("ann", {"name": "memory", "builtin": "memory"}, description="D.")
        agent = runtime.agents.get(ann)
        tools = runtime.toolbox.tools(agent)
        assert list(tools) == ["remember", "recall", "forget", "z", "a"]
        assert runtime.toolbox.find(agent, "z").harness == "zeta"
        assert runtime.toolbox.find(agent, "y") is None
        parts = runtime.toolbox.system(agent).split("\n\n")
        assert (parts[0], parts[-2:]) == ("D.", ["Zeta.", "Alpha."])
        assert "remember" in parts[1]


async def test_an_agent_that_says_nothing_has_no_system_message():
    async with conversing() as daemon:
        ann = await daemon.client.declare("ann")
        await sent(daemon.client, ann, "hello")
        assert daemon.model.requests[0].system == ""


async def test_of_two_tools_with_one_name_the_first_is_there():
    async with conversing(
        calls(("same", {})), says("ok"), hands=[named("one", "same"), named("two", "same")]
    ) as d:
        ann = await d.client.declare("ann")
        await sent(d.client, ann, "go")
        assert [len(one.called) for one in d.hands] == [1, 0]


async def test_a_name_that_no_endpoint_takes_is_called_by_another():
    class Dotted(Hands):
        def tools(self, agent):
            return [Tool(one.harness, one.name, f"fs.{one.name}", "", {}) for one in super().tools(agent)]

    hands = Dotted(read=nothing)
    async with conversing(hands=hands) as daemon:
        ann = daemon.runtime.agents.get(await daemon.client.declare("ann"))
        (name,) = daemon.runtime.toolbox.tools(ann)
        assert name.startswith("fs_read_")
        daemon.model.answers = [calls((name, {})), says("ok")]
        await sent(daemon.client, ann.id, "go")
        assert hands.called == [("read", {})]


async def test_harnesses_that_are_not_declared_have_bounds_of_their_own():
    async with conversing(hands=named("plain", "a")) as daemon:
        ann = daemon.runtime.agents.get(await daemon.client.declare("ann"))
        toolbox = daemon.runtime.toolbox
        toolbox.add(named("bounded", "b"), lambda _agent, harness: Bounds(concurrency=1, digest=harness))
        assert toolbox.bounds(ann, "plain") == Bounds()
        assert toolbox.bounds(ann, "bounded") == Bounds(concurrency=1, digest="bounded")
        with pytest.raises(NotFound, match="declares no harness `other`"):
            toolbox.bounds(ann, "other")


async def test_tools_of_the_moment_are_offered_in_each_round():
    hands = named("hands", "first")

    def learn(_context, _given):
        hands.functions["second"] = nothing
        return "learned"

    hands.functions["learn"] = learn
    async with conversing(calls(("learn", {})), calls(("second", {})), says("ok"), hands=hands) as daemon:
        ann = await daemon.client.declare("ann")
        await sent(daemon.client, ann, "go")
        assert [len(one.tools) for one in daemon.model.requests] == [2, 3, 3]
        assert [name for name, _ in hands.called] == ["learn", "second"]
