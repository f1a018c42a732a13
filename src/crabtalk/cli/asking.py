"""Questions to the person at the terminal, before what cannot be undone."""

import argparse
import sys

from berm.cli.exits import USAGE, CommandError
from berm.cli.output import escape_line


def add_yes(parser: argparse.ArgumentParser) -> None:
    """Declare --yes."""
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")


def must_agree(args: argparse.Namespace, question: str) -> None:
    """Ask, unless --yes was given.

    Raises:
        CommandError: the answer was no, or there is nobody to ask.
    """
    if args.yes:
        return
    if not can_ask():
        raise CommandError(f"{question} Say --yes to do it", status=USAGE)
    if not agrees(question):
        raise CommandError("nothing was changed")


def can_ask() -> bool:
    """Say whether a person is there to answer."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


def agrees(question: str) -> bool:
    """Ask, and take anything but a yes for a no."""
    print(f"{escape_line(question)} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in {"y", "yes"}
