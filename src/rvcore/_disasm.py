"""Instruction words → text, for people: traps, refusals and listings.

Owns the names of instructions. RV64IMAC is complete, in the order of the manual; of the other extensions
it knows enough to say which instruction of which extension a word is (`_extensions` holds those). Text is
that of llvm-objdump: aliases where it uses them, a compressed instruction as the one it expands to, branch
targets as addresses. What is no instruction is `unknown`; the words that are defined to trap are `unimp`
and `c.unimp`. Nothing here decides what runs: the decoder does, and tests hold the two against each other.
"""

# ruff: noqa: PLR2004, PLR0911 - encodings are numbers, and each kind of instruction is one return

from __future__ import annotations

from collections.abc import Callable

from rvcore._compressed import expand, foreign_compressed
from rvcore._extensions import foreign
from rvcore._registers import REGISTERS

UNKNOWN = "unknown"
_UNIMP = 0xC0001073  # csrrw zero, cycle, zero: what assemblers write for unimp

_C_MV = 0x8002

_BRANCHES = {0: "beq", 1: "bne", 4: "blt", 5: "bge", 6: "bltu", 7: "bgeu"}
_LOADS = {0: "lb", 1: "lh", 2: "lw", 3: "ld", 4: "lbu", 5: "lhu", 6: "lwu"}
_STORES = {0: "sb", 1: "sh", 2: "sw", 3: "sd"}
_IMMEDIATES = {0: "addi", 2: "slti", 3: "sltiu", 4: "xori", 6: "ori", 7: "andi"}
_OPS = {
    (0, 0): "add", (0x20, 0): "sub", (0, 1): "sll", (0, 2): "slt", (0, 3): "sltu", (0, 4): "xor",
    (0, 5): "srl", (0x20, 5): "sra", (0, 6): "or", (0, 7): "and",
    (1, 0): "mul", (1, 1): "mulh", (1, 2): "mulhsu", (1, 3): "mulhu",
    (1, 4): "div", (1, 5): "divu", (1, 6): "rem", (1, 7): "remu",
}  # fmt: skip
_OPS_32 = {
    (0, 0): "addw", (0x20, 0): "subw", (0, 1): "sllw", (0, 5): "srlw", (0x20, 5): "sraw",
    (1, 0): "mulw", (1, 4): "divw", (1, 5): "divuw", (1, 6): "remw", (1, 7): "remuw",
}  # fmt: skip
_ATOMICS = {
    2: "lr", 3: "sc", 1: "amoswap", 0: "amoadd", 4: "amoxor", 12: "amoand", 8: "amoor",
    16: "amomin", 20: "amomax", 24: "amominu", 28: "amomaxu",
}  # fmt: skip
_WIDTHS = {2: "w", 3: "d"}
_ORDERS = ("", ".rl", ".aq", ".aqrl")


def instruction_length(halfword: int) -> int:
    """Return the size in bytes, 2 or 4, of the instruction whose first halfword this is."""
    return 4 if halfword & 3 == 3 else 2


def disassemble(word: int, pc: int) -> str:
    """Return the text of the instruction at pc; word is its 2 or 4 bytes, little-endian."""
    if instruction_length(word) == 2:
        return _compressed(word & 0xFFFF, pc)
    text = _standard(word, pc)
    if text is None:
        known = foreign(word)
        return known[0] if known else UNKNOWN
    return text


def extension_of(word: int) -> str | None:
    """Return the extension beyond RV64IMAC that defines a word, None where none known here does."""
    if instruction_length(word) == 2:
        known = foreign_compressed(word & 0xFFFF) if expand(word & 0xFFFF) is None else None
    else:
        known = foreign(word) if _standard(word, 0) is None else None
    return known[1] if known else None


def _compressed(half: int, pc: int) -> str:
    if half == 0:
        return "c.unimp"
    word = expand(half)
    if half & 0xF003 == _C_MV and half >> 2 & 31:  # add from zero is an alias in its short form only
        return f"mv {REGISTERS[half >> 7 & 31]}, {REGISTERS[half >> 2 & 31]}"
    if word is not None:
        return _standard(word, pc) or UNKNOWN
    known = foreign_compressed(half)
    return known[0] if known else UNKNOWN


def _standard(word: int, pc: int) -> str | None:
    """Return the text of a 32-bit RV64IMAC instruction, else None."""
    form = _FORMS.get(word & 0x7F)
    return form(word, pc) if form else None


def _rd(word: int) -> str:
    return REGISTERS[word >> 7 & 31]


def _rs1(word: int) -> str:
    return REGISTERS[word >> 15 & 31]


def _rs2(word: int) -> str:
    return REGISTERS[word >> 20 & 31]


def _funct3(word: int) -> int:
    return word >> 12 & 7


def signed(value: int, bits: int) -> int:
    """Return the low bits of value as a signed number."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def immediate_i(word: int) -> int:
    """Return the immediate of an I-type word."""
    return signed(word >> 20, 12)


def immediate_s(word: int) -> int:
    """Return the immediate of an S-type word."""
    return signed(word >> 25 << 5 | word >> 7 & 31, 12)


def immediate_b(word: int) -> int:
    """Return the displacement of a branch."""
    raw = word >> 31 << 12 | (word >> 7 & 1) << 11 | (word >> 25 & 63) << 5 | (word >> 8 & 15) << 1
    return signed(raw, 13)


def immediate_j(word: int) -> int:
    """Return the displacement of jal."""
    raw = word >> 31 << 20 | (word >> 12 & 255) << 12 | (word >> 20 & 1) << 11 | (word >> 21 & 1023) << 1
    return signed(raw, 21)


def _address(pc: int, displacement: int) -> str:
    return f"{(pc + displacement) & (1 << 64) - 1:#x}"


def _lui(word: int, _: int) -> str:
    return f"lui {_rd(word)}, {word >> 12}"


def _auipc(word: int, _: int) -> str:
    return f"auipc {_rd(word)}, {word >> 12}"


def _jal(word: int, pc: int) -> str:
    rd, target = _rd(word), _address(pc, immediate_j(word))
    if rd == "zero":
        return f"j {target}"
    return f"jal {target}" if rd == "ra" else f"jal {rd}, {target}"


def _jalr(word: int, _: int) -> str | None:
    if _funct3(word):
        return None
    rd, rs1, offset = _rd(word), _rs1(word), immediate_i(word)
    if rd == "zero" and rs1 == "ra" and offset == 0:
        return "ret"
    where = f"{offset}({rs1})" if offset else rs1
    if rd == "zero":
        return f"jr {where}"
    if rd == "ra":
        return f"jalr {where}"
    return f"jalr {rd}, {offset}({rs1})" if offset else f"jalr {rd}, {rs1}"


def _branch(word: int, pc: int) -> str | None:
    name = _BRANCHES.get(_funct3(word))
    if name is None:
        return None
    rs1, rs2, target = _rs1(word), _rs2(word), _address(pc, immediate_b(word))
    if rs2 == "zero" and name in {"beq", "bne", "blt", "bge"}:
        return f"{name}z {rs1}, {target}"
    if rs1 == "zero" and name in {"blt", "bge"}:
        return f"{'bgtz' if name == 'blt' else 'blez'} {rs2}, {target}"
    return f"{name} {rs1}, {rs2}, {target}"


def _load(word: int, _: int) -> str | None:
    name = _LOADS.get(_funct3(word))
    return f"{name} {_rd(word)}, {immediate_i(word)}({_rs1(word)})" if name else None


def _store(word: int, _: int) -> str | None:
    name = _STORES.get(_funct3(word))
    return f"{name} {_rs2(word)}, {immediate_s(word)}({_rs1(word)})" if name else None


def _op_imm(word: int, _: int) -> str | None:
    rd, rs1, value = _rd(word), _rs1(word), immediate_i(word)
    shift = {(1, 0): "slli", (5, 0): "srli", (5, 0x10): "srai"}.get((_funct3(word), word >> 26))
    if shift:
        return f"{shift} {rd}, {rs1}, {word >> 20 & 63}"
    name = _IMMEDIATES.get(_funct3(word))
    if name is None:
        return None
    if name == "addi" and rs1 == "zero":
        return "nop" if rd == "zero" and value == 0 else f"li {rd}, {value}"
    if name == "addi" and value == 0:
        return f"mv {rd}, {rs1}"
    if name == "xori" and value == -1:
        return f"not {rd}, {rs1}"
    if name == "sltiu" and value == 1:
        return f"seqz {rd}, {rs1}"
    return f"{name} {rd}, {rs1}, {value}"


def _op_imm_32(word: int, _: int) -> str | None:
    rd, rs1, value = _rd(word), _rs1(word), immediate_i(word)
    if _funct3(word) == 0:
        return f"addiw {rd}, {rs1}, {value}" if value else f"sext.w {rd}, {rs1}"
    name = {(1, 0): "slliw", (5, 0): "srliw", (5, 0x20): "sraiw"}.get((_funct3(word), word >> 25))
    return f"{name} {rd}, {rs1}, {word >> 20 & 31}" if name else None


def _op(word: int, _: int) -> str | None:
    name = _OPS.get((word >> 25, _funct3(word)))
    if name is None:
        return None
    rd, rs1, rs2 = _rd(word), _rs1(word), _rs2(word)
    if name == "sub" and rs1 == "zero":
        return f"neg {rd}, {rs2}"
    if name == "sltu" and rs1 == "zero":
        return f"snez {rd}, {rs2}"
    if name == "slt" and "zero" in {rs1, rs2}:
        return f"sltz {rd}, {rs1}" if rs2 == "zero" else f"sgtz {rd}, {rs2}"
    return f"{name} {rd}, {rs1}, {rs2}"


def _op_32(word: int, _: int) -> str | None:
    name = _OPS_32.get((word >> 25, _funct3(word)))
    if name is None:
        return None
    if name == "subw" and _rs1(word) == "zero":
        return f"negw {_rd(word)}, {_rs2(word)}"
    return f"{name} {_rd(word)}, {_rs1(word)}, {_rs2(word)}"


def _atomic(word: int, _: int) -> str | None:
    name, width = _ATOMICS.get(word >> 27), _WIDTHS.get(_funct3(word))
    if name is None or width is None:
        return None
    mnemonic = f"{name}.{width}{_ORDERS[word >> 25 & 3]}"
    if name == "lr":
        return None if word >> 20 & 31 else f"{mnemonic} {_rd(word)}, ({_rs1(word)})"
    return f"{mnemonic} {_rd(word)}, {_rs2(word)}, ({_rs1(word)})"


def _fence(word: int, _: int) -> str | None:
    if _funct3(word) == 1:
        return "fence.i"
    if _funct3(word):
        return None
    if word == 0x8330000F:
        return "fence.tso"
    if word == 0x0100000F:
        return "pause"
    before, after = _order_set(word >> 24 & 15), _order_set(word >> 20 & 15)
    return "fence" if before == after == "iorw" else f"fence {before}, {after}"


def _order_set(bits: int) -> str:
    return "".join(letter for letter, bit in zip("iorw", (8, 4, 2, 1), strict=True) if bits & bit) or "0"


def _system(word: int, _: int) -> str | None:
    return {0x00000073: "ecall", 0x00100073: "ebreak", _UNIMP: "unimp"}.get(word)


_FORMS: dict[int, Callable[[int, int], str | None]] = {
    0x37: _lui,
    0x17: _auipc,
    0x6F: _jal,
    0x67: _jalr,
    0x63: _branch,
    0x03: _load,
    0x23: _store,
    0x13: _op_imm,
    0x33: _op,
    0x0F: _fence,
    0x73: _system,
    0x1B: _op_imm_32,
    0x3B: _op_32,
    0x2F: _atomic,
}
