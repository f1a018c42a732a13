"""`crabtalk call`: call one tool; its result goes to stdout as it is, everything else to stderr."""

import argparse
import sys
from typing import TYPE_CHECKING, Any

from berm.cli.arguments import add_json, seconds, tool_arguments
from berm.cli.exits import DONE, FAILED, CommandError
from berm.cli.output import for_stream, is_terminal, print_json
from berm.cli.parsing import Parser
from crabtalk.cli.answers import blob, facts
from crabtalk.cli.connecting import connected
from crabtalk.cli.naming import agent_id

if TYPE_CHECKING:
    from crabtalk.wire.pb import crabtalk_pb2 as pb

MAX_ARGUMENT_BYTES = (1 << 20) - 4096  # a request is at most 1 MiB, and names agent, harness and tool too


def add_arguments(parser: Parser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("agent", metavar="AGENT", help="the agent's name or id")
    parser.add_argument("harness", metavar="HARNESS", help="as the agent declares it")
    parser.add_argument("tool", metavar="TOOL", help="the tool's name")
    parser.add_argument(
        "arguments",
        metavar="JSON | @FILE | -",
        nargs="?",
        default="{}",
        help="the tool's arguments, a file that holds them, or - for stdin (default: {})",
    )
    parser.add_argument("--session", metavar="HANDLE", help="in this session, so with its root")
    parser.add_argument("--deadline", metavar="S", type=seconds, help="seconds at most")
    parser.add_argument("--stats", action="store_true", help="show instructions and time on stderr")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Call the tool and show how it ended."""
    fields: dict[str, Any] = {"args": _arguments(args.arguments)}
    if args.session is not None:
        fields["session_handle"] = args.session
    if args.deadline is not None:
        fields["deadline_ms"] = max(1, min(round(args.deadline * 1000), 2**32 - 1))
    with connected(args) as client:
        agent = agent_id(client, args.agent)
        outcome = client.call_tool(agent=agent, harness=args.harness, tool=args.tool, **fields)
    which = outcome.WhichOneof("outcome")
    if args.json:
        print_json(_facts(outcome))
    elif which == "done":
        _write_result(outcome.done)
    else:
        text = outcome.failed if which == "failed" else trap_report(outcome.trap)
        print(for_stream(text, sys.stderr), file=sys.stderr)
    if args.stats:
        _print_stats(outcome)
    return DONE if which == "done" else FAILED


def trap_report(trap: "pb.Trap") -> str:
    """Return everything that is known of a trap, over several lines, as `berm run` shows it."""
    lines = [f"trap: {trap.message}"]
    if trap.frames:
        lines.append("frames, innermost first:")
        lines += [f"  #{number} {frame}" for number, frame in enumerate(trap.frames)]
    if trap.host_calls:
        lines.append("last host calls, oldest first:")
        lines += [f"  {name}" for name in trap.host_calls]
    return "\n".join(lines)


def _arguments(text: str) -> bytes:
    data = tool_arguments(text)
    if len(data) > MAX_ARGUMENT_BYTES:
        raise CommandError(
            f"the arguments are {len(data):,} bytes; a request holds {MAX_ARGUMENT_BYTES:,} of them"
        )
    return data


def _facts(outcome: "pb.ToolOutcome") -> dict[str, Any]:
    which = outcome.WhichOneof("outcome")
    took = {"instructions": outcome.instructions, "duration_us": outcome.duration_us}
    if which == "done":
        return {"outcome": "done", **blob("result", outcome.done), **took}
    if which == "failed":
        return {"outcome": "failed", "message": outcome.failed, **took}
    return {"outcome": "trap", **facts(outcome.trap), "report": trap_report(outcome.trap), **took}


def _write_result(data: bytes) -> None:
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    if is_terminal(sys.stdout) and not data.endswith(b"\n"):
        sys.stdout.buffer.write(b"\n")
    sys.stdout.buffer.flush()


def _print_stats(outcome: "pb.ToolOutcome") -> None:
    print(f"{outcome.instructions:,} instructions, {outcome.duration_us:,} µs in the daemon", file=sys.stderr)
