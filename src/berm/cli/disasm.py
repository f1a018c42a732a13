"""`berm disasm`: the instructions of an image, under the names of its functions."""

import argparse
import contextlib
import sys

from berm.cli import exits
from berm.cli.arguments import add_image, loading, read_image
from berm.cli.exits import CommandError
from berm.cli.output import BOLD, DIM, escape_line, paint


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_image(parser)
    parser.add_argument("symbol", metavar="SYMBOL", nargs="?", help="only this function")


def run(args: argparse.Namespace) -> int:
    """Print one line for each instruction: address, bytes, text."""
    from rvcore import Config, Engine, Module

    # As permissive as can be: foreign images, also without relocations or at high addresses, can be read too.
    with contextlib.closing(Engine(Config(cfi=False, memory_size=4 << 30))) as engine:
        with loading(args.image):
            module = Module(engine, read_image(args.image))
        labels = {start: name for start, _, name in module.image.symbols.functions()}
        if args.symbol is not None and args.symbol not in labels.values():
            raise CommandError(_unknown(args.symbol, list(labels.values())))
        end, between = 0, ""
        for address, raw, text in module.disassemble(args.symbol):
            if address < end and address not in labels:
                continue  # without checks, instructions inside others are decoded as well
            end = address + len(raw)
            if address in labels:
                print(f"{between}{paint(escape_line(labels[address]), BOLD, sys.stdout)}:")
                between = "\n"
            shown = paint(f"{address:8x}:  {raw[::-1].hex():<8}", DIM, sys.stdout)
            print(f"{shown}  {text}")
    return exits.DONE


def _unknown(symbol: str, names: list[str]) -> str:
    import difflib

    close = difflib.get_close_matches(symbol, names, n=3)
    hint = f", there is {', '.join(close)}" if close else ", see `berm inspect` for the exports"
    return f"the image has no function {symbol}{hint}"
