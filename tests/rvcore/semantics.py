"""What each RV64IMA instruction computes, as plain functions on Python integers.

Registers are unsigned 64-bit numbers, `s64` reads one as two's complement, and results are cut to 64 bits by
the hart. This file owns arithmetic only; memory, jumps and traps are in `hart.py`.
"""

from __future__ import annotations

from collections.abc import Callable

from .isa import signed

MASK = (1 << 64) - 1


def s64(value: int) -> int:
    """Read a register as a signed doubleword."""
    return signed(value, 64)


def s32(value: int) -> int:
    """Read the low word of a register as signed, which is also how W results are written back."""
    return signed(value, 32)


def u32(value: int) -> int:
    """Read the low word of a register as unsigned."""
    return value & 0xFFFFFFFF


def _div(dividend: int, divisor: int) -> int:
    """Divide towards zero; by zero gives -1 (manual, "Semantics for division by zero")."""
    if divisor == 0:
        return -1
    quotient = abs(dividend) // abs(divisor)
    return -quotient if (dividend < 0) != (divisor < 0) else quotient


def _rem(dividend: int, divisor: int) -> int:
    """Give the remainder with the sign of the dividend; by zero it is the dividend."""
    if divisor == 0:
        return dividend
    remainder = abs(dividend) % abs(divisor)
    return -remainder if dividend < 0 else remainder


Binary = Callable[[int, int], int]

# The second operand is rs2 or the immediate, already sign-extended; both are given modulo 2**64.
ALU: dict[str, Binary] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "sll": lambda a, b: a << (b & 63),
    "slt": lambda a, b: int(s64(a) < s64(b)),
    "sltu": lambda a, b: int(a < b),
    "xor": lambda a, b: a ^ b,
    "srl": lambda a, b: a >> (b & 63),
    "sra": lambda a, b: s64(a) >> (b & 63),
    "or": lambda a, b: a | b,
    "and": lambda a, b: a & b,
    "addw": lambda a, b: s32(a + b),
    "subw": lambda a, b: s32(a - b),
    "sllw": lambda a, b: s32(a << (b & 31)),
    "srlw": lambda a, b: s32(u32(a) >> (b & 31)),
    "sraw": lambda a, b: s32(a) >> (b & 31),
    "mul": lambda a, b: a * b,
    "mulh": lambda a, b: s64(a) * s64(b) >> 64,
    "mulhsu": lambda a, b: s64(a) * b >> 64,
    "mulhu": lambda a, b: a * b >> 64,
    "div": lambda a, b: _div(s64(a), s64(b)),
    # Unsigned by zero: all 64 bits set; _div's -1 is that after cutting.
    "divu": _div,
    "rem": lambda a, b: _rem(s64(a), s64(b)),
    "remu": _rem,
    "mulw": lambda a, b: s32(a * b),
    "divw": lambda a, b: s32(_div(s32(a), s32(b))),
    "divuw": lambda a, b: s32(_div(u32(a), u32(b))),
    "remw": lambda a, b: s32(_rem(s32(a), s32(b))),
    "remuw": lambda a, b: s32(_rem(u32(a), u32(b))),
}

IMMEDIATE: dict[str, Binary] = {
    "addi": ALU["add"],
    "slti": ALU["slt"],
    "sltiu": ALU["sltu"],
    "xori": ALU["xor"],
    "ori": ALU["or"],
    "andi": ALU["and"],
    "slli": ALU["sll"],
    "srli": ALU["srl"],
    "srai": ALU["sra"],
    "addiw": ALU["addw"],
    "slliw": ALU["sllw"],
    "srliw": ALU["srlw"],
    "sraiw": ALU["sraw"],
}

BRANCH: dict[str, Callable[[int, int], bool]] = {
    "beq": lambda a, b: a == b,
    "bne": lambda a, b: a != b,
    "blt": lambda a, b: s64(a) < s64(b),
    "bge": lambda a, b: s64(a) >= s64(b),
    "bltu": lambda a, b: a < b,
    "bgeu": lambda a, b: a >= b,
}

# Mnemonic to (bytes, sign-extends).
LOAD: dict[str, tuple[int, bool]] = {
    "lb": (1, True),
    "lh": (2, True),
    "lw": (4, True),
    "ld": (8, True),
    "lbu": (1, False),
    "lhu": (2, False),
    "lwu": (4, False),
}
STORE: dict[str, int] = {"sb": 1, "sh": 2, "sw": 4, "sd": 8}

# Both operands come sign-extended from the access width, so that min and max are Python's own; the unsigned
# pair compares the same numbers modulo 2**64, which orders sign-extended words as it orders words.
AMO: dict[str, Binary] = {
    "amoswap": lambda _old, new: new,
    "amoadd": lambda old, new: old + new,
    "amoxor": lambda old, new: old ^ new,
    "amoand": lambda old, new: old & new,
    "amoor": lambda old, new: old | new,
    "amomin": min,
    "amomax": max,
    "amominu": lambda old, new: min(old, new, key=lambda value: value & MASK),
    "amomaxu": lambda old, new: max(old, new, key=lambda value: value & MASK),
}
