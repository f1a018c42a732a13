"""Talking to the daemon of a home, over its socket."""

import argparse
import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from berm.cli.exits import CommandError

if TYPE_CHECKING:
    from crabtalk.client.sync import SyncClient


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
        raise CommandError(f"{error}; start it with `crabtalk up`") from error
    with client:
        yield client
