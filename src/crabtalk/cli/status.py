"""`crabtalk status`: whether the daemon runs, and its figures."""

import argparse
import time
from typing import Any

from berm.cli.arguments import add_json
from berm.cli.exits import DONE, HOST_ERROR
from berm.cli.output import print_json, print_table
from berm.cli.parsing import Parser
from crabtalk.cli.connecting import connected
from crabtalk.cli.instants import show_instant, show_span


def add_arguments(parser: Parser) -> None:
    """Declare the command's arguments."""
    parser.description = f"{parser.description}; exits with 1 when it does not run"
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print what the daemon says of itself."""
    from crabtalk.home import find_home

    home = find_home(args.home)
    pid = home.holder()
    if pid is None:
        return _absent(args)
    with connected(args) as client:
        stats = client.get_stats()
    facts = {
        "running": True,
        "home": str(home.root),
        "process": pid,
        "version": stats.version,
        "uptime_s": stats.uptime_secs,
        "agents": stats.registered_agents,
        "running_invocations": stats.running,
        "queued": stats.queue_depth,
        "pending_wakes": stats.pending_wakes,
        "spilled_wakes": stats.spilled,
        "blocked_wakes": stats.blocked_wakes,
    }
    if args.json:
        print_json(facts)
    else:
        print_table(["what", "is"], list(_rows(facts).items()))
    return DONE


def _absent(args: argparse.Namespace) -> int:
    if args.json:
        print_json({"running": False, "home": str(args.home)})
    else:
        print_table(["what", "is"], [("daemon", "not running"), ("home", str(args.home))])
    return HOST_ERROR


def _rows(facts: dict[str, Any]) -> dict[str, str]:
    waiting = f", {facts['blocked_wakes']} blocked" if facts["blocked_wakes"] else ""
    since = show_instant(round((time.time() - facts["uptime_s"]) * 1000))
    return {
        "daemon": f"running since {since}, {show_span(facts['uptime_s'] * 1000)}",
        "home": facts["home"],
        "process": str(facts["process"]),
        "version": facts["version"],
        "agents": str(facts["agents"]),
        "invocations": f"{facts['running_invocations']} running, {facts['queued']} queued",
        "wakes": f"{facts['pending_wakes']} pending, {facts['spilled_wakes']} spilled{waiting}",
    }
