"""Merge patches, and values by their path."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berm.cli.exits import USAGE, CommandError
from crabtalk.cli.patches import patch_between, value_of, with_value, without_value

KEYS = st.sampled_from("abc")
SCALARS = (
    st.integers(0, 2) | st.booleans() | st.sampled_from(["", "x"]) | st.lists(st.integers(0, 1), max_size=2)
)
TABLES = st.dictionaries(
    KEYS,
    st.recursive(SCALARS, lambda inner: st.dictionaries(KEYS, inner, max_size=3), max_leaves=6),
    max_size=3,
)
CONFIG = {"max_iterations": 16, "harnesses": [{"name": "os", "root": {"session": "/a"}}, {"name": "web"}]}


def merged(target, patch):
    """RFC 7396, as it is written there."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def exactly(value):
    """Tell 1 from True."""
    return repr(value)


@given(TABLES, TABLES)
def test_a_patch_makes_the_new_of_the_old(old, new):
    patch = patch_between(old, new)
    assert exactly(sorted_keys(merged(old, patch))) == exactly(sorted_keys(new))
    assert (patch == {}) == (exactly(sorted_keys(old)) == exactly(sorted_keys(new)))


def sorted_keys(value):
    if not isinstance(value, dict):
        return value
    return {key: sorted_keys(value[key]) for key in sorted(value)}


def test_only_what_changed_is_in_the_patch():
    old = {"a": 1, "b": {"c": 2, "d": 3}, "e": 4}
    assert patch_between(old, {"a": 1, "b": {"c": 5, "d": 3}}) == {"b": {"c": 5}, "e": None}


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("max_iterations", 8, {**CONFIG, "max_iterations": 8}),
        ("thinking", True, {**CONFIG, "thinking": True}),
        (
            "harnesses.web.hosts",
            ["a.org"],
            {**CONFIG, "harnesses": [CONFIG["harnesses"][0], {"name": "web", "hosts": ["a.org"]}]},
        ),
        (
            "harnesses.os.root.session",
            "/b",
            {**CONFIG, "harnesses": [{"name": "os", "root": {"session": "/b"}}, {"name": "web"}]},
        ),
        (
            "harnesses.web.root.path",
            "/p",
            {**CONFIG, "harnesses": [CONFIG["harnesses"][0], {"name": "web", "root": {"path": "/p"}}]},
        ),
    ],
)
def test_a_value_is_set_by_its_path(path, value, expected):
    before = copy.deepcopy(CONFIG)
    assert with_value(CONFIG, path, value) == expected
    assert before == CONFIG


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("max_iterations", {"harnesses": CONFIG["harnesses"]}),
        ("harnesses", {"max_iterations": 16}),
        ("harnesses.web", {**CONFIG, "harnesses": CONFIG["harnesses"][:1]}),
        ("harnesses.os.root", {**CONFIG, "harnesses": [{"name": "os"}, {"name": "web"}]}),
    ],
)
def test_a_value_is_taken_out_by_its_path(path, expected):
    before = copy.deepcopy(CONFIG)
    assert without_value(CONFIG, path) == expected
    assert before == CONFIG


@pytest.mark.parametrize("change", [lambda c, p: with_value(c, p, 1), without_value])
@pytest.mark.parametrize(
    "path",
    ["harnesses.nobody.hosts", "max_iterations.deeper", "max_iterations.deeper.still", "", "harnesses.os."],
)
def test_a_path_that_leads_nowhere_is_an_error(change, path):
    with pytest.raises(CommandError) as caught:
        change(CONFIG, path)
    assert caught.value.status == USAGE


def test_what_is_not_there_cannot_be_taken_out():
    with pytest.raises(CommandError, match="there is nothing at thinking"):
        without_value(CONFIG, "thinking")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("8", 8), ("true", True), ('["a"]', ["a"]), ("16MiB", "16MiB"), ('"8"', "8"), ("", "")],
)
def test_a_value_is_json_or_else_text(text, expected):
    assert exactly(value_of(text)) == exactly(expected)
