"""Loads, stores and atomics of every width at the edges of what a guest may touch.

Next to each other lie: text and rodata (read-only), data and heap (read-write), the guard (nothing), the
stack, and the end of memory. An access that is partly on the wrong side is a fault that names its first byte,
and a store that faults has written nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import rvcore
from elfs import build_elf

from .encode import assemble
from .semantics import LOAD, STORE

BASE = 0x10000
RODATA = 0x11000
DATA = 0x12000
HEAP = 0x13000
MEMORY = 1 << 20
STACK = 64 << 10
# The guard is a sixteenth of so small a memory (docs/abi.md: below the stack).
GUARD = MEMORY - STACK - MEMORY // 16
PATTERN = bytes(range(1, 9))
ATOMICS = {"amoadd.w": 4, "amoadd.d": 8, "lr.w": 4, "lr.d": 8}


def _functions() -> tuple[bytes, dict[str, tuple[int, int]]]:
    """Give one function of two instructions for each load, store and atomic: f(address, value)."""
    bodies = {name: f"{name} a0, 0(a0)" for name in LOAD} | {name: f"{name} a1, 0(a0)" for name in STORE}
    bodies |= {name: f"{name} a0, {'' if name.startswith('lr') else 'a1, '}(a0)" for name in ATOMICS}
    code, symbols = b"", {}
    for name, body in bodies.items():
        symbols[name] = (BASE + len(code), 8)
        code += assemble(f"{body}; jalr zero, 0(ra)")
    return code, symbols


class _Guest:
    def __init__(self) -> None:
        code, symbols = _functions()
        elf = build_elf(
            code,
            symbols=symbols,
            rodata=PATTERN * 512,
            rodata_addr=RODATA,
            data=PATTERN * 512,
            data_addr=DATA,
        )
        self.engine = rvcore.Engine(rvcore.Config(memory_size=MEMORY, stack_size=STACK))
        self.store = rvcore.Store(self.engine)
        module = rvcore.Module(self.engine, elf)
        self.instance = rvcore.Linker(self.engine).instantiate(self.store, module)

    def run(self, name: str, address: int, value: int = 0) -> int | rvcore.Trap:
        """Call one function; give its result or its trap."""
        try:
            result = self.instance.exports(self.store)[name](self.store, address, value)
        except rvcore.Trap as trap:
            return trap
        assert isinstance(result, int)
        return result

    def read(self, start: int, stop: int) -> bytes:
        """Read guest memory."""
        content: bytes = self.instance.memory.read(self.store, start, stop)
        return content


@pytest.fixture
def guest() -> Iterator[_Guest]:
    """Give a guest with a fresh memory."""
    guest = _Guest()
    yield guest
    guest.store.close()
    guest.engine.close()


def _check_fault(outcome: int | rvcore.Trap, code: rvcore.TrapCode, address: int, size: int) -> None:
    assert isinstance(outcome, rvcore.Trap)
    assert (outcome.code, outcome.address, outcome.size) == (code, address, size)
    assert outcome.access == ("load" if code is rvcore.TrapCode.LOAD_FAULT else "store")


# Edges above which nothing may be read, as addresses of the first bad byte.
_READ_EDGES = {"memory": MEMORY, "four gibibytes": 1 << 32, "null": 0, "half": 1 << 63}


@pytest.mark.core
@pytest.mark.parametrize("edge", _READ_EDGES)
@pytest.mark.parametrize("name", LOAD)
def test_load_that_reaches_over_an_edge_faults_at_its_first_byte(guest: _Guest, name: str, edge: str) -> None:
    """At every distance from the edge; what ends before it is fine where there is memory."""
    size = LOAD[name][0]
    for distance in range(size):
        address = (_READ_EDGES[edge] - distance) % (1 << 64)
        _check_fault(guest.run(name, address), rvcore.TrapCode.LOAD_FAULT, address, size)
    if edge == "memory":
        assert guest.run(name, MEMORY - size) == 0


@pytest.mark.core
@pytest.mark.parametrize("name", LOAD)
def test_load_in_the_guard_is_a_stack_overflow(guest: _Guest, name: str) -> None:
    """From its first byte to its last, and never for the bytes around it."""
    size = LOAD[name][0]
    for address in (GUARD, GUARD + 8, MEMORY - STACK - 1):
        outcome = guest.run(name, address)
        assert isinstance(outcome, rvcore.Trap)
        assert (outcome.code, outcome.address) == (rvcore.TrapCode.STACK_OVERFLOW, address)
    assert guest.run(name, GUARD - size) == 0
    assert guest.run(name, MEMORY - STACK) == 0


@pytest.mark.core
@pytest.mark.parametrize("name", STORE)
def test_store_that_reaches_from_rodata_into_data_writes_nothing(guest: _Guest, name: str) -> None:
    """The first bytes are on the read-only page."""
    size = STORE[name]
    for distance in range(1, size + 1):
        address = DATA - distance
        _check_fault(guest.run(name, address, -1), rvcore.TrapCode.STORE_FAULT, address, size)
    assert guest.read(DATA - 8, DATA + 8) == PATTERN * 2
    assert guest.run(name, DATA, -1) == DATA
    assert guest.read(DATA, DATA + 8) == (b"\xff" * size + PATTERN[size:])


@pytest.mark.core
@pytest.mark.parametrize("name", STORE)
def test_store_that_reaches_from_heap_into_the_guard_writes_nothing(guest: _Guest, name: str) -> None:
    """The last bytes are on the page that nobody may touch."""
    size = STORE[name]
    for distance in range(1, size):
        outcome = guest.run(name, GUARD - distance, -1)
        assert isinstance(outcome, rvcore.Trap)
        assert (outcome.address, outcome.size) == (GUARD - distance, size)
    assert guest.read(GUARD - 8, GUARD) == bytes(8)
    assert guest.run(name, GUARD - size, -1) == GUARD - size


@pytest.mark.core
@pytest.mark.parametrize("name", STORE)
@pytest.mark.parametrize("edge", _READ_EDGES)
def test_store_that_reaches_over_an_edge_writes_nothing(guest: _Guest, name: str, edge: str) -> None:
    """Also where the address of the last byte would wrap around."""
    size = STORE[name]
    for distance in range(size):
        address = (_READ_EDGES[edge] - distance) % (1 << 64)
        _check_fault(guest.run(name, address, -1), rvcore.TrapCode.STORE_FAULT, address, size)
    assert guest.read(MEMORY - 8, MEMORY) == bytes(8)


@pytest.mark.core
@pytest.mark.parametrize("name", LOAD)
def test_load_across_two_good_pages_reads_both(guest: _Guest, name: str) -> None:
    """From rodata into data, from data into heap, and inside the stack, at every distance."""
    size, extends = LOAD[name]
    for edge in (DATA, HEAP, MEMORY - 4096):
        for distance in range(1, size):
            raw = guest.read(edge - distance, edge - distance + size)
            expected = int.from_bytes(raw, "little", signed=extends) % (1 << 64)
            assert guest.run(name, edge - distance) == expected


@pytest.mark.core
@pytest.mark.parametrize("name", STORE)
def test_store_across_two_good_pages_writes_both(guest: _Guest, name: str) -> None:
    """Also when either page, or neither, was written before."""
    size = STORE[name]
    value = int.from_bytes(b"\xf8\xf7\xf6\xf5\xf4\xf3\xf2\xf1"[:size], "little")
    for edge in (HEAP, HEAP + 4096, HEAP + 4096, HEAP + 3 * 4096, HEAP + 2 * 4096, MEMORY - 4096):
        for distance in range(1, size):
            guest.run(name, edge - distance, value)
            assert guest.read(edge - distance, edge - distance + size) == value.to_bytes(size, "little")


@pytest.mark.core
@pytest.mark.parametrize("name", ATOMICS)
def test_atomic_on_a_page_that_it_may_not_write_or_that_is_not_there_faults(guest: _Guest, name: str) -> None:
    """LR only reads, so a read-only page is good enough for it."""
    code = rvcore.TrapCode.LOAD_FAULT if name.startswith("lr") else rvcore.TrapCode.STORE_FAULT
    for address in (0, 8, MEMORY, 1 << 32, (1 << 64) - 8):
        _check_fault(guest.run(name, address, 1), code, address, ATOMICS[name])
    outcome = guest.run(name, RODATA, 1)
    if name.startswith("lr"):
        assert outcome == int.from_bytes(PATTERN[: ATOMICS[name]], "little")
    else:
        _check_fault(outcome, code, RODATA, ATOMICS[name])
        assert guest.read(RODATA, RODATA + 8) == PATTERN


@pytest.mark.core
def test_a_reservation_does_not_outlive_its_call() -> None:
    """LR in one call, SC in the next: another invocation's reservation is never there."""
    code = assemble("lr.d a0, (a0); jalr zero, 0(ra); sc.d a0, a1, (a0); jalr zero, 0(ra)")
    elf = build_elf(code, symbols={"lr": (BASE, 8), "sc": (BASE + 8, 8)}, data=PATTERN, data_addr=DATA)
    with rvcore.Engine(rvcore.Config(memory_size=MEMORY, stack_size=STACK)) as engine:
        module = rvcore.Module(engine, elf)
        with rvcore.Store(engine) as store:
            instance = rvcore.Linker(engine).instantiate(store, module)
            exports = instance.exports(store)
            exports["lr"](store, DATA)
            assert exports["sc"](store, DATA, 0) == 1
            assert instance.memory.read(store, DATA, DATA + 8) == PATTERN
