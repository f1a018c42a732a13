"""The C extension, as text needs it: a halfword → the 32-bit instruction that it stands for.

Owns the expansion that the disassembler and the unwinder read; the interpreter's decoder has its own, and
tests hold the two against each other. Reserved encodings expand to nothing; hints expand like the
instruction that they look like.
"""

# ruff: noqa: PLR2004, PLR0911 - encodings are numbers, and each kind of instruction is one return

from __future__ import annotations

from rvcore._registers import FLOAT_REGISTERS, REGISTERS

_OP, _OP_32, _OP_IMM, _OP_IMM_32 = 0x33, 0x3B, 0x13, 0x1B
_LOAD, _STORE, _LUI, _JALR, _JAL, _BRANCH = 0x03, 0x23, 0x37, 0x67, 0x6F, 0x63
_EBREAK = 0x00100073
_SP, _RA = 2, 1


def expand(half: int) -> int | None:
    """Return the 32-bit form of a compressed instruction of RV64IMAC, None for anything else."""
    quadrant, kind = half & 3, half >> 13
    if quadrant == 0:
        return _expand_0(half, kind)
    if quadrant == 1:
        return _expand_1(half, kind)
    return _expand_2(half, kind) if quadrant == 2 else None  # three quadrants


def foreign_compressed(half: int) -> tuple[str, str] | None:
    """Return (text, extension) of a compressed instruction beyond RV64IMAC, None where none is known."""
    quadrant, kind = half & 3, half >> 13
    if kind in {1, 5} and quadrant in {0, 2}:
        return _float_memory(half, quadrant, "fld" if kind == 1 else "fsd"), "D"
    name = None
    if quadrant == 0 and kind == 4:  # loads and stores of bytes and halves
        names = {0: "c.lbu", 1: "c.lh" if half & 0x40 else "c.lhu", 2: "c.sb", 3: "c.sh"}
        name = names.get(half >> 10 & 7)
    if quadrant == 1 and half & 0xFC60 == 0x9C40:
        name = "c.mul"
    if quadrant == 1 and half & 0xFC60 == 0x9C60:
        units = ("c.zext.b", "c.sext.b", "c.zext.h", "c.sext.h", "c.zext.w", "c.not")
        name = dict(enumerate(units)).get(half >> 2 & 7)
    if name:
        return name, "Zcb"
    if half & 0xF8FF == 0x6081:  # c.lui of zero into x1, x3 … x15
        return f"c.mop.{half >> 7 & 15}", "Zcmop"
    return None


def _float_memory(half: int, quadrant: int, name: str) -> str:
    """Return the text of c.fld, c.fsd, c.fldsp or c.fsdsp, expanded."""
    if quadrant == 0:
        base, register = 8 + (half >> 7 & 7), 8 + (half >> 2 & 7)
        offset = _bits(half, (12, 10, 3), (6, 5, 6))
    else:
        base = _SP
        register = half >> 7 & 31 if name == "fld" else half >> 2 & 31
        load, store = ((12, 12, 5), (6, 5, 3), (4, 2, 6)), ((12, 10, 3), (9, 7, 6))
        offset = _bits(half, *(load if name == "fld" else store))
    return f"{name} {FLOAT_REGISTERS[register]}, {offset}({REGISTERS[base]})"


def _bits(half: int, *fields: tuple[int, int, int]) -> int:
    """Gather an immediate: each field is (high bit, low bit, position of the low bit in the result)."""
    return sum((half >> low & (1 << high - low + 1) - 1) << at for high, low, at in fields)


def _signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value


def _i(opcode: int, kind: int, rd: int, rs1: int, value: int) -> int:
    return (value & 0xFFF) << 20 | rs1 << 15 | kind << 12 | rd << 7 | opcode


def _s(kind: int, rs1: int, rs2: int, value: int) -> int:
    return value >> 5 << 25 | rs2 << 20 | rs1 << 15 | kind << 12 | (value & 31) << 7 | _STORE


def _r(opcode: int, group: int, kind: int, registers: tuple[int, int, int]) -> int:
    rd, rs1, rs2 = registers
    return group << 25 | rs2 << 20 | rs1 << 15 | kind << 12 | rd << 7 | opcode


def _b(kind: int, rs1: int, value: int) -> int:
    high = (value >> 12 & 1) << 31 | (value >> 5 & 63) << 25
    return high | rs1 << 15 | kind << 12 | (value >> 1 & 15) << 8 | (value >> 11 & 1) << 7 | _BRANCH


def _j(value: int) -> int:
    high = (value >> 20 & 1) << 31 | (value >> 1 & 1023) << 21 | (value >> 11 & 1) << 20
    return high | (value >> 12 & 255) << 12 | _JAL


def _expand_0(half: int, kind: int) -> int | None:
    """Expand the stack-pointer and register-based forms."""
    low, base = 8 + (half >> 2 & 7), 8 + (half >> 7 & 7)
    word_offset = _bits(half, (12, 10, 3), (6, 6, 2), (5, 5, 6))
    double_offset = _bits(half, (12, 10, 3), (6, 5, 6))
    if kind == 0:
        value = _bits(half, (12, 11, 4), (10, 7, 6), (6, 6, 2), (5, 5, 3))
        return _i(_OP_IMM, 0, low, _SP, value) if value else None
    forms = {
        2: _i(_LOAD, 2, low, base, word_offset),
        3: _i(_LOAD, 3, low, base, double_offset),
        6: _s(2, base, low, word_offset),
        7: _s(3, base, low, double_offset),
    }
    return forms.get(kind)


def _expand_1(half: int, kind: int) -> int | None:
    """Expand immediates, arithmetic, jumps and branches."""
    rd = half >> 7 & 31
    value = _signed(_bits(half, (12, 12, 5), (6, 2, 0)), 6)
    if kind == 0:
        return _i(_OP_IMM, 0, rd, rd, value)
    if kind == 1:
        return _i(_OP_IMM_32, 0, rd, rd, value) if rd else None
    if kind == 2:
        return _i(_OP_IMM, 0, rd, 0, value)
    if kind == 3:
        return _upper(half, rd, value)
    if kind == 4:
        return _arithmetic(half, value)
    if kind == 5:
        fields = (
            (12, 12, 11),
            (11, 11, 4),
            (10, 9, 8),
            (8, 8, 10),
            (7, 7, 6),
            (6, 6, 7),
            (5, 3, 1),
            (2, 2, 5),
        )
        return _j(_signed(_bits(half, *fields), 12))
    offset = _bits(half, (12, 12, 8), (11, 10, 3), (6, 5, 6), (4, 3, 1), (2, 2, 5))
    return _b(kind - 6, 8 + (half >> 7 & 7), _signed(offset, 9))


def _upper(half: int, rd: int, value: int) -> int | None:
    if rd != _SP:
        return (value & 0xFFFFF) << 12 | rd << 7 | _LUI if value else None
    offset = _signed(_bits(half, (12, 12, 9), (6, 6, 4), (5, 5, 6), (4, 3, 7), (2, 2, 5)), 10)
    return _i(_OP_IMM, 0, _SP, _SP, offset) if offset else None


def _arithmetic(half: int, value: int) -> int | None:
    rd, rs2 = 8 + (half >> 7 & 7), 8 + (half >> 2 & 7)
    kind = half >> 10 & 3
    if kind == 0:
        return _i(_OP_IMM, 5, rd, rd, value & 63)
    if kind == 1:
        return _i(_OP_IMM, 5, rd, rd, value & 63 | 0x400)
    if kind == 2:
        return _i(_OP_IMM, 7, rd, rd, value)
    operations = {
        0: (_OP, 0x20, 0), 1: (_OP, 0, 4), 2: (_OP, 0, 6), 3: (_OP, 0, 7),
        4: (_OP_32, 0x20, 0), 5: (_OP_32, 0, 0),
    }  # fmt: skip
    operation = operations.get((half >> 12 & 1) << 2 | half >> 5 & 3)
    return _r(*operation, (rd, rd, rs2)) if operation else None


def _expand_2(half: int, kind: int) -> int | None:
    """Expand shifts, moves, jumps through registers and the stack-pointer loads and stores."""
    rd, rs2 = half >> 7 & 31, half >> 2 & 31
    if kind == 0:
        return _i(_OP_IMM, 1, rd, rd, _bits(half, (12, 12, 5), (6, 2, 0)))
    if kind == 2 and rd:
        return _i(_LOAD, 2, rd, _SP, _bits(half, (12, 12, 5), (6, 4, 2), (3, 2, 6)))
    if kind == 3 and rd:
        return _i(_LOAD, 3, rd, _SP, _bits(half, (12, 12, 5), (6, 5, 3), (4, 2, 6)))
    if kind == 4:
        return _move_or_jump(half >> 12 & 1, rd, rs2)
    if kind == 6:
        return _s(2, _SP, rs2, _bits(half, (12, 9, 2), (8, 7, 6)))
    if kind == 7:
        return _s(3, _SP, rs2, _bits(half, (12, 10, 3), (9, 7, 6)))
    return None


def _move_or_jump(high: int, rd: int, rs2: int) -> int | None:
    if rs2:
        return _r(_OP, 0, 0, (rd, rd if high else 0, rs2))
    if rd == 0:
        return _EBREAK if high else None
    return _i(_JALR, 0, high * _RA, rd, 0)
