"""What the test assembler is made of: registers, immediate fields, instruction formats, one statement."""

from __future__ import annotations

import re

ABI = "zero ra sp gp tp t0 t1 t2 s0 s1 a0 a1 a2 a3 a4 a5 a6 a7 s2 s3 s4 s5 s6 s7 s8 s9 s10 s11 t3 t4 t5 t6"
REGISTERS = {name: number for number, name in enumerate(ABI.split(" "))}
REGISTERS |= {f"x{number}": number for number in range(32)} | {"fp": 8}

Labels = dict[str, int]


class AsmError(ValueError):
    """A statement that is no instruction, or an operand that does not fit."""


def reg(name: str) -> int:
    """Return the number of a register."""
    if name not in REGISTERS:
        raise AsmError(f"no register: {name!r}")
    return REGISTERS[name]


def short_reg(name: str) -> int:
    """Return the three-bit number of x8 … x15."""
    number = reg(name)
    if not 8 <= number <= 15:
        raise AsmError(f"not x8 to x15: {name!r}")
    return number - 8


def fit(value: int, bits: int, *, signed: bool = True, step: int = 1) -> int:
    """Return value, checked to fit a field of bits, as the field's bits."""
    low, high = (-(1 << bits - 1), 1 << bits - 1) if signed else (0, 1 << bits)
    if not low <= value < high or value % step:
        raise AsmError(f"{value} does not fit {bits} bits in steps of {step}")
    return value & ((1 << bits) - 1)


def scatter(value: int, *fields: tuple[int, int, int]) -> int:
    """Place bits high…low of value at position at, for each (high, low, at)."""
    return sum((value >> low & ((1 << high - low + 1) - 1)) << at for high, low, at in fields)


def r_type(opcode: int, kind: int, group: int, rd: int, rs1: int, rs2: int) -> int:
    return group << 25 | rs2 << 20 | rs1 << 15 | kind << 12 | rd << 7 | opcode


def i_type(opcode: int, kind: int, rd: int, rs1: int, value: int) -> int:
    return fit(value, 12) << 20 | rs1 << 15 | kind << 12 | rd << 7 | opcode


def s_type(opcode: int, kind: int, rs1: int, rs2: int, value: int) -> int:
    fields = scatter(fit(value, 12), (11, 5, 25), (4, 0, 7))
    return fields | rs2 << 20 | rs1 << 15 | kind << 12 | opcode


def b_type(kind: int, rs1: int, rs2: int, offset: int) -> int:
    fields = scatter(fit(offset, 13, step=2), (12, 12, 31), (10, 5, 25), (4, 1, 8), (11, 11, 7))
    return fields | rs2 << 20 | rs1 << 15 | kind << 12 | 0x63


def u_type(opcode: int, rd: int, value: int) -> int:
    if not -(1 << 19) <= value < 1 << 20:
        raise AsmError(f"{value} does not fit 20 bits")
    return (value & 0xFFFFF) << 12 | rd << 7 | opcode


def j_type(rd: int, offset: int) -> int:
    fields = scatter(fit(offset, 21, step=2), (20, 20, 31), (10, 1, 21), (11, 11, 20), (19, 12, 12))
    return fields | rd << 7 | 0x6F


class Statement:
    """One instruction being encoded: its operands, where it is, and the labels known."""

    def __init__(self, name: str, operands: list[str], pc: int, labels: Labels | None) -> None:
        self.name = name
        self.operands = operands
        self.pc = pc
        self.labels = labels

    def number(self, text: str) -> int:
        """Evaluate a number, a label, or a label and an offset."""
        text = text.strip()
        try:
            return int(text, 0)
        except ValueError:
            pass
        found = re.fullmatch(r"([\w.$]+)\s*(?:([+-])\s*(\w+))?", text)
        if found is None:
            raise AsmError(f"no number: {text!r}")
        if self.labels is None:
            return self.pc
        if found[1] not in self.labels:
            raise AsmError(f"no label: {found[1]!r}")
        offset = int(found[3], 0) if found[3] else 0
        return self.labels[found[1]] + (-offset if found[2] == "-" else offset)

    def offset(self, text: str) -> int:
        """Evaluate a target as a displacement: `.+8` is relative, anything else an address."""
        text = text.strip()
        if text.startswith(".") and text[1:2] in {"+", "-"}:
            return int(text[1:].replace(" ", ""), 0)
        return self.number(text) - self.pc

    def memory(self, text: str) -> tuple[int, str]:
        """Split `8(sp)` into offset and register."""
        found = re.fullmatch(r"(.*?)\s*\(\s*(\w+)\s*\)", text.strip())
        if found is None:
            raise AsmError(f"no memory operand: {text!r}")
        return (self.number(found[1]) if found[1] else 0), found[2]

    def take(self, count: int) -> list[str]:
        if len(self.operands) != count:
            raise AsmError(f"{self.name} takes {count} operands, got {self.operands}")
        return self.operands
