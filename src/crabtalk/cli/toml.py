"""Writes TOML for people to edit; the standard library reads it and writes none.

For what JSON can hold, null aside. Text of several lines is written as such, lists of tables as `[[name]]`.
"""

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_ESCAPES = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}


def written(table: Mapping[str, Any]) -> str:
    """Return `table` as a TOML document.

    Raises:
        ValueError: for a value that TOML has no word for.
    """
    return "\n".join(_lines(table, ())).strip("\n") + "\n"


def written_value(value: object) -> str:
    """Return one value, on one line unless it is text of several.

    Raises:
        ValueError: for a value that TOML has no word for.
    """
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return _float(value)
        case str():
            return _text(value)
        case list() | tuple():
            return f"[{', '.join(map(_inline, value))}]"
        case dict():
            return _inline(value)
    raise ValueError(f"TOML has no word for {value!r}")


def _lines(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    """Write plain values first: whatever follows a header belongs to it."""
    headed = {key for key, value in table.items() if _is_headed(value)}
    for key, value in table.items():
        if key not in headed:
            yield f"{_key(key)} = {written_value(value)}"
    for key in table:
        if key not in headed:
            continue
        name, value = ".".join(map(_key, (*path, key))), table[key]
        for part in value if isinstance(value, list) else (value,):
            yield ""
            yield f"[[{name}]]" if isinstance(value, list) else f"[{name}]"
            yield from _lines(part, (*path, key))


def _is_headed(value: object) -> bool:
    if isinstance(value, list):
        return bool(value) and all(isinstance(part, dict) for part in value)
    return isinstance(value, dict) and any(map(_is_headed, value.values()))


def _inline(value: object) -> str:
    if isinstance(value, dict):
        pairs = (f"{_key(key)} = {_inline(part)}" for key, part in value.items())
        return f"{{{', '.join(pairs)}}}"
    return _basic(value) if isinstance(value, str) else written_value(value)


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _basic(key)


def _text(text: str) -> str:
    if "\n" not in text:
        return _basic(text)
    body = "".join(char if char == "\n" else _escaped(char) for char in text)
    return f'"""\n{body}"""'


def _basic(text: str) -> str:
    return f'"{"".join(map(_escaped, text))}"'


def _escaped(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    return char if char.isprintable() else f"\\U{ord(char):08x}"


def _float(value: float) -> str:
    if not math.isfinite(value):
        return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    text = repr(value)
    return text if "." in text or "e" in text else f"{text}.0"
