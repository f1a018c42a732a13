"""What each RV64IMAC instruction does, stated once, in the manual's order.

Rows hold an encoding and a statement in Cython. In a statement `rs1`, `rs2` and the result are uint64_t and
`imm` is the sign-extended immediate as uint64_t. `_generate.py` derives every handler from these rows: the
plain step, the tail-called one with its forwarding variants, and the fused pairs. Compressed forms are
expanded to these by `_decode.pyx` and exist nowhere else.

Sources: The RISC-V Instruction Set Manual, Volume I (unprivileged), chapters RV32I, RV64I, M, A.
"""

from __future__ import annotations

from dataclasses import dataclass

OPCODE = 0x7F
FUNCT3 = 0x7 << 12
FUNCT7 = 0x7F << 25
FUNCT6 = 0x3F << 26
FUNCT5 = 0x1F << 27
RS2 = 0x1F << 20
EVERYTHING = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction: where its bits are and what it does."""

    name: str  # the manual's mnemonic, dots as underscores
    format: str  # R I S B U J of the manual; SHAMT5/SHAMT6 shifts; AMO; NONE
    kind: str  # how the generator wraps the statement
    match: int
    mask: int
    statement: str = ""
    commutative: bool = False


def _row(
    name: str, form: str, kind: str, match: int, mask: int, statement: str = "", *, swap: bool = False
) -> Instruction:
    return Instruction(name, form, kind, match, mask, statement, swap)


def _immediate(name: str, opcode: int, funct3: int, statement: str) -> Instruction:
    return _row(name, "I", "alu_imm", opcode | funct3 << 12, OPCODE | FUNCT3, statement)


def _shift6(name: str, funct3: int, funct6: int, statement: str) -> Instruction:
    return _row(
        name, "SHAMT6", "alu_imm", 0x13 | funct3 << 12 | funct6 << 26, OPCODE | FUNCT3 | FUNCT6, statement
    )


def _shift5(name: str, funct3: int, funct7: int, statement: str) -> Instruction:
    return _row(
        name, "SHAMT5", "alu_imm", 0x1B | funct3 << 12 | funct7 << 25, OPCODE | FUNCT3 | FUNCT7, statement
    )


def _register(name: str, where: tuple[int, int, int], statement: str, *, swap: bool = False) -> Instruction:
    opcode, funct3, funct7 = where
    match = opcode | funct3 << 12 | funct7 << 25
    return _row(name, "R", "alu", match, OPCODE | FUNCT3 | FUNCT7, statement, swap=swap)


def _load(name: str, funct3: int, ctype: str) -> Instruction:
    return _row(name, "I", "load", 0x03 | funct3 << 12, OPCODE | FUNCT3, ctype)


def _store(name: str, funct3: int, ctype: str) -> Instruction:
    return _row(name, "S", "store", 0x23 | funct3 << 12, OPCODE | FUNCT3, ctype)


def _branch(name: str, funct3: int, condition: str, *, swap: bool = False) -> Instruction:
    return _row(name, "B", "branch", 0x63 | funct3 << 12, OPCODE | FUNCT3, condition, swap=swap)


def _atomic(name: str, funct5: int, kind: str, statement: str = "") -> list[Instruction]:
    """Both widths of one atomic; aq and rl order nothing more than a single hart already is."""
    rows = []
    for suffix, funct3, ctype in (("w", 2, "int32_t"), ("d", 3, "int64_t")):
        mask = OPCODE | FUNCT3 | FUNCT5 | (RS2 if kind == "lr" else 0)
        text = statement.replace("TYPE", ctype)
        rows.append(_row(f"{name}_{suffix}", "AMO", kind, 0x2F | funct3 << 12 | funct5 << 27, mask, text))
    return rows


_OP, _OP32, _OPIMM, _OPIMM32 = 0x33, 0x3B, 0x13, 0x1B

RV64I = [
    _row("lui", "U", "constant", 0x37, OPCODE),
    _row("auipc", "U", "constant", 0x17, OPCODE),
    _row("jal", "J", "jal", 0x6F, OPCODE),
    _row("jalr", "I", "jalr", 0x67, OPCODE | FUNCT3),
    _branch("beq", 0, "rs1 == rs2", swap=True),
    _branch("bne", 1, "rs1 != rs2", swap=True),
    _branch("blt", 4, "<int64_t>rs1 < <int64_t>rs2"),
    _branch("bge", 5, "<int64_t>rs1 >= <int64_t>rs2"),
    _branch("bltu", 6, "rs1 < rs2"),
    _branch("bgeu", 7, "rs1 >= rs2"),
    _load("lb", 0, "int8_t"),
    _load("lh", 1, "int16_t"),
    _load("lw", 2, "int32_t"),
    _load("lbu", 4, "uint8_t"),
    _load("lhu", 5, "uint16_t"),
    _store("sb", 0, "uint8_t"),
    _store("sh", 1, "uint16_t"),
    _store("sw", 2, "uint32_t"),
    _immediate("addi", _OPIMM, 0, "rs1 + imm"),
    _immediate("slti", _OPIMM, 2, "<int64_t>rs1 < <int64_t>imm"),
    _immediate("sltiu", _OPIMM, 3, "rs1 < imm"),
    _immediate("xori", _OPIMM, 4, "rs1 ^ imm"),
    _immediate("ori", _OPIMM, 6, "rs1 | imm"),
    _immediate("andi", _OPIMM, 7, "rs1 & imm"),
    _shift6("slli", 1, 0x00, "rs1 << imm"),
    _shift6("srli", 5, 0x00, "rs1 >> imm"),
    _shift6("srai", 5, 0x10, "<int64_t>rs1 >> imm"),
    _register("add", (_OP, 0, 0x00), "rs1 + rs2", swap=True),
    _register("sub", (_OP, 0, 0x20), "rs1 - rs2"),
    _register("sll", (_OP, 1, 0x00), "rs1 << (rs2 & 63)"),
    _register("slt", (_OP, 2, 0x00), "<int64_t>rs1 < <int64_t>rs2"),
    _register("sltu", (_OP, 3, 0x00), "rs1 < rs2"),
    _register("xor", (_OP, 4, 0x00), "rs1 ^ rs2", swap=True),
    _register("srl", (_OP, 5, 0x00), "rs1 >> (rs2 & 63)"),
    _register("sra", (_OP, 5, 0x20), "<int64_t>rs1 >> (rs2 & 63)"),
    _register("or", (_OP, 6, 0x00), "rs1 | rs2", swap=True),
    _register("and", (_OP, 7, 0x00), "rs1 & rs2", swap=True),
    # fence, fence.tso and pause: one hart has nothing to order. Reserved fields are ignored, as the manual
    # asks.
    _row("fence", "NONE", "nop", 0x0F, OPCODE | FUNCT3),
    # fence.i: text is never written, so there is nothing to refetch.
    _row("fence_i", "NONE", "nop", 0x100F, OPCODE | FUNCT3),
    _row("ecall", "NONE", "ecall", 0x00000073, EVERYTHING),
    _row("ebreak", "NONE", "trap", 0x00100073, EVERYTHING, "TRAP_BREAKPOINT"),
    _load("lwu", 6, "uint32_t"),
    _load("ld", 3, "uint64_t"),
    _store("sd", 3, "uint64_t"),
    _immediate("addiw", _OPIMM32, 0, "<int32_t>(rs1 + imm)"),
    _shift5("slliw", 1, 0x00, "<int32_t>(<uint32_t>rs1 << imm)"),
    _shift5("srliw", 5, 0x00, "<int32_t>(<uint32_t>rs1 >> imm)"),
    _shift5("sraiw", 5, 0x20, "<int32_t>rs1 >> imm"),
    _register("addw", (_OP32, 0, 0x00), "<int32_t>(rs1 + rs2)", swap=True),
    _register("subw", (_OP32, 0, 0x20), "<int32_t>(rs1 - rs2)"),
    _register("sllw", (_OP32, 1, 0x00), "<int32_t>(<uint32_t>rs1 << (rs2 & 31))"),
    _register("srlw", (_OP32, 5, 0x00), "<int32_t>(<uint32_t>rs1 >> (rs2 & 31))"),
    _register("sraw", (_OP32, 5, 0x20), "<int32_t>rs1 >> (rs2 & 31)"),
]

# Division by zero and overflow have results of their own, so they live in functions: see _arith.pxd.
RV64M = [
    _register("mul", (_OP, 0, 0x01), "rs1 * rs2", swap=True),
    _register("mulh", (_OP, 1, 0x01), "rv_mulh(rs1, rs2)"),
    _register("mulhsu", (_OP, 2, 0x01), "rv_mulhsu(rs1, rs2)"),
    _register("mulhu", (_OP, 3, 0x01), "rv_mulhu(rs1, rs2)"),
    _register("div", (_OP, 4, 0x01), "div64(rs1, rs2)"),
    _register("divu", (_OP, 5, 0x01), "divu64(rs1, rs2)"),
    _register("rem", (_OP, 6, 0x01), "rem64(rs1, rs2)"),
    _register("remu", (_OP, 7, 0x01), "remu64(rs1, rs2)"),
    _register("mulw", (_OP32, 0, 0x01), "<int32_t>(<uint32_t>rs1 * <uint32_t>rs2)", swap=True),
    _register("divw", (_OP32, 4, 0x01), "div32(rs1, rs2)"),
    _register("divuw", (_OP32, 5, 0x01), "divu32(rs1, rs2)"),
    _register("remw", (_OP32, 6, 0x01), "rem32(rs1, rs2)"),
    _register("remuw", (_OP32, 7, 0x01), "remu32(rs1, rs2)"),
]

# In an atomic's statement `old` is the sign-extended value in memory; a UTYPE is the unsigned twin of TYPE.
RV64A = [
    *_atomic("lr", 0x02, "lr", "TYPE"),
    *_atomic("sc", 0x03, "sc", "TYPE"),
    *_atomic("amoswap", 0x01, "amo", "TYPE: rs2"),
    *_atomic("amoadd", 0x00, "amo", "TYPE: old + rs2"),
    *_atomic("amoxor", 0x04, "amo", "TYPE: old ^ rs2"),
    *_atomic("amoand", 0x0C, "amo", "TYPE: old & rs2"),
    *_atomic("amoor", 0x08, "amo", "TYPE: old | rs2"),
    *_atomic("amomin", 0x10, "amo", "TYPE: old if <TYPE>old < <TYPE>rs2 else rs2"),
    *_atomic("amomax", 0x14, "amo", "TYPE: old if <TYPE>old > <TYPE>rs2 else rs2"),
    *_atomic("amominu", 0x18, "amo", "TYPE: old if <uTYPE>old < <uTYPE>rs2 else rs2"),
    *_atomic("amomaxu", 0x1C, "amo", "TYPE: old if <uTYPE>old > <uTYPE>rs2 else rs2"),
]

# Ops that stand for no encoding of their own: the decoder chooses them. All masks are 0.
PSEUDO = [
    _row("illegal", "NONE", "trap", 0, 0, "TRAP_ILLEGAL_INSTRUCTION"),
    # Execution ran off the code: a direct branch out of it, or a fall-through past its end.
    _row("off_code", "NONE", "off_code", 0, 0),
    # Goes on at another op of the same guest address; retires nothing. Ends a run of ops decoded out of line.
    _row("resume", "NONE", "resume", 0, 0),
    # rd = imm, sign-extended: lui, auipc, and addi from x0.
    _row("li", "NONE", "li", 0, 0, "imm"),
    # rd = imm, zero-extended: auipc in the upper half of a 4 GiB memory.
    _row("liu", "NONE", "li", 0, 0, "<uint64_t><uint32_t>imm"),
    # auipc whose result fits neither: the immediate is the instruction's own.
    _row("auipc_far", "NONE", "auipc_far", 0, 0),
    _row("mv", "NONE", "alu_imm", 0, 0, "rs1"),
    # A jalr whose base is the auipc just before it: a direct call, so its one target needs no indirect right.
    _row("jalr_known", "NONE", "jalr_known", 0, 0),
    # jalr x0, 0(ra): the return that compilers emit.
    _row("ret", "NONE", "ret", 0, 0),
    # jalr x0, 0(rs1) through no link register: a jump table's, or a tail call. imm is the function that it
    # stands in: an index of Hart.extents.
    _row("jr", "NONE", "jr", 0, 0),
    # jal x0: a jump that links nothing.
    _row("j", "NONE", "j", 0, 0),
]

INSTRUCTIONS = RV64I + RV64M + RV64A
ALL = INSTRUCTIONS + PSEUDO
CODES = {row.name: code for code, row in enumerate(ALL)}
