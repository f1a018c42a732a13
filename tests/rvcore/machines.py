"""One way to run a few instructions on the oracle hart, on unicorn and on rvcore, and one shape of result.

`run(code, registers, memory, max_instructions)` puts `code` at CODE, `memory` at DATA, sets all 31 registers and
executes until a trap or until the count is used up. Both regions are whole pages: code is padded with zeroes (which
are illegal instructions), so that running off the end looks alike everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import unicorn
from unicorn import riscv_const

from .hart import PAGE, Hart, Memory

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

CODE = 0x11000
DATA = 0x100000
MASK = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class State:
    """What can be seen after a run; `stop` is None when max_instructions retired without a trap."""

    stop: str | None
    pc: int
    registers: tuple[int, ...]
    memory: bytes
    retired: int
    address: int | None = None


Runner = "Callable[[bytes, Sequence[int], bytes, int], State]"


def whole_pages(data: bytes) -> bytes:
    """Pad with zeroes to whole pages, at least one."""
    return data.ljust(max(1, -(-len(data) // PAGE)) * PAGE, b"\0")


def difference(expected: State, actual: State) -> str:
    """Say in which fields two states differ; empty when they do not."""
    lines = []
    for name in ("stop", "pc", "retired", "address"):
        want, got = getattr(expected, name), getattr(actual, name)
        if want != got:
            lines.append(f"{name}: expected {_show(want)}, got {_show(got)}")
    for index, (want, got) in enumerate(zip(expected.registers, actual.registers, strict=True)):
        if want != got:
            lines.append(f"x{index}: expected 0x{want:x}, got 0x{got:x}")
    if len(expected.memory) != len(actual.memory):
        lines.append(f"memory: {len(expected.memory)} bytes against {len(actual.memory)}")
    bad = [at for at, pair in enumerate(zip(expected.memory, actual.memory, strict=False)) if pair[0] != pair[1]]
    for at in bad[:8]:
        lines.append(f"byte 0x{DATA + at:x}: expected {expected.memory[at]:02x}, got {actual.memory[at]:02x}")
    return "\n".join(lines)


def _show(value: str | int | None) -> str:
    return hex(value) if isinstance(value, int) else str(value)


def new_hart(code: bytes, registers: Sequence[int], memory: bytes) -> Hart:
    """Make an oracle hart with code and memory in place."""
    space = Memory()
    space.map(CODE, whole_pages(code), "rx")
    space.map(DATA, whole_pages(memory), "rw")
    return Hart(space, CODE, [0, *(value & MASK for value in registers[1:])])


def run_oracle(code: bytes, registers: Sequence[int], memory: bytes, max_instructions: int) -> State:
    """Run on the plain-Python hart."""
    hart = new_hart(code, registers, memory)
    trap = hart.run(max_instructions)
    return State(
        trap.code if trap else None,
        hart.pc,
        tuple(hart.x),
        hart.memory.peek(DATA, len(whole_pages(memory))),
        hart.retired,
        trap.address if trap else None,
    )


# What unicorn reports for a machine exception, by its RISC-V cause number.
_CAUSES = {2: "ILLEGAL_INSTRUCTION", 4: "MISALIGNED_ATOMIC", 6: "MISALIGNED_ATOMIC", 8: "ECALL"}
_ACCESSES = {
    unicorn.UC_MEM_READ_UNMAPPED: "LOAD_FAULT",
    unicorn.UC_MEM_READ_PROT: "LOAD_FAULT",
    unicorn.UC_MEM_WRITE_UNMAPPED: "STORE_FAULT",
    unicorn.UC_MEM_WRITE_PROT: "STORE_FAULT",
    unicorn.UC_MEM_FETCH_UNMAPPED: "FETCH_FAULT",
    unicorn.UC_MEM_FETCH_PROT: "FETCH_FAULT",
}


class _UnicornRun:
    """One emulation and what its hooks saw.

    Unicorn calls the code hook before an instruction, but not before an illegal compressed one; after an exception
    its pc is always four bytes further on, and `ebreak` is no exception but UC_ERR_INSN_INVALID.
    """

    def __init__(self, code: bytes, registers: Sequence[int], memory: bytes) -> None:
        self.emulator = unicorn.Uc(unicorn.UC_ARCH_RISCV, unicorn.UC_MODE_RISCV64)
        self.stop: str | None = None
        self.address: int | None = None
        self.entered = 0
        self.last_pc = -1
        self._map(CODE, whole_pages(code), unicorn.UC_PROT_READ | unicorn.UC_PROT_EXEC)
        self._map(DATA, whole_pages(memory), unicorn.UC_PROT_READ | unicorn.UC_PROT_WRITE)
        for number, value in enumerate(registers[1:], 1):
            self.emulator.reg_write(riscv_const.UC_RISCV_REG_X0 + number, value & MASK)
        self.emulator.hook_add(unicorn.UC_HOOK_CODE, self._enter)
        self.emulator.hook_add(unicorn.UC_HOOK_INTR, self._exception)
        self.emulator.hook_add(unicorn.UC_HOOK_MEM_INVALID, self._bad_access)

    def _map(self, start: int, data: bytes, permissions: int) -> None:
        self.emulator.mem_map(start, len(data), permissions)
        self.emulator.mem_write(start, data)

    def _enter(self, _uc: Any, pc: int, _size: int, _data: Any) -> None:
        self.entered += 1
        self.last_pc = pc

    def _exception(self, uc: Any, cause: int, _data: Any) -> None:
        self.stop = _CAUSES.get(cause, f"cause {cause}")
        uc.emu_stop()

    def _bad_access(self, _uc: Any, access: int, address: int, _size: int, _value: int, _data: Any) -> bool:
        self.stop, self.address = _ACCESSES[access], address
        return False

    def run(self, count: int) -> State:
        """Execute up to count instructions."""
        begin = CODE
        try:
            self.emulator.emu_start(begin, MASK, count=count)
        except unicorn.UcError as error:
            if error.errno == unicorn.UC_ERR_INSN_INVALID:
                self.stop = "BREAKPOINT"
            elif self.stop is None:
                raise
        pc = self.emulator.reg_read(riscv_const.UC_RISCV_REG_PC)
        if self.stop in _CAUSES.values():
            pc -= 4
            if self.stop == "MISALIGNED_ATOMIC":
                self.address = None
        trapped_inside = self.stop is not None and self.stop != "FETCH_FAULT" and self.last_pc == pc
        return self._state(pc, self.entered - trapped_inside)

    def _state(self, pc: int, retired: int) -> State:
        numbers = [riscv_const.UC_RISCV_REG_X0 + number for number in range(32)]
        registers = tuple(value & MASK for value in self.emulator.reg_read_batch(numbers))
        regions = {start: end for start, end, _ in self.emulator.mem_regions()}
        memory = bytes(self.emulator.mem_read(DATA, regions[DATA] + 1 - DATA))
        return State(self.stop, pc & MASK, registers, memory, retired, self.address)


def run_unicorn(code: bytes, registers: Sequence[int], memory: bytes, max_instructions: int) -> State:
    """Run on unicorn's RISC-V 64."""
    return _UnicornRun(code, registers, memory).run(max_instructions)
