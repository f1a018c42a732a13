"""The engine: one configuration, the arenas' budget, and the programs it remembers."""

from __future__ import annotations

import hashlib
import os
import threading
import weakref
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from rvcore._config import Config
from rvcore._elf import read_elf
from rvcore._memory import PoolBudget
from rvcore._program import Program

if TYPE_CHECKING:
    from types import TracebackType


@dataclass(frozen=True, slots=True)
class EngineStatistics:
    """What an engine holds at one moment; sizes in bytes."""

    arenas_live: int
    arenas_free: int
    arenas_created: int
    arena_bytes_free: int
    programs: int
    program_bytes: int


class Engine:
    """Loads programs and lends arenas; shared by any number of threads."""

    def __init__(self, config: Config | None = None) -> None:
        self.config = Config() if config is None else config
        self._budget = PoolBudget(self.config.pool_bytes, self.config.pool_arenas)
        self._lock = threading.Lock()
        self._programs: OrderedDict[str, Program] = OrderedDict()
        self._program_bytes = 0
        # Also those that are forgotten but still in use: their free arenas are the engine's to give back.
        self._alive: weakref.WeakSet[Program] = weakref.WeakSet()
        self._closed = False

    def load(self, elf: bytes | bytearray | memoryview) -> tuple[Program, str]:
        """Return the decoded program and the sha256 of `elf`; bytes seen before are not decoded again.

        Raises:
            LoadError: The file is malformed, unsupported or does not fit.
            TypeError: They are no bytes.
            ValueError: The engine is closed.
        """
        self.check_open()
        # A copy of what may change while it is read: the digest must be that of the program.
        data = elf if isinstance(elf, bytes) else _copied(elf)
        digest = hashlib.sha256(data).hexdigest()
        with self._lock:
            known = self._programs.get(digest)
            if known is not None:
                self._programs.move_to_end(digest)
                return known, digest
        image = read_elf(data, require_relocations=self.config.cfi)
        return self._remember(digest, Program(image, self.config, self._budget)), digest

    def _remember(self, digest: str, program: Program) -> Program:
        """Keep a program, or return the one that another thread has loaded meanwhile."""
        with self._lock:
            self.check_open()
            if digest in self._programs:
                return self._programs[digest]
            self._alive.add(program)
            self._programs[digest] = program
            self._program_bytes += program.size_bytes
            while self._program_bytes > self.config.cache_bytes and self._programs:
                _, oldest = self._programs.popitem(last=False)
                self._program_bytes -= oldest.size_bytes
            return program

    def statistics(self) -> EngineStatistics:
        """Count what the engine holds now."""
        with self._lock:
            return EngineStatistics(
                arenas_live=self._budget.live_arenas,
                arenas_free=self._budget.held_arenas,
                arenas_created=self._budget.created,
                arena_bytes_free=self._budget.held_bytes,
                programs=len(self._programs),
                program_bytes=self._program_bytes,
            )

    def close(self) -> None:
        """Give free arenas and remembered programs back; runs in flight finish on theirs."""
        with self._lock:
            self._closed = True
            programs = list(self._alive)
            self._programs.clear()
            self._program_bytes = 0
        for program in programs:
            program.close()

    def check_open(self) -> None:
        """Pass while the engine can be used.

        Raises:
            ValueError: The engine is closed.
        """
        if self._closed:
            raise ValueError("engine is closed")

    def __enter__(self) -> Self:
        self.check_open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _copied(elf: object) -> bytes:
    if not isinstance(elf, bytearray | memoryview):
        kind = type(elf).__name__
        hint = ": read the file, as in Path(name).read_bytes()" if isinstance(elf, str | os.PathLike) else ""
        raise TypeError(f"expected the bytes of an ELF file, got {kind}{hint}")
    return bytes(elf)
