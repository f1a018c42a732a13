"""`berm mcp`: serve the tools of images to an MCP client, over stdin and stdout."""

import argparse
import contextlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from berm.cli.arguments import add_limits
from berm.cli.ending import complain
from berm.cli.exits import DONE, USAGE, CommandError
from berm.cli.granting import add_grants
from berm.cli.output import escape_line
from berm.cli.parsing import Parser

if TYPE_CHECKING:
    from berm import Harness, Limits
    from berm.mcp import Answer, OfferedTool

_EXTRA = "`berm mcp` needs the package mcp; run: pip install 'crabtalk[mcp]'"


def add_arguments(parser: Parser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "images",
        metavar="IMAGE",
        type=Path,
        nargs="+",
        help="an image; of several, tools have names of their own",
    )
    add_limits(parser)
    add_grants(parser)


def run(args: argparse.Namespace) -> int:
    """Serve until stdin ends; what guests log, and how they die, goes to stderr."""
    try:
        import mcp  # noqa: F401 - whether it is there
    except ModuleNotFoundError as error:
        raise CommandError(_EXTRA) from error
    import anyio

    with _offer(args) as offer:
        anyio.run(_serve, offer)
    return DONE


async def _serve(offer: "ImageOffer") -> None:
    from mcp.server.stdio import stdio_server

    from berm.mcp import Serving

    serving = Serving(offer)
    async with stdio_server() as (incoming, outgoing):
        await serving.server.run(incoming, outgoing, serving.server.create_initialization_options())


class ImageOffer:
    """The tools of loaded images; an `Offer`."""

    def __init__(self, harnesses: "Mapping[str, Harness]", limits: "Limits") -> None:
        from importlib.metadata import version

        self.name = ", ".join(harnesses)
        self.version = version("crabtalk")
        self._harnesses = harnesses
        self._limits = limits
        self._homes = {tool: one for one in harnesses.values() for tool in one.tools}

    def tools(self) -> "Sequence[OfferedTool]":
        """Return the tools of all images."""
        from berm.mcp import OfferedTool

        return [
            OfferedTool(tool.name, tool.description, tool.parameters)
            for one in self._harnesses.values()
            for tool in one.manifest.tools
        ]

    def usages(self) -> Mapping[str, str]:
        """Return what each image says of itself, by the name of its file."""
        return {name: one.manifest.usage for name, one in self._harnesses.items() if one.manifest.usage}

    async def call(self, name: str, arguments: bytes) -> "Answer":
        """Call a tool.

        **Cancellation:** the guest is interrupted.

        Raises:
            LookupError: if no image has it.
        """
        from berm import Done, Trap, aio
        from berm.mcp import Answer

        if name not in self._homes:
            raise LookupError(name)
        try:
            outcome = await aio.call(self._homes[name], name, arguments, limits=self._limits)
        except Trap as trap:
            complain(trap)
            return Answer("the tool stopped with an error and gave no result", is_error=True)
        if isinstance(outcome, Done):
            return Answer(outcome.data.decode())
        return Answer(outcome.message, is_error=True)


@contextlib.contextmanager
def _offer(args: argparse.Namespace) -> "Iterator[ImageOffer]":
    """Load the images and bind what the command line grants to each of them.

    Raises:
        CommandError: two images are called alike, or have a tool of one name.
    """
    from berm.cli.session import bound, limits_of

    harnesses: dict[str, Harness] = {}
    taken: dict[str, str] = {}
    with bound(args) as binding:
        for path in args.images:
            name = path.stem
            if name in harnesses:
                raise CommandError(f"two images are called {name}", status=USAGE)
            harnesses[name] = binding.load(path)
            for tool in harnesses[name].tools:
                if tool in taken:
                    raise CommandError(f"{name} and {taken[tool]} both have a tool {tool}: serve one of them")
                taken[tool] = name
        print(f"serving {escape_line(', '.join(taken))}", file=sys.stderr)
        yield ImageOffer(harnesses, limits_of(args))
