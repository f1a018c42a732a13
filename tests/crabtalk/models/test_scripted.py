"""A script as a model: which turn answers, what is said, and every mistake of a file."""

import json
from pathlib import Path

import pytest
import trio

from crabtalk.conversation.messages import Message, ToolCall, Usage
from crabtalk.conversation.model import ModelRequest, TextDelta
from crabtalk.errors import ConfigError
from crabtalk.providers.script import load_script, parse_script
from crabtalk.providers.scripted import ScriptedProvider
from model_endpoints import HELLO, collect, heard, tool

pytestmark = pytest.mark.trio

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"


def written(path, *turns):
    path.write_text(json.dumps({"turns": turns}))
    return ScriptedProvider("main", path)


@pytest.fixture
def script(tmp_path):
    return lambda *turns: written(tmp_path / "script.json", *turns)


def asking(*messages, **more):
    return ModelRequest(model="m", messages=messages, **more)


USER = Message("user", "please read notes.txt")
CALLED = Message("assistant", "", tool_calls=(ToolCall("a", "read", "{}"), ToolCall("b", "list", "{}")))
RESULTS = (Message("tool", "milk", tool_call_id="a"), Message("tool", "eggs", tool_call_id="b"))


async def said(provider, request):
    events, error = await collect(provider, request)
    return str(error) if error else heard(events).text


@pytest.mark.parametrize(
    ("expect", "first", "second"),
    [
        ({"user": "notes"}, True, True),
        ({"user": "Notes"}, False, False),
        ({"matches": "read (.+)$"}, True, True),
        ({"matches": "^read"}, False, False),
        ({"step": 0}, True, False),
        ({"step": 1}, False, True),
        ({"turn": 0}, True, True),
        ({"turn": 1}, False, False),
        ({"after": "list"}, False, True),
        ({"after": "read"}, False, False),
        ({"result": "milk"}, False, True),
        ({"result": "beer"}, False, False),
        ({"system": "kind"}, True, True),
        ({"system": "cruel"}, False, False),
        ({"model": "m"}, True, True),
        ({"model": "n"}, False, False),
        ({"tool": "read"}, True, True),
        ({"tool": "write"}, False, False),
        ({"tools": True}, True, True),
        ({"tools": False}, False, False),
        ({"user": "notes", "step": 1, "after": "list"}, False, True),
    ],
)
async def test_when_a_turn_is_meant(script, expect, first, second):
    provider = script({"expect": expect, "text": "yes"}, {"text": "no"})
    more = {"system": "Be kind.", "tools": [tool("read")]}
    assert await said(provider, asking(USER, **more)) == ("yes" if first else "no")
    assert await said(provider, asking(USER, CALLED, *RESULTS, **more)) == ("yes" if second else "no")


async def test_a_turn_answers_with_all_that_it_has(script):
    provider = script(
        {
            "expect": {"matches": "read (\\S+)"},
            "thinking": "hm, {1}",
            "text": "I read {1}.",
            "calls": [
                {"name": "read", "arguments": {"paths": ["{1}"], "n": 1}},
                {"name": "x", "arguments": "{", "id": "i"},
            ],
            "usage": {"prompt": 3, "completion": 4, "total": 7},
        }
    )
    answer = heard((await collect(provider, asking(USER)))[0])
    assert (answer.thinking, answer.text) == ("hm, notes.txt", "I read notes.txt.")
    assert [(name, given) for _, name, given in answer.calls] == [
        ("read", '{"paths": ["notes.txt"], "n": 1}'),
        ("x", "{"),
    ]
    assert (answer.calls[1][0], answer.finished, answer.usage) == ("i", "tool_calls", Usage(3, 4, 7))


async def test_text_comes_in_words_or_in_the_pieces_that_were_written(script):
    async def pieces(text):
        events, _ = await collect(script({"text": text}))
        return [event.text for event in events if isinstance(event, TextDelta)]

    assert await pieces(" a  b\nc ") == [" ", "a  ", "b\n", "c "]
    assert await pieces(["a b", "", "{user}!"]) == ["a b", "", "hello!"]


async def test_what_another_says_is_not_replaced_again(script):
    provider = script({"text": "{user} {nothing} {9}"})
    assert await said(provider, asking(Message("user", "{model}"))) == "{model} {nothing} "


async def test_errors_cuts_and_delays(script, autojump_clock):  # noqa: ARG001
    provider = script(
        {
            "times": 1,
            "text": "a b",
            "delay": "10s",
            "error": {"kind": "rate", "retry_after": "3s", "status": 429},
        },
        {"times": 1, "text": "c", "cut": True},
        {"text": "d", "finish": "length"},
    )
    before = trio.current_time()
    events, error = await collect(provider)
    assert trio.current_time() - before == pytest.approx(20)
    assert (heard(events).text, error.kind, error.retry_after_s, error.status) == ("a b", "rate", 3.0, 429)
    events, error = await collect(provider)
    assert (heard(events).text, error.kind) == ("c", "interrupted")
    events, error = await collect(provider)
    assert (heard(events).finished, error) == ("length", None)


async def test_no_turn_is_an_error_that_says_where_the_conversation_is(script):
    provider = script({"expect": {"user": "bye"}, "text": "x"})
    assert await said(provider, HELLO) == "model `main`: the script has no turn after user `hello`"


async def test_the_built_in_script_says_what_it_is_and_how_to_get_another():
    text = await said(ScriptedProvider("scripted"), HELLO)
    assert text.startswith("No model is configured")
    assert "[models.main]" in text
    assert text.endswith("You said: hello")


async def test_a_file_that_changes_is_read_again_and_one_with_a_mistake_says_so(tmp_path):
    path = tmp_path / "s.toml"
    provider = ScriptedProvider("main", path)
    assert await said(provider, HELLO) == f"model `main`: {path}: no such file or directory"
    path.write_text('[[turns]]\ntext = "one"\n')
    assert await said(provider, HELLO) == "one"
    path.write_text('[[turns]]\ntext = "another"\n')
    assert await said(provider, HELLO) == "another"
    path.write_text('[[turns]]\ntxt = "x"\n')
    assert (
        await said(provider, HELLO)
        == f"model `main`: {path}: unknown key `turns[0].txt`; did you mean `text`?"
    )
    path.write_text("[[turns")
    assert "cannot be parsed" in await said(provider, HELLO)


@pytest.mark.parametrize(
    ("script", "mistake"),
    [
        ([], "the file: expected a table, got `list`"),
        ({"turns": {}}, "turns: expected a list of at most 10000, got `dict`"),
        ({"turn": []}, "unknown key `turn`; did you mean `turns`?"),
        ({"turns": [3]}, "turns[0]: expected a table, got `3`"),
        ({"turns": [{"text": 3}]}, "turns[0].text: expected text, got `3`"),
        ({"turns": [{"text": ["a", 3]}]}, "turns[0].text[1]: expected text, got `3`"),
        ({"turns": [{"expect": {"stp": 1}}]}, "unknown key `turns[0].expect.stp`; did you mean `step`?"),
        (
            {"turns": [{"expect": {"step": True}}]},
            "turns[0].expect.step: expected a whole number, got `True`",
        ),
        ({"turns": [{"calls": [{}]}]}, "turns[0].calls[0]: expected `name`"),
        (
            {"turns": [{"calls": [{"name": "f", "arguments": []}]}]},
            "turns[0].calls[0].arguments: expected a table, or text, got `list`",
        ),
        (
            {"turns": [{"finish": "no"}]},
            "turns[0].finish: expected one of stop, tool_calls, length, refused, got `no`",
        ),
        ({"turns": [{"error": {}}]}, "turns[0].error: expected `kind`"),
        ({"turns": [{"cut": 1}]}, "turns[0].cut: expected true or false, got `1`"),
    ],
)
async def test_every_mistake_has_its_place(script, mistake):
    with pytest.raises(ConfigError) as caught:
        parse_script(script, source="s")
    assert str(caught.value) == f"s: {mistake}"


async def test_a_pattern_and_a_delay_are_checked_too():
    for turn in ({"expect": {"matches": "("}}, {"delay": "soon"}):
        with pytest.raises(ConfigError):
            parse_script({"turns": [turn]})


async def test_the_script_of_the_demo_mends_what_the_example_has():
    script = load_script(EXAMPLES / "conversation.toml")
    (edit,) = [call for turn in script.turns for call in turn.calls if call.name == "edit"]
    assert (EXAMPLES / edit.arguments["path"]).read_text().count(edit.arguments["old"]) == 1
