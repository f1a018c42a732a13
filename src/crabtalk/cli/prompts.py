"""`crabtalk prompts`: what agents ask a person, and answering it."""

import argparse
import sys
from typing import TYPE_CHECKING

from berm.cli.arguments import add_json
from berm.cli.exits import DONE, USAGE, CommandError
from berm.cli.output import escape, escape_line, print_json, print_table
from berm.cli.parsing import Parser
from crabtalk.cli.actions import Action
from crabtalk.cli.answers import add_json_lines, facts
from crabtalk.cli.asking import can_ask
from crabtalk.cli.complaining import tried
from crabtalk.cli.connecting import connected
from crabtalk.cli.instants import show_instant
from crabtalk.cli.naming import Names

if TYPE_CHECKING:
    from crabtalk.client.sync import SyncClient
    from crabtalk.wire.pb import crabtalk_pb2 as pb

_SILENCE_S = 0.3  # picked, not measured: what waits comes at once
_ID = "as `crabtalk prompts ls` shows it"


def _add_answer(parser: Parser) -> None:
    parser.add_argument("id", metavar="ID", help=_ID)
    parser.add_argument("text", metavar="TEXT", help="the answer to its question")


def _add_allow(parser: Parser) -> None:
    parser.add_argument("id", metavar="ID", help=_ID)
    parser.add_argument(
        "--scope", choices=("once", "session", "always"), default="once", help="for how long (default: once)"
    )


def _add_deny(parser: Parser) -> None:
    parser.add_argument("id", metavar="ID", help=_ID)
    parser.add_argument("reason", metavar="REASON", nargs="?", default="", help="what the agent is told")


def _answer(args: argparse.Namespace) -> int:
    with connected(args) as client:
        client.answer_prompt(id=args.id, allow=True, text=args.text)
    return DONE


def _allow(args: argparse.Namespace) -> int:
    with connected(args) as client:
        client.answer_prompt(id=args.id, allow=True, scope=args.scope)
    return DONE


def _deny(args: argparse.Namespace) -> int:
    with connected(args) as client:
        client.answer_prompt(id=args.id, allow=False, text=args.reason)
    return DONE


def _ls(args: argparse.Namespace) -> int:
    with connected(args) as client:
        names = Names(client)
        waiting: dict[str, pb.Prompt] = {}
        with client.subscribe_prompts() as prompts:
            while (prompt := prompts.next_within(_SILENCE_S)) is not None:
                if prompt.expires_ms:
                    waiting[prompt.id] = prompt
                else:
                    waiting.pop(prompt.id, None)
    if args.json:
        print_json([facts(one) for one in waiting.values()])
        return DONE
    rows = [
        (
            one.id,
            one.kind,
            f"{names[one.agent]}/{one.harness}",
            one.capability,
            one.argument,
            one.text,
            show_instant(one.expires_ms),
        )
        for one in waiting.values()
    ]
    print_table(["id", "kind", "harness", "capability", "argument", "text", "until"], rows)
    return DONE


def _watch(args: argparse.Namespace) -> int:
    if not args.json and not can_ask():
        raise CommandError("there is no terminal to ask at: say --json to see what is asked", status=USAGE)
    with connected(args) as client, client.subscribe_prompts() as prompts:
        for prompt in prompts:
            if args.json:
                print_json(facts(prompt))
                sys.stdout.flush()
            elif prompt.expires_ms:
                _ask(client, prompt)
    return DONE


def _ask(client: "SyncClient", prompt: "pb.Prompt") -> None:
    """Show a prompt at this terminal, and send what the person says."""
    who = f"{Names(client)[prompt.agent]}/{prompt.harness}"
    if prompt.kind == "question":
        _say(f"{who} asks:")
        _say(prompt.text, line=False)
        text = _read("your answer (nothing: none)")
        tried(lambda: client.answer_prompt(id=prompt.id, allow=bool(text), text=text))
        return
    _say(f"{who} wants to use {prompt.capability}, with {prompt.argument}:")
    _say(prompt.text or "(it says nothing more)", line=False)
    chosen = _read(f"allow: {', '.join(prompt.scopes)}? (anything else: no)").lower()
    allowed = chosen in prompt.scopes
    tried(lambda: client.answer_prompt(id=prompt.id, allow=allowed, scope=chosen if allowed else ""))


def _say(text: str, *, line: bool = True) -> None:
    print(escape_line(text) if line else escape(text), file=sys.stderr)


def _read(question: str) -> str:
    print(f"{escape_line(question)} ", end="", file=sys.stderr, flush=True)
    line = sys.stdin.readline()
    if not line:
        raise CommandError("the terminal is gone")
    return line.strip()


ACTIONS = {
    "ls": Action("list what waits for an answer", add_json, _ls),
    "watch": Action("answer at this terminal, until Ctrl-C", add_json_lines, _watch),
    "answer": Action("answer a question", _add_answer, _answer),
    "allow": Action("approve what a harness wants to do", _add_allow, _allow),
    "deny": Action("refuse it, or a question", _add_deny, _deny),
}
