"""`crabtalk mcp`: the MCP servers of agents, and what MCP clients may use."""

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from berm.cli.arguments import add_json
from berm.cli.exits import DONE, HOST_ERROR, USAGE, CommandError
from berm.cli.output import escape_line, print_json, print_table
from berm.cli.parsing import Parser
from crabtalk.cli.actions import Action
from crabtalk.cli.answers import add_json_lines, facts
from crabtalk.cli.asking import add_yes, must_agree
from crabtalk.cli.connecting import connected
from crabtalk.cli.instants import show_instant
from crabtalk.cli.logs import SILENCE_S
from crabtalk.cli.naming import Names, agent_id, agent_named

if TYPE_CHECKING:
    from crabtalk.client.sync import SyncClient
    from crabtalk.wire.pb import crabtalk_pb2 as pb

_STATUS = {0: "unknown", 1: "connected", 2: "disconnected", 3: "failed", 4: "connecting"}
_MAX_SECRET_BYTES = 16 << 10


def _add_server(parser: Parser) -> None:
    parser.add_argument("agent", metavar="AGENT", help="the agent's name or id")
    parser.add_argument("name", metavar="SERVER", help="what the agent calls it; its tools are SERVER__TOOL")


def _add_ls(parser: Parser) -> None:
    parser.add_argument("agent", metavar="AGENT", nargs="?", help="the agent's name or id (default: all)")
    add_json(parser)


def _add_add(parser: Parser) -> None:
    _add_server(parser)
    parser.add_argument(
        "command", metavar="-- COMMAND ARG", nargs="*", help="the program to start, and its arguments"
    )
    parser.add_argument("--url", metavar="URL", help="a server that runs elsewhere, instead of a program")
    parser.add_argument(
        "--env",
        metavar="NAME[=VALUE]",
        action="append",
        default=[],
        help="a variable for the program; without VALUE, as it is in this shell",
    )
    parser.add_argument("--auth-file", metavar="FILE | -", help="with --url: a file that holds the token")
    parser.add_argument("--no-restart", action="store_true", help="leave it when it ends or fails")
    parser.add_argument("--deadline", metavar="SECONDS", type=float, help="what a call may take")
    add_json(parser)


def _add_rm(parser: Parser) -> None:
    _add_server(parser)
    add_yes(parser)


def _add_logs(parser: Parser) -> None:
    _add_server(parser)
    parser.add_argument("-f", "--follow", action="store_true", help="go on with what comes, until Ctrl-C")
    add_json_lines(parser)


def _add_reconnect(parser: Parser) -> None:
    _add_server(parser)
    add_json(parser)


def _add_serve(parser: Parser) -> None:
    parser.add_argument("--agent", metavar="AGENT", required=True, help="whose tools: a name or an id")
    parser.add_argument("--harness", metavar="HARNESS", default="", help="those of this harness only")


def _add_token(parser: Parser) -> None:
    parser.add_argument("verb", metavar="add | ls | rm", choices=("add", "ls", "rm"), help="what to do")
    parser.add_argument("id", metavar="ID", nargs="?", help="with rm: which one, as ls shows it")
    parser.add_argument("--agent", metavar="AGENT", help="with add: whose tools it opens; a name or an id")
    parser.add_argument(
        "--harness", metavar="HARNESS", default="", help="with add: those of this harness only"
    )
    add_json(parser)


def _ls(args: argparse.Namespace) -> int:
    with connected(args) as client:
        chosen = (
            [agent_id(client, args.agent)] if args.agent else [one.id for one in client.list_agents().agents]
        )
        names = {one.id: one.name for one in client.list_agents().agents}
        found = [(names[one], info) for one in chosen for info in client.list_mcps(agent=one).mcps]
    if args.json:
        print_json([{"agent": name, **_facts(info)} for name, info in found])
        return DONE
    rows = [
        (name, info.name, _STATUS[info.status], str(info.tool_count), _place(info), escape_line(info.error))
        for name, info in found
    ]
    print_table(["agent", "server", "status", "tools", "what", "reason"], rows)
    return DONE


def _add(args: argparse.Namespace) -> int:
    if bool(args.command) == bool(args.url):
        raise CommandError("give a program, after --, or a --url", status=USAGE)
    server: dict[str, Any] = {"name": args.name}
    if args.url:
        server["url"] = args.url
        if args.auth_file:
            server["auth"] = _token(args.auth_file)
    else:
        server |= {"command": args.command[0], "args": args.command[1:]}
        if args.env:
            server["env"] = dict(map(_variable, args.env))
    if args.no_restart:
        server["auto_restart"] = False
    if args.deadline is not None:
        server["deadline"] = args.deadline
    with connected(args) as client:
        info = client.upsert_mcp(agent=agent_id(client, args.agent), config=json.dumps(server))
    return _say(info, args)


def _variable(text: str) -> tuple[str, str]:
    import os

    name, equals, value = text.partition("=")
    if not equals:
        if name not in os.environ:
            raise CommandError(f"there is no variable {name} in this shell", status=USAGE)
        value = os.environ[name]
    return name, value


def _token(file: str) -> str:
    if file == "-":
        text = sys.stdin.read(_MAX_SECRET_BYTES)
    else:
        with Path(file).open(encoding="utf-8") as stream:
            text = stream.read(_MAX_SECRET_BYTES)
    return text.strip()


def _rm(args: argparse.Namespace) -> int:
    must_agree(args, f"Take MCP server {args.name} from agent {args.agent}?")
    with connected(args) as client:
        client.delete_mcp(agent=agent_id(client, args.agent), name=args.name)
    return DONE


def _logs(args: argparse.Namespace) -> int:
    with connected(args) as client:
        agent = agent_id(client, args.agent)
        with client.mcp_logs(agent=agent, name=args.name) as lines:
            if args.follow:
                for line in lines:
                    _print_line(line, as_json=args.json)
            else:
                while (kept := lines.next_within(SILENCE_S)) is not None:
                    _print_line(kept, as_json=args.json)
    return DONE


def _print_line(line: "pb.LogLine", *, as_json: bool) -> None:
    if as_json:
        print_json(facts(line))
    else:
        print(f"{show_instant(line.time_ms)}  {line.level:<7}  {escape_line(line.text)}")
    sys.stdout.flush()


def _reconnect(args: argparse.Namespace) -> int:
    with connected(args) as client:
        info = client.reconnect_mcp(agent=agent_id(client, args.agent), name=args.name)
    return _say(info, args)


def _say(info: "pb.McpInfo", args: argparse.Namespace) -> int:
    """Show what became of a server; one that does not work is an answer too, and no success."""
    if args.json:
        print_json(_facts(info))
    else:
        about = info.error or f"{info.tool_count} tools"
        print(f"{info.name}: {_STATUS[info.status]}; {escape_line(about)}")
    return DONE if _STATUS[info.status] in {"connected", "connecting"} else HOST_ERROR


def _facts(info: "pb.McpInfo") -> dict[str, Any]:
    return {**facts(info), "status": _STATUS[info.status]}


def _place(info: "pb.McpInfo") -> str:
    import shlex

    return escape_line(info.url or shlex.join([info.command, *info.args]))[:60]


def _serve(args: argparse.Namespace) -> int:
    """Carry what an MCP client says to the daemon and back; the daemon does the rest."""
    from crabtalk.cli.bridging import bridge
    from crabtalk.home import find_home

    return bridge(find_home(args.home), args.agent, args.harness)


def _token_command(args: argparse.Namespace) -> int:
    return {"add": _token_add, "ls": _token_ls, "rm": _token_rm}[args.verb](args)


def _token_add(args: argparse.Namespace) -> int:
    from crabtalk.home import find_home
    from crabtalk.mcp import tokens

    if args.agent is None or args.id is not None:
        raise CommandError("say whose tools it opens: add --agent AGENT [--harness HARNESS]", status=USAGE)
    with connected(args) as client:
        agent = agent_named(client, args.agent)
        if args.harness and args.harness not in _harnesses(client, agent):
            raise CommandError(f"agent {agent.name} has no harness {args.harness}")
    text, token = tokens.add(find_home(args.home).root, agent.id, args.harness)
    if args.json:
        print_json({"id": token.id, "token": text, "agent": agent.name, "harness": args.harness})
    else:
        print(text)
        print(f"token {token.id}; it is shown this once", file=sys.stderr)
    return DONE


def _harnesses(client: "SyncClient", agent: "pb.AgentInfo") -> set[str]:
    return {one.name for one in client.list_harnesses(agent=agent.id).harnesses} | set(agent.mcps)


def _token_ls(args: argparse.Namespace) -> int:
    from crabtalk.home import find_home
    from crabtalk.mcp.tokens import Tokens

    found = Tokens(find_home(args.home).root).all()
    if args.json:
        print_json(
            [
                {"id": one.id, "agent": one.agent, "harness": one.harness, "created_ms": one.created_ms}
                for one in found
            ]
        )
        return DONE
    with connected(args) as client:
        names = Names(client)
    rows = [(one.id, names[one.agent], one.harness, show_instant(one.created_ms)) for one in found]
    print_table(["id", "agent", "harness", "made"], rows)
    return DONE


def _token_rm(args: argparse.Namespace) -> int:
    from crabtalk.home import find_home
    from crabtalk.mcp import tokens

    if args.id is None:
        raise CommandError("say which: rm ID", status=USAGE)
    tokens.remove(find_home(args.home).root, args.id)
    return DONE


ACTIONS = {
    "ls": Action("list servers, and whether they are connected", _add_ls, _ls),
    "add": Action("give an agent a server, or change the one of that name", _add_add, _add),
    "rm": Action("take a server from an agent", _add_rm, _rm),
    "logs": Action("show what a server wrote to stderr", _add_logs, _logs),
    "reconnect": Action("connect to a server anew, now", _add_reconnect, _reconnect),
    "serve": Action("serve an agent's tools to an MCP client, over stdin and stdout", _add_serve, _serve),
    "token": Action("what MCP clients may use over HTTP", _add_token, _token_command),
}
