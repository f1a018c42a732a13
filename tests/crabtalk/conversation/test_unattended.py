"""Turns that nobody waits for: of wakes, of events and of other agents; and where loops of them end."""

import json

import pytest
import trio

from conversing import Hands, calls, conversing, history, says, sent, until_no_wakes
from crabtalk.config import Config, ExecutorConfig
from crabtalk.conversation.history import INTERRUPTED
from crabtalk.errors import RequestError
from crabtalk.store.memory import MemoryEngine
from crabtalk.tools import Failed
from crabtalk.wire.pb import crabtalk_pb2 as pb
from daemon_client import Refused

pytestmark = pytest.mark.trio


async def wake(client, agent, payload=b"", at_ms=0, **options):
    return await client.ask(
        schedule_wake=pb.ScheduleWakeMsg(agent=agent, at_ms=at_ms, payload=payload, **options)
    )


async def subscribe(client, source, agent, **options):
    return await client.ask(
        subscribe_event=pb.SubscribeEventMsg(source=source, target_agent=agent, **options)
    )


async def publish(client, source, payload=""):
    await client.ask(publish_event=pb.PublishEventMsg(source=source, payload=payload))


async def events(client, pattern):
    """Return a function that waits for the next event of a pattern: its source, and what it says."""
    watching = await client.send(tail_events=pb.TailEventsMsg(source=pattern))
    await client.ask(ping=pb.PingMsg())

    async def following():
        with trio.fail_after(5):
            event = await client.receive(watching)
        return event.source, json.loads(event.payload)

    return following


async def rows(client, trigger):
    listed = await client.ask(list_invocations=pb.ListInvocationsMsg())
    return [one for one in listed.invocations if one.trigger == trigger]


async def test_a_wake_without_a_harness_is_a_turn_of_the_agent():
    clients = []

    def look(context, _given):
        clients.append(context.client)
        return "all is well"

    async with conversing(calls(("look", {})), says("fine"), hands=Hands(look=look)) as daemon:
        client = daemon.client
        ann = await client.declare("ann")
        following = await events(client, "agent:*")
        made = await wake(client, ann, b"look around", key="patrol")
        source, told = await following()
        handle = f"wake:{made.id}"
        assert source == "agent:ann:done"
        assert told | {"turn": "", "chain": ""} == {
            "agent": ann,
            "name": "ann",
            "session": handle,
            "turn": "",
            "outcome": "done",
            "trigger": "wake",
            "chain": "",
            "depth": 0,
        }
        said = await history(client, handle)
        facts = json.loads(said[0][1])
        assert (facts["wake"], facts["payload"], facts["key"], facts["attempt"]) == (
            made.id,
            "look around",
            "patrol",
            1,
        )
        assert said[1:] == [("assistant", ""), ("tool", "all is well"), ("assistant", "fine")]
        assert clients == [f"wake:{made.id}"]
        (row,) = await rows(client, "wake")
        assert (row.agent, row.harness, row.tool, row.outcome, row.chain) == (
            ann,
            "",
            "turn",
            "done",
            told["chain"],
        )
        assert [one.tool for one in await rows(client, "tool")] == ["look"]
        assert not (await client.ask(list_wakes=pb.ListWakesMsg(agent=ann))).wakes


async def test_payloads_that_are_no_text_reach_the_agent_all_the_same():
    async with conversing() as daemon:
        ann = await daemon.client.declare("ann")
        following = await events(daemon.client, "agent:*")
        made = await wake(daemon.client, ann, b"\xff\x00")
        await following()
        facts = json.loads((await history(daemon.client, f"wake:{made.id}"))[0][1])
        assert facts["payload_base64"] == "/wA="


async def test_events_start_turns_in_order_and_once_means_once():
    async with conversing() as daemon:
        client = daemon.client
        ann = await client.declare("ann")
        following = await events(client, "agent:*")
        made = await subscribe(client, "build:*", ann)
        assert (made.target_agent, made.target_harness) == (ann, "")
        assert (await subscribe(client, "build:*", ann)).id == made.id
        await subscribe(client, "build:done", ann, once=True)
        for number in range(3):
            await publish(client, "build:done", str(number))
        for _ in range(4):
            await following()
        asked = [json.loads(one.messages[-1].content) for one in daemon.model.requests]
        assert [one["payload"] for one in asked if one["subscription"] == made.id] == ["0", "1", "2"]
        assert [one["payload"] for one in asked if one["subscription"] != made.id] == ["0"]
        assert {one["event"] for one in asked} == {"build:done"}
        listed = await client.ask(list_subscriptions=pb.ListSubscriptionsMsg())
        assert [one.id for one in listed.subscriptions] == [made.id]
        senders = await client.ask(list_conversations=pb.ListConversationsMsg(sender="event:build:done"))
        assert len(senders.conversations) == 4


async def test_a_turn_that_fails_is_an_event_that_failed_and_is_not_tried_again():
    async with conversing([RuntimeError("bug")]) as daemon:
        client = daemon.client
        ann = await client.declare("ann")
        following = await events(client, "agent:*")
        await subscribe(client, "news", ann)
        await publish(client, "news", "x")
        assert (await following())[1]["outcome"] == "failed"
        (row,) = await rows(client, "event")
        assert (row.outcome, row.message[:17]) == ("failed", "an internal error")
        assert len(daemon.model.requests) == 1


async def test_targets_are_agents_that_there_are():
    async with conversing() as daemon:
        ann = await daemon.client.declare("ann")
        with pytest.raises(Refused, match="404"):
            await subscribe(daemon.client, "news", "nobody")
        with pytest.raises(Refused, match="400: target_agent and target_harness: expected one of them"):
            await subscribe(daemon.client, "news", ann, target_harness=f"{ann}/x")
        with pytest.raises(Refused, match="404"):
            await wake(daemon.client, "nobody")


async def test_what_an_agent_was_subscribed_to_goes_with_it():
    async with conversing() as daemon:
        client = daemon.client
        ann = await client.declare("ann")
        await subscribe(client, "news", ann)
        await wake(client, ann, at_ms=1 << 42)
        await client.ask(delete_agent=pb.DeleteAgentMsg(agent=ann))
        assert not (await client.ask(list_subscriptions=pb.ListSubscriptionsMsg())).subscriptions
        assert not (await client.ask(list_wakes=pb.ListWakesMsg())).wakes


# Agents that speak to agents


def speaking(daemon_of, targets):
    """Return a tool that speaks to the agent that it is told to, as `crabtalk.agent.send` does."""

    async def tell(context, given):
        runtime = daemon_of().runtime
        try:
            async with context.gate.suspended():
                ended = await runtime.unattended.send(
                    context, runtime.agents.find(given["to"]), given["what"]
                )
        except RequestError as error:
            return Failed(error.message)
        targets.append((context.depth, given["to"]))
        return ended.text if ended.error is None else Failed(ended.error.message)

    return tell


async def test_an_agent_speaks_to_another_as_itself():
    told, holder = [], []
    hands = Hands(tell=speaking(lambda: holder[0], told))
    answers = [calls(("tell", {"to": "bob", "what": "review this"})), says("good"), says("bob is content")]
    async with conversing(*answers, hands=hands) as daemon:
        holder.append(daemon)
        client = daemon.client
        ann, bob = await client.declare("ann"), await client.declare("bob")
        following = await events(client, "agent:*")
        await sent(client, ann, "have it reviewed")
        assert told == [(0, "bob")]
        bobs, anns = (await following())[1], (await following())[1]
        assert (bobs["name"], bobs["depth"], bobs["trigger"]) == ("bob", 1, "call")
        assert bobs["chain"] == anns["chain"]
        assert bobs["session"] == f"send:{bobs['chain']}:{bobs['session'].rpartition(':')[2]}"
        assert await history(client, bobs["session"]) == [("user", "review this"), ("assistant", "good")]
        listed = await client.ask(list_conversations=pb.ListConversationsMsg(agent=bob))
        assert [one.sender for one in listed.conversations] == [f"agent:{ann}"]
        (row,) = await rows(client, "call")
        assert (row.agent, row.tool, row.depth, row.outcome) == (bob, "turn", 1, "done")


async def test_an_agent_that_speaks_to_itself_ends_with_its_chain_and_one_event():
    told, holder = [], []
    hands = Hands(tell=speaking(lambda: holder[0], told))

    def again(request):
        if request.messages[-1].role == "tool":
            return says("I was told: " + request.messages[-1].content)
        return calls(("tell", {"to": "ann", "what": "again"}))

    async with conversing(*[again] * 40, hands=hands) as daemon:
        holder.append(daemon)
        client = daemon.client
        ann = await client.declare("ann")
        following = await events(client, "daemon:*")
        reply = await sent(client, ann, "go")
        assert "depth 9 is beyond the chain's 8" in reply.content
        source, ended = await following()
        assert source == "daemon:chain-ended"
        assert (ended["agent"], ended["depth"]) == (ann, 9)
        assert len(told) == 8
        await publish(client, "other")
        with trio.move_on_after(0.1) as scope:
            await following()
        assert scope.cancelled_caught


async def test_agents_that_wake_each_other_end_with_their_chain_and_one_event():
    async with conversing() as daemon:
        client = daemon.client
        ann, bob = await client.declare("ann"), await client.declare("bob")
        following = await events(client, "daemon:*")
        await subscribe(client, "agent:ann:done", bob)
        await subscribe(client, "agent:bob:done", ann)
        await sent(client, ann, "go")
        source, ended = await following()
        assert source == "daemon:chain-ended"
        assert "depth 9 is beyond the chain's 8: agent:ann:done" in ended["reason"]
        assert len(daemon.model.requests) == 9
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert len(daemon.model.requests) == 9


async def test_a_turn_ends_when_its_chain_has_used_its_tokens():
    hands = Hands(more=lambda _context, _given: "more")
    many = [calls(("more", {})) for _ in range(9)]
    async with conversing(*many, hands=hands) as daemon:
        client = daemon.client
        ann = await client.declare("ann")
        following = await events(client, "daemon:*")
        request = await client.send(stream=pb.StreamMsg(agent=ann, content="go", session_handle="s"))
        await client.receive(request)
        daemon.runtime.conversations.turns("s")[0].chain.tokens_left = 20
        while not (event := await client.receive(request)).HasField("end"):
            pass
        assert event.end.error.endswith("the chain has used all the tokens that it may")
        assert len(daemon.model.requests) == 2
        assert (await following())[0] == "daemon:chain-ended"
        assert [role for role, _ in await history(client)] == ["user", *["assistant", "tool"] * 2]


async def test_how_many_tokens_a_chain_has_is_configured():
    hands = Hands(more=lambda _context, _given: "more")
    config = Config(executor=ExecutorConfig(chain_tokens=1))
    async with conversing(calls(("more", {})), hands=hands, config=config) as daemon:
        ann = await daemon.client.declare("ann")
        with pytest.raises(Refused, match="the chain has used all the tokens that it may"):
            await sent(daemon.client, ann, "go")
        await wake(daemon.client, ann, b"go")
        await until_no_wakes(daemon, ann)
        (row,) = await rows(daemon.client, "wake")
        assert (row.outcome, len(daemon.model.requests)) == ("done", 2)


async def test_a_caller_that_is_cancelled_takes_the_turn_that_it_waits_for_along():
    told, holder = [], []
    hands = Hands(tell=speaking(lambda: holder[0], told))
    answers = [calls(("tell", {"to": "bob", "what": "think"})), [trio.sleep_forever]]
    async with conversing(*answers, hands=hands) as daemon:
        holder.append(daemon)
        client = daemon.client
        ann, _bob = await client.declare("ann"), await client.declare("bob")
        following = await events(client, "agent:*")
        await client.send(stream=pb.StreamMsg(agent=ann, content="go", session_handle="s"))
        await daemon.model.until_asked(2)
        turns = daemon.runtime.conversations.turns()
        await client.ask(kill=pb.KillMsg(session_handle="s"))
        ended = [(await following())[1] for _ in range(2)]
        assert [(one["name"], one["outcome"]) for one in ended] == [
            ("bob", "cancelled"),
            ("ann", "cancelled"),
        ]
        with trio.fail_after(5):
            assert [(await turn.result()).outcome for turn in turns] == ["cancelled", "cancelled"]


async def test_a_turn_that_a_stop_cut_off_goes_on_after_the_restart():
    store = MemoryEngine()
    hands = Hands(count=lambda _context, _given: "one")
    async with conversing(calls(("count", {})), [trio.sleep_forever], store=store, hands=hands) as daemon:
        ann = await daemon.client.declare("ann")
        made = await wake(daemon.client, ann, b"count")
        await daemon.model.until_asked(2)
    assert len(hands.called) == 1
    async with conversing(store=store, hands=hands) as daemon:
        await daemon.model.until_asked(1)
        await until_no_wakes(daemon, ann)
        (request,) = daemon.model.requests
        assert [one.role for one in request.messages] == ["user", "assistant", "tool"]
        assert INTERRUPTED not in request.messages[-1].content
        assert (await history(daemon.client, f"wake:{made.id}"))[-1] == ("assistant", "done")
        assert [one.outcome for one in await rows(daemon.client, "wake")] == ["done"]
    assert len(hands.called) == 1
