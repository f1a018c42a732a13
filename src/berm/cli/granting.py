"""Capabilities on the command line: `--root DIR`, `--host HOST`, … and `--call NAME=IMAGE`.

berm has no capabilities of its own. A distribution offers them under the entry-point group
`berm.capabilities`: the name of an entry is the name of the option, its function takes the option's values
and returns capabilities. What is not given here is not registered, so calling it traps.
"""

import argparse
from collections.abc import Iterable
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING

from berm.cli.exits import CommandError

if TYPE_CHECKING:
    from berm import Capability

GROUP = "berm.capabilities"
# What a plain installation offers: placeholder and help. Others are listed as their entry points name them.
DESCRIBED = {
    "root": ("DIR", "files and commands under DIR: the tool holds a shell there"),
    "host": ("HOST", "http to HOST (again for more)"),
    "zone": ("Z", "the clock, in time zone Z; 'local' for this machine's"),
    "storage": ("FILE", "keys and values, kept in FILE"),
}


def add_grants(parser: argparse.ArgumentParser) -> None:
    """Declare one option for each capability that is installed, and --call."""
    group = parser.add_argument_group("capabilities (what is not given is absent)")
    group.add_argument(
        "--call",
        metavar="NAME=IMAGE",
        action="append",
        default=[],
        type=_named_image,
        help="let the tool call the tools of IMAGE as NAME (again for more)",
    )
    for name in {**DESCRIBED, **offered()}:
        metavar, text = DESCRIBED.get(name, ("VALUE", "a capability of another installed package"))
        try:
            group.add_argument(f"--{name}", dest=f"grant_{name}", metavar=metavar, action="append", help=text)
        except argparse.ArgumentError as error:
            raise CommandError(
                f"an installed package offers the capability {name}, which is an option already"
            ) from error


def offered() -> dict[str, EntryPoint]:
    """Map option names to the entry points installed."""
    return {point.name: point for point in entry_points(group=GROUP) if point.name.isidentifier()}


def granted(args: argparse.Namespace) -> "tuple[Capability, ...]":
    """Make the capabilities that the command line grants, without berm.call.

    Raises:
        CommandError: a value makes no sense, or nothing offers the capability.
    """
    points = offered()
    made: list[Capability] = []
    for name in {**DESCRIBED, **points}:
        values = getattr(args, f"grant_{name}")
        if values:
            made += _make(name, values, points)
    return tuple(made)


def _make(name: str, values: list[str], points: dict[str, EntryPoint]) -> "Iterable[Capability]":
    if name not in points:
        raise CommandError(f"nothing installed offers --{name}; pip install crabtalk brings it")
    try:
        return tuple(points[name].load()(values))
    except (ValueError, OSError) as error:
        raise CommandError(f"--{name}: {error}") from error


def _named_image(text: str) -> tuple[str, Path]:
    name, equals, path = text.partition("=")
    if not (name and equals and path):
        raise argparse.ArgumentTypeError(f"expected NAME=IMAGE, got {text!r}")
    return name, Path(path)
