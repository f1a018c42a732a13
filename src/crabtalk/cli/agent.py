"""`crabtalk agent`: agents, and what their configurations say."""

import argparse
import json
from typing import TYPE_CHECKING, Any

from berm.cli.arguments import add_json
from berm.cli.exits import DONE, USAGE, CommandError
from berm.cli.output import escape, print_json, print_table
from berm.cli.parsing import Parser
from crabtalk.cli.actions import Action
from crabtalk.cli.answers import facts
from crabtalk.cli.asking import add_yes, must_agree
from crabtalk.cli.complaining import complain
from crabtalk.cli.connecting import connected
from crabtalk.cli.documents import MAX_BYTES, json_object, read_document
from crabtalk.cli.naming import agent_named
from crabtalk.cli.patches import patch_between, value_of, with_value, without_value

if TYPE_CHECKING:
    from crabtalk.client.sync import SyncClient
    from crabtalk.wire.pb import crabtalk_pb2 as pb

_IDENTITY = ("id", "name")  # in a shown configuration, and not its to change


def _add_agent(parser: Parser) -> None:
    parser.add_argument("agent", metavar="AGENT", help="the agent's name or id")


def _add_add(parser: Parser) -> None:
    parser.add_argument("file", metavar="FILE | -", help="its configuration, TOML or JSON; - for stdin")
    parser.add_argument("--name", metavar="NAME", help="its name (default: what the file says)")
    add_json(parser)


def _add_edit(parser: Parser) -> None:
    _add_agent(parser)
    parser.description = f"{parser.description}; without options in $EDITOR"
    change = parser.add_argument_group("changes")
    change.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="as max_iterations=8 or harnesses.reminders.schedule=64; VALUE is JSON, or else text",
    )
    change.add_argument("--unset", metavar="KEY", action="append", default=[], help="take KEY out")
    change.add_argument("--patch", metavar="JSON | @FILE | -", help="a JSON merge patch (RFC 7396)")


def _add_rm(parser: Parser) -> None:
    _add_agent(parser)
    add_yes(parser)


def _add_rename(parser: Parser) -> None:
    _add_agent(parser)
    parser.add_argument("new_name", metavar="NEW", help="its new name; its id and all it has stay")


def _add_inspect(parser: Parser) -> None:
    _add_agent(parser)
    add_json(parser)


def _ls(args: argparse.Namespace) -> int:
    with connected(args) as client:
        agents = client.list_agents().agents
    if args.json:
        print_json([_agent_facts(info) for info in agents])
        return DONE
    rows = [(info.name, info.id, _harness_names(info), _first_line(info.description)) for info in agents]
    print_table(["name", "id", "harnesses", "description"], rows)
    return DONE


def _add(args: argparse.Namespace) -> int:
    config = read_document(args.file)
    name = args.name or config.get("name")
    if not isinstance(name, str) or not name:
        raise CommandError(f"{args.file} has no name: give the agent one with --name", status=USAGE)
    config.pop("name", None)
    with connected(args) as client:
        info = client.create_agent(name=name, config=json.dumps(config, default=_no_json))
        _warn_of_broken(client, info)
        _warn_of_unknown(client, info)
    if args.json:
        print_json(_agent_facts(info))
    else:
        print_table(["name", "id"], [(info.name, info.id)])
    return DONE


def _no_json(value: object) -> Any:  # noqa: ANN401 - it returns nothing
    raise CommandError(f"a configuration holds no dates or times, got {value}")


def _edit(args: argparse.Namespace) -> int:
    """Send a merge patch: the one that is given, or what changes or an editor made of the configuration."""
    with connected(args) as client:
        info = agent_named(client, args.agent)
        if args.patch is not None:
            if args.set or args.unset:
                raise CommandError("give --patch, or --set and --unset", status=USAGE)
            info = _update(client, info, _given_patch(args.patch))
        elif args.set or args.unset:
            old = config_of(info)
            info = _update(client, info, patch_between(old, _changed(old, args)))
        else:
            from crabtalk.cli.editing import edited

            info = edited(info.name, config_of(info), lambda patch: _update(client, info, patch)) or info
        _warn_of_broken(client, info)
        _warn_of_unknown(client, info)
    return DONE


def _given_patch(text: str) -> dict[str, Any]:
    from berm.cli.arguments import tool_arguments

    data = tool_arguments(text)
    if len(data) > MAX_BYTES:
        raise CommandError(f"--patch is larger than {MAX_BYTES >> 20} MiB")
    return json_object(data.decode("utf-8", "replace"), "--patch")


def _changed(config: dict[str, Any], args: argparse.Namespace) -> dict[str, Any]:
    for change in args.set:
        key, equals, value = change.partition("=")
        if not equals or not key:
            raise CommandError(f"--set: expected KEY=VALUE, got {change!r}", status=USAGE)
        config = with_value(config, key, value_of(value))
    for key in args.unset:
        config = without_value(config, key)
    return config


def _update(client: "SyncClient", info: "pb.AgentInfo", patch: dict[str, Any]) -> "pb.AgentInfo":
    if not patch:
        complain("nothing changes")
        return info
    return client.update_agent(agent=info.id, config=json.dumps(patch, default=_no_json))


def _rm(args: argparse.Namespace) -> int:
    with connected(args) as client:
        info = agent_named(client, args.agent)
        must_agree(
            args, f"Remove {info.name} with its wakes, its subscriptions and what its harnesses stored?"
        )
        client.delete_agent(agent=info.id)
    return DONE


def _rename(args: argparse.Namespace) -> int:
    with connected(args) as client:
        client.rename_agent(agent=agent_named(client, args.agent).id, new_name=args.new_name)
    return DONE


def _inspect(args: argparse.Namespace) -> int:
    """Print the configuration, and how each harness of it stands."""
    with connected(args) as client:
        info = agent_named(client, args.agent)
        names = [one.name for one in client.list_harnesses(agent=info.id).harnesses]
        harnesses = [client.inspect_harness(agent=info.id, name=name) for name in names]
    if args.json:
        print_json({**_agent_facts(info), "harness_info": [facts(one) for one in harnesses]})
        return DONE
    from crabtalk.cli.toml import written

    print(escape(f"# {info.name}, {info.id}"))
    print(escape(written(config_of(info))), end="")
    for one in harnesses:
        tools = ", ".join(tool.name for tool in one.tools) or "none"
        state = f"does not load: {one.error}" if one.error else f"tools {tools}"
        print(escape(f"\n# {one.name}: {state}"))
        for line in one.bound:
            print(escape(f"#   {line}"))
    return DONE


def config_of(info: "pb.AgentInfo") -> dict[str, Any]:
    """Return an agent's configuration without its name and id; what is null is left out, as if absent."""
    config = json.loads(info.config or "{}")
    return {key: value for key, value in config.items() if key not in _IDENTITY and value is not None}


def _agent_facts(info: "pb.AgentInfo") -> dict[str, Any]:
    return {"id": info.id, "name": info.name, "config": config_of(info)}


def _harness_names(info: "pb.AgentInfo") -> str:
    return ", ".join(str(one.get("name")) for one in config_of(info).get("harnesses", ()))


def _first_line(text: str) -> str:
    line = text.strip().partition("\n")[0]
    return line if len(line) <= 60 else f"{line[:59]}…"  # noqa: PLR2004 - what a table has room for


def _warn_of_unknown(client: "SyncClient", info: "pb.AgentInfo") -> None:
    """Say which names mean nothing yet; the daemon takes them, since what they mean may come later."""
    if info.model:
        models = {one.name for one in client.list_models().models}
        if info.model not in models and info.model.partition("/")[0] not in models:
            complain(f"there is no model {info.model}, and without it no turn of {info.name} begins")
    if named := [one for one in info.skills if one != "*"]:
        skills = {one.name for one in client.list_skills().skills}
        for name in named:
            if name not in skills:
                complain(f"there is no skill {name}")


def _warn_of_broken(client: "SyncClient", info: "pb.AgentInfo") -> None:
    for one in client.list_harnesses(agent=info.id).harnesses:
        if one.error:
            complain(f"{one.name} does not load, and none of its tools is there: {one.error}")


ACTIONS = {
    "ls": Action("list agents", add_json, _ls),
    "add": Action("make an agent from a file", _add_add, _add),
    "edit": Action("change an agent's configuration", _add_edit, _edit),
    "inspect": Action(
        "show an agent's configuration, and whether its harnesses load", _add_inspect, _inspect
    ),
    "rename": Action("give an agent another name", _add_rename, _rename),
    "rm": Action("remove an agent and all that it has", _add_rm, _rm),
}
