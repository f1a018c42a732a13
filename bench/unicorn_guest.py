"""Load a kernel's RISC-V image into unicorn and call it; also count what it executes."""

# mypy: disable-error-code="attr-defined, no-untyped-call"
from __future__ import annotations

from pathlib import Path
from typing import Any

import unicorn
from elftools.elf.elffile import ELFFile
from unicorn import riscv_const as riscv

MEMORY_BYTES = 4 << 20
# A page of its own: unicorn stops before it executes the address, but wants it mapped.
RETURN_ADDRESS = 0x1000


class UnicornGuest:
    """One image in one unicorn machine."""

    def __init__(self, path: Path, *, own_tlb: bool = False) -> None:
        """Read the image and start a machine with it.

        Args:
            path: The image.
            own_tlb: Whether unicorn maps addresses itself and not by the RISC-V rules. Neither is always
                faster: byte stores gain much, word accesses lose.

        Raises:
            ValueError: the image exports no function `kernel`.
        """
        with path.open("rb") as file:
            elf: Any = ELFFile(file)
            self._segments = [(one["p_vaddr"], one.data()) for one in elf.iter_segments("PT_LOAD")]
            symbols = elf.get_section_by_name(".symtab").get_symbol_by_name("kernel")
        if not symbols:
            raise ValueError(f"{path.name}: no symbol `kernel`")
        self.kernel: int = symbols[0]["st_value"]
        self._own_tlb = own_tlb
        self._boot()

    def _boot(self) -> None:
        self.engine: Any = unicorn.Uc(unicorn.UC_ARCH_RISCV, unicorn.UC_MODE_RISCV64)
        if self._own_tlb:
            self.engine.ctl_set_tlb_mode(unicorn.UC_TLB_VIRTUAL)
        self.engine.mem_map(0x10000, MEMORY_BYTES)
        self.engine.mem_map(RETURN_ADDRESS, 0x1000)
        for address, data in self._segments:
            self.engine.mem_write(address, data)

    def fresh(self) -> UnicornGuest:
        """Give a new machine with the same image, without reading the file again."""
        other = UnicornGuest.__new__(UnicornGuest)
        other._segments, other.kernel, other._own_tlb = self._segments, self.kernel, self._own_tlb
        other._boot()
        return other

    def call(self, n: int) -> int:
        """Run `kernel(n)` to its return and give the checksum."""
        self.engine.reg_write(riscv.UC_RISCV_REG_SP, 0x10000 + MEMORY_BYTES - 64)
        self.engine.reg_write(riscv.UC_RISCV_REG_RA, RETURN_ADDRESS)
        self.engine.reg_write(riscv.UC_RISCV_REG_A0, n)
        self.engine.emu_start(self.kernel, RETURN_ADDRESS)
        return int(self.engine.reg_read(riscv.UC_RISCV_REG_A0))

    def halfword(self, address: int) -> int:
        """Read two bytes of the guest's memory as a little-endian number."""
        return int.from_bytes(self.engine.mem_read(address, 2), "little")


class BlockProfile:
    """Counts of executed blocks, and how often each one fell through into the code after it."""

    def __init__(self, guest: UnicornGuest) -> None:
        """Start counting in the guest."""
        self.blocks: dict[tuple[int, int], int] = {}
        self.falls: dict[tuple[int, int], int] = {}
        self._last = (0, 0)
        guest.engine.hook_add(unicorn.UC_HOOK_BLOCK, self._enter)

    def _enter(self, _engine: object, address: int, size: int, _data: object) -> None:
        key = (address, size)
        self.blocks[key] = self.blocks.get(key, 0) + 1
        last = self._last
        if address == last[0] + last[1]:
            self.falls[last] = self.falls.get(last, 0) + 1
        self._last = key


class InstructionCount:
    """Counts every executed instruction, slowly."""

    def __init__(self, guest: UnicornGuest) -> None:
        """Start counting in the guest."""
        self.instructions = 0
        guest.engine.hook_add(unicorn.UC_HOOK_CODE, self._step)

    def _step(self, _engine: object, _address: int, _size: int, _data: object) -> None:
        self.instructions += 1
