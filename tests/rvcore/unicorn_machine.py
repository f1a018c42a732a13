"""The same program on unicorn's RISC-V 64 (QEMU's translator), as a second opinion; see `machines.py`.

Deviations of unicorn 2.1 met here, and what this file makes of them:
- `ebreak` is no exception but UC_ERR_INSN_INVALID; other exceptions leave pc four bytes behind the place.
- The code hook runs before each instruction, but not before each illegal compressed one.
- Compressed encodings that are reserved after c.addw, Zcb's and the floating-point ones run as no-ops.
- A misaligned SC without a reservation fails quietly instead of trapping, and an SC fails when the reserved
  bytes have changed meanwhile, also by this hart's own store. Compared programs do neither.
- A misaligned LR, SC or AMO does not say at which address.
- Zicsr, F and D are there: encodings of theirs are not compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import unicorn as untyped_unicorn
from unicorn import riscv_const

from .state import CODE, DATA, MASK, State, whole_pages

if TYPE_CHECKING:
    from collections.abc import Sequence

unicorn: Any = untyped_unicorn

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
    """One emulation and what its hooks saw."""

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
        try:
            self.emulator.emu_start(CODE, MASK, count=count)
        except unicorn.UcError as error:
            if error.errno == unicorn.UC_ERR_INSN_INVALID:
                self.stop = "BREAKPOINT"
            elif self.stop is None:
                raise
        pc = self.emulator.reg_read(riscv_const.UC_RISCV_REG_PC)
        if self.stop in _CAUSES.values():
            pc -= 4
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
