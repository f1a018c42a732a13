"""Fields on the wire: packed and cut exactly, and every malformed request is one error."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berm import wire

pytestmark = pytest.mark.core


@given(st.lists(st.binary(max_size=300), max_size=20))
def test_what_is_packed_is_unpacked(fields):
    packed = wire.pack_fields(fields)
    assert packed == b"".join(struct.pack("<I", len(field)) + field for field in fields)
    assert wire.unpack_fields(packed) == fields


@given(st.binary(max_size=200))
def test_any_bytes_are_fields_or_one_error(data):
    try:
        fields = wire.unpack_fields(data)
    except wire.WireError:
        return
    assert wire.pack_fields(fields) == data


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\1", "field 0 at byte 0: 1 bytes left, expected a u32 length"),
        (b"\0\0\0\0\1\0\0", "field 1 at byte 4: 3 bytes left, expected a u32 length"),
        (b"\5\0\0\0abcd", "field 0 at byte 4: length 5, but 4 bytes are left"),
        (b"\xff\xff\xff\xffabcd", "field 0 at byte 4: length 4294967295, but 4 bytes are left"),
        (b"\0\0\0\x80", "field 0 at byte 4: length 2147483648, but 0 bytes are left"),
    ],
)
def test_malformed_bytes_are_named_by_field_and_place(data, message):
    with pytest.raises(wire.WireError) as caught:
        wire.unpack_fields(data)
    assert str(caught.value) == message


@pytest.mark.parametrize("bad", [None, "text", bytearray(b"")])
def test_only_bytes_are_unpacked(bad):
    with pytest.raises(TypeError):
        wire.unpack_fields(bad)


@pytest.mark.parametrize("bad", [["text"], [None], [bytearray(b"x")], [3]])
def test_only_bytes_are_packed(bad):
    with pytest.raises(TypeError, match="expected bytes, got"):
        wire.pack_fields(bad)


def test_fields_may_come_from_any_iterable():
    assert wire.pack_fields(field for field in (b"a", b"b")) == wire.pack_fields((b"a", b"b"))


@given(st.integers(min_value=-(1 << 63), max_value=(1 << 64) - 1))
def test_integers_are_decimal_text(value):
    assert wire.decode_int(wire.encode_int(value), "n") == value


@pytest.mark.parametrize(
    "field", [b"", b"-", b"+1", b" 1", b"1 ", b"1\n", b"1_0", b"0x1", b"1.0", b"\xd9\xa1", b"9" * 21]
)
def test_other_spellings_of_integers_are_errors(field):
    with pytest.raises(wire.WireError, match="n: expected a decimal integer, got "):
        wire.decode_int(field, "n")


def test_text_is_strict_utf8():
    assert wire.decode_text("café".encode(), "t") == "café"
    with pytest.raises(wire.WireError) as caught:
        wire.decode_text(b"caf\xe9", "t")
    assert str(caught.value) == "t: not UTF-8 at byte 3"
    with pytest.raises(wire.WireError):
        wire.decode_text(b"\xed\xa0\x80", "t")  # a surrogate


def test_text_that_utf8_cannot_carry_is_marked():
    assert wire.encode_text("a\ud800b") == b"a?b"


def test_pairs_are_keys_and_values():
    assert wire.decode_pairs([b"a", b"1", b"b", b"2"], "p") == [("a", "1"), ("b", "2")]
    assert wire.decode_pairs([], "p") == []
    with pytest.raises(wire.WireError) as caught:
        wire.decode_pairs([b"a"], "p")
    assert str(caught.value) == "p: 1 fields are no pairs of key and value"
