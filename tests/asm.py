"""A small RV64IMAC assembler for tests: `asm("addi a0, a0, 1; ret")` → bytes.

Statements are separated by newlines or `;`, comments start with `#`. It knows every RV64IMAC instruction
and compressed form (written `c.…`, never chosen by itself), the usual pseudo-instructions, labels,
`.byte .half .word .dword .zero .align`, and `insn NUMBER` for a raw encoding. Nothing here is shared with
the decoder or the disassembler under test.

    asm(text, base) → bytes        word(text, pc) → the number of one instruction
    assemble(text, base) → (bytes, labels)
"""

# ruff: noqa: PLR0911 - each kind of statement is one return

from __future__ import annotations

import re
from collections.abc import Callable

from asm_compressed import compressed
from asm_fields import (
    AsmError,
    Labels,
    Statement,
    b_type,
    fit,
    i_type,
    j_type,
    r_type,
    reg,
    s_type,
    u_type,
)

R_TYPE = {
    "add": (0x33, 0, 0), "sub": (0x33, 0, 0x20), "sll": (0x33, 1, 0), "slt": (0x33, 2, 0),
    "sltu": (0x33, 3, 0), "xor": (0x33, 4, 0), "srl": (0x33, 5, 0), "sra": (0x33, 5, 0x20),
    "or": (0x33, 6, 0), "and": (0x33, 7, 0), "addw": (0x3B, 0, 0), "subw": (0x3B, 0, 0x20),
    "sllw": (0x3B, 1, 0), "srlw": (0x3B, 5, 0), "sraw": (0x3B, 5, 0x20), "mul": (0x33, 0, 1),
    "mulh": (0x33, 1, 1), "mulhsu": (0x33, 2, 1), "mulhu": (0x33, 3, 1), "div": (0x33, 4, 1),
    "divu": (0x33, 5, 1), "rem": (0x33, 6, 1), "remu": (0x33, 7, 1), "mulw": (0x3B, 0, 1),
    "divw": (0x3B, 4, 1), "divuw": (0x3B, 5, 1), "remw": (0x3B, 6, 1), "remuw": (0x3B, 7, 1),
}  # fmt: skip
I_TYPE = {
    "addi": (0x13, 0), "slti": (0x13, 2), "sltiu": (0x13, 3), "xori": (0x13, 4), "ori": (0x13, 6),
    "andi": (0x13, 7), "addiw": (0x1B, 0),
}  # fmt: skip
SHIFTS = {
    "slli": (0x13, 1, 0, 64), "srli": (0x13, 5, 0, 64), "srai": (0x13, 5, 0x400, 64),
    "slliw": (0x1B, 1, 0, 32), "srliw": (0x1B, 5, 0, 32), "sraiw": (0x1B, 5, 0x400, 32),
}  # fmt: skip
LOADS = {"lb": 0, "lh": 1, "lw": 2, "ld": 3, "lbu": 4, "lhu": 5, "lwu": 6}
STORES = {"sb": 0, "sh": 1, "sw": 2, "sd": 3}
BRANCHES = {"beq": 0, "bne": 1, "blt": 4, "bge": 5, "bltu": 6, "bgeu": 7}
SWAPPED = {"bgt": "blt", "ble": "bge", "bgtu": "bltu", "bleu": "bgeu"}
AGAINST_ZERO = {"beqz": "beq", "bnez": "bne", "bltz": "blt", "bgez": "bge"}
ZERO_AGAINST = {"blez": "bge", "bgtz": "blt"}
ATOMICS = {
    "lr": 2, "sc": 3, "amoswap": 1, "amoadd": 0, "amoxor": 4, "amoand": 12, "amoor": 8,
    "amomin": 16, "amomax": 20, "amominu": 24, "amomaxu": 28,
}  # fmt: skip
FIXED = {
    "ecall": 0x73, "ebreak": 0x100073, "unimp": 0xC0001073, "nop": 0x13, "ret": 0x8067, "fence": 0x0FF0000F,
    "fence.i": 0x100F, "fence.tso": 0x8330000F, "pause": 0x0100000F,
    "c.nop": 0x0001, "c.ebreak": 0x9002, "c.unimp": 0x0000,
}  # fmt: skip


def _standard(at: Statement) -> int | None:
    """Encode a 32-bit instruction."""
    name = at.name
    if name in R_TYPE:
        opcode, kind, group = R_TYPE[name]
        rd, rs1, rs2 = map(reg, at.take(3))
        return r_type(opcode, kind, group, rd, rs1, rs2)
    if name in I_TYPE:
        rd, rs1, value = at.take(3)
        return i_type(*I_TYPE[name], reg(rd), reg(rs1), at.number(value))
    if name in SHIFTS:
        opcode, kind, high, width = SHIFTS[name]
        rd, rs1, amount = at.take(3)
        shift = fit(at.number(amount), 6 if width == 64 else 5, signed=False)
        return i_type(opcode, kind, reg(rd), reg(rs1), 0) | (high | shift) << 20
    if name in LOADS:
        rd, place = at.take(2)
        value, base = at.memory(place)
        return i_type(0x03, LOADS[name], reg(rd), reg(base), value)
    if name in STORES:
        rs2, place = at.take(2)
        value, base = at.memory(place)
        return s_type(0x23, STORES[name], reg(base), reg(rs2), value)
    if name in {"lui", "auipc"}:
        rd, value = at.take(2)
        return u_type(0x37 if name == "lui" else 0x17, reg(rd), at.number(value))
    return _control(at) or _atomic(at)


def _control(at: Statement) -> int | None:
    name = at.name
    if name in BRANCHES or name in SWAPPED:
        rs1, rs2, target = at.take(3)
        if name in SWAPPED:
            rs1, rs2 = rs2, rs1
        return b_type(BRANCHES[SWAPPED.get(name, name)], reg(rs1), reg(rs2), at.offset(target))
    if name in AGAINST_ZERO or name in ZERO_AGAINST:
        register, target = at.take(2)
        pair = (reg(register), 0) if name in AGAINST_ZERO else (0, reg(register))
        base = AGAINST_ZERO.get(name) or ZERO_AGAINST[name]
        return b_type(BRANCHES[base], *pair, at.offset(target))
    if name in {"jal", "j"}:
        implied = {"jal": "ra", "j": "zero"}[name]
        rd, target = at.operands if len(at.operands) == 2 else (implied, *at.take(1))
        return j_type(reg(rd), at.offset(target))
    if name in {"jalr", "jr"}:
        return _jump_register(at)
    if name == "fence" and at.operands:
        before, after = (
            sum({"i": 8, "o": 4, "r": 2, "w": 1}[letter] for letter in text) for text in at.take(2)
        )
        return before << 24 | after << 20 | 0x0F
    return None


def _jump_register(at: Statement) -> int:
    operands = list(at.operands)
    rd = 0 if at.name == "jr" else 1
    if len(operands) == 3:
        rd, base, value = reg(operands[0]), operands[1], at.number(operands[2])
        return i_type(0x67, 0, rd, reg(base), value)
    if len(operands) == 2:
        rd = reg(operands.pop(0))
    value, base = at.memory(operands[0]) if "(" in operands[0] else (0, operands[0])
    return i_type(0x67, 0, rd, reg(base), value)


def _atomic(at: Statement) -> int | None:
    found = re.fullmatch(r"(\w+)\.([wd])(?:\.(aq|rl|aqrl))?", at.name)
    if found is None or found[1] not in ATOMICS:
        return None
    order = {None: 0, "rl": 1, "aq": 2, "aqrl": 3}[found[3]]
    group = ATOMICS[found[1]] << 2 | order
    kind = {"w": 2, "d": 3}[found[2]]
    if found[1] == "lr":
        rd, place = at.take(2)
        return r_type(0x2F, kind, group, reg(rd), reg(at.memory(place)[1]), 0)
    rd, rs2, place = at.take(3)
    return r_type(0x2F, kind, group, reg(rd), reg(at.memory(place)[1]), reg(rs2))


def _pseudo(at: Statement) -> list[int] | None:
    """Encode a pseudo-instruction as one or more instructions."""
    name, ops = at.name, at.operands
    unary: dict[str, Callable[[int, int], int]] = {
        "mv": lambda rd, rs: i_type(0x13, 0, rd, rs, 0),
        "not": lambda rd, rs: i_type(0x13, 4, rd, rs, -1),
        "neg": lambda rd, rs: r_type(0x33, 0, 0x20, rd, 0, rs),
        "negw": lambda rd, rs: r_type(0x3B, 0, 0x20, rd, 0, rs),
        "sext.w": lambda rd, rs: i_type(0x1B, 0, rd, rs, 0),
        "seqz": lambda rd, rs: i_type(0x13, 3, rd, rs, 1),
        "snez": lambda rd, rs: r_type(0x33, 3, 0, rd, 0, rs),
        "sltz": lambda rd, rs: r_type(0x33, 2, 0, rd, rs, 0),
        "sgtz": lambda rd, rs: r_type(0x33, 2, 0, rd, 0, rs),
    }
    if name in unary:
        rd, rs = map(reg, at.take(2))
        return [unary[name](rd, rs)]
    if name == "li":
        rd, value = at.take(2)
        return load_immediate(reg(rd), at.number(value))
    if name in {"la", "lla"}:
        rd, target = at.take(2)
        high, low = split(at.offset(target))
        return [u_type(0x17, reg(rd), high), i_type(0x13, 0, reg(rd), reg(rd), low)]
    if name in {"call", "tail"}:
        link, scratch = (1, 1) if name == "call" else (0, 6)
        high, low = split(at.offset(ops[0]))
        return [u_type(0x17, scratch, high), i_type(0x67, 0, link, scratch, low)]
    return None


def split(value: int) -> tuple[int, int]:
    """Split a 32-bit displacement into the parts for auipc or lui, and for addi."""
    low = (value + 0x800) % 0x1000 - 0x800
    return (value - low) >> 12, low


def load_immediate(rd: int, value: int) -> list[int]:
    """Encode `li` of any 64-bit value; a small one takes one instruction."""
    value = (value + (1 << 63)) % (1 << 64) - (1 << 63)
    if -2048 <= value < 2048:
        return [i_type(0x13, 0, rd, 0, value)]
    if -(1 << 31) <= value < 1 << 31:
        high, low = split(value)
        high = (high + (1 << 19)) % (1 << 20) - (1 << 19)
        first = u_type(0x37, rd, high)
        return [first, i_type(0x1B, 0, rd, rd, low)] if low else [first]
    low = (value + 0x800) % 0x1000 - 0x800
    rest, shift = (value - low) >> 12, 12
    while rest & 1 == 0:
        rest, shift = rest >> 1, shift + 1
    steps = [*load_immediate(rd, rest), i_type(0x13, 1, rd, rd, shift)]
    return [*steps, i_type(0x13, 0, rd, rd, low)] if low else steps


_DATA = {".byte": 1, ".half": 2, ".word": 4, ".dword": 8}


def _encode(text: str, pc: int, labels: Labels | None) -> bytes:
    """Encode one statement; with labels None only its length is right."""
    name, _, rest = text.partition(" ")
    operands = [part.strip() for part in rest.split(",")] if rest.strip() else []
    at = Statement(name.lower(), operands, pc, labels)
    if at.name in _DATA:
        size = _DATA[at.name]
        mask = (1 << 8 * size) - 1
        return b"".join((at.number(value) & mask).to_bytes(size, "little") for value in operands)
    if at.name == ".zero":
        return bytes(at.number(operands[0]))
    if at.name == ".align":
        return bytes(-pc % (1 << at.number(operands[0])))
    if at.name == "insn":
        number = at.number(operands[0])
        return number.to_bytes(4 if number & 3 == 3 else 2, "little")
    if at.name in FIXED and not operands:
        size = 2 if at.name.startswith("c.") else 4
        return FIXED[at.name].to_bytes(size, "little")
    if at.name.startswith("c."):
        half = compressed(at)
        if half is not None:
            return half.to_bytes(2, "little")
    words = _pseudo(at)
    if words is None:
        single = _standard(at)
        words = None if single is None else [single]
    if words is None:
        raise AsmError(f"no instruction: {text!r}")
    return b"".join(number.to_bytes(4, "little") for number in words)


def _statements(text: str) -> list[str]:
    lines = [line.split("#")[0] for line in text.splitlines()]
    return [" ".join(part.split()) for line in lines for part in line.split(";") if part.strip()]


def assemble(text: str, base: int = 0x10000, labels: Labels | None = None) -> tuple[bytes, Labels]:
    """Return the bytes of a program at base, and its labels; more labels may be given."""
    known = dict(labels or {})
    pc = base
    for statement in _statements(text):
        while (found := re.match(r"([\w.$]+):\s*", statement)) is not None:
            known[found[1]] = pc
            statement = statement[found.end() :]  # noqa: PLW2901 - labels come off the front
        if statement:
            # `li` takes numbers only, so that no length depends on a label.
            pc += len(_encode(statement, pc, None))
    out = bytearray()
    for statement in _statements(text):
        statement = re.sub(r"^(?:[\w.$]+:\s*)+", "", statement)  # noqa: PLW2901 - as above
        if statement:
            out += _encode(statement, base + len(out), known)
    return bytes(out), known


def asm(text: str, base: int = 0x10000) -> bytes:
    """Return the bytes of a program at base."""
    return assemble(text, base)[0]


def word(text: str, pc: int = 0) -> int:
    """Return the encoding of one instruction as a number."""
    return int.from_bytes(_encode(" ".join(text.split()), pc, {}), "little")
