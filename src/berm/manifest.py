"""What an image says about itself: the JSON of its `.berm.abi` section, checked and typed.

Reading a manifest runs nothing and grants nothing: `capabilities` are wishes, shown to people. This file owns
the manifest's shape and the names of the entry points; it knows no machine and no capability.
"""

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from berm.errors import ManifestError
from berm.schema import check_schema
from berm.strict_json import parse
from rvcore._elf import ElfImage, read_elf
from rvcore._errors import printable

SECTION = ".berm.abi"
TOOL_PREFIX = "berm_tool_"
ON_WAKE = "on_wake"
ON_NOTIFY = "on_notify"
TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
MAX_BYTES = 1 << 20
MAX_TOOLS = 256
_REMEMBERED_BYTES = 64 << 10  # larger manifests are read anew each time, so that hostile ones fill no memory

# Every version that the field knows, and what this host does about it.
ABI_VERSION = 0
ABI_VERSIONS = {0: "supported", 1: "a later public version, not supported here"}


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool as the image advertises it."""

    name: str
    description: str
    parameters: Mapping[str, Any]  # a JSON Schema; shared, so not to be changed


@dataclass(frozen=True, slots=True)
class Manifest:
    """The checked manifest of one image."""

    abi_version: int
    tools: tuple[Tool, ...]
    usage: str = ""
    capabilities: tuple[str, ...] = ()  # what the image would like; never a grant

    @classmethod
    def from_elf(cls, data: bytes, *, require_relocations: bool = True) -> "Manifest":
        """Read the manifest of an image without running anything.

        Raises:
            LoadError: if `data` is no image that could be loaded.
            ManifestError: if the manifest is missing or wrong.
        """
        return cls.from_image(read_elf(data, require_relocations=require_relocations))

    @classmethod
    def from_image(cls, image: ElfImage) -> "Manifest":
        """Read the manifest of an image that is already parsed, and compare it with the exports.

        Raises:
            LoadError: if an entry point is no function.
            ManifestError: if the manifest is missing or wrong.
        """
        section = image.section(SECTION)
        if section is None:
            raise ManifestError(f"no section `{SECTION}`: this image is no harness")
        manifest = _remembered(section) if len(section) <= _REMEMBERED_BYTES else cls.from_json(section)
        image.require_functions(_is_entry)
        if not any(name.startswith(TOOL_PREFIX) for name in image.exports):
            raise ManifestError(f"the image exports no `{TOOL_PREFIX}*` function")
        for index, tool in enumerate(manifest.tools):
            if TOOL_PREFIX + tool.name not in image.exports:
                raise ManifestError(
                    f"the image does not export `{TOOL_PREFIX}{tool.name}`", f"tools[{index}].name"
                )
        return manifest

    @classmethod
    def from_json(cls, data: bytes) -> "Manifest":
        """Read a manifest from its JSON text.

        Raises:
            ManifestError: if it is not JSON or not of the manifest's shape.
        """
        if len(data) > MAX_BYTES:
            raise ManifestError(f"{len(data)} bytes long, at most {MAX_BYTES} are read")
        value = parse(data)
        if not isinstance(value, dict):
            raise ManifestError(f"expected an object, got {_kind(value)}")
        _check_version(value)
        return cls(
            abi_version=ABI_VERSION,
            tools=_tools(_field(value, "tools", list, "")),
            usage=_field(value, "usage", str, "", default=""),
            capabilities=_strings(_field(value, "capabilities", list, "", default=[]), "capabilities"),
        )


@functools.lru_cache(maxsize=64)
def _remembered(section: bytes) -> Manifest:
    return Manifest.from_json(section)


def _is_entry(name: str) -> bool:
    return name.startswith(TOOL_PREFIX) or name in {ON_WAKE, ON_NOTIFY}


def tool_entries(exports: Mapping[str, int]) -> dict[str, int]:
    """Map the name of every callable tool, advertised or not, to its address."""
    entries = {
        name.removeprefix(TOOL_PREFIX): address
        for name, address in exports.items()
        if name.startswith(TOOL_PREFIX)
    }
    return {name: address for name, address in entries.items() if TOOL_NAME.match(name)}


def _check_version(value: dict[str, Any]) -> None:
    version = _field(value, "abi_version", int, "")
    if version != ABI_VERSION:
        known = ABI_VERSIONS.get(version, "unknown")
        raise ManifestError(f"ABI version {version} is {known}, expected {ABI_VERSION}", "abi_version")


def _tools(values: list[Any]) -> tuple[Tool, ...]:
    if len(values) > MAX_TOOLS:
        raise ManifestError(f"{len(values)} tools, at most {MAX_TOOLS} are allowed", "tools")
    tools: dict[str, Tool] = {}
    for index, value in enumerate(values):
        tool = _tool(value, f"tools[{index}]")
        if tool.name in tools:
            raise ManifestError(f"tool `{tool.name}` stands twice", f"tools[{index}].name")
        tools[tool.name] = tool
    return tuple(tools.values())


def _tool(value: Any, place: str) -> Tool:  # noqa: ANN401 - JSON is any value
    if not isinstance(value, dict):
        raise ManifestError(f"expected an object, got {_kind(value)}", place)
    name = _field(value, "name", str, place)
    if not TOOL_NAME.match(name):
        raise ManifestError(
            f"tool name `{printable(name, 80)}` does not match [A-Za-z0-9_-]{{1,64}}", f"{place}.name"
        )
    description = _field(value, "description", str, place)
    parameters = _field(value, "parameters", dict, place)
    check_schema(parameters, f"{place}.parameters")
    return Tool(name, description, parameters)


_KINDS: dict[type, str] = {int: "an integer", str: "a string", list: "a list", dict: "an object"}


def _field(
    value: dict[str, Any],
    key: str,
    kind: type,
    place: str,
    default: Any = None,  # noqa: ANN401 - as the field
) -> Any:  # noqa: ANN401 - of `kind`, which mypy cannot express for a default
    found = value.get(key, default)
    where = f"{place}.{key}" if place else key
    if found is None and key not in value:
        raise ManifestError(f"missing, expected {_KINDS[kind]}", where)
    if type(found) is not kind:
        raise ManifestError(f"expected {_KINDS[kind]}, got {_kind(found)}", where)
    return found


def _strings(values: list[Any], place: str) -> tuple[str, ...]:
    for index, value in enumerate(values):
        if not isinstance(value, str):
            raise ManifestError(f"expected a string, got {_kind(value)}", f"{place}[{index}]")
    return tuple(values)


def _kind(value: Any) -> str:  # noqa: ANN401 - JSON is any value
    if value is None or isinstance(value, bool):
        return "null" if value is None else "a boolean"
    return "a number" if isinstance(value, float) else _KINDS[type(value)]
