"""ELF bytes → ElfImage: an image is checked here, once, and immutable from then on.

Owns what a file must be to run, a static RV64IMAC executable that carries its relocations, and which of
its bytes are code. The header, the program headers and the section table have a module each; the long
tables are read in bulk by `_tables`, and code is looked at by `_scan`. It knows nothing of memory, stacks
or engines: whether an image fits its arena is for the program to say.

The file is hostile. Nothing is allocated for a size that the file itself does not cover, no two segments
share file bytes, names are bounded, and no table is searched once per entry of another.
"""

from __future__ import annotations

import dataclasses
from array import array
from collections.abc import Callable
from functools import cached_property

from rvcore._disasm import disassemble, extension_of
from rvcore._errors import LoadError
from rvcore._header import BUILD, MAX_FILE_BYTES, read_header
from rvcore._scan import find_foreign, mark_formed
from rvcore._sections import Sections, mark_relocated, read_sections, read_symbols
from rvcore._segments import Segment, read_segments
from rvcore._symbols import Symbols
from rvcore._tables import CodeMap, SymbolTable

__all__ = ["MAX_FILE_BYTES", "CodeRange", "ElfImage", "Segment", "read_elf"]

_KEEP = "link with --emit-relocs, and strip with `objcopy --strip-debug`, which keeps them"


@dataclasses.dataclass(frozen=True, slots=True)
class CodeRange:
    """A run of bytes that may be executed."""

    start: int
    data: bytes

    @property
    def end(self) -> int:
        """Return the first address past the range."""
        return self.start + len(self.data)


@dataclasses.dataclass(frozen=True, eq=False)
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


def read_elf(data: bytes | bytearray | memoryview, *, require_relocations: bool = True) -> ElfImage:
    """Read and check an image.

    Raises:
        LoadError: the file is malformed, or is no static RV64IMAC executable with relocations.
    """
    if not isinstance(data, bytes):
        data = bytes(memoryview(data))
    header = read_header(data)
    segments = read_segments(data, header)
    sections = read_sections(data, header)
    code = _code_ranges(segments, sections)
    code_map = CodeMap([(piece.start, piece.data) for piece in code])
    symbols = read_symbols(data, sections, code_map)
    has_relocations = mark_relocated(data, sections, symbols, code_map)
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
        image_end=segments[-1].end,
        _sections=sections,
        _symbol_table=symbols,
        _code_map=code_map,
    )
    _refuse_foreign_code(image, code_map)
    return image


def _code_ranges(segments: tuple[Segment, ...], sections: Sections) -> tuple[CodeRange, ...]:
    """Return what may be executed: the sections that say so, or else the executable segments."""
    spans = [
        (section.addr, section.size, name)
        for section, name in zip(sections.headers, sections.names, strict=True)
        if section.is_code
    ]
    if not spans:
        spans = [(s.vaddr, len(s.data) & ~1, "a segment") for s in segments if s.executable and s.data]
    if not spans:
        raise LoadError("the image has no executable code", field="sh_flags")
    pieces: list[CodeRange] = []
    holder = iter(segments)
    segment = next(holder)
    for start, size, name in sorted(spans):
        while start >= segment.end:
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
        remedy=BUILD,
    )
