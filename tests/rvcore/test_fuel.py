"""Fuel is exact: a run of n instructions stops after n, and resuming it changes nothing.

Programs are cut at every n from none to all of their instructions; pc, registers and memory at the cut,
and the state at the end, are the oracle's. Long loops and long straight code are cut around the sizes of
the slices that the interpreter and the call loop work in.
"""

from __future__ import annotations

import itertools
import random

import pytest

import rvcore

from .encode import assemble
from .machines import (
    PROLOGUE_COUNT,
    RvcoreRun,
    build_image,
    finish_oracle,
    new_hart,
    run_checked_oracle,
    run_rvcore,
    stays_in_code,
)
from .programs import RandomProgram, describe, random_program
from .state import CODE, DATA, State, difference

LIMIT = 250
# Slices of the interpreter (50,000), of a call that holds the GIL (20,000), and neighbours.
_BORDERS = [base + step for base in (20_000, 40_000, 50_000, 70_000, 100_000) for step in (-2, -1, 0, 1, 2)]


def _states(program: RandomProgram) -> list[State]:
    """Give the oracle's state after each count of instructions, up to the end or LIMIT."""
    hart = new_hart(program.code, program.registers, program.memory)
    hart.jump_rule = stays_in_code
    states = [finish_oracle(hart, 0)]
    while states[-1].stop is None and hart.retired < LIMIT:
        states.append(finish_oracle(hart, 1))
    return states


def _reset(machine: RvcoreRun) -> rvcore.Call:
    machine.instance.memory.write(machine.store, machine.initial, DATA)
    return machine.start()


def _cut_everywhere(seed: int) -> None:
    """Cut one program after each n, look, resume to the end, look again."""
    program = random_program(seed, size=60)
    states = _states(program)
    # The last state is either the trap, which needs one more unit of fuel to be met, or the limit.
    last, trapped = states[-1], states[-1].stop is not None
    with RvcoreRun(program.code, program.registers, program.memory) as machine:
        for count in range(last.retired + 1):
            call = _reset(machine)
            done = call.run(count)
            assert done.reason is rvcore.ExitReason.OUT_OF_FUEL, f"{describe(program)}, {count}: {done}"
            found = difference(states[count], machine.state(call, None))
            assert found == "", f"{describe(program)}, cut at {count}: {found}"
            ending = call.run(last.retired - count + trapped)
            found = difference(last, machine.state(call, ending.trap))
            assert found == "", f"{describe(program)}, resumed at {count}: {found}"


@pytest.mark.core
def test_a_program_cut_after_each_instruction_ends_the_same() -> None:
    """Two programs, small enough for the slow builds."""
    for seed in range(2):
        _cut_everywhere(seed)


@pytest.mark.parametrize("first", range(2, 26, 4))
def test_programs_cut_after_each_instruction_end_the_same(first: int) -> None:
    """Random programs of up to 250 instructions."""
    for seed in range(first, first + 4):
        _cut_everywhere(seed)


@pytest.mark.soak
def test_many_programs_cut_after_each_instruction_end_the_same() -> None:
    """The same for as long as one likes."""
    for seed in range(1000, 1600):
        _cut_everywhere(seed)


@pytest.mark.parametrize("step", [1, 2, 3, 7, 64])
def test_programs_run_in_steps_end_the_same(step: int) -> None:
    """The whole run in slices of one size, never more fuel than asked."""
    for seed in range(100, 106):
        program = random_program(seed)
        expected = run_checked_oracle(program.code, program.registers, program.memory, 1500)
        with RvcoreRun(program.code, program.registers, program.memory) as machine:
            call = machine.start()
            trap = None
            while trap is None and call.instructions - PROLOGUE_COUNT < 1500:
                left = 1500 - (call.instructions - PROLOGUE_COUNT)
                trap = call.run(min(step, left)).trap
            assert difference(expected, machine.state(call, trap)) == "", describe(program)


def _after(hart_code: bytes, registers: list[int], counts: list[int]) -> None:
    """Compare register states of a long program after each of the counts."""
    for count in counts:
        expected = run_checked_oracle(hart_code, registers, b"", count)
        assert difference(expected, run_rvcore(hart_code, registers, b"", count)) == "", f"after {count}"


def test_fuel_is_exact_around_the_slices_of_a_tight_loop() -> None:
    """A loop of two instructions: a0 counts the turns, so the state after n is known without an oracle."""
    code = assemble("addi a0, a0, 1; bne a0, a1, -4; ebreak")
    registers = [0] * 32
    registers[11] = -1
    for count in _BORDERS:
        state = run_rvcore(code, registers, b"", count)
        assert (state.stop, state.retired) == (None, count)
        assert (state.registers[10], state.pc) == ((count + 1) // 2, CODE + 4 * (count % 2))


@pytest.mark.core
def test_a_tight_loop_is_cut_exactly_between_and_inside_turns() -> None:
    """The same, cheap enough for the slow builds, with the cut and the resumption at odd places."""
    code = assemble("addi a0, a0, 1; bne a0, a1, -4; ebreak")
    registers = [0] * 32
    registers[11] = 60_000
    for first in (1, 49_999, 50_000, 50_001, 119_999, 120_000):
        with RvcoreRun(code, registers, b"") as machine:
            call = machine.start()
            assert call.run(first).reason is rvcore.ExitReason.OUT_OF_FUEL
            assert call.instructions == PROLOGUE_COUNT + first
            trap = call.run(200_000).trap
            assert trap is not None
            assert (trap.code, trap.registers[10]) == (rvcore.TrapCode.BREAKPOINT, 60_000)
            assert call.instructions == PROLOGUE_COUNT + 120_000


def test_fuel_is_exact_in_straight_code_longer_than_a_slice() -> None:
    """No backward edge, so nothing but the count itself can stop the run."""
    code = assemble("c.addi a0, 1") * 120_000 + assemble("ebreak")
    registers = [0] * 32
    with RvcoreRun(code, registers, b"") as machine:
        for count in [1, 19_999, *_BORDERS[::3], 119_999, 120_000]:
            call = machine.start()
            assert call.run(count).reason is rvcore.ExitReason.OUT_OF_FUEL
            assert machine.state(call, None).registers[10] == count
            trap = call.run(120_001).trap
            assert trap is not None
            assert (trap.pc, call.instructions) == (CODE + 240_000, PROLOGUE_COUNT + 120_000)


def test_fuel_is_exact_while_pages_are_touched_for_the_first_time() -> None:
    """First stores take a slow path that has a price of its own, which must not show in the count."""
    code = assemble("sd a0, 0(a1); add a1, a1, a2; addi a0, a0, 1; bne a0, a3, -12; ebreak")
    registers = [0] * 32
    registers[11], registers[12], registers[13] = DATA, 4096, 200
    memory = bytes(200 * 4096)
    for count in [*range(1, 40), 397, 398, 399, 400, 401, 799, 800]:
        expected = run_checked_oracle(code, registers, memory, count)
        assert difference(expected, run_rvcore(code, registers, memory, count)) == "", f"after {count}"


def test_fuel_is_exact_in_a_loop_of_forward_branches() -> None:
    """Between two backward edges the number of instructions varies from turn to turn."""
    body = "andi a2, a0, 1; c.beqz a2, +6; addi a3, a3, 1; andi a2, a0, 2; bne a2, zero, +8; addi a4, a4, 3; "
    code = assemble(body + "addi a0, a0, 1; jal zero, -26")
    _after(code, [0] * 32, [*range(1, 60), 997, 998, 999, 1000, 1001, 1002, 1003])


def test_fuel_is_exact_in_a_loop_of_indirect_jumps() -> None:
    """Backward through a register."""
    code = assemble("addi a0, a0, 1; addi a1, a1, 2; jalr ra, 0(s0)")
    registers = [0] * 32
    registers[8] = CODE
    _after(code, registers, [*range(1, 30), 997, 998, 999, 1000, 4001])


class _Called:
    """A guest function of five instructions that makes one host call and returns."""

    def __init__(self) -> None:
        code = assemble("addi a0, zero, 5; lui a7, 1; ecall; addi a0, a0, 1; jalr zero, 0(ra)")
        config = rvcore.Config(cfi=False, memory_size=4 << 20, stack_size=64 << 10)
        self.engine = rvcore.Engine(config)
        self.module = rvcore.Module(self.engine, build_image(code, b""))
        self.linker = rvcore.Linker(self.engine)

    def call(self, store: rvcore.Store) -> rvcore.Call:
        """Begin the function, by the jump of the exported one."""
        instance = self.linker.instantiate(store, self.module)
        return instance.exports(store)["enter"].start(store, CODE)


# The jump to it, and the five.
_CALLED = 6


@pytest.mark.core
def test_a_return_needs_fuel_for_the_return_and_no_more() -> None:
    """The instruction that returns is counted, the host call as one instruction too."""
    guest = _Called()
    guest.linker.define_func(0x1000, lambda _caller, a0, *_rest: a0 * 10)
    for fuel in range(_CALLED + 3):
        with rvcore.Store(guest.engine) as store:
            call = guest.call(store)
            done = call.run(fuel)
            returned = fuel >= _CALLED
            assert done.reason.name == ("RETURNED" if returned else "OUT_OF_FUEL")
            assert call.instructions == min(fuel, _CALLED)
            if not returned:
                done = call.run()
            assert done.values[0] == 51
            assert call.instructions == _CALLED
    guest.engine.close()


@pytest.mark.core
def test_a_deferred_host_call_counts_once_however_it_is_cut() -> None:
    """Out of fuel before it, at it and behind it."""
    guest = _Called()
    guest.linker.define_deferred(0x1000, name="later")
    for fuel in range(_CALLED):
        with rvcore.Store(guest.engine) as store:
            call = guest.call(store)
            done = call.run(fuel)
            if fuel < 4:
                assert done.reason is rvcore.ExitReason.OUT_OF_FUEL
                assert call.instructions == fuel
                done = call.run()
            assert (done.reason, done.number, done.args[0]) == (rvcore.ExitReason.HOST_CALL, 0x1000, 5)
            assert call.instructions == 4
            call.resume(7)
            assert call.run(0).reason is rvcore.ExitReason.OUT_OF_FUEL
            assert call.run(1).reason is rvcore.ExitReason.OUT_OF_FUEL
            assert call.run(1).values[0] == 8
            assert call.instructions == _CALLED
    guest.engine.close()


@pytest.mark.core
def test_a_store_pays_for_each_instruction_once() -> None:
    """What is left of the store's fuel is what it had without what retired; a trap costs nothing."""
    code = assemble("addi a0, a0, 1; addi a0, a0, 1; ebreak")
    with RvcoreRun(code, [0] * 32, b"") as machine:
        machine.store.set_fuel(1000)
        call = machine.start()
        assert machine.store.get_fuel() == 1000 - PROLOGUE_COUNT
        assert call.run(1).reason is rvcore.ExitReason.OUT_OF_FUEL
        assert call.run().reason is rvcore.ExitReason.TRAP
        assert machine.store.get_fuel() == 1000 - PROLOGUE_COUNT - 2


@pytest.mark.core
def test_the_smaller_of_the_runs_and_the_stores_fuel_counts() -> None:
    """And fuel that a store is given later lets the same call go on."""
    code = assemble("addi a0, a0, 1; c.j -4")
    with RvcoreRun(code, [0] * 32, b"") as machine:
        call = machine.start()
        machine.store.set_fuel(11)
        assert call.run(5).reason is rvcore.ExitReason.OUT_OF_FUEL
        assert machine.store.get_fuel() == 6
        assert call.run(100).reason is rvcore.ExitReason.OUT_OF_FUEL
        assert (machine.store.get_fuel(), call.instructions) == (0, PROLOGUE_COUNT + 11)
        assert call.run().reason is rvcore.ExitReason.OUT_OF_FUEL
        machine.store.set_fuel(3)
        assert call.run().reason is rvcore.ExitReason.OUT_OF_FUEL
        assert call.instructions == PROLOGUE_COUNT + 14


def test_a_call_that_runs_out_of_fuel_is_a_trap_with_its_place() -> None:
    """Callers that do not drive the run see OUT_OF_FUEL, with pc and registers."""
    code = assemble("addi a0, a0, 1; c.j -4")
    with RvcoreRun(code, [0] * 32, b"") as machine:
        call = machine.start()
        machine.store.set_fuel(7)
        with pytest.raises(rvcore.Trap) as caught:
            call.finish()
        assert caught.value.code is rvcore.TrapCode.OUT_OF_FUEL
        assert (caught.value.pc, caught.value.registers[10]) == (CODE + 4, 4)


@pytest.mark.core
def test_an_interrupted_run_resumes_without_losing_an_instruction() -> None:
    """The interrupt word stops a run at its start; the run after it goes on."""
    code = assemble("addi a0, a0, 1; bne a0, a1, -4; ebreak")
    registers = [0] * 32
    registers[11] = 1000
    with RvcoreRun(code, registers, b"") as machine:
        call = machine.start()
        for count in itertools.accumulate(random.Random(7).choices(range(1, 50), k=20)):
            call.run(count - (call.instructions - PROLOGUE_COUNT))
            machine.store.interrupt()
            assert call.run().reason is rvcore.ExitReason.INTERRUPTED
            assert call.instructions == PROLOGUE_COUNT + count
        trap = call.run().trap
        assert trap is not None
        assert (trap.registers[10], call.instructions) == (1000, PROLOGUE_COUNT + 2000)
