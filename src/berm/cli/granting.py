"""Capabilities on the command line: `--root DIR`, `--host HOST`, … and `--call NAME=IMAGE`.

berm has no capabilities of its own. A distribution offers them under the entry-point group
`berm.capabilities`: the name of an entry is the name of the option, its function takes the option's values
and returns capabilities. What is not given here is not registered, so calling it traps. Looking for entry
points takes time, so it is done only when one is named.
"""

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from berm.cli.exits import USAGE, CommandError
from berm.cli.parsing import Parser

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from berm import Capability

GROUP = "berm.capabilities"
PREFIX = "grant_"  # keeps their names apart from other options' among the parsed arguments
# What a plain installation offers: placeholder and help. Others are listed as their entry points name them.
DESCRIBED = {
    "root": ("DIR", "files and commands under DIR: the tool holds a shell there"),
    "host": ("HOST", "http to HOST (again for more)"),
    "zone": ("Z", "the clock, in time zone Z; 'local' for this machine's"),
    "storage": ("FILE", "keys and values, kept in FILE"),
}
# Names that start so are granted by this option; what else a guest calls, no option here grants.
_GRANTED_BY = {
    ("berm.fs.", "berm.exec.", "crabtalk.fs.", "crabtalk.exec."): "--root DIR",
    ("berm.http.", "crabtalk.http."): "--host HOST",
    ("berm.clock.",): "--zone Z",
    ("berm.get", "berm.set", "berm.kv."): "--storage FILE",
    ("berm.call",): "--call NAME=IMAGE",
}


def option_for(capability: str) -> str | None:
    """Return the option that grants the capability of this name, None if none does."""
    return next((option for names, option in _GRANTED_BY.items() if capability.startswith(names)), None)


def add_grants(parser: Parser) -> None:
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

    def declare(name: str, metavar: str, text: str) -> None:
        group.add_argument(f"--{name}", dest=PREFIX + name, metavar=metavar, action="append", help=text)

    def declare_installed() -> None:
        for name in offered():
            if not parser.has_option(f"--{name}"):  # ours win
                declare(name, "VALUE", "a capability of another installed package")

    for name, (metavar, text) in DESCRIBED.items():
        declare(name, metavar, text)
    parser.add_more = declare_installed


def offered() -> "dict[str, EntryPoint]":
    """Map option names to the entry points installed; this takes some 50 ms."""
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group=GROUP) if point.name.isidentifier()}


def granted(args: argparse.Namespace) -> "tuple[Capability, ...]":
    """Make the capabilities that the command line grants, without berm.call.

    Raises:
        CommandError: a value makes no sense, or nothing offers the capability.
    """
    given = {
        key.removeprefix(PREFIX): value
        for key, value in vars(args).items()
        if key.startswith(PREFIX) and value
    }
    points = offered() if given else {}
    return tuple(one for name, values in given.items() for one in _make(name, values, points))


def _make(name: str, values: list[str], points: "dict[str, EntryPoint]") -> "Iterable[Capability]":
    if name not in points:
        raise CommandError(f"nothing installed offers --{name}; pip install crabtalk brings it")
    try:
        return tuple(points[name].load()(values))
    except ValueError as error:
        raise CommandError(f"--{name}: {error}", status=USAGE) from error
    except OSError as error:
        raise CommandError(f"--{name}: {error}") from error


def _named_image(text: str) -> tuple[str, Path]:
    name, equals, path = text.partition("=")
    if not (name and equals and path):
        raise argparse.ArgumentTypeError(f"expected NAME=IMAGE, got {text!r}")
    return name, Path(path)
