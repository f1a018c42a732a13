"""How an argument says that a person has to approve what it binds: a table with `ask = true`.

`files = {path = "/p", ask = true}`, `root = {session = "/p", ask = true}`, and `hosts = {value = ["x.org"],
ask = true}` for all that are no directories. Everything else about an argument is `declarations`' business.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from crabtalk import declared_values as values
from crabtalk.declared_values import Flaw, Key, Schema
from crabtalk.units import nearest

# The arguments: what registers capabilities, and so may be asked about. Where the value stands in the table;
# a root's table has keys of its own, of which `ask` is one more.
INNER_KEYS: Final[Mapping[str, str]] = {
    "files": "path",
    "root": "",
    **dict.fromkeys(
        ("hosts", "zone", "storage", "calls", "schedule", "topics", "peers", "send", "sessions", "skills"),
        "value",
    ),
}


@dataclass(frozen=True, slots=True)
class Asked:
    """The value of an argument that a person has to approve."""

    value: Any


def askable(name: str, key: Key) -> Key:
    """Let an argument be a table with `ask`, too."""
    return replace(key, read=_reader(name, key.read), schema=_schema(name, key.schema))


def unasked(checked: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the plain values of what was read, and the names of the arguments that are asked about."""
    asked = tuple(sorted(name for name, one in checked.items() if isinstance(one, Asked)))
    return {name: one.value if isinstance(one, Asked) else one for name, one in checked.items()}, asked


def with_value(argument: object, name: str, value: object) -> object:
    """Return an argument, as somebody wrote it, with another value in it."""
    return {**argument, INNER_KEYS[name]: value} if isinstance(argument, Mapping) else value


def _reader(name: str, read: values.Reader) -> values.Reader:
    inner = INNER_KEYS[name]

    def checked(value: object) -> Any:  # noqa: ANN401 - as the reader
        if not isinstance(value, Mapping) or (not inner and "ask" not in value):
            return read(value)
        table = {key: one for key, one in value.items() if key != "ask"}
        asks = values.within(".ask", values.boolean, value.get("ask", False))
        if inner:
            _check_keys(table, inner)
            found = values.within(f".{inner}", read, table[inner])
        else:
            found = read(table)
        return Asked(found) if asks else found

    return checked


def _check_keys(table: Mapping[str, object], inner: str) -> None:
    for key in table:
        if key != inner:
            raise Flaw(f"unknown key{nearest(key, (inner, 'ask'))}", f".{values.printed(key)}")
    if inner not in table:
        raise Flaw("missing", f".{inner}")


def _schema(name: str, plain: Schema) -> Schema:
    """Describe an argument with its table."""
    inner, ask = INNER_KEYS[name], {"ask": {"type": "boolean"}}
    forms = plain["oneOf"] if set(plain) == {"oneOf"} else [plain]
    if not inner:
        return {"oneOf": [_with_property(one, ask) if one["type"] == "object" else one for one in forms]}
    table = {
        "type": "object",
        "additionalProperties": False,
        "properties": {inner: plain, **ask},
        "required": [inner],
    }
    return {"oneOf": [*forms, table]}


def _with_property(form: Schema, more: Schema) -> Schema:
    return {**form, "properties": {**form["properties"], **more}}
