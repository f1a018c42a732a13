"""Records to bytes and back: a version byte, then compact JSON, decided once from a dataclass's annotations.

Fields that a value does not have take the dataclass's default, so that a field can be added without a new
format; fields that are unknown are errors, since a newer program wrote them. Whatever is wrong with a value
becomes one StoreError that names its column and key.
"""

import base64
import binascii
import dataclasses
import json
import types
from collections.abc import Callable, Mapping
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Generic,
    Literal,
    NoReturn,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from crabtalk.errors import StoreError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    R = TypeVar("R", bound=DataclassInstance)
else:
    R = TypeVar("R")

VERSION: Final = b"\x01"
_TO_JSON: Final = json.JSONEncoder(separators=(",", ":"), check_circular=False)

Convert = Callable[[Any], Any]


class Codec(Generic[R]):
    """Encodes and decodes the records of one class."""

    def __init__(self, record: type[R]) -> None:
        hints = get_type_hints(record)
        self._record = record
        self._fields = [(one.name, *_converters(hints[one.name])) for one in dataclasses.fields(record)]
        self._names = frozenset(name for name, _, _ in self._fields)

    def encode(self, record: R) -> bytes:
        """Return the value to store."""
        return encode_json(self.plain(record))

    def decode(self, column: str, key: bytes, raw: bytes) -> R:
        """Return the record of a stored value.

        Raises:
            StoreError: if the value is not one that `encode` made.
        """
        try:
            return self.record(_parsed(raw))
        except ValueError as error:
            refuse(column, key, error)

    def plain(self, record: R) -> dict[str, Any]:
        """Return the record as JSON has it."""
        return {name: out(getattr(record, name)) for name, out, _ in self._fields}

    def record(self, plain: object) -> R:
        """Return the record of what `plain` made.

        Raises:
            ValueError: if it cannot be one.
        """
        if not isinstance(plain, dict):
            raise ValueError(f"expected an object, got {_kind(plain)}")  # noqa: TRY004 - it is a value's fault
        if unknown := plain.keys() - self._names:
            raise ValueError(f"has an unknown field `{min(unknown)}`")
        values: dict[str, Any] = {}
        for name, _, back in self._fields:
            if name in plain:
                try:
                    values[name] = back(plain[name])
                except ValueError as error:
                    raise ValueError(f"{error} - at `{name}`") from error
        try:
            return self._record(**values)
        except TypeError as error:
            missing = ", ".join(name for name, _, _ in self._fields if name not in plain)
            raise ValueError(f"lacks one of {missing}") from error


def encode_json(value: object) -> bytes:
    """Return the stored form of a JSON value."""
    return VERSION + _TO_JSON.encode(value).encode()


def decode_json(column: str, key: bytes, raw: bytes) -> Any:  # noqa: ANN401 - it is JSON
    """Return the JSON value of a stored one.

    Raises:
        StoreError: if it is none.
    """
    try:
        return _parsed(raw)
    except ValueError as error:
        refuse(column, key, error)


def refuse(column: str, key: bytes, why: object) -> NoReturn:
    """Say that a stored value cannot be used.

    Raises:
        StoreError: always.
    """
    raise StoreError(
        f"the store's value at {column} `{key.decode(errors='backslashreplace')}` is damaged: {why}"
    )


def _parsed(raw: bytes) -> Any:  # noqa: ANN401 - it is JSON
    if raw[:1] != VERSION:
        raise ValueError(f"expected a value of version 1, got {raw[:1].hex() or 'nothing'}")
    try:
        return json.loads(raw[1:])
    except RecursionError as error:
        raise ValueError("is nested too deeply") from error


def _converters(hint: Any) -> tuple[Convert, Convert]:  # noqa: ANN401 - annotations have no type
    """Return how a field is written and read."""
    origin = get_origin(hint)
    if hint is bytes:
        return _base64, _unbase64
    if origin in (Union, types.UnionType):
        return _optional(hint)
    if origin is Literal:
        return _same, _one_of(get_args(hint))
    if origin is tuple:
        return _tuple(get_args(hint))
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        codec: Codec[Any] = Codec(hint)
        return codec.plain, codec.record
    plain = dict if isinstance(origin, type) and issubclass(origin, Mapping) else hint
    return _same, _instance(plain)


def _same(value: object) -> object:
    return value


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _unbase64(value: object) -> bytes:
    if not isinstance(value, str):
        raise ValueError(f"expected base64, got {_kind(value)}")  # noqa: TRY004
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error as error:
        raise ValueError(f"expected base64: {error}") from error


def _optional(hint: Any) -> tuple[Convert, Convert]:  # noqa: ANN401
    (inner,) = (one for one in get_args(hint) if one is not type(None))
    out, back = _converters(inner)
    return (
        lambda value: None if value is None else out(value),
        lambda value: None if value is None else back(value),
    )


def _tuple(kinds: tuple[Any, ...]) -> tuple[Convert, Convert]:
    if kinds[1:] == (Ellipsis,):
        out, back = _converters(kinds[0])
        return lambda value: list(map(out, value)), lambda value: tuple(map(back, _list(value)))
    pairs = [_converters(kind) for kind in kinds]

    def read(value: object) -> tuple[Any, ...]:
        found = _list(value)
        if len(found) != len(pairs):
            raise ValueError(f"expected {len(pairs)} values, got {len(found)}")
        return tuple(back(one) for (_, back), one in zip(pairs, found, strict=True))

    return lambda value: [out(one) for (out, _), one in zip(pairs, value, strict=True)], read


def _list(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"expected a list, got {_kind(value)}")  # noqa: TRY004
    return value


def _one_of(allowed: tuple[Any, ...]) -> Convert:
    def read(value: object) -> object:
        if value not in allowed:
            raise ValueError(f"expected one of {', '.join(map(str, allowed))}, got {value!r}")
        return value

    return read


def _instance(kind: type) -> Convert:
    def read(value: object) -> object:
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise ValueError(f"expected {kind.__name__}, got {_kind(value)}")
        return value

    return read


def _kind(value: object) -> str:
    return "null" if value is None else type(value).__name__
