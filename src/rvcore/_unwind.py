"""Call stacks from prologues: who called whom, without unwind tables.

Owns one idea. From a function's first instruction, follow its branches to the pc, and keep account of how
far sp and s0 are from where they were on entry, and of where ra and s0 were saved. The state that reaches
the pc says where the return address is. That holds in prologues, epilogues, early exits and through
`__riscv_save_N`. A return address counts only if it is a return site, every frame must lie above the one
before, and each walk is cut after a fixed number of instructions, so a corrupt stack ends the list.
"""

# ruff: noqa: PLR2004 - register numbers and opcodes

from __future__ import annotations

import dataclasses
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from rvcore._compressed import expand
from rvcore._disasm import immediate_b, immediate_i, immediate_j, immediate_s, signed

if TYPE_CHECKING:
    from rvcore._elf import CodeRange

MAX_FRAMES = 64
_MAX_STEPS = 4096  # instructions followed in one function; longer ones use what they did until then
_ALL_STEPS = 16384  # instructions followed for one stack, some 20 ms: whoever traps must not hold the host up

_RA, _SP, _T0, _S0 = 1, 2, 5, 8
_MASK = (1 << 64) - 1

Read = Callable[[int, int], bytes | None]


@dataclasses.dataclass(slots=True)
class _State:
    """Offsets from sp as it was on entry, the frame's upper end; None is not known, or not saved."""

    sp: int | None = 0
    s0: int | None = None
    ra_slot: int | None = None
    s0_slot: int | None = None
    resume: int | None = None  # where a `__riscv_save_N` that was called with t0 returns to
    constants: dict[int, int] = dataclasses.field(default_factory=dict)  # what lui and addi put where

    def copy(self) -> _State:
        return dataclasses.replace(self, constants=dict(self.constants))


class Code:
    """The instructions of an image, and which function holds an address."""

    def __init__(
        self, pieces: tuple[CodeRange, ...], extent: Callable[[int], tuple[int, int] | None]
    ) -> None:
        self._pieces = pieces
        self._starts = [piece.start for piece in pieces]
        self.extent = extent

    def instruction(self, address: int) -> tuple[int, int] | None:
        """Return (word, size) at an address, a compressed one expanded; word 0 has no meaning here."""
        index = bisect_right(self._starts, address) - 1
        if index < 0 or address & 1:
            return None
        piece = self._pieces[index]
        at = address - piece.start
        half = int.from_bytes(piece.data[at : at + 2], "little")
        if at + 2 > len(piece.data):
            return None
        if half & 3 != 3:
            return expand(half) or 0, 2
        if at + 4 > len(piece.data):
            return None
        return int.from_bytes(piece.data[at : at + 4], "little"), 4


def unwind(
    code: Code, pc: int, registers: Sequence[int], read: Read, is_return_site: Callable[[int], bool]
) -> list[int]:
    """Return pc and the return addresses of the callers, innermost first, at most MAX_FRAMES."""
    pcs = [pc]
    sp, s0 = registers[_SP], registers[_S0]
    link: int | None = registers[_RA]
    cache: dict[int, _State] = {}
    left = _ALL_STEPS
    while len(pcs) < MAX_FRAMES and left > 0:
        if pc not in cache:
            cache[pc], steps = _state_at(code, pc, first=len(pcs) == 1, most=min(left, _MAX_STEPS))
            left -= steps
        state = cache[pc]
        top = _frame_top(state, sp, s0)
        if top is None or top < sp or (top == sp and len(pcs) > 1):
            break
        if state.ra_slot is not None:
            link = _word(read, top + state.ra_slot)
        if link is None or not is_return_site(link):
            break
        if state.s0_slot is not None:
            s0 = _word(read, top + state.s0_slot) or 0
        sp, pc, link = top, link, None
        pcs.append(pc)
    return pcs


def _word(read: Read, address: int) -> int | None:
    data = read(address & _MASK, 8)
    return int.from_bytes(data, "little") if data is not None and len(data) == 8 else None


def _frame_top(state: _State, sp: int, s0: int) -> int | None:
    """Return the value of sp on entry."""
    if state.sp is not None:
        return sp - state.sp
    return s0 - state.s0 if state.s0 is not None else None


def _state_at(code: Code, pc: int, *, first: bool, most: int) -> tuple[_State, int]:
    """Return the state just before pc, for a caller just after its call, and the steps taken."""
    extent = code.extent(pc if first else pc - 1)
    if extent is None:
        return _State(), 0
    walk = _Walk(code, extent, pc)
    return walk.run(most), walk.steps


class _Walk:
    """One walk from a function's start to a pc."""

    def __init__(self, code: Code, extent: tuple[int, int], pc: int) -> None:
        self._code = code
        self._start, self._end = extent
        self._pc = pc
        self.steps = 0
        self._seen: set[int] = set()
        self._waiting: list[tuple[int, _State]] = [(self._start, _State())]
        self._fallback: _State | None = None  # what held where an indirect jump was: its targets share it
        self._prologue: _State | None = None  # what held at the first branch

    def run(self, most: int) -> _State:
        while self._waiting and self.steps < most:
            address, state = self._waiting.pop()
            while self.steps < most:
                if address == self._pc:
                    return state
                if address in self._seen or not self._inside(address, state):
                    break
                self._seen.add(address)
                self.steps += 1
                following = self._step(address, state)
                if following is None:
                    break
                address = following
        return self._fallback or self._prologue or _State()

    def _inside(self, address: int, state: _State) -> bool:
        return self._start <= address < self._end or state.resume is not None

    def _step(self, address: int, state: _State) -> int | None:
        """Carry state over one instruction; return the next one's address, None where control leaves."""
        found = self._code.instruction(address)
        if found is None:
            return None
        word, size = found
        opcode, rd = word & 0x7F, word >> 7 & 31
        if opcode == 0x63:
            self._keep_prologue(state)
            self._waiting.append((address + immediate_b(word), state.copy()))
            return address + size
        if opcode == 0x6F:
            return self._jump(address, size, rd, address + immediate_j(word), state)
        if opcode == 0x67:
            return self._jump_register(address, size, word, state)
        if word in {0, 0x00100073, 0xC0001073}:  # nothing known, ebreak, unimp
            return None
        _carry(state, word, opcode, address)
        return address + size

    def _keep_prologue(self, state: _State) -> None:
        if self._prologue is None:
            self._prologue = state.copy()

    def _jump(self, address: int, size: int, rd: int, target: int, state: _State) -> int:
        if rd == 0:
            self._keep_prologue(state)
            return target
        if rd == _T0:
            state.resume = address + size
            return target
        self._keep_prologue(state)
        state.constants.clear()
        return address + size

    def _jump_register(self, address: int, size: int, word: int, state: _State) -> int | None:
        rd, rs1 = word >> 7 & 31, word >> 15 & 31
        target = state.constants.get(rs1)
        if rd == 0 and rs1 == _T0 and state.resume is not None:
            following, state.resume = state.resume, None
            return following
        if rd == _T0 and target is not None:
            state.resume = address + size
            return target + immediate_i(word)
        if rd:
            self._keep_prologue(state)
            state.constants.clear()
            return address + size
        if rs1 != _RA and self._fallback is None:
            self._fallback = state.copy()
        return None


def _carry(state: _State, word: int, opcode: int, address: int) -> None:
    """Carry state over an instruction that does not jump."""
    rd, rs1, kind = word >> 7 & 31, word >> 15 & 31, word >> 12 & 7
    if opcode == 0x13 and kind == 0:
        _carry_addi(state, rd, rs1, immediate_i(word))
    elif opcode == 0x1B and kind == 0 and rs1 in state.constants:
        state.constants[rd] = signed(state.constants[rs1] + immediate_i(word), 32)
    elif opcode in {0x37, 0x17}:
        upper = signed(word & 0xFFFFF000, 32) + (address if opcode == 0x17 else 0)
        state.constants[rd] = upper
    elif opcode == 0x33 and rd == _SP:
        _carry_sum(state, rs1, word >> 20 & 31, word >> 25)
    elif opcode == 0x23 and kind == 3:
        _carry_store(state, rs1, word >> 20 & 31, immediate_s(word))
    elif opcode == 0x03 and kind == 3 and rd in {_RA, _S0}:
        _carry_load(state, rd)
    elif opcode not in {0x23, 0x0F}:
        _forget(state, rd)


def _forget(state: _State, rd: int) -> None:
    state.constants.pop(rd, None)
    if rd == _SP:
        state.sp = None
    elif rd == _S0:
        state.s0 = None


def _offset_of(state: _State, register: int) -> int | None:
    return {_SP: state.sp, _S0: state.s0}.get(register)


def _carry_addi(state: _State, rd: int, rs1: int, value: int) -> None:
    base = _offset_of(state, rs1)
    known = 0 if rs1 == 0 else state.constants.get(rs1)
    _forget(state, rd)
    if base is not None and rd == _SP:
        state.sp = base + value
    elif base is not None and rd == _S0:
        state.s0 = base + value
    elif known is not None and rd:
        state.constants[rd] = known + value


def _carry_sum(state: _State, rs1: int, rs2: int, group: int) -> None:
    """Carry `add sp, sp, t` and `sub sp, sp, t`, of frames larger than addi reaches."""
    amount = state.constants.get(rs2)
    if rs1 != _SP or state.sp is None or amount is None or group not in {0, 0x20}:
        state.sp = None
        return
    state.sp += amount if group == 0 else -amount


def _carry_store(state: _State, rs1: int, rs2: int, value: int) -> None:
    base = _offset_of(state, rs1)
    if base is None:
        return
    if rs2 == _RA and state.ra_slot is None:
        state.ra_slot = base + value
    elif rs2 == _S0 and state.s0_slot is None and state.s0 is None:
        state.s0_slot = base + value


def _carry_load(state: _State, rd: int) -> None:
    """Carry the epilogue's reload of ra or s0: from here on the register holds the caller's."""
    if rd == _RA:
        state.ra_slot = None
    else:
        state.s0_slot = state.s0 = None
