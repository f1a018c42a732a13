"""Images as the commands show and compare them, wherever the facts came from: a file or the daemon."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

from berm.cli.arguments import read_image
from berm.cli.exits import CommandError
from berm.cli.output import escape_line

if TYPE_CHECKING:
    from crabtalk.image_info import ImageInfo
    from crabtalk.wire.pb import crabtalk_pb2 as pb


def of_file(path: Path) -> "ImageInfo":
    """Read an image.

    Raises:
        CommandError: it cannot be read, or is refused.
    """
    from crabtalk.image_info import read_info

    info = read_info(read_image(path))
    if info.error:
        raise CommandError(f"{path}: {info.error}")
    return info


def of_info(info: "pb.HarnessInfo") -> "ImageInfo":
    """Take what the daemon says."""
    from berm.manifest import Manifest, Tool
    from crabtalk.image_info import ImageInfo

    tools = tuple(Tool(tool.name, tool.description, json.loads(tool.parameters)) for tool in info.tools)
    return ImageInfo(
        sha256=info.sha256,
        size=info.size,
        manifest=Manifest(0, tools, info.usage, tuple(info.requested)),
        exports_wake=info.exports_wake,
        exports_notify=info.exports_notify,
        error=info.error,
    )


def print_difference(old: "ImageInfo", new: "ImageInfo") -> None:
    """Print what `new` would change, and what it newly requests before all else."""
    from crabtalk.image_info import diff

    if old.sha256 == new.sha256:
        print(f"the same image, {new.sha256}")
        return
    print(f"sha256  {old.sha256} -> {new.sha256}")
    print(f"size    {old.size:,} -> {new.size:,} bytes")
    if new.error:
        print(escape_line(f"does not load: {new.error}"))
    for line in diff(old, new).lines() or ["the same tools, entries and requests; only code or data differ"]:
        print(escape_line(line))


def print_info(info: "pb.HarnessInfo") -> None:
    """Print what the daemon knows of an image, or of a harness as an agent declares it."""
    from berm.cli.inspect import print_text, print_tool

    print(f"name      {escape_line(info.name)}")
    print(f"sha256    {info.sha256}")
    print(f"size      {info.size:,} bytes")
    if info.error:
        print(f"error     {escape_line(info.error)}")
    if info.digest:
        print(f"digest    {info.digest} (of the image as it is bound)")
    wishes = ", ".join(map(escape_line, info.requested)) or "none"
    print(f"wishes    {wishes} (documentation: what runs is what the declaration binds)")
    for line in info.bound:
        print(f"bound     {escape_line(line)}")
    entries = [
        name for name, has in (("on_wake", info.exports_wake), ("on_notify", info.exports_notify)) if has
    ]
    if entries:
        print(f"exports   {', '.join(entries)}")
    for tool in info.tools:
        schema = json.loads(tool.parameters)
        print_tool({"name": tool.name, "description": tool.description, "parameters": schema})
    if info.usage:
        print_text("usage", info.usage)
