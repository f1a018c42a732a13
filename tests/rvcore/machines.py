"""One way to run a few instructions on the oracle hart, on unicorn and on rvcore, with one shape of result.

A runner takes (code, registers, memory, max_instructions): it puts `code` at CODE and `memory` at DATA, sets
all 31 registers and executes until a trap or until the count is used up. Both regions are whole pages, filled
up with zeroes (which are illegal instructions), so that running off the end looks alike everywhere.

rvcore is used through its public API alone. Its registers come from a table in guest memory by a prologue:
one loads all and jumps to CODE, the other to any address, given in a1 and left in t6. The exported
function reaches them by an indirect jump, because the loader looks for foreign instructions wherever a
function leads directly.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Self

import rvcore
from elfs import build_elf

from .encode import assemble
from .hart import PAGE, Hart, Memory
from .state import CODE, DATA, MASK, State, whole_pages
from .unicorn_machine import run_unicorn

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from .state import Runner

TABLE = DATA - PAGE
_BASE = 0x10000
_MEMORY_SIZE = 4 << 20
ENTER = _BASE + 0x10
ENTER_AT = _BASE + 0x100
# Instructions of either: the jump, lui, thirty-one loads and the jump to the program; or the jump, mv,
# lui, thirty loads and the jump.
PROLOGUE_COUNT = 34


def new_hart(code: bytes, registers: Sequence[int], memory: bytes) -> Hart:
    """Make an oracle hart with code and memory in place."""
    space = Memory()
    space.map(CODE, whole_pages(code), "rx")
    space.map(DATA, whole_pages(memory), "rw")
    return Hart(space, CODE, [0, *(value & MASK for value in registers[1:])])


def run_oracle(code: bytes, registers: Sequence[int], memory: bytes, max_instructions: int) -> State:
    """Run on the plain-Python hart."""
    return finish_oracle(new_hart(code, registers, memory), max_instructions)


def run_checked_oracle(code: bytes, registers: Sequence[int], memory: bytes, max_instructions: int) -> State:
    """Run on the plain-Python hart with our ABI's rule for jumps that leave the code."""
    hart = new_hart(code, registers, memory)
    hart.checks_jumps = True
    return finish_oracle(hart, max_instructions)


def beyond_compare(state: State) -> bool:
    """Tell whether an oracle's run ended where rvcore alone has memory: prologue, table, heap, stack."""
    if state.address is None:
        return False
    # An access may begin a few bytes before.
    return _BASE - 8 < state.address < CODE or TABLE - 8 < state.address < _MEMORY_SIZE


class OracleRun:
    """What RvcoreRun does with `run_at`, on the plain-Python hart."""

    def __init__(self, code: bytes, registers: Sequence[int], memory: bytes) -> None:
        self.hart = new_hart(code, registers, memory)
        self.hart.checks_jumps = True
        self.registers = list(self.hart.x)
        self.initial = whole_pages(memory)

    def run_at(self, address: int, max_instructions: int) -> State:
        """Run from an address of the program, t6 holding it, then put the data back as it was."""
        hart = self.hart
        hart.x[:] = [*self.registers[:31], address]
        hart.pc, hart.retired, hart.reservation = address, 0, None
        state = finish_oracle(hart, max_instructions)
        if state.memory != self.initial:
            hart.memory.map(DATA, self.initial, "rw")
        return state


def finish_oracle(hart: Hart, max_instructions: int) -> State:
    """Run a hart that `new_hart` made and describe where it stands."""
    trap = hart.run(max_instructions)
    memory = hart.memory.region(DATA)
    return State(
        trap.code if trap else None,
        hart.pc,
        tuple(hart.x),
        memory,
        hart.retired,
        trap.address if trap else None,
    )


def _loads(last: int) -> str:
    return "; ".join(f"ld x{number}, {8 * number}(x{last})" for number in [*range(1, last), last])


def _prologue() -> bytes:
    """Return the code from _BASE to CODE."""
    page = TABLE >> 12
    jump = CODE - ENTER - 4 * (PROLOGUE_COUNT - 2)
    parts = [
        (_BASE, "jalr zero, 0(a0)"),
        (ENTER, f"lui t6, {page}; {_loads(31)}; jal zero, {jump}"),
        (ENTER_AT, f"addi t6, a1, 0; lui t5, {page}; {_loads(30)}; jalr zero, 0(t6)"),
    ]
    out = b""
    for start, text in parts:
        out = out.ljust(start - _BASE, b"\0") + assemble(text)
    return out.ljust(CODE - _BASE, b"\0")


def build_image(code: bytes, memory: bytes, registers: Sequence[int] = (0,) * 32) -> bytes:
    """Build the ELF image with the prologues, the register table and the program."""
    table = struct.pack("<32Q", *(value & MASK for value in registers))
    return build_elf(
        _prologue() + whole_pages(code),
        base=_BASE,
        # No function covers the program: it may hold what a function of a good image may not.
        symbols={"enter": (_BASE, 4)},
        data=whole_pages(table) + whole_pages(memory),
        data_addr=TABLE,
    )


class RvcoreRun:
    """One program in one store of rvcore, control-flow checks off; a context manager."""

    def __init__(self, code: bytes, registers: Sequence[int], memory: bytes) -> None:
        config = rvcore.Config(cfi=False, memory_size=_MEMORY_SIZE, stack_size=64 << 10)
        self.engine = rvcore.Engine(config)
        module = rvcore.Module(self.engine, build_image(code, memory, registers))
        self.store = rvcore.Store(self.engine)
        self.instance = rvcore.Linker(self.engine).instantiate(self.store, module)
        self.initial = whole_pages(memory)
        self.size = len(self.initial)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.store.close()
        self.engine.close()

    def start(self) -> rvcore.Call:
        """Begin at the program with all registers set; the prologue has run."""
        call = self.instance.exports(self.store)["enter"].start(self.store, ENTER)
        return _after_prologue(call)

    def start_at(self, address: int) -> rvcore.Call:
        """Begin at an address of the program with all registers set, t6 to that address."""
        call = self.instance.exports(self.store)["enter"].start(self.store, ENTER_AT, address)
        return _after_prologue(call)

    def run_at(self, address: int, max_instructions: int) -> State:
        """Run from an address of the program, then put the data back as it was."""
        call = self.start_at(address)
        state = self.state(call, call.run(max_instructions).trap)
        if state.memory != self.initial:
            self.instance.memory.write(self.store, self.initial, DATA)
        return state

    def memory(self) -> bytes:
        """Read the data region."""
        content: bytes = self.instance.memory.read(self.store, DATA, DATA + self.size)
        return content

    def state(self, call: rvcore.Call, trap: rvcore.Trap | None) -> State:
        """Describe where a call stands after a run that ended with `trap` or out of fuel."""
        retired = call.instructions - PROLOGUE_COUNT
        at = trap if trap is not None else stand(call)
        return State(
            None if trap is None else stop_name(trap),
            trap_pc(at),
            at.registers,
            self.memory(),
            retired,
            None if trap is None else trap.address,
        )


def _after_prologue(call: rvcore.Call) -> rvcore.Call:
    done = call.run(PROLOGUE_COUNT)
    if done.reason is not rvcore.ExitReason.OUT_OF_FUEL or call.instructions != PROLOGUE_COUNT:
        raise AssertionError(f"the prologue ended with {done} after {call.instructions} instructions")
    return call


def stand(call: rvcore.Call) -> rvcore.Trap:
    """Ask a paused call for its pc and registers, as a trap shows them; the store's fuel is kept."""
    fuel = call.store.get_fuel()
    call.store.set_fuel(0)
    try:
        call.finish()
    except rvcore.Trap as trap:
        return trap
    finally:
        call.store.set_fuel(fuel)
    raise AssertionError("a call without fuel did not stop")


def stop_name(trap: rvcore.Trap) -> str:
    """Name a trap as the oracle does: nobody serves an ecall here."""
    if trap.code is rvcore.TrapCode.UNKNOWN_HOST_CALL:
        return "ECALL"
    # Which jumps count as returns is control-flow integrity's business, not the instruction's.
    return "BAD_JUMP" if trap.code is rvcore.TrapCode.BAD_RETURN else trap.code.name


def trap_pc(trap: rvcore.Trap) -> int:
    """Give the pc that the manual would: a fetch fault is at the place that cannot be fetched."""
    if trap.code is rvcore.TrapCode.FETCH_FAULT and trap.address is not None:
        return trap.address
    if trap.pc is None:
        raise AssertionError(f"a trap without a pc: {trap}")
    return trap.pc


def run_rvcore(code: bytes, registers: Sequence[int], memory: bytes, max_instructions: int) -> State:
    """Run on the machine under test."""
    with RvcoreRun(code, registers, memory) as run:
        call = run.start()
        return run.state(call, call.run(max_instructions).trap)


MACHINES: dict[str, Runner] = {
    "oracle": run_oracle,
    "checked oracle": run_checked_oracle,
    "unicorn": run_unicorn,
    "rvcore": run_rvcore,
}
