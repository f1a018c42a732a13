"""What reaches a terminal: escaping, tables, colour.

Names, messages and log lines come from guests and images, so a control character in them must not reach a
terminal, where it could move the cursor, set the title or forge lines. Result bytes are never touched.
"""

import io
import os
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TextIO

# Controls, invisible formatting (bidirectional overrides too), line separators, and what is no text.
_UNSAFE = frozenset({"Cc", "Cf", "Zl", "Zp", "Cs", "Co", "Cn"})
BOLD, DIM, RED = "1", "2", "31"


def prepare() -> None:
    """Make stdout and stderr take any text: closed ones drop it, narrow ones escape it."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - for good
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def discard() -> None:
    """Drop what stdout still holds, so that the interpreter does not try to write it when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def escape(text: str) -> str:
    """Make `text` safe to print; newlines and tabs stay."""
    return "".join(char if char in "\n\t" else _escape_char(char) for char in text)


def escape_line(text: str) -> str:
    """Make `text` safe to print as one line."""
    return "".join(map(_escape_char, text))


def _escape_char(char: str) -> str:
    if char.isascii():
        return char if char.isprintable() else f"\\x{ord(char):02x}"
    if unicodedata.category(char) not in _UNSAFE:
        return char
    return char.encode("unicode-escape").decode("ascii")


def is_terminal(stream: TextIO) -> bool:
    """Say whether a person reads `stream`."""
    return stream.isatty()


def for_stream(text: str, stream: TextIO) -> str:
    """Escape `text` when `stream` is a terminal; a file or a pipe gets it unchanged."""
    return escape(text) if is_terminal(stream) else text


def paint(text: str, style: str, stream: TextIO) -> str:
    """Wrap `text` in `style`, on a terminal that wants colour."""
    plain = not is_terminal(stream) or "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
    return text if plain else f"\x1b[{style}m{text}\x1b[0m"


def print_table(head: Sequence[str], rows: Iterable[Sequence[str | int]]) -> None:
    """Print aligned columns on a terminal, tab-separated lines without a head elsewhere."""
    lines = list(rows)
    if not is_terminal(sys.stdout):
        for line in lines:
            print("\t".join(escape_line(str(cell)) for cell in line))
        return
    columns = [_column(list(cells)) for cells in zip(head, *lines, strict=True)]
    for number, line in enumerate(zip(*columns, strict=True)):
        text = "  ".join(line).rstrip()
        print(text if number else paint(text, BOLD, sys.stdout))


def _column(cells: list[str | int]) -> list[str]:
    """Bring one column, its head first, to one width: figures right, with separators; text left."""
    texts = [f"{cell:,}" if isinstance(cell, int) else escape_line(cell) for cell in cells]
    width = max(map(len, texts))
    figures = len(cells) > 1 and all(isinstance(cell, int) for cell in cells[1:])
    return [text.rjust(width) if figures else text.ljust(width) for text in texts]


def print_json(value: object) -> None:
    """Print `value` as one line of JSON, keys in the order given, in ASCII: it may hold anything."""
    import json

    print(json.dumps(value))
