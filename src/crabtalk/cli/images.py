"""Images as the commands show and compare them, wherever the facts came from: a file or the daemon."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from berm.cli.arguments import loading, read_image
from berm.cli.output import escape_line

if TYPE_CHECKING:
    from crabtalk.wire.pb import crabtalk_pb2 as pb

_ENTRIES = {"on_wake": "wakes", "on_notify": "events"}


@dataclass(frozen=True, slots=True)
class ImageFacts:
    """What is known of one image without running it."""

    sha256: str
    size_bytes: int
    usage: str
    tools: dict[str, tuple[str, Any]]  # description and schema, by name
    requested: tuple[str, ...]
    entries: tuple[str, ...]  # of `on_wake` and `on_notify`
    error: str = ""


def of_file(path: Path) -> ImageFacts:
    """Read an image.

    Raises:
        CommandError: it cannot be read, or is refused.
    """
    from berm.manifest import Manifest
    from rvcore._elf import read_elf

    data = read_image(path)
    with loading(path):
        image = read_elf(data)
        manifest = Manifest.from_image(image)
    return ImageFacts(
        sha256=hashlib.sha256(data).hexdigest(),
        size_bytes=len(data),
        usage=manifest.usage,
        tools={tool.name: (tool.description, tool.parameters) for tool in manifest.tools},
        requested=tuple(manifest.capabilities),
        entries=tuple(name for name in _ENTRIES if name in image.exports),
    )


def of_info(info: "pb.HarnessInfo") -> ImageFacts:
    """Take what the daemon says."""
    exported = {"on_wake": info.exports_wake, "on_notify": info.exports_notify}
    return ImageFacts(
        sha256=info.sha256,
        size_bytes=info.size,
        usage=info.usage,
        tools={tool.name: (tool.description, _schema(tool.parameters)) for tool in info.tools},
        requested=tuple(info.requested),
        entries=tuple(name for name in _ENTRIES if exported[name]),
        error=info.error,
    )


def differences(old: ImageFacts, new: ImageFacts) -> Iterator[str]:
    """Say, one sentence each, what another image would change; what it newly requests comes first."""
    if old.sha256 == new.sha256:
        return
    yield from (f"+ requests {name}" for name in new.requested if name not in old.requested)
    yield from (f"- requests {name}" for name in old.requested if name not in new.requested)
    yield from (f"+ takes {_ENTRIES[name]} ({name})" for name in new.entries if name not in old.entries)
    yield from (f"- takes {_ENTRIES[name]} ({name})" for name in old.entries if name not in new.entries)
    yield from (f"+ tool {name}" for name in new.tools if name not in old.tools)
    yield from (f"- tool {name}" for name in old.tools if name not in new.tools)
    for name in new.tools:
        parts = [
            part
            for part, before, after in zip(
                ("description", "parameters"), old.tools.get(name, ()), new.tools[name], strict=False
            )
            if before != after
        ]
        if parts:
            yield f"~ tool {name}: another {' and other '.join(parts)}"
    if old.usage != new.usage:
        yield "~ usage: another text for the system message"
    if new.error:
        yield f"! does not load: {new.error}"


def print_difference(old: ImageFacts, new: ImageFacts) -> None:
    """Print what `new` would change."""
    if old.sha256 == new.sha256:
        print(f"the same image, {new.sha256}")
        return
    print(f"sha256  {old.sha256} -> {new.sha256}")
    print(f"size    {old.size_bytes:,} -> {new.size_bytes:,} bytes")
    lines = list(differences(old, new))
    for line in lines or ["  the same tools, entries and requests; only code or data differ"]:
        print(escape_line(line))


def print_info(info: "pb.HarnessInfo") -> None:
    """Print what the daemon knows of an image, or of a harness as an agent declares it."""
    from berm.cli.inspect import print_text, print_tool

    facts = of_info(info)
    print(f"name      {escape_line(info.name)}")
    print(f"sha256    {facts.sha256}")
    print(f"size      {facts.size_bytes:,} bytes")
    if facts.error:
        print(f"error     {escape_line(facts.error)}")
    if info.digest:
        print(f"digest    {info.digest} (of the image as it is bound)")
    wishes = ", ".join(map(escape_line, facts.requested)) or "none"
    print(f"wishes    {wishes} (documentation: what runs is what the declaration binds)")
    for line in info.bound:
        print(f"bound     {escape_line(line)}")
    if facts.entries:
        print(f"takes     {', '.join(f'{_ENTRIES[name]} ({name})' for name in facts.entries)}")
    for name, (description, parameters) in facts.tools.items():
        schema = parameters if isinstance(parameters, dict) else {}
        print_tool({"name": name, "description": description, "parameters": schema})
    if facts.usage:
        print_text("usage", facts.usage)


def _schema(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:  # shown as it came
        return text
