"""A small ELF writer for tests: good images from a few words of code, and files that are wrong in one field.

`build_elf(code)` gives an image that loads; every header field of the result can be overridden, by the name
that the ELF specification gives it. Nothing here is shared with the reader under test.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Iterable, Mapping
from typing import Any

EHDR = "<16sHHIQQQIHHHHHH"
EHDR_FIELDS = [
    "e_ident",
    "e_type",
    "e_machine",
    "e_version",
    "e_entry",
    "e_phoff",
    "e_shoff",
    "e_flags",
    "e_ehsize",
    "e_phentsize",
    "e_phnum",
    "e_shentsize",
    "e_shnum",
    "e_shstrndx",
]
PHDR = "<IIQQQQQQ"
PHDR_FIELDS = ["p_type", "p_flags", "p_offset", "p_vaddr", "p_paddr", "p_filesz", "p_memsz", "p_align"]
SHDR = "<IIQQQQIIQQ"
SHDR_FIELDS = [
    "sh_name",
    "sh_type",
    "sh_flags",
    "sh_addr",
    "sh_offset",
    "sh_size",
    "sh_link",
    "sh_info",
    "sh_addralign",
    "sh_entsize",
]
SYM = "<IBBHQQ"
RELA = "<QIIq"

PT_LOAD, PT_DYNAMIC, PT_INTERP = 1, 2, 3
PF_X, PF_W, PF_R = 1, 2, 4
SHT_PROGBITS, SHT_SYMTAB, SHT_STRTAB, SHT_RELA, SHT_NOBITS = 1, 2, 3, 4, 8
SHF_WRITE, SHF_ALLOC, SHF_EXECINSTR = 1, 2, 4
STB_LOCAL, STB_GLOBAL, STB_WEAK = 0, 1, 2
STT_NOTYPE, STT_OBJECT, STT_FUNC, STT_SECTION = 0, 1, 2, 3
SHN_UNDEF, SHN_ABS = 0, 0xFFF1
EF_RVC = 1

R_32, R_64, R_CALL, R_CALL_PLT, R_GOT_HI20, R_PCREL_HI20, R_PCREL_LO12_I = 1, 2, 18, 19, 20, 23, 24
R_HI20, R_LO12_I, R_ADD32, R_SUB32, R_RVC_LUI, R_RELAX, R_SET32 = 26, 27, 35, 39, 46, 51, 56

PAGE = 4096


@dataclasses.dataclass
class Symbol:
    """One symbol table entry; `section` is a name, an index, or None for the one that holds value."""

    name: str
    value: int
    size: int = 0
    type: int = STT_FUNC
    bind: int = STB_GLOBAL
    section: str | int | None = None
    name_offset: int | None = None


@dataclasses.dataclass
class Relocation:
    """One entry; `target` is an address or a symbol's name, `symbol` an index that overrides it."""

    address: int
    type: int
    target: int | str = 0
    addend: int = 0
    symbol: int | None = None


@dataclasses.dataclass
class Section:
    """One section; `fields` overrides any Elf64_Shdr field by name."""

    name: str
    type: int = SHT_PROGBITS
    flags: int = 0
    address: int = 0
    data: bytes = b""
    size: int | None = None
    link: int = 0
    info: int = 0
    entsize: int = 0
    align: int = 1
    fields: dict[str, int] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Segment:
    """One program header over the file bytes of a section (or none); `fields` overrides it by name."""

    section: str | None
    flags: int
    address: int
    memsz: int | None = None
    type: int = PT_LOAD
    fields: dict[str, int] = dataclasses.field(default_factory=dict)


def page_up(address: int) -> int:
    """Round address up to a page."""
    return -(-address // PAGE) * PAGE


def build_elf(
    code: bytes,
    *,
    base: int = 0x10000,
    entry: int | None = None,
    symbols: Mapping[str, tuple[int, int]] | Iterable[Symbol] | None = None,
    rodata: bytes = b"",
    rodata_addr: int | None = None,
    data: bytes = b"",
    data_addr: int | None = None,
    bss: int = 0,
    relocations: Iterable[tuple[int, int, int | str] | Relocation] | None = (),
    manifest: bytes | None = None,
    flags: int = EF_RVC,
    machine: int = 243,
    header: Mapping[str, Any] | None = None,
    segment_fields: Mapping[str, Mapping[str, int]] | None = None,
    section_fields: Mapping[str, Mapping[str, int]] | None = None,
    extra_segments: Iterable[Segment] = (),
    extra_sections: Iterable[Section] = (),
    code_sections: Iterable[tuple[int, int]] | None = None,
    section_table: bool = True,
    symbol_table: bool = True,
) -> bytes:
    """Write an image with code at base (RX), rodata (R) and data + bss (RW) on pages of their own.

    symbols: name → (address, size) for global functions, or Symbol entries; None is `_start` over all
        code. relocations: (place, type, target), each put into the rela section of the section that holds
        the place; () writes an empty `.rela.text`, None leaves relocations out. code_sections: (start,
        size) of the executable sections when they do not cover all code. header, segment_fields (by
        `.text`, `.rodata`, `.data`) and section_fields (by section name): overrides by ELF field name.
    """
    rodata_addr = page_up(base + len(code)) if rodata_addr is None else rodata_addr
    data_addr = page_up(rodata_addr + len(rodata)) if data_addr is None else data_addr
    image = [Section(".text", flags=SHF_ALLOC | SHF_EXECINSTR, address=base, data=code, align=4)]
    segments = [Segment(".text", PF_R | PF_X, base)]
    if rodata:
        image.append(Section(".rodata", flags=SHF_ALLOC, address=rodata_addr, data=rodata, align=8))
        segments.append(Segment(".rodata", PF_R, rodata_addr))
    if data or bss:
        image.append(Section(".data", flags=SHF_ALLOC | SHF_WRITE, address=data_addr, data=data, align=8))
        segments.append(Segment(".data", PF_R | PF_W, data_addr, memsz=len(data) + bss))
    if bss:
        at = data_addr + len(data)
        image.append(Section(".bss", SHT_NOBITS, SHF_ALLOC | SHF_WRITE, at, size=bss, align=8))
    sections = [*image, *extra_sections]
    if manifest is not None:
        sections.append(Section(".berm.abi", data=manifest))
    if symbol_table:
        sections += _symbol_sections(_symbol_list(symbols, base, len(code)), sections, relocations)
    for segment in segments:
        segment.fields.update((segment_fields or {}).get(segment.section or "", {}))
    for section in sections:
        section.fields.update((section_fields or {}).get(section.name, {}))
    writer = _Writer(sections, [*segments, *extra_segments])
    if code_sections is not None:
        writer.split_text(code_sections)
    values = {"e_entry": base if entry is None else entry, "e_flags": flags, "e_machine": machine}
    names = (section_fields or {}).get(".shstrtab", {})
    return writer.write({**values, **(header or {})}, section_table=section_table, names_fields=names)


def _symbol_list(
    symbols: Mapping[str, tuple[int, int]] | Iterable[Symbol] | None, base: int, size: int
) -> list[Symbol]:
    if symbols is None:
        symbols = {"_start": (base, size)}
    if isinstance(symbols, Mapping):
        return [Symbol(name, value, size) for name, (value, size) in symbols.items()]
    return list(symbols)


def _symbol_sections(
    symbols: list[Symbol],
    image: list[Section],
    relocations: Iterable[tuple[int, int, int | str] | Relocation] | None,
) -> list[Section]:
    """Return .symtab, .strtab and the rela sections; symbol 1 is the section symbol of .text."""
    text = image[0]
    ordered = [Symbol("", text.address, 0, STT_SECTION, STB_LOCAL, 1)]
    ordered += sorted(symbols, key=lambda symbol: symbol.bind != STB_LOCAL)
    strings = bytearray(b"\0")
    table = bytearray(struct.calcsize(SYM))
    index_of: dict[str, int] = {}
    for index, symbol in enumerate(ordered, 1):
        name = symbol.name_offset
        if name is None:
            name = len(strings) if symbol.name else 0
            strings += symbol.name.encode() + b"\0" if symbol.name else b""
        index_of.setdefault(symbol.name, index)
        info = symbol.bind << 4 | symbol.type
        table += struct.pack(SYM, name, info, 0, _section_of(symbol, image), symbol.value, symbol.size)
    local_count = 1 + sum(symbol.bind == STB_LOCAL for symbol in ordered)
    symtab_index = len(image) + 1
    sections = [
        Section(
            ".symtab", SHT_SYMTAB, data=bytes(table), link=symtab_index + 1, info=local_count, entsize=24
        ),
        Section(".strtab", SHT_STRTAB, data=bytes(strings)),
    ]
    entries = _rela_entries(relocations or (), image, index_of) if relocations is not None else {}
    if relocations is not None:
        entries.setdefault(1, bytearray())
    for target, rows in sorted(entries.items()):
        name = ".rela" + image[target - 1].name
        sections.append(
            Section(name, SHT_RELA, data=bytes(rows), link=symtab_index, info=target, entsize=24, align=8)
        )
    return sections


def _section_of(symbol: Symbol, image: list[Section]) -> int:
    if isinstance(symbol.section, int):
        return symbol.section
    if symbol.section is not None:
        return 1 + [section.name for section in image].index(symbol.section)
    for index, section in enumerate(image, 1):
        size = len(section.data) if section.size is None else section.size
        if section.flags & SHF_ALLOC and section.address <= symbol.value < section.address + size:
            return index
    return SHN_ABS


def _rela_entries(
    relocations: Iterable[tuple[int, int, int | str] | Relocation],
    image: list[Section],
    index_of: dict[str, int],
) -> dict[int, bytearray]:
    entries: dict[int, bytearray] = {}
    for item in relocations:
        entry = item if isinstance(item, Relocation) else Relocation(*item)
        place = _section_of(Symbol("", entry.address), image)
        place = 1 if place == SHN_ABS else place
        symbol, addend = 1, entry.addend
        if isinstance(entry.target, str):
            symbol = index_of[entry.target]
        else:
            addend += entry.target - image[0].address
        symbol = symbol if entry.symbol is None else entry.symbol
        row = struct.pack(RELA, entry.address, entry.type, symbol, addend)
        entries.setdefault(place, bytearray()).extend(row)
    return entries


class _Writer:
    """Lays sections out in the file and writes the headers that describe them."""

    def __init__(self, sections: list[Section], segments: list[Segment]) -> None:
        self.sections = sections
        self.segments = segments
        self.pieces: list[tuple[int, int]] | None = None

    def split_text(self, pieces: Iterable[tuple[int, int]]) -> None:
        """Describe .text by several section headers (start address, size) instead of one."""
        self.pieces = list(pieces)

    def write(self, values: dict[str, Any], *, section_table: bool, names_fields: Mapping[str, int]) -> bytes:
        """Return the file; values override Elf64_Ehdr fields."""
        out = bytearray(struct.calcsize(EHDR) + len(self.segments) * struct.calcsize(PHDR))
        offsets = self._place(out)
        for index, segment in enumerate(self.segments):
            at = struct.calcsize(EHDR) + index * struct.calcsize(PHDR)
            struct.pack_into(PHDR, out, at, *self._program_header(segment, offsets).values())
        fields = dict.fromkeys(EHDR_FIELDS, 0)
        if section_table:
            fields.update(self._section_table(out, offsets, names_fields))
        fields |= {
            "e_ident": b"\x7fELF\x02\x01\x01" + bytes(9),
            "e_type": 2,
            "e_version": 1,
            "e_phoff": struct.calcsize(EHDR),
            "e_ehsize": struct.calcsize(EHDR),
            "e_phentsize": struct.calcsize(PHDR),
            "e_phnum": len(self.segments),
        }
        fields.update(values)
        struct.pack_into(EHDR, out, 0, *fields.values())
        return bytes(out)

    def _place(self, out: bytearray) -> dict[str, int]:
        offsets: dict[str, int] = {}
        for section in self.sections:
            if section.type != SHT_NOBITS:
                out += bytes(-len(out) % 8)
                offsets[section.name] = len(out)
                out += section.data
        return offsets

    def _program_header(self, segment: Segment, offsets: dict[str, int]) -> dict[str, int]:
        size = 0
        if segment.section is not None:
            size = next(len(s.data) for s in self.sections if s.name == segment.section)
        fields = {
            "p_type": segment.type,
            "p_flags": segment.flags,
            "p_offset": offsets.get(segment.section or "", 0),
            "p_vaddr": segment.address,
            "p_paddr": segment.address,
            "p_filesz": size,
            "p_memsz": size if segment.memsz is None else segment.memsz,
            "p_align": 1,
        }
        return {**fields, **segment.fields}

    def _section_table(
        self, out: bytearray, offsets: dict[str, int], names_fields: Mapping[str, int]
    ) -> dict[str, int]:
        names = bytearray(b"\0")
        rows = [dict.fromkeys(SHDR_FIELDS, 0)]
        for section in self.sections:
            row = {
                "sh_name": len(names),
                "sh_type": section.type,
                "sh_flags": section.flags,
                "sh_addr": section.address,
                "sh_offset": offsets.get(section.name, 0),
                "sh_size": len(section.data) if section.size is None else section.size,
                "sh_link": section.link,
                "sh_info": section.info,
                "sh_addralign": section.align,
                "sh_entsize": section.entsize,
            }
            names += section.name.encode() + b"\0"
            rows.append({**row, **section.fields})
        self._split_rows(rows)
        row = dict.fromkeys(SHDR_FIELDS, 0)
        row |= {"sh_name": len(names), "sh_type": SHT_STRTAB, "sh_offset": len(out)}
        names += b".shstrtab\0"
        row["sh_size"] = len(names)
        rows.append({**row, **names_fields})
        out += names
        out += bytes(-len(out) % 8)
        table = len(out)
        for fields in rows:
            out += struct.pack(SHDR, *fields.values())
        return {
            "e_shoff": table,
            "e_shentsize": struct.calcsize(SHDR),
            "e_shnum": len(rows),
            "e_shstrndx": len(rows) - 1,
        }

    def _split_rows(self, rows: list[dict[str, int]]) -> None:
        """Turn .text into a plain section and append one executable section a piece."""
        if self.pieces is None:
            return
        text = rows[1]
        text["sh_flags"] &= ~SHF_EXECINSTR
        for start, size in self.pieces:
            offset = text["sh_offset"] + start - text["sh_addr"]
            flags = SHF_ALLOC | SHF_EXECINSTR
            piece = {"sh_flags": flags, "sh_addr": start, "sh_offset": offset, "sh_size": size}
            rows.append({**text, **piece})
