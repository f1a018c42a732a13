"""`crabtalk up`: the daemon itself, in the foreground; what `crabtalkd` is."""

import argparse

from berm.cli.parsing import Parser


def add_arguments(parser: Parser) -> None:
    """Declare nothing: config.toml says it all."""
    parser.epilog = "SIGTERM and Ctrl-C stop it once what runs is done; a second one stops it at once."


def run(args: argparse.Namespace) -> int:
    """Serve until told to stop, and return the daemon's exit code."""
    from crabtalk.config import load_config
    from crabtalk.daemon import run as serve
    from crabtalk.home import find_home

    home = find_home(args.home)
    return serve(home, load_config(home.config_file))
