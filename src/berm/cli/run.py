"""`berm run`: call one tool; its result goes to stdout as it is, everything else to stderr."""

import argparse
import sys
from typing import TYPE_CHECKING

from berm.cli.arguments import add_json, add_limits, add_tool_call
from berm.cli.ending import complain, exit_code, facts
from berm.cli.granting import add_grants
from berm.cli.output import is_terminal, print_json
from berm.cli.parsing import Parser
from berm.cli.session import opened

if TYPE_CHECKING:
    from berm import Done, Failed


def add_arguments(parser: Parser) -> None:
    """Declare the command's arguments."""
    add_tool_call(parser)
    parser.add_argument("--raw", action="store_true", help="accept a result that is not UTF-8")
    parser.add_argument("--stats", action="store_true", help="show instructions and time on stderr")
    add_json(parser)
    add_limits(parser)
    add_grants(parser)


def run(args: argparse.Namespace) -> int:
    """Call the tool and show how it ended."""
    from berm import Done, Trap

    with opened(args) as session:
        ending = session.call(args, raw=args.raw)
    if args.json:
        print_json(facts(ending))
    elif isinstance(ending, Done):
        _write_result(ending.data)
    else:
        complain(ending)
    if args.stats and not isinstance(ending, Trap):
        _print_stats(ending)
    return exit_code(ending)


def _write_result(data: bytes) -> None:
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    if is_terminal(sys.stdout) and not data.endswith(b"\n"):
        sys.stdout.buffer.write(b"\n")
    sys.stdout.buffer.flush()


def _print_stats(outcome: "Done | Failed") -> None:
    took_us = outcome.duration_ns / 1000
    speed = outcome.instructions / max(took_us, 0.001)
    print(f"{outcome.instructions:,} instructions, {took_us:,.1f} µs, {speed:,.0f} MIPS", file=sys.stderr)
