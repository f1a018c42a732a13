"""OpenAI's dialect: what is asked, and what is made of answers of every make."""

import json

import pytest

from crabtalk.conversation.messages import Message, ToolCall, Usage
from crabtalk.conversation.model import ModelError, ModelRequest
from crabtalk.providers.failures import Failures
from crabtalk.providers.openai import OpenAI
from crabtalk.providers.sse import SseParser
from crabtalk.providers.tool_calls import MAX_CALLS, TooManyCalls
from model_endpoints import chunk, data, heard, tool

DIALECT = OpenAI("http://127.0.0.1/v1")


def decode(*objects):
    """Decode a stream that ended well."""
    decoder = DIALECT.decoder(Failures("main"))
    events = [event for one in SseParser().feed(data(*objects)) for event in decoder.feed(one)]
    assert decoder.complete
    return heard([*events, *decoder.end()])


def call(index=None, given_id=None, name=None, arguments=None):
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    piece = {"function": function}
    return piece | ({"index": index} if index is not None else {}) | ({"id": given_id} if given_id else {})


def calls_of(*deltas):
    """Return (name, arguments) of what some lists of pieces amount to."""
    answer = decode(*(chunk(tool_calls=pieces) for pieces in deltas), chunk(finish="tool_calls"), "[DONE]")
    return [one[1:] for one in answer.calls]


def test_an_answer_in_pieces():
    answer = decode(
        chunk(role="assistant", content=""),
        chunk("Hel"),
        chunk("lo"),
        chunk(finish="stop"),
        {
            "choices": [],
            "usage": {
                "prompt_tokens": 9,
                "completion_tokens": 2,
                "total_tokens": 11,
                "prompt_tokens_details": {"cached_tokens": 4},
                "completion_tokens_details": {"reasoning_tokens": 1},
            },
        },
        "[DONE]",
    )
    assert (answer.text, answer.finished) == ("Hello", "stop")
    assert answer.usage == Usage(9, 2, 11, cache_hit=4, cache_miss=5, reasoning=1)


A, B = ("read", '{"p":1}'), ("write", '{"q":2}')


@pytest.mark.parametrize(
    "deltas",
    [
        pytest.param(
            (
                [call(0, "a", "read", "")],
                [call(0, arguments='{"p"')],
                [call(0, arguments=":1}")],
                [call(1, "b", "write", "")],
                [call(1, arguments='{"q":2}')],
            ),
            id="by index",
        ),
        pytest.param(
            (
                [call(0, "a", "read"), call(1, "b", "write")],
                [call(1, arguments='{"q"'), call(0, arguments='{"p"')],
                [call(0, arguments=":1}"), call(1, arguments=":2}")],
            ),
            id="by index, interleaved",
        ),
        pytest.param(
            (
                [call(None, "a", "read")],
                [call(None, "b", "write")],
                [call(None, "a", arguments='{"p":1}')],
                [call(None, "b", arguments='{"q":2}')],
            ),
            id="by ids only",
        ),
        pytest.param(
            (
                [call(None, "a", "read")],
                [call(None, arguments='{"p"')],
                [call(None, arguments=":1}")],
                [call(None, "b", "write")],
                [call(None, arguments='{"q":2}')],
            ),
            id="an id at the beginning only",
        ),
        pytest.param(
            ([call(None, None, "read", '{"p":1}')], [call(None, None, "write", '{"q":2}')]),
            id="whole, without ids",
        ),
        pytest.param(
            ([call(None, None, "read", '{"p":1}'), call(None, None, "write", '{"q":2}')],),
            id="whole, in one list",
        ),
        pytest.param(
            (
                [call(None, None, "read"), call(None, None, "write")],
                [call(arguments='{"p":1}'), call(arguments='{"q":2}')],
            ),
            id="by position",
        ),
        pytest.param(
            ([call(0, "a", "read", '{"p":1}')], [call(0, "b", "write", '{"q":2}')]),
            id="the index is always 0",
        ),
        pytest.param(
            (
                [call(0, "a", "read", '{"p"')],
                [call(0, "x1", None, ":1}")],
                [call(1, "b", "write", '{"q"')],
                [call(1, "x2", None, ":2}")],
            ),
            id="an id for every piece",
        ),
        pytest.param(
            (
                [call(0, "a", "read", '{"p"')],
                [call(0, "a", "read", ":1}")],
                [call(1, "b", "write", "")],
                [call(1, None, "write", '{"q":2}')],
            ),
            id="the name in every piece",
        ),
        pytest.param(
            (
                [call(0, "a", None, '{"p"')],
                [call(0, None, "read", ":1}")],
                [call(1, "b", "write", '{"q":2}')],
            ),
            id="the name comes later",
        ),
        pytest.param(
            ([call(0, "a", "read", {"p": 1})], [call(1, "b", "write", {"q": 2})]),
            id="arguments that are no text",
        ),
        pytest.param(
            ([call(0, "same", "read", '{"p":1}')], [call(1, "same", "write", '{"q":2}')]),
            id="one id for two",
        ),
    ],
)
def test_pieces_find_their_call(deltas):
    assert [(name, json.loads(arguments)) for name, arguments in calls_of(*deltas)] == [
        (name, json.loads(arguments)) for name, arguments in (A, B)
    ]


def test_two_calls_of_one_tool_without_ids_are_two():
    assert calls_of([call(None, None, "f", "{}")], [call(None, None, "f", "{}")]) == [
        ("f", "{}"),
        ("f", "{}"),
    ]


def test_a_call_without_a_name_is_a_call_that_nobody_can_run():
    assert calls_of([call(0, "a", None, "{}")]) == [("", "{}")]


@pytest.mark.parametrize(
    "junk", [None, 3, "x", [], {}, {"function": None}, {"function": {"name": 3, "arguments": 4}}]
)
def test_junk_for_a_call_breaks_nothing(junk):
    assert calls_of([junk])[0][1] == ""


def test_arguments_are_passed_on_as_they_are_however_broken():
    assert calls_of([call(0, "a", "f", '{"a": tru')]) == [("f", '{"a": tru')]


def test_a_hundred_calls_in_one_answer_are_a_hundred_and_thousands_are_too_many():
    pieces = [call(n, f"id{n}", "f", "{}") for n in range(100)]
    assert len(calls_of(pieces)) == 100
    decoder = DIALECT.decoder(Failures("main"))
    pieces = [call(n, f"id{n}", "f", "{}") for n in range(MAX_CALLS + 1)]
    with pytest.raises(TooManyCalls):
        [event for one in SseParser().feed(data(chunk(tool_calls=pieces))) for event in decoder.feed(one)]


@pytest.mark.parametrize(
    ("reason", "calls", "finished"),
    [
        ("stop", [], "stop"),
        ("stop", [call(0, "a", "f", "{}")], "tool_calls"),
        ("tool_calls", [], "stop"),
        ("function_call", [call(0, "a", "f", "{}")], "tool_calls"),
        ("length", [call(0, "a", "f", "{")], "length"),
        ("content_filter", [], "refused"),
        ("eos", [], "stop"),
    ],
)
def test_why_it_stopped(reason, calls, finished):
    assert decode(chunk(tool_calls=calls), chunk(finish=reason), "[DONE]").finished == finished


def test_a_refusal_is_text_and_a_reason():
    answer = decode(chunk(refusal="I will not."), chunk(finish="stop"))
    assert (answer.text, answer.finished) == ("I will not.", "refused")


def test_thinking_has_many_names():
    parts = [{"type": "thinking", "thinking": [{"type": "text", "text": "c"}]}, {"type": "text", "text": "!"}]
    answer = decode(
        chunk(reasoning_content="a", reasoning="a"),
        chunk(reasoning="b"),
        chunk(content=parts),
        chunk(finish="stop"),
    )
    assert (answer.thinking, answer.text) == ("abc", "!")


def test_characters_that_were_cut_in_half_are_joined():
    answer = decode(
        '{"choices":[{"delta":{"content":"a\\ud83d"}}]}',
        '{"choices":[{"delta":{"content":"\\ude00b"}}]}',
        '{"choices":[{"delta":{"content":"\\ud83d"}}]}',
        chunk(finish="stop"),
    )
    assert answer.text == "a\U0001f600b\ufffd"
    answer.text.encode()


@pytest.mark.parametrize(
    "odd",
    [
        "",
        " ",
        "null",
        "3",
        "[]",
        '"x"',
        "{}",
        '{"choices":null}',
        '{"choices":[null]}',
        '{"choices":[{}]}',
        '{"choices":[{"delta":null,"finish_reason":null}]}',
        '{"choices":[{"index":1,"delta":{"content":"x"}}]}',
        '{"choices":[],"usage":null}',
        '{"usage":{"prompt_tokens":"3"}}',
        '{"choices":[{"delta":{"content":5}}]}',
        '{"choices":[{"delta":{"tool_calls":{"a":1}}}]}',
        '{"error":null,"choices":[]}',
    ],
)
def test_odd_events_are_passed_over(odd):
    answer = decode(chunk("a"), odd, chunk("b"), chunk(finish="stop"), "[DONE]")
    assert (answer.text, answer.finished) == ("ab", "stop")


def test_counts_that_cannot_be_are_none():
    usage = {"prompt_tokens": 1e400, "completion_tokens": 10**30, "total_tokens": True}
    answer = decode(chunk(finish="stop"), '{"choices":[],"usage":' + json.dumps(usage) + "}")
    assert answer.usage == Usage(0, (1 << 32) - 1, (1 << 32) - 1)


def test_an_answer_in_one_piece_is_one_too():
    message = {"role": "assistant", "content": "Hi", "tool_calls": [call(None, "a", "f", "{}")]}
    answer = decode(
        {"choices": [{"message": message, "finish_reason": "tool_calls"}], "usage": {"prompt_tokens": 1}}
    )
    assert (answer.text, answer.calls, answer.finished) == ("Hi", [("a", "f", "{}")], "tool_calls")


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        ({"error": {"message": "no", "code": "context_length_exceeded"}}, "context"),
        ({"error": "the process died"}, "overloaded"),
        ({"object": "error", "message": "bad", "code": 400}, "bad_request"),
        ({"choices": [{"delta": {}, "finish_reason": "error"}]}, "overloaded"),
        ("{not json", "interrupted"),
    ],
)
def test_a_failure_within_a_stream(event, kind):
    with pytest.raises(ModelError) as caught:
        decode(chunk("a"), event)
    assert caught.value.kind == kind


HISTORY = (
    Message("user", "read it"),
    Message("assistant", "", tool_calls=(ToolCall("a", "read", '{"p":1}'), ToolCall("b", "read", '{"p"'))),
    Message("tool", "text", tool_call_id="a"),
    Message("tool", "not JSON", tool_call_id="b", is_error=True),
    Message("assistant", "done", thinking="hm", signature='{"anthropic": []}'),
    Message("user", "thanks"),
)


def test_what_is_asked():
    request = ModelRequest(
        model="gpt",
        system="Be kind.",
        messages=HISTORY,
        tools=[tool("read", p={})],
        tool_choice="read",
        max_tokens=50,
    )
    assert DIALECT.body(request) == {
        "model": "gpt",
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 50,
        "messages": [
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": "read it"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "a", "type": "function", "function": {"name": "read", "arguments": '{"p": 1}'}},
                    {"id": "b", "type": "function", "function": {"name": "read", "arguments": "{}"}},
                ],
            },
            {"role": "tool", "tool_call_id": "a", "content": "text"},
            {"role": "tool", "tool_call_id": "b", "content": "not JSON"},
            {"role": "assistant", "content": "done"},
            {"role": "user", "content": "thanks"},
        ],
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "read",
                    "description": "reads",
                    "parameters": {"type": "object", "properties": {"p": {}}},
                },
            }
        ],
        "tool_choice": {"type": "function", "function": {"name": "read"}},
    }


@pytest.mark.parametrize("choice", ["auto", "none", "required"])
def test_a_choice_of_tools_is_a_word(choice):
    body = DIALECT.body(ModelRequest(model="m", tools=[tool("f")], tool_choice=choice))
    assert body["tool_choice"] == choice


def test_without_tools_there_is_no_choice_and_no_list():
    assert not {"tools", "tool_choice"} & DIALECT.body(ModelRequest(model="m", tool_choice="required")).keys()


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://api.openai.com/v1", "max_completion_tokens"),
        ("https://x.openai.azure.com/openai/v1", "max_completion_tokens"),
        ("https://api.openai.com.evil.org/v1", "max_tokens"),
        ("http://127.0.0.1:8080/v1", "max_tokens"),
    ],
)
def test_the_limit_has_the_name_that_the_endpoint_wants(url, name):
    assert OpenAI(url).body(ModelRequest(model="m", max_tokens=5))[name] == 5


@pytest.mark.parametrize(
    ("budget", "effort"), [(None, "medium"), (1024, "low"), (8000, "medium"), (30000, "high")]
)
def test_thinking_is_an_effort(budget, effort):
    request = ModelRequest(model="m", thinking=True, thinking_budget=budget)
    assert DIALECT.body(request)["reasoning_effort"] == effort
    assert "reasoning_effort" not in DIALECT.body(ModelRequest(model="m", thinking_budget=budget))


def test_what_an_endpoint_gave_with_its_thinking_goes_back_as_it_came():
    piece = call(0, "a", "f", "{}") | {"extra_content": {"google": {"thought_signature": "xyz"}}}
    answer = decode(
        chunk(reasoning_content="hm", reasoning_details=[{"type": "encrypted", "data": "q"}]),
        chunk(tool_calls=[piece]),
        chunk(finish="tool_calls"),
    )
    message = Message(
        "assistant",
        "",
        thinking=answer.thinking,
        signature=answer.signature,
        tool_calls=(ToolCall(*answer.calls[0]),),
    )
    written = DIALECT.body(ModelRequest(model="m", messages=[Message.from_json(message.to_json())]))[
        "messages"
    ][0]
    assert written["reasoning_content"] == "hm"
    assert written["reasoning_details"] == [{"type": "encrypted", "data": "q"}]
    assert written["tool_calls"][0]["extra_content"] == {"google": {"thought_signature": "xyz"}}


def test_names_and_ids_that_a_model_made_up_are_sent_so_that_no_endpoint_refuses_them():
    calls = (ToolCall("functions.f:0", "a tool/with every.thing", "{}"), ToolCall("x" * 100, "", "[1]"))
    message = Message("assistant", "", tool_calls=calls)
    result = Message("tool", "r", tool_call_id="functions.f:0")
    written, answered = DIALECT.body(ModelRequest(model="m", messages=[message, result]))["messages"]
    names = [one["function"]["name"] for one in written["tool_calls"]]
    ids = [one["id"] for one in written["tool_calls"]]
    assert names == ["a_tool_with_every_thing", "unnamed"]
    assert all(len(one) <= 40 and one.replace("_", "").isalnum() for one in ids)
    assert answered["tool_call_id"] == ids[0]
    assert [one["function"]["arguments"] for one in written["tool_calls"]] == ["{}", "{}"]


@pytest.mark.parametrize(
    ("base", "url"),
    [
        ("https://x/v1", "https://x/v1/chat/completions"),
        ("https://x/v1/", "https://x/v1/chat/completions"),
        ("https://x/v1?api-version=3", "https://x/v1/chat/completions?api-version=3"),
    ],
)
def test_where_it_is_asked(base, url):
    assert DIALECT.url(base, "chat") == url
