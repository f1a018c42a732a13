"""kill -9 in every window of a turn: the store is opened again as it was after every single commit.

Whatever was committed by then is there and nothing else; a tool that may have run and has no result is told
as interrupted, to the model and to people, and nobody runs it again.
"""

import copy
import json
from collections import Counter

import pytest
import trio

from conversing import Hands, calls, conversing, events_of, history, says, sendable, sent, until_no_wakes
from crabtalk.conversation.history import INTERRUPTED
from crabtalk.store.interfaces.wakes import Wakes
from crabtalk.store.memory import MemoryEngine
from crabtalk.wire.pb import crabtalk_pb2 as pb

pytestmark = pytest.mark.trio


class Photographed(MemoryEngine):
    """A store of which every state that power loss could leave is kept, with what tools had done by then."""

    def __init__(self):
        super().__init__()
        self.hands = None
        self.states = []

    def apply(self, batch):
        super().apply(batch)
        self.states.append((copy.deepcopy(self._columns), list(self.hands.called) if self.hands else []))

    def reopened(self, state):
        found = MemoryEngine()
        found._columns = copy.deepcopy(self.states[state][0])
        return found


def counting():
    return Hands(count=lambda _context, given: f"counted {given['n']}")


def script():
    two = [("count", {"n": 1}), ("count", {"n": 2})]
    return [calls(*two, text="I count"), calls(("count", {"n": 3})), says("six")]


async def photographed(start):
    """Run a daemon until `start` has returned, and return the states of its store."""
    store, hands = Photographed(), counting()
    async with conversing(*script(), store=store, hands=hands) as daemon:
        agent = await daemon.client.declare("ann", description="You count.")
        first = len(store.states) - 1
        store.hands = hands
        await start(daemon, agent)
    return store, agent, range(first, len(store.states))


async def a_client_s_turn(daemon, agent):
    assert (await sent(daemon.client, agent, "count")).content == "six"


async def a_wake_s_turn(daemon, agent):
    await daemon.client.ask(schedule_wake=pb.ScheduleWakeMsg(agent=agent, at_ms=0, payload=b"count"))
    await until_no_wakes(daemon, agent)


def check_tools(messages, done):
    """Check that each tool that ran by then has its result, or is said to have been interrupted."""
    asked = [json.loads(call.arguments)["n"] for one in messages for call in one.tool_calls]
    results = [one.content for one in messages if one.role == "tool"]
    assert len(results) == len(asked)
    for number, result in zip(asked, results, strict=True):
        assert result in (f"counted {number}", INTERRUPTED)
    # What the model cannot know of has not run.
    assert {given["n"] for _, given in done} <= set(asked)


async def test_a_session_can_be_gone_on_with_from_every_state_of_a_turn():
    store, agent, states = await photographed(a_client_s_turn)
    interrupted = 0
    for state in states:
        hands = counting()
        reopened = store.reopened(state)
        async with conversing(says("I go on"), store=reopened, hands=hands) as daemon:
            assert (await sent(daemon.client, agent, "go on")).content == "I go on"
            (request,) = daemon.model.requests
            sendable(request.messages)
            check_tools(request.messages, store.states[state][1])
            interrupted += any(one.content == INTERRUPTED for one in request.messages)
            assert hands.called == []
            said = await history(daemon.client)
            assert said[-2:] == [("user", "go on"), ("assistant", "I go on")]
        # What was mended is stored: the next life finds nothing to mend.
        async with conversing(store=reopened, hands=hands) as daemon:
            assert await history(daemon.client) == said
    assert interrupted >= 2


async def test_a_wake_s_turn_goes_on_from_every_state_and_its_tools_do_not_run_again():
    store, agent, states = await photographed(a_wake_s_turn)
    resumed = 0
    for state in states:
        hands = counting()
        reopened = store.reopened(state)
        before = Counter(given["n"] for _, given in store.states[state][1])
        begun = bool(Wakes(reopened).count(agent))
        async with conversing(store=reopened, hands=hands) as daemon:
            await until_no_wakes(daemon, agent)
            for request in daemon.model.requests:
                sendable(request.messages)
                check_tools(request.messages, store.states[state][1])
                resumed += len(request.messages) > 1
            assert hands.called == []
            assert all(times == 1 for times in before.values())
            listed = await daemon.client.ask(list_invocations=pb.ListInvocationsMsg())
            wakes = [one for one in listed.invocations if one.trigger == "wake"]
            assert len(wakes) == (1 if begun or before else 0)
            assert all(one.outcome == "done" for one in wakes)
    assert resumed >= 3


async def test_a_crash_between_answer_and_end_does_not_ask_the_model_again():
    store, agent, states = await photographed(a_wake_s_turn)
    asked = []
    for state in states:
        async with conversing(store=store.reopened(state), hands=counting()) as daemon:
            await until_no_wakes(daemon, agent)
            asked.append(len(daemon.model.requests))
    # Before the wake there is nothing to ask; in each state of its turn once; with the answer stored, never.
    assert asked[0] == 0
    assert asked[-2:] == [0, 0]
    assert max(asked) == 1


async def test_a_restart_in_the_middle_of_a_stream_leaves_what_was_asked():
    store = Photographed()
    async with conversing([trio.sleep_forever], store=store) as daemon:
        ann = await daemon.client.declare("ann")
        await daemon.client.send(stream=pb.StreamMsg(agent=ann, content="hello", session_handle="s"))
        await daemon.model.until_asked(1)
        reopened = store.reopened(-1)
    async with conversing(says("hi again"), store=reopened) as daemon:
        assert await history(daemon.client) == [("user", "hello")]
        request = await daemon.client.send(
            stream=pb.StreamMsg(agent=ann, content="are you there?", session_handle="s")
        )
        assert (await events_of(daemon.client, request))[-1].end.error == ""
        assert [one.content for one in daemon.model.requests[0].messages] == ["hello", "are you there?"]
