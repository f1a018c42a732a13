"""Merge patches and secrets."""

import pytest

from crabtalk.config_patch import MARKER, masked, merge_patch, with_kept_secrets
from crabtalk.errors import BadRequest

# The cases of RFC 7396, appendix A.
CASES = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    (["a", "b"], ["c", "d"], ["c", "d"]),
    ({"a": "b"}, ["c"], ["c"]),
    ({"a": "foo"}, None, None),
    ({"a": "foo"}, "bar", "bar"),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]


@pytest.mark.parametrize(("target", "patch", "result"), CASES)
def test_merge_patch(target, patch, result):
    assert merge_patch(target, patch) == result


STORED = {
    "model": "m",
    "mcps": [
        {"name": "git", "command": "git-mcp", "env": {"TOKEN": "t1", "PLAIN": "p"}},
        {"name": "web", "url": "u", "auth": "a1"},
    ],
}


def test_secrets_are_masked():
    shown = masked(STORED)
    assert shown["mcps"][0]["env"] == {"TOKEN": MARKER, "PLAIN": MARKER}
    assert shown["mcps"][1] == {"name": "web", "url": "u", "auth": MARKER}
    assert STORED["mcps"][1]["auth"] == "a1"
    assert masked({"model": "m"}) == {"model": "m"}


def test_what_was_shown_can_be_sent_back():
    assert with_kept_secrets(masked(STORED), STORED) == STORED


def test_a_marker_keeps_and_a_value_replaces():
    changed = masked(STORED)
    changed["mcps"][0]["env"] = {"TOKEN": "t2", "PLAIN": MARKER}
    changed["mcps"].reverse()
    kept = with_kept_secrets(changed, STORED)
    assert kept["mcps"][1]["env"] == {"TOKEN": "t2", "PLAIN": "p"}
    assert kept["mcps"][0]["auth"] == "a1"


@pytest.mark.parametrize(
    "server",
    [
        {"name": "git", "auth": MARKER},
        {"name": "git", "env": {"OTHER": MARKER}},
        {"name": "new", "url": "u", "auth": MARKER},
        {"auth": MARKER},
    ],
)
def test_a_marker_needs_something_stored(server):
    with pytest.raises(BadRequest, match="no secret is stored that could be kept - at `mcps"):
        with_kept_secrets({"mcps": [server]}, STORED)


@pytest.mark.parametrize("mcps", ["x", [1], [{"name": "a", "env": "x"}], None])
def test_a_shape_that_is_wrong_is_left_to_whoever_checks_it(mcps):
    assert masked({"mcps": mcps}) == {"mcps": mcps}
    assert with_kept_secrets({"mcps": mcps}, STORED) == {"mcps": mcps}
