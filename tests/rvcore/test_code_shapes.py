"""Code that is not a row of instructions: random bytes entered anywhere, cut-off ends, gaps, data between.

The oracle decodes at the pc, whatever came before; rvcore decodes once and must come to the same.
"""

from __future__ import annotations

import random
import struct
from functools import cache

import pytest

import rvcore
from elfs import build_elf

from . import rvc
from .encode import assemble, encode
from .isa import PATTERNS
from .machines import OracleRun, RvcoreRun, beyond_compare
from .rvc import ALL_ENCODINGS, Kind
from .state import CODE, DATA, difference

_FUEL = 300


@cache
def _legal() -> list[int]:
    return [half for half in ALL_ENCODINGS if rvc.expand(half).kind is not Kind.ILLEGAL]


def _random_word(draw: random.Random) -> bytes:
    """Draw a 32-bit instruction; branches and jumps stay near."""
    pattern = draw.choice(PATTERNS)
    if pattern.format in {"B", "J"}:
        fields = {"rd": draw.randrange(32), "rs1": draw.randrange(32), "rs2": draw.randrange(32)}
        return encode(pattern.mnemonic, imm=2 * draw.randrange(-60, 60), **fields).to_bytes(4, "little")
    return (pattern.match | draw.getrandbits(32) & ~pattern.mask).to_bytes(4, "little")


def _random_code(draw: random.Random, size: int) -> bytes:
    out = b""
    while len(out) < size:
        kind = draw.random()
        if kind < 0.5:
            out += struct.pack("<H", draw.choice(_legal()))
        elif kind < 0.95:
            out += _random_word(draw)
        else:
            out += draw.randbytes(2)
    return out[:size]


def _check_from_every_halfword(seed: int, size: int) -> None:
    draw = random.Random(seed)
    code = _random_code(draw, size)
    values = (0, 1, CODE, CODE + 2 * draw.randrange(size // 2), DATA + 2048, draw.getrandbits(64))
    registers = [draw.choice(values) for _ in range(32)]
    memory = draw.randbytes(4096)
    oracle = OracleRun(code, registers, memory)
    with RvcoreRun(code, registers, memory) as machine:
        for offset in range(0, size, 2):
            expected = oracle.run_at(CODE + offset, _FUEL)
            if not beyond_compare(expected):
                found = difference(expected, machine.run_at(CODE + offset, _FUEL))
                assert found == "", f"seed {seed}, entered at {offset}: {found}"


@pytest.mark.parametrize("seed", range(8))
def test_random_bytes_agree_from_every_halfword(seed: int) -> None:
    """Also from the middle of instructions, and by branches into them."""
    _check_from_every_halfword(seed, 1024)


@pytest.mark.core
def test_a_few_random_bytes_agree_from_every_halfword() -> None:
    """Small enough for the slow builds."""
    _check_from_every_halfword(99, 256)


@pytest.mark.soak
@pytest.mark.parametrize("first", range(1000, 1400, 20))
def test_many_random_bytes_agree_from_every_halfword(first: int) -> None:
    """The same for as long as one likes."""
    for seed in range(first, first + 20):
        _check_from_every_halfword(seed, 1024)


BASE = 0x10000


def _trap_of(elf: bytes, name: str = "f") -> rvcore.Trap:
    """Run a function that must trap."""
    with rvcore.Engine(rvcore.Config(cfi=False, memory_size=4 << 20)) as engine:
        module = rvcore.Module(engine, elf)
        with rvcore.Store(engine) as store:
            function = rvcore.Linker(engine).instantiate(store, module).exports(store)[name]
            with pytest.raises(rvcore.Trap) as caught:
                function(store)
            return caught.value


@pytest.mark.core
def test_falling_off_the_end_of_code_is_a_fetch_fault_there() -> None:
    """The code ends in the middle of a page that is mapped executable."""
    trap = _trap_of(build_elf(assemble("addi a0, zero, 1; c.nop"), symbols={"f": (BASE, 6)}))
    assert (trap.code, trap.address) == (rvcore.TrapCode.FETCH_FAULT, BASE + 6)
    assert trap.registers[10] == 1


@pytest.mark.core
def test_a_jump_to_the_end_of_code_is_a_fetch_fault_there() -> None:
    """The first address that is no code."""
    trap = _trap_of(build_elf(assemble("jal ra, +8; c.nop; c.nop"), symbols={"f": (BASE, 8)}))
    assert (trap.code, trap.address) == (rvcore.TrapCode.FETCH_FAULT, BASE + 8)
    assert trap.registers[1] == BASE + 4


@pytest.mark.core
def test_an_instruction_cut_off_by_the_end_of_code_traps_at_its_address() -> None:
    """It is no instruction, and what follows the code is never taken for its rest."""
    code = assemble("addi a0, zero, 1; addi a0, zero, 2")[:-2]
    trap = _trap_of(build_elf(code, symbols={"f": (BASE, 4)}))
    assert trap.code in {rvcore.TrapCode.ILLEGAL_INSTRUCTION, rvcore.TrapCode.FETCH_FAULT}
    assert (trap.pc, trap.registers[10]) == (BASE + 4, 1)


@pytest.mark.core
def test_a_gap_between_two_pieces_of_code_is_no_code() -> None:
    """The bytes between are mapped and would be good instructions."""
    code = assemble("addi a0, zero, 1; addi a0, zero, 2; addi a0, zero, 3; ebreak")
    elf = build_elf(code, symbols={"f": (BASE, 4)}, code_sections=[(BASE, 4), (BASE + 8, 8)])
    trap = _trap_of(elf)
    assert (trap.code, trap.address, trap.registers[10]) == (rvcore.TrapCode.FETCH_FAULT, BASE + 4, 1)


@pytest.mark.core
def test_a_jump_over_a_gap_reaches_the_other_piece_and_one_into_it_does_not() -> None:
    """Two sections, one hole."""
    pieces = [(BASE, 4), (BASE + 8, 8)]
    over = assemble("jal zero, +8; c.nop; c.nop; addi a0, zero, 3; ebreak")
    trap = _trap_of(build_elf(over, symbols={"f": (BASE, 4)}, code_sections=pieces))
    assert (trap.code, trap.pc, trap.registers[10]) == (rvcore.TrapCode.BREAKPOINT, BASE + 12, 3)
    into = assemble("jal zero, +4; c.nop; c.nop; addi a0, zero, 3; ebreak")
    trap = _trap_of(build_elf(into, symbols={"f": (BASE, 4)}, code_sections=pieces))
    assert (trap.code, trap.address) == (rvcore.TrapCode.FETCH_FAULT, BASE + 4)


@pytest.mark.core
def test_data_before_a_function_does_not_hide_its_first_instruction() -> None:
    """A constant that looks like the first half of a word ends where a function starts."""
    code = assemble("ebreak; .half 0x0033; addi a0, zero, 7; ebreak")
    trap = _trap_of(build_elf(code, symbols={"e": (BASE, 4), "f": (BASE + 6, 8)}))
    assert (trap.code, trap.pc, trap.registers[10]) == (rvcore.TrapCode.BREAKPOINT, BASE + 10, 7)


@pytest.mark.core
def test_a_branch_into_the_middle_of_an_instruction_runs_what_is_there() -> None:
    """The upper half of `lui` is `c.li a0, 9`, and goes on behind it in the main line."""
    lui = int.from_bytes(assemble("c.li a0, 9"), "little") << 16 | 0x5B7
    code = assemble(f"jal zero, +6; .word {lui}; addi a1, zero, 4; ebreak")
    trap = _trap_of(build_elf(code, symbols={"f": (BASE, 4)}))
    assert (trap.code, trap.pc) == (rvcore.TrapCode.BREAKPOINT, BASE + 12)
    assert (trap.registers[10], trap.registers[11]) == (9, 4)
