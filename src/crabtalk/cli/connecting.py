"""Talking to the daemon of a home, over its socket."""

import argparse
import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from crabtalk.client.sync import SyncClient


@contextlib.contextmanager
def connected(args: argparse.Namespace) -> Iterator["SyncClient"]:
    """Connect to the daemon of `args.home`.

    Raises:
        CrabtalkError: no daemon answers, or it refuses; in its words.
    """
    from crabtalk.client.sync import SyncClient

    with SyncClient.connect(args.home) as client:
        yield client
