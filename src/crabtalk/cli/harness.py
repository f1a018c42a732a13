"""`crabtalk harness`: the images that the daemon holds, and what an upgrade of one would change."""

import argparse
import dataclasses
import hashlib
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from berm.cli.arguments import add_json, read_image
from berm.cli.exits import DONE, HOST_ERROR, CommandError
from berm.cli.output import print_json, print_table
from berm.cli.parsing import Parser
from crabtalk.cli.actions import Action
from crabtalk.cli.answers import facts
from crabtalk.cli.asking import add_yes, must_agree
from crabtalk.cli.complaining import tried
from crabtalk.cli.connecting import connected
from crabtalk.cli.naming import agent_id

if TYPE_CHECKING:
    from crabtalk.client.sync import SyncClient
    from crabtalk.image_info import ImageInfo
    from crabtalk.wire.pb import crabtalk_pb2 as pb

_IMAGE = "a file, the name or sha256 of a stored image, or AGENT/HARNESS"
_SHOWN_DIGITS = 12
_MIN_DIGITS = 8  # of a sha256, to find an image by its first digits


def _add_add(parser: Parser) -> None:
    parser.add_argument("image", metavar="FILE", type=Path, help="the harness, an ELF file")
    parser.add_argument(
        "--name", metavar="NAME", help="what it is called (default: the file's name without .elf)"
    )
    parser.add_argument("--sha256", metavar="HEX", help="refuse other bytes than these")
    add_json(parser)


def _add_ls(parser: Parser) -> None:
    parser.add_argument(
        "agent", metavar="AGENT", nargs="?", help="what this agent declares, not what is stored"
    )
    add_json(parser)


def _add_inspect(parser: Parser) -> None:
    parser.add_argument(
        "image", metavar="IMAGE", help="the name or sha256 of a stored image, or AGENT/HARNESS"
    )
    add_json(parser)


def _add_rm(parser: Parser) -> None:
    parser.add_argument("names", metavar="NAME", nargs="+", help="stored images that no agent declares")


def _add_diff(parser: Parser) -> None:
    parser.add_argument("old", metavar="OLD", help=_IMAGE)
    parser.add_argument("new", metavar="NEW", help="as OLD")
    add_json(parser)


def _add_upgrade(parser: Parser) -> None:
    parser.add_argument("agent", metavar="AGENT", help="the agent's name or id")
    parser.add_argument("harness", metavar="HARNESS", help="as the agent declares it")
    parser.add_argument(
        "image",
        metavar="FILE | SHA256",
        nargs="?",
        default="",
        help="to these bytes (default: the newest stored)",
    )
    add_yes(parser)


def _add(args: argparse.Namespace) -> int:
    """Hand the bytes to the daemon, which loads them before it stores them."""
    from crabtalk.declarations import HARNESS_NAME

    name = args.name or args.image.name.removesuffix(".elf")
    if not args.name and not re.fullmatch(HARNESS_NAME, name):
        raise CommandError(
            f"the file's name gives `{name}`, which does not match {HARNESS_NAME}; give one with --name"
        )
    with connected(args) as client:
        info = _put(client, args.image, name, args.sha256)
    if args.json:
        print_json(facts(info))
    else:
        print_table(["name", "sha256", "requests"], [(info.name, info.sha256, ", ".join(info.requested))])
    return DONE


def _put(client: "SyncClient", path: Path, name: str, wanted: str | None) -> "pb.HarnessInfo":
    elf = read_image(path)
    digest = hashlib.sha256(elf).hexdigest()
    if wanted is not None and wanted.lower() != digest:
        raise CommandError(f"{path} is {digest}, not {wanted.lower()}")
    return client.put_harness(name=name, elf=elf, sha256=digest)


def _ls(args: argparse.Namespace) -> int:
    with connected(args) as client:
        agent = agent_id(client, args.agent) if args.agent else ""
        infos = client.list_harnesses(agent=agent).harnesses
    if args.json:
        print_json([facts(info) for info in infos])
        return DONE
    rows = [(info.name, info.sha256[:_SHOWN_DIGITS], info.size, _tools(info), _state(info)) for info in infos]
    print_table(["name", "sha256", "bytes", "tools", "state"], rows)
    return DONE


def _tools(info: "pb.HarnessInfo") -> str:
    return ", ".join(tool.name for tool in info.tools)


def _state(info: "pb.HarnessInfo") -> str:
    return f"does not load: {info.error}" if info.error else "loads"


def _inspect(args: argparse.Namespace) -> int:
    from crabtalk.cli.images import print_info

    with connected(args) as client:
        info = _found(client, args.image)
    if args.json:
        print_json(facts(info))
    else:
        print_info(info)
    return DONE


def _rm(args: argparse.Namespace) -> int:
    """Remove every name; one that is in use does not keep the others."""
    with connected(args) as client:
        done = [tried(lambda: client.remove_harness(name=name)) for name in args.names]  # noqa: B023 - called at once
    return DONE if all(done) else HOST_ERROR


def _diff(args: argparse.Namespace) -> int:
    from crabtalk.cli.images import print_difference
    from crabtalk.image_info import diff

    old, new = _side(args, args.old), _side(args, args.new)
    if args.json:
        sides = {"old_sha256": old.sha256, "new_sha256": new.sha256}
        print_json({**sides, **dataclasses.asdict(diff(old, new)), "error": new.error})
    else:
        print_difference(old, new)
    return DONE


def _side(args: argparse.Namespace, text: str) -> "ImageInfo":
    """Read one side of a comparison; a daemon is asked only for what is no file."""
    from crabtalk.cli.images import of_file, of_info

    path = Path(text)
    if path.is_file():
        return of_file(path)
    if text.endswith(".elf"):
        raise CommandError(f"there is no file {text}")
    with connected(args) as client:
        return of_info(_found(client, text))


def _found(client: "SyncClient", text: str) -> "pb.HarnessInfo":
    """Find a harness of an agent, or a stored image by name or by the first digits of its sha256."""
    agent, slash, name = text.rpartition("/")
    if slash:
        return client.inspect_harness(agent=agent_id(client, agent), name=name)
    stored = client.list_harnesses(agent="").harnesses
    for info in stored:
        if info.name == text or (len(text) >= _MIN_DIGITS and info.sha256.startswith(text.lower())):
            return client.inspect_harness(name=info.name)  # a long list says less
    if not _is_sha256(text):
        raise CommandError(f"no image is stored as {text!r}; see crabtalk harness ls")
    return client.inspect_harness(digest=text)  # older bytes, that only a pin still holds


def _upgrade(args: argparse.Namespace) -> int:
    """Show what other bytes would change, and change what the agent runs only after a yes."""
    from crabtalk.cli.images import of_info, print_difference

    with connected(args) as client:
        agent = agent_id(client, args.agent)
        old = client.inspect_harness(agent=agent, name=args.harness)
        wanted = _stored(client, args.image)
        new = client.upgrade_harness(agent=agent, name=args.harness, sha256=wanted, confirm=False)
        print_difference(of_info(old), of_info(new))
        if old.sha256 == new.sha256:
            return DONE
        sys.stdout.flush()
        must_agree(args, f"Let {args.agent} run it as {args.harness}?")
        client.upgrade_harness(agent=agent, name=args.harness, sha256=new.sha256, confirm=True)
    return DONE


def _stored(client: "SyncClient", text: str) -> str:
    """Return the sha256 of what is meant, and store a file first."""
    path = Path(text)
    if not text or (_is_sha256(text) and not path.is_file()):
        return text
    if not path.is_file():
        raise CommandError(f"there is no file {text}, and it is no sha256 of an image")
    return _put(client, path, path.name.removesuffix(".elf"), None).sha256


def _is_sha256(text: str) -> bool:
    return re.fullmatch(r"[0-9A-Fa-f]{64}", text) is not None


ACTIONS = {
    "add": Action("store an image; no agent runs it until it declares it", _add_add, _add),
    "ls": Action("list stored images, or what an agent declares", _add_ls, _ls),
    "inspect": Action(
        "show an image, or a harness with what is bound to it; nothing is run", _add_inspect, _inspect
    ),
    "rm": Action("remove stored images", _add_rm, _rm),
    "diff": Action("show what another image changes and newly requests", _add_diff, _diff),
    "upgrade": Action(
        "let an agent's harness run other bytes, after showing the difference", _add_upgrade, _upgrade
    ),
}
