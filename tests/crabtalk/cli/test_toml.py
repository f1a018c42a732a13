"""What is written as TOML is read back as it was."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crabtalk.cli.toml import written

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
SCALARS = st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | TEXT
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(TEXT, VALUES, max_size=5))
def test_whatever_json_can_hold_comes_back(table):
    assert tomllib.loads(written(table)) == table


def test_it_reads_well():
    config = {
        "description": "You help.\nYou are short.",
        "harnesses": [
            {"name": "os", "root": {"session": "/srv"}, "hosts": ["a.org", "*.b.org"]},
            {"name": "reminders", "schedule": 64},
        ],
        "max_iterations": 8,
    }
    assert written(config) == (
        'description = """\nYou help.\nYou are short."""\n'
        "max_iterations = 8\n"
        "\n"
        "[[harnesses]]\n"
        'name = "os"\n'
        'root = {session = "/srv"}\n'
        'hosts = ["a.org", "*.b.org"]\n'
        "\n"
        "[[harnesses]]\n"
        'name = "reminders"\n'
        "schedule = 64\n"
    )


@pytest.mark.parametrize("value", [None, object(), {"a": [None]}])
def test_what_toml_has_no_word_for_is_an_error(value):
    with pytest.raises(ValueError, match="TOML has no word for"):
        written({"key": value})
