"""All 49,152 compressed encodings: decoded and executed by rvcore, compared with the oracle's expansion.

Each encoding is executed alone, by giving the run fuel for one instruction, with registers that make its
loads and stores hit, miss, or its jumps land in code; and once more followed by an ebreak with fuel to
spare, which is another path through the interpreter. The oracle's expansions are checked against the
encoder, form by form.
"""

from __future__ import annotations

import random
import struct
from collections import Counter

import pytest

from . import rvc
from .encode_rvc import compressed
from .isa import BY_MNEMONIC, Instruction
from .machines import OracleRun, RvcoreRun
from .rvc import ALL_ENCODINGS, Kind
from .state import CODE, DATA, difference

_DRAW = random.Random(49152)
_MEMORY = _DRAW.randbytes(4096)
# Pointers into the data with room for the largest offsets; code addresses, every other one odd; anything.
_REGISTERS = {
    "data": [DATA + 0x400 + 9 * number for number in range(32)],
    "code": [CODE + 0x1000 + 5 * number for number in range(32)],
    "random": [_DRAW.getrandbits(64) for _ in range(32)],
}
_JUMPS = {"c.j", "c.jr", "c.jalr", "c.beqz", "c.bnez"}
_CHUNK = 4096
# Nops around the encodings: the farthest c.j stays in code.
_ROOM = struct.pack("<H", 1) * 1024


def _mismatches(code: bytes, places: dict[int, int], registers: list[int], count: int) -> list[str]:
    """Run each encoding at its place on both machines; say which differ."""
    out = []
    oracle = OracleRun(code, registers, _MEMORY)
    with RvcoreRun(code, registers, _MEMORY) as machine:
        for half, place in places.items():
            found = difference(oracle.run_at(place, count), machine.run_at(place, count))
            if found:
                out.append(f"0x{half:04x} {rvc.expand(half).name}: {found}")
    return out


def _alone(encodings: tuple[int, ...]) -> tuple[bytes, dict[int, int]]:
    places = {half: CODE + len(_ROOM) + 2 * index for index, half in enumerate(encodings)}
    return _ROOM + struct.pack(f"<{len(encodings)}H", *encodings) + _ROOM, places


def _before_ebreak(encodings: tuple[int, ...]) -> tuple[bytes, dict[int, int]]:
    kept = [half for half in encodings if rvc.expand(half).kind is not Kind.ILLEGAL]
    kept = [half for half in kept if rvc.expand(half).name not in _JUMPS]
    code = b"".join(struct.pack("<HH", half, 0x9002) for half in kept)
    return code, {half: CODE + 4 * index for index, half in enumerate(kept)}


@pytest.mark.parametrize("first", range(0, len(ALL_ENCODINGS), _CHUNK))
def test_every_encoding_has_the_effect_of_its_expansion(first: int) -> None:
    """One instruction's fuel: pc, registers, memory, trap and count."""
    assert _mismatches(*_alone(ALL_ENCODINGS[first : first + _CHUNK]), _REGISTERS["data"], 1) == []


def test_every_memory_encoding_faults_where_its_expansion_does() -> None:
    """With registers that hold anything, so that next to every access misses."""
    forms = {"c.lw", "c.ld", "c.sw", "c.sd", "c.lwsp", "c.ldsp", "c.swsp", "c.sdsp"}
    accesses = tuple(half for half in ALL_ENCODINGS if rvc.expand(half).name in forms)[::3]
    assert _mismatches(*_alone(accesses), _REGISTERS["random"], 1) == []


@pytest.mark.core
def test_every_jump_register_encoding_lands_where_its_expansion_does() -> None:
    """With registers that hold code addresses, odd ones included."""
    jumps = tuple(half for half in ALL_ENCODINGS if rvc.expand(half).name in {"c.jr", "c.jalr"})
    assert _mismatches(*_alone(jumps), _REGISTERS["code"], 1) == []


@pytest.mark.parametrize("first", range(0, len(ALL_ENCODINGS), _CHUNK))
def test_every_instruction_has_that_effect_in_the_fast_loop(first: int) -> None:
    """Plenty of fuel, then an ebreak."""
    assert _mismatches(*_before_ebreak(ALL_ENCODINGS[first : first + _CHUNK]), _REGISTERS["data"], 1000) == []


@pytest.mark.core
def test_a_sample_of_encodings_has_the_effect_of_its_expansion() -> None:
    """Small enough for the slow builds; every form is in it."""
    one_of_each = {rvc.expand(half).name: half for half in ALL_ENCODINGS}
    sample = tuple(sorted({*one_of_each.values(), *ALL_ENCODINGS[::41]}))
    assert _mismatches(*_alone(sample), _REGISTERS["data"], 1) == []
    assert _mismatches(*_before_ebreak(sample), _REGISTERS["data"], 9) == []


def test_the_oracle_classes_each_encoding_once() -> None:
    """How many encodings of each kind there are, counted by hand from the opcode map (see the comment)."""
    kinds = Counter(rvc.expand(half).kind for half in ALL_ENCODINGS)
    assert kinds == {Kind.ILLEGAL: _ILLEGAL, Kind.HINT: _HINTS, Kind.LEGAL: 49152 - _ILLEGAL - _HINTS}


# Illegal: five whole rows of 2048 (c.fld, c.fsd, c.fldsp, c.fsdsp, Zcb's); c.addi4spn with imm 0 (8,
# c.unimp among them); c.addiw of x0 (64); c.lui and c.addi16sp with imm 0 (32); two slots of 64 beside
# c.addw; c.lwsp and c.ldsp of x0 (64 each); c.jr x0 (1).
_ILLEGAL = 5 * 2048 + 8 + 64 + 32 + 2 * 64 + 2 * 64 + 1
# HINTs: c.nop with an immediate (63); c.addi with imm 0 (31); c.li of x0 (64); c.lui of x0, imm not 0
# (63); c.slli of x0 (64) and by 0 (31 more); c.srli and c.srai by 0 (8 each); c.mv and c.add of x0 (31
# each).
_HINTS = 63 + 31 + 64 + 63 + 64 + 31 + 2 * 8 + 2 * 31


def _operands(name: str, op: Instruction) -> tuple[int, ...]:
    """Give the operands of an expansion in the order in which assembly writes the compressed form."""
    special = {
        "c.addi4spn": (op.rd, op.rs1, op.imm),
        "c.lui": (op.rd, op.imm >> 12 & 0xFFFFF),
        "c.j": (op.imm,),
        "c.nop": (op.imm,),
        "c.beqz": (op.rs1, op.imm),
        "c.bnez": (op.rs1, op.imm),
        "c.jr": (op.rs1,),
        "c.jalr": (op.rs1,),
        "c.ebreak": (),
    }
    if name in special:
        return special[name]
    if op.mnemonic in {"lw", "ld"}:
        return op.rd, op.imm, op.rs1
    if op.mnemonic in {"sw", "sd"}:
        return op.rs2, op.imm, op.rs1
    return (op.rd, op.rs2) if BY_MNEMONIC[op.mnemonic].format == "R" else (op.rd, op.imm)


def test_the_encoder_gives_each_encoding_back_from_its_expansion() -> None:
    """Two readings of the manual's drawings, one in each direction, agree on all legal encodings."""
    wrong = []
    for half in ALL_ENCODINGS:
        expansion = rvc.expand(half)
        if expansion.instruction is None:
            continue
        again = compressed(expansion.name, *_operands(expansion.name, expansion.instruction))
        if again != half:
            wrong.append(f"0x{half:04x} {expansion.name} -> 0x{again:04x}")
    assert wrong == []
