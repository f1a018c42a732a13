# cython: language_level=3
"""Decode one instruction. Compressed forms become their 32-bit twins here and exist nowhere else.

Sources: RISC-V Unprivileged ISA, chapters "C" (expansions, reserved and hint encodings) and "RV32/64G
Instruction Set Listings" (immediate layouts).
"""

from libc.stdint cimport INT32_MAX, INT32_MIN, UINT32_MAX, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from rvcore._handlers cimport (
    CODE_addi, CODE_add, CODE_auipc, CODE_auipc_far, CODE_j, CODE_jal, CODE_jalr, CODE_jr, CODE_li, CODE_liu, CODE_lui,
    CODE_mv, CODE_ret, FORM, FORM_AMO, FORM_B, FORM_I, FORM_J, FORM_NONE, FORM_R, FORM_S, FORM_SHAMT5, FORM_SHAMT6,
    FORM_U, identify,
)
from rvcore._hart cimport MAP_RETURN, MAP_TARGET, Op

from rvcore._handlers import NAMES


cdef inline uint32_t bits(uint32_t word, int low, int count) noexcept nogil:
    return (word >> low) & ((<uint32_t>1 << count) - 1)


cdef inline int32_t extend(uint32_t value, int width) noexcept nogil:
    """Sign-extend a value of `width` bits."""
    return <int32_t>(value << (32 - width)) >> (32 - width)


# Encoders of the 32-bit formats, used to write expansions down.

cdef inline uint32_t type_r(uint32_t opcode, uint32_t funct3, uint32_t funct7, uint32_t rd, uint32_t rs1,
                            uint32_t rs2) noexcept nogil:
    return opcode | rd << 7 | funct3 << 12 | rs1 << 15 | rs2 << 20 | funct7 << 25


cdef inline uint32_t type_i(uint32_t opcode, uint32_t funct3, uint32_t rd, uint32_t rs1, int32_t imm) noexcept nogil:
    return opcode | rd << 7 | funct3 << 12 | rs1 << 15 | (<uint32_t>imm & 0xFFF) << 20


cdef inline uint32_t type_s(uint32_t funct3, uint32_t rs1, uint32_t rs2, uint32_t imm) noexcept nogil:
    return 0x23 | (imm & 31) << 7 | funct3 << 12 | rs1 << 15 | rs2 << 20 | bits(imm, 5, 7) << 25


cdef inline uint32_t type_b(uint32_t funct3, uint32_t rs1, int32_t imm) noexcept nogil:
    cdef uint32_t u = <uint32_t>imm
    return (0x63 | bits(u, 11, 1) << 7 | bits(u, 1, 4) << 8 | funct3 << 12 | rs1 << 15 | bits(u, 5, 6) << 25
            | bits(u, 12, 1) << 31)


cdef inline uint32_t type_j(uint32_t rd, int32_t imm) noexcept nogil:
    cdef uint32_t u = <uint32_t>imm
    return 0x6F | rd << 7 | bits(u, 12, 8) << 12 | bits(u, 11, 1) << 20 | bits(u, 1, 10) << 21 | bits(u, 20, 1) << 31


cdef uint32_t quadrant0(uint32_t c) noexcept nogil:
    cdef uint32_t funct3 = bits(c, 13, 3)
    cdef uint32_t near = bits(c, 2, 3) + 8  # rd' or rs2'
    cdef uint32_t base = bits(c, 7, 3) + 8  # rs1'
    cdef uint32_t word_offset = bits(c, 6, 1) << 2 | bits(c, 10, 3) << 3 | bits(c, 5, 1) << 6
    cdef uint32_t double_offset = bits(c, 10, 3) << 3 | bits(c, 5, 2) << 6
    cdef uint32_t imm
    if funct3 == 0:  # c.addi4spn; a zero immediate is reserved, and all zeroes is the defined illegal
        imm = bits(c, 6, 1) << 2 | bits(c, 5, 1) << 3 | bits(c, 11, 2) << 4 | bits(c, 7, 4) << 6
        return 0 if imm == 0 else type_i(0x13, 0, near, 2, <int32_t>imm)
    elif funct3 == 2:  # c.lw
        return type_i(0x03, 2, near, base, <int32_t>word_offset)
    elif funct3 == 3:  # c.ld
        return type_i(0x03, 3, near, base, <int32_t>double_offset)
    elif funct3 == 6:  # c.sw
        return type_s(2, base, near, word_offset)
    elif funct3 == 7:  # c.sd
        return type_s(3, base, near, double_offset)
    return 0  # c.fld, c.fsd and reserved


cdef uint32_t arithmetic(uint32_t c) noexcept nogil:
    """The group c.srli … c.and of quadrant 1."""
    cdef uint32_t rd = bits(c, 7, 3) + 8
    cdef uint32_t rs2 = bits(c, 2, 3) + 8
    cdef uint32_t shamt = bits(c, 2, 5) | bits(c, 12, 1) << 5
    cdef uint32_t group = bits(c, 10, 2)
    cdef uint32_t which = bits(c, 5, 2) | bits(c, 12, 1) << 2
    if group == 0:  # c.srli
        return type_i(0x13, 5, rd, rd, <int32_t>shamt)
    elif group == 1:  # c.srai
        return type_i(0x13, 5, rd, rd, <int32_t>(shamt | 0x400))
    elif group == 2:  # c.andi
        return type_i(0x13, 7, rd, rd, extend(shamt, 6))
    if which == 0:  # c.sub
        return type_r(0x33, 0, 0x20, rd, rd, rs2)
    elif which == 1:  # c.xor
        return type_r(0x33, 4, 0, rd, rd, rs2)
    elif which == 2:  # c.or
        return type_r(0x33, 6, 0, rd, rd, rs2)
    elif which == 3:  # c.and
        return type_r(0x33, 7, 0, rd, rd, rs2)
    elif which == 4:  # c.subw
        return type_r(0x3B, 0, 0x20, rd, rd, rs2)
    elif which == 5:  # c.addw
        return type_r(0x3B, 0, 0, rd, rd, rs2)
    return 0


cdef uint32_t quadrant1(uint32_t c) noexcept nogil:
    cdef uint32_t funct3 = bits(c, 13, 3)
    cdef uint32_t rd = bits(c, 7, 5)
    cdef uint32_t raw = bits(c, 2, 5) | bits(c, 12, 1) << 5
    cdef int32_t imm = extend(raw, 6)
    cdef uint32_t offset
    if funct3 == 0:  # c.addi, c.nop; hints included
        return type_i(0x13, 0, rd, rd, imm)
    elif funct3 == 1:  # c.addiw; rd = x0 is reserved
        return 0 if rd == 0 else type_i(0x1B, 0, rd, rd, imm)
    elif funct3 == 2:  # c.li
        return type_i(0x13, 0, rd, 0, imm)
    elif funct3 == 3:
        if raw == 0:  # both c.lui and c.addi16sp reserve a zero immediate
            return 0
        if rd == 2:  # c.addi16sp
            offset = (bits(c, 6, 1) << 4 | bits(c, 2, 1) << 5 | bits(c, 5, 1) << 6 | bits(c, 3, 2) << 7
                      | bits(c, 12, 1) << 9)
            return type_i(0x13, 0, 2, 2, extend(offset, 10))
        return 0x37 | rd << 7 | (<uint32_t>imm & 0xFFFFF) << 12  # c.lui
    elif funct3 == 4:
        return arithmetic(c)
    elif funct3 == 5:  # c.j
        offset = (bits(c, 3, 3) << 1 | bits(c, 11, 1) << 4 | bits(c, 2, 1) << 5 | bits(c, 7, 1) << 6
                  | bits(c, 6, 1) << 7 | bits(c, 9, 2) << 8 | bits(c, 8, 1) << 10 | bits(c, 12, 1) << 11)
        return type_j(0, extend(offset, 12))
    # c.beqz, c.bnez
    offset = bits(c, 3, 2) << 1 | bits(c, 10, 2) << 3 | bits(c, 2, 1) << 5 | bits(c, 5, 2) << 6 | bits(c, 12, 1) << 8
    return type_b(funct3 - 6, bits(c, 7, 3) + 8, extend(offset, 9))


cdef uint32_t quadrant2(uint32_t c) noexcept nogil:
    cdef uint32_t funct3 = bits(c, 13, 3)
    cdef uint32_t rd = bits(c, 7, 5)
    cdef uint32_t rs2 = bits(c, 2, 5)
    cdef uint32_t high = bits(c, 12, 1)
    if funct3 == 0:  # c.slli
        return type_i(0x13, 1, rd, rd, <int32_t>(rs2 | high << 5))
    elif funct3 == 2:  # c.lwsp; rd = x0 is reserved
        return 0 if rd == 0 else type_i(0x03, 2, rd, 2, <int32_t>(bits(c, 4, 3) << 2 | high << 5 | bits(c, 2, 2) << 6))
    elif funct3 == 3:  # c.ldsp; rd = x0 is reserved
        return 0 if rd == 0 else type_i(0x03, 3, rd, 2, <int32_t>(bits(c, 5, 2) << 3 | high << 5 | bits(c, 2, 3) << 6))
    elif funct3 == 4:
        if high == 0:
            if rs2 == 0:  # c.jr; rs1 = x0 is reserved
                return 0 if rd == 0 else type_i(0x67, 0, 0, rd, 0)
            return type_r(0x33, 0, 0, rd, 0, rs2)  # c.mv
        if rs2 == 0:
            return 0x00100073 if rd == 0 else type_i(0x67, 0, 1, rd, 0)  # c.ebreak, c.jalr
        return type_r(0x33, 0, 0, rd, rd, rs2)  # c.add
    elif funct3 == 6:  # c.swsp
        return type_s(2, 2, rs2, bits(c, 9, 4) << 2 | bits(c, 7, 2) << 6)
    elif funct3 == 7:  # c.sdsp
        return type_s(3, 2, rs2, bits(c, 10, 3) << 3 | bits(c, 7, 3) << 6)
    return 0  # c.fldsp, c.fsdsp


cdef uint32_t expand(uint16_t half) noexcept nogil:
    """Return the 32-bit twin of a compressed encoding, or 0 (no instruction) when it is illegal here."""
    cdef uint32_t quadrant = half & 3
    if quadrant == 0:
        return quadrant0(half)
    elif quadrant == 1:
        return quadrant1(half)
    elif quadrant == 2:
        return quadrant2(half)
    return 0


cdef int32_t immediate(uint32_t word, uint8_t form) noexcept nogil:
    if form == FORM_I:
        return <int32_t>word >> 20
    elif form == FORM_S:
        return (<int32_t>word >> 25) << 5 | <int32_t>bits(word, 7, 5)
    elif form == FORM_B:
        return extend(bits(word, 8, 4) << 1 | bits(word, 25, 6) << 5 | bits(word, 7, 1) << 11
                      | bits(word, 31, 1) << 12, 13)
    elif form == FORM_U:
        return <int32_t>(word & <uint32_t>0xFFFFF000)
    elif form == FORM_J:
        return extend(bits(word, 21, 10) << 1 | bits(word, 20, 1) << 11 | bits(word, 12, 8) << 12
                      | bits(word, 31, 1) << 20, 21)
    elif form == FORM_SHAMT6:
        return <int32_t>bits(word, 20, 6)
    elif form == FORM_SHAMT5:
        return <int32_t>bits(word, 20, 5)
    return 0


cdef void decode(uint32_t word, uint64_t pc, Op* op) noexcept nogil:
    """Fill an op (all but its handler). For branches and jumps `imm` is still in bytes of guest code."""
    cdef int code = identify(word)
    cdef uint8_t form = FORM[code]
    op.code = <uint8_t>code
    op.rd = 32
    op.rs1 = 0
    op.rs2 = 0
    op.imm = immediate(word, form)
    if form == FORM_NONE:
        return
    if form != FORM_S and form != FORM_B and bits(word, 7, 5) != 0:
        op.rd = <uint8_t>bits(word, 7, 5)
    if form != FORM_U and form != FORM_J:
        op.rs1 = <uint8_t>bits(word, 15, 5)
    if form == FORM_R or form == FORM_S or form == FORM_B or form == FORM_AMO:
        op.rs2 = <uint8_t>bits(word, 20, 5)
    specialise(pc, op)


cdef void specialise(uint64_t pc, Op* op) noexcept nogil:
    """Replace an instruction by the op that does less for this case of it."""
    cdef int64_t value
    if op.code == CODE_lui:
        op.code = CODE_li
    elif op.code == CODE_auipc:
        value = <int64_t>pc + op.imm
        if INT32_MIN <= value <= INT32_MAX:
            op.code = CODE_li
            op.imm = <int32_t>value
        elif 0 <= value <= <int64_t>UINT32_MAX:
            op.code = CODE_liu
            op.imm = <int32_t><uint32_t>value
        else:
            op.code = CODE_auipc_far
    elif op.code == CODE_addi:
        if op.rs1 == 0:
            op.code = CODE_li
        elif op.imm == 0:
            op.code = CODE_mv
    elif op.code == CODE_add:
        if op.rs1 == 0:
            op.code = CODE_mv
            op.rs1 = op.rs2
            op.rs2 = 0
        elif op.rs2 == 0:
            op.code = CODE_mv
    elif op.code == CODE_jal:
        if op.rd == 32:
            op.code = CODE_j
    elif op.code == CODE_jalr:
        specialise_jalr(op)


cdef void specialise_jalr(Op* op) noexcept nogil:
    """Say what its target must be, by the manual's return-address-stack hints (table "RAS actions")."""
    cdef bint link_base = op.rs1 == 1 or op.rs1 == 5
    if not link_base:
        op.rs2 = MAP_TARGET
        if op.rd == 32 and op.imm == 0:
            op.code = CODE_jr
    elif op.rd == 32:
        op.rs2 = MAP_RETURN
        if op.rs1 == 1 and op.imm == 0:
            op.code = CODE_ret
    elif op.rd == op.rs1:
        op.rs2 = MAP_TARGET
    else:
        op.rs2 = MAP_TARGET | MAP_RETURN  # a coroutine switch, or a call through t0


def expansion(int half):
    """Return the 32-bit twin of a compressed encoding, 0 when it is illegal here."""
    return expand(<uint16_t>half)


def name_of(unsigned int word):
    """Return the mnemonic of a 32-bit encoding as `_ops.py` names it, `illegal` for none."""
    return NAMES[identify(word)]
