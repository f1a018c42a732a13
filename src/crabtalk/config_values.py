"""How a key of `config.toml` is declared, and what its value must be.

A reader takes what TOML gave and returns the value, or raises a `ValueError` that says what was wanted; the
caller adds where. `Secret` is here, since a key may hold one.
"""

import dataclasses
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, TypeVar

from crabtalk.units import duration_s, nearest, rate_per_s, shown, size_bytes

SECRET: Final = MappingProxyType({"$secret": "set"})  # stands for a secret wherever one would be shown
MAX_FOLDERS: Final = 32
_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")

T = TypeVar("T")
Reader = Callable[[object], Any]


@dataclass(frozen=True, slots=True, repr=False)
class Secret:
    """A value that is never shown; `reveal` where it is used."""

    _value: str

    def reveal(self) -> str:
        """Return the value itself."""
        return self._value

    def __repr__(self) -> str:
        return "Secret(set)"


def setting(read: Reader, text: str, *, default: T, written: str = "", live: bool = False) -> T:
    """Declare a key: how it is read, what it is for, and whether a running daemon obeys a change."""
    metadata = {"read": read, "help": text, "live": live, "written": written or json.dumps(default)}
    field: T = dataclasses.field(default=default, metadata=metadata)
    return field


def boolean(value: object) -> bool:
    """Read true or false."""
    if not isinstance(value, bool):
        raise ValueError(f"expected true or false, got {shown(value)}")  # noqa: TRY004 - for the operator
    return value


def whole_between(low: int, high: int) -> Reader:
    """Return what reads a whole number."""

    def read(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ValueError(f"expected a whole number from {low} to {high}, got {shown(value)}")
        return value

    return read


def folders(value: object) -> tuple[str, ...]:
    """Read a list of absolute paths."""
    if not isinstance(value, list) or len(value) > MAX_FOLDERS:
        raise ValueError(f"expected a list of at most {MAX_FOLDERS} folders, got {shown(value)}")
    for one in value:
        if not isinstance(one, str) or not one.startswith("/") or "\0" in one:
            raise ValueError(f"expected absolute paths, got {shown(one)}")
    return tuple(value)


def size_between(low: int, high: int) -> Reader:
    """Return what reads a size in bytes."""

    def read(value: object) -> int:
        size = size_bytes(value)
        if not low <= size <= high:
            raise ValueError(f"expected a size from {low} to {high} bytes, got {shown(value)}")
        return size

    return read


def seconds_between(low: float, high: float) -> Reader:
    """Return what reads a duration in seconds."""

    def read(value: object) -> float:
        seconds = duration_s(value)
        if not low <= seconds <= high:
            raise ValueError(f"expected {low:g} to {high:g} seconds, got {shown(value)}")
        return seconds

    return read


def rate_or_none(value: object) -> str:
    """Read a rate such as `60/min`, or an empty text for none; as it is written."""
    if not isinstance(value, str) or value:
        rate_per_s(value)
    return str(value)


def one_of(*known: str) -> Reader:
    """Return what reads one of some words."""

    def read(value: object) -> str:
        if not isinstance(value, str) or value not in known:
            raise ValueError(
                f"expected one of {', '.join(known)}, got {shown(value)}{nearest(str(value), known)}"
            )
        return value

    return read


def expanded(text: str, environment: Mapping[str, str]) -> Secret:
    """Return `text` with the environment's value for each `${NAME}`.

    Raises:
        ValueError: if one is not set; names all that are not.
    """
    if missing := [name for name in _VARIABLE.findall(text) if name not in environment]:
        raise ValueError(", ".join(f"${{{name}}} is not set" for name in missing))
    return Secret(_VARIABLE.sub(lambda match: environment[match[1]], text))
