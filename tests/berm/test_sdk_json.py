"""The SDK's JSON against Python's: the same documents accepted, the same values read and written."""

import json
import math
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sdk_probe import Probe

DEPTH = 128


@pytest.fixture(scope="module")
def probe():
    running = Probe()
    yield running
    running.close()


class Number(str):
    """A number as it is written."""

    __slots__ = ()


def reject(name):
    raise ValueError(name)


def python_reads(text: bytes):
    """Python's reading, strict where Python is lax: UTF-8 only, no lone surrogates, bounded depth."""
    document = json.loads(
        text.decode(), parse_int=Number, parse_float=Number, parse_constant=reject, object_pairs_hook=tuple
    )
    for _, string in strings_in(document):
        string.encode()
    if depth(document) > DEPTH:
        raise ValueError("too deep")
    return document


def strings_in(value):
    if isinstance(value, tuple):
        for key, member in value:
            yield "key", key
            yield from strings_in(member)
    elif isinstance(value, list):
        for element in value:
            yield from strings_in(element)
    elif isinstance(value, str) and not isinstance(value, Number):
        yield "value", value


def depth(value):
    if isinstance(value, tuple):
        return 1 + max((depth(member) for _, member in value), default=0)
    if isinstance(value, list):
        return 1 + max(map(depth, value), default=0)
    return 0


def exact_integer(text):
    """The integer a number is, or None; without making huge ones of huge exponents."""
    from fractions import Fraction

    mantissa, _, exponent = text.lower().partition("e")
    digits = Fraction(mantissa)
    if digits == 0:
        return 0
    if abs(int(exponent or 0)) > 1000:
        return None
    value = digits * Fraction(10) ** int(exponent or 0)
    return int(value) if value.denominator == 1 else None


def check_number(shown, text):
    assert shown["raw"] == text
    integer = exact_integer(text)
    fits = integer is not None and -(2**63) <= integer < 2**63
    assert shown.get("int") == (integer if fits else None)
    natural = integer is not None and 0 <= integer < 2**64
    assert shown.get("uint") == (integer if natural else None)
    number = float(text)
    bits = shown.get("bits")
    assert bits == (None if math.isinf(number) else struct.unpack("<Q", struct.pack("<d", number))[0])


def check(shown, value):
    kind, *rest = shown
    if isinstance(value, tuple):
        assert kind == "object"
        assert rest[::2] == [key for key, _ in value]
        for inner, (_, member) in zip(rest[1::2], value, strict=True):
            check(inner, member)
    elif isinstance(value, list):
        assert kind == "array"
        for inner, element in zip(rest, value, strict=True):
            check(inner, element)
    elif isinstance(value, Number):
        assert kind == "number"
        check_number(rest[0], value)
    elif isinstance(value, str):
        assert shown == ["string", value]
    elif value is None:
        assert shown == ["null"]
    else:
        assert shown == ["boolean", value]


def agree(probe, text: bytes):
    """Both read the document alike, or both refuse it."""
    answer = probe.ask("j", text)
    try:
        value = python_reads(text)
    except (ValueError, RecursionError):
        assert answer.startswith(b"!"), (text, answer)
        assert int(answer[1:].split()[0]) <= len(text)
    else:
        assert not answer.startswith(b"!"), (text, answer)
        check(json.loads(answer), value)


numbers = st.one_of(
    st.integers().map(str),
    st.integers(-(2**65), 2**65).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.from_regex(r"-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,4})?", fullmatch=True),
)
texts = st.text(st.characters(exclude_categories=["Cs"]))
escaped = st.lists(
    st.one_of(
        texts.map(lambda text: json.dumps(text, ensure_ascii=False)[1:-1]),
        texts.map(lambda text: json.dumps(text)[1:-1]),
        st.sampled_from(["\\/", "\\ud83d\\ude00", "\\u0000", "\\uFFFF", "\\b\\f"]),
    )
).map(lambda parts: '"' + "".join(parts) + '"')
spaces = st.sampled_from(["", "", " ", "\n\t\r "])


def documents():
    scalars = st.one_of(st.sampled_from(["true", "false", "null"]), numbers, escaped)
    return st.recursive(
        scalars,
        lambda inner: st.one_of(
            st.tuples(spaces, st.lists(st.tuples(spaces, inner, spaces).map("".join))).map(
                lambda both: "[" + (both[0] if not both[1] else ",".join(both[1])) + "]"
            ),
            st.lists(st.tuples(spaces, escaped, spaces, st.just(":"), spaces, inner).map("".join)).map(
                lambda members: "{" + ",".join(members) + "}"
            ),
        ),
        max_leaves=20,
    )


@given(spaces, documents(), spaces)
@settings(max_examples=75, deadline=None)
def test_valid_documents_are_read_as_python_reads_them(probe, before, document, after):
    agree(probe, (before + document + after).encode())


@given(documents().map(str.encode), st.data())
@settings(max_examples=75, deadline=None)
def test_damaged_documents_are_refused_where_python_refuses_them(probe, document, data):
    at = data.draw(st.integers(0, len(document)))
    junk = data.draw(
        st.one_of(st.binary(max_size=3), st.sampled_from([b",", b"]", b'"', b"\\", b"\\ud800", b"0"]))
    )
    cut = data.draw(st.integers(0, 3))
    agree(probe, document[:at] + junk + document[at + cut :])


@given(st.binary(max_size=60))
@settings(max_examples=60, deadline=None)
def test_any_bytes_are_read_or_refused(probe, data):
    agree(probe, data)


@given(st.text('[]{}":,\\u0123dDeE89.+- \ntruefalsn', max_size=40))
@settings(max_examples=75, deadline=None)
def test_json_like_texts_are_read_or_refused(probe, text):
    agree(probe, text.encode())


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b" ",
        b"\xef\xbb\xbf1",
        b"01",
        b"-",
        b"-0",
        b"+1",
        b"1.",
        b".5",
        b"1e",
        b"1e+",
        b"0x1",
        b"NaN",
        b"Infinity",
        b"[1,]",
        b"[,1]",
        b'{"a":1,}',
        b'{"a" 1}',
        b"{1:2}",
        b"{'a':1}",
        b'"a',
        b'"\n"',
        b'"\x7f"',
        b'"\\x41"',
        b'"\\u12"',
        b'"\\ud800"',
        b'"\\ud800\\u0041"',
        b'"\\udc00\\ud800"',
        b'"\\ud83d\\ude00\\ude00"',
        b'"\xc0\xaf"',
        b'"\xed\xa0\x80"',
        b'"\xf4\x90\x80\x80"',
        b'"\xf5"',
        b'"\xe2\x82"',
        b"1 2",
        b"nul",
        b"nullx",
        b"\x00",
        b"1\x00",
        b'{"a":1,"a":2}',
        b"9223372036854775807",
        b"9223372036854775808",
        b"-9223372036854775808",
        b"-9223372036854775809",
        b"18446744073709551615",
        b"18446744073709551616",
        b"1e18",
        b"10e18",
        b"-0.0",
        b"5e-324",
        b"2e-324",
        b"1.7976931348623157e308",
        b"1.7976931348623159e308",
        b"1e400",
        b"-1e400",
        b"1e-400",
        b"0e999999999999",
        b"9007199254740993",
        b"2.2250738585072011e-308",
        b"123456789012345678901234567890e-29",
    ],
)
def test_the_edges_of_the_grammar(probe, text):
    agree(probe, text)


def test_depth_is_bounded(probe):
    for open_, close in ((b"[", b"]"), (b'{"a":', b"}")):
        inner = b"" if open_ == b"[" else b"1"
        deepest = open_ * DEPTH + inner + close * DEPTH
        assert probe.ask("w", deepest) == deepest
        assert b"nested too deeply" in probe.ask("j", open_ * (DEPTH + 1) + inner + close * (DEPTH + 1))
        assert b"nested too deeply" in probe.ask("j", open_ * 1_000_000)


def test_many_digits_still_round_correctly(probe):
    # Half way between two doubles, decided by a digit far behind.
    half = "9007199254740993." + "0" * 790
    for digits in (half, half + "1", half + "0" * 500 + "1"):
        assert struct.unpack("<d", probe.ask("p", digits.encode())) == (float(digits),)


@given(documents())
@settings(max_examples=75, deadline=None)
def test_what_is_written_reads_back_as_the_same(probe, document):
    def value(text):
        found = float(text)
        exact = exact_integer(text)
        if exact is not None and -(2**63) <= exact < 2**63:
            return exact
        return text if math.isinf(found) else found

    def read(text):
        return json.loads(text, parse_int=value, parse_float=value, object_pairs_hook=tuple)

    assert read(probe.ask("w", document.encode())) == read(document)


@given(st.binary(max_size=80))
@settings(max_examples=75, deadline=None)
def test_strings_are_written_with_replacement_characters_for_what_is_not_utf8(probe, data):
    text = json.loads(probe.ask("s", data))
    lossy = probe.ask("l", data).decode()
    assert text == lossy
    good = len(data)
    try:
        assert lossy == data.decode()
    except UnicodeDecodeError as error:
        good = error.start
    assert int(probe.ask("u", data)) == good
    assert lossy.startswith(data[:good].decode())
