"""`crabtalk ask`: say one thing to an agent; its answer goes to stdout, everything else to stderr."""

import argparse
import os
import stat
import sys

from berm.cli.arguments import add_json
from berm.cli.exits import USAGE, CommandError
from berm.cli.parsing import Parser

MAX_CONTENT_BYTES = (1 << 20) - 4096  # a request is at most 1 MiB, and names agent and session too


def add_arguments(parser: Parser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("agent", metavar="AGENT", help="the agent's name or id")
    parser.add_argument(
        "text", metavar="TEXT", nargs="*", help="what to say; what is piped in is added below it"
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--session", metavar="HANDLE", help="in this session; a new one is begun otherwise")
    which.add_argument("--ephemeral", action="store_true", help="store nothing of it")
    parser.add_argument("--guest", metavar="AGENT", help="let this agent answer instead, in text only")
    parser.add_argument(
        "--tool-choice", metavar="CHOICE", help="auto, none, required, or the tool to call first"
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="show on stderr what is called")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Ask, and print the answer."""
    content = _content(" ".join(args.text), _piped())
    if args.session == "":
        raise CommandError("--session: expected a handle, got nothing", status=USAGE)
    from crabtalk.cli.chat.once import ask

    return ask(args, content)


def _content(text: str, piped: str) -> str:
    """Put together what is said.

    Raises:
        CommandError: it is nothing, or too much.
    """
    content = "\n\n".join(part for part in (text.strip(), piped.strip("\n")) if part.strip())
    if not content:
        raise CommandError("nothing to say: give TEXT, or pipe it in", status=USAGE)
    try:
        size = len(content.encode())
    except UnicodeEncodeError as error:
        raise CommandError("the text is not UTF-8", status=USAGE) from error
    if size > MAX_CONTENT_BYTES:
        raise CommandError(f"the text is {size:,} bytes; a request holds {MAX_CONTENT_BYTES:,} of them")
    return content


def _piped() -> str:
    """Return what a pipe, a socket or a file has for us; nobody waits for a terminal.

    Raises:
        CommandError: it is not text, or there is too much.
    """
    if sys.stdin is None:
        return ""
    kind = os.fstat(sys.stdin.fileno()).st_mode
    if not (stat.S_ISFIFO(kind) or stat.S_ISREG(kind) or stat.S_ISSOCK(kind)):
        return ""
    data = sys.stdin.buffer.read(MAX_CONTENT_BYTES + 1)
    if len(data) > MAX_CONTENT_BYTES:
        raise CommandError(f"stdin has more than the {MAX_CONTENT_BYTES:,} bytes that a request holds")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise CommandError("stdin is not UTF-8 text", status=USAGE) from error
