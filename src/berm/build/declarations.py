r"""What sources declared: reads the records that berm/detail/declare.h left in object files.

A record is text in the section `.berm.decl` of an object: \x1e, its number in the file, the author's
line, file and the declaration, split by \x1f; sub-fields by \x1d; the arguments of a type by \x1c.
Everything here is checked again, with the author's line in each error.
"""

import json
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

from berm.build.errors import BuildError

_TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_INTEGER = re.compile(r"-?(0|[1-9][0-9]*)")
_LEAST_PARTS = 4  # number, line, file, kind
_INT64 = range(-(2**63), 2**63)


@dataclass(frozen=True, slots=True)
class Tool:
    """A declared tool."""

    name: str
    description: str
    parameters: dict[str, Any]


@dataclass(slots=True)
class Declarations:
    """Everything the sources of one harness declared, in their order."""

    usage: str = ""
    tools: list[Tool] = field(default_factory=list)
    exports: list[str] = field(default_factory=list)
    capabilities: list[str] = field(default_factory=list)

    def manifest(self) -> dict[str, Any]:
        """Return the manifest as JSON values."""
        return {
            "abi_version": 0,
            "tools": [
                {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
                for tool in self.tools
            ],
            "usage": self.usage,
            "capabilities": self.capabilities,
        }

    def symbols(self) -> list[str]:
        """Return the exported symbols."""
        return [f"berm_tool_{tool.name}" for tool in self.tools] + self.exports


@dataclass(frozen=True, slots=True)
class _Record:
    """One declaration and where the author wrote it."""

    number: int
    place: str
    fields: tuple[str, ...]

    def error(self, message: str) -> BuildError:
        return BuildError(f"{self.place}: {message}")


def read_declarations(objects: Iterable[Path]) -> Declarations:
    """Collect the declarations of object files.

    Raises: BuildError for a declaration that makes no manifest, at the author's line.
    """
    found = Declarations()
    for path in objects:
        for record in sorted(_records(path), key=lambda record: record.number):
            _add(found, record)
    return found


def _records(path: Path) -> Iterator[_Record]:
    # Not for `berm build --help`, which imports this file.
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile

    data = path.read_bytes()
    if not data.startswith(b"\x7fELF"):
        return
    try:
        section = ELFFile(BytesIO(data)).get_section_by_name(".berm.decl")
        content: bytes = section.data() if section else b""
    except ELFError as error:
        raise BuildError(f"{path.name} is not an object file: {error}") from error
    for text in content.split(b"\x00"):
        if text:
            yield _parse(path, text)


def _parse(path: Path, data: bytes) -> _Record:
    head, mark, rest = data.partition(b"\x1e")
    parts = rest.split(b"\x1f")
    if head or not mark or len(parts) < _LEAST_PARTS:
        raise BuildError(f"{path.name} holds a broken declaration: was it built with this SDK?")
    place = f"{parts[2].decode(errors='replace')}:{parts[1].decode(errors='replace')}"
    try:
        return _Record(int(parts[0]), place, tuple(part.decode() for part in parts[3:]))
    except ValueError as error:
        raise BuildError(f"{place}: the text of a declaration is not UTF-8") from error


def _add(found: Declarations, record: _Record) -> None:
    kind, *rest = record.fields
    if kind == "usage":
        if found.usage:
            raise record.error("BERM_USAGE stands twice")
        found.usage = rest[0]
    elif kind == "requests":
        found.capabilities += [name for name in rest if name not in found.capabilities]
    elif kind == "export":
        if rest[0] in found.exports:
            raise record.error(f"`{rest[0]}` is declared twice")
        found.exports.append(rest[0])
    else:
        _add_tool(found, record, kind, rest)


def _add_tool(found: Declarations, record: _Record, kind: str, rest: list[str]) -> None:
    name, description, *parameters = rest
    if not _TOOL_NAME.fullmatch(name):
        raise record.error(f"a tool's name has at most 64 letters, digits, `_` and `-`, got `{name}`")
    if any(tool.name == name for tool in found.tools):
        raise record.error(f"tool `{name}` is declared twice")
    schema = _raw_schema(record, parameters) if kind == "raw" else _schema(record, parameters)
    found.tools.append(Tool(name, description, schema))


def _raw_schema(record: _Record, parameters: list[str]) -> dict[str, Any]:
    try:
        schema = json.loads(parameters[0])
    except ValueError as error:
        raise record.error(f"the schema is not JSON: {error}") from error
    if not isinstance(schema, dict):
        raise record.error("the schema is not a JSON object")
    return schema


def _schema(record: _Record, parameters: list[str]) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    required: list[str] = []
    for parameter in parameters:
        need, name, description, kind, *default = parameter.split("\x1d")
        name = name[:-1] if len(name) > 1 and name.endswith("_") else name
        if name in properties:
            raise record.error(f"parameter `{name}` is declared twice")
        properties[name] = {**_type(record, name, kind), "description": description}
        if default:
            properties[name]["default"] = _default(record, name, properties[name], default[0])
        if need == "required":
            required.append(name)
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def _type(record: _Record, name: str, text: str) -> dict[str, Any]:
    kind, _, arguments = text.partition("\x1c")
    if kind == "choice":
        choices = arguments.split("|")
        if "" in choices or len(set(choices)) != len(choices):
            raise record.error(f"the choices of `{name}` need to be different and not empty: `{arguments}`")
        return {"type": "string", "enum": choices}
    if kind == "range":
        low, high = (_integer(record, name, bound) for bound in arguments.split("|", 1))
        if low > high:
            raise record.error(f"the range of `{name}` is empty: {low} to {high}")
        return {"type": "integer", "minimum": low, "maximum": high}
    if kind == "strings":
        return {"type": "array", "items": {"type": "string"}}
    return {} if kind == "json" else {"type": kind}


def _integer(record: _Record, name: str, text: str) -> int:
    if not _INTEGER.fullmatch(text) or int(text) not in _INT64:
        raise record.error(f"a number in the declaration of `{name}` must be a plain literal, got `{text}`")
    return int(text)


def _default(record: _Record, name: str, schema: dict[str, Any], text: str) -> str | bool | float:
    if schema["type"] == "string":
        if text not in schema.get("enum", [text]):
            raise record.error(f"the default of `{name}` is none of its choices: `{text}`")
        return text
    if schema["type"] == "boolean":
        if text not in {"true", "false", "1", "0"}:
            raise record.error(f"the default of `{name}` must be true or false, got `{text}`")
        return text in {"true", "1"}
    if schema["type"] == "integer":
        value = _integer(record, name, text)
        if not schema.get("minimum", value) <= value <= schema.get("maximum", value):
            raise record.error(f"the default of `{name}` is out of its range: {value}")
        return value
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise record.error(f"the default of `{name}` must be a plain number, got `{text}`")
    return number
