"""`crabtalk wake`: run a harness's `on_wake`, or a turn of an agent, at an instant.

Calendars end here: the daemon knows instants.
"""

import argparse
import sys
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from berm.cli.arguments import add_json, tool_arguments
from berm.cli.exits import DONE, HOST_ERROR
from berm.cli.output import print_json, print_table
from berm.cli.parsing import Parser
from crabtalk.cli.actions import Action
from crabtalk.cli.answers import facts
from crabtalk.cli.connecting import connected
from crabtalk.cli.instants import duration_ms, instant_ms, show_instant
from crabtalk.cli.naming import Names, agent_id, harness_or_itself

if TYPE_CHECKING:
    from crabtalk.wire.pb import crabtalk_pb2 as pb


def _add_target(parser: Parser) -> None:
    parser.add_argument("agent", metavar="AGENT", help="the agent's name or id")
    parser.add_argument(
        "harness",
        metavar="HARNESS | .",
        type=harness_or_itself,
        help="as the agent declares it, with an on_wake; or . for a turn of the agent itself",
    )
    parser.add_argument(
        "payload",
        metavar="PAYLOAD | @FILE | -",
        nargs="?",
        default="",
        help="what it is given, a file that holds it, or - for stdin (default: nothing)",
    )
    parser.add_argument("--key", metavar="KEY", help="replaces the pending wake of the same key")
    add_json(parser)


def _add_at(parser: Parser) -> None:
    parser.add_argument(
        "when", metavar="WHEN", help="as 2030-01-31T08:00, 'tomorrow 08:00', 08:00 or @UNIX_MS"
    )
    parser.add_argument("--zone", metavar="Z", help="WHEN is a time of zone Z (default: this machine's)")
    _add_target(parser)


def _add_in(parser: Parser) -> None:
    parser.add_argument("after", metavar="DURATION", type=duration_ms, help="as 90s, 5m, 2h or 1d12h")
    _add_target(parser)


def _add_ls(parser: Parser) -> None:
    parser.add_argument("agent", metavar="AGENT", nargs="?", help="only this agent's")
    parser.add_argument("harness", metavar="HARNESS", nargs="?", default="", help="only this harness's")
    add_json(parser)


def _add_rm(parser: Parser) -> None:
    parser.add_argument("ids", metavar="ID", nargs="+", help="as `crabtalk wake ls` shows them")


def _at(args: argparse.Namespace) -> int:
    now_ms = _now_ms()
    at_ms = instant_ms(args.when, now_ms, args.zone)
    done = _schedule(args, at_ms)
    if at_ms < now_ms:
        print(f"{show_instant(at_ms)} has passed, so it is due at once", file=sys.stderr)
    return done


def _in(args: argparse.Namespace) -> int:
    return _schedule(args, _now_ms() + args.after)


def _schedule(args: argparse.Namespace, at_ms: int) -> int:
    payload = tool_arguments(args.payload) if args.payload else b""
    key = {} if args.key is None else {"key": args.key}
    with connected(args) as client:
        agent = agent_id(client, args.agent)
        info = client.schedule_wake(agent=agent, harness=args.harness, at_ms=at_ms, payload=payload, **key)
    if args.json:
        print_json(facts(info))
    else:
        print_table(["id", "at"], [(info.id, show_instant(info.at_ms))])
    return DONE


def _ls(args: argparse.Namespace) -> int:
    with connected(args) as client:
        agent = agent_id(client, args.agent) if args.agent else ""
        wakes = client.list_wakes(agent=agent, harness=args.harness).wakes
        names = Names(client)
    if args.json:
        print_json([facts(wake) for wake in wakes])
    else:
        print_wakes(wakes, names)
    return DONE


def print_wakes(wakes: "Iterable[pb.WakeInfo]", names: Names) -> None:
    """Print wakes in the order of their instants."""
    rows = [
        (wake.id, show_instant(wake.at_ms), names[wake.agent], wake.harness or ".", wake.key, wake.state)
        for wake in sorted(wakes, key=lambda wake: wake.at_ms)
    ]
    print_table(["id", "at", "agent", "harness", "key", "state"], rows)


def _rm(args: argparse.Namespace) -> int:
    """Cancel every wake that is named; one that is gone does not keep the others."""
    from crabtalk.cli.complaining import tried

    with connected(args) as client:
        done = [tried(lambda: client.cancel_wake(id=wake_id)) for wake_id in args.ids]  # noqa: B023 - called at once
    return DONE if all(done) else HOST_ERROR


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


ACTIONS = {
    "at": Action("wake a harness, or an agent, at an instant", _add_at, _at),
    "in": Action("wake a harness, or an agent, after some time", _add_in, _in),
    "ls": Action("list wakes that are to come", _add_ls, _ls),
    "rm": Action("cancel wakes", _add_rm, _rm),
}
