"""Addresses → names."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rvcore._elf import CodeRange
    from rvcore._tables import CodeMap, SymbolTable


class Symbols:
    def __init__(
        self, data: bytes, code: tuple[CodeRange, ...], table: SymbolTable, code_map: CodeMap
    ) -> None:
        starts, sizes, ranks, names = table.functions(code_map)
        self._rows = sorted(zip(starts, ranks, sizes, names))
        self._starts = [row[0] for row in self._rows]
        self._table = table

    def lookup(self, address: int) -> tuple[str, int] | None:
        index = bisect_right(self._starts, address) - 1
        if index < 0:
            return None
        start, _, size, name = self._rows[index]
        return self._table.name_at(name), address - start
