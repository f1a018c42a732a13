"""A module: one program of an engine, ready to be instantiated any number of times."""

from __future__ import annotations

from bisect import bisect_left
from types import MappingProxyType
from typing import TYPE_CHECKING

from rvcore._disasm import disassemble, instruction_length

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from rvcore._elf import ElfImage
    from rvcore._engine import Engine
    from rvcore._program import Program


class Module:
    """Decoded code and initial memory of one ELF file; immutable."""

    def __init__(self, engine: Engine, elf: bytes | bytearray | memoryview) -> None:
        """Load an ELF file.

        Raises:
            LoadError: The file is malformed, unsupported or does not fit.
        """
        self.engine = engine
        program, digest = engine.load(elf)
        self._program: Program = program
        self.sha256: str = digest

    @classmethod
    def from_file(cls, engine: Engine, path: str | Path) -> Module:
        """Load an ELF file from disk.

        Raises:
            LoadError: As the constructor.
            OSError: The file cannot be read.
        """
        with open(path, "rb") as file:  # noqa: PTH123 - accepts str as well
            return cls(engine, file.read())

    @property
    def image(self) -> ElfImage:
        """The ELF file as it was read."""
        image: ElfImage = self._program.image
        return image

    @property
    def exports(self) -> Mapping[str, int]:
        """Guest address of each global function, by name."""
        return MappingProxyType(self._program.exports)

    def disassemble(self, symbol: str | None = None) -> Iterator[tuple[int, bytes, str]]:
        """Yield (address, bytes, text) of each instruction, of one function or of all code.

        Raises:
            KeyError: No function has that name.
        """
        wanted = range(1 << 64) if symbol is None else self._extent(symbol)
        addresses = sorted(set(self._program.code.addresses()))
        for part in self.image.code:
            first = bisect_left(addresses, max(part.start, wanted.start))
            # The address past a range has an op of its own, which traps.
            last = bisect_left(addresses, min(part.end, wanted.stop))
            for address in addresses[first:last]:
                offset = address - part.start
                raw = part.data[offset : offset + instruction_length(part.data[offset])]
                yield address, raw, disassemble(int.from_bytes(raw, "little"), address)

    def _extent(self, symbol: str) -> range:
        for start, size, name in self.image.symbols.functions():
            if name == symbol:
                return range(start, start + size)
        raise KeyError(symbol)
