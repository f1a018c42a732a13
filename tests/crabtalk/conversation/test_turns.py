"""Turns through the daemon: what a client reads, what is stored, and how each ends exactly once."""

import json

import pytest
import trio

from conversing import Hands, calls, conversing, events_of, history, kinds, says, sent, streamed
from crabtalk.conversation.messages import Usage
from crabtalk.conversation.model import ErrorKind, Finished, ModelError, TextDelta
from crabtalk.handlers import turns
from crabtalk.tools import Failed
from crabtalk.wire.codec import encode_request
from crabtalk.wire.pb import crabtalk_pb2 as pb
from daemon_client import Refused

pytestmark = pytest.mark.trio


async def test_a_stream_tells_each_step_and_ends_once():
    hands = Hands(add=lambda _context, given: str(given["a"] + given["b"]))
    answers = [calls(("add", {"a": 2, "b": 3}), text="let me see"), says("it is 5", thinking="hm")]
    async with conversing(*answers, hands=hands) as daemon:
        ann = await daemon.client.declare("ann", description="You add.")
        events = await streamed(daemon.client, ann, "2 + 3?")
        assert kinds(events) == [
            "start",
            "text_start",
            "chunk",
            "text_end",
            "context_usage",
            "tool_start",
            "tool_result",
            "tools_complete",
            "thinking_start",
            "thinking",
            "thinking_end",
            "text_start",
            *["chunk"] * 3,
            "text_end",
            "end",
        ]
        started, result, end = events[5].tool_start, events[6].tool_result, events[-1].end
        assert [(one.name, json.loads(one.arguments)) for one in started.calls] == [("add", {"a": 2, "b": 3})]
        assert (result.call_id, result.output, result.is_error) == ("c0", "5", False)
        assert (end.agent, end.error, end.model, end.usage.total) == (ann, "", "puppet", 15)
        assert await history(daemon.client) == [
            ("user", "2 + 3?"),
            ("assistant", "let me see"),
            ("tool", "5"),
            ("assistant", "it is 5"),
        ]


@pytest.mark.parametrize("broken", ["start", "chunk", "end"])
async def test_a_step_that_cannot_be_told_ends_its_turn_and_nothing_else(monkeypatch, broken):
    event = turns._event

    def breaking(turn, step):
        made = event(turn, step)
        return 1 // 0 if made.WhichOneof("event") == broken else made

    async with conversing(says("yes"), says("yes")) as daemon:
        ann = await daemon.client.declare("ann")
        with monkeypatch.context() as patched:
            patched.setattr(turns, "_event", breaking)
            with trio.fail_after(5), pytest.raises(Refused) as caught:
                await streamed(daemon.client, ann, "really?")
        assert caught.value.code == 500
        assert daemon.runtime.conversations.turns() == []
        assert (await sent(daemon.client, ann, "really?")).content == "yes"


async def test_a_reply_is_the_answer_alone():
    async with conversing(says("yes", usage=Usage(3, 1, 4))) as daemon:
        ann = await daemon.client.declare("ann")
        reply = await sent(daemon.client, ann, "really?")
        assert (reply.agent, reply.content, reply.model, reply.usage.total) == (ann, "yes", "puppet", 4)


async def test_the_model_hears_description_usages_and_all_that_was_said():
    hands = Hands(usage="Use hands.", wave=lambda _context, _given: "waved")
    async with conversing(says("one"), says("two"), hands=hands) as daemon:
        ann = await daemon.client.declare("ann", description="You are ann.")
        await sent(daemon.client, ann, "first")
        await sent(daemon.client, ann, "second")
        request = daemon.model.requests[1]
        assert request.system == "You are ann.\n\nUse hands."
        assert [(one.role, one.content) for one in request.messages] == [
            ("user", "first"),
            ("assistant", "one"),
            ("user", "second"),
        ]
        assert [one.wire_name for one in request.tools] == ["wave"]


@pytest.mark.parametrize(
    ("answer", "error", "kept"),
    [
        ([ModelError(ErrorKind.AUTH, "no key")], "the model did not answer: no key", []),
        (
            [TextDelta("I th"), ModelError(ErrorKind.INTERRUPTED, "cut")],
            "the model did not answer: cut",
            [("assistant", "I th")],
        ),
        (says("so long", reason="length"), "the answer was cut off", [("assistant", "so long")]),
        (says("", reason="refused"), "the model does not want to answer this", []),
        ([TextDelta("x"), RuntimeError("bug")], "an internal error", [("assistant", "x")]),
    ],
)
async def test_a_turn_that_is_cut_short_says_so_and_keeps_what_was_said(answer, error, kept):
    async with conversing(answer, says("better")) as daemon:
        ann = await daemon.client.declare("ann")
        events = await streamed(daemon.client, ann, "hello")
        assert kinds(events).count("end") == 1
        assert events[-1].end.error.startswith(error)
        assert await history(daemon.client) == [("user", "hello"), *kept]
        assert (await sent(daemon.client, ann, "again")).content == "better"


async def test_a_send_that_is_cut_short_is_an_error():
    async with conversing([ModelError(ErrorKind.RATE, "slow down")]) as daemon:
        ann = await daemon.client.declare("ann")
        with pytest.raises(Refused, match="429: the model did not answer: slow down"):
            await sent(daemon.client, ann, "hello")


async def test_what_cannot_be_a_turn_is_refused_before_it_starts():
    async with conversing() as daemon:
        client = daemon.client
        ann, bob = await client.declare("ann"), await client.declare("bob", model="missing")
        await sent(client, ann, "hello", "hers")
        for agent, content, handle, message in [
            ("nobody", "x", "s", "404: no agent `nobody`"),
            (ann, "", "s", "400: content: expected what to say, got nothing"),
            (ann, "x", "", "400: session_handle: expected a handle, got nothing"),
            (ann, "x", "wake:1", "400: session_handle: handles that start with `wake:`"),
            (bob, "x", "s", "404: there is no model `missing`"),
            (bob, "x", "hers", "400: session `hers` is not one of agent bob"),
        ]:
            with pytest.raises(Refused, match=message):
                await streamed(client, agent, content, handle)
        assert len(daemon.model.requests) == 1


async def test_rounds_of_tools_end_at_max_iterations_with_every_result():
    hands = Hands(again=lambda _context, _given: "more")
    async with conversing(*[calls(("again", {}))] * 9, hands=hands) as daemon:
        ann = await daemon.client.declare("ann", max_iterations=3)
        events = await streamed(daemon.client, ann, "go")
        assert events[-1].end.error.startswith("stopped after 3 rounds of tool calls")
        assert await history(daemon.client) == [("user", "go"), *[("assistant", ""), ("tool", "more")] * 3]


async def test_tools_of_one_answer_run_side_by_side_and_each_has_its_result():
    meeting, arrived = trio.Event(), []

    async def meet(_context, given):
        arrived.append(given["who"])
        if len(arrived) == 3:
            meeting.set()
        await meeting.wait()
        return f"met {given['who']}"

    wanted = [("meet", {"who": n}) for n in range(3)]
    async with conversing(calls(*wanted), says("done"), hands=Hands(meet=meet)) as daemon:
        ann = await daemon.client.declare("ann")
        with trio.fail_after(5):
            events = await streamed(daemon.client, ann, "go")
        assert sorted(one.tool_result.output for one in events if one.HasField("tool_result")) == [
            "met 0",
            "met 1",
            "met 2",
        ]
        results = daemon.model.requests[1].messages[2:]
        assert [(one.tool_call_id, one.content) for one in results] == [
            ("c0", "met 0"),
            ("c1", "met 1"),
            ("c2", "met 2"),
        ]


async def test_a_failing_tool_is_what_the_model_hears():
    hands = Hands(no=lambda _context, _given: Failed("not today"))
    async with conversing(calls(("no", {})), says("a pity"), hands=hands) as daemon:
        ann = await daemon.client.declare("ann")
        await sent(daemon.client, ann, "do it")
        (result,) = daemon.model.requests[1].messages[2:]
        assert (result.content, result.is_error) == ("not today", True)


async def test_turns_of_one_session_run_one_after_the_other_and_of_others_beside():
    release, begun = trio.Event(), []

    def answer(request):
        begun.append(request.messages[-1].content)
        return [release.wait, *says("ok")] if request.messages[-1].content == "slow" else says("ok")

    async with conversing(*[answer] * 3) as daemon:
        client = daemon.client
        ann = await client.declare("ann")
        slow = await client.send(stream=pb.StreamMsg(agent=ann, content="slow", session_handle="s"))
        await client.receive(slow)
        next_one = await client.send(stream=pb.StreamMsg(agent=ann, content="next", session_handle="s"))
        await client.receive(next_one)
        assert (await sent(client, ann, "beside", "other")).content == "ok"
        assert begun == ["slow", "beside"]
        release.set()
        await events_of(client, next_one)
        assert await history(client) == [
            ("user", "slow"),
            ("assistant", "ok"),
            ("user", "next"),
            ("assistant", "ok"),
        ]


async def test_a_client_that_goes_away_leaves_its_turn_running():
    release = trio.Event()
    async with conversing([TextDelta("I go on"), release.wait, Finished("stop")]) as daemon:
        ann = await daemon.client.declare("ann")
        stream = await daemon.listener.connect()
        other = type(daemon.client)(stream)
        await other.receive(
            await other.send(stream=pb.StreamMsg(agent=ann, content="hello", session_handle="s"))
        )
        stream.close()
        await trio.testing.wait_all_tasks_blocked()
        (turn,) = daemon.runtime.conversations.turns()
        release.set()
        with trio.fail_after(5):
            await turn.result()
        assert await history(daemon.client) == [("user", "hello"), ("assistant", "I go on")]


async def test_an_ephemeral_turn_hears_the_session_and_leaves_nothing():
    async with conversing(says("first"), says("aside")) as daemon:
        ann = await daemon.client.declare("ann")
        await sent(daemon.client, ann, "one")
        events = await streamed(daemon.client, ann, "whisper", ephemeral=True)
        assert events[-1].end.error == ""
        assert [one.content for one in daemon.model.requests[1].messages] == ["one", "first", "whisper"]
        assert await history(daemon.client) == [("user", "one"), ("assistant", "first")]
        events = await streamed(daemon.client, ann, "alone", "", ephemeral=True)
        assert events[-1].end.error == ""
        listed = await daemon.client.ask(list_conversations=pb.ListConversationsMsg())
        assert [one.file_path for one in listed.conversations] == ["s"]


async def test_every_turn_of_a_client_leaves_a_row_that_names_the_client():
    answers = [says("yes"), [ModelError(ErrorKind.AUTH, "no key")], says("aside"), says("all")]
    async with conversing(*answers) as daemon:
        client = daemon.client
        ann = await client.declare("ann")
        await sent(client, ann, "four")
        with pytest.raises(Refused, match="no key"):
            await sent(client, ann, "again")
        await streamed(client, ann, "whisper", "", ephemeral=True)
        await client.ask(compact=pb.CompactMsg(prompt="Sum up.", session_handle="s"))
        rows = sorted(daemon.runtime.audit.latest(), key=lambda row: row.id)
    assert [(row.tool, row.outcome, row.args_size, row.result_size) for row in rows] == [
        ("turn", "done", 4, 3),
        ("turn", "failed", 5, 0),
        ("turn", "done", 7, 5),
        ("compact", "done", 7, 3),
    ]
    assert rows[1].message.endswith("no key")
    assert {(row.trigger, row.agent_id, row.harness, row.client) for row in rows} == {
        ("client", ann, "", "memory")
    }
    assert all(row.chain == row.id for row in rows)


async def test_a_guest_answers_in_text_and_each_hears_who_spoke():
    hands = Hands(wave=lambda _context, _given: "waved")
    answers = [calls(("wave", {})), says("ann speaks"), says("bob speaks"), says("ann again")]
    async with conversing(*answers, hands=hands) as daemon:
        client = daemon.client
        ann, bob = (
            await client.declare("ann", description="A."),
            await client.declare("bob", description="B."),
        )
        await sent(client, ann, "hello")
        events = await streamed(client, ann, "and you?", guest="bob")
        assert (events[0].start.agent, events[-1].end.agent) == (bob, bob)
        await sent(client, ann, "ann?")
        for_bob, for_ann = daemon.model.requests[2:]
        assert (for_bob.system, len(for_bob.tools)) == ("B.", 0)
        assert [(one.role, one.content) for one in for_bob.messages] == [
            ("user", "hello"),
            ("user", "[ann] ann speaks"),
            ("user", "and you?"),
        ]
        assert [(one.role, one.content) for one in for_ann.messages][-3:] == [
            ("user", "and you?"),
            ("user", "[bob] bob speaks"),
            ("user", "ann?"),
        ]
        assert ("assistant", "bob speaks") in await history(client)


async def test_a_session_is_named_after_what_was_said_first():
    async with conversing() as daemon:
        ann = await daemon.client.declare("ann")
        await sent(daemon.client, ann, "  Find the\n bug in " + "x" * 200, sender="me")
        listed = await daemon.client.ask(list_conversations=pb.ListConversationsMsg(sender="me"))
        (one,) = listed.conversations
        assert (one.title, one.message_count, one.agent_name) == ("Find the bug in…", 2, "ann")


async def test_followers_see_the_turns_of_everybody():
    async with conversing(says("hi")) as daemon:
        client = daemon.client
        ann = await client.declare("ann")
        following = await client.send(subscribe_events=pb.SubscribeEventsMsg())
        await trio.testing.wait_all_tasks_blocked()
        await sent(client, ann, "hello", sender="me")
        seen = [await client.receive(following) for _ in range(4)]
        assert [one.kind for one in seen] == [pb.TEXT_START, pb.TEXT_DELTA, pb.TEXT_END, pb.DONE]
        assert {(one.agent, one.sender, one.ephemeral) for one in seen} == {(ann, "me", False)}
        assert seen[1].content == "hi"


@pytest.mark.parametrize(
    ("choice", "asked", "error"),
    [
        ("required", ["required", "auto"], ""),
        ("wave", ["wave", "auto"], ""),
        ("auto", ["auto", "auto"], ""),
        ("dance", [], "tool_choice: there is no tool `dance`"),
    ],
)
async def test_a_choice_that_forces_a_call_forces_one(choice, asked, error):
    hands = Hands(wave=lambda _context, _given: "waved")
    async with conversing(calls(("wave", {})), says("done"), hands=hands) as daemon:
        ann = await daemon.client.declare("ann")
        events = await streamed(daemon.client, ann, "go", tool_choice=choice)
        assert events[-1].end.error == error
        assert [one.tool_choice for one in daemon.model.requests] == asked


async def test_replies_without_a_request_id_are_tagged_in_an_ephemeral_turn():
    async with conversing(says("hi")) as daemon:
        client = daemon.client
        ann = await client.declare("ann")
        asked = pb.StreamMsg(agent=ann, content="hello", ephemeral=True, correlation_id=77)
        await client.stream.send_all(encode_request(pb.ClientMessage(stream=asked)))
        assert kinds(await events_of(client, 77))[-1] == "end"
