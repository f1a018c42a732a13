"""Summing a session up: what the model hears before and after, what stays, and what is remembered."""

from dataclasses import replace

import pytest
import trio

from conversing import Hands, calls, conversing, history, says, sendable, sent
from crabtalk.conversation.model import ErrorKind, ModelError
from crabtalk.store.interfaces.sessions import Sessions
from crabtalk.store.keys import key
from crabtalk.wire.pb import crabtalk_pb2 as pb
from daemon_client import Refused

pytestmark = pytest.mark.trio


async def compact(client, prompt="Sum up.", handle="s"):
    return (await client.ask(compact=pb.CompactMsg(prompt=prompt, session_handle=handle))).summary


async def test_a_summary_stands_for_what_was_said_which_stays():
    hands = Hands(look=lambda _context, _given: "x" * 50)
    answers = [calls(("look", {})), says("seen"), says("it was looked"), says("yes")]
    async with conversing(*answers, hands=hands) as daemon:
        client = daemon.client
        ann = await client.declare("ann", compact_tool_max_len=10, description="A.")
        await sent(client, ann, "look")
        assert await compact(client, "In one line.") == "it was looked"
        asked = daemon.model.requests[2]
        assert asked.tool_choice == "none"
        assert asked.system == "A."
        assert [one.content for one in asked.messages] == [
            "look",
            "",
            "x" * 10 + "… (40 characters were left out)",
            "seen",
            "In one line.",
        ]
        await sent(client, ann, "and now?")
        assert [(one.role, one.content) for one in daemon.model.requests[3].messages] == [
            ("user", "it was looked"),
            ("user", "and now?"),
        ]
        assert await history(client) == [
            ("user", "look"),
            ("assistant", ""),
            ("tool", "x" * 50),
            ("assistant", "seen"),
            ("system", "it was looked"),
            ("user", "and now?"),
            ("assistant", "yes"),
        ]


async def test_summaries_follow_each_other_and_survive_a_restart():
    answers = [says("one"), says("first summary"), says("two"), says("second summary")]
    async with conversing(*answers) as daemon:
        ann = await daemon.client.declare("ann")
        for content in ("1", "2"):
            await sent(daemon.client, ann, content)
            await compact(daemon.client)
        store = daemon.runtime.store
        assert [one.content for one in daemon.model.requests[3].messages] == [
            "first summary",
            "2",
            "two",
            "Sum up.",
        ]
    async with conversing(store=store) as daemon:
        await sent(daemon.client, ann, "3")
        assert [one.content for one in daemon.model.requests[0].messages] == ["second summary", "3"]


async def test_a_summary_is_remembered_by_the_agent():
    async with conversing(says("ok"), says("lamps are lit at dusk")) as daemon:
        client = daemon.client
        ann = await client.declare("ann", {"name": "memory", "builtin": "memory"})
        await sent(client, ann, "when are lamps lit?")
        await compact(client)
        outcome = await client.call(ann, "memory", "recall", '{"query": "dusk"}')
        assert b"lamps are lit at dusk" in outcome.done


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ([ModelError(ErrorKind.OVERLOADED, "busy")], "429: the model did not answer: busy"),
        (says("half", reason="length"), "500: the answer was cut off"),
        (says(" "), "500: the model gave no summary"),
        ([*calls(("look", {})), *calls(("look", {}))], "500: "),
    ],
)
async def test_a_summary_that_fails_changes_nothing(answer, message):
    hands = Hands(look=lambda _context, _given: "x")
    async with conversing(says("hi"), answer, answer, says("after"), hands=hands) as daemon:
        client = daemon.client
        ann = await client.declare("ann")
        await sent(client, ann, "hello")
        with pytest.raises(Refused, match=message):
            await compact(client)
        assert await history(client) == [("user", "hello"), ("assistant", "hi")]
        assert hands.called == []


async def test_what_cannot_be_summed_up_is_refused():
    async with conversing() as daemon:
        client = daemon.client
        ann = await client.declare("ann")
        with pytest.raises(Refused, match="404: there is no session"):
            await compact(client)
        await client.ask(create_session=pb.CreateSessionMsg(session_handle="s", agent=ann))
        with pytest.raises(Refused, match="400: nothing was said in this session yet"):
            await compact(client)
        with pytest.raises(Refused, match="400: prompt: expected what the model is to do"):
            await compact(client, " ")


async def test_a_summary_waits_for_the_turn_that_runs_and_can_be_cancelled():
    release = trio.Event()
    async with conversing([release.wait, *says("hi")], [trio.sleep_forever]) as daemon:
        client = daemon.client
        ann = await client.declare("ann")
        await client.send(stream=pb.StreamMsg(agent=ann, content="hello", session_handle="s"))
        await daemon.model.until_asked(1)
        summing = await client.send(compact=pb.CompactMsg(prompt="Sum up.", session_handle="s"))
        await client.ask(ping=pb.PingMsg())
        release.set()
        await daemon.model.until_asked(2)
        await client.ask(cancel_stream=pb.CancelStreamMsg(session_handle="s"))
        with pytest.raises(Refused, match="499: it was cancelled"):
            await client.receive(summing)
        assert await history(client) == [("user", "hello"), ("assistant", "hi")]


async def test_a_session_that_a_crash_cut_off_is_summed_up_as_one_that_was_mended():
    hands = Hands(look=lambda _context, _given: "x")
    async with conversing(calls(("look", {})), says("ok"), hands=hands) as daemon:
        client = daemon.client
        ann = await client.declare("ann")
        await sent(client, ann, "look")
        store, record = daemon.runtime.store, daemon.runtime.sessions.get("s")
        lost = [key("message", "s", index) for index in (2, 3)]
        store.apply([("session", at, None) for at in lost])
        store.apply(Sessions(store).save(replace(record, message_count=2)))
        daemon.model.answers = [says("summary"), says("fine")]
        await compact(client)
        sendable(daemon.model.requests[-1].messages)
        await sent(client, ann, "go on")
        assert [one.content for one in daemon.model.requests[-1].messages] == ["summary", "go on"]
        assert [role for role, _ in await history(client)] == [
            "user",
            "assistant",
            "tool",
            "system",
            "user",
            "assistant",
        ]
