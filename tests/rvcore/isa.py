"""The 32-bit encodings of RV64IMAC, written down bit by bit from the unprivileged manual.

This file owns one table: mnemonic, operand format and bit pattern, in the manual's order ("RV32/64G
Instruction Set Listings"). It decodes by scanning that table and knows nothing of what an instruction does
(`semantics.py`), of compressed forms (`rvc.py`) or of rvcore. Slow and obvious on purpose.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

# Format letters are the manual's (R I S B U J); the others name I- or R-shaped encodings with other operands:
# SHIFT6/SHIFT5 take a shift amount, LR and AMO have aq and rl, FENCE ignores its fields, NONE has none.
_TABLE = """
lui       U      .................... ..... 0110111
auipc     U      .................... ..... 0010111
jal       J      .................... ..... 1101111
jalr      I      ............ ..... 000 ..... 1100111
beq       B      ....... ..... ..... 000 ..... 1100011
bne       B      ....... ..... ..... 001 ..... 1100011
blt       B      ....... ..... ..... 100 ..... 1100011
bge       B      ....... ..... ..... 101 ..... 1100011
bltu      B      ....... ..... ..... 110 ..... 1100011
bgeu      B      ....... ..... ..... 111 ..... 1100011
lb        I      ............ ..... 000 ..... 0000011
lh        I      ............ ..... 001 ..... 0000011
lw        I      ............ ..... 010 ..... 0000011
lbu       I      ............ ..... 100 ..... 0000011
lhu       I      ............ ..... 101 ..... 0000011
sb        S      ....... ..... ..... 000 ..... 0100011
sh        S      ....... ..... ..... 001 ..... 0100011
sw        S      ....... ..... ..... 010 ..... 0100011
addi      I      ............ ..... 000 ..... 0010011
slti      I      ............ ..... 010 ..... 0010011
sltiu     I      ............ ..... 011 ..... 0010011
xori      I      ............ ..... 100 ..... 0010011
ori       I      ............ ..... 110 ..... 0010011
andi      I      ............ ..... 111 ..... 0010011
add       R      0000000 ..... ..... 000 ..... 0110011
sub       R      0100000 ..... ..... 000 ..... 0110011
sll       R      0000000 ..... ..... 001 ..... 0110011
slt       R      0000000 ..... ..... 010 ..... 0110011
sltu      R      0000000 ..... ..... 011 ..... 0110011
xor       R      0000000 ..... ..... 100 ..... 0110011
srl       R      0000000 ..... ..... 101 ..... 0110011
sra       R      0100000 ..... ..... 101 ..... 0110011
or        R      0000000 ..... ..... 110 ..... 0110011
and       R      0000000 ..... ..... 111 ..... 0110011
fence     FENCE  ............ ..... 000 ..... 0001111
ecall     NONE   000000000000 00000 000 00000 1110011
ebreak    NONE   000000000001 00000 000 00000 1110011
lwu       I      ............ ..... 110 ..... 0000011
ld        I      ............ ..... 011 ..... 0000011
sd        S      ....... ..... ..... 011 ..... 0100011
slli      SHIFT6 000000 ...... ..... 001 ..... 0010011
srli      SHIFT6 000000 ...... ..... 101 ..... 0010011
srai      SHIFT6 010000 ...... ..... 101 ..... 0010011
addiw     I      ............ ..... 000 ..... 0011011
slliw     SHIFT5 0000000 ..... ..... 001 ..... 0011011
srliw     SHIFT5 0000000 ..... ..... 101 ..... 0011011
sraiw     SHIFT5 0100000 ..... ..... 101 ..... 0011011
addw      R      0000000 ..... ..... 000 ..... 0111011
subw      R      0100000 ..... ..... 000 ..... 0111011
sllw      R      0000000 ..... ..... 001 ..... 0111011
srlw      R      0000000 ..... ..... 101 ..... 0111011
sraw      R      0100000 ..... ..... 101 ..... 0111011
fence.i   FENCE  ............ ..... 001 ..... 0001111
mul       R      0000001 ..... ..... 000 ..... 0110011
mulh      R      0000001 ..... ..... 001 ..... 0110011
mulhsu    R      0000001 ..... ..... 010 ..... 0110011
mulhu     R      0000001 ..... ..... 011 ..... 0110011
div       R      0000001 ..... ..... 100 ..... 0110011
divu      R      0000001 ..... ..... 101 ..... 0110011
rem       R      0000001 ..... ..... 110 ..... 0110011
remu      R      0000001 ..... ..... 111 ..... 0110011
mulw      R      0000001 ..... ..... 000 ..... 0111011
divw      R      0000001 ..... ..... 100 ..... 0111011
divuw     R      0000001 ..... ..... 101 ..... 0111011
remw      R      0000001 ..... ..... 110 ..... 0111011
remuw     R      0000001 ..... ..... 111 ..... 0111011
lr.w      LR     00010 . . 00000 ..... 010 ..... 0101111
sc.w      AMO    00011 . . ..... ..... 010 ..... 0101111
amoswap.w AMO    00001 . . ..... ..... 010 ..... 0101111
amoadd.w  AMO    00000 . . ..... ..... 010 ..... 0101111
amoxor.w  AMO    00100 . . ..... ..... 010 ..... 0101111
amoand.w  AMO    01100 . . ..... ..... 010 ..... 0101111
amoor.w   AMO    01000 . . ..... ..... 010 ..... 0101111
amomin.w  AMO    10000 . . ..... ..... 010 ..... 0101111
amomax.w  AMO    10100 . . ..... ..... 010 ..... 0101111
amominu.w AMO    11000 . . ..... ..... 010 ..... 0101111
amomaxu.w AMO    11100 . . ..... ..... 010 ..... 0101111
lr.d      LR     00010 . . 00000 ..... 011 ..... 0101111
sc.d      AMO    00011 . . ..... ..... 011 ..... 0101111
amoswap.d AMO    00001 . . ..... ..... 011 ..... 0101111
amoadd.d  AMO    00000 . . ..... ..... 011 ..... 0101111
amoxor.d  AMO    00100 . . ..... ..... 011 ..... 0101111
amoand.d  AMO    01100 . . ..... ..... 011 ..... 0101111
amoor.d   AMO    01000 . . ..... ..... 011 ..... 0101111
amomin.d  AMO    10000 . . ..... ..... 011 ..... 0101111
amomax.d  AMO    10100 . . ..... ..... 011 ..... 0101111
amominu.d AMO    11000 . . ..... ..... 011 ..... 0101111
amomaxu.d AMO    11100 . . ..... ..... 011 ..... 0101111
"""


@dataclass(frozen=True, slots=True)
class Pattern:
    """One row of the listing."""

    mnemonic: str
    format: str
    mask: int
    match: int

    def matches(self, word: int) -> bool:
        """Tell whether `word` is an encoding of this instruction."""
        return word & self.mask == self.match


@dataclass(frozen=True, slots=True)
class Instruction:
    """One decoded instruction: fields are raw numbers, the immediate is sign-extended."""

    mnemonic: str
    rd: int = 0
    rs1: int = 0
    rs2: int = 0
    imm: int = 0
    length: int = 4


def _parse(line: str) -> Pattern:
    mnemonic, form, *groups = line.split()
    bits = "".join(groups)
    if len(bits) != 32:
        raise ValueError(f"pattern of {mnemonic} has {len(bits)} bits")
    mask = int("".join("0" if bit == "." else "1" for bit in bits), 2)
    return Pattern(mnemonic, form, mask, int(bits.replace(".", "0"), 2))


PATTERNS: tuple[Pattern, ...] = tuple(_parse(line) for line in _TABLE.strip().splitlines())
BY_MNEMONIC: dict[str, Pattern] = {pattern.mnemonic: pattern for pattern in PATTERNS}


def signed(value: int, bits: int) -> int:
    """Read the low `bits` bits of `value` as a two's complement number."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def field(word: int, high: int, low: int) -> int:
    """Give bits high:low of `word`, as the manual writes inst[high:low]."""
    return word >> low & ((1 << (high - low + 1)) - 1)


# Manual, "Immediate Encoding Variants": for each format, (high, low, bit of the immediate where low belongs)
# and the width from which the immediate is sign-extended; shift amounts are unsigned.
_IMMEDIATES: dict[str, tuple[tuple[tuple[int, int, int], ...], int]] = {
    "I": (((31, 20, 0),), 12),
    "S": (((31, 25, 5), (11, 7, 0)), 12),
    "B": (((31, 31, 12), (7, 7, 11), (30, 25, 5), (11, 8, 1)), 13),
    "U": (((31, 12, 12),), 32),
    "J": (((31, 31, 20), (19, 12, 12), (20, 20, 11), (30, 21, 1)), 21),
    "SHIFT6": (((25, 20, 0),), 64),
    "SHIFT5": (((24, 20, 0),), 64),
}


def immediate(form: str, word: int) -> int:
    """Assemble the immediate of `word`; 0 where the format has none."""
    places, width = _IMMEDIATES.get(form, ((), 64))
    return signed(sum(field(word, high, low) << target for high, low, target in places), width)


_HAS_RD = frozenset({"R", "I", "U", "J", "SHIFT6", "SHIFT5", "LR", "AMO"})
_HAS_RS1 = frozenset({"R", "I", "S", "B", "SHIFT6", "SHIFT5", "LR", "AMO"})
_HAS_RS2 = frozenset({"R", "S", "B", "AMO"})


@functools.lru_cache(maxsize=1 << 16)
def decode(word: int) -> Instruction | None:
    """Decode a 32-bit encoding; None when RV64IMA does not define it."""
    for pattern in PATTERNS:
        if pattern.matches(word):
            form = pattern.format
            return Instruction(
                pattern.mnemonic,
                rd=field(word, 11, 7) if form in _HAS_RD else 0,
                rs1=field(word, 19, 15) if form in _HAS_RS1 else 0,
                rs2=field(word, 24, 20) if form in _HAS_RS2 else 0,
                imm=immediate(form, word),
            )
    return None
