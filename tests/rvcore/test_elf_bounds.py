"""How long loading may take: ten times what is promised, and linear for tables that are hostile."""

import struct
import time

import pytest

from asm import asm
from elfs import (
    R_64,
    R_PCREL_HI20,
    SHT_RELA,
    SHT_STRTAB,
    SHT_SYMTAB,
    STB_GLOBAL,
    STB_LOCAL,
    Relocation,
    Section,
    Symbol,
    build_elf,
)
from rvcore._elf import read_elf
from rvcore._errors import LoadError

BASE = 0x10000
RET = asm("ret")
FUNCTION = asm(
    "addi sp, sp, -16; sd ra, 8(sp); auipc a0, 0; addi a0, a0, 0; beqz a1, .+8; ld ra, 8(sp); ret; ret"
)


def ordinary_image(code_bytes, symbols, relocations):
    """Return an image of many small functions, half of them local."""
    count = code_bytes // len(FUNCTION)
    places = [BASE + index % count * len(FUNCTION) for index in range(max(symbols, relocations))]
    names = [
        Symbol(
            f"module_{index}_function",
            places[index],
            len(FUNCTION),
            bind=STB_GLOBAL if index < count // 2 else STB_LOCAL,
        )
        for index in range(symbols)
    ]
    rows = [Relocation(places[index] + 8, R_PCREL_HI20, places[-index]) for index in range(relocations)]
    return build_elf(FUNCTION * count, symbols=names, relocations=rows)


def seconds_to_load(data):
    best = 60.0
    for _ in range(3):
        start = time.perf_counter()
        read_elf(data)
        best = min(best, time.perf_counter() - start)
    return best


def test_an_image_of_100_kb_with_10000_symbols_and_relocations_loads_in_milliseconds():
    assert seconds_to_load(ordinary_image(100 << 10, 10_000, 10_000)) < 0.1


def test_an_image_of_4_mb_loads_in_tens_of_milliseconds():
    data = ordinary_image(2 << 20, 40_000, 30_000)
    assert len(data) > 4 << 20
    assert seconds_to_load(data) < 1


def symbol(name, info, value, size):
    return struct.pack("<IBBHQQ", name, info, 0, 1, value, size)


def with_tables(symbols=bytes(24), strings=b"\0", code=RET, relocations=b""):
    sections = [
        Section(".symtab", SHT_SYMTAB, data=symbols, link=3, entsize=24),
        Section(".strtab", SHT_STRTAB, data=strings),
        Section(".rela.text", SHT_RELA, data=relocations, link=2, info=1, entsize=24),
    ]
    return build_elf(code, extra_sections=sections, symbol_table=False)


COUNT = 1 << 18
GLOBAL_FUNCTION, LOCAL_FUNCTION, GLOBAL_LABEL = 0x12, 0x02, 0x10


def scattered():
    return with_tables(
        b"".join(
            symbol(1, LOCAL_FUNCTION, BASE + 2 * (index * 7919 % COUNT), index % 99) for index in range(COUNT)
        ),
        b"\0f\0",
        asm("c.nop") * COUNT,
    )


def many_ranges():
    count = 30_000
    pieces = [(BASE + 8 * index, 4) for index in range(count)]
    rows = b"".join(
        struct.pack("<QIIq", BASE, R_64, 0, BASE + 8 * (index * 7919 % count)) for index in range(COUNT)
    )
    table = Section(".rela.x", SHT_RELA, data=rows, info=1, entsize=24)
    return build_elf(asm("c.nop") * (count * 4), code_sections=pieces, extra_sections=[table])


HOSTILE = {
    "scattered functions": scattered,
    "one very long name for all functions": lambda: with_tables(
        symbol(1, GLOBAL_FUNCTION, BASE, 4) * COUNT, b"\0" + b"f" * 65_000 + b"\0"
    ),
    "every label nearly the global pointer": lambda: with_tables(
        symbol(1, GLOBAL_LABEL, BASE, 4) * COUNT, b"\0__global_pointer" + b"f" * 65_000 + b"\0"
    ),
    "relocations of one place": lambda: with_tables(
        relocations=struct.pack("<QIIq", BASE, R_64, 0, BASE) * COUNT
    ),
    "branches everywhere": lambda: build_elf(asm("c.beqz a0, .-254; c.bnez a1, .+254") * COUNT),
    "functions into each other": lambda: with_tables(
        b"".join(symbol(1, LOCAL_FUNCTION, BASE + 2 * index, 1 << 40) for index in range(COUNT)),
        b"\0f\0",
        asm("c.j .+2046") * COUNT,
    ),
    "addresses formed everywhere": lambda: build_elf(asm("auipc a0, 0; addi a0, a0, 4") * COUNT),
    "doubtful instructions at every function": lambda: with_tables(
        b"".join(symbol(1, LOCAL_FUNCTION, BASE + 4 * index, 4) for index in range(COUNT)),
        b"\0f\0",
        asm("insn 0x80007053") * COUNT,
    ),
    "many ranges of code": many_ranges,
    "many sections": lambda: build_elf(RET, extra_sections=[Section("x" * 40) for _ in range(30_000)]),
}


@pytest.mark.parametrize("build", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_table_takes_time_in_proportion_to_its_size(build):
    """Of a quarter of a million entries: to search one table per entry of another would take minutes."""
    data = build()
    start = time.perf_counter()
    try:
        image = read_elf(data)
    except LoadError:
        pass
    else:
        image.symbols.lookup(BASE)
        image.symbols.frames(BASE, [0x8000] * 32, lambda _, size: bytes(size), lambda _: True)
    assert time.perf_counter() - start < 6
