"""A model that lies: whatever it calls, the turn goes on, and the history stays one that can be sent."""

import pytest

from conversing import Hands, calls, conversing, history, says, sendable, sent, streamed
from crabtalk.conversation.answer import MAX_ARGUMENTS, MAX_CALLS
from crabtalk.conversation.messages import Usage
from crabtalk.conversation.model import Finished, TextDelta, ToolCallDelta, ToolCallStarted, UsageReport
from crabtalk.toolbox import MAX_RESULT
from crabtalk.tools import Done, Trapped

pytestmark = pytest.mark.trio


def echo(_context, given):
    return repr(given)


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("ecko", {}, "there is no tool `ecko`; did you mean `echo`?"),
        ("rm -rf /", {}, "not run: no tool has such a name"),
        ("x" * 300, {}, "not run: no tool has such a name"),
        ("", {}, "not run: no tool has such a name"),
        ("echo", '{"a":', "not run: its arguments are no JSON object: Expecting value"),
        ("echo", "[1]", "not run: its arguments are no JSON object: it is list"),
        ("echo", "null", "not run: its arguments are no JSON object: it is null"),
        ("echo", '{"a": NaN}', "not run: its arguments are no JSON object: NaN is no number of JSON"),
        ("echo", '{"a":' * 100_000, "not run: its arguments are no JSON object: "),
        ("echo", '{"a": "' + "x" * MAX_ARGUMENTS + '"}', "not run: its arguments have 1048585 characters"),
        ("echo", "", "{}"),
        ("echo", '{"a": "\\ud800"}', "{'a': '\\ud800'}"),
    ],
)
async def test_a_call_that_cannot_be_run_is_an_error_that_the_model_reads(name, arguments, told):
    hands = Hands(echo=echo)
    async with conversing(calls((name, arguments)), says("sorry"), hands=hands) as daemon:
        ann = await daemon.client.declare("ann")
        assert (await sent(daemon.client, ann, "go")).content == "sorry"
        messages = daemon.model.requests[1].messages
        sendable(messages)
        assert messages[-1].content.startswith(told)
        assert messages[-1].is_error == (not told.startswith("{"))


async def test_a_hundred_calls_at_once_are_run_and_more_than_may_be_are_not():
    hands = Hands(echo=echo)
    many = [("echo", {"n": n}) for n in range(MAX_CALLS + 2)]
    async with conversing(calls(*many), says("phew"), hands=hands) as daemon:
        ann = await daemon.client.declare("ann")
        await sent(daemon.client, ann, "go")
        messages = daemon.model.requests[1].messages
        sendable(messages)
        assert sorted(given["n"] for _, given in hands.called) == list(range(MAX_CALLS))
        assert [one.content for one in messages[-2:]] == [
            f"not run: one answer may call {MAX_CALLS} tools at most"
        ] * 2


async def test_tools_of_other_agents_are_not_there():
    class Hers(Hands):
        def harnesses(self, agent):
            return super().harnesses(agent) if agent.name == "ann" else ()

        def tools(self, agent):
            return super().tools(agent) if agent.name == "ann" else []

    hands = Hers(secret=echo)
    async with conversing(calls(("secret", {})), says("no"), hands=hands) as daemon:
        await daemon.client.declare("ann")
        bob = await daemon.client.declare("bob")
        await sent(daemon.client, bob, "go")
        assert daemon.model.requests[1].messages[-1].content == "there is no tool `secret`"
        assert hands.called == []


async def test_calls_where_none_may_be_made_are_not_run():
    hands = Hands(echo=echo)
    async with conversing(calls(("echo", {})), says("fine"), hands=hands) as daemon:
        ann = await daemon.client.declare("ann")
        await sent(daemon.client, ann, "go", tool_choice="none")
        assert daemon.model.requests[1].messages[-1].content == "not run: no tool may be called now"
        assert hands.called == []


async def test_a_guest_that_calls_tools_has_only_said_something():
    hands = Hands(echo=echo)
    async with conversing(
        says("hi"), calls(("echo", {}), text="look"), calls(("echo", {})), hands=hands
    ) as d:
        ann = await d.client.declare("ann")
        await d.client.declare("bob")
        await sent(d.client, ann, "hello")
        assert (await streamed(d.client, ann, "you?", guest="bob"))[-1].end.error == ""
        ended = (await streamed(d.client, ann, "you?", guest="bob"))[-1].end
        assert ended.error == "the model called a tool, and a guest has none"
        assert hands.called == []
        await sent(d.client, ann, "ann?")
        sendable(d.model.requests[-1].messages)


async def test_ids_that_are_missing_or_come_twice_are_told_apart():
    answer = [
        *(
            ToolCallStarted(index, call_id, "echo")
            for index, call_id in enumerate(["a", "a", "", "", "c" * 999])
        ),
        *(ToolCallDelta(index, f'{{"n": {index}}}') for index in range(5)),
        Finished("tool_calls"),
    ]
    hands = Hands(echo=echo)
    async with conversing(answer, says("ok"), hands=hands) as daemon:
        ann = await daemon.client.declare("ann")
        await sent(daemon.client, ann, "go")
        messages = daemon.model.requests[1].messages
        sendable(messages)
        assert [one.content for one in messages[2:]] == [f"{{'n': {n}}}" for n in range(5)]


async def test_arguments_without_a_beginning_are_a_call_without_a_name():
    answer = [ToolCallDelta(3, '{"a": 1}'), Finished("tool_calls")]
    async with conversing(answer, says("ok"), hands=Hands(echo=echo)) as daemon:
        ann = await daemon.client.declare("ann")
        await sent(daemon.client, ann, "go")
        sendable(daemon.model.requests[1].messages)


async def test_calls_of_an_answer_that_was_cut_short_are_not_run():
    answer = [ToolCallStarted(0, "a", "echo"), ToolCallDelta(0, "{}"), Finished("length")]
    hands = Hands(echo=echo)
    async with conversing(answer, says("ok"), hands=hands) as daemon:
        ann = await daemon.client.declare("ann")
        assert "cut off" in (await streamed(daemon.client, ann, "go"))[-1].end.error
        assert hands.called == []
        assert await history(daemon.client) == [("user", "go")]


async def test_huge_results_are_cut_and_deaths_are_one_plain_sentence():
    hands = Hands(
        huge=lambda _context, _given: Done(b"x" * (MAX_RESULT + 7)),
        dies=lambda _context, _given: Trapped("load_fault", "secret address 0x4000"),
        breaks=lambda _context, _given: 1 / 0,
    )
    wanted = calls(("huge", {}), ("dies", {}), ("breaks", {}))
    async with conversing(wanted, says("ok"), hands=hands) as daemon:
        ann = await daemon.client.declare("ann")
        await sent(daemon.client, ann, "go")
        huge, dies, breaks = daemon.model.requests[1].messages[2:]
        assert huge.content.endswith("… (7 more characters were left out)")
        assert dies.content == breaks.content == "the tool stopped with an error and gave no result"
        assert (huge.is_error, dies.is_error, breaks.is_error) == (False, True, True)


async def test_usage_beyond_what_the_wire_can_say_is_the_most_that_it_can():
    answer = [TextDelta("hi"), UsageReport(Usage(1 << 40, -5, 1 << 40)), Finished("stop")]
    async with conversing(answer) as daemon:
        ann = await daemon.client.declare("ann")
        usage = (await sent(daemon.client, ann, "go")).usage
        assert (usage.prompt, usage.completion) == ((1 << 32) - 1, 0)


async def test_half_of_a_character_does_not_end_the_connection():
    async with conversing([TextDelta("a\ud83d"), Finished("stop")]) as daemon:
        ann = await daemon.client.declare("ann")
        assert (await sent(daemon.client, ann, "go")).content == "a?"
        assert await history(daemon.client) == [("user", "go"), ("assistant", "a?")]
