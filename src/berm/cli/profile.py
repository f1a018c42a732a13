"""`berm profile`: run a tool and count its instructions per function, as a table and for flame graphs."""

import argparse
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from berm.cli.arguments import add_json, add_limits, add_tool_call
from berm.cli.ending import complain, exit_code
from berm.cli.ending import facts as ending_facts
from berm.cli.exits import CommandError
from berm.cli.granting import add_grants
from berm.cli.output import print_json, print_table
from berm.cli.parsing import Parser
from berm.cli.session import opened

if TYPE_CHECKING:
    from rvcore._recorder import Recorder
    from rvcore._symbols import Symbols

Row = tuple[int, int, str, str]  # own instructions, with callees, share of all, function


def add_arguments(parser: Parser) -> None:
    """Declare the command's arguments."""
    add_tool_call(parser)
    parser.add_argument(
        "--folded",
        metavar="FILE",
        type=Path,
        help="write call stacks for flame graphs: one `a;b;c COUNT` a line",
    )
    add_json(parser)
    add_limits(parser)
    add_grants(parser)


def run(args: argparse.Namespace) -> int:
    """Print the functions, the most expensive first."""
    from berm import Done

    with opened(args) as session:
        recorder, ending = session.watch(args)
        stacks = _named(recorder)
        if args.folded:
            _write_folded(args.folded, stacks)
        rows = _rows(recorder, stacks)
        if args.json:
            functions = [{"function": name, "own": own, "total": total} for own, total, _, name in rows]
            print_json(
                {**ending_facts(ending), "instructions": recorder.instructions, "functions": functions}
            )
        else:
            print_table(["own", "with callees", "share", "function"], rows)
            if not isinstance(ending, Done):
                complain(ending)
    return exit_code(ending)


def _named(recorder: "Recorder") -> Counter[tuple[str, ...]]:
    """Count instructions by call stack, outermost function first."""
    symbols = recorder.program.image.symbols
    found: Counter[tuple[str, ...]] = Counter()
    for stack, count in recorder.stacks():
        found[tuple(_name(symbols, entry) for entry in stack)] += count
    return found


def _rows(recorder: "Recorder", stacks: Counter[tuple[str, ...]]) -> list[Row]:
    symbols = recorder.program.image.symbols
    own: Counter[str] = Counter()
    for pc, count in recorder.counts().items():
        own[_name(symbols, pc)] += count
    total: Counter[str] = Counter()
    for stack, count in stacks.items():
        for name in set(stack):  # a recursive function is charged once
            total[name] += count
    everything = max(1, recorder.instructions)
    return [
        (count, max(count, total[name]), f"{count / everything:.1%}", name)
        for name, count in own.most_common()
    ]


def _name(symbols: "Symbols", pc: int) -> str:
    found = symbols.lookup(pc)
    return found[0] if found else f"{pc:#x}"


def _write_folded(path: Path, stacks: Counter[tuple[str, ...]]) -> None:
    """Write the format of flamegraph.pl, speedscope and others."""
    lines = [f"{';'.join(map(_frame, stack))} {count}\n" for stack, count in sorted(stacks.items())]
    try:
        path.write_text("".join(lines), encoding="utf-8")
    except OSError as error:
        raise CommandError(f"cannot write {path}: {(error.strerror or str(error)).lower()}") from error


def _frame(name: str) -> str:
    """Keep a name from looking like two frames or two lines."""
    return "".join(char if char.isprintable() and char not in "; " else "_" for char in name)
