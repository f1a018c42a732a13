"""Records to bytes and back, and the keys they have."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crabtalk.errors import StoreError
from crabtalk.store.keys import key, parts_of, prefix
from crabtalk.store.records import Codec, decode_json, encode_json


@dataclass(frozen=True, slots=True)
class Inner:
    n: int
    pair: tuple[str, int] | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    text: str
    number: int
    ratio: float
    flag: bool
    blob: bytes
    word: Literal["a", "b"]
    inner: Inner | None
    names: tuple[str, ...]
    config: Mapping[str, Any]
    note: str | None = None


CODEC = Codec(Sample)
SAMPLE = Sample(
    "ü\ud800", 1 << 60, 0.5, True, b"\0\xff", "b", Inner(1, ("x", 2)), ("p", "q"), {"k": [1, None]}, "n"
)


def test_every_kind_of_field_comes_back():
    assert CODEC.decode("kv", b"k", CODEC.encode(SAMPLE)) == SAMPLE
    bare = Sample("", 0, 0.0, False, b"", "a", None, (), {})
    assert CODEC.decode("kv", b"k", CODEC.encode(bare)) == bare


def test_values_open_with_their_version():
    assert Codec(Inner).encode(Inner(1)) == b'\x01{"n":1,"pair":null}'


def test_a_field_that_was_added_later_takes_its_default():
    assert Codec(Inner).decode("kv", b"k", b'\x01{"n":1}') == Inner(1, None)


def test_numbers_are_no_flags_and_flags_no_numbers():
    with pytest.raises(StoreError, match="expected int, got bool - at `n`"):
        Codec(Inner).decode("kv", b"k", b'\x01{"n":true}')


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"", "expected a value of version 1, got nothing"),
        (b'\x02{"n":1}', "expected a value of version 1, got 02"),
        (b'{"n":1}', "expected a value of version 1, got 7b"),
        (b"\x01", "Expecting value"),
        (b'\x01{"n":1', "Expecting"),
        (b"\x01\xff\xff", "can't decode"),
        (b"\x01[]", "expected an object, got list"),
        (b"\x01null", "expected an object, got null"),
        (b'\x01{"n":"1"}', "expected int, got str - at `n`"),
        (b'\x01{"n":1.0}', "expected int, got float - at `n`"),
        (b'\x01{"n":null}', "expected int, got null - at `n`"),
        (b'\x01{"pair":null}', "lacks one of n"),
        (b'\x01{"n":1,"pear":null}', "has an unknown field `pear`"),
        (b'\x01{"n":1,"pair":["x"]}', "expected 2 values, got 1 - at `pair`"),
        (b'\x01{"n":1,"pair":["x","y"]}', "expected int, got str - at `pair`"),
        (b'\x01{"n":1,"pair":"xy"}', "expected a list, got str - at `pair`"),
        (b"\x01" + b"[" * 100_000, "nested too deeply|Expecting|recursion"),
    ],
)
def test_a_damaged_value_says_where_and_what(raw, why):
    with pytest.raises(StoreError, match=why) as caught:
        Codec(Inner).decode("agent", b"local/id/\xff", raw)
    assert "the store's value at agent `local/id/\\xff` is damaged: " in str(caught.value)


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        ("blob", 5, "expected base64, got int"),
        ("blob", "?", "expected base64: "),
        ("word", "c", "expected one of a, b, got 'c'"),
        ("inner", {"n": "x"}, "expected int, got str - at `n` - at `inner`"),
        ("names", [1], "expected str, got int"),
        ("config", [], "expected dict, got list"),
        ("ratio", "x", "expected float, got str"),
    ],
)
def test_each_kind_of_field_is_checked(field, value, why):
    plain = CODEC.plain(SAMPLE) | {field: value}
    with pytest.raises(StoreError, match=why):
        CODEC.decode("kv", b"k", encode_json(plain))


def test_plain_values_come_back():
    for value in (None, 0, [1, {"a": "b"}], "x"):
        assert decode_json("config", b"k", encode_json(value)) == value


def test_keys_are_readable():
    assert key("due", 5, "01H") == b"local/due/00000000000000000005/01H"
    assert prefix("due") == b"local/due/"
    assert prefix() == b"local/"


@pytest.mark.parametrize("number", [-1, 1 << 64])
def test_a_number_that_would_not_sort_is_an_error(number):
    with pytest.raises(ValueError, match="unsigned 64-bit"):
        key("due", number)


def test_numbers_sort_as_they_are():
    numbers = [0, 9, 10, 10**18, (1 << 64) - 1]
    assert sorted(numbers, key=lambda n: key("due", n)) == numbers


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=8), min_size=1, max_size=4))
def test_no_part_can_reach_into_anothers_keys(parts):
    made = key(*parts)
    assert parts_of(made) == parts
    assert made.count(b"/") == len(parts)


def test_a_key_of_another_realm_is_an_error():
    with pytest.raises(ValueError, match="not in the realm"):
        parts_of(b"other/id/x")
