"""Which adjacent instruction pairs do the tuning guests execute most? The fused pairs are chosen from this.

Counts are exact: unicorn counts blocks and the fall-throughs between them, and each block is decoded once, by
rvcore. Pairs are named as `rvcore/_pairs.py` names them: ops as the decoder specialises them, and a link that
says where the second finds its rs1: "f" in the first's result, "k" in the first's rs1, "l" in the registers.
Each guest's counts are divided by its own total before they are added, so that no guest dominates. Two
rankings come out: every pair by share of executed instructions, and an order of choice, where a pair is worth
only the dispatches that the pairs chosen before it leave to save (fused pairs cannot overlap).
"""

# mypy: disable-error-code="import-not-found, import-untyped"
from __future__ import annotations

import argparse
import itertools
import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from build_guests import Target, build, kernels
from unicorn_guest import BlockProfile, UnicornGuest

from rvcore._decode import expansion, name_of
from rvcore._ops import ALL, CODES

BLOCK_EVENTS = 300_000
VALUE_KINDS = {"alu", "alu_imm", "load", "li"}
READS_RS1 = {"alu", "alu_imm", "load", "store", "branch", "ret", "jalr", "jalr_known", "jr"}
FIRSTS = VALUE_KINDS | {"store"}
SECONDS = FIRSTS | {"branch", "jal", "j", "ret", "jalr", "jr"}


class Pair(NamedTuple):
    """Two adjacent ops and their link."""

    first: str
    second: str
    link: str


class Op(NamedTuple):
    """One instruction as rvcore specialises it; rd is None where nothing is written."""

    name: str
    rd: int | None
    rs1: int
    rs2: int
    length: int

    @property
    def kind(self) -> str:
        """Say how the handler generator treats it."""
        return ALL[CODES[self.name]].kind


@dataclass
class Site:
    """One static op with its share of the guest's executed instructions."""

    op: Op
    share: float  # executed, as a share of all of the guest's
    falls: float  # of those, the share that went on with the next instruction in memory


@dataclass
class Run:
    """Sites that lie next to each other in memory."""

    sites: list[Site]
    pairs: list[Pair]  # pairs[i] joins sites[i] and sites[i + 1]


def decode(low: int, high: int) -> Op:
    """Decode the instruction whose first halfword is `low`."""
    compressed = low & 3 != 3
    word = expansion(low) if compressed else low | high << 16
    row = ALL[CODES[name_of(word)]]
    rd = (word >> 7 & 31) if row.format not in {"S", "B", "NONE"} else 0
    rs1 = (word >> 15 & 31) if row.format not in {"U", "J", "NONE"} else 0
    rs2 = (word >> 20 & 31) if row.format in {"R", "S", "B", "AMO"} else 0
    return specialise(Op(row.name, rd or None, rs1, rs2, 2 if compressed else 4), word >> 20)


def specialise(op: Op, immediate: int) -> Op:
    """Rename the cases that the decoder gives ops of their own, as `rvcore/_decode.pyx` does."""
    name, rs1, rs2 = op.name, op.rs1, op.rs2
    if name in {"lui", "auipc"} or (name == "addi" and rs1 == 0):
        name = "li"
    elif name == "addi" and immediate == 0:
        name = "mv"
    elif name == "add" and 0 in {rs1, rs2}:
        name, rs1, rs2 = "mv", rs1 or rs2, 0
    elif name == "jal" and op.rd is None:
        name = "j"
    elif name == "jalr" and op.rd is None and rs1 == 1:
        name = "ret"
    elif name == "jalr" and op.rd is None and rs1 != 5 and immediate == 0:
        name = "jr"
    return op._replace(name=name, rs1=rs1, rs2=rs2)


def swap_operands(ops: list[Op]) -> list[Op]:
    """Let commutative ops take the previous result as rs1."""
    out = ops[:1]
    for op in ops[1:]:
        last = out[-1]
        wanted = last.rd if last.kind in VALUE_KINDS else None
        swap = ALL[CODES[op.name]].commutative and wanted is not None and op.rs2 == wanted != op.rs1
        out.append(op._replace(rs1=op.rs2, rs2=op.rs1) if swap else op)
    return out


def pair_of(first: Op, second: Op) -> Pair:
    """Name two adjacent ops and find their link."""
    reads = second.kind in READS_RS1
    if first.kind in VALUE_KINDS and reads and first.rd is not None and second.rs1 == first.rd:
        link = "f"
    elif first.kind == "li":
        link = "l"
    elif not reads or (first.kind in READS_RS1 and second.rs1 == first.rs1):
        link = "k"
    else:
        link = "l"
    return Pair(first.name, second.name, link)


def fusable(pair: Pair) -> bool:
    """Tell whether the generator can make one handler of the two."""
    first, second = (ALL[CODES[name]].kind for name in pair[:2])
    return first in FIRSTS and second in SECONDS


def profile(name: str) -> tuple[list[Run], int]:
    """Execute one guest and return its runs of code with shares, and the instructions executed."""
    path = build(name, Target.RISCV)
    first = UnicornGuest(path)
    trial = BlockProfile(first)
    first.call(2)
    rounds = max(3, 2 * BLOCK_EVENTS // sum(trial.blocks.values()))
    guest = UnicornGuest(path)
    counts = BlockProfile(guest)
    guest.call(rounds)
    return _runs(guest, counts)


def _runs(guest: UnicornGuest, counts: BlockProfile) -> tuple[list[Run], int]:
    executed: Counter[int] = Counter()
    falls: Counter[int] = Counter()
    code: dict[int, Op] = {}
    for (start, size), count in counts.blocks.items():
        at = start
        while at < start + size:
            code[at] = decode(guest.halfword(at), guest.halfword(at + 2))
            executed[at] += count
            following = at + code[at].length
            falls[at] += count if following < start + size else counts.falls.get((start, size), 0)
            at = following
    total = executed.total()
    runs = []
    for group in _neighbours(code):
        ops = swap_operands([code[at] for at in group])
        sites = [Site(op, executed[at] / total, falls[at] / total) for at, op in zip(group, ops, strict=True)]
        runs.append(Run(sites, list(itertools.starmap(pair_of, itertools.pairwise(ops)))))
    return runs, total


def _neighbours(code: dict[int, Op]) -> list[list[int]]:
    groups: list[list[int]] = []
    end = -1
    for at in sorted(code):
        if at != end:
            groups.append([])
        groups[-1].append(at)
        end = at + code[at].length
    return groups


def shares(guests: list[list[Run]]) -> dict[Pair, float]:
    """Give each pair's share of executed instructions, guests weighted equally."""
    found: dict[Pair, float] = {}
    for runs in guests:
        for run in runs:
            for site, pair in zip(run.sites, run.pairs, strict=False):
                found[pair] = found.get(pair, 0.0) + site.falls / len(guests)
    return found


def choose(guests: list[list[Run]], count: int) -> list[tuple[Pair, float]]:
    """Pick pairs one by one, each time the one that saves most dispatches given those already picked."""
    runs = [run for guest in guests for run in guest]
    places: dict[Pair, list[int]] = {}
    for index, run in enumerate(runs):
        for pair in set(run.pairs):
            places.setdefault(pair, []).append(index)
    picked: set[Pair] = set()
    costs = [dispatches(run, picked) for run in runs]
    chosen: list[tuple[Pair, float]] = []
    while len(chosen) < count:
        best, gain = _best(runs, places, costs, picked)
        if best is None:
            break
        picked.add(best)
        for index in places[best]:
            costs[index] = dispatches(runs[index], picked)
        chosen.append((best, gain / len(guests)))
    return chosen


def _best(
    runs: list[Run], places: dict[Pair, list[int]], costs: list[float], picked: set[Pair]
) -> tuple[Pair | None, float]:
    bounds: dict[Pair, float] = {}
    for run in runs:
        dispatches(run, picked, bounds)
    best: Pair | None = None
    gain = 0.0
    for pair in sorted(bounds, key=bounds.__getitem__, reverse=True):
        if bounds[pair] <= gain:
            break
        saved = sum(costs[index] - dispatches(runs[index], picked | {pair}) for index in places[pair])
        if saved > gain:
            best, gain = pair, saved
    return best, gain


def dispatches(run: Run, picked: set[Pair], bounds: dict[Pair, float] | None = None) -> float:
    """Give the handlers entered in one run of code, as a share of the guest's instructions.

    Follows the interpreter: a site that is entered runs fused with the next one if the pair was picked,
    and the next is then not entered from it. With `bounds`, also adds there what each other pair could save.
    """
    entered = 0.0
    inside = 0.0  # share of this site that ran as the second half of a fused pair
    ended = 0.0  # share of the previous site that ended a handler
    for i, site in enumerate(run.sites):
        previous = run.sites[i - 1] if i else None
        fell = previous.falls if previous else 0.0
        here = site.share - fell + (ended * fell / previous.share if previous else 0.0)
        entered += here
        pair = run.pairs[i] if i < len(run.pairs) else None
        if pair is not None and pair in picked:
            ended, inside = inside, here
            continue
        if bounds is not None and pair is not None and fusable(pair):
            bounds[pair] = bounds.get(pair, 0.0) + here
        ended, inside = here + inside, 0.0
    return entered


def main() -> None:
    """Profile the tuning guests, write both rankings as JSON and print the head of the second."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, help="every pair: [first, second, link, share], best first")
    parser.add_argument("--choice", type=Path, help="the order of choice: [first, second, link, saved]")
    parser.add_argument("--count", type=int, default=400, help="length of the order of choice")
    chosen = parser.parse_args()
    guests = []
    for name in kernels("tuning"):
        runs, total = profile(name)
        print(f"{name}: {total} instructions")
        guests.append(runs)
    ranking = sorted(shares(guests).items(), key=lambda item: -item[1])
    order = choose(guests, chosen.count)
    _write(chosen.output, ranking)
    _write(chosen.choice, order)
    _report(order)


def _write(path: Path | None, rows: list[tuple[Pair, float]]) -> None:
    if path is not None:
        lines = ",\n".join(f"  {json.dumps([*pair, share])}" for pair, share in rows)
        lines = ",\n".join(f"  {json.dumps([*pair, share])}" for pair, share in rows)
        path.write_text(f"[\n{lines}\n]\n")


def _report(order: list[tuple[Pair, float]]) -> None:
    saved = 0.0
    for rank, (pair, share) in enumerate(order, 1):
        saved += share
        if rank <= 20 or rank % 50 == 0:
            print(f"{rank:4} {pair.first:>6} {pair.second:<6} {pair.link} {share:7.2%} in all {saved:7.2%}")


if __name__ == "__main__":
    main()
