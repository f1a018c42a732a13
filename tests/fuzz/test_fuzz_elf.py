"""The loader on files that are nearly good: it parses, or raises LoadError, in bounded time.

What parses must hold together: whoever uses an image does not check it again.
"""

import itertools
import struct
import time

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from asm import asm
from elfs import (
    EHDR_FIELDS,
    PHDR_FIELDS,
    R_64,
    SHDR_FIELDS,
    STB_LOCAL,
    STT_OBJECT,
    Relocation,
    Symbol,
    build_elf,
)
from rvcore._elf import read_elf
from rvcore._errors import LoadError
from zigimages import compile_image

BASE = 0x10000
CODE = asm("""
    f: addi sp, sp, -32; sd ra, 24(sp); beqz a0, out; jal ra, g; jr a5
    out: ld ra, 24(sp); addi sp, sp, 32; ret
    g: lui a0, 0x10; addi a0, a0, 4; ecall; unimp; .dword 0x2b57553
""")
SYMBOLS = [
    Symbol("f", BASE, 32),
    Symbol("g", BASE + 32, 24),
    Symbol("local", BASE + 8, 4, bind=STB_LOCAL),
    Symbol("table", BASE + 48, 8, type=STT_OBJECT, bind=STB_LOCAL),
    Symbol("__global_pointer$", 0x12800, 0, type=0),
]
SMALL = build_elf(
    CODE,
    symbols=SYMBOLS,
    rodata=bytes(32),
    data=bytes(16),
    bss=100,
    manifest=b"{}",
    relocations=[Relocation(0x11000, R_64, "f"), Relocation(BASE + 32, 26, BASE + 4)],
)
REAL = """
typedef long (*op)(long); static long a(long x) { return x + 1; } static long b(long x) { return x * 2; }
op volatile table[] = {a, b};
long run(long x) {
    switch (x) {
        case 0: return 3; case 1: return table[0](x); case 2: return 9; case 3: return 11;
        case 4: return table[1](x) * 7;
    }
    return -x;
}
void _start(void) { __asm__ volatile("" :: "r"(run)); __builtin_trap(); }
"""
POWERS = [1 << power for power in (0, 1, 2, 3, 4, 7, 8, 11, 12, 15, 16, 20, 31, 32, 47, 62, 63)]
NUMBERS = sorted(
    {(power + step) & ((1 << 64) - 1) for power in POWERS for step in (-1, 0, 1)}
    | {(1 << 64) - power for power in POWERS}
    | {start + step for start in (BASE, len(SMALL)) for step in range(-8, 9)}
)
SECONDS = 2  # ten times what the slowest of these takes on a busy machine


def check(data):
    """Read data; check what comes of it."""
    start = time.monotonic()
    image = refusal = None
    try:
        image = read_elf(data)
    except LoadError as error:
        refusal = error
    if image is None:
        assert str(refusal).isprintable()
    else:
        check_image(image, data)
    assert time.monotonic() - start < SECONDS
    return image


def check_image(image, data):
    """Check the promises of an ElfImage."""
    assert sum(len(segment.data) for segment in image.segments) <= len(data)
    for low, high in itertools.pairwise(image.segments):
        assert low.end <= high.vaddr
    for segment in image.segments:
        assert len(segment.data) <= segment.memsz
        assert 4096 <= segment.vaddr <= segment.end <= 1 << 64
        assert not (segment.writable and segment.executable)
    assert (image.image_start, image.image_end) == (image.segments[0].vaddr, image.segments[-1].end)
    assert image.code
    for low, high in itertools.pairwise(image.code):
        assert low.end < high.start
    for piece in image.code:
        assert piece.start % 2 == 0
        assert len(piece.data) % 2 == 0
        holder = next(s for s in image.segments if s.vaddr <= piece.start < s.end)
        assert holder.executable
        assert holder.data[piece.start - holder.vaddr :][: len(piece.data)] == piece.data
    for addresses in (image.function_addresses, image.indirect_targets, sorted(set(image.exports.values()))):
        assert list(addresses) == sorted(set(addresses))
        assert all(is_code(image, address) for address in addresses)
    assert set(image.exports.values()) <= set(image.function_addresses)
    check_symbols(image)


def is_code(image, address):
    return address % 2 == 0 and any(piece.start <= address < piece.end for piece in image.code)


def check_symbols(image):
    """Ask the questions that a trap asks, at some addresses."""
    registers = list(range(0x7000, 0x7020))

    def read(_, size):
        return b"\0\0\1" + bytes(size - 3)

    for piece in image.code[:4]:
        for address in {piece.start, piece.end - 2, piece.start + len(piece.data) // 4 * 2}:
            found = image.symbols.lookup(address)
            assert found is None or (found[0].isprintable() and found[1] >= 0)
            image.symbols.line(address)
            frames = image.symbols.frames(
                address, registers, lambda _, size: b"\0\0\1" + bytes(size - 3), is_even
            )
            assert 1 <= len(frames) <= 64
    assert all(size >= 0 and name.isprintable() for _, size, name in image.symbols.functions()[:50])
    image.section(".debug_line")
    image.section(".berm.abi")


def is_even(address):
    return address % 2 == 0


@st.composite
def edits(draw, size):
    """A few places and the bytes that go there."""
    changes = []
    for _ in range(draw(st.integers(1, 5))):
        place = draw(st.integers(0, size - 1))
        width = draw(st.sampled_from([1, 2, 4, 8]))
        place -= place % width if draw(st.booleans()) else 0
        value = draw(st.sampled_from(NUMBERS) | st.integers(0, (1 << 64) - 1))
        changes.append((place, (value & ((1 << 8 * width) - 1)).to_bytes(width, "little")))
    return changes


def edited(data, changes):
    out = bytearray(data)
    for place, raw in changes:
        out[place : place + len(raw)] = raw
    return bytes(out)


@pytest.fixture(scope="module")
def real_image():
    return compile_image(REAL, options="-O1 -gdwarf-5")


def test_the_seeds_are_good(real_image):
    assert check(SMALL).exports.keys() == {"f", "g"}
    assert "run" in check(real_image).exports


@pytest.mark.core
@given(edits(len(SMALL)))
@settings(deadline=None, max_examples=200)
def test_a_small_image_with_wrong_bytes_parses_or_is_refused(changes):
    check(edited(SMALL, changes))


@given(st.data())
@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_real_image_with_wrong_bytes_parses_or_is_refused(real_image, data):
    check(edited(real_image, data.draw(edits(len(real_image)))))


FIELD = st.sampled_from(NUMBERS) | st.integers(0, (1 << 64) - 1)
WIDE = {"e_entry", "e_phoff", "e_shoff", "p_offset", "p_vaddr", "p_paddr", "p_filesz", "p_memsz", "p_align"}
WIDE |= {"sh_flags", "sh_addr", "sh_offset", "sh_size", "sh_addralign", "sh_entsize"}
NARROW = set(EHDR_FIELDS) - WIDE - {"e_version", "e_flags"}


def fitting(fields):
    """Cut each value to the width of its field."""
    cut = {}
    for name, value in fields.items():
        width = 8 if name in WIDE else 2 if name in NARROW else 4
        cut[name] = value & ((1 << 8 * width) - 1)
    return cut


SECTION_NAMES = [".text", ".rodata", ".data", ".symtab", ".strtab", ".rela.text", ".shstrtab"]


@pytest.mark.core
@given(
    header=st.dictionaries(st.sampled_from(EHDR_FIELDS[1:]), FIELD, max_size=2),
    segments=st.dictionaries(
        st.sampled_from([".text", ".rodata", ".data"]),
        st.dictionaries(st.sampled_from(PHDR_FIELDS), FIELD, max_size=2),
        max_size=2,
    ),
    sections=st.dictionaries(
        st.sampled_from(SECTION_NAMES),
        st.dictionaries(st.sampled_from(SHDR_FIELDS), FIELD, max_size=2),
        max_size=3,
    ),
    symbols=st.lists(
        st.builds(
            Symbol,
            st.sampled_from(["f", "s", "$d", "__global_pointer$"]),
            FIELD,
            FIELD,
            type=st.integers(0, 15),
            bind=st.integers(0, 15),
            section=st.sampled_from([0, 1, 2, 0xFFF1]) | st.integers(0, 65535),
        ),
        max_size=3,
    ),
    relocations=st.lists(st.tuples(FIELD, st.integers(0, 70), FIELD, st.integers(0, 12)), max_size=4),
)
@settings(deadline=None, max_examples=200)
@example(header={"e_shnum": 0}, segments={}, sections={}, symbols=[], relocations=[])
def test_an_image_with_wrong_fields_parses_or_is_refused(header, segments, sections, symbols, relocations):
    places = [
        Relocation(place, kind, symbol=symbol, addend=struct.unpack("<q", struct.pack("<Q", addend))[0] >> 1)
        for place, kind, addend, symbol in relocations
    ]
    check(
        build_elf(
            CODE,
            symbols=[*SYMBOLS, *symbols],
            rodata=bytes(32),
            data=bytes(16),
            relocations=places,
            header=fitting(header),
            segment_fields={name: fitting(fields) for name, fields in segments.items()},
            section_fields={name: fitting(fields) for name, fields in sections.items()},
        )
    )


@given(st.integers(0, len(SMALL)), st.binary(max_size=64))
@settings(deadline=None)
def test_a_cut_or_lengthened_image_parses_or_is_refused(size, more):
    check(SMALL[:size] + more)


@given(st.binary(max_size=2000))
@settings(deadline=None)
def test_noise_behind_a_good_header_parses_or_is_refused(noise):
    check(SMALL[:64] + noise)


@given(st.binary(min_size=2, max_size=600))
@settings(deadline=None)
def test_noise_as_code_parses_or_is_refused(noise):
    code = noise[: len(noise) & ~1]
    check(build_elf(code, symbols={"f": (BASE, len(code)), "g": (BASE + len(code) // 4 * 2, 0)}))


@pytest.mark.soak
@given(st.data())
@settings(deadline=None, max_examples=20_000, suppress_health_check=list(HealthCheck))
def test_many_wrong_bytes(real_image, data):
    seed = data.draw(st.sampled_from([SMALL, real_image]))
    check(edited(seed, data.draw(edits(len(seed)))))
