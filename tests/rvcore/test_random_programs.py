"""Random programs give the same registers, memory, traps and counts on rvcore, on the oracle and on unicorn.

A failure names its seed: `random_program(seed)` (or `wild=True`) is the program again.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest

from . import semantics
from .hart import Hart
from .isa import BY_MNEMONIC, Instruction
from .machines import (
    RvcoreRun,
    beyond_compare,
    finish_oracle,
    new_hart,
    run_checked_oracle,
    run_oracle,
    run_rvcore,
    stays_in_code,
)
from .programs import RandomProgram, describe, random_program
from .state import CODE, HIGH, difference
from .unicorn_machine import run_unicorn

INSTRUCTIONS = 1500
FEW = range(40)
SOME = range(40, 280)
WILD = range(1_000_000, 1_000_100)
MANY = range(10_000, 20_000)


def _check(program: RandomProgram, *, unicorn: bool = True) -> None:
    """Run one program everywhere, for as many instructions as a draw says."""
    count = random.Random(program.seed).choice((INSTRUCTIONS, INSTRUCTIONS, 37))
    run = (program.code, program.registers, program.memory, count)
    expected = run_checked_oracle(*run)
    if not beyond_compare(expected):
        assert difference(expected, run_rvcore(*run)) == "", describe(program)
    if unicorn:
        assert difference(run_oracle(*run), run_unicorn(*run), ignore=("address",)) == "", describe(program)


def _check_batch(seeds: range, *, wild: bool = False) -> None:
    for seed in seeds:
        # Wild accesses misalign SC and wrap around, where unicorn has ideas of its own.
        _check(random_program(seed, wild=wild), unicorn=not wild)


@pytest.mark.core
def test_a_few_random_programs_agree() -> None:
    """A sample small enough for the slow builds."""
    _check_batch(FEW)


@pytest.mark.parametrize("first", SOME[::40])
def test_random_programs_agree(first: int) -> None:
    """Programs that mostly stay inside their data."""
    _check_batch(range(first, first + 40))


def test_wild_random_programs_agree() -> None:
    """Programs that use any register as an address and soon trap."""
    _check_batch(WILD, wild=True)


def test_random_programs_agree_above_two_gibibytes() -> None:
    """Addresses there have the sign bit of a 32-bit number."""
    for seed in range(400, 440):
        program = random_program(seed, layout=HIGH)
        run = (program.code, program.registers, program.memory, INSTRUCTIONS)
        assert difference(run_checked_oracle(*run, HIGH), run_rvcore(*run, HIGH)) == "", describe(program)


@pytest.mark.core
def test_profiled_programs_agree_and_count_each_instruction() -> None:
    """Profiling steps one instruction at a time; what it counts is what the oracle sees."""
    for seed in range(500, 520):
        program = random_program(seed)
        hart = new_hart(program.code, program.registers, program.memory)
        hart.jump_rule = stays_in_code
        executed: Counter[int] = Counter()
        for _ in range(600):
            before = hart.retired
            pc = hart.pc
            hart.step()
            executed[pc] += hart.retired - before
        expected = finish_oracle(hart, 0)
        with RvcoreRun(program.code, program.registers, program.memory) as machine:
            call = machine.start()
            machine.store.start_profile()
            done = call.run(600)
            actual = machine.state(call, done.trap)
            counts = {address: count for address, count in machine.store.profile() if address >= CODE}
        assert difference(expected, actual, ignore=("stop", "address")) == "", describe(program)
        assert counts == {pc: count for pc, count in executed.items() if count}, describe(program)


@pytest.mark.soak
@pytest.mark.parametrize("first", MANY[::1000])
def test_many_random_programs_agree(first: int) -> None:
    """The same for as long as one likes."""
    _check_batch(range(first, first + 1000))
    _check_batch(range(first, first + 1000), wild=True)


def test_random_programs_execute_every_instruction(monkeypatch: pytest.MonkeyPatch) -> None:
    """The generator leaves no instruction out, so agreement means something."""
    seen: set[str] = set()
    execute = Hart._execute

    def note(hart: Hart, op: Instruction) -> int:
        seen.add(op.mnemonic)
        return execute(hart, op)

    monkeypatch.setattr(Hart, "_execute", note)
    for seed in (*FEW, *SOME[:40]):
        program = random_program(seed)
        new_hart(program.code, program.registers, program.memory).run(INSTRUCTIONS)
    assert set(BY_MNEMONIC) - seen - {"ecall", "ebreak"} == set()
    assert set(semantics.ALU) <= seen
