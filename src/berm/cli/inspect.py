"""`berm inspect`: what an image says about itself. Nothing is run and nothing is granted."""

import argparse
import hashlib
import sys
from typing import TYPE_CHECKING, Any

from berm.cli import exits
from berm.cli.arguments import add_image, add_json, loading, read_image
from berm.cli.output import BOLD, escape, escape_line, paint, print_json

if TYPE_CHECKING:
    from berm.manifest import Manifest, Tool
    from rvcore._elf import ElfImage


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_image(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print the manifest, exports, sizes and digest."""
    from berm.manifest import Manifest
    from rvcore._elf import read_elf

    data = read_image(args.image)
    # Foreign images may be looked at too; whether they could run is one of the facts shown.
    with loading(args.image):
        image = read_elf(data, require_relocations=False)
        facts = _facts(data, image, Manifest.from_image(image))
    if args.json:
        print_json(facts)
    else:
        _print(facts)
    return exits.DONE


def _facts(data: bytes, image: "ElfImage", manifest: "Manifest") -> dict[str, Any]:
    return {
        "sha256": hashlib.sha256(data).hexdigest(),
        "file_bytes": len(data),
        "code_bytes": sum(len(part.data) for part in image.code),
        "data_bytes": sum(len(part.data) for part in image.segments if part.writable),
        "zeroed_bytes": sum(part.memsz - len(part.data) for part in image.segments),
        "relocations": image.has_relocations,
        "abi_version": manifest.abi_version,
        "tools": [_tool(tool) for tool in manifest.tools],
        "usage": manifest.usage,
        "capabilities": list(manifest.capabilities),
        "exports": {name: image.exports[name] for name in sorted(image.exports)},
    }


def _tool(tool: "Tool") -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "parameters": tool.parameters}


def _print(facts: dict[str, Any]) -> None:
    print(f"sha256    {facts['sha256']}")
    print(
        f"size      {facts['file_bytes']:,} bytes in the file: {facts['code_bytes']:,} of code, "
        f"{facts['data_bytes']:,} of data; {facts['zeroed_bytes']:,} zeroed when it starts"
    )
    if not facts["relocations"]:
        print("linked    without --emit-relocs: it cannot run with control-flow checks")
    print(f"abi       {facts['abi_version']}")
    wishes = ", ".join(map(escape_line, facts["capabilities"])) or "none"
    print(f"wishes    {wishes} (documentation: what runs is what you bind)")
    entries = [
        name for name in facts["exports"] if name.startswith("berm_tool_") or name in ("on_wake", "on_notify")
    ]
    others = len(facts["exports"]) - len(entries)
    more = f" and {others} more" if others else ""
    print(f"exports   {', '.join(map(escape_line, entries))}{more}")
    for tool in facts["tools"]:
        print_tool(tool)
    if facts["usage"]:
        print_text("usage", facts["usage"])


def print_tool(tool: dict[str, Any]) -> None:
    """Print a tool's name, description and parameters."""
    print_text(f"tool {tool['name']}", tool["description"])
    properties = tool["parameters"].get("properties")
    required = tool["parameters"].get("required")
    for name, schema in properties.items() if isinstance(properties, dict) else ():
        print(f"    {escape_line(_parameter(name, schema, required))}")


def _parameter(name: str, schema: object, required: object) -> str:
    shape = schema if isinstance(schema, dict) else {}
    optional = "" if isinstance(required, list) and name in required else ", optional"
    text = f"{name} ({shape.get('type', 'any')}{optional})"
    return f"{text}: {shape['description']}" if shape.get("description") else text


def print_text(title: str, text: str) -> None:
    """Print a text that an image brings, under a title."""
    print()
    print(paint(title, BOLD, sys.stdout))
    for line in text.splitlines():
        print(f"  {escape(line)}".rstrip())
