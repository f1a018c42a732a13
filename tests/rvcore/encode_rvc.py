"""Compressed instruction halfwords from mnemonics and operands, form by form as the manual draws them.

Operands come in assembly order; the file must not import `rvc.py`, whose expansion it is used to check.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def _bits(value: int, *places: tuple[int, int]) -> int:
    """Scatter bits of `value`: each place is (bit of the value, bit of the halfword)."""
    return sum((value >> source & 1) << target for source, target in places)


def _check(value: int, low: int, high: int, step: int = 1) -> None:
    if not low <= value <= high or value % step:
        raise ValueError(f"immediate {value} is outside {low}..{high} step {step}")


def _short(register: int) -> int:
    if not 8 <= register <= 15:
        raise ValueError(f"x{register} has no three-bit name")
    return register - 8


def _addi4spn(rd: int, sp: int, imm: int) -> int:
    _check(imm, 0, 1020, 4)
    _check(sp, 2, 2)
    places = ((5, 12), (4, 11), (9, 10), (8, 9), (7, 8), (6, 7), (2, 6), (3, 5))
    return 0b000 << 13 | _bits(imm, *places) | _short(rd) << 2


def _word_offset(imm: int) -> int:
    _check(imm, 0, 124, 4)
    return _bits(imm, (5, 12), (4, 11), (3, 10), (2, 6), (6, 5))


def _double_offset(imm: int) -> int:
    _check(imm, 0, 248, 8)
    return _bits(imm, (5, 12), (4, 11), (3, 10), (7, 6), (6, 5))


def _memory(funct3: int, offset: Callable[[int], int]) -> Callable[..., int]:
    def form(reg: int, imm: int, base: int) -> int:
        return funct3 << 13 | offset(imm) | _short(base) << 7 | _short(reg) << 2

    return form


def _imm6(imm: int) -> int:
    return _bits(imm, (5, 12), (4, 6), (3, 5), (2, 4), (1, 3), (0, 2))


def _ci(funct3: int, quadrant: int, *, low: int = -32, high: int = 31) -> Callable[..., int]:
    def form(rd: int, imm: int) -> int:
        _check(imm, low, high)
        return funct3 << 13 | rd << 7 | _imm6(imm) | quadrant

    return form


def _addi16sp(sp: int, imm: int) -> int:
    _check(imm, -512, 496, 16)
    _check(sp, 2, 2)
    return 0b011 << 13 | 2 << 7 | _bits(imm, (9, 12), (4, 6), (6, 5), (8, 4), (7, 3), (5, 2)) | 1


def _lui(rd: int, imm: int) -> int:
    """Take the upper 20 bits as assemblers do: 1..31 or 0xfffe0..0xfffff."""
    return 0b011 << 13 | rd << 7 | _imm6(imm) | 1


def _shift_or_and(funct2: int, *, low: int, high: int) -> Callable[..., int]:
    def form(rd: int, imm: int) -> int:
        _check(imm, low, high)
        return 0b100 << 13 | funct2 << 10 | _short(rd) << 7 | _imm6(imm) | 1

    return form


def _arithmetic(bit12: int, funct2: int) -> Callable[..., int]:
    def form(rd: int, rs2: int) -> int:
        return 0b100 << 13 | bit12 << 12 | 0b11 << 10 | _short(rd) << 7 | funct2 << 5 | _short(rs2) << 2 | 1

    return form


def _j(imm: int) -> int:
    _check(imm, -2048, 2046, 2)
    places = ((11, 12), (4, 11), (9, 10), (8, 9), (10, 8), (6, 7), (7, 6), (3, 5), (2, 4), (1, 3), (5, 2))
    return 0b101 << 13 | _bits(imm, *places) | 1


def _branch(funct3: int) -> Callable[..., int]:
    def form(rs1: int, imm: int) -> int:
        _check(imm, -256, 254, 2)
        places = ((8, 12), (4, 11), (3, 10), (7, 6), (6, 5), (2, 4), (1, 3), (5, 2))
        return funct3 << 13 | _bits(imm, *places) | _short(rs1) << 7 | 1

    return form


def _lwsp(rd: int, imm: int, sp: int) -> int:
    _check(imm, 0, 252, 4)
    _check(sp, 2, 2)
    return 0b010 << 13 | rd << 7 | _bits(imm, (5, 12), (4, 6), (3, 5), (2, 4), (7, 3), (6, 2)) | 2


def _ldsp(rd: int, imm: int, sp: int) -> int:
    _check(imm, 0, 504, 8)
    _check(sp, 2, 2)
    return 0b011 << 13 | rd << 7 | _bits(imm, (5, 12), (4, 6), (3, 5), (8, 4), (7, 3), (6, 2)) | 2


def _swsp(rs2: int, imm: int, sp: int) -> int:
    _check(imm, 0, 252, 4)
    _check(sp, 2, 2)
    return 0b110 << 13 | _bits(imm, (5, 12), (4, 11), (3, 10), (2, 9), (7, 8), (6, 7)) | rs2 << 2 | 2


def _sdsp(rs2: int, imm: int, sp: int) -> int:
    _check(imm, 0, 504, 8)
    _check(sp, 2, 2)
    return 0b111 << 13 | _bits(imm, (5, 12), (4, 11), (3, 10), (8, 9), (7, 8), (6, 7)) | rs2 << 2 | 2


def _cr(bit12: int) -> Callable[..., int]:
    def form(first: int, second: int = 0) -> int:
        return 0b100 << 13 | bit12 << 12 | first << 7 | second << 2 | 2

    return form


_FORMS: dict[str, Callable[..., int]] = {
    "c.addi4spn": _addi4spn,
    "c.lw": _memory(0b010, _word_offset),
    "c.ld": _memory(0b011, _double_offset),
    "c.sw": _memory(0b110, _word_offset),
    "c.sd": _memory(0b111, _double_offset),
    "c.nop": lambda imm=0: _ci(0b000, 1)(0, imm),
    "c.addi": _ci(0b000, 1),
    "c.addiw": _ci(0b001, 1),
    "c.li": _ci(0b010, 1),
    "c.addi16sp": _addi16sp,
    "c.lui": _lui,
    "c.srli": _shift_or_and(0b00, low=0, high=63),
    "c.srai": _shift_or_and(0b01, low=0, high=63),
    "c.andi": _shift_or_and(0b10, low=-32, high=31),
    "c.sub": _arithmetic(0, 0b00),
    "c.xor": _arithmetic(0, 0b01),
    "c.or": _arithmetic(0, 0b10),
    "c.and": _arithmetic(0, 0b11),
    "c.subw": _arithmetic(1, 0b00),
    "c.addw": _arithmetic(1, 0b01),
    "c.j": _j,
    "c.beqz": _branch(0b110),
    "c.bnez": _branch(0b111),
    "c.slli": _ci(0b000, 2, low=0, high=63),
    "c.lwsp": _lwsp,
    "c.ldsp": _ldsp,
    "c.jr": _cr(0),
    "c.mv": _cr(0),
    "c.ebreak": lambda: 0x9002,
    "c.jalr": _cr(1),
    "c.add": _cr(1),
    "c.swsp": _swsp,
    "c.sdsp": _sdsp,
    "c.unimp": lambda: 0x0000,
}


def compressed(mnemonic: str, *operands: int) -> int:
    """Encode one compressed instruction, operands in assembly order.

    Raises:
        ValueError: the mnemonic is unknown, or an operand does not fit.
    """
    if mnemonic not in _FORMS:
        raise ValueError(f"unknown compressed instruction {mnemonic}")
    return _FORMS[mnemonic](*operands)
