"""`crabtalk store`: what the daemon keeps. Works on the file itself, with the daemon running or not."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from berm.cli.arguments import add_json
from berm.cli.exits import DONE, FAILED
from berm.cli.output import escape_line, print_json, print_table
from berm.cli.parsing import Parser
from crabtalk.cli.actions import Action

if TYPE_CHECKING:
    from crabtalk.store.sqlite import SqliteEngine


def _open(args: argparse.Namespace) -> "SqliteEngine":
    from crabtalk.home import find_home
    from crabtalk.store.opening import open_store

    return open_store(find_home(args.home).store_file, create=False, read_only=True)


def _check(args: argparse.Namespace) -> int:
    """Read everything and say what is wrong."""
    from crabtalk.store.checking import check_records

    with _open(args) as engine:
        problems = engine.check()
        if not problems:  # of a damaged file, the records say nothing more
            with engine.snapshot() as moment:
                problems = check_records(moment)
        path = engine.path
    if args.json:
        print_json({"store": str(path), "problems": problems})
    else:
        for problem in problems:
            print(escape_line(problem))
        print(f"{path} is {'damaged; restore a backup' if problems else 'fine'}", file=sys.stderr)
    return FAILED if problems else DONE


def _backup(args: argparse.Namespace) -> int:
    """Write all that is there now into a new file."""
    with _open(args) as engine:
        engine.backup(args.file)
    print(f"{args.file} holds {engine.path} as of now", file=sys.stderr)
    return DONE


def _restore(args: argparse.Namespace) -> int:
    """Put a backup in the place of the store, while no daemon runs."""
    from crabtalk.home import find_home
    from crabtalk.store.restoring import restore

    home = find_home(args.home)
    home.prepare()
    with home.locked():
        kept = restore(args.file, home.store_file)
    before = f"; what was there is {kept}" if kept else ""
    print(f"{home.store_file} is what {args.file} is{before}", file=sys.stderr)
    return DONE


def _stats(args: argparse.Namespace) -> int:
    """Count what is there."""
    with _open(args) as engine:
        found = engine.statistics()
    if args.json:
        facts = {name: getattr(found, name) for name in ("format_version", "size_bytes", "keys", "bytes")}
        print_json(facts)
        return DONE
    print_table(
        ("COLUMN", "KEYS", "BYTES"),
        [(column, count, found.bytes[column]) for column, count in found.keys.items()],
    )
    print(f"{found.size_bytes:,} bytes on the disk, format {found.format_version}", file=sys.stderr)
    return DONE


def _target(parser: Parser) -> None:
    parser.add_argument("file", metavar="FILE", type=Path, help="where to; it must not be there yet")


def _source(parser: Parser) -> None:
    parser.add_argument("file", metavar="FILE", type=Path, help="what `crabtalk store backup` wrote")


ACTIONS = {
    "check": Action("read everything that is kept and say what is wrong with it", add_json, _check),
    "backup": Action("copy what is kept now into one file; the daemon may run", _target, _backup),
    "restore": Action("go back to a backup; the daemon must not run", _source, _restore),
    "stats": Action("count what is kept", add_json, _stats),
}
