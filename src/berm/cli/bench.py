"""`berm bench`: how long loading an image and calling a tool take here."""

import argparse
import contextlib
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from berm.cli import exits
from berm.cli.arguments import add_json, add_limits, add_tool_call, count, read_image, seconds, tool_arguments
from berm.cli.exits import CommandError
from berm.cli.granting import add_grants
from berm.cli.output import print_json, print_table
from berm.cli.parsing import Parser
from berm.cli.session import limits_of, opened

if TYPE_CHECKING:
    from berm import Done, Failed

MIN_CALLS = 5  # however slow they are


def add_arguments(parser: Parser) -> None:
    """Declare the command's arguments."""
    add_tool_call(parser)
    parser.add_argument(
        "--calls", metavar="N", type=count, default=10_000, help="at most this many (default: 10000)"
    )
    parser.add_argument(
        "--seconds", metavar="S", type=seconds, default=2.0, help="for about this long (default: 2)"
    )
    add_json(parser)
    add_limits(parser)
    add_grants(parser)


def run(args: argparse.Namespace) -> int:
    """Load the image, call the tool many times, and print what that took."""
    with opened(args) as session:
        if session.needs_loop:
            raise CommandError(
                "an async capability is granted: its event loop would be measured, not the tool"
            )
        blob, limits = tool_arguments(args.arguments), limits_of(args)

        def call() -> "Done | Failed":
            return session.harness.call(args.tool, blob, limits=limits, raw=True)

        facts = {**_loads(read_image(args.image)), **_calls(call, args.calls, args.seconds)}
    if args.json:
        print_json(facts)
    else:
        print_table(["what", "took"], [_row(name, value) for name, value in facts.items()])
    return exits.DONE


def _loads(data: bytes) -> dict[str, int]:
    """Time loading: by an engine that has not seen the image, and by one that has."""
    from berm import Engine, Harness

    with contextlib.closing(Engine()) as engine:
        return {
            f"{which}_load_ns": _time(lambda: Harness.load(engine, data)) for which in ("first", "second")
        }


def _calls(call: "Callable[[], Done | Failed]", most: int, limit_s: float) -> dict[str, int]:
    """Time single calls, one after the other, until there are `most` or `limit_s` has passed."""
    outcome = call()
    end = time.monotonic() + limit_s
    times: list[int] = []
    while len(times) < MIN_CALLS or (len(times) < most and time.monotonic() < end):
        times.append(_time(call))
    times.sort()
    return {
        "calls": len(times),
        "fastest_ns": times[0],
        "p50_ns": times[len(times) // 2],
        "p99_ns": times[len(times) * 99 // 100],
        "slowest_ns": times[-1],
        "instructions": outcome.instructions,
    }


def _time(function: Callable[[], object]) -> int:
    began = time.perf_counter_ns()
    function()
    return time.perf_counter_ns() - began


def _row(name: str, value: int) -> tuple[str, str]:
    if name.endswith("_ns"):
        return name.removesuffix("_ns").replace("_", " "), f"{value / 1000:,.1f} µs"
    return name, f"{value:,}"
