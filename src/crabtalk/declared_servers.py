"""What `mcps` of a declaration may say: the keys of an MCP server, checked."""

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from crabtalk import declared_values as values
from crabtalk.declared_values import Flaw, Key, Schema, Table, printed
from crabtalk.units import shown

MAX_SERVERS: Final = 64
MAX_DEADLINE_S: Final = 3600.0

# No `__` in it and no `_` at its end: so that it can be told from the tool's name that follows `__`.
_NAME: Final = values.matching(
    r"(?!.{33})[A-Za-z0-9]+(?:[_-][A-Za-z0-9]+)*", "a server's name such as `github`"
)
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,255}\Z")
_MAX_ARGUMENTS: Final = 256
_MAX_SECRET_BYTES: Final = 16 << 10
_TEXT: Final[Schema] = {"type": "string"}


def _secret(value: object) -> str:
    read = str(values.text(_MAX_SECRET_BYTES, control=True)(value))
    if "\0" in read:
        raise Flaw("has a NUL in it")
    return read


def _token(value: object) -> str:
    return str(values.text(_MAX_SECRET_BYTES)(value))


def _environment(value: object) -> Mapping[str, str]:
    if not isinstance(value, Mapping):
        raise Flaw(f"expected a table, got {values.kind(value)}")
    for key in value:
        if not _VARIABLE.match(str(key)):
            raise Flaw("is no name of a variable", f".{printed(key)}")
    return {str(key): values.within(f".{printed(key)}", _secret, item) for key, item in value.items()}


def _arguments(value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise Flaw(f"expected a list, got {values.kind(value)}")
    if len(value) > _MAX_ARGUMENTS:
        raise Flaw(f"{len(value)} entries, at most {_MAX_ARGUMENTS} are allowed")
    return tuple(values.within(f"[{index}]", _secret, one) for index, one in enumerate(value))


def _url(value: object) -> str:
    checked = str(values.text(4096)(value))
    parts = urlsplit(checked)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise Flaw(f"expected a URL such as `https://x.org/mcp`, got {shown(value)}")
    if parts.username is not None or parts.password is not None:
        raise Flaw("a URL is shown, so nothing secret may be in it: use `auth`")
    return checked


KEYS: Final[Mapping[str, Key]] = {
    "name": Key(_NAME.read, _NAME.schema, "What its tools are prefixed with."),
    "command": Key(values.text(4096), _TEXT, "The program to start."),
    "args": Key(_arguments, {"type": "array", "items": _TEXT, "maxItems": _MAX_ARGUMENTS}, "Its arguments."),
    "env": Key(
        _environment,
        {"type": "object", "additionalProperties": {}},
        "Its environment; values are secrets.",
    ),
    "url": Key(_url, _TEXT, "The server, where it is not started here."),
    "auth": Key(_token, {}, "A token for it; a secret."),
    "auto_restart": Key(
        values.boolean, {"type": "boolean"}, "Whether it is connected again when that fails or ends."
    ),
    "deadline": Key(
        values.number(0, MAX_DEADLINE_S, "seconds, above 0 and up to 3600"),
        {"type": "number", "exclusiveMinimum": 0, "maximum": MAX_DEADLINE_S},
        "Seconds that a call may take.",
    ),
}
_TABLE: Final = Table(KEYS, frozenset({"name"}))
_OF_COMMAND: Final = frozenset({"args", "env"})
_OF_URL: Final = frozenset({"auth"})

SCHEMA: Final[Schema] = {"type": "array", "items": _TABLE.schema(), "maxItems": MAX_SERVERS}


def read(value: object) -> tuple[Mapping[str, Any], ...]:
    """Read `mcps`.

    Raises:
        Flaw: with the place inside.
    """
    found = tuple(values.tables(_TABLE.read, value, MAX_SERVERS))
    names = [one["name"] for one in found]
    for index, (name, one) in enumerate(zip(names, found, strict=True)):
        if name in names[:index]:
            raise Flaw(f"server `{name}` stands twice", f"[{index}].name")
        if ("command" in one) == ("url" in one):
            raise Flaw("expected either `command` or `url`", f"[{index}]")
        if wrong := sorted(one.keys() & (_OF_COMMAND if "url" in one else _OF_URL)):
            reason = "is for a server that is started here" if "url" in one else "is for a `url`"
            raise Flaw(reason, f"[{index}].{wrong[0]}")
    return found
