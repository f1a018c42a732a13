"""`crabtalk event`: publish, watch, and deliver to a harness's `on_notify` or as turns of an agent."""

import argparse
import re
import sys
from typing import TYPE_CHECKING

from berm.cli.arguments import add_json, count, tool_arguments
from berm.cli.exits import DONE, HOST_ERROR, USAGE, CommandError
from berm.cli.output import escape_line, print_json, print_table
from berm.cli.parsing import Parser
from crabtalk.cli.actions import Action
from crabtalk.cli.answers import add_json_lines, facts
from crabtalk.cli.complaining import tried
from crabtalk.cli.connecting import connected
from crabtalk.cli.instants import show_instant
from crabtalk.cli.naming import Names, agent_id, harness_or_itself

if TYPE_CHECKING:
    from crabtalk.wire.pb import crabtalk_pb2 as pb

_PATTERN = "a source, as build:main, or a prefix, as build:*"


def _add_publish(parser: Parser) -> None:
    parser.add_argument("source", metavar="SOURCE", help="what it is about, as build:main")
    parser.add_argument(
        "payload",
        metavar="TEXT | @FILE | -",
        nargs="?",
        default="",
        help="its payload, a file that holds it, or - for stdin (default: nothing)",
    )


def _add_tail(parser: Parser) -> None:
    parser.add_argument("source", metavar="SOURCE", nargs="?", default="", help=f"{_PATTERN} (default: all)")
    parser.add_argument("-n", "--count", metavar="N", type=count, help="end after N of them")
    add_json_lines(parser)


def _add_subscribe(parser: Parser) -> None:
    parser.add_argument("source", metavar="SOURCE", help=_PATTERN)
    parser.add_argument("agent", metavar="AGENT", help="the agent's name or id")
    parser.add_argument(
        "harness",
        metavar="HARNESS | .",
        type=harness_or_itself,
        nargs="?",
        default="",
        help="as the agent declares it, with an on_notify (default: . for turns of the agent itself)",
    )
    parser.add_argument("--once", action="store_true", help="for the first event only")
    add_json(parser)


def _add_unsubscribe(parser: Parser) -> None:
    parser.add_argument(
        "ids", metavar="ID", type=_subscription, nargs="+", help="as `crabtalk event ls` shows them"
    )


def _subscription(text: str) -> int:
    if not re.fullmatch(r"\d{1,19}", text, re.ASCII):
        raise argparse.ArgumentTypeError(f"expected a subscription's number, got {text!r}")
    return int(text)


def _publish(args: argparse.Namespace) -> int:
    try:
        payload = (tool_arguments(args.payload) if args.payload else b"").decode()
    except UnicodeDecodeError as error:
        raise CommandError("a payload is text, and this is not UTF-8", status=USAGE) from error
    with connected(args) as client:
        client.publish_event(source=args.source, payload=payload)
    return DONE


def _tail(args: argparse.Namespace) -> int:
    with connected(args) as client, client.tail_events(source=args.source) as events:
        for number, event in enumerate(events, 1):
            _print_event(event, as_json=args.json)
            if number == args.count:
                break
    return DONE


def _print_event(event: "pb.BusEvent", *, as_json: bool) -> None:
    if as_json:
        print_json(facts(event))
    else:
        print(escape_line(f"{show_instant(event.published_at_ms)}  {event.source}  {event.payload}"))
    sys.stdout.flush()


def _subscribe(args: argparse.Namespace) -> int:
    with connected(args) as client:
        agent = agent_id(client, args.agent)
        target = {"target_harness": f"{agent}/{args.harness}"} if args.harness else {"target_agent": agent}
        info = client.subscribe_event(source=args.source, once=args.once, **target)
    if args.json:
        print_json(facts(info))
    else:
        print(info.id)
    return DONE


def _unsubscribe(args: argparse.Namespace) -> int:
    with connected(args) as client:
        done = [tried(lambda: client.unsubscribe_event(id=number)) for number in args.ids]  # noqa: B023 - called at once
    return DONE if all(done) else HOST_ERROR


def _ls(args: argparse.Namespace) -> int:
    with connected(args) as client:
        subscriptions = client.list_subscriptions().subscriptions
        names = Names(client)
    if args.json:
        print_json([facts(one) for one in subscriptions])
        return DONE
    rows = [
        (
            str(one.id),
            one.source,
            names.of_harness(one.target_harness or one.target_agent),
            "once" if one.once else "",
        )
        for one in subscriptions
    ]
    print_table(["id", "source", "target", "how often"], rows)
    return DONE


ACTIONS = {
    "publish": Action("publish an event", _add_publish, _publish),
    "tail": Action("show events as they are published, until Ctrl-C", _add_tail, _tail),
    "subscribe": Action("deliver events to a harness, or to an agent", _add_subscribe, _subscribe),
    "unsubscribe": Action("end subscriptions", _add_unsubscribe, _unsubscribe),
    "ls": Action("list subscriptions", add_json, _ls),
}
