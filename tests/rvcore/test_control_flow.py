"""Random programs under control-flow checks: each indirect jump is allowed or refused as abi.md says.

The rule is written down here a second time, over the oracle hart: which registers make a jalr a return is the
manual's return-address-stack table; a return goes behind something that links; what relocations name here is
inside of the one function, so it is a jump table's entry: a plain jump may go there and nothing else; auipc
and jalr together are a direct call.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest

import rvcore

from . import isa, rvc
from .hart import Hart, JumpRule
from .isa import Instruction
from .machines import RvcoreRun, finish_oracle, new_hart
from .programs import RA, T0, RandomProgram, describe, random_program
from .state import CODE, difference

_LINKS = (RA, T0)
_EXIT_PC = 0xFFFF_FFFF_FFFF_F000  # what `ra` holds when a function is entered
INSTRUCTIONS = 800


def sweep(code: bytes) -> dict[int, Instruction]:
    """Decode from the first byte to the last; what is no instruction takes two bytes."""
    out, at = {}, 0
    while at + 2 <= len(code):
        half = int.from_bytes(code[at : at + 2], "little")
        word = int.from_bytes(code[at : at + 4], "little")
        op = isa.decode(word) if half & 3 == 3 else rvc.expand(half).instruction
        length = 4 if half & 3 == 3 and half & 0x1C != 0x1C else 2
        if op is not None:
            out[CODE + at] = op
        at += length
    return out


def rule_of(code: bytes, targets: set[int]) -> JumpRule:
    """Make the oracle's rule for one program."""
    ops = sweep(code)
    returns = {at + op.length for at, op in ops.items() if op.mnemonic in {"jal", "jalr"} and op.rd}
    before = {
        at + op.length: (at + op.imm, op.rd) for at, op in ops.items() if op.mnemonic == "auipc" and op.rd
    }

    def rule(hart: Hart, op: Instruction, target: int) -> str | None:
        constant, register = before.get(hart.pc, (0, 0))
        if register == op.rs1 and register and target == (constant + op.imm) & ~1:
            return None
        if op.rs1 in _LINKS and op.rd != op.rs1 and target == _EXIT_PC:
            return "RETURNED"  # one of the random values is where the host is returned to
        if op.rs1 in _LINKS and op.rd == 0:
            return None if target in returns else "BAD_RETURN"
        switches = op.rs1 in _LINKS and op.rd != op.rs1
        jumps = op.rs1 not in _LINKS and op.rd == 0 and op.imm == 0
        return None if (jumps and target in targets) or (switches and target in returns) else "BAD_JUMP"

    return rule


def _check(program: RandomProgram) -> str | None:
    """Run one program under the rule on both machines; give the trap that ended it."""
    draw = random.Random(program.seed)
    targets = [CODE + start for start in program.starts if draw.random() < 0.7]
    hart = new_hart(program.code, program.registers, program.memory)
    hart.jump_rule = rule_of(program.code, set(targets))
    expected = finish_oracle(hart, INSTRUCTIONS)
    with RvcoreRun(program.code, program.registers, program.memory, targets=targets) as machine:
        call = machine.start()
        done = call.run(INSTRUCTIONS)
        if expected.stop == "RETURNED":
            assert done.reason is rvcore.ExitReason.RETURNED, describe(program)
            return expected.stop
        state = machine.state(call, done.trap)
        assert difference(expected, state, ignore=("stop",)) == "", describe(program)
        name = done.trap.code.name if done.trap is not None else None
        assert name == ("UNKNOWN_HOST_CALL" if expected.stop == "ECALL" else expected.stop), describe(program)
        return expected.stop


@pytest.mark.core
def test_a_few_programs_are_checked_by_the_rule() -> None:
    """Small enough for the slow builds."""
    for seed in range(20):
        _check(random_program(seed, returns=True))


@pytest.mark.core
def test_a_program_may_return_to_the_host_from_anywhere() -> None:
    """By a switch of coroutines, too: it gains nothing over returning."""
    assert _check(random_program(13412, returns=True)) == "RETURNED"


@pytest.mark.parametrize("first", [100, 200, 300])
def test_programs_are_checked_by_the_rule(first: int) -> None:
    """And the programs reach what the rule refuses."""
    ends = Counter(_check(random_program(seed, returns=True)) for seed in range(first, first + 100))
    assert ends["BAD_JUMP"] > 5
    assert ends["BAD_RETURN"] > 5


@pytest.mark.soak
@pytest.mark.parametrize("first", range(10_000, 20_000, 1000))
def test_many_programs_are_checked_by_the_rule(first: int) -> None:
    """The same for as long as one likes."""
    for seed in range(first, first + 1000):
        _check(random_program(seed, returns=True))


def test_the_rule_refuses_the_second_of_two_functions_when_only_the_first_is_named() -> None:
    """The oracle's rule itself, on three jumps."""
    code = bytes.fromhex("67000500")  # jalr zero, 0(a0)
    op = Instruction("jalr", rd=0, rs1=10)
    hart = new_hart(code, [0] * 32, b"")
    rule = rule_of(code, {0x100})
    assert [rule(hart, op, target) for target in (0x100, 0x104)] == [None, "BAD_JUMP"]
    assert rule(hart, Instruction("jalr", rd=0, rs1=RA), 0x100) == "BAD_RETURN"
