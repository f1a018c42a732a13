"""JSON from outside, read strictly: what two readers could understand differently is an error.

Refused: duplicate keys, NaN and infinities, numbers beyond 64 bits, lone surrogates, deep nesting. The fast
path only notices such a thing; a second, slower reading finds its place for the message.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, NoReturn

from berm.errors import ManifestError
from rvcore._errors import printable

MAX_DEPTH = 64  # picked, not measured: five times what a schema of real tools needs
_MAX_DIGITS = 20  # of an integer; what fits 64 bits has no more
_INTEGER_RANGE = range(-(1 << 63), 1 << 64)
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_NOT_BRACKET = re.compile(r"[^\[\]{}]+")
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


class _Flaw(Exception):  # noqa: N818 - never leaves this file
    """The fast reading met something that needs a place."""


class _Marker:
    """Stands in the slow reading for a value that must not be."""

    def __init__(self, reason: str) -> None:
        self.reason = reason


class _Pairs(list[tuple[str, Any]]):
    """An object of the slow reading, with all its keys."""


def parse(data: bytes) -> Any:  # noqa: ANN401 - JSON is any value
    """Read one JSON text.

    Raises:
        ManifestError: if it is not UTF-8, not JSON, or one of the things refused above, with its place.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise ManifestError(f"not UTF-8 at byte {error.start}") from None
    _check_depth(text)
    try:
        value = json.loads(
            text, object_pairs_hook=_unique, parse_int=_integer, parse_float=_real, parse_constant=_constant
        )
    except _Flaw:
        _raise_with_place(text)
    except json.JSONDecodeError as error:
        raise ManifestError(
            f"not JSON: {error.msg.lower()}", f"line {error.lineno} column {error.colno}"
        ) from None
    if _SURROGATE.search(text):
        _check_surrogates(value)
    return value


def _check_depth(text: str) -> None:
    # Each round removes the innermost brackets, so what is left after MAX_DEPTH rounds is nested deeper.
    brackets = _NOT_BRACKET.sub("", _STRING.sub("", text))
    for _ in range(MAX_DEPTH):
        shorter = brackets.replace("[]", "").replace("{}", "")
        if len(shorter) == len(brackets):
            break
        brackets = shorter
    opened = brackets.count("[") + brackets.count("{")
    if opened > MAX_DEPTH or "[]" in brackets or "{}" in brackets:
        raise ManifestError(f"nested deeper than {MAX_DEPTH} levels")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise _Flaw
    return value


def _integer(text: str) -> int:
    if len(text) <= _MAX_DIGITS and (value := int(text)) in _INTEGER_RANGE:
        return value
    raise _Flaw


def _real(text: str) -> float:
    value = float(text)
    if value - value == 0.0:
        return value
    raise _Flaw


def _constant(_text: str) -> NoReturn:
    raise _Flaw


def _raise_with_place(text: str) -> NoReturn:
    def integer(text: str) -> int | _Marker:
        try:
            return _integer(text)
        except _Flaw:
            return _Marker(f"number {text[:24]} is beyond 64 bits")

    def real(text: str) -> float | _Marker:
        try:
            return _real(text)
        except _Flaw:
            return _Marker(f"number {text[:24]} is beyond a double")

    root = json.loads(
        text,
        object_pairs_hook=_Pairs,
        parse_int=integer,
        parse_float=real,
        parse_constant=lambda text: _Marker(f"{text} is not JSON"),
    )
    for place, flaw in _flaws(root, ""):
        raise ManifestError(flaw, place)
    raise ManifestError("not JSON")


def _flaws(value: Any, place: str) -> Iterator[tuple[str, str]]:  # noqa: ANN401 - JSON is any value
    if isinstance(value, _Marker):
        yield place, value.reason
    elif isinstance(value, _Pairs):
        seen: set[str] = set()
        for key, inner in value:
            if key in seen:
                yield place, f"key `{printable(key, 40)}` stands twice"
            seen.add(key)
            yield from _flaws(inner, join(place, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _flaws(inner, f"{place}[{index}]")


def _check_surrogates(value: Any, place: str = "") -> None:  # noqa: ANN401 - JSON is any value
    if isinstance(value, str):
        if not _encodable(value):
            raise ManifestError("text has a lone surrogate", place)
    elif isinstance(value, dict):
        for key, inner in value.items():
            if not _encodable(key):
                raise ManifestError("a key has a lone surrogate", place)
            _check_surrogates(inner, join(place, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            _check_surrogates(inner, f"{place}[{index}]")


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def join(place: str, key: str) -> str:
    """Extend the path `place` by an object's key."""
    step = printable(key, 40)
    return f"{place}.{step}" if place else step
