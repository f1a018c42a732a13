"""A slow RV64IMAC hart in plain Python, written from the unprivileged manual, to compare rvcore with.

It owns registers, a paged memory and the fetch-decode-execute cycle. Traps are values: `step` gives None or a
`Trap`, and a trapping instruction has changed nothing and is not counted as retired. Nothing here is derived
from rvcore. The choices that the manual leaves to the execution environment are those of our ABI: misaligned
loads and stores work, misaligned LR/SC/AMO trap, fences do nothing, a store that faults has written no byte.
A `jump_rule` may name a trap for a jalr that control-flow integrity refuses; without one every jump is taken,
and a place that holds no code is a fetch fault after it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from dataclasses import field as member

from . import isa, rvc, semantics
from .isa import Instruction, signed
from .semantics import MASK

PAGE = 4096


@dataclass(frozen=True, slots=True)
class Trap:
    """Why a hart stopped; `code` is a name of `rvcore.TrapCode`, or ECALL."""

    code: str
    pc: int
    address: int | None = None
    size: int = 0


# Gives the name of the trap of a jalr (decoded, with its target), or None to let it happen.
JumpRule = Callable[["Hart", Instruction, int], str | None]


class _AccessError(Exception):
    """An access that the memory refuses, on its way to becoming a Trap."""

    def __init__(self, code: str, address: int, size: int) -> None:
        self.code, self.address, self.size = code, address, size


class Memory:
    """Pages with permissions; addresses are 64-bit and never wrap."""

    def __init__(self) -> None:
        self._pages: dict[int, tuple[bytearray, str]] = {}

    def map(self, start: int, data: bytes, permissions: str, size: int | None = None) -> None:
        """Map whole pages at `start`, filled with `data` and then zeroes; permissions are out of "rwx"."""
        size = -(-(size or len(data)) // PAGE) * PAGE
        for offset in range(0, size, PAGE):
            page = bytearray(data[offset : offset + PAGE].ljust(PAGE, b"\0"))
            self._pages[(start + offset) // PAGE] = (page, permissions)

    def allows(self, address: int, size: int, permission: str) -> bool:
        """Tell whether each byte of the access may be used so."""
        if address + size > 1 << 64:
            return False
        # No access is longer than a page, so its first and last byte tell.
        pages = (self._pages.get(at // PAGE) for at in (address, address + size - 1))
        return all(page is not None and permission in page[1] for page in pages)

    def peek(self, address: int, size: int) -> bytes:
        """Read mapped bytes whatever their permissions."""
        page, offset = self._pages[address // PAGE][0], address % PAGE
        if offset + size <= PAGE:
            return bytes(page[offset : offset + size])
        return bytes(page[offset:]) + self.peek(address + PAGE - offset, size - (PAGE - offset))

    def region(self, start: int) -> bytes:
        """Read the run of mapped pages that begins at `start`."""
        out, page = bytearray(), start // PAGE
        while page in self._pages:
            out += self._pages[page][0]
            page += 1
        return bytes(out)

    def load(self, address: int, size: int) -> int:
        """Read `size` bytes, little-endian, unsigned."""
        if not self.allows(address, size, "r"):
            raise _AccessError("LOAD_FAULT", address, size)
        return int.from_bytes(self.peek(address, size), "little")

    def store(self, address: int, size: int, value: int) -> None:
        """Write the low `size` bytes of `value`, all or none."""
        if not self.allows(address, size, "w"):
            raise _AccessError("STORE_FAULT", address, size)
        for offset, byte in enumerate((value & ((1 << 8 * size) - 1)).to_bytes(size, "little")):
            at = address + offset
            self._pages[at // PAGE][0][at % PAGE] = byte


@dataclass
class Hart:
    """One hart: `x` holds unsigned 64-bit registers, `retired` counts instructions that completed."""

    memory: Memory
    pc: int = 0
    x: list[int] = member(default_factory=lambda: [0] * 32)
    retired: int = 0
    reservation: tuple[int, int] | None = None
    jump_rule: JumpRule | None = None

    def fetch(self) -> Instruction | Trap:
        """Decode the instruction at pc, or say why there is none."""
        if not self.memory.allows(self.pc, 2, "x"):
            return Trap("FETCH_FAULT", self.pc, self.pc, 2)
        half = int.from_bytes(self.memory.peek(self.pc, 2), "little")
        if half & 3 != 3:
            return rvc.expand(half).instruction or Trap("ILLEGAL_INSTRUCTION", self.pc)
        if half & 0x1F == 0x1F:
            # 48 bits and longer: reserved lengths, illegal whatever follows.
            return Trap("ILLEGAL_INSTRUCTION", self.pc)
        if not self.memory.allows(self.pc, 4, "x"):
            return Trap("FETCH_FAULT", self.pc, self.pc, 4)
        word = int.from_bytes(self.memory.peek(self.pc, 4), "little")
        return isa.decode(word) or Trap("ILLEGAL_INSTRUCTION", self.pc)

    def step(self) -> Trap | None:
        """Execute one instruction."""
        instruction = self.fetch()
        if isinstance(instruction, Trap):
            return instruction
        if instruction.mnemonic in {"ecall", "ebreak"}:
            return Trap("ECALL" if instruction.mnemonic == "ecall" else "BREAKPOINT", self.pc)
        try:
            self.pc = self._execute(instruction) & MASK
        except _AccessError as fault:
            return Trap(fault.code, self.pc, fault.address, fault.size)
        self.retired += 1
        return None

    def run(self, count: int) -> Trap | None:
        """Execute up to `count` instructions; None when all of them retired."""
        for _ in range(count):
            trap = self.step()
            if trap is not None:
                return trap
        return None

    def _write(self, register: int, value: int) -> None:
        if register:
            self.x[register] = value & MASK

    def _execute(self, op: Instruction) -> int:
        """Carry out one instruction and give the next pc."""
        name, following = op.mnemonic, self.pc + op.length
        if name in semantics.ALU:
            self._write(op.rd, semantics.ALU[name](self.x[op.rs1], self.x[op.rs2]))
        elif name in semantics.IMMEDIATE:
            self._write(op.rd, semantics.IMMEDIATE[name](self.x[op.rs1], op.imm & MASK))
        elif name in semantics.LOAD:
            self._load(op)
        elif name in semantics.STORE:
            self.memory.store(self._address(op), semantics.STORE[name], self.x[op.rs2])
        elif name in {"lui", "auipc"}:
            self._write(op.rd, op.imm if name == "lui" else self.pc + op.imm)
        elif name.startswith(("lr.", "sc.", "amo")):
            self._atomic(op)
        elif not name.startswith("fence"):
            return self._transfer(op, following)
        return following

    def _transfer(self, op: Instruction, following: int) -> int:
        """Carry out a branch or a jump and give where it goes."""
        if op.mnemonic in semantics.BRANCH:
            taken = semantics.BRANCH[op.mnemonic](self.x[op.rs1], self.x[op.rs2])
            return self.pc + op.imm if taken else following
        # jalr clears bit 0, and reads rs1 before it writes rd: they may be one register.
        target = self.pc + op.imm if op.mnemonic == "jal" else (self.x[op.rs1] + op.imm) & MASK & ~1
        refusal = self.jump_rule(self, op, target) if self.jump_rule and op.mnemonic == "jalr" else None
        if refusal is not None:
            raise _AccessError(refusal, target, 0)
        self._write(op.rd, following)
        return target

    def _address(self, op: Instruction) -> int:
        return (self.x[op.rs1] + op.imm) & MASK

    def _load(self, op: Instruction) -> None:
        size, extends = semantics.LOAD[op.mnemonic]
        value = self.memory.load(self._address(op), size)
        self._write(op.rd, signed(value, 8 * size) if extends else value)

    def _atomic(self, op: Instruction) -> None:
        """Carry out LR, SC or an AMO; width and alignment are common to all."""
        kind, width = op.mnemonic.split(".")
        size, address = (4 if width == "w" else 8), self.x[op.rs1]
        if address % size:
            raise _AccessError("MISALIGNED_ATOMIC", address, size)
        if kind == "lr":
            self._write(op.rd, signed(self.memory.load(address, size), 8 * size))
            self.reservation = (address, size)
        elif kind == "sc":
            self._store_conditional(op, address, size)
        else:
            # Both permissions are checked as a store's, so a read-only page is a store fault (manual, AMOs).
            self.memory.store(address, size, self._amo(op, kind, address, size))

    def _store_conditional(self, op: Instruction, address: int, size: int) -> None:
        """Succeed only on exactly the bytes of the last LR; any SC ends the reservation."""
        succeeds = self.reservation == (address, size)
        if succeeds:
            self.memory.store(address, size, self.x[op.rs2])
        self.reservation = None
        self._write(op.rd, 0 if succeeds else 1)

    def _amo(self, op: Instruction, kind: str, address: int, size: int) -> int:
        if not self.memory.allows(address, size, "w"):
            raise _AccessError("STORE_FAULT", address, size)
        old = signed(self.memory.load(address, size), 8 * size)
        new = semantics.AMO[kind](old, signed(self.x[op.rs2], 8 * size))
        self._write(op.rd, old)
        return new
