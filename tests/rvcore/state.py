"""The shape of a run's result, common to all machines, and where code and memory lie in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .hart import PAGE

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

MASK = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Layout:
    """Where things lie: rvcore's prologue at `base`, then the program; a register table, then the data."""

    base: int
    memory_size: int

    @property
    def code(self) -> int:
        """Where the program starts."""
        return self.base + PAGE

    @property
    def table(self) -> int:
        """The page from which rvcore's registers are loaded."""
        return self.base + 0xEF000

    @property
    def data(self) -> int:
        """Where the compared memory starts."""
        return self.base + 0xF0000


LOW = Layout(0x10000, 4 << 20)
# The sign bit of a 32-bit address is set here.
HIGH = Layout(0xC0000000, 4 << 30)
CODE, DATA = LOW.code, LOW.data


@dataclass(frozen=True, slots=True)
class State:
    """What can be seen after a run; `stop` is None when max_instructions retired without a trap.

    `stop` is a name of `rvcore.TrapCode`, or ECALL for an environment call that nobody serves; `address` is
    what a memory, fetch or jump trap names.
    """

    stop: str | None
    pc: int
    registers: tuple[int, ...]
    memory: bytes
    retired: int
    address: int | None = None


if TYPE_CHECKING:
    Runner = Callable[[bytes, Sequence[int], bytes, int], State]


def whole_pages(data: bytes) -> bytes:
    """Pad with zeroes to whole pages, at least one."""
    return data.ljust(max(1, -(-len(data) // PAGE)) * PAGE, b"\0")


def difference(expected: State, actual: State, *, ignore: Collection[str] = ()) -> str:
    """Say in which fields two states differ; empty when they do not."""
    lines = []
    for name in ("stop", "pc", "retired", "address"):
        want, got = getattr(expected, name), getattr(actual, name)
        if want != got and name not in ignore:
            lines.append(f"{name}: expected {_show(want)}, got {_show(got)}")
    for index, (want, got) in enumerate(zip(expected.registers, actual.registers, strict=True)):
        if want != got:
            lines.append(f"x{index}: expected 0x{want:x}, got 0x{got:x}")
    if expected.memory != actual.memory:
        lines += _byte_differences(expected.memory, actual.memory)
    return "\n".join(lines)


def _byte_differences(expected: bytes, actual: bytes) -> list[str]:
    if len(expected) != len(actual):
        return [f"memory: {len(expected)} bytes against {len(actual)}"]
    bad = [at for at, (want, got) in enumerate(zip(expected, actual, strict=True)) if want != got]
    lines = [f"data+0x{at:x}: expected {expected[at]:02x}, got {actual[at]:02x}" for at in bad[:8]]
    return lines + [f"and {len(bad) - 8} more bytes"] * (len(bad) > 8)


def _show(value: str | int | None) -> str:
    return hex(value) if isinstance(value, int) else str(value)
