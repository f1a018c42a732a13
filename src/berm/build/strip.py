"""Leaving out what an image does not need: debug and comment sections, relocations that no host reads.

A host takes jump targets from relocations and names from symbols, so both stay, except relocations that name
no address (relaxation hints) or only say where a direct branch goes, and the assembler's own labels (`.L…`)
that nothing refers to then. Loaded bytes keep their places in memory and in the file.
"""

import struct
from dataclasses import dataclass, replace

_EHDR = struct.Struct("<16sHHIQQQIHHHHHH")
_SHDR = struct.Struct("<IIQQQQIIQQ")
_PHDR = struct.Struct("<IIQQQQQQ")
_SYM = struct.Struct("<IBBHQQ")
_RELA = struct.Struct("<QQq")
_SHT_SYMTAB, _SHT_STRTAB, _SHT_RELA, _SHT_NOBITS = 2, 3, 4, 8
_SHF_ALLOC = 2
_SHN_ABS, _SHN_LORESERVE = 0xFFF1, 0xFF00
_STT_FILE = 4
_PT_RISCV_ATTRIBUTES = 0x70000003
_COMMENTS = (".comment", ".llvm_addrsig", ".note.GNU-stack")
_DEBUG = (".debug_",)
# NONE, BRANCH, JAL, PCREL_LO12_I/S (they name the auipc), ALIGN, RVC_BRANCH, RVC_JUMP, RELAX.
_USELESS_RELOCATIONS = frozenset({0, 16, 17, 24, 25, 43, 44, 45, 51})


@dataclass(frozen=True, slots=True)
class _Section:
    """One section: its header, its name, and what stands in the file."""

    name: str
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    entry: int
    data: bytes

    @property
    def loaded(self) -> bool:
        return bool(self.flags & _SHF_ALLOC)


class _Strings:
    """A string table being filled; equal names share their place."""

    def __init__(self) -> None:
        self.data = bytearray(b"\0")
        self._places = {b"": 0}

    def add(self, name: bytes) -> int:
        """Return where the name stands."""
        if name not in self._places:
            self._places[name] = len(self.data)
            self.data += name + b"\0"
        return self._places[name]


def strip(image: bytes, *, debug: bool) -> bytes:
    """Return the image without what is not needed; `debug` keeps the debug sections."""
    header, sections = _read(image)
    kept = [i for i, section in enumerate(sections) if not _is_dropped(section, sections, debug=debug)]
    numbers = {old: new for new, old in enumerate(kept)}
    result = {i: replace(sections[i], data=_needed_relocations(sections[i])) for i in kept}
    for i in kept:
        if sections[i].kind == _SHT_SYMTAB:
            _prune_symbols(i, result, numbers)
    names = header[13]
    result[names] = replace(result[names], data=b"")
    return _write(image, header, [result[i] for i in kept], numbers)


def _read(image: bytes) -> tuple[list[int], list[_Section]]:
    header = list(_EHDR.unpack_from(image))
    at, count, names = header[6], header[12], header[13]
    rows = [_SHDR.unpack_from(image, at + index * _SHDR.size) for index in range(count)]
    strings = image[rows[names][4] : rows[names][4] + rows[names][5]]
    sections = []
    for row in rows:
        name = _string(strings, row[0]).decode()
        data = b"" if row[1] == _SHT_NOBITS else image[row[4] : row[4] + row[5]]
        kind, flags, address, offset, size, link, info, align, entry = row[1:]
        sections.append(_Section(name, kind, flags, address, offset, size, link, info, align, entry, data))
    return header, sections


def _string(table: bytes, at: int) -> bytes:
    return table[at : table.index(b"\0", at)]


def _is_dropped(section: _Section, sections: list[_Section], *, debug: bool) -> bool:
    if section.kind == _SHT_RELA:
        return not sections[section.info].loaded
    unwanted = _COMMENTS if debug else _COMMENTS + _DEBUG
    return not section.loaded and section.name.startswith(unwanted)


def _needed_relocations(section: _Section) -> bytes:
    if section.kind != _SHT_RELA:
        return section.data
    rows = _RELA.iter_unpack(section.data)
    return b"".join(_RELA.pack(*row) for row in rows if row[1] & 0xFFFFFFFF not in _USELESS_RELOCATIONS)


def _prune_symbols(index: int, sections: dict[int, _Section], numbers: dict[int, int]) -> None:
    """Drop unused labels from the symbol table at `index`, and renumber what refers to it."""
    table = sections[index]
    names = sections[table.link].data
    relocations = [i for i, s in sections.items() if s.kind == _SHT_RELA and s.link == index]
    used = {row[1] >> 32 for i in relocations for row in _RELA.iter_unpack(sections[i].data)}
    strings = _Strings()
    places: dict[int, int] = {}
    rows: list[bytes] = []
    first_global = 0
    for old, (name_at, info, other, section, value, size) in enumerate(_SYM.iter_unpack(table.data)):
        name = _string(names, name_at)
        gone = section < _SHN_LORESERVE and section not in numbers
        if old and old not in used and (name.startswith(b".L") or gone or info & 0xF == _STT_FILE):
            continue
        places[old] = len(rows)
        first_global += info >> 4 == 0
        number = _SHN_ABS if gone else numbers.get(section, section)
        rows.append(_SYM.pack(strings.add(name), info, other, number, value, size))
    sections[index] = replace(table, data=b"".join(rows), info=first_global)
    sections[table.link] = replace(sections[table.link], data=bytes(strings.data))
    for i in relocations:
        moved = (
            (at, places[info >> 32] << 32 | info & 0xFFFFFFFF, addend)
            for at, info, addend in _RELA.iter_unpack(sections[i].data)
        )
        sections[i] = replace(sections[i], data=b"".join(_RELA.pack(*row) for row in moved))


def _write(image: bytes, header: list[int], sections: list[_Section], numbers: dict[int, int]) -> bytes:
    names = _Strings()
    name_places = [names.add(section.name.encode()) for section in sections]
    names_index = numbers[header[13]]
    sections[names_index] = replace(sections[names_index], data=bytes(names.data))
    loaded = max((s.offset + len(s.data) for s in sections if s.loaded), default=0)
    out = bytearray(image[: max(loaded, header[5] + header[9] * header[10], _EHDR.size)])
    table: list[tuple[int, ...]] = []
    for index, (name, section) in enumerate(zip(name_places, sections, strict=True)):
        offset, size = section.offset, section.size
        if index and not section.loaded:
            out += bytes(-len(out) % max(section.align, 1))
            offset, size = len(out), len(section.data)
            out += section.data
        info = numbers.get(section.info, 0) if section.kind == _SHT_RELA else section.info
        link = numbers.get(section.link, 0)
        place = (section.flags, section.address, offset, size)
        table.append((name, section.kind, *place, link, info, section.align, section.entry))
    _move_segments(out, header, sections, table)
    out += bytes(-len(out) % 8)
    header[6], header[12], header[13] = len(out), len(table), names_index
    out[: _EHDR.size] = _EHDR.pack(*header)
    return bytes(out + b"".join(_SHDR.pack(*row) for row in table))


def _move_segments(
    out: bytearray, header: list[int], sections: list[_Section], table: list[tuple[int, ...]]
) -> None:
    """Let the segments that show a section which is not loaded follow it to its new place."""
    moved = {s.offset: row[4] for s, row in zip(sections, table, strict=True) if s.size and not s.loaded}
    for index in range(header[10]):
        at = header[5] + index * header[9]
        kind, flags, offset, *rest = _PHDR.unpack_from(out, at)
        if kind == _PT_RISCV_ATTRIBUTES and offset in moved:
            _PHDR.pack_into(out, at, kind, flags, moved[offset], *rest)
