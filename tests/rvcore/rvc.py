"""The 16-bit encodings of RV64C, expanded by hand from the manual's chapter on the C extension.

This file owns what each of the 49,152 compressed encodings means: the instruction that it expands to, a HINT
(which executes as its expansion, with no visible effect), or reserved. RV64IMAC has no F and D, so the
floating-point loads and stores are as illegal as the reserved code points, and so are Zcb's and Zcmop's.
"""

from __future__ import annotations

import enum
import functools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from .isa import Instruction, field, signed

if TYPE_CHECKING:
    from collections.abc import Callable

RA, SP = 1, 2


class Kind(enum.Enum):
    """How the manual classes an encoding."""

    LEGAL = "legal"
    HINT = "hint"
    ILLEGAL = "illegal"


@dataclass(frozen=True, slots=True)
class Expansion:
    """One compressed encoding explained."""

    name: str
    kind: Kind
    instruction: Instruction | None = None


def _expand(name: str, mnemonic: str, *, hint: bool = False, **fields: int) -> Expansion:
    instruction = replace(Instruction(mnemonic, **fields), length=2)
    return Expansion(name, Kind.HINT if hint else Kind.LEGAL, instruction)


def _illegal(name: str) -> Expansion:
    return Expansion(name, Kind.ILLEGAL)


def _gather(half: int, *places: tuple[int, int, int]) -> int:
    """Collect an immediate: each place is (high, low, bit of the immediate where `low` belongs)."""
    return sum(field(half, high, low) << target for high, low, target in places)


def _rd_short(half: int) -> int:
    return field(half, 4, 2) + 8


def _rs1_short(half: int) -> int:
    return field(half, 9, 7) + 8


def _imm6(half: int) -> int:
    return signed(_gather(half, (12, 12, 5), (6, 2, 0)), 6)


def _shamt(half: int) -> int:
    return _gather(half, (12, 12, 5), (6, 2, 0))


def _word_offset(half: int) -> int:
    return _gather(half, (12, 10, 3), (6, 6, 2), (5, 5, 6))


def _double_offset(half: int) -> int:
    return _gather(half, (12, 10, 3), (6, 5, 6))


# Quadrant 0


def _addi4spn(half: int) -> Expansion:
    imm = _gather(half, (12, 11, 4), (10, 7, 6), (6, 6, 2), (5, 5, 3))
    if imm == 0:
        # All bits zero is the one that is defined to be illegal for ever; the others are reserved.
        return _illegal("c.unimp" if half == 0 else "reserved (c.addi4spn)")
    return _expand("c.addi4spn", "addi", rd=_rd_short(half), rs1=SP, imm=imm)


def _lw(half: int) -> Expansion:
    return _expand("c.lw", "lw", rd=_rd_short(half), rs1=_rs1_short(half), imm=_word_offset(half))


def _ld(half: int) -> Expansion:
    return _expand("c.ld", "ld", rd=_rd_short(half), rs1=_rs1_short(half), imm=_double_offset(half))


def _sw(half: int) -> Expansion:
    return _expand("c.sw", "sw", rs2=_rd_short(half), rs1=_rs1_short(half), imm=_word_offset(half))


def _sd(half: int) -> Expansion:
    return _expand("c.sd", "sd", rs2=_rd_short(half), rs1=_rs1_short(half), imm=_double_offset(half))


# Quadrant 1


def _addi(half: int) -> Expansion:
    rd, imm = field(half, 11, 7), _imm6(half)
    if rd == 0:
        return _expand("c.nop", "addi", hint=imm != 0, imm=imm)
    return _expand("c.addi", "addi", hint=imm == 0, rd=rd, rs1=rd, imm=imm)


def _addiw(half: int) -> Expansion:
    rd = field(half, 11, 7)
    if rd == 0:
        return _illegal("reserved (c.addiw)")
    return _expand("c.addiw", "addiw", rd=rd, rs1=rd, imm=_imm6(half))


def _li(half: int) -> Expansion:
    rd = field(half, 11, 7)
    return _expand("c.li", "addi", hint=rd == 0, rd=rd, imm=_imm6(half))


def _lui_or_addi16sp(half: int) -> Expansion:
    rd = field(half, 11, 7)
    if _imm6(half) == 0:
        # Reserved whatever rd is, rd=x0 included (Zcmop's c.mop.n live in the odd ones).
        return _illegal("reserved (c.addi16sp)" if rd == SP else "reserved (c.lui)")
    if rd == SP:
        imm = signed(_gather(half, (12, 12, 9), (6, 6, 4), (5, 5, 6), (4, 3, 7), (2, 2, 5)), 10)
        return _expand("c.addi16sp", "addi", rd=SP, rs1=SP, imm=imm)
    return _expand("c.lui", "lui", hint=rd == 0, rd=rd, imm=_imm6(half) << 12)


def _register_arithmetic(half: int) -> Expansion:
    row = ("sub", "xor", "or", "and", "subw", "addw", None, None)
    mnemonic = row[field(half, 12, 12) << 2 | field(half, 6, 5)]
    if mnemonic is None:
        return _illegal("reserved (100 1 11 1x)")
    rd = _rs1_short(half)
    return _expand(f"c.{mnemonic}", mnemonic, rd=rd, rs1=rd, rs2=_rd_short(half))


def _misc_alu(half: int) -> Expansion:
    rd, funct2 = _rs1_short(half), field(half, 11, 10)
    if funct2 == 0b00:
        return _expand("c.srli", "srli", hint=_shamt(half) == 0, rd=rd, rs1=rd, imm=_shamt(half))
    if funct2 == 0b01:
        return _expand("c.srai", "srai", hint=_shamt(half) == 0, rd=rd, rs1=rd, imm=_shamt(half))
    if funct2 == 0b10:
        return _expand("c.andi", "andi", rd=rd, rs1=rd, imm=_imm6(half))
    return _register_arithmetic(half)


def _j(half: int) -> Expansion:
    places = ((12, 12, 11), (11, 11, 4), (10, 9, 8), (8, 8, 10), (7, 7, 6), (6, 6, 7), (5, 3, 1), (2, 2, 5))
    return _expand("c.j", "jal", imm=signed(_gather(half, *places), 12))


def _branch(mnemonic: str) -> Callable[[int], Expansion]:
    def form(half: int) -> Expansion:
        imm = signed(_gather(half, (12, 12, 8), (11, 10, 3), (6, 5, 6), (4, 3, 1), (2, 2, 5)), 9)
        return _expand(f"c.{mnemonic}z", mnemonic, rs1=_rs1_short(half), imm=imm)

    return form


# Quadrant 2


def _slli(half: int) -> Expansion:
    rd, shamt = field(half, 11, 7), _shamt(half)
    return _expand("c.slli", "slli", hint=rd == 0 or shamt == 0, rd=rd, rs1=rd, imm=shamt)


def _lwsp(half: int) -> Expansion:
    rd = field(half, 11, 7)
    if rd == 0:
        return _illegal("reserved (c.lwsp)")
    return _expand("c.lwsp", "lw", rd=rd, rs1=SP, imm=_gather(half, (12, 12, 5), (6, 4, 2), (3, 2, 6)))


def _ldsp(half: int) -> Expansion:
    rd = field(half, 11, 7)
    if rd == 0:
        return _illegal("reserved (c.ldsp)")
    return _expand("c.ldsp", "ld", rd=rd, rs1=SP, imm=_gather(half, (12, 12, 5), (6, 5, 3), (4, 2, 6)))


def _jumps_and_moves(half: int) -> Expansion:
    rd, rs2, high = field(half, 11, 7), field(half, 6, 2), field(half, 12, 12)
    if rs2 and high:
        return _expand("c.add", "add", hint=rd == 0, rd=rd, rs1=rd, rs2=rs2)
    if rs2:
        return _expand("c.mv", "add", hint=rd == 0, rd=rd, rs2=rs2)
    if rd and high:
        return _expand("c.jalr", "jalr", rd=RA, rs1=rd)
    if rd:
        return _expand("c.jr", "jalr", rs1=rd)
    return _expand("c.ebreak", "ebreak") if high else _illegal("reserved (c.jr)")


def _swsp(half: int) -> Expansion:
    return _expand("c.swsp", "sw", rs2=field(half, 6, 2), rs1=SP, imm=_gather(half, (12, 9, 2), (8, 7, 6)))


def _sdsp(half: int) -> Expansion:
    return _expand("c.sdsp", "sd", rs2=field(half, 6, 2), rs1=SP, imm=_gather(half, (12, 10, 3), (9, 7, 6)))


_FORMS: dict[tuple[int, int], Callable[[int], Expansion]] = {
    (0, 0b000): _addi4spn,
    (0, 0b010): _lw,
    (0, 0b011): _ld,
    (0, 0b110): _sw,
    (0, 0b111): _sd,
    (1, 0b000): _addi,
    (1, 0b001): _addiw,
    (1, 0b010): _li,
    (1, 0b011): _lui_or_addi16sp,
    (1, 0b100): _misc_alu,
    (1, 0b101): _j,
    (1, 0b110): _branch("beq"),
    (1, 0b111): _branch("bne"),
    (2, 0b000): _slli,
    (2, 0b010): _lwsp,
    (2, 0b011): _ldsp,
    (2, 0b100): _jumps_and_moves,
    (2, 0b110): _swsp,
    (2, 0b111): _sdsp,
}
_FOREIGN = {
    (0, 0b001): "c.fld (D)",
    (0, 0b100): "reserved (Zcb)",
    (0, 0b101): "c.fsd (D)",
    (2, 0b001): "c.fldsp (D)",
    (2, 0b101): "c.fsdsp (D)",
}


@functools.lru_cache(maxsize=1 << 16)
def expand(half: int) -> Expansion:
    """Explain one 16-bit encoding.

    Raises:
        ValueError: the two low bits say that this is no compressed instruction.
    """
    quadrant, funct3 = field(half, 1, 0), field(half, 15, 13)
    if quadrant == 3:
        raise ValueError(f"0x{half:04x} is the start of a longer instruction")
    form = _FORMS.get((quadrant, funct3))
    return form(half) if form else _illegal(_FOREIGN[quadrant, funct3])


ALL_ENCODINGS = tuple(half for half in range(1 << 16) if half & 3 != 3)
