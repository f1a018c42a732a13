"""Histories and answers as values: the pair rule, who is heard how, and what is made of a stream."""

import random
import re

import pytest

from conversing import sendable
from crabtalk.conversation.answer import Answer
from crabtalk.conversation.history import (
    INTERRUPTED,
    for_model,
    repaired,
    title_of,
    unanswered,
    with_short_results,
)
from crabtalk.conversation.messages import Message, ToolCall
from crabtalk.conversation.model import TextDelta, ThinkingDelta
from crabtalk.toolbox import safe_name


def asks(*ids):
    return Message("assistant", "", tool_calls=tuple(ToolCall(one, "t", "{}") for one in ids))


def result(call_id, content="ok"):
    return Message("tool", content, tool_call_id=call_id)


USER = Message("user", "hi")


def test_a_call_without_a_result_gets_one_that_says_so():
    fixed = repaired([USER, asks("a", "b"), result("b"), USER])
    assert [(one.tool_call_id, one.content, one.is_error) for one in fixed[2:4]] == [
        ("a", INTERRUPTED, True),
        ("b", "ok", False),
    ]


def test_results_without_a_call_go_and_of_two_the_first_stays():
    fixed = repaired([result("x"), USER, asks("a"), result("a", "1"), result("a", "2"), result("z")])
    assert [one.content for one in fixed] == ["hi", "", "1"]


def test_only_the_last_calls_are_unanswered():
    assert [one.id for one in unanswered([USER, asks("a", "b"), result("b")])] == ["a"]
    assert unanswered([USER, asks("a"), USER]) == ()
    assert unanswered([]) == ()
    assert unanswered([result("a")]) == ()


def test_any_history_becomes_one_that_can_be_sent():
    draw = random.Random(4)
    choices = [
        lambda: USER,
        lambda: asks(*draw.sample("abcd", draw.randint(1, 3))),
        lambda: result(draw.choice("abcd")),
        lambda: Message("assistant", "said", guest=draw.choice(["", "bob"])),
        lambda: Message("assistant", "cut", is_error=True),
        lambda: Message("system", "summary"),
    ]
    for _ in range(2000):
        messages = [draw.choice(choices)() for _ in range(draw.randint(0, 12))]
        assert repaired(repaired(messages)) == repaired(messages)
        for speaker in ("", "bob"):
            heard = for_model(messages, speaker=speaker, host="ann")
            sendable(heard)
            assert {one.role for one in heard} <= {"user", "assistant", "tool"}
            assert not heard or not heard[-1].is_error or heard[-1].role == "tool"


def test_long_results_are_cut_for_a_summary_and_short_ones_are_not():
    short, long = with_short_results([result("a", "x" * 5), result("b", "x" * 9)], 5)
    assert (short.content, long.content) == ("xxxxx", "xxxxx… (4 characters were left out)")


@pytest.mark.parametrize(
    ("content", "title"),
    [
        ("hello", "hello"),
        (" a\n\tb ", "a b"),
        ("", ""),
        ("\x1b[31mred", "[31mred"),
        ("word " * 40, "word " * 15 + "word…"),
        ("x" * 200, "x" * 79 + "…"),
    ],
)
def test_a_title_is_the_first_words(content, title):
    assert title_of(content) == title


def test_names_that_no_endpoint_takes_get_one_that_each_does():
    names = [safe_name(name) for name in ("a.b", "a_b", "é" * 100, "")]
    assert len(set(names)) == 4
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) for name in names)


def test_pieces_of_text_and_thinking_are_bracketed_also_when_the_end_is_missing():
    answer = Answer()
    steps = [step for event in (ThinkingDelta("t"), TextDelta("a")) for step in answer.take(event)]
    steps += answer.closing()
    assert [type(step).__name__ for step in steps] == [
        "ThinkingStarted",
        "Thinking",
        "ThinkingEnded",
        "TextStarted",
        "Text",
        "TextEnded",
    ]
    assert list(answer.closing()) == []


def test_thinking_that_was_cut_short_is_not_kept():
    answer = Answer()
    list(answer.take(ThinkingDelta("t")))
    assert answer.cut_short(guest="", now_ms=1) is None
    list(answer.take(TextDelta("a")))
    assert answer.cut_short(guest="", now_ms=1) == Message("assistant", "a", is_error=True, created_ms=1)
