"""The section table: names and places of sections, and the symbol and relocation tables among them.

Owns the headers and which table belongs to which; the tables' contents are read in bulk by `_tables`. An
image without a section table has no sections, which is for others to complain about.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

from rvcore._errors import LoadError
from rvcore._header import Header, check_range
from rvcore._tables import CodeMap, SymbolTable, read_relocations

_LONGEST_NAME = 1024  # bytes; the longest in use are `.rela` and a mangled function

_SHDR = struct.Struct("<IIQQQQIIQQ")
_SYM_BYTES = _RELA_BYTES = 24
_SHT_NULL, _SHT_SYMTAB, _SHT_STRTAB, _SHT_RELA, _SHT_NOBITS, _SHT_REL = 0, 2, 3, 4, 8, 9
_SHT_CREL = 0x40000014
_SHF_ALLOC, _SHF_EXECINSTR = 2, 4
_SHN_LORESERVE = 0xFF00


class Section(NamedTuple):
    """Elf64_Shdr, its fields without their `sh_`."""

    name: int
    type: int
    flags: int
    addr: int
    offset: int
    size: int
    link: int
    info: int
    addralign: int
    entsize: int

    @property
    def is_code(self) -> bool:
        """Return whether the section is loaded, may be executed, and is not empty."""
        wanted = _SHF_ALLOC | _SHF_EXECINSTR
        return self.flags & wanted == wanted and self.size > 0


class Sections:
    """The section table of a file, each header's range checked."""

    def __init__(self, data: bytes, headers: list[Section], names: list[str]) -> None:
        self._data = data
        self._index = {name: index for index, name in reversed(list(enumerate(names)))}
        self.headers = headers
        self.names = names

    def __len__(self) -> int:
        return len(self.headers)

    def contents(self, name: str) -> bytes | None:
        """Return the bytes of the first section of this name, None where it is missing or has none."""
        index = self._index.get(name)
        if index is None or self.headers[index].type == _SHT_NOBITS:
            return None
        header = self.headers[index]
        return self._data[header.offset : header.offset + header.size]

    def flags(self, name: str) -> int:
        """Return the flags of the first section of this name."""
        index = self._index.get(name)
        return 0 if index is None else self.headers[index].flags

    def is_type(self, index: int, kind: int) -> bool:
        """Return whether there is a section of this index, of this type."""
        return index < len(self.headers) and self.headers[index].type == kind


def read_sections(data: bytes, header: Header) -> Sections:
    """Read the section table.

    Raises:
        LoadError: it, a section or a name lies outside the file.
    """
    if header.shoff == 0:
        return Sections(data, [], [])
    if header.shentsize != _SHDR.size:
        raise LoadError(
            f"expected e_shentsize {_SHDR.size}, got {header.shentsize}", field="e_shentsize", offset=58
        )
    if not 0 < header.shnum < _SHN_LORESERVE:
        raise LoadError(f"e_shnum is {header.shnum}, but e_shoff is set", field="e_shnum", offset=60)
    check_range(data, header.shoff, header.shnum * _SHDR.size, "e_shoff", 40)
    table = data[header.shoff : header.shoff + header.shnum * _SHDR.size]
    headers = [Section._make(fields) for fields in _SHDR.iter_unpack(table)]
    for index, section in enumerate(headers):
        if section.type not in {_SHT_NULL, _SHT_NOBITS}:
            at = header.shoff + index * _SHDR.size + 24
            check_range(data, section.offset, section.size, f"sh_offset[{index}]", at)
    return Sections(data, headers, _read_names(data, header, headers))


def _read_names(data: bytes, header: Header, headers: list[Section]) -> list[str]:
    if header.shstrndx == 0:
        return [""] * len(headers)
    if header.shstrndx >= len(headers) or headers[header.shstrndx].type != _SHT_STRTAB:
        raise LoadError(f"section {header.shstrndx} is no string table", field="e_shstrndx", offset=62)
    strings = headers[header.shstrndx]
    names = []
    for index, section in enumerate(headers):
        start = strings.offset + section.name
        end = min(strings.offset + strings.size, start + _LONGEST_NAME)
        stop = data.find(b"\0", start, end) if section.name < strings.size else -1
        if stop < 0:
            raise LoadError(
                f"a section's name has no end within {_LONGEST_NAME} bytes of the string table",
                field=f"sh_name[{index}]",
                offset=header.shoff + index * _SHDR.size,
            )
        names.append(data[start:stop].decode(errors="backslashreplace"))
    return names


def read_symbols(data: bytes, sections: Sections, code: CodeMap) -> SymbolTable:
    """Read the symbol table, and mark in code where functions are.

    Raises:
        LoadError: the table is malformed, or a global function is not what it should be.
    """
    indexes = [index for index in range(len(sections)) if sections.is_type(index, _SHT_SYMTAB)]
    if not indexes:
        return SymbolTable(data, 0, 0, 0, 0, 0)
    if len(indexes) > 1:
        raise LoadError("the image has two symbol tables", field=f"sh_type[{indexes[1]}]")
    header = sections.headers[indexes[0]]
    _check_entries(header, sections.names[indexes[0]], _SYM_BYTES)
    if not sections.is_type(header.link, _SHT_STRTAB):
        raise LoadError(f"section {header.link} is no string table", field=f"sh_link[{indexes[0]}]")
    strings = sections.headers[header.link]
    count = header.size // _SYM_BYTES
    table = SymbolTable(data, header.offset, count, strings.offset, strings.size, len(sections))
    table.read(code)
    return table


def _check_entries(header: Section, name: str, size: int) -> None:
    if header.entsize != size or header.size % size:
        raise LoadError(
            f"expected entries of {size} bytes, got {header.size} bytes in entries of {header.entsize}",
            field=name,
            offset=header.offset,
        )


def mark_relocated(data: bytes, sections: Sections, symbols: SymbolTable, code: CodeMap) -> bool:
    """Mark in code what relocations name; return whether there are any for what is loaded.

    Raises:
        LoadError: a table is malformed, or needs a dynamic loader.
    """
    found = False
    file_bytes = 0
    for index in _relocation_tables(sections):
        header, name = sections.headers[index], sections.names[index]
        file_bytes += header.size
        if file_bytes > len(data):
            # Each entry is read once, however often the file names it.
            raise LoadError("relocation tables share bytes of the file", field=name, offset=header.offset)
        if header.type != _SHT_RELA:
            raise LoadError(
                "only relocations of type SHT_RELA are read", field=name, remedy="assemble without --crel"
            )
        _check_entries(header, name, _RELA_BYTES)
        if header.link and not sections.is_type(header.link, _SHT_SYMTAB):
            raise LoadError(f"section {header.link} is no symbol table", field=f"sh_link[{index}]")
        read_relocations(code, symbols, data, header.offset, header.size // _RELA_BYTES, name)
        found = found or header.info != 0
    return found


def _relocation_tables(sections: Sections) -> Iterable[int]:
    """Return the tables for something loaded; .eh_frame names code that nobody jumps to."""
    for index, header in enumerate(sections.headers):
        if header.type not in {_SHT_RELA, _SHT_REL, _SHT_CREL} or header.info >= len(sections):
            continue
        # A table for no section in particular is the dynamic loader's; GNU ld leaves one behind.
        applies = sections.headers[header.info].flags if header.info else header.flags
        if applies & _SHF_ALLOC and sections.names[header.info] != ".eh_frame":
            yield index
