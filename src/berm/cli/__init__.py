"""The `berm` command: finds the subcommand, imports it, and turns what it raises into an exit code.

Start-up is the point: only the module of the chosen command is imported, `--help` imports none of them, and
no command imports anyio, jsonschema or an extension module before it needs it.
"""

import argparse
import importlib
import sys
from collections.abc import Sequence
from typing import Protocol

from berm.cli import exits, output
from berm.cli.parsing import Parser

# name: (module, what it does)
COMMANDS = {
    "run": ("berm.cli.run", "run one tool of an image and print its result"),
    "inspect": ("berm.cli.inspect", "show what an image says about itself; nothing is run"),
    "disasm": ("berm.cli.disasm", "disassemble an image, or one function of it"),
    "trace": ("berm.cli.trace", "run a tool and show its blocks, host calls and memory"),
    "profile": ("berm.cli.profile", "run a tool and count instructions per function"),
    "bench": ("berm.cli.bench", "measure how long loading an image and calling a tool take"),
    "mcp": ("berm.cli.mcp", "serve the tools of images to an MCP client, over stdin and stdout"),
    "new": ("berm.build.new", "write a new harness project"),
    "build": ("berm.build.build", "compile C sources into an image"),
    "test": ("berm.build.test", "build a harness for this machine and run its tests"),
}


class Command(Protocol):
    """What a module of `COMMANDS` offers."""

    def add_arguments(self, parser: Parser) -> None:
        """Declare the command's arguments."""

    def run(self, args: argparse.Namespace) -> int:
        """Do it and return the exit code."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run `berm` with `argv` (default: the process's arguments) and return its exit code."""
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
    except MemoryError:
        return _complain("this machine's memory does not suffice: try a smaller --memory", exits.HOST_ERROR)
    except Exception as error:
        if not _is_ours(error):
            raise
        return _explain(error)
    return status


def _is_ours(error: Exception) -> bool:
    """Say whether an image, a guest or a link caused `error`; all else is a bug and keeps its traceback."""
    from rvcore import Error

    return isinstance(error, Error)


def _explain(error: Exception) -> int:
    from rvcore import Trap

    if isinstance(error, Trap):
        print(error.report(), file=sys.stderr)
        return exits.HOST_ERROR
    return _complain(str(error), exits.HOST_ERROR)


def _dispatch(arguments: list[str]) -> int:
    name = _command_name(arguments)
    module, summary = COMMANDS[name]
    command: Command = importlib.import_module(module)
    parser = Parser(prog=f"berm {name}", description=summary, allow_abbrev=False)
    command.add_arguments(parser)
    return command.run(parser.read(arguments[1:]))


def _command_name(arguments: list[str]) -> str:
    parser = Parser(
        prog="berm",
        description="Run, inspect and build harnesses: tools as sandboxed RISC-V images.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=_overview(),
        usage="berm COMMAND …",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="store_true", help="show the version and exit")
    parser.add_argument("command", metavar="COMMAND", nargs="?", help=argparse.SUPPRESS)
    args = parser.parse_args(arguments[:1])
    if args.version:
        from importlib.metadata import version

        print(f"berm {version('crabtalk')}")
        parser.exit(exits.DONE)
    if args.command is None:
        parser.error("a command is missing")
    if args.command not in COMMANDS:
        parser.error(f"there is no command {args.command!r}")
    return str(args.command)


def _overview() -> str:
    lines = [f"  {name:<10}{summary}" for name, (_, summary) in COMMANDS.items()]
    return "\n".join(["commands:", *lines, "", "berm COMMAND --help says what each one takes."])


def _give_up_output(error: OSError) -> int:
    """End a command that could not write what it had to say; a reader that has gone needs no word."""
    output.discard()
    if isinstance(error, BrokenPipeError):
        return exits.HOST_ERROR
    place = f"{error.filename}: " if error.filename else "writing the output: "
    return _complain(f"{place}{(error.strerror or str(error)).lower()}", exits.HOST_ERROR)


def _complain(message: str, status: int) -> int:
    print(f"berm: {output.escape_line(message)}", file=sys.stderr)
    return status
