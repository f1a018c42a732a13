"""Replies of the daemon as plain values, and as JSON."""

import argparse
from collections.abc import Mapping
from typing import Any


def add_json_lines(parser: argparse.ArgumentParser) -> None:
    """Declare --json, for a command that prints many things."""
    parser.add_argument("--json", action="store_true", help="print one JSON object a line instead of text")


def facts(message: Any) -> dict[str, Any]:  # noqa: ANN401 - any reply
    """Return every field of a reply that is present, ready for JSON; see `blob` for bytes."""
    found: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        if field.has_presence and not message.HasField(field.name):
            continue
        value = getattr(message, field.name)
        found |= blob(field.name, value) if isinstance(value, bytes) else {field.name: _plain(value)}
    return found


def blob(name: str, data: bytes) -> dict[str, str]:
    """Return bytes under `name` where they are text, else as base64 under `NAME_base64`."""
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        import base64

        return {f"{name}_base64": base64.b64encode(data).decode("ascii")}


def _plain(value: Any) -> Any:  # noqa: ANN401 - any field
    if isinstance(value, str | int | float):
        return value
    if hasattr(value, "DESCRIPTOR"):
        return facts(value)
    return dict(value) if isinstance(value, Mapping) else [_plain(part) for part in value]
