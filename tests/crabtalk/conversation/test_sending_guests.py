"""`crabtalk.agent.send` from a real guest: whose turn it is, and what the guest hears."""

import hashlib
import json

import pytest
import trio

from conversing import conversing, history, says
from crabtalk.capabilities.send import MOST
from crabtalk.conversation.model import ErrorKind, ModelError
from crabtalk.wire.pb import crabtalk_pb2 as pb
from declared_guests import guest, request

pytestmark = pytest.mark.trio


async def sending(client, *targets):
    """Declare an agent whose harness may speak to `targets`, and return its id."""
    elf = guest(("ask",))
    digest = hashlib.sha256(elf).hexdigest()
    await client.ask(put_harness=pb.PutHarnessMsg(name="probe", elf=elf, sha256=digest))
    return await client.declare("ann", {"name": "probe", "send": list(targets)})


def call(agent, target, content, *more, **options):
    args = request("crabtalk.agent.send", target, content, *more)
    return pb.CallToolMsg(agent=agent, harness="probe", tool="ask", args=args, **options)


async def test_a_guest_reads_the_answer_of_the_turn_that_it_asked_for():
    async with conversing(says("Hello, ann.")) as daemon:
        client = daemon.client
        bob = await client.declare("bob", description="You are bob.")
        ann = await sending(client, "bob")
        outcome = await client.ask(call_tool=call(ann, "bob", "hello"))
        assert outcome.done == b"oHello, ann."
        assert daemon.model.requests[0].system == "You are bob."
        (listed,) = (await client.ask(list_conversations=pb.ListConversationsMsg(agent=bob))).conversations
        assert (listed.sender, listed.title) == (f"agent:{ann}", "hello")
        assert listed.file_path.startswith("send:")
        assert await history(client, listed.file_path) == [("user", "hello"), ("assistant", "Hello, ann.")]


async def test_a_guest_hears_why_there_is_no_answer():
    async with conversing([ModelError(ErrorKind.QUOTA, "no money")]) as daemon:
        client = daemon.client
        await client.declare("bob")
        ann = await sending(client, "bob")
        outcome = await client.ask(call_tool=call(ann, "bob", "hello"))
        assert outcome.done == b"ebob gave no answer: the model did not answer: no money"
        outcome = await client.ask(call_tool=call(ann, "ann", "hello"))
        assert outcome.done == b"eno such agent: ann"
        outcome = await client.ask(call_tool=call(ann, "bob", ""))
        assert outcome.done == b"econtent: expected what to say, got nothing"


async def test_several_are_asked_in_one_call_each_for_something_else():
    async with conversing(*[lambda request: says(f"to {request.messages[-1].content}: ü")] * 2) as daemon:
        client = daemon.client
        await client.declare("bob")
        ann = await sending(client, "bob")
        outcome = await client.ask(call_tool=call(ann, "bob", "one", "eve", "two", "bob", "three", "bob", ""))
        assert outcome.done[:1] == b"o"
        assert json.loads(outcome.done[1:]) == [
            {"text": "to one: ü"},
            {"error": "no such agent: eve"},
            {"text": "to three: ü"},
            {"error": "content: expected what to say, got nothing"},
        ]
        listed = (await client.ask(list_conversations=pb.ListConversationsMsg())).conversations
        assert len({one.file_path for one in listed}) == 2


async def test_so_many_are_asked_in_one_call_and_no_more():
    async with conversing(*[says("yes")] * MOST) as daemon:
        client = daemon.client
        await client.declare("bob")
        ann = await sending(client, "bob")
        outcome = await client.ask(call_tool=call(ann, *["bob", "go"] * (MOST + 1)))
        assert outcome.done == b"eat most 16 agents are asked in one call, got 17"
        assert daemon.model.requests == []
        outcome = await client.ask(call_tool=call(ann, *["bob", "go"] * MOST))
        assert json.loads(outcome.done[1:]) == [{"text": "yes"}] * MOST


async def test_all_turns_end_with_the_guest_that_asked_for_them():
    async with conversing(*[[trio.sleep_forever]] * 3) as daemon:
        client = daemon.client
        await client.declare("bob")
        ann = await sending(client, "bob")
        asked = await client.send(call_tool=call(ann, *["bob", "think"] * 3))
        await daemon.model.until_asked(3)
        turns = daemon.runtime.conversations.turns()
        (running,) = daemon.runtime.executor.running()
        daemon.runtime.executor.cancel(running.id)
        assert (await client.receive(asked)).trap.kind == "cancelled"
        assert [(await turn.result()).outcome for turn in turns] == ["cancelled"] * 3


async def test_a_guest_that_is_stopped_takes_its_turn_along():
    async with conversing([trio.sleep_forever]) as daemon:
        client = daemon.client
        await client.declare("bob")
        ann = await sending(client, "bob")
        request_id = await client.send(call_tool=call(ann, "bob", "hello"))
        await daemon.model.until_asked(1)
        (turn,) = daemon.runtime.conversations.turns()
        (running,) = (await client.ask(list_running=pb.ListRunningMsg())).invocations
        assert running.outcome == "suspended"
        await client.ask(cancel=pb.CancelMsg(request_id=request_id))
        with trio.fail_after(5):
            ending = await turn.result()
        assert (ending.outcome, ending.error.message) == ("cancelled", "who asked for it was stopped")
        assert (await client.receive(request_id)).trap.kind == "cancelled"


async def test_a_guest_s_deadline_bounds_the_turn_that_it_waits_for():
    async with conversing([trio.sleep_forever]) as daemon:
        client = daemon.client
        await client.declare("bob")
        ann = await sending(client, "bob")
        with trio.fail_after(5):
            outcome = await client.ask(call_tool=call(ann, "bob", "hello", deadline_ms=200))
        assert outcome.trap.kind == "deadline"
        assert not daemon.runtime.conversations.turns()
