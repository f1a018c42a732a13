"""`crabtalk audit`: what ran, for whom, and how it ended."""

import argparse
import time

from berm.cli.arguments import count
from berm.cli.exits import DONE
from berm.cli.output import print_json, print_table
from berm.cli.parsing import Parser
from crabtalk.cli.answers import add_json_lines, facts
from crabtalk.cli.connecting import connected
from crabtalk.cli.instants import duration_ms, instant_ms, show_duration, show_instant
from crabtalk.cli.naming import Names


def add_arguments(parser: Parser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "--since",
        metavar="WHEN",
        default="@0",
        help="as 2h (ago), 08:00, or 2030-01-31T08:00 (default: always)",
    )
    parser.add_argument("--harness", metavar="NAME", default="", help="only of harnesses of this name")
    parser.add_argument("-n", "--limit", metavar="N", type=count, default=50, help="the last N (default: 50)")
    add_json_lines(parser)


def run(args: argparse.Namespace) -> int:
    """Print rows of the audit, the oldest first."""
    since_ms = _since(args.since)
    limit = min(args.limit, 2**32 - 1)
    with connected(args) as client:
        found = client.list_invocations(since_ms=since_ms, limit=limit, harness=args.harness).invocations
        names = Names(client)
    rows = sorted(found, key=lambda row: (row.started_ms, row.id))
    if args.json:
        for row in rows:
            print_json(facts(row))
        return DONE
    head = ["started", "trigger", "agent", "harness", "tool", "outcome", "took", "instructions", "message"]
    cells = [
        (
            show_instant(row.started_ms),
            f"{row.trigger}, late" if row.reason == "late" else row.trigger,
            names[row.agent],
            row.harness,
            row.tool,
            row.outcome,
            show_duration(row.duration_us),
            row.instructions,
            row.message.partition("\n")[0],
        )
        for row in rows
    ]
    print_table(head, cells)
    return DONE


def _since(text: str) -> int:
    """Read an instant, or how long ago; a time alone has passed already."""
    now_ms = time.time_ns() // 1_000_000
    try:
        return now_ms - duration_ms(text)
    except argparse.ArgumentTypeError:
        at_ms = instant_ms(text, now_ms)
    day_ms = duration_ms("1d")
    return at_ms - day_ms if ":" in text and len(text) <= len("08:00:00") and at_ms > now_ms else at_ms
