"""`crabtalk sessions`: what was said, in all sessions that are stored."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from berm.cli.arguments import add_json, count
from berm.cli.exits import DONE, HOST_ERROR, USAGE, CommandError
from berm.cli.output import BOLD, DIM, escape, escape_line, for_stream, paint, print_json, print_table
from berm.cli.parsing import Parser
from crabtalk.cli.actions import Action
from crabtalk.cli.answers import facts
from crabtalk.cli.asking import add_yes, must_agree
from crabtalk.cli.complaining import tried
from crabtalk.cli.connecting import connected
from crabtalk.cli.naming import agent_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from crabtalk.client.sync import SyncClient
    from crabtalk.wire.pb import crabtalk_pb2 as pb


def _add_handle(parser: Parser) -> None:
    parser.add_argument("handle", metavar="HANDLE", help="its handle, or the beginning of one")


def _add_filters(parser: Parser) -> None:
    parser.add_argument("--agent", metavar="AGENT", help="of this agent alone")
    parser.add_argument("--sender", metavar="NAME", help="of this sender alone")


def _add_ls(parser: Parser) -> None:
    _add_filters(parser)
    parser.add_argument("--active", action="store_true", help="those in which something runs now")
    parser.add_argument("-n", "--count", metavar="N", type=count, help="the newest N of them")
    add_json(parser)


def _add_show(parser: Parser) -> None:
    _add_handle(parser)
    parser.add_argument("-n", "--count", metavar="N", type=count, help="the last N messages")
    add_json(parser)


def _add_search(parser: Parser) -> None:
    parser.add_argument(
        "query", metavar="WORD", nargs="+", help="a word; one that ends with * is a beginning"
    )
    _add_filters(parser)
    parser.add_argument("-n", "--count", metavar="N", type=count, help="the best N (default: 10)")
    parser.add_argument(
        "--context", metavar="N", type=_context, help="messages before and after (default: 1)"
    )
    add_json(parser)


def _context(text: str) -> int:
    """Read a number that may be 0."""
    if not text.isascii() or not text.isdecimal() or len(text) > 4:  # noqa: PLR2004 - more is refused anyway
        raise argparse.ArgumentTypeError(f"expected a small number, got {text!r}")
    return int(text)


def _add_rm(parser: Parser) -> None:
    parser.add_argument("handles", metavar="HANDLE", nargs="+", help="its handle, or the beginning of one")
    add_yes(parser)


def _add_export(parser: Parser) -> None:
    _add_handle(parser)
    parser.add_argument(
        "--format", choices=("markdown", "json"), default="markdown", help="what to write (default: markdown)"
    )
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, help="where to (default: stdout)")


def _ls(args: argparse.Namespace) -> int:
    with connected(args) as client:
        which = {"agent": agent_id(client, args.agent) if args.agent else "", "sender": args.sender or ""}
        found: Sequence[Any]
        if args.active:
            found = client.list_active_conversations(**which).conversations
        else:
            found = client.list_conversations(**which).conversations
    found = found[: args.count]
    if args.json:
        print_json([facts(one) for one in found])
        return DONE
    rows = [
        (_handle_of(one), one.agent_name, one.sender, one.message_count, _when(one), one.title)
        for one in found
    ]
    print_table(["handle", "agent", "sender", "messages", "begun", "title"], rows)
    return DONE


def _handle_of(one: "pb.ConversationInfo | pb.ActiveConversationInfo") -> str:
    return one.file_path if hasattr(one, "file_path") else one.session_handle


def _when(one: "pb.ConversationInfo | pb.ActiveConversationInfo") -> str:
    if hasattr(one, "date"):
        return one.date
    from crabtalk.cli.instants import show_span

    return f"{show_span(one.alive_secs * 1000)} ago"


def _show(args: argparse.Namespace) -> int:
    with connected(args) as client:
        handle = handle_named(client, args.handle)
        history = client.get_conversation_history(file_path=handle)
    messages = history.messages[-args.count :] if args.count else history.messages
    if args.json:
        shown = {**facts(history), "session_handle": handle, "messages": [facts(one) for one in messages]}
        print_json(shown)
        return DONE
    title = escape_line(f"{history.title or handle} · {history.agent_name or history.agent_id}")
    print(paint(title, BOLD, sys.stdout))
    for message in messages:
        if message.content:
            print(f"\n{paint(escape_line(message.role), DIM, sys.stdout)}")
            print(for_stream(message.content, sys.stdout))
    return DONE


def _search(args: argparse.Namespace) -> int:
    fields: dict[str, Any] = {"query": " ".join(args.query), "sender": args.sender or ""}
    if args.count:
        fields["limit"] = args.count
    if args.context is not None:
        fields |= {"context_before": args.context, "context_after": args.context}
    with connected(args) as client:
        agent = agent_id(client, args.agent) if args.agent else ""
        hits = client.search_sessions(agent=agent, **fields).hits
    if args.json:
        print_json([facts(one) for one in hits])
        return DONE
    for number, hit in enumerate(hits):
        if number:
            print()
        head = f"{hit.session_handle}  {hit.agent_name}  {hit.updated_at[:16]}  {hit.title}"
        print(paint(escape_line(head), BOLD, sys.stdout))
        for item in hit.window:
            print(_window_line(item, is_hit=item.msg_idx == hit.msg_idx))
    return DONE if hits else HOST_ERROR


def _window_line(item: "pb.SessionWindowItem", *, is_hit: bool) -> str:
    mark = ">" if is_hit else " "
    said = f"({item.tool_name})" if item.tool_name and not item.snippet else " ".join(item.snippet.split())
    more = "…" if item.truncated else ""
    return f"{mark} {escape_line(f'{item.role}: {said}{more}')}"


def _rm(args: argparse.Namespace) -> int:
    with connected(args) as client:
        handles = [handle_named(client, text) for text in args.handles]
        many = f"{len(handles)} sessions" if len(handles) > 1 else f"session {handles[0]}"
        must_agree(args, f"Remove {many}, with all that was said?")
        done = [tried(lambda: client.delete_conversation(file_path=one)) for one in handles]  # noqa: B023 - called at once
    return DONE if all(done) else HOST_ERROR


def _export(args: argparse.Namespace) -> int:
    with connected(args) as client:
        handle = handle_named(client, args.handle)
        history = client.get_conversation_history(file_path=handle)
    text = _as_json(handle, history) if args.format == "json" else _as_markdown(handle, history)
    if args.output is None:
        print(for_stream(text, sys.stdout), end="")
        return DONE
    args.output.write_text(text, encoding="utf-8")
    return DONE


def _as_json(handle: str, history: "pb.ConversationHistory") -> str:
    import json

    exported = {"session_handle": handle, **facts(history)}
    return json.dumps(exported, ensure_ascii=False, indent=2) + "\n"


def _as_markdown(handle: str, history: "pb.ConversationHistory") -> str:
    """Write a session as a document; what tools returned is in fences that it cannot close."""
    parts = [f"# {escape_line(history.title or handle)}"]
    parts.append(f"{escape_line(history.agent_name or history.agent_id)}, session `{escape_line(handle)}`")
    for message in history.messages:
        if message.content:
            body = _fenced(message.content) if message.role == "tool" else message.content.rstrip()
            parts += [f"## {escape_line(message.role)}", escape(body)]
    return "\n\n".join(parts) + "\n"


def _fenced(text: str) -> str:
    import re

    ticks = "`" * max(3, 1 + max(map(len, re.findall(r"`+", text)), default=0))
    return f"{ticks}text\n{text.rstrip()}\n{ticks}"


def handle_named(client: "SyncClient", text: str) -> str:
    """Return the handle of a session, of which `text` may be the beginning.

    Raises:
        CommandError: there is no such session, or there are several.
    """
    handles = [one.file_path for one in client.list_conversations().conversations]
    if text in handles:
        return text
    found = _beginning(handles, text)
    if len(found) > 1:
        shown = ", ".join(found[:3])
        raise CommandError(f"{len(found)} sessions begin with {text!r}: {shown}…", status=USAGE)
    if not found:
        raise CommandError(f"there is no session {text!r}")
    return found[0]


def _beginning(handles: "Iterable[str]", text: str) -> list[str]:
    return [one for one in handles if text and one.startswith(text)]


ACTIONS = {
    "ls": Action("list sessions, the newest first", _add_ls, _ls),
    "show": Action("show what was said in a session", _add_show, _show),
    "search": Action("find messages by their words", _add_search, _search),
    "rm": Action("remove sessions", _add_rm, _rm),
    "export": Action("write a session as Markdown or JSON", _add_export, _export),
}
