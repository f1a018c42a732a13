"""Outcomes and limits are frozen values with equality, hashes, pickles and checks."""

import pickle

import pytest

import berm

pytestmark = pytest.mark.core

VALUES = [
    berm.Done(b"data", 5, 7),
    berm.Failed("message", 5, 7),
    berm.Limits(fuel=5, deadline=1.5, output=10, log=20),
]


@pytest.mark.parametrize("value", VALUES)
def test_value_is_equal_to_its_pickle_and_hashes_alike(value):
    copy = pickle.loads(pickle.dumps(value))
    assert copy == value
    assert hash(copy) == hash(value)
    assert copy is not value


@pytest.mark.parametrize("value", VALUES)
def test_value_is_frozen(value):
    for name in ("data", "message", "duration_ns", "instructions", "fuel", "deadline", "other"):
        with pytest.raises(AttributeError):
            setattr(value, name, 1)


@pytest.mark.parametrize("value", VALUES)
def test_value_is_not_equal_to_other_things(value):
    assert value not in ("data", None, 3, *(other for other in VALUES if other is not value))


def test_each_field_counts_for_equality():
    assert berm.Done(b"a", 1, 2) not in (berm.Done(b"b", 1, 2), berm.Done(b"a", 0, 2), berm.Done(b"a", 1, 0))
    assert berm.Failed("a", 1, 2) not in (
        berm.Failed("b", 1, 2),
        berm.Failed("a", 0, 2),
        berm.Failed("a", 1, 0),
    )
    assert berm.Limits(fuel=1) != berm.Limits(fuel=2)


def test_representation_is_bounded():
    assert repr(berm.Done(b"x" * 1000)) == f"Done({b'x' * 60!r}…, duration_ns=0, instructions=0)"
    assert repr(berm.Failed("no", 1, 2)) == "Failed('no', duration_ns=1, instructions=2)"
    assert (
        repr(berm.Limits(fuel=1, deadline=2, output=3, log=4))
        == "Limits(fuel=1, deadline=2.0, output=3, log=4)"
    )


def test_outcomes_match_patterns():
    match berm.Done(b"x"):
        case berm.Done(data):
            assert data == b"x"
    match berm.Failed("why"):
        case berm.Failed(message):
            assert message == "why"


def test_defaults_are_those_of_the_documents():
    limits = berm.Limits()
    assert (limits.fuel, limits.deadline, limits.output, limits.log) == (
        20_000_000_000,
        60.0,
        64 << 20,
        64 << 10,
    )


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"fuel": 0}, ValueError, "fuel: expected 1 to 4611686018427387904, got 0"),
        ({"fuel": 1 << 63}, ValueError, "fuel: expected"),
        ({"fuel": -1}, ValueError, "fuel: expected"),
        ({"fuel": 1.0}, TypeError, "fuel: expected an int, got float"),
        ({"fuel": True}, TypeError, "fuel: expected an int, got bool"),
        ({"fuel": None}, TypeError, "fuel: expected an int, got NoneType"),
        ({"deadline": 0}, ValueError, "deadline: expected more than 0"),
        ({"deadline": float("nan")}, ValueError, "deadline: expected more than 0"),
        ({"deadline": float("inf")}, ValueError, "deadline: expected more than 0"),
        ({"deadline": "1"}, TypeError, "deadline: expected seconds, got str"),
        ({"output": 0}, ValueError, "output: expected 1 to"),
        ({"log": 1 << 41}, ValueError, "log: expected 1 to"),
    ],
)
def test_limits_out_of_range_are_errors_that_name_the_field(options, error, message):
    with pytest.raises(error, match=message):
        berm.Limits(**options)


def test_limits_take_keywords_only():
    with pytest.raises(TypeError):
        berm.Limits(5)
    with pytest.raises(TypeError):
        berm.Limits(memory=5)


@pytest.mark.parametrize("arguments", [("text",), (None,), (b"", "x")])
def test_done_holds_bytes(arguments):
    with pytest.raises(TypeError):
        berm.Done(*arguments)
