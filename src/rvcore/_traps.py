"""What a run says when it dies: the codes, one frame of the call stack, and the Trap itself.

Owns the wording of traps, as one line and as a report for people. It knows no memory, no symbols and no
decoder: whoever raises a Trap has looked those up. Everything is plain data, so that a Trap can be
pickled and can outlive the store that it came from.
"""

from __future__ import annotations

import dataclasses
import enum
import itertools
from typing import Any, Literal

from rvcore._errors import Error, printable
from rvcore._registers import REGISTERS

Access = Literal["load", "store", "fetch"]

_REPEATED_FRAMES = 3  # equal frames in a row that a report still lists one by one


class TrapCode(enum.Enum):
    """Why a run ended without returning."""

    ILLEGAL_INSTRUCTION = "illegal instruction"
    BREAKPOINT = "breakpoint"
    LOAD_FAULT = "load fault"
    STORE_FAULT = "store fault"
    MISALIGNED_ATOMIC = "misaligned atomic"
    BAD_JUMP = "bad jump"
    BAD_RETURN = "bad return"
    FETCH_FAULT = "fetch fault"
    STACK_OVERFLOW = "stack overflow"
    UNKNOWN_HOST_CALL = "unknown host call"
    HOST_ERROR = "host error"
    OUT_OF_FUEL = "out of fuel"
    DEADLINE = "deadline"
    INTERRUPTED = "interrupted"
    BAD_RESULT = "bad result"
    OUTPUT_LIMIT = "output limit"


_WRONG_TARGETS = {
    TrapCode.BAD_JUMP: " to {:#x}, which no relocation names as a target",
    TrapCode.BAD_RETURN: " to {:#x}, which is no return site",
    TrapCode.FETCH_FAULT: " at {:#x}, which is not code",
}
_NO_SYMBOL = (
    "hint: the image has no symbol for this address; strip with `objcopy --strip-debug`, "
    "which keeps symbols and relocations, or build with -g"
)
_NO_LINE = "hint: the image has no line table; build with -g for file and line"


@dataclasses.dataclass(frozen=True, slots=True)
class Frame:
    """One function activation: its pc, and what the image's symbols and line tables say of it."""

    pc: int
    symbol: str | None = None
    offset: int | None = None
    location: str | None = None

    def __str__(self) -> str:
        """Return the frame as `0x10234 name+0x24 (file:line)`."""
        return _place(self.pc, self.symbol, self.offset, self.location)


def _place(pc: int, symbol: str | None, offset: int | None, location: str | None) -> str:
    text = f"{pc:#x}"
    if symbol is not None:
        text += f" {printable(symbol)}+{offset or 0:#x}"
    if location is not None:
        text += f" ({printable(location)})"
    return text


class Trap(Error):  # noqa: N818 - the word of the field, as TrapCode
    """A run that ended without returning; `code` says why, the other attributes where and with what."""

    def __init__(  # noqa: PLR0913 - one keyword a fact
        self,
        *,
        code: TrapCode,
        pc: int | None = None,
        address: int | None = None,
        size: int | None = None,
        access: Access | None = None,
        registers: tuple[int, ...] = (),
        symbol: str | None = None,
        offset: int | None = None,
        location: str | None = None,
        frames: tuple[Frame, ...] = (),
        host_calls: tuple[str, ...] = (),
        number: int | None = None,
        name: str | None = None,
        bytes: bytes = b"",  # noqa: A002 - the instruction's bytes; the attribute has this name
        disassembly: str = "",
        detail: str = "",
    ) -> None:
        self.code = code
        self.pc = pc
        self.address = address
        self.size = size
        self.access = access
        self.registers = registers
        self.symbol = symbol
        self.offset = offset
        self.location = location
        self.frames = frames
        self.host_calls = host_calls
        self.number = number
        self.name = name
        self.bytes = bytes
        self.disassembly = disassembly
        self.detail = detail
        super().__init__(self._line())

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what pickle and copy need: the constructor takes keywords only."""
        return _rebuild, (dict(self.__dict__),)

    def _line(self) -> str:
        text = f"{self.code.value}{self._what()}"
        if self.detail:
            text += f": {printable(self.detail, 1000)}"
        if self.pc is not None:
            text += f" - at {_place(self.pc, self.symbol, self.offset, self.location)}"
        return text

    def _what(self) -> str:
        """Return the code's own facts, ready to follow its name."""
        if self.code is TrapCode.UNKNOWN_HOST_CALL and self.number is not None:
            known = f", `{printable(self.name)}` is not bound here" if self.name else ""
            return f" {self.number:#018x}{known}"
        if self.code is TrapCode.ILLEGAL_INSTRUCTION and self.bytes:
            word = int.from_bytes(self.bytes, "little")
            name = f" ({printable(self.disassembly)})" if self.disassembly else ""
            return f" {word:#0{2 + 2 * len(self.bytes)}x}{name}"
        if self.address is None:
            return ""
        if self.code in _WRONG_TARGETS:
            return _WRONG_TARGETS[self.code].format(self.address)
        size = f"{self.size}-byte " if self.size is not None else ""
        return f", {size}{self.access or 'access'} at {self.address:#x}"

    def report(self) -> str:
        """Return everything that is known, over several lines, for the author of the guest."""
        lines = [f"trap: {self}"]
        if self.bytes:
            shown = " ".join(f"{byte:02x}" for byte in self.bytes)
            lines.append(f"instruction: {shown}  {printable(self.disassembly)}".rstrip())
        lines += _frame_lines(self.frames)
        lines += _register_lines(self.registers)
        if self.host_calls:
            lines.append("last host calls, oldest first:")
            lines += [f"  {printable(name)}" for name in self.host_calls]
        lines += self._hint_lines()
        return "\n".join(lines)

    def _hint_lines(self) -> list[str]:
        """Return how to build an image of which a report can say more."""
        if self.pc is None or self.location is not None:
            return []
        return [_NO_SYMBOL if self.symbol is None else _NO_LINE]


def _rebuild(facts: dict[str, Any]) -> Trap:
    notes = facts.pop("__notes__", None)
    trap = Trap(**facts)
    for note in notes or ():
        trap.add_note(note)
    return trap


def _frame_lines(frames: tuple[Frame, ...]) -> list[str]:
    """Return one line a frame, and one for each run of frames that recursion repeats."""
    if not frames:
        return []
    lines = ["frames, innermost first:"]
    for _, same in itertools.groupby(enumerate(frames), key=lambda numbered: numbered[1]):
        run = list(same)
        shown = run if len(run) <= _REPEATED_FRAMES else run[:1]
        lines += [f"  #{index} {frame}" for index, frame in shown]
        if len(run) > len(shown):
            lines.append(f"  #{run[1][0]} … #{run[-1][0]} the same")
    return lines


def _register_lines(registers: tuple[int, ...]) -> list[str]:
    if not registers:
        return []
    cells = [f"{name:>4} {value:#018x}" for name, value in zip(REGISTERS, registers, strict=False)]
    rows = [cells[start : start + 3] for start in range(0, len(cells), 3)]
    return ["registers:"] + ["  " + "  ".join(row) for row in rows]
