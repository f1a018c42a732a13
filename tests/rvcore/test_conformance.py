"""Each row of conformance.toml on rvcore, on the oracle hart and on unicorn."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from .encode import REGISTERS, assemble, assemble_line
from .isa import BY_MNEMONIC
from .machines import MACHINES
from .state import CODE, DATA, MASK, State, difference, whole_pages

Row = dict[str, Any]

_BASES = {"code": CODE, "data": DATA}
_FIELDS = {
    "why",
    "asm",
    "in",
    "out",
    "mem",
    "mem_out",
    "at",
    "pages",
    "trap",
    "address",
    "pc",
    "retired",
    "unicorn",
}


def _read_rows() -> dict[str, Row]:
    """Return the rows by "instruction: why"."""
    document = tomllib.loads((Path(__file__).parent / "conformance.toml").read_text("utf-8"))
    named = [(f"{name}: {row['why']}", row) for name, table in document.items() for row in table["rows"]]
    rows = dict(named)
    if len(rows) != len(named):
        raise ValueError("two rows of one instruction have the same `why`")
    for name, row in rows.items():
        if not row.keys() <= _FIELDS:
            raise ValueError(f"unknown fields {row.keys() - _FIELDS} - at `{name}`")
    return rows


ROWS = _read_rows()


def _value(value: int | str) -> int:
    """Read a register value: an integer, or an offset from code or data."""
    if isinstance(value, int):
        return value & MASK
    match = re.fullmatch(r"(code|data)([+-].+)", value)
    if match is None:
        raise ValueError(f"expected an integer, code+N or data+N, got {value!r}")
    return (_BASES[match[1]] + int(match[2], 0)) & MASK


def _registers(row: Row) -> list[int]:
    """Give the registers before: what is not named holds a value of its own."""
    registers = [0] + [0x5EED_0000_0000_0000 | number << 8 | 0xA5 for number in range(1, 32)]
    for name, value in row.get("in", {}).items():
        registers[REGISTERS[name]] = _value(value)
    return registers


def _memory(row: Row, content: Any) -> bytes:
    raw = bytes(row.get("at", 0)) + bytes.fromhex(content)
    return whole_pages(raw.ljust(row.get("pages", 1) * 4096, b"\0"))


def _expected(row: Row) -> State:
    code = assemble(row["asm"])
    count = sum(1 for line in row["asm"].split(";") if line.strip())
    registers = _registers(row)
    for name, value in row.get("out", {}).items():
        registers[REGISTERS[name]] = _value(value)
    pc = _value(row.get("pc", "code+0" if "trap" in row else f"code+{len(code)}"))
    memory = _memory(row, row.get("mem_out", row.get("mem", "")))
    address = _value(row["address"]) if "address" in row else None
    return State(
        row.get("trap", "BREAKPOINT"), pc, tuple(registers), memory, row.get("retired", count), address
    )


def _run(machine: str, row: Row) -> State:
    code = assemble(row["asm"]) + assemble_line("ebreak")
    before = "" if "at" in row else row.get("mem", "")
    return MACHINES[machine](code, _registers(row), _memory(row, before), 1000)


@pytest.mark.core
@pytest.mark.parametrize("name", ROWS)
def test_row_holds_on_rvcore(name: str) -> None:
    """The machine under test does what the manual says."""
    assert difference(_expected(ROWS[name]), _run("rvcore", ROWS[name])) == ""


@pytest.mark.parametrize("name", ROWS)
def test_row_holds_on_the_oracle(name: str) -> None:
    """The oracle does what the manual says, but lets a bad jump happen before the fetch faults."""
    row = ROWS[name]
    machine = "checked oracle" if row.get("trap") == "BAD_JUMP" else "oracle"
    assert difference(_expected(row), _run(machine, row)) == ""


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if "unicorn" not in row])
def test_row_holds_on_unicorn(name: str) -> None:
    """A third reader of the manual agrees; it does not tell the address of a misaligned access."""
    row = ROWS[name]
    ignore = ("address",) if row.get("trap") == "MISALIGNED_ATOMIC" else ()
    assert difference(_expected(row), _run("unicorn", row), ignore=ignore) == ""


def test_every_instruction_has_a_row() -> None:
    """The table names each mnemonic of the 32-bit listing."""
    text = " ; ".join(row["asm"] for row in ROWS.values())
    assert [name for name in BY_MNEMONIC if not re.search(rf"(^|; ){re.escape(name)}\b", text)] == []
