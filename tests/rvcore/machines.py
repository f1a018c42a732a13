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
from elfs import R_64, build_elf

from .encode import assemble
from .hart import Hart, Memory
from .state import DATA, LOW, MASK, Layout, State, whole_pages
from .unicorn_machine import run_unicorn

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from .isa import Instruction
    from .state import Runner

# Where the two prologues lie behind the layout's base, and how many instructions either takes: the jump,
# auipc, thirty-one loads and the jump to the program; or the jump, mv, auipc, thirty loads and the jump.
_ENTER = 0x10
_ENTER_AT = 0x100
PROLOGUE_COUNT = 34
# What rvcore puts into ra when a call begins.
_RETURN = (1 << 64) - 4096


def new_hart(code: bytes, registers: Sequence[int], memory: bytes, layout: Layout = LOW) -> Hart:
    """Make an oracle hart with code and memory in place."""
    space = Memory()
    space.map(layout.code, whole_pages(code), "rx")
    space.map(layout.data, whole_pages(memory), "rw")
    return Hart(space, layout.code, [0, *(value & MASK for value in registers[1:])])


def run_oracle(code: bytes, registers: Sequence[int], memory: bytes, max_instructions: int) -> State:
    """Run on the plain-Python hart."""
    return finish_oracle(new_hart(code, registers, memory), max_instructions)


def stays_in_code(hart: Hart, _op: Instruction, target: int) -> str | None:
    """Refuse a jump to what cannot be executed: rvcore's rule when control-flow checks are off."""
    return None if hart.memory.allows(target, 2, "x") else "BAD_JUMP"


def run_checked_oracle(
    code: bytes, registers: Sequence[int], memory: bytes, max_instructions: int, layout: Layout = LOW
) -> State:
    """Run on the plain-Python hart with our ABI's rule for jumps that leave the code."""
    hart = new_hart(code, registers, memory, layout)
    hart.jump_rule = stays_in_code
    return finish_oracle(hart, max_instructions, layout)


def beyond_compare(state: State, layout: Layout = LOW) -> bool:
    """Tell whether an oracle's run ended where rvcore alone has something.

    That is the prologue, the table, heap and stack; and the address to which a call returns.
    """
    if state.address is None:
        return False
    if state.stop == "BAD_JUMP" and state.address == _RETURN:
        return True
    # An access may begin a few bytes before.
    in_prologue = layout.base - 8 < state.address < layout.code
    return in_prologue or layout.table - 8 < state.address < layout.memory_size


class OracleRun:
    """What RvcoreRun does with `run_at`, on the plain-Python hart."""

    def __init__(self, code: bytes, registers: Sequence[int], memory: bytes) -> None:
        self.hart = new_hart(code, registers, memory)
        self.hart.jump_rule = stays_in_code
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


def finish_oracle(hart: Hart, max_instructions: int, layout: Layout = LOW) -> State:
    """Run a hart that `new_hart` made and describe where it stands."""
    trap = hart.run(max_instructions)
    memory = hart.memory.region(layout.data)
    stop, address = (trap.code, trap.address) if trap else (None, None)
    return State(stop, hart.pc, tuple(hart.x), memory, hart.retired, address)


def _loads(base: int, last: int, back: int) -> str:
    """Load x1 and up from the table behind `base`, `last` after all others."""
    numbers = [number for number in range(1, last + 1) if number != base]
    return "; ".join(f"ld x{number}, {8 * number - back}(x{base})" for number in [*numbers, base])


def _prologue(layout: Layout) -> bytes:
    """Return the code from the layout's base to the program."""
    page = (layout.table - layout.base) >> 12
    jump = layout.code - layout.base - _ENTER - 4 * (PROLOGUE_COUNT - 2)
    parts = [
        (0, "jalr zero, 0(a0)"),
        (_ENTER, f"auipc t6, {page}; {_loads(31, 31, _ENTER)}; jal zero, {jump}"),
        (_ENTER_AT, f"addi t6, a1, 0; auipc t5, {page}; {_loads(30, 30, _ENTER_AT + 4)}; jalr zero, 0(t6)"),
    ]
    out = b""
    for offset, text in parts:
        out = out.ljust(offset, b"\0") + assemble(text)
    return out.ljust(layout.code - layout.base, b"\0")


def build_image(
    code: bytes,
    memory: bytes,
    registers: Sequence[int] = (0,) * 32,
    layout: Layout = LOW,
    targets: Sequence[int] | None = None,
) -> bytes:
    """Build the ELF image with the prologues, the register table and the program.

    With `targets`, these and the prologues are legal indirect targets; the loader then also looks for foreign
    instructions from there.
    """
    named = [] if targets is None else [layout.base + _ENTER, layout.base + _ENTER_AT, *targets]
    table = struct.pack("<32Q", *(value & MASK for value in registers))
    return build_elf(
        _prologue(layout) + whole_pages(code),
        base=layout.base,
        # No function covers the program: it may hold what a function of a good image may not.
        symbols={"enter": (layout.base, 4)},
        data=whole_pages(table) + whole_pages(memory),
        data_addr=layout.table,
        # All from one place: what it holds is of no interest.
        relocations=[(layout.table + 0x800, R_64, target) for target in named],
    )


class RvcoreRun:
    """One program in one store of rvcore, a context manager; with targets, control-flow checks are on."""

    def __init__(
        self,
        code: bytes,
        registers: Sequence[int],
        memory: bytes,
        layout: Layout = LOW,
        targets: Sequence[int] | None = None,
    ) -> None:
        self.layout = layout
        cfi = targets is not None
        config = rvcore.Config(cfi=cfi, memory_size=layout.memory_size, stack_size=64 << 10)
        self.engine = rvcore.Engine(config)
        image = build_image(code, memory, registers, layout, targets)
        module = rvcore.Module(self.engine, image)
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
        call = self.instance.exports(self.store)["enter"].start(self.store, self.layout.base + _ENTER)
        return _after_prologue(call)

    def start_at(self, address: int) -> rvcore.Call:
        """Begin at an address of the program with all registers set, t6 to that address."""
        call = self.instance.exports(self.store)["enter"].start(
            self.store, self.layout.base + _ENTER_AT, address
        )
        return _after_prologue(call)

    def run_at(self, address: int, max_instructions: int) -> State:
        """Run from an address of the program, then put the data back as it was."""
        call = self.start_at(address)
        state = self.state(call, call.run(max_instructions).trap)
        if state.memory != self.initial:
            self.instance.memory.write(self.store, self.initial, self.layout.data)
        return state

    def memory(self) -> bytes:
        """Read the data region."""
        content: bytes = self.instance.memory.read(self.store, self.layout.data, self.layout.data + self.size)
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


def run_rvcore(
    code: bytes, registers: Sequence[int], memory: bytes, max_instructions: int, layout: Layout = LOW
) -> State:
    """Run on the machine under test."""
    with RvcoreRun(code, registers, memory, layout) as run:
        call = run.start()
        return run.state(call, call.run(max_instructions).trap)


MACHINES: dict[str, Runner] = {
    "oracle": run_oracle,
    "checked oracle": run_checked_oracle,
    "unicorn": run_unicorn,
    "rvcore": run_rvcore,
}
