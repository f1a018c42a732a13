"""`crabtalk logs`: what the running daemon logged, from its memory."""

import argparse
import collections
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from berm.cli.arguments import count
from berm.cli.exits import DONE
from berm.cli.output import escape_line, print_json
from berm.cli.parsing import Parser
from crabtalk.cli.answers import add_json_lines, facts
from crabtalk.cli.connecting import connected
from crabtalk.cli.instants import show_instant
from crabtalk.cli.naming import Names

if TYPE_CHECKING:
    from crabtalk.client.sync import SyncClient
    from crabtalk.wire.pb import crabtalk_pb2 as pb

SILENCE_S = (
    0.3  # picked, not measured: kept lines come at once, and after this long there are no more of them
)


def add_arguments(parser: Parser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("-f", "--follow", action="store_true", help="go on with what comes, until Ctrl-C")
    parser.add_argument("-n", "--lines", metavar="N", type=count, help="without -f: only the last N")
    parser.add_argument(
        "--level",
        choices=("debug", "info", "warning", "error"),
        default="debug",
        help="the least that is shown (default: all that is kept)",
    )
    add_json_lines(parser)


def run(args: argparse.Namespace) -> int:
    """Print lines as they come; without -f, those that were kept."""
    with connected(args) as client:
        names = Names(client)
        if args.follow:
            with client.tail_logs(level=args.level) as lines:
                for line in lines:
                    _print_line(line, names, as_json=args.json)
            return DONE
        for line in _kept(client, args.level, args.lines):
            _print_line(line, names, as_json=args.json)
    return DONE


def _kept(client: "SyncClient", level: str, most: int | None) -> "Sequence[pb.LogLine]":
    """Return the lines that the daemon has, the last `most` of them, and none that is written meanwhile."""
    began_ms = time.time_ns() // 1_000_000
    kept: collections.deque[pb.LogLine] = collections.deque(maxlen=most)
    with client.tail_logs(level=level) as lines:
        while (line := lines.next_within(SILENCE_S)) is not None and line.time_ms <= began_ms:
            kept.append(line)
    return kept


def _print_line(line: "pb.LogLine", names: Names, *, as_json: bool) -> None:
    if as_json:
        print_json(facts(line))
    else:
        who = f"  {names[line.agent]}/{line.harness}" if line.harness else ""
        print(f"{show_instant(line.time_ms)}  {line.level:<7}  {escape_line(line.text + who)}")
    sys.stdout.flush()
