"""Talking to the daemon of a home, over its socket."""

import argparse
import contextlib
import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

from berm.cli.exits import CommandError
from crabtalk.cli.homes import home

if TYPE_CHECKING:
    from crabtalk.client.sync import SyncClient


def starting(args: argparse.Namespace) -> str:
    """Return the command that starts the daemon which `args` means."""
    return "crabtalk up" if args.home == home("") else f"crabtalk up --home {shlex.quote(str(args.home))}"


@contextlib.contextmanager
def connected(args: argparse.Namespace) -> Iterator["SyncClient"]:
    """Connect to the daemon of `args.home`.

    Raises:
        CommandError: no daemon answers.
    """
    from crabtalk.client.finding import NotRunning
    from crabtalk.client.sync import SyncClient

    try:
        client = SyncClient.connect(args.home)
    except NotRunning as error:
        raise CommandError(f"{error}; start it with `{starting(args)}`") from error
    with client:
        yield client
