"""Configurations as people keep them: files of TOML or JSON."""

import json
import sys
import tomllib
from pathlib import Path
from typing import Any

from berm.cli.arguments import read_file
from berm.cli.exits import USAGE, CommandError

MAX_BYTES = 1 << 20  # as much as a request may hold


def read_document(text: str) -> dict[str, Any]:
    """Read the table that is in the file `text`, or in stdin for `-`.

    Raises:
        CommandError: it cannot be read, or is neither TOML nor JSON.
    """
    if text != "-":
        path = Path(text)
        return parsed(read_file(path, MAX_BYTES), str(path), is_json=path.suffix.lower() == ".json")
    data = sys.stdin.buffer.read(MAX_BYTES + 1)
    return parsed(data, "stdin", is_json=data.lstrip()[:1] == b"{")


def parsed(data: bytes, source: str, *, is_json: bool) -> dict[str, Any]:
    """Read a table from bytes.

    Raises:
        CommandError: it is none.
    """
    if len(data) > MAX_BYTES:
        raise CommandError(f"{source} is larger than {MAX_BYTES >> 20} MiB")
    try:
        text = data.decode()
        table = json.loads(text) if is_json else tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise CommandError(f"{source} is not {'JSON' if is_json else 'TOML'}: {error}") from error
    if not isinstance(table, dict):
        raise CommandError(f"{source}: expected an object, got {type(table).__name__}")
    return table


def json_object(text: str, what: str) -> dict[str, Any]:
    """Read a JSON object from the command line.

    Raises:
        CommandError: it is none.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CommandError(f"{what} is not JSON: {error}", status=USAGE) from error
    if not isinstance(value, dict):
        raise CommandError(f"{what}: expected a JSON object, got {text[:60]!r}", status=USAGE)
    return value
