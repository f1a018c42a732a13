"""Guests made from a few lines of assembly, each in a store of its own.

`Guest(text)` assembles, links, loads and instantiates. Every label that starts with a letter is an exported
function; `_name` labels are code addresses without a symbol. `targets` are labels that a relocation names, so
an indirect jump may go there. Closing a guest checks that its engine gave every arena back.
"""

from __future__ import annotations

from typing import Any, Self

import rvcore
from asm import assemble
from elfs import R_64, build_elf

BASE = 0x10000
MIB = 1 << 20
KIB = 1 << 10
SMALL = rvcore.Config(memory_size=MIB, stack_size=64 * KIB)
STACK_TOP = SMALL.memory_size


def link(
    text: str, *, targets: tuple[str, ...] = (), base: int = BASE, **elf: Any
) -> tuple[bytes, dict[str, int]]:
    """Return an image and the addresses of its labels."""
    code, labels = assemble(text, base)
    symbols = {name: (address, 0) for name, address in labels.items() if name[0].isalpha()}
    relocations = [(base, R_64, labels[name]) for name in targets]
    return build_elf(code, base=base, symbols=symbols, relocations=relocations, **elf), labels


class Guest:
    """One program in one store of one engine."""

    def __init__(
        self,
        text: str,
        *,
        config: rvcore.Config = SMALL,
        hosts: dict[int, Any] | None = None,
        deferred: tuple[int, ...] = (),
        store_data: object = None,
        **image: Any,
    ) -> None:
        self.elf, self.labels = link(text, **image)
        self.engine = rvcore.Engine(config)
        self.module = rvcore.Module(self.engine, self.elf)
        self.linker = rvcore.Linker(self.engine)
        for number, function in (hosts or {}).items():
            self.linker.define_func(number, function, name=f"host.{number}")
        for number in deferred:
            self.linker.define_deferred(number, name=f"deferred.{number}")
        self.store = rvcore.Store(self.engine, store_data)
        self.instance = self.linker.instantiate(self.store, self.module)

    @property
    def memory(self) -> rvcore.Memory:
        return self.instance.memory

    @property
    def program(self) -> Any:
        return self.store.machine.program

    def start(self, name: str, *args: int) -> rvcore.Call:
        return self.instance.exports(self.store)[name].start(self.store, *args)

    def call(self, name: str, *args: int) -> int:
        """Return a0."""
        return self.start(name, *args).finish()[0]

    def trap(self, name: str, *args: int, fuel: int = 10_000_000) -> rvcore.Trap:
        """Run until it traps and return the trap."""
        done = self.start(name, *args).run(fuel)
        assert done.reason is rvcore.ExitReason.TRAP, done
        assert done.trap is not None
        return done.trap

    def read(self, start: int, size: int) -> bytes:
        return self.memory.read(self.store, start, start + size)

    def write(self, start: int, data: bytes) -> None:
        self.memory.write(self.store, data, start)

    def renew(self) -> None:
        """Give the memory back and instantiate again, in the arena that came back when there is one."""
        data = self.store.data
        self.store.close()
        self.store = rvcore.Store(self.engine, data)
        self.instance = self.linker.instantiate(self.store, self.module)

    def close(self) -> None:
        self.store.close()
        held = self.engine.statistics()
        assert held.arenas_live == 0, held
        self.engine.close()
        held = self.engine.statistics()
        assert (held.arenas_free, held.arena_bytes_free) == (0, 0), held

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
