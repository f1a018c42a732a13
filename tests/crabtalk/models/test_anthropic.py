"""Anthropic's dialect: what is asked, and what is made of answers of every make."""

import json

import pytest

from crabtalk.conversation.messages import Message, ToolCall, Usage
from crabtalk.conversation.model import ModelError, ModelRequest
from crabtalk.providers.anthropic import Anthropic
from crabtalk.providers.failures import Failures
from crabtalk.providers.sse import SseParser
from model_endpoints import data, heard, named, tool

DIALECT = Anthropic(max_tokens=1000, cache=False)


def decode_bytes(stream):
    decoder = DIALECT.decoder(Failures("main"))
    events = [event for one in SseParser().feed(stream) for event in decoder.feed(one)]
    assert decoder.complete
    return heard([*events, *decoder.end()])


def decode(*events):
    """Decode a stream that ended well."""
    return decode_bytes(named(*events))


def start(index, **block):
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index, **what):
    return {"type": "content_block_delta", "index": index, "delta": what}


def stop(index):
    return {"type": "content_block_stop", "index": index}


def end(reason="end_turn", **usage):
    return {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}, {
        "type": "message_stop"
    }


BEGIN = {
    "type": "message_start",
    "message": {
        "usage": {
            "input_tokens": 5,
            "cache_read_input_tokens": 20,
            "cache_creation_input_tokens": 3,
            "output_tokens": 1,
        }
    },
}
SAY = (
    start(0, type="text", text=""),
    delta(0, type="text_delta", text="Hel"),
    delta(0, type="text_delta", text="lo"),
    stop(0),
)


def test_an_answer_in_pieces():
    answer = decode(BEGIN, SAY[0], {"type": "ping"}, *SAY[1:], *end(output_tokens=7))
    assert (answer.text, answer.finished, answer.calls) == ("Hello", "stop", [])
    assert answer.usage == Usage(28, 7, 35, cache_hit=20, cache_miss=8)


def test_the_name_of_an_event_does_for_its_type():
    stream = b"event: content_block_delta\n" + data(
        {"index": 0, "delta": {"type": "text_delta", "text": "a"}}
    )
    assert decode_bytes(stream + b"event: message_stop\n" + data({})).text == "a"


def test_calls_side_by_side_keep_their_arguments_apart():
    answer = decode(
        BEGIN,
        start(1, type="tool_use", id="a", name="read", input={}),
        start(2, type="tool_use", id="b", name="write", input={}),
        delta(2, type="input_json_delta", partial_json='{"q"'),
        delta(1, type="input_json_delta", partial_json=""),
        delta(1, type="input_json_delta", partial_json='{"p":1}'),
        delta(2, type="input_json_delta", partial_json=":2}"),
        stop(1),
        stop(2),
        *end("tool_use"),
    )
    assert answer.calls == [("a", "read", '{"p":1}'), ("b", "write", '{"q":2}')]
    assert answer.finished == "tool_calls"


def test_without_an_index_a_piece_belongs_to_the_last_block():
    events = [
        start(0, type="tool_use", id="a", name="f"),
        delta(0, type="input_json_delta", partial_json="{}"),
        stop(0),
        start(1, type="tool_use", id="b", name="g"),
        delta(1, type="input_json_delta", partial_json="[]"),
        stop(1),
    ]
    for event in events:
        del event["index"]
    assert decode(*events, *end("tool_use")).calls == [("a", "f", "{}"), ("b", "g", "[]")]


def test_input_that_comes_with_the_beginning_is_the_arguments():
    answer = decode(start(0, type="tool_use", id="a", name="f", input={"p": 1}), stop(0), *end("tool_use"))
    assert [(name, json.loads(given)) for _, name, given in answer.calls] == [("f", {"p": 1})]


@pytest.mark.parametrize(
    ("reason", "finished"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("pause_turn", "stop"),
        (None, "stop"),
        ("new", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "refused"),
        ("tool_use", "stop"),
    ],
)
def test_why_it_stopped(reason, finished):
    assert decode(*end(reason)).finished == finished


@pytest.mark.parametrize(
    "odd",
    [
        b"event: x\n\n",
        b"data:\n\n",
        b"data: null\n\n",
        b"data: []\n\n",
        b'data: {"type":"news"}\n\n',
        b": c\n\n",
        named(delta(9, type="text_delta")),
        named(delta(9, type="citations_delta", citation={})),
        named(delta(9, type="input_json_delta", partial_json="{}")),
        named(stop(9)),
        named({"type": "content_block_start"}),
        named({"type": "content_block_delta"}),
        named({"type": "message_start"}),
        named(start(7, type="server_tool_use", id="s", name="web")),
        named({"type": "message_delta"}),
    ],
)
def test_odd_events_are_passed_over(odd):
    answer = decode_bytes(named(BEGIN) + odd + named(*SAY) + odd + named(*end("end_turn")))
    assert (answer.text, answer.finished) == ("Hello", "stop")


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        ({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, "overloaded"),
        ({"type": "error", "error": {"type": "rate_limit_error", "message": "x"}}, "rate"),
        ({"type": "error", "error": {"type": "invalid_request_error", "message": "x"}}, "bad_request"),
        ({"type": "error"}, "overloaded"),
    ],
)
def test_a_failure_within_a_stream(event, kind):
    with pytest.raises(ModelError) as caught:
        decode(BEGIN, event)
    assert caught.value.kind == kind


@pytest.mark.parametrize(("name", "kind"), [(b"error", "overloaded"), (b"message_delta", "interrupted")])
def test_an_event_that_is_not_json(name, kind):
    with pytest.raises(ModelError) as caught:
        decode_bytes(b"event: " + name + b"\ndata: upstream died\n\n")
    assert caught.value.kind == kind


THINKING = (
    start(0, type="thinking", thinking="", signature=""),
    delta(0, type="thinking_delta", thinking="I see"),
    delta(0, type="signature_delta", signature="s1"),
    stop(0),
    start(1, type="redacted_thinking", data="opaque"),
    stop(1),
    start(2, type="text", text=""),
    delta(2, type="text_delta", text="Let me look."),
    stop(2),
    start(3, type="tool_use", id="a", name="f", input={}),
    delta(3, type="input_json_delta", partial_json="{}"),
    stop(3),
    start(4, type="thinking", thinking="", signature=""),
    delta(4, type="signature_delta", signature="s2"),
    stop(4),
    start(5, type="tool_use", id="b", name="f", input={}),
    stop(5),
)


def stored(answer, **changed):
    calls = tuple(ToolCall(*call) for call in answer.calls)
    fields = {"content": answer.text, "thinking": answer.thinking, "signature": answer.signature, **changed}
    message = Message("assistant", fields.pop("content"), tool_calls=calls, **fields)
    return Message.from_json(message.to_json())


def written(message):
    return DIALECT.body(ModelRequest(model="m", messages=[message]))["messages"][0]["content"]


CALLS = [
    {"type": "tool_use", "id": "a", "name": "f", "input": {}},
    {"type": "tool_use", "id": "b", "name": "f", "input": {}},
]
TEXT = {"type": "text", "text": "Let me look."}


def test_thinking_goes_back_as_it_came_each_block_at_its_place():
    answer = decode(BEGIN, *THINKING, *end("tool_use"))
    assert (answer.thinking, answer.text) == ("I see", "Let me look.")
    assert written(stored(answer)) == [
        {"type": "thinking", "thinking": "I see", "signature": "s1"},
        {"type": "redacted_thinking", "data": "opaque"},
        TEXT,
        CALLS[0],
        {"type": "thinking", "thinking": "", "signature": "s2"},
        CALLS[1],
    ]


@pytest.mark.parametrize(
    "changed",
    [
        {"thinking": "I see not"},
        {"thinking": ""},
        {"signature": '{"openai": {"field": "x"}}'},
        {"signature": "{"},
        {"signature": '{"anthropic": [{"at": "x"}]}'},
        {"signature": '{"anthropic": [3]}'},
    ],
)
def test_thinking_of_another_or_that_was_changed_stays_away(changed):
    assert written(stored(decode(BEGIN, *THINKING, *end("tool_use")), **changed)) == [TEXT, *CALLS]


def test_an_answer_in_one_piece_is_one_too():
    decoder = DIALECT.decoder(Failures("main"))
    content = [
        {"type": "text", "text": "Hi"},
        {"type": "tool_use", "id": "a", "name": "f", "input": {"p": 1}},
    ]
    answer = {"type": "message", "content": content, "stop_reason": "tool_use", "usage": {"input_tokens": 2}}
    events = list(decoder.feed_whole(answer))
    whole = heard([*events, *decoder.end()])
    assert (whole.text, whole.calls, whole.finished) == ("Hi", [("a", "f", '{"p": 1}')], "tool_calls")
    for wrong, kind in (
        ({"x": 1}, "bad_request"),
        ({"type": "error", "error": {"type": "api_error"}}, "overloaded"),
    ):
        with pytest.raises(ModelError) as caught:
            list(DIALECT.decoder(Failures("main")).feed_whole(wrong))
        assert caught.value.kind == kind


HISTORY = (
    Message("user", "read both"),
    Message("assistant", "", tool_calls=(ToolCall("a", "read", '{"p":1}'), ToolCall("b.1", "read", "{"))),
    Message("tool", "text", tool_call_id="a"),
    Message("tool", "", tool_call_id="b.1", is_error=True),
    Message("user", "and?"),
    Message("assistant", " \n"),
    Message("user", ""),
)


def test_what_is_asked():
    body = DIALECT.body(
        ModelRequest(model="claude", system="Be kind.", messages=HISTORY, tools=[tool("read", p={})])
    )
    other = body["messages"][1]["content"][1]["id"]
    assert body == {
        "model": "claude",
        "max_tokens": 1000,
        "stream": True,
        "system": [{"type": "text", "text": "Be kind."}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "read both"}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "tool_use", "id": "a", "name": "read", "input": {"p": 1}},
                    {"type": "tool_use", "id": other, "name": "read", "input": {}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "a", "content": "text"},
                    {"type": "tool_result", "tool_use_id": other, "content": "(empty)", "is_error": True},
                    {"type": "text", "text": "and?"},
                    {"type": "text", "text": "(empty)"},
                ],
            },
        ],
        "tools": [
            {
                "name": "read",
                "description": "reads",
                "input_schema": {"type": "object", "properties": {"p": {}}},
            }
        ],
    }


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("auto", {"type": "auto"}),
        ("none", {"type": "none"}),
        ("required", {"type": "any"}),
        ("read", {"type": "tool", "name": "read"}),
    ],
)
def test_a_choice_of_tools(choice, sent):
    assert (
        DIALECT.body(ModelRequest(model="m", tools=[tool("read")], tool_choice=choice))["tool_choice"] == sent
    )


def test_a_history_with_calls_declares_their_tools_though_there_are_none_now():
    body = DIALECT.body(ModelRequest(model="m", messages=HISTORY))
    assert body["tools"] == [{"name": "read", "input_schema": {"type": "object"}}]
    assert body["tool_choice"] == {"type": "none"}
    assert "tools" not in DIALECT.body(ModelRequest(model="m", messages=HISTORY[:1]))


def test_thinking_without_a_budget_is_the_models_business_and_with_one_beside_the_answer():
    assert "thinking" not in DIALECT.body(ModelRequest(model="m", thinking_budget=2048))
    free = DIALECT.body(ModelRequest(model="m", thinking=True))
    assert (free["thinking"], free["max_tokens"]) == ({"type": "adaptive", "display": "summarized"}, 1000)
    bound = DIALECT.body(ModelRequest(model="m", thinking=True, thinking_budget=2048))
    assert (bound["thinking"], bound["max_tokens"]) == ({"type": "enabled", "budget_tokens": 2048}, 3048)
    assert (
        DIALECT.body(ModelRequest(model="m", thinking=True, thinking_budget=2048, max_tokens=9))["max_tokens"]
        == 9
    )


def test_what_may_be_cached_is_marked_at_its_end():
    body = Anthropic(max_tokens=9, cache=True).body(ModelRequest(model="m", system="s", messages=HISTORY))
    marked = [block for turn in body["messages"] for block in turn["content"] if "cache_control" in block]
    assert marked == [body["messages"][-1]["content"][-1]]
    assert body["system"][0]["cache_control"] == {"type": "ephemeral"}


@pytest.mark.parametrize(
    ("base", "url"),
    [
        ("https://api.anthropic.com", "https://api.anthropic.com/v1/messages"),
        ("https://x/anthropic/v1/", "https://x/anthropic/v1/messages"),
        ("https://x?a=b", "https://x/v1/messages?a=b"),
    ],
)
def test_where_it_is_asked(base, url):
    assert DIALECT.url(base, "chat") == url
    assert DIALECT.url("https://x?a=b", "models") == "https://x/v1/models?limit=1000&a=b"
