"""Every ordered pair of instructions, run on rvcore as the fast loop runs it and compared with the oracle.

rvcore picks a handler by looking at an instruction and the one or two after it (fusion, forwarding), so a
fault may show in one neighbourhood only. A case is `before; first; second; after; ebreak`, entered at
`first` (or in the middle of the pair), with the second reading the first's result, its base, or neither.
Pairs that rvcore fuses are drawn several times in just the shape that fuses.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest

from rvcore._pairs import PAIRS

from .encode import assemble_line, encode
from .isa import BY_MNEMONIC
from .machines import OracleRun, RvcoreRun, beyond_compare
from .state import CODE, DATA, difference

RA, SP, T0, S0, S1, T6 = 1, 2, 5, 8, 9, 31
_PSEUDO = ("mv", "li", "ret", "j")
NAMES = [*(name for name in BY_MNEMONIC if name != "ecall"), *_PSEUDO]
_DRAW = random.Random(6889)
_MEMORY = _DRAW.randbytes(2 * 4096)
_STUB = 20
_FUEL = 60

# Bases that hit data, t6 (where the stub is entered), ra and t0 (an ebreak at CODE), edge values, and noise.
_VALUES = {
    0: 0, RA: CODE, SP: DATA + 0x800, T0: CODE, S0: DATA + 0x1000, S1: DATA + 0x17F8, 10: 0, 11: 1, 12: -1,
    13: 1 << 63, 14: 0x80000000, 15: 0x7FFFFFFF, 16: 8, 17: 63,
}  # fmt: skip
REGISTERS = [_VALUES.get(number, _DRAW.getrandbits(64)) for number in range(32)]
_BASES = (SP, SP, S0, S0, S1, 11, 18)
_SOURCES = (0, RA, SP, S0, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, T6)
_DESTINATIONS = (0, RA, T0, SP, S0, 10, 11, 12, 13, 18, 19, 20, T6)


@dataclass(frozen=True)
class Case:
    """Four instructions and an ebreak; `link` says how the second's rs1 relates to the first."""

    first: str
    second: str
    link: str
    code: bytes


@dataclass
class _Operands:
    name: str
    rd: int
    rs1: int
    rs2: int
    imm: int


def _is_jump(name: str) -> bool:
    return name in {"j", "jal"} or BY_MNEMONIC.get(name, BY_MNEMONIC["add"]).format == "B"


def _is_memory(name: str) -> bool:
    form = BY_MNEMONIC[name].format if name in BY_MNEMONIC else ""
    return form in {"S", "AMO", "LR"} or (form == "I" and BY_MNEMONIC[name].match & 0x7F == 0x03)


def _immediate(draw: random.Random, name: str) -> int:
    form = BY_MNEMONIC[name].format if name in BY_MNEMONIC else name
    if _is_jump(name):
        return draw.choice((4, 8, 8, 0, -4, -8))
    if form in {"SHIFT6", "SHIFT5"}:
        return draw.randrange(64 if form == "SHIFT6" else 32)
    if form == "U":
        return draw.choice((0, 0x1000, -0x1000, 0x7FFFF000, -0x80000000, 0x100000))
    if name == "jalr":
        return draw.choice((0, 4, 8, 9, 12))
    if form in {"I", "S", "li"}:
        return draw.choice((0, 1, -1, 8, 16, 3, 2047, -2048))
    return 0


def _operands(draw: random.Random, name: str) -> _Operands:
    """Draw one instruction on its own."""
    rs1 = draw.choice(_BASES if _is_memory(name) else (T6, T6, RA, T0) if name == "jalr" else _SOURCES)
    return _Operands(name, draw.choice(_DESTINATIONS), rs1, draw.choice(_SOURCES), _immediate(draw, name))


def _word(op: _Operands) -> bytes:
    if op.name in BY_MNEMONIC:
        form = BY_MNEMONIC[op.name].format
        imm = op.imm if form not in {"R", "AMO", "LR", "NONE"} else 0
        return encode(op.name, op.rd, op.rs1, op.rs2, imm).to_bytes(4, "little")
    name, *fields = {
        "mv": ("addi", op.rd, op.rs1, 0, 0),
        "li": ("addi", op.rd, 0, 0, op.imm),
        "ret": ("jalr", 0, RA, 0, 0),
        "jr": ("jalr", 0, op.rs1, 0, 0),
        "j": ("jal", 0, 0, 0, op.imm),
    }[op.name]
    return encode(str(name), *map(int, fields)).to_bytes(4, "little")


def draw_case(draw: random.Random, first: str, second: str, link: str) -> Case:
    """Draw operands so that the second's rs1 is the first's result (f), its rs1 (k), or anything (l)."""
    a, b, after = _operands(draw, first), _operands(draw, second), _operands(draw, draw.choice(NAMES))
    if link == "f":
        a.rd = a.rd or 18
        b.rs1 = a.rd
    elif link == "k":
        b.rs1 = a.rs1
    if draw.random() < 0.3:
        b.rs2 = a.rd
    if b.name in {"slt", "add", "xor"} and draw.random() < 0.3:
        b.rs1, b.rs2 = b.rs2, b.rs1
    after.rs1 = draw.choice((b.rd, b.rs1, a.rd, after.rs1))
    words = (_operands(draw, draw.choice(("add", "xor", "li"))), a, b, after)
    return Case(first, second, link, b"".join(map(_word, words)) + assemble_line("ebreak"))


def _mismatches(cases: list[Case]) -> list[str]:
    """Run each case from its first, and from its second instruction; say which differ."""
    out = []
    code = assemble_line("ebreak") + b"".join(case.code for case in cases)
    oracle = OracleRun(code, REGISTERS, _MEMORY)
    with RvcoreRun(code, REGISTERS, _MEMORY) as machine:
        for index, case in enumerate(cases):
            for entry in (4, 8):
                place = CODE + 4 + _STUB * index + entry
                expected = oracle.run_at(place, _FUEL)
                if beyond_compare(expected):
                    continue
                found = difference(expected, machine.run_at(place, _FUEL))
                if found:
                    which = f"{case.first}; {case.second} ({case.link}) {case.code.hex()} at +{entry}"
                    out.append(f"{which}: {found}")
    return out


def _pairs_of(draw: random.Random, firsts: list[str]) -> list[Case]:
    return [draw_case(draw, first, second, draw.choice("fkl")) for first in firsts for second in NAMES]


@pytest.mark.parametrize("start", range(0, len(NAMES), 12))
def test_every_ordered_pair_of_instructions_agrees(start: int) -> None:
    """One draw for each pair; the draws are fixed."""
    assert _mismatches(_pairs_of(random.Random(start), NAMES[start : start + 12])) == []


@pytest.mark.core
def test_every_fused_pair_agrees_in_the_shape_that_fuses() -> None:
    """Three draws for each pair of rvcore's list, whose mnemonics have underscores for dots."""
    draw = random.Random(52)
    named = [(first.replace("_", "."), second.replace("_", "."), link) for first, second, link in PAIRS]
    cases = [draw_case(draw, *row) for row in named for _ in range(3)]
    assert _mismatches(cases) == []


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1000, 1060))
def test_every_ordered_pair_agrees_with_many_operands(seed: int) -> None:
    """The same pairs, drawn anew for each seed."""
    draw = random.Random(seed)
    for start in range(0, len(NAMES), 12):
        assert _mismatches(_pairs_of(draw, NAMES[start : start + 12])) == [], f"seed {seed}"
