"""`crabtalk version`: this command's and the daemon's, and whether they differ."""

import argparse
import sys

from berm.cli.arguments import add_json
from berm.cli.exits import DONE, CommandError
from berm.cli.output import print_json, print_table
from berm.cli.parsing import Parser
from crabtalk.cli.connecting import connected
from crabtalk.errors import CrabtalkError


def add_arguments(parser: Parser) -> None:
    """Declare the command's arguments."""
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print both versions; that no daemon runs is no error."""
    from importlib.metadata import version

    here, daemon, why = version("crabtalk"), None, ""
    try:
        with connected(args) as client:
            daemon = client.get_stats().version
    except (CommandError, CrabtalkError) as error:
        why = str(error)
    if args.json:
        print_json({"command": here, "daemon": daemon})
    else:
        print_table(["part", "version"], [("command", here), ("daemon", daemon or "not running")])
    if why:
        print(f"crabtalk: {why}", file=sys.stderr)
    elif daemon != here:
        print("crabtalk: the daemon runs another version: restart it", file=sys.stderr)
    return DONE
