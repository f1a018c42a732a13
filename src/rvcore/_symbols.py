"""Addresses → names, lines and callers, made on first use and only for messages.

Owns which symbol names an address and where line tables are found. Whatever the file's tables hold, a
question here has an answer or None: a guest that traps must not take its host's report with it. Names are
made printable, because they end on terminals.
"""

from __future__ import annotations

import struct
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from rvcore._errors import LoadError, printable
from rvcore._traps import Frame
from rvcore._unwind import MAX_FRAMES, Code, unwind

if TYPE_CHECKING:
    from rvcore._elf import CodeRange
    from rvcore._sections import Sections
    from rvcore._tables import CodeMap, SymbolTable

_LONGEST_NAME = 1000  # characters; mangled names reach hundreds
_LINE_TABLE_BYTES = 8 << 20  # larger tables are not walked: a trap asks after its guest has ended
_ENCLOSING = 16  # symbols looked back at for one that encloses an address; nesting is rare and shallow

_SHF_COMPRESSED = 0x800
_CHDR = struct.Struct("<IIQQ")
_ZLIB = 1


class Symbols:
    """The names, lines and call frames of an image."""

    def __init__(
        self, sections: Sections, code: tuple[CodeRange, ...], table: SymbolTable, code_map: CodeMap
    ) -> None:
        self._sections = sections
        self._code = code
        self._code_starts = [piece.start for piece in code]
        self._table = table
        self._starts, self._sizes, self._names = table.by_address(code_map)

    def lookup(self, address: int) -> tuple[str, int] | None:
        """Return the name of the function that holds an address, and the offset in it."""
        index = self._index(address)
        if index is None:
            return None
        return self._name(index), address - self._starts[index]

    def extent(self, address: int) -> tuple[int, int] | None:
        """Return the first address of the function that holds an address, and the first past it."""
        index = self._index(address)
        return None if index is None else (self._starts[index], self._end(index))

    def functions(self) -> list[tuple[int, int, str]]:
        """Return (start, size, name) of every named address, ascending."""
        return [
            (start, self._end(index) - start, self._name(index)) for index, start in enumerate(self._starts)
        ]

    def line(self, address: int) -> tuple[str, int] | None:
        """Return the source file and line of an address."""
        return self.lines([address]).get(address)

    def lines(self, addresses: Iterable[int]) -> dict[int, tuple[str, int]]:
        """Return the source file and line of those of at most 64 addresses that have one, in one pass."""
        table, line_strings, strings = self._line_sections
        if not table:
            return {}
        # Imported here: most runs never ask, and the table's vocabulary comes with pyelftools.
        from rvcore._lines import file_name, find_lines  # noqa: PLC0415

        found = {}
        names: dict[tuple[int, int], str] = {}
        for address, (unit, file, line) in find_lines(table, addresses).items():
            if (unit, file) not in names:
                names[unit, file] = printable(file_name(table, unit, file, line_strings, strings) or "?")
            found[address] = (names[unit, file], line)
        return found

    def location(self, address: int) -> str | None:
        """Return the source line of an address as `file:line`."""
        found = self.line(address)
        return f"{found[0]}:{found[1]}" if found else None

    def frames(
        self,
        pc: int,
        registers: Sequence[int],
        read: Callable[[int, int], bytes | None],
        is_return_site: Callable[[int], bool],
    ) -> tuple[Frame, ...]:
        """Return the call stack of a stopped guest, innermost first, as far as prologues tell it.

        read(address, size) gives guest memory or None; is_return_site says whether an address follows a
        call. pc is where the guest stopped; a caller's is where its call returns to.
        """
        code = Code(self._code, self.extent)
        pcs = unwind(code, pc, registers, read, is_return_site)[:MAX_FRAMES]
        # A call may be the last instruction of its line, or of its function: ask for the call itself.
        asked = [address if index == 0 else address - 1 for index, address in enumerate(pcs)]
        lines = self.lines(asked)
        frames = []
        for address, inside in zip(pcs, asked, strict=True):
            name = self.lookup(inside)
            line = lines.get(inside)
            offset = name[1] + address - inside if name else None
            location = f"{line[0]}:{line[1]}" if line else None
            frames.append(Frame(address, name[0] if name else None, offset, location))
        return tuple(frames)

    def _index(self, address: int) -> int | None:
        """Return the index of the symbol whose code holds an address."""
        piece = bisect_right(self._code_starts, address) - 1
        if piece < 0 or address >= self._code[piece].end:
            return None
        nearest = bisect_right(self._starts, address) - 1
        for index in range(nearest, max(nearest - _ENCLOSING, -1), -1):
            if self._starts[index] >= self._code_starts[piece] and address < self._end(index):
                return index
        return None

    def _end(self, index: int) -> int:
        """Return the first address past a symbol; without a size it reaches to the next one."""
        start = self._starts[index]
        limit = self._code[bisect_right(self._code_starts, start) - 1].end
        if self._sizes[index]:
            return int(min(start + self._sizes[index], limit))
        following = self._starts[index + 1] if index + 1 < len(self._starts) else limit
        return min(following, limit)

    def _name(self, index: int) -> str:
        try:
            return printable(self._table.name_at(self._names[index]), _LONGEST_NAME)
        except LoadError:  # a name without an end, of a symbol that exports nothing
            return "?"

    @cached_property
    def _line_sections(self) -> tuple[bytes, bytes, bytes]:
        names = (".debug_line", ".debug_line_str", ".debug_str")
        table, line_strings, strings = (self._debug_section(name) for name in names)
        return table, line_strings, strings

    def _debug_section(self, name: str) -> bytes:
        """Return a section, decompressed; empty where it is missing, broken or too long."""
        data = self._sections.contents(name)
        if data is None or len(data) > _LINE_TABLE_BYTES:
            return b""
        if not self._sections.flags(name) & _SHF_COMPRESSED:
            return data
        if len(data) < _CHDR.size:
            return b""
        kind, _, size, _ = _CHDR.unpack_from(data)
        if kind != _ZLIB or size > _LINE_TABLE_BYTES:
            return b""
        try:
            return zlib.decompressobj().decompress(data[_CHDR.size :], size)
        except zlib.error:
            return b""
