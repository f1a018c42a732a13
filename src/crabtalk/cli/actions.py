"""What a command is made of: its arguments and what it does, alone or as one action of a group."""

import argparse
from collections.abc import Callable
from typing import NamedTuple

from berm.cli.parsing import Parser


class Action(NamedTuple):
    """One thing that can be asked for, as `harness add`."""

    summary: str
    add_arguments: Callable[[Parser], None]
    run: Callable[[argparse.Namespace], int]
