"""Which daemon a command means: its home."""

import argparse
import os
from pathlib import Path


def add_home(parser: argparse.ArgumentParser) -> None:
    """Declare --home."""
    parser.add_argument(
        "--home",
        metavar="DIR",
        type=home,
        default="",  # as text, so that `home` is asked for it when the command line is read
        help="the daemon's home (default: $CRABTALK_HOME, else ~/.crabtalk)",
    )


def home(text: str) -> Path:
    """Return the home that `text` names, by default the user's."""
    return Path(text or os.environ.get("CRABTALK_HOME") or "~/.crabtalk").expanduser().absolute()
