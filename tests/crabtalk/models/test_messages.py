"""Messages as they are stored."""

import json

import pytest

from crabtalk.conversation.messages import Message, ToolCall, Usage


def test_a_message_is_stored_and_read_back():
    message = Message(
        "assistant",
        "text",
        thinking="t",
        signature="s",
        tool_calls=(ToolCall("a", "f", "{"),),
        guest="g",
        created_ms=5,
    )
    for one in (
        message,
        Message("tool", "", tool_call_id="a", is_error=True),
        Message("user", "x", sender="ann"),
    ):
        assert Message.from_json(json.loads(json.dumps(one.to_json()))) == one
    assert Message("user", "x").to_json() == {"role": "user", "content": "x"}


@pytest.mark.parametrize(
    "body",
    [
        3,
        {},
        {"role": "x"},
        {"role": ["user"]},
        {"role": "user", "content": 3},
        {"role": "user", "tool_calls": 3},
        {"role": "user", "tool_calls": [{"id": 3}]},
        {"role": "user", "created_ms": "now"},
    ],
)
def test_a_damaged_message_is_said_to_be_one(body):
    with pytest.raises(ValueError, match="expected"):
        Message.from_json(body)


def test_usage_adds_up():
    assert Usage(1, 2, 3, cache_hit=1) + Usage(1, 1, 2, cache_miss=4) == Usage(
        2, 3, 5, cache_hit=1, cache_miss=4
    )
