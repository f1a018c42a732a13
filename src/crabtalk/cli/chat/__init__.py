"""`crabtalk chat`: talk to an agent, with what it calls shown as it runs."""

import argparse
import os
import sys

from berm.cli.exits import USAGE, CommandError
from berm.cli.parsing import Parser


def add_arguments(parser: Parser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "agent",
        metavar="AGENT",
        nargs="?",
        help="the agent's name or id (default: the one there is, else the one spoken to last)",
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "-c", "--continue", dest="last", action="store_true", help="go on with the last session"
    )
    which.add_argument("-r", "--resume", metavar="HANDLE", help="go on with this session")
    parser.add_argument(
        "--root", metavar="DIR", help="the session's root, of harnesses that have one by session"
    )
    parser.add_argument("--plain", action="store_true", help="draw nothing, write lines one after the other")


def run(args: argparse.Namespace) -> int:
    """Talk, until the person leaves."""
    if sys.stdin is None:
        raise CommandError("there is no stdin to read from", status=USAGE)
    if args.root is not None and (args.last or args.resume):
        raise CommandError("--root: a session has the root that it was begun with", status=USAGE)
    from crabtalk.cli.chat.loop import chat

    return chat(args, plain=is_plain(args))


def is_plain(args: argparse.Namespace) -> bool:
    """Say whether there is no terminal that can be drawn on."""
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    return args.plain or not terminal or os.environ.get("TERM", "") in {"", "dumb", "unknown"}
