"""How the values of a declaration are read: each reader takes what JSON gave and returns a checked value.

A `Key` is a reader with its JSON Schema and a sentence for people, so that what is checked, published and
explained is one table. A reader raises `Flaw`, which knows where inside the value it is; whoever reads a
whole document adds the rest of the place.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from crabtalk.rates import Rate
from crabtalk.units import nearest, rate_per_s, shown, size_bytes

Schema = dict[str, Any]
Reader = Callable[[object], Any]

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_MAX_PATH_BYTES: Final = 4095
_PRINTED_KEY: Final = 60


class Flaw(ValueError):  # noqa: N818 - becomes a BadRequest, which is the error
    """A value is not what a key takes; `inside` is the place within it, such as `[0].path`."""

    def __init__(self, reason: str, inside: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.inside = inside


@dataclass(frozen=True)
class Key:
    """One key of a table."""

    read: Reader
    schema: Schema
    says: str


@dataclass(frozen=True)
class Table:
    """The keys that a table may have, and those that it must have."""

    keys: Mapping[str, Key]
    required: frozenset[str] = frozenset()
    refused: Callable[[str], str | None] = lambda _key: None  # why a key is refused that people may try

    def read(self, value: object) -> dict[str, Any]:
        """Return the checked values of the keys that are given.

        Raises:
            Flaw: with the place inside the table.
        """
        if not isinstance(value, Mapping):
            raise Flaw(f"expected a table, got {kind(value)}")
        for key in value:
            if key not in self.keys:
                reason = self.refused(key) or f"unknown key{nearest(str(key), self.keys)}"
                raise Flaw(reason, f".{printed(key)}")
        for key in sorted(self.required - value.keys()):
            raise Flaw("missing", f".{key}")
        return {key: within(f".{key}", self.keys[key].read, item) for key, item in value.items()}

    def schema(self) -> Schema:
        """Describe the table as JSON Schema."""
        properties = {key: {**one.schema, "description": one.says} for key, one in self.keys.items()}
        described: Schema = {"type": "object", "additionalProperties": False, "properties": properties}
        return {**described, "required": sorted(self.required)} if self.required else described


def within(place: str, read: Reader, value: object) -> Any:  # noqa: ANN401 - what the reader returns
    """Read a value that stands at `place` inside another.

    Raises:
        Flaw: with the longer place.
    """
    try:
        return read(value)
    except Flaw as flaw:
        raise Flaw(flaw.reason, place + flaw.inside) from None
    except ValueError as error:
        raise Flaw(str(error), place) from None


def kind(value: object) -> str:
    """Name the kind of a JSON value."""
    kinds: dict[type, str] = {bool: "a boolean", str: "text", type(None): "null", list: "a list"}
    if isinstance(value, Mapping):
        return "a table"
    return kinds.get(type(value), "a number")


def printed(key: object) -> str:
    """Return a key from outside as a place may show it."""
    text = str(key).encode("unicode_escape").decode("ascii")
    return text if len(text) <= _PRINTED_KEY else f"{text[:_PRINTED_KEY]}…"


def text(max_bytes: int, *, control: bool = False) -> Reader:
    """Read text; with `control`, line breaks and the like may be in it."""

    def read(value: object) -> str:
        if not isinstance(value, str):
            raise Flaw(f"expected text, got {kind(value)}")
        if len(value.encode()) > max_bytes:
            raise Flaw(f"longer than {max_bytes} bytes")
        if not control and _CONTROL.search(value):
            raise Flaw("has a control character in it")
        return value

    return read


def matching(pattern: str, expected: str) -> Key:
    """Make a key for text of one form, to be described by its user."""
    compiled = re.compile(rf"(?:{pattern})\Z")

    def read(value: object) -> str:
        if not isinstance(value, str) or not compiled.match(value):
            raise Flaw(f"expected {expected}, got {shown(value)}")
        return value

    return Key(read, {"type": "string", "pattern": f"^(?:{pattern})$"}, "")


def number(low: float, high: float, expected: str) -> Reader:
    """Read a number above `low` and up to `high`."""

    def read(value: object) -> float:
        if not isinstance(value, int | float) or isinstance(value, bool) or not low < value <= high:
            raise Flaw(f"expected {expected}, got {shown(value)}")
        return float(value)

    return read


def count(low: int, high: int) -> Reader:
    """Read a whole number, which TOML may write as `2e10`."""

    def read(value: object) -> int:
        whole = isinstance(value, int | float) and not isinstance(value, bool)
        if not whole or not low <= value <= high or value != int(value):  # type: ignore[operator, call-overload]
            raise Flaw(f"expected a whole number from {low} to {high}, got {shown(value)}")
        return int(value)  # type: ignore[call-overload, no-any-return]

    return read


def boolean(value: object) -> bool:
    """Read true or false."""
    if not isinstance(value, bool):
        raise Flaw(f"expected true or false, got {kind(value)}")
    return value


def size(low: int, high: int) -> Reader:
    """Read a number of bytes, with or without a unit."""

    def read(value: object) -> int:
        amount = size_bytes(value)
        if not low <= amount <= high:
            raise Flaw(f"expected from {low} to {high} bytes, got {shown(value)}")
        return amount

    return read


def memory(value: object) -> int:
    """Read the size of a guest's memory."""
    amount = size_bytes(value)
    if amount & (amount - 1) or not 128 << 10 <= amount <= 4 << 30:
        raise Flaw(f"expected a power of two from 128KiB to 4GiB, got {shown(value)}")
    return amount


def path(value: object) -> str:
    """Read an absolute path; nothing in it is expanded."""
    if not isinstance(value, str) or not value.startswith("/"):
        raise Flaw(f"expected an absolute path, got {shown(value)}")
    if "\0" in value or len(value.encode()) > _MAX_PATH_BYTES:
        raise Flaw("not a path: it is too long or has a NUL in it")
    return value


def listing(read: Reader, most: int) -> Reader:
    """Read a list of different values, one at least: nothing granted is said by leaving the key out."""

    def read_all(value: object) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple):
            raise Flaw(f"expected a list, got {kind(value)}")
        if not 1 <= len(value) <= most:
            raise Flaw(f"expected 1 to {most} entries, got {len(value)}; leave the key out for none")
        entries = tuple(within(f"[{index}]", read, one) for index, one in enumerate(value))
        for index, one in enumerate(entries):
            if one in entries[:index]:
                raise Flaw("stands twice", f"[{index}]")
        return entries

    return read_all


def tables(read: Reader, value: object, most: int) -> list[Any]:
    """Read a list of tables."""
    if not isinstance(value, list | tuple):
        raise Flaw(f"expected a list of tables, in TOML `[[…]]`, got {kind(value)}")
    if len(value) > most:
        raise Flaw(f"{len(value)} entries, at most {most} are allowed")
    return [within(f"[{index}]", read, one) for index, one in enumerate(value)]


def host(value: object) -> str:
    """Read an entry of `hosts`."""
    from crabtalk.capabilities._hosts import parse_entry  # noqa: PLC0415 - an argument costs its own imports

    checked: str = text(512)(value)
    parse_entry(checked)
    return checked


def topic(value: object) -> str:
    """Read a source of events, or a prefix of sources."""
    from crabtalk.events.matching import check_pattern  # noqa: PLC0415 - as host

    return check_pattern(text(512)(value))


def zone(value: object) -> str:
    """Read the name of a time zone, or `local`."""
    from crabtalk.capabilities.clock import find_zone  # noqa: PLC0415 - as host

    checked: str = text(128)(value)
    find_zone(checked)
    return checked


def zones(value: object) -> tuple[str, ...]:
    """Read one time zone, or a list of them, the first of which is that of `now`."""
    return (zone(value),) if isinstance(value, str) else tuple(listing(zone, 64)(value))


def rate(value: object) -> Rate:
    """Read a rate such as `60/min`."""
    return Rate(*rate_per_s(value))


@dataclass(frozen=True, slots=True)
class RootArgument:
    """A directory that grants files and commands; with `per_session`, a session's root narrows inside it."""

    path: str
    per_session: bool = False


def root(value: object) -> RootArgument:
    """Read `"/p"`, `{path = "/p"}` or `{session = "/p"}`."""
    if not isinstance(value, Mapping):
        return RootArgument(path(value))
    unknown = [key for key in value if key not in {"path", "session"}]
    if unknown:
        raise Flaw(f"unknown key{nearest(str(unknown[0]), ('path', 'session'))}", f".{printed(unknown[0])}")
    if len(value) != 1:
        raise Flaw("expected either `path` or `session`")
    ((key, item),) = value.items()
    return RootArgument(within(f".{key}", path, item), key == "session")
