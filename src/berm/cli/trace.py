"""`berm trace`: run a tool and show its blocks and host calls in order, and how much memory it used."""

import argparse
import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from berm.cli.arguments import add_json, add_limits, add_tool_call, count
from berm.cli.ending import complain, exit_code
from berm.cli.ending import facts as ending_facts
from berm.cli.granting import add_grants
from berm.cli.output import print_json, print_table
from berm.cli.parsing import Parser
from berm.cli.session import opened

if TYPE_CHECKING:
    from rvcore._recorder import Recorder
    from rvcore._symbols import Symbols

Event = tuple[int, int | str]  # where, and the instructions of a block or the name of a host call
LONGEST_LOOP = 8  # blocks and calls that are recognised as one loop


def add_arguments(parser: Parser) -> None:
    """Declare the command's arguments."""
    add_tool_call(parser)
    parser.add_argument(
        "--limit", metavar="N", type=count, default=100_000, help="blocks and calls to keep (default: 100000)"
    )
    add_json(parser)
    add_limits(parser)
    add_grants(parser)


def run(args: argparse.Namespace) -> int:
    """Print one line for each block and host call, loops folded, then the totals."""
    from berm import Done

    with opened(args) as session:
        recorder, ending = session.watch(args, max_events=args.limit)
        events = list(recorder.events())
        if args.json:
            print_json({**ending_facts(ending), **_facts(recorder), "events": events})
        else:
            symbols = recorder.program.image.symbols
            print_table(["times", "address", "what", "instructions"], _rows(events, symbols))
            _print_totals(recorder, events)
            if not isinstance(ending, Done):
                complain(ending)
    return exit_code(ending)


def _rows(events: list[Event], symbols: "Symbols") -> Iterator[tuple[int, str, str, str]]:
    """One row for each event; the events of a loop appear once, with how often it ran."""
    for times, loop in folded(events):
        for pc, what in loop:
            name, size = (f"→ {what}", "") if isinstance(what, str) else (_place(symbols, pc), f"{what}")
            yield times, f"{pc:#x}", name, size


def folded(events: Sequence[Event]) -> Iterator[tuple[int, Sequence[Event]]]:
    """Split a sequence into (times, loop): what repeats at once, however long it goes on, is one loop."""
    at = 0
    while at < len(events):
        times, length = max((_repeats(events, at, length), -length) for length in range(1, LONGEST_LOOP + 1))
        length = -length if times > 1 else 1
        yield times, events[at : at + length]
        at += times * length


def _repeats(events: Sequence[Event], at: int, length: int) -> int:
    """Say how often the `length` events from `at` on come one after the other."""
    same = itertools.takewhile(
        lambda index: events[index] == events[index + length], range(at, len(events) - length)
    )
    return 1 + sum(1 for _ in same) // length if at + length <= len(events) else 0


def _place(symbols: "Symbols", pc: int) -> str:
    found = symbols.lookup(pc)
    return f"{found[0]}+{found[1]:#x}" if found else "?"


def _facts(recorder: "Recorder") -> dict[str, Any]:
    return {
        "instructions": recorder.instructions,
        "events_dropped": recorder.events_dropped,
        "memory": {
            "written_bytes": recorder.touched_bytes,
            "heap_bytes": recorder.heap_bytes,
            "stack_bytes": recorder.stack_bytes,
        },
    }


def _print_totals(recorder: "Recorder", events: list[Event]) -> None:
    calls = sum(isinstance(what, str) for _, what in events)
    blocks = len(events) - calls
    print(f"\n{recorder.instructions:,} instructions; {blocks:,} blocks and {calls:,} host calls are shown")
    if recorder.events_dropped:
        print(f"{recorder.events_dropped:,} more were not kept: raise --limit to see them")
    print(
        f"memory: {recorder.touched_bytes:,} bytes in pages written, "
        f"{recorder.heap_bytes:,} of heap, {recorder.stack_bytes:,} of stack"
    )
