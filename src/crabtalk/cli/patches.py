"""Changes of a configuration: merge patches (RFC 7396), and single values by their path.

A path is dotted, as `harnesses.reminders.schedule`: a list is entered by the `name` of one of its tables.
"""

import copy
import json
from collections.abc import Mapping
from typing import Any

from berm.cli.exits import USAGE, CommandError


def patch_between(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Return the smallest merge patch that makes `new` of `old`; lists are replaced whole."""
    patch: dict[str, Any] = {key: None for key in old if key not in new}
    for key, value in new.items():
        before = old.get(key)
        if isinstance(before, dict) and isinstance(value, dict):
            inner = patch_between(before, value)
            if inner:
                patch[key] = inner
        elif key not in old or before != value or type(before) is not type(value):
            patch[key] = value
    return patch


def with_value(document: Mapping[str, Any], path: str, value: object) -> dict[str, Any]:
    """Return `document` with one value set; tables on the way are made.

    Raises:
        CommandError: the path leads through something that is no table.
    """
    changed: dict[str, Any] = copy.deepcopy(dict(document))
    table, key = _place(changed, path, make=True)
    table[key] = value
    return changed


def without_value(document: Mapping[str, Any], path: str) -> dict[str, Any]:
    """Return `document` with one value, or one named table of a list, taken out.

    Raises:
        CommandError: there is none at that path.
    """
    changed: dict[str, Any] = copy.deepcopy(dict(document))
    *way, last = path.split(".")
    if way and isinstance(found := _at(changed, way, path), list):
        found.remove(_named(found, last, path))
        return changed
    table, key = _place(changed, path, make=False)
    if key not in table:
        raise CommandError(f"there is nothing at {path}", status=USAGE)
    del table[key]
    return changed


def value_of(text: str) -> object:
    """Read a value as JSON, and as text what is none."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _place(document: dict[str, Any], path: str, *, make: bool) -> tuple[dict[str, Any], str]:
    *way, key = path.split(".")
    here: Any = document
    for step in way:
        is_made = make and isinstance(here, dict) and step not in here
        here = here.setdefault(step, {}) if is_made else _step(here, step, path)
    if not isinstance(here, dict) or not key:
        raise CommandError(f"{path} leads to no value that could be set", status=USAGE)
    return here, key


def _at(document: object, way: list[str], path: str) -> object:
    here = document
    for step in way:
        here = _step(here, step, path)
    return here


def _step(here: object, step: str, path: str) -> Any:  # noqa: ANN401 - any part of a document
    if isinstance(here, list):
        return _named(here, step, path)
    if isinstance(here, dict) and step in here:
        return here[step]
    raise CommandError(f"there is no {step} on the way to {path}", status=USAGE)


def _named(tables: list[Any], name: str, path: str) -> dict[str, Any]:
    for table in tables:
        if isinstance(table, dict) and table.get("name") == name:
            return table
    raise CommandError(f"there is no table named {name} on the way to {path}", status=USAGE)
