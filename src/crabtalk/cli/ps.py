"""`crabtalk ps`: what runs and waits now, which wakes are next, and which harnesses do not load."""

import argparse
import sys
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from berm.cli.arguments import add_json, count
from berm.cli.exits import DONE
from berm.cli.output import BOLD, paint, print_json, print_table
from berm.cli.parsing import Parser
from crabtalk.cli.answers import facts
from crabtalk.cli.connecting import connected
from crabtalk.cli.instants import show_span
from crabtalk.cli.naming import Names
from crabtalk.cli.wake import print_wakes

if TYPE_CHECKING:
    from crabtalk.client.sync import SyncClient
    from crabtalk.wire.pb import crabtalk_pb2 as pb


def add_arguments(parser: Parser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--wakes", metavar="N", type=count, default=5, help="the next N wakes (default: 5)")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Ask for everything, then print it."""
    with connected(args) as client:
        names = Names(client)
        stats, running = client.get_stats(), client.list_running().invocations
        wakes = sorted(client.list_wakes(agent="", harness="").wakes, key=lambda wake: wake.at_ms)[
            : args.wakes
        ]
        broken = _broken(client, names)
    if args.json:
        figures = {"running": stats.running, "queued": stats.queue_depth, "spilled_wakes": stats.spilled}
        figures["blocked_wakes"] = stats.blocked_wakes
        parts = {"invocations": running, "pending_wakes": stats.pending_wakes, "next_wakes": wakes}
        print_json({**figures, **_plain(parts), "broken": [_broken_facts(*one) for one in broken]})
        return DONE
    waiting = f", {stats.blocked_wakes} blocked" if stats.blocked_wakes else ""
    print(
        f"{stats.running} running, {stats.queue_depth} queued; "
        f"{stats.pending_wakes} wakes pending, {stats.spilled} spilled{waiting}"
    )
    if running:
        _print_running(running, names)
    if wakes:
        _print_title("next wakes")
        print_wakes(wakes, names)
    if broken:
        _print_title("does not load")
        print_table(["agent", "harness", "why"], [(agent, info.name, info.error) for agent, info in broken])
    return DONE


def _print_title(title: str) -> None:
    print(f"\n{paint(title, BOLD, sys.stdout)}")


def _print_running(running: "Iterable[pb.Invocation]", names: Names) -> None:
    now_ms = time.time_ns() // 1_000_000
    _print_title("invocations")
    rows = [
        (
            one.id,
            one.trigger,
            names[one.agent],
            one.harness,
            one.tool,
            one.outcome,
            show_span(now_ms - one.started_ms),
            one.depth,
        )
        for one in running
    ]
    print_table(["id", "trigger", "agent", "harness", "tool", "state", "for", "depth"], rows)


def _broken(client: "SyncClient", names: Names) -> "list[tuple[str, pb.HarnessInfo]]":
    """List the harnesses that agents declare and that do not load."""
    return [
        (name, info)
        for agent, name in names.items()
        for info in client.list_harnesses(agent=agent).harnesses
        if info.error
    ]


def _plain(parts: dict[str, Any]) -> dict[str, Any]:
    return {
        name: part if isinstance(part, int) else [facts(one) for one in part] for name, part in parts.items()
    }


def _broken_facts(agent: str, info: "pb.HarnessInfo") -> dict[str, str]:
    return {"agent": agent, "harness": info.name, "error": info.error}
