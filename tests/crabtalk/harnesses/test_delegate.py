"""harness/delegate in the daemon: turns of other agents, their answers, and where a row of them ends."""

import json

import pytest
import trio

from conversing import calls, conversing, history, says, sent
from crabtalk.conversation.model import ErrorKind, ModelError
from crabtalk.wire.pb import crabtalk_pb2 as pb
from guest_images import image_path

pytestmark = pytest.mark.trio


async def declare(client, name, *whom, **options):
    await client.put("delegate", image_path("delegate"))
    return await client.declare(name, {"name": "delegate", "send": list(whom), **options})


async def call(client, caller, tool="delegate", **args):
    return await client.call(caller, "delegate", tool, json.dumps(args))


async def turns(client):
    """Return the audit's rows of turns, oldest first."""
    listed = await client.ask(list_invocations=pb.ListInvocationsMsg(limit=1000))
    return sorted((one for one in listed.invocations if one.tool == "turn"), key=lambda one: one.id)


def last(request):
    return request.messages[-1].content


async def test_an_agent_has_another_one_do_a_task():
    answers = [
        calls(("delegate", {"agent": "bob", "task": "read the change"})),
        lambda request: says(f"bob was asked to {last(request)}"),
        lambda request: says(f"he says: {last(request)}"),
    ]
    async with conversing(*answers) as daemon:
        client = daemon.client
        bob = await client.declare("bob", description="You review.")
        ann = await declare(client, "ann", "bob")
        reply = await sent(client, ann, "is the change good?")
        assert reply.content.strip() == "he says: bob was asked to read the change"
        assert daemon.model.requests[1].system == "You review."
        asked, row = await turns(client)
        assert (asked.agent, asked.trigger, asked.outcome, asked.depth) == (ann, "client", "done", 0)
        assert (row.agent, row.trigger, row.outcome, row.depth) == (bob, "call", "done", 1)
        listed = await client.ask(list_invocations=pb.ListInvocationsMsg(harness="delegate"))
        assert [(one.agent, one.trigger, one.chain) for one in listed.invocations] == [
            (ann, "tool", row.chain)
        ]


async def test_several_do_the_same_task_side_by_side():
    everybody = trio.Event()
    systems = []

    def answer(request):
        said = {
            "bob": says("looks good"),
            "carol": [ModelError(ErrorKind.AUTH, "no key")],
            "dave": says("it is slow"),
        }[request.system]

        async def wait():
            systems.append(request.system)
            if len(systems) == 3:
                everybody.set()
            await everybody.wait()

        return [wait, *said]

    async with conversing(answer, answer, answer) as daemon:
        client = daemon.client
        for name in ("bob", "carol", "dave"):
            await client.declare(name, description=name)
        ann = await declare(client, "ann", "bob", "carol", "dave")
        with trio.fail_after(10):
            outcome = await call(
                client, ann, "delegate_to_all", agents=["bob", "carol", "eve", "dave"], task="read it"
            )
        text = outcome.done.decode()
        assert text.startswith("## bob\n\nlooks good\n\n## carol\n\n[failed: carol gave no answer: ")
        assert text.endswith("no key]\n\n## eve\n\n[failed: no such agent: eve]\n\n## dave\n\nit is slow\n")
        assert [last(request) for request in daemon.model.requests] == ["read it"] * 3
        assert [one.depth for one in await turns(client)] == [1, 1, 1]


async def test_calls_of_one_answer_work_side_by_side():
    everybody = trio.Event()
    asked = []

    def answer(request):
        async def wait():
            asked.append(last(request))
            if len(asked) == 3:
                everybody.set()
            await everybody.wait()

        return [wait, *says(f"did {last(request)}")]

    wanted = [("delegate", {"agent": "bob", "task": f"part {number}"}) for number in range(3)]
    async with conversing(calls(*wanted), answer, answer, answer, says("all done")) as daemon:
        client = daemon.client
        await client.declare("bob")
        ann = await declare(client, "ann", "bob")
        with trio.fail_after(10):
            assert (await sent(client, ann, "go")).content == "all done"
        results = [content for role, content in await history(client) if role == "tool"]
        assert results == ["did part 0\n", "did part 1\n", "did part 2\n"]


async def test_a_row_of_agents_ends_where_the_chain_does():
    """Each of them delegates to itself, whatever it hears, until it is refused."""

    def answer(request):
        if request.messages[-1].role == "tool":
            return says(last(request))
        return calls(("delegate", {"agent": "ann", "task": "go on"}))

    async with conversing(*[answer] * 40) as daemon:
        client = daemon.client
        ann = await client.declare("ann")
        await client.put("delegate", image_path("delegate"))
        config = {"harnesses": [{"name": "delegate", "send": ["ann"]}]}
        await client.ask(update_agent=pb.UpdateAgentMsg(agent=ann, config=json.dumps(config)))
        with trio.fail_after(20):
            reply = await sent(client, ann, "go")
        assert "depth 9 is beyond the chain's 8" in reply.content
        assert [one.depth for one in await turns(client)] == list(range(9))


async def test_a_call_whose_deadline_passes_stops_the_turn_that_it_waits_for():
    async with conversing([trio.sleep_forever]) as daemon:
        client = daemon.client
        await client.declare("bob")
        ann = await declare(client, "ann", "bob", deadline=0.5)
        with trio.fail_after(10):
            outcome = await call(client, ann, agent="bob", task="take your time")
        assert outcome.trap.kind == "deadline"
        listed = await client.ask(list_active_conversations=pb.ListActiveConversationsMsg())
        assert list(listed.conversations) == []


async def test_an_agent_that_was_not_granted_is_not_asked():
    async with conversing() as daemon:
        client = daemon.client
        await client.declare("bob")
        await client.declare("root")
        ann = await declare(client, "ann", "bob")
        assert (await call(client, ann, agent="root", task="x")).failed == "no such agent: root"
        assert daemon.model.requests == []
