"""`crabtalk approvals`: what people allowed harnesses to do, and taking it back."""

import argparse

from berm.cli.arguments import add_json
from berm.cli.exits import DONE, HOST_ERROR
from berm.cli.output import print_json, print_table
from berm.cli.parsing import Parser
from crabtalk.cli.actions import Action
from crabtalk.cli.answers import facts
from crabtalk.cli.complaining import tried
from crabtalk.cli.connecting import connected
from crabtalk.cli.instants import show_instant
from crabtalk.cli.naming import Names, agent_id


def _add_ls(parser: Parser) -> None:
    parser.add_argument("agent", metavar="AGENT", nargs="?", help="only those of this agent")
    add_json(parser)


def _add_revoke(parser: Parser) -> None:
    parser.add_argument("ids", metavar="ID", nargs="+", help="as `crabtalk approvals ls` shows them")


def _ls(args: argparse.Namespace) -> int:
    with connected(args) as client:
        approvals = client.list_approvals().approvals
        chosen = agent_id(client, args.agent) if args.agent else ""
        names = Names(client)
    found = [one for one in approvals if not chosen or one.agent == chosen]
    if args.json:
        print_json([facts(one) for one in found])
        return DONE
    rows = [
        (
            one.id,
            f"{names[one.agent]}/{one.harness}",
            one.sha256[:12],
            one.capability,
            one.argument,
            one.scope,
            show_instant(one.at_ms),
            one.client,
        )
        for one in found
    ]
    print_table(["id", "harness", "sha256", "capability", "argument", "scope", "when", "by"], rows)
    return DONE


def _revoke(args: argparse.Namespace) -> int:
    with connected(args) as client:
        done = [tried(lambda: client.revoke_approval(id=one)) for one in args.ids]  # noqa: B023 - called at once
    return DONE if all(done) else HOST_ERROR


ACTIONS = {
    "ls": Action("list approvals; those that were for once are history", _add_ls, _ls),
    "revoke": Action("take approvals back", _add_revoke, _revoke),
}
