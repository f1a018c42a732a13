"""The `crabtalk` command: finds the subcommand, imports it, and turns what it raises into an exit code.

Start-up is the point, as for `berm`: only the module of the chosen command is imported, and nothing of the
wire, of trio or of anyio before a command needs it. A module of `COMMANDS` offers `add_arguments` and `run`,
or `ACTIONS`, the commands below its own.
"""

import argparse
import importlib
import sys
from collections.abc import Mapping, Sequence
from types import ModuleType

from berm.cli import exits, output
from berm.cli.parsing import Parser
from crabtalk.cli.actions import Action
from crabtalk.cli.complaining import complain
from crabtalk.cli.homes import add_home

# name: (module, what it does)
COMMANDS = {
    "up": ("crabtalk.cli.up", "run the daemon in the foreground"),
    "status": ("crabtalk.cli.status", "say whether the daemon runs, and how busy it is"),
    "ps": ("crabtalk.cli.ps", "show what runs and waits, the next wakes, and what does not load"),
    "harness": ("crabtalk.cli.harness", "the images that the daemon holds"),
    "agent": ("crabtalk.cli.agent", "agents, and the harnesses that they declare"),
    "chat": ("crabtalk.cli.chat", "talk to an agent"),
    "ask": ("crabtalk.cli.ask", "say one thing to an agent and print its answer"),
    "sessions": ("crabtalk.cli.sessions", "what was said to agents, and what they said"),
    "call": ("crabtalk.cli.call", "call a tool of an agent's harness and print its result"),
    "wake": ("crabtalk.cli.wake", "run a harness at an instant"),
    "event": ("crabtalk.cli.event", "publish events, watch them, and deliver them to harnesses"),
    "prompts": ("crabtalk.cli.prompts", "what agents ask a person, and answering it"),
    "approvals": ("crabtalk.cli.approvals", "what people allowed harnesses to do, and taking it back"),
    "mcp": ("crabtalk.cli.mcp", "MCP servers of agents, and what MCP clients may use"),
    "audit": ("crabtalk.cli.audit", "show what ran, for whom, and how it ended"),
    "logs": ("crabtalk.cli.logs", "show what the daemon logged"),
    "config": ("crabtalk.cli.config", "the daemon's configuration"),
    "store": ("crabtalk.cli.store", "check, back up and restore what the daemon keeps"),
    "service": ("crabtalk.cli.service", "start the daemon with the machine"),
    "version": ("crabtalk.cli.version", "show the versions of this command and of the daemon"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run `crabtalk` with `argv` (default: the process's arguments) and return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    output.prepare()
    try:
        status = _dispatch(arguments)
        sys.stdout.flush()
    except exits.CommandError as error:
        return _complain(str(error), error.status)
    except KeyboardInterrupt:
        return _complain("interrupted", exits.INTERRUPTED)
    except OSError as error:
        return _give_up_output(error)
    except Exception as error:
        if not _is_ours(error):
            raise
        return _complain(str(error), exits.HOST_ERROR)
    return status


def _is_ours(error: Exception) -> bool:
    """Say whether `error` is an answer; all else is a bug and keeps its traceback."""
    from crabtalk.errors import CrabtalkError

    return isinstance(error, CrabtalkError)


def _dispatch(arguments: list[str]) -> int:
    summaries = {name: summary for name, (_, summary) in COMMANDS.items()}
    about = "Talk to the daemon that decides when harnesses run."
    if arguments and arguments[0].partition("=")[0] == "--home":
        raise exits.CommandError(
            "--home goes after the command: crabtalk status --home DIR", status=exits.USAGE
        )
    name = _choose("crabtalk", about, summaries, arguments[:1])
    path, summary = COMMANDS[name]
    module = importlib.import_module(path)
    prog, rest = f"crabtalk {name}", arguments[1:]
    action = _action_of(module, summary)
    if isinstance(action, Mapping):
        about = f"{summary[:1].upper()}{summary[1:]}."
        chosen = _choose(prog, about, {word: one.summary for word, one in action.items()}, rest[:1])
        prog, rest, action = f"{prog} {chosen}", rest[1:], action[chosen]
    parser = Parser(prog=prog, description=action.summary, allow_abbrev=False)
    action.add_arguments(parser)
    add_home(parser)
    return action.run(parser.read(rest))


def _action_of(module: ModuleType, summary: str) -> Action | Mapping[str, Action]:
    actions: Mapping[str, Action] | None = getattr(module, "ACTIONS", None)
    return actions or Action(summary, module.add_arguments, module.run)


def _choose(prog: str, about: str, summaries: Mapping[str, str], arguments: list[str]) -> str:
    """Read the name of a command or of an action, or say which there are."""
    is_top = " " not in prog
    what = "command" if is_top else "action"
    parser = Parser(
        prog=prog,
        description=about,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=_overview(prog, what, summaries),
        usage=f"{prog} {what.upper()} …",
        allow_abbrev=False,
    )
    if is_top:
        parser.add_argument("--version", action="store_true", help="show the version and exit")
    parser.add_argument("name", metavar=what.upper(), nargs="?", help=argparse.SUPPRESS)
    args = parser.parse_args(arguments)
    if is_top and args.version:
        from importlib.metadata import version

        print(f"crabtalk {version('crabtalk')}")
        parser.exit(exits.DONE)
    article = "an" if what == "action" else "a"
    if args.name is None:
        parser.error(f"{article} {what} is missing")
    if args.name not in summaries:
        parser.error(f"there is no {what} {args.name!r}")
    return str(args.name)


def _overview(prog: str, what: str, summaries: Mapping[str, str]) -> str:
    width = max(map(len, summaries)) + 3
    lines = [f"  {name:<{width}}{summary}" for name, summary in summaries.items()]
    return "\n".join([f"{what}s:", *lines, "", f"{prog} {what.upper()} --help says what each one takes."])


def _give_up_output(error: OSError) -> int:
    """End a command that could not write what it had to say; a reader that has gone needs no word."""
    output.discard()
    if isinstance(error, BrokenPipeError):
        return exits.HOST_ERROR
    place = f"{error.filename}: " if error.filename else "writing the output: "
    return _complain(f"{place}{(error.strerror or str(error)).lower()}", exits.HOST_ERROR)


def _complain(message: str, status: int) -> int:
    complain(message)
    return status
