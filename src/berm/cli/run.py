"""`berm run`: call one tool; its result goes to stdout as it is, everything else to stderr."""

import argparse
import base64
import sys
from typing import TYPE_CHECKING, Any

from berm.cli import exits
from berm.cli.arguments import add_json, add_limits, add_tool_call
from berm.cli.granting import add_grants
from berm.cli.output import for_stream, is_terminal, print_json
from berm.cli.session import opened

if TYPE_CHECKING:
    from berm import Done, Failed, Trap


def add_arguments(parser: argparse.ArgumentParser) -> None:
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
        try:
            outcome = session.call(args, raw=args.raw)
        except Trap as trap:
            if not args.json:
                raise
            print_json(_trap_facts(trap))
            return exits.HOST_ERROR
    if args.stats:
        _print_stats(outcome)
    if args.json:
        print_json(_facts(outcome))
    elif isinstance(outcome, Done):
        _write_result(outcome.data)
    else:
        print(for_stream(outcome.message, sys.stderr), file=sys.stderr)
    return exits.DONE if isinstance(outcome, Done) else exits.FAILED


def _write_result(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    if is_terminal(sys.stdout) and not data.endswith(b"\n"):
        sys.stdout.buffer.write(b"\n")


def _print_stats(outcome: "Done | Failed") -> None:
    took = outcome.duration_ns / 1e3
    speed = outcome.instructions / max(took, 0.001)
    print(f"{outcome.instructions:,} instructions, {took:,.1f} µs, {speed:,.0f} MIPS", file=sys.stderr)


def _facts(outcome: "Done | Failed") -> dict[str, Any]:
    from berm import Done

    if isinstance(outcome, Done):
        facts: dict[str, Any] = {"outcome": "done", **_result(outcome.data)}
    else:
        facts = {"outcome": "failed", "message": outcome.message}
    return {**facts, "instructions": outcome.instructions, "duration_ns": outcome.duration_ns}


def _result(data: bytes) -> dict[str, str]:
    try:
        return {"result": data.decode()}
    except UnicodeDecodeError:
        return {"result_base64": base64.b64encode(data).decode("ascii")}


def _trap_facts(trap: "Trap") -> dict[str, Any]:
    return {
        "outcome": "trap",
        "code": trap.code.name,
        "message": str(trap),
        "pc": trap.pc,
        "address": trap.address,
        "symbol": trap.symbol,
        "location": trap.location,
        "frames": [str(frame) for frame in trap.frames],
        "host_calls": list(trap.host_calls),
        "report": trap.report(),
    }
