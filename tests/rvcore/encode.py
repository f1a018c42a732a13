"""Instruction words from mnemonics and operands, and from one line of assembly.

The 32-bit half is the inverse of `isa.py`; the compressed half (`encode_rvc.py`) is written separately from
`rvc.py`, form by form, so that a slip in one of the two shows. A line is what objdump prints without aliases:
`addi a0, a1, -3`, `ld a0, 8(sp)`, `beq a0, a1, +8` (byte displacement), `amoadd.w.aqrl a0, a1, (a2)`,
`c.lwsp a0, 4(sp)`, `.word 0x0`, `.half 0x0`.
"""

from __future__ import annotations

import re

from .encode_rvc import compressed
from .isa import BY_MNEMONIC, Pattern

ABI_NAMES = (
    "zero", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "s0", "s1", "a0", "a1", "a2", "a3", "a4", "a5",
    "a6", "a7", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "t3", "t4", "t5", "t6",
)  # fmt: skip
REGISTERS: dict[str, int] = {name: number for number, name in enumerate(ABI_NAMES)} | {
    f"x{number}": number for number in range(32)
}

_OPERAND = re.compile(r"[^,\s()]+")
_ORDERINGS = {"": 0, ".rl": 1, ".aq": 2, ".aqrl": 3}


def _place_b(imm: int) -> int:
    return (imm >> 12 & 1) << 31 | (imm >> 5 & 0x3F) << 25 | (imm >> 1 & 0xF) << 8 | (imm >> 11 & 1) << 7


def _place_j(imm: int) -> int:
    return (imm >> 20 & 1) << 31 | (imm >> 1 & 0x3FF) << 21 | (imm >> 11 & 1) << 20 | (imm >> 12 & 0xFF) << 12


def _place_immediate(form: str, imm: int) -> int:
    if form in {"I", "SHIFT6", "SHIFT5", "FENCE"}:
        return (imm & 0xFFF) << 20
    if form == "S":
        return (imm >> 5 & 0x7F) << 25 | (imm & 0x1F) << 7
    if form == "B":
        return _place_b(imm)
    if form == "U":
        return imm & 0xFFFFF000
    if form == "J":
        return _place_j(imm)
    return 0


_RANGES = {
    "I": (-2048, 2047, 1),
    "S": (-2048, 2047, 1),
    "B": (-4096, 4094, 2),
    "J": (-(1 << 20), (1 << 20) - 2, 2),
    "U": (-(1 << 31), (1 << 31) - 4096, 4096),
    "SHIFT6": (0, 63, 1),
    "SHIFT5": (0, 31, 1),
    "FENCE": (0, 4095, 1),
}


def encode(mnemonic: str, rd: int = 0, rs1: int = 0, rs2: int = 0, imm: int = 0, ordering: int = 0) -> int:
    """Encode one 32-bit instruction; `ordering` is aq (2) and rl (1).

    Raises:
        ValueError: an immediate does not fit.
    """
    pattern = BY_MNEMONIC[mnemonic]
    low, high, step = _RANGES.get(pattern.format, (0, 0, 1))
    if not low <= imm <= high or imm % step:
        raise ValueError(f"immediate {imm} does not fit {mnemonic}")
    word = rd << 7 | rs1 << 15 | rs2 << 20 | ordering << 25 | _place_immediate(pattern.format, imm)
    return word & ~pattern.mask & 0xFFFFFFFF | pattern.match


def _number(text: str) -> int:
    return int(text.lstrip("+"), 0)


def _operands(pattern: Pattern, fields: list[str]) -> dict[str, int]:
    """Name the operands of one line, in the order that assemblers write them."""
    form, loads = pattern.format, pattern.match & 0x7F in (0x03, 0x67)
    if form in {"NONE", "FENCE"}:
        return {"imm": _number(fields[0])} if fields else {}
    if form == "S":
        return {"rs2": REGISTERS[fields[0]], "imm": _number(fields[1]), "rs1": REGISTERS[fields[2]]}
    if form == "I" and loads:
        return {"rd": REGISTERS[fields[0]], "imm": _number(fields[1]), "rs1": REGISTERS[fields[2]]}
    if form == "U":
        imm = _number(fields[1]) << 12
        return {"rd": REGISTERS[fields[0]], "imm": imm - (1 << 32) if imm >> 31 & 1 else imm}
    names = {
        "R": ("rd", "rs1", "rs2"), "B": ("rs1", "rs2", "imm"), "J": ("rd", "imm"),
        "AMO": ("rd", "rs2", "rs1"), "LR": ("rd", "rs1"),
    }.get(form, ("rd", "rs1", "imm"))  # fmt: skip
    if len(names) != len(fields):
        raise ValueError(f"{pattern.mnemonic} takes {len(names)} operands, got {fields}")
    return {
        name: _number(text) if name == "imm" else REGISTERS[text]
        for name, text in zip(names, fields, strict=True)
    }


def assemble_line(line: str) -> bytes:
    """Assemble one line.

    Raises:
        ValueError: the line is no instruction that this file knows.
    """
    mnemonic, _, rest = line.strip().partition(" ")
    fields = _OPERAND.findall(rest)
    if mnemonic in {".word", ".half"}:
        return _number(fields[0]).to_bytes(4 if mnemonic == ".word" else 2, "little")
    if mnemonic.startswith("c."):
        numbers = [REGISTERS[text] if text in REGISTERS else _number(text) for text in fields]
        return compressed(mnemonic, *numbers).to_bytes(2, "little")
    ordering = 0
    match = re.fullmatch(r"((?:lr|sc|amo\w+)\.[wd])(\.\w+)", mnemonic)
    if match:
        mnemonic, ordering = match[1], _ORDERINGS[match[2]]
    if mnemonic not in BY_MNEMONIC:
        raise ValueError(f"unknown instruction in {line!r}")
    pattern = BY_MNEMONIC[mnemonic]
    return encode(mnemonic, ordering=ordering, **_operands(pattern, fields)).to_bytes(4, "little")


def assemble(text: str) -> bytes:
    """Assemble instructions separated by semicolons or newlines."""
    lines = [line for line in re.split(r"[;\n]", text) if line.strip()]
    return b"".join(assemble_line(line) for line in lines)
