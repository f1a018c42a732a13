"""ELF bytes → ElfImage: every header, offset and size of an image is checked here, once.

Owns what a file must be to run (a static RV64IMAC executable that carries its relocations) and what is
said when it is not. Headers are few and read here; symbol and relocation tables, which are long, are read
in bulk by `_tables`, and code is looked at by `_scan`. It knows nothing of memory, stacks or engines:
whether an image fits its arena is for the program to say.

The file is hostile. Nothing is allocated for a size that the file itself does not cover, no two segments
share file bytes, names are bounded, and no table is searched once per entry of another.
"""

from __future__ import annotations

import dataclasses
import struct
from array import array
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import NamedTuple

from rvcore._disasm import disassemble, extension_of
from rvcore._errors import LoadError
from rvcore._scan import find_foreign, mark_formed
from rvcore._symbols import Symbols
from rvcore._tables import CodeMap, SymbolTable, read_relocations

MAX_FILE_BYTES = 256 << 20
PAGE_BYTES = 4096

_MAX_SEGMENTS = 128  # linkers write fewer than ten; picked, not measured
_LONGEST_SECTION_NAME = 1024

_EHDR = struct.Struct("<16sHHIQQQIHHHHHH")
_PHDR = struct.Struct("<IIQQQQQQ")
_SHDR = struct.Struct("<IIQQQQIIQQ")
_SYM_BYTES = 24
_RELA_BYTES = 24

_EM_RISCV = 243
_ET_NAMES = {0: "ET_NONE", 1: "ET_REL", 2: "ET_EXEC", 3: "ET_DYN", 4: "ET_CORE"}
_EF_RVC, _EF_FLOAT, _EF_RVE, _EF_TSO = 0x1, 0x6, 0x8, 0x10
_FLOAT_ABIS = {0x2: "single", 0x4: "double", 0x6: "quad"}
_PT_LOAD, _PT_DYNAMIC, _PT_INTERP = 1, 2, 3
_PF_X, _PF_W, _PF_R = 1, 2, 4
_SHT_SYMTAB, _SHT_STRTAB, _SHT_RELA, _SHT_NOBITS, _SHT_REL, _SHT_CREL = 2, 3, 4, 8, 9, 0x40000014
_SHF_ALLOC, _SHF_EXECINSTR = 2, 4
_SHN_LORESERVE = 0xFF00

_BUILD = "compile with -march=rv64imac -mabi=lp64"
_STATIC = "link with -static -no-pie"
_KEEP = "link with --emit-relocs, and strip with `objcopy --strip-debug`, which keeps them"


@dataclasses.dataclass(frozen=True, slots=True)
class Segment:
    """One loadable piece of the image: `data` at `vaddr`, then zeroes up to `memsz` bytes."""

    vaddr: int
    memsz: int
    data: bytes
    readable: bool
    writable: bool
    executable: bool


@dataclasses.dataclass(frozen=True, slots=True)
class CodeRange:
    """A run of bytes that may be executed."""

    start: int
    data: bytes

    @property
    def end(self) -> int:
        """Return the first address past the range."""
        return self.start + len(self.data)


@dataclasses.dataclass(frozen=True)
class ElfImage:
    """A checked image, immutable.

    `exports` holds every global function. `function_addresses` and `indirect_targets` are ascending and
    unique; the second are the addresses that an indirect jump or call may go to. `image_start` and
    `image_end` bound the segments.
    """

    data: bytes = dataclasses.field(repr=False)
    entry: int
    flags: int
    segments: tuple[Segment, ...] = dataclasses.field(repr=False)
    code: tuple[CodeRange, ...] = dataclasses.field(repr=False)
    exports: dict[str, int] = dataclasses.field(repr=False)
    function_addresses: array[int] = dataclasses.field(repr=False)
    indirect_targets: array[int] = dataclasses.field(repr=False)
    has_relocations: bool
    global_pointer: int | None
    image_start: int
    image_end: int
    _sections: Sections = dataclasses.field(repr=False)
    _symbol_table: SymbolTable = dataclasses.field(repr=False)
    _code_map: CodeMap = dataclasses.field(repr=False)

    def section(self, name: str) -> bytes | None:
        """Return the bytes of the first section of this name, or None."""
        return self._sections.contents(name)

    @cached_property
    def symbols(self) -> Symbols:
        """Return the names and lines of addresses, made on first use."""
        return Symbols(self._sections, self.code, self._symbol_table, self._code_map)

    def require_functions(self, accept: Callable[[str], bool]) -> None:
        """Check that each global symbol whose name accept takes is a function.

        Raises:
            LoadError: one is undefined or is something else.
        """
        for name, address in self._symbol_table.globals_that_are_no_functions(accept):
            raise LoadError(
                "an export is no function that the image defines",
                field="st_info",
                address=address,
                symbol=name,
                remedy="define it as a global function; in assembly, mark it `.type NAME, @function`",
            )


class _Header(NamedTuple):
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


class _Section(NamedTuple):
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


class Sections:
    """The section table: headers whose file ranges have been checked, and their names."""

    def __init__(self, data: bytes, headers: list[_Section], names: list[str]) -> None:
        self._data = data
        self.headers = headers
        self.names = names
        self._index = {name: index for index, name in reversed(list(enumerate(names)))}

    def contents(self, name: str) -> bytes | None:
        index = self._index.get(name)
        if index is None or self.headers[index].type == _SHT_NOBITS:
            return None
        header = self.headers[index]
        return self._data[header.offset : header.offset + header.size]

    def flags(self, name: str) -> int:
        index = self._index.get(name)
        return 0 if index is None else self.headers[index].flags

    def of_type(self, kind: int) -> Iterable[int]:
        return (index for index, header in enumerate(self.headers) if header.type == kind)


def read_elf(data: bytes, *, require_relocations: bool = True) -> ElfImage:
    """Read and check an image.

    Raises:
        LoadError: the file is malformed, or is no static RV64IMAC executable with relocations.
    """
    data = bytes(data)
    header = _read_header(data)
    segments = _read_segments(data, header)
    sections = _read_sections(data, header)
    code = _code_ranges(segments, sections)
    code_map = CodeMap([(piece.start, piece.data) for piece in code])
    symbols = _read_symbols(data, sections, code_map)
    has_relocations = _read_relocations(data, sections, symbols, code_map)
    if require_relocations and not has_relocations:
        raise LoadError("the image has no relocations for its code", field=".rela.text", remedy=_KEEP)
    mark_formed(code_map)
    image = ElfImage(
        data=data,
        entry=header.entry,
        flags=header.flags,
        segments=segments,
        code=code,
        exports=symbols.exports,
        function_addresses=code_map.addresses(code_map.functions),
        indirect_targets=code_map.addresses(code_map.targets),
        has_relocations=has_relocations,
        global_pointer=symbols.global_pointer,
        image_start=segments[0].vaddr,
        image_end=segments[-1].vaddr + segments[-1].memsz,
        _sections=sections,
        _symbol_table=symbols,
        _code_map=code_map,
    )
    _refuse_foreign_code(image, code_map)
    return image


def _read_header(data: bytes) -> _Header:
    if len(data) > MAX_FILE_BYTES:
        raise LoadError(f"the file has {len(data)} bytes, more than the {MAX_FILE_BYTES} that are read")
    if data[:4] != b"\x7fELF":
        raise LoadError("not an ELF file: it does not start with 7f 45 4c 46", field="e_ident", offset=0)
    if len(data) < _EHDR.size:
        raise LoadError(
            f"the file has {len(data)} bytes, fewer than an ELF header", field="e_ident", offset=0
        )
    header = _Header._make(_EHDR.unpack_from(data))
    _expect("EI_CLASS", 4, header.ident[4], 2, "ELFCLASS64", "build for riscv64")
    _expect("EI_DATA", 5, header.ident[5], 1, "ELFDATA2LSB", "build for little-endian riscv64")
    _expect("EI_VERSION", 6, header.ident[6], 1, "EV_CURRENT")
    _expect("e_machine", 18, header.machine, _EM_RISCV, "EM_RISCV", "build for riscv64")
    if header.type != 2:
        kind = _ET_NAMES.get(header.type, "unknown")
        remedy = {1: "link the object into an executable", 3: _STATIC}.get(header.type)
        raise LoadError(
            f"expected e_type 2 (ET_EXEC), got {header.type} ({kind})",
            field="e_type",
            offset=16,
            remedy=remedy,
        )
    _expect("e_version", 20, header.version, 1, "EV_CURRENT")
    _check_flags(header.flags)
    _expect("e_phentsize", 54, header.phentsize, _PHDR.size, "the size of Elf64_Phdr")
    return header


def _expect(field: str, offset: int, value: int, wanted: int, name: str, remedy: str | None = None) -> None:
    if value != wanted:
        raise LoadError(
            f"expected {field} {wanted} ({name}), got {value}", field=field, offset=offset, remedy=remedy
        )


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
        raise LoadError(problem, field="e_flags", offset=48, remedy=_BUILD)


def _check_range(data: bytes, start: int, size: int, field: str, offset: int) -> None:
    if start + size > len(data):
        raise LoadError(
            f"bytes {start:#x} to {start + size:#x} are outside the file of {len(data):#x} bytes",
            field=field,
            offset=offset,
            remedy="the file may be cut short",
        )


def _read_segments(data: bytes, header: _Header) -> tuple[Segment, ...]:
    """Return the loadable segments by address."""
    if header.phnum > _MAX_SEGMENTS:
        raise LoadError(
            f"the image has {header.phnum} program headers, more than {_MAX_SEGMENTS}",
            field="e_phnum",
            offset=56,
        )
    _check_range(data, header.phoff, header.phnum * _PHDR.size, "e_phoff", 32)
    segments = []
    file_bytes = 0
    for index in range(header.phnum):
        at = header.phoff + index * _PHDR.size
        kind, flags, offset, vaddr, _, filesz, memsz, _ = _PHDR.unpack_from(data, at)
        if kind in {_PT_DYNAMIC, _PT_INTERP}:
            name = "PT_DYNAMIC" if kind == _PT_DYNAMIC else "PT_INTERP"
            raise LoadError(
                f"the image is linked dynamically ({name})",
                field=f"p_type[{index}]",
                offset=at,
                remedy=_STATIC,
            )
        if kind != _PT_LOAD or memsz == filesz == 0:
            continue
        _check_segment(data, index, at, flags, (offset, vaddr, filesz, memsz))
        file_bytes += filesz
        if file_bytes > len(data):
            raise LoadError("segments share bytes of the file", field=f"p_filesz[{index}]", offset=at + 32)
        piece = data[offset : offset + filesz]
        access = (bool(flags & _PF_R), bool(flags & _PF_W), bool(flags & _PF_X))
        segments.append(Segment(vaddr, memsz, piece, *access))
    if not segments:
        raise LoadError("the image has no loadable segment", field="p_type", offset=header.phoff)
    segments.sort(key=lambda segment: segment.vaddr)
    _check_neighbours(segments)
    return tuple(segments)


def _check_segment(data: bytes, index: int, at: int, flags: int, spans: tuple[int, int, int, int]) -> None:
    offset, vaddr, filesz, memsz = spans
    _check_range(data, offset, filesz, f"p_offset[{index}]", at + 8)
    if filesz > memsz:
        raise LoadError(
            f"a segment has {filesz:#x} bytes in the file, but {memsz:#x} in memory",
            field=f"p_memsz[{index}]",
            offset=at + 40,
            address=vaddr,
        )
    if vaddr + memsz > 1 << 64:
        raise LoadError(
            f"a segment of {memsz:#x} bytes wraps around the address space",
            field=f"p_vaddr[{index}]",
            offset=at + 16,
            address=vaddr,
        )
    if vaddr < PAGE_BYTES:
        raise LoadError(
            "a segment covers the null page",
            field=f"p_vaddr[{index}]",
            offset=at + 16,
            address=vaddr,
            remedy="link at 0x10000 or above",
        )
    if flags & _PF_W and flags & _PF_X:
        raise LoadError(
            "a segment is both writable and executable",
            field=f"p_flags[{index}]",
            offset=at + 4,
            address=vaddr,
            remedy="link without -N (--omagic), and keep writable data out of executable sections",
        )


def _check_neighbours(segments: list[Segment]) -> None:
    """Refuse segments that overlap, or that share a page of which one may be written."""
    for low, high in zip(segments, segments[1:], strict=False):
        end = low.vaddr + low.memsz
        if end > high.vaddr:
            raise LoadError(
                f"segments overlap: one ends at {end:#x}, the next starts before it",
                field="p_vaddr",
                address=high.vaddr,
            )
        if low.writable != high.writable and (end - 1) // PAGE_BYTES == high.vaddr // PAGE_BYTES:
            raise LoadError(
                "a writable segment shares a page with one that is not",
                field="p_vaddr",
                address=high.vaddr,
                remedy=f"link without -n (--nmagic), with -z max-page-size={PAGE_BYTES} or a multiple",
            )


def _read_sections(data: bytes, header: _Header) -> Sections:
    if header.shoff == 0:
        return Sections(data, [], [])
    _expect("e_shentsize", 58, header.shentsize, _SHDR.size, "the size of Elf64_Shdr")
    if not 0 < header.shnum < _SHN_LORESERVE:
        raise LoadError(f"e_shnum is {header.shnum}, but e_shoff is set", field="e_shnum", offset=60)
    _check_range(data, header.shoff, header.shnum * _SHDR.size, "e_shoff", 40)
    table = data[header.shoff : header.shoff + header.shnum * _SHDR.size]
    headers = [_Section._make(fields) for fields in _SHDR.iter_unpack(table)]
    for index, section in enumerate(headers):
        if section.type not in {0, _SHT_NOBITS}:
            at = header.shoff + index * _SHDR.size + 24
            _check_range(data, section.offset, section.size, f"sh_offset[{index}]", at)
    return Sections(data, headers, _section_names(data, header, headers))


def _section_names(data: bytes, header: _Header, headers: list[_Section]) -> list[str]:
    if header.shstrndx == 0:
        return [""] * len(headers)
    if header.shstrndx >= len(headers) or headers[header.shstrndx].type != _SHT_STRTAB:
        raise LoadError(f"section {header.shstrndx} is no string table", field="e_shstrndx", offset=62)
    strings = headers[header.shstrndx]
    names = []
    for index, section in enumerate(headers):
        start = strings.offset + section.name
        end = min(strings.offset + strings.size, start + _LONGEST_SECTION_NAME)
        stop = data.find(b"\0", start, end) if section.name < strings.size else -1
        if stop < 0:
            raise LoadError(
                f"a section's name has no end within {_LONGEST_SECTION_NAME} bytes of the string table",
                field=f"sh_name[{index}]",
                offset=header.shoff + index * _SHDR.size,
            )
        names.append(data[start:stop].decode(errors="backslashreplace"))
    return names


def _code_ranges(segments: tuple[Segment, ...], sections: Sections) -> tuple[CodeRange, ...]:
    """Return what may be executed: the sections that say so, or else the executable segments."""
    wanted = _SHF_ALLOC | _SHF_EXECINSTR
    spans = [
        (section.addr, section.size, name)
        for section, name in zip(sections.headers, sections.names, strict=True)
        if section.flags & wanted == wanted and section.size
    ]
    if not spans:
        spans = [(s.vaddr, len(s.data) & ~1, "a segment") for s in segments if s.executable and s.data]
    if not spans:
        raise LoadError("the image has no executable code", field="sh_flags")
    pieces: list[CodeRange] = []
    holder = iter(segments)
    segment = next(holder)
    for start, size, name in sorted(spans):
        while start >= segment.vaddr + segment.memsz:
            following = next(holder, None)
            if following is None:
                break
            segment = following
        _check_code(segment, start, size, name, pieces[-1].end if pieces else 0)
        pieces.append(CodeRange(start, segment.data[start - segment.vaddr : start - segment.vaddr + size]))
    return _merged(pieces)


def _check_code(segment: Segment, start: int, size: int, name: str, behind: int) -> None:
    problem = None
    if not (
        segment.executable and segment.vaddr <= start and start + size <= segment.vaddr + len(segment.data)
    ):
        problem = "code is outside the file part of every executable segment"
    elif start & 1 or size & 1:
        problem = "code starts or ends at an odd address"
    elif start < behind:
        problem = "executable sections overlap"
    if problem:
        raise LoadError(problem, field=name, address=start)


def _merged(pieces: list[CodeRange]) -> tuple[CodeRange, ...]:
    """Join ranges that touch."""
    groups: list[list[CodeRange]] = []
    for piece in pieces:
        if groups and groups[-1][-1].end == piece.start:
            groups[-1].append(piece)
        else:
            groups.append([piece])
    return tuple(CodeRange(group[0].start, b"".join([piece.data for piece in group])) for group in groups)


def _read_symbols(data: bytes, sections: Sections, code: CodeMap) -> SymbolTable:
    indexes = list(sections.of_type(_SHT_SYMTAB))
    if not indexes:
        return SymbolTable(data, 0, 0, 0, 0, 0)
    if len(indexes) > 1:
        raise LoadError("the image has two symbol tables", field=f"sh_type[{indexes[1]}]")
    header = sections.headers[indexes[0]]
    _check_entries(header, sections.names[indexes[0]], _SYM_BYTES)
    if header.link >= len(sections.headers) or sections.headers[header.link].type != _SHT_STRTAB:
        raise LoadError(f"section {header.link} is no string table", field=f"sh_link[{indexes[0]}]")
    strings = sections.headers[header.link]
    count = header.size // _SYM_BYTES
    table = SymbolTable(data, header.offset, count, strings.offset, strings.size, len(sections.headers))
    table.read(code)
    return table


def _check_entries(header: _Section, name: str, size: int) -> None:
    if header.entsize != size or header.size % size:
        raise LoadError(
            f"expected entries of {size} bytes, got {header.size} bytes in entries of {header.entsize}",
            field=name,
            offset=header.offset,
        )


def _read_relocations(data: bytes, sections: Sections, symbols: SymbolTable, code: CodeMap) -> bool:
    """Mark what relocations name; return whether there are any for code or data that is loaded."""
    found = False
    for index, header in enumerate(sections.headers):
        if header.type not in {_SHT_RELA, _SHT_REL, _SHT_CREL} or not _applies(header, sections):
            continue
        name = sections.names[index]
        if header.type != _SHT_RELA:
            raise LoadError(
                "only relocations of type SHT_RELA are read", field=name, remedy="assemble without --crel"
            )
        _check_entries(header, name, _RELA_BYTES)
        if header.link and (
            header.link >= len(sections.headers) or sections.headers[header.link].type != _SHT_SYMTAB
        ):
            raise LoadError(f"section {header.link} is no symbol table", field=f"sh_link[{index}]")
        count = header.size // _RELA_BYTES
        read_relocations(code, symbols, data, header.offset, count, name)
        found = found or header.info != 0
    return found


def _applies(header: _Section, sections: Sections) -> bool:
    """Tell whether relocations are for something loaded; .eh_frame names code that nobody jumps to."""
    if header.info >= len(sections.headers):
        return False
    if header.info == 0:
        return bool(header.flags & _SHF_ALLOC)
    target = sections.headers[header.info]
    return bool(target.flags & _SHF_ALLOC) and sections.names[header.info] != ".eh_frame"


def _refuse_foreign_code(image: ElfImage, code: CodeMap) -> None:
    found = find_foreign(code, extension_of)
    if found is None:
        return
    address, raw = found
    word = int.from_bytes(raw, "little")
    where = image.symbols.lookup(address)
    text = disassemble(word, address)
    name = where[0] if where else None
    raise LoadError(
        f"a function uses `{text}` ({word:#x}) of the {extension_of(word)} extension, outside RV64IMAC",
        address=address,
        symbol=name,
        mnemonic=text.split(maxsplit=1)[0],
        remedy=_BUILD,
    )
