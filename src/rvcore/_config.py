"""Limits of an engine: frozen, checked once, in plain units."""

from __future__ import annotations

from dataclasses import dataclass

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30
PAGE = 4 * KIB


@dataclass(frozen=True, kw_only=True, slots=True)
class Config:
    """How guests of one engine are laid out and what the engine may keep for them.

    Raises:
        ValueError: A field is out of its range; the message names it.
    """

    memory_size: int = 64 * MIB
    """Bytes of guest memory, a power of two from 128 KiB to 4 GiB; reserved lazily."""
    stack_size: int = 1 * MIB
    """Bytes of stack at the top of memory, whole pages, at most half of it."""
    fuel: int | None = None
    """Instructions a new store may run, None for no limit."""
    cfi: bool = True
    """Whether indirect jumps may land on legal targets only; off, relocations are not required."""
    pool_bytes: int = 64 * MIB
    """Resident bytes that free arenas may keep, all programs of the engine together."""
    pool_arenas: int = 256
    """Free arenas kept at most, all programs of the engine together."""
    cache_bytes: int = 256 * MIB
    """Bytes of decoded programs that the engine remembers by the sha256 of their ELF."""

    def __post_init__(self) -> None:
        size, stack = self.memory_size, self.stack_size
        if size & (size - 1) or not 128 * KIB <= size <= 4 * GIB:
            raise ValueError(f"expected a power of two from 128 KiB to 4 GiB, got {size} - at `memory_size`")
        if stack % PAGE or not PAGE <= stack <= size // 2:
            raise ValueError(
                f"expected whole pages of {PAGE} bytes, at most half of memory_size, got {stack} "
                "- at `stack_size`"
            )
        if self.fuel is not None and self.fuel < 0:
            raise ValueError(f"expected None or a count of instructions, got {self.fuel} - at `fuel`")
        for name in ("pool_bytes", "pool_arenas", "cache_bytes"):
            if getattr(self, name) < 0:
                raise ValueError(f"expected zero or more, got {getattr(self, name)} - at `{name}`")
