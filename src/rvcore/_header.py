"""The ELF header: what kind of file this is, and where its tables are.

Owns the checks that an image is ELF64, little-endian, RISC-V, linked for a fixed address and built for
soft floats. pyelftools names the values that a file should not have; it is imported only for that.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from rvcore._errors import LoadError

MAX_FILE_BYTES = 256 << 20

BUILD = "compile with -march=rv64imac -mabi=lp64"
STATIC = "link with -static -no-pie"

_EHDR = struct.Struct("<16sHHIQQQIHHHHHH")
_EI_CLASS, _EI_DATA, _EI_VERSION = 4, 5, 6
_ELFCLASS64, _ELFDATA2LSB, _EV_CURRENT = 2, 1, 1
_ET_REL, _ET_EXEC, _ET_DYN = 1, 2, 3
_EM_RISCV = 243
_EF_RVC, _EF_FLOAT, _EF_RVE, _EF_TSO = 0x1, 0x6, 0x8, 0x10
_FLOAT_ABIS = {0x2: "single", 0x4: "double", 0x6: "quad"}

_TYPE_REMEDIES = {_ET_REL: "link the object into an executable", _ET_DYN: STATIC}


class Header(NamedTuple):
    """Elf64_Ehdr, its fields without their `e_`."""

    ident: bytes
    type: int
    machine: int
    version: int
    entry: int
    phoff: int
    shoff: int
    flags: int
    ehsize: int
    phentsize: int
    phnum: int
    shentsize: int
    shnum: int
    shstrndx: int


def read_header(data: bytes) -> Header:
    """Read and check the header.

    Raises:
        LoadError: this is no file of the kind that runs here.
    """
    if len(data) > MAX_FILE_BYTES:
        raise LoadError(f"the file has {len(data)} bytes, more than the {MAX_FILE_BYTES} that are read")
    if data[:4] != b"\x7fELF":
        shown = data[:4].hex(" ") or "nothing"
        raise LoadError(
            f"expected 7f 45 4c 46, the start of an ELF file, got {shown}", field="e_ident", offset=0
        )
    if len(data) < _EHDR.size:
        raise LoadError(
            f"the file has {len(data)} bytes, fewer than an ELF header", field="e_ident", offset=0
        )
    header = Header._make(_EHDR.unpack_from(data))
    _check_ident(header.ident)
    if header.machine != _EM_RISCV:
        raise _unexpected("e_machine", 18, header.machine, _EM_RISCV, "ENUM_E_MACHINE", "build for riscv64")
    if header.type != _ET_EXEC:
        raise _unexpected("e_type", 16, header.type, _ET_EXEC, "ENUM_E_TYPE", _TYPE_REMEDIES.get(header.type))
    if header.version != _EV_CURRENT:
        raise _unexpected("e_version", 20, header.version, _EV_CURRENT, "ENUM_E_VERSION", None)
    _check_flags(header.flags)
    return header


def _check_ident(ident: bytes) -> None:
    for field, at, wanted, enum, remedy in (
        ("EI_CLASS", _EI_CLASS, _ELFCLASS64, "ENUM_EI_CLASS", "build for riscv64"),
        ("EI_DATA", _EI_DATA, _ELFDATA2LSB, "ENUM_EI_DATA", "build for little-endian riscv64"),
        ("EI_VERSION", _EI_VERSION, _EV_CURRENT, "ENUM_E_VERSION", None),
    ):
        if ident[at] != wanted:
            raise _unexpected(field, at, ident[at], wanted, enum, remedy)


def _check_flags(flags: int) -> None:
    problem = None
    if flags & _EF_FLOAT:
        problem = f"the image passes floats in registers ({_FLOAT_ABIS[flags & _EF_FLOAT]}-float ABI)"
    elif flags & _EF_RVE:
        problem = "the image is built for RV64E, with 16 registers"
    elif flags & _EF_TSO:
        problem = "the image needs total store ordering (Ztso)"
    elif flags & ~_EF_RVC:
        problem = f"e_flags has unknown bits: {flags:#x}"
    if problem:
        raise LoadError(problem, field="e_flags", offset=48, remedy=BUILD)


def _unexpected(field: str, offset: int, value: int, wanted: int, enum: str, remedy: str | None) -> LoadError:
    expected, got = (f"{number} ({name_of(enum, number)})" for number in (wanted, value))
    return LoadError(f"expected {field} {expected}, got {got}", field=field, offset=offset, remedy=remedy)


def name_of(enum: str, value: int) -> str:
    """Return the ELF specification's name of a value, from one of pyelftools' tables."""
    # Imported here: only a refusal needs it.
    from elftools.elf import enums  # noqa: PLC0415

    table: dict[str, int] = getattr(enums, enum)
    return next((name for name, number in table.items() if number == value), "unknown")


def check_range(data: bytes, start: int, size: int, field: str, offset: int) -> None:
    """Check that a range lies in the file; field and offset say where the file claims so.

    Raises:
        LoadError: it does not.
    """
    if start + size > len(data):
        raise LoadError(
            f"bytes {start:#x} to {start + size:#x} are outside the file of {len(data):#x} bytes",
            field=field,
            offset=offset,
            remedy="the file may be cut short",
        )
