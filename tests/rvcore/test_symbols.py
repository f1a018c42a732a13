"""Names and lines of addresses: on synthetic tables, against pyelftools, and on tables that lie."""

import io
import random
import struct
import time
import zlib

import pytest
from elftools.elf.elffile import ELFFile
from hypothesis import example, given, settings
from hypothesis import strategies as st

import rvcore
from asm import asm, assemble
from elfs import STB_LOCAL, STB_WEAK, STT_NOTYPE, STT_OBJECT, Section, Symbol, build_elf
from rvcore._elf import read_elf
from rvcore._lines import file_name, find_lines
from zigimages import LINK, compile_image

BASE = 0x10000
CODE = asm("ret") * 16

pytestmark = pytest.mark.core


def symbols_of(*symbols, code=CODE, **options):
    return read_elf(build_elf(code, symbols=symbols, **options)).symbols


def test_an_address_has_a_name_and_an_offset():
    names = symbols_of(Symbol("f", BASE, 8), Symbol("g", BASE + 8, 8))
    assert names.lookup(BASE) == ("f", 0)
    assert names.lookup(BASE + 7) == ("f", 7)
    assert names.lookup(BASE + 8) == ("g", 0)
    assert names.lookup(BASE + 15) == ("g", 7)


def test_an_address_outside_every_function_has_none():
    names = symbols_of(Symbol("f", BASE + 8, 8))
    for address in (0, BASE - 1, BASE, BASE + 7, BASE + 16, BASE + 63, BASE + 64, 1 << 63, (1 << 64) - 1):
        assert names.lookup(address) is None
        assert names.extent(address) is None


def test_a_function_without_a_size_reaches_to_the_next_or_to_the_end():
    names = symbols_of(Symbol("f", BASE), Symbol("g", BASE + 12), Symbol("h", BASE + 16, 4))
    assert names.lookup(BASE + 11) == ("f", 11)
    assert names.lookup(BASE + 15) == ("g", 3)
    assert names.lookup(BASE + 20) is None
    assert symbols_of(Symbol("f", BASE)).lookup(BASE + 63) == ("f", 63)


def test_a_size_that_runs_over_the_code_is_cut():
    names = symbols_of(Symbol("f", BASE, 1 << 63))
    assert names.lookup(BASE + 63) == ("f", 63)
    assert names.lookup(BASE + 64) is None
    assert names.functions() == [(BASE, 64, "f")]


def test_functions_do_not_reach_over_a_gap_in_the_code():
    names = symbols_of(
        Symbol("f", BASE), Symbol("g", BASE + 32, 8), code_sections=[(BASE, 8), (BASE + 32, 16)]
    )
    assert names.lookup(BASE + 7) == ("f", 7)
    assert names.lookup(BASE + 8) is None
    assert names.lookup(BASE + 40) is None


def test_a_function_around_others_names_what_they_leave():
    """The save routines of `-msave-restore` overlap: each runs into the next."""
    names = symbols_of(Symbol("outer", BASE, 32), Symbol("inner", BASE + 8, 8))
    assert names.lookup(BASE + 8) == ("inner", 0)
    assert names.lookup(BASE + 20) == ("outer", 20)
    assert names.extent(BASE + 20) == (BASE, BASE + 32)


def test_of_names_for_one_address_the_best_is_used():
    entries = [
        Symbol("label", BASE, 0, type=STT_NOTYPE),
        Symbol("local", BASE, 8, bind=STB_LOCAL),
        Symbol("weak", BASE, 8, bind=STB_WEAK),
        Symbol("global", BASE, 8),
    ]
    for count in range(1, len(entries) + 1):
        assert symbols_of(*entries[:count]).lookup(BASE) == (entries[count - 1].name, 0)
        assert symbols_of(*reversed(entries[:count])).lookup(BASE) == (entries[count - 1].name, 0)


def test_data_and_local_labels_name_no_code():
    names = symbols_of(
        Symbol("f", BASE, 64),
        Symbol(".Lpcrel_hi0", BASE + 8, 0, type=STT_NOTYPE, bind=STB_LOCAL),
        Symbol("$x", BASE + 8, 0, type=STT_NOTYPE, bind=STB_LOCAL),
        Symbol("table", BASE + 12, 4, type=STT_OBJECT),
    )
    assert names.lookup(BASE + 13) == ("f", 13)
    assert names.functions() == [(BASE, 64, "f")]


def test_functions_are_listed_by_address():
    names = symbols_of(Symbol("b", BASE + 8), Symbol("a", BASE, 4), Symbol("c", BASE + 16, 4, bind=STB_LOCAL))
    assert names.functions() == [(BASE, 4, "a"), (BASE + 8, 8, "b"), (BASE + 16, 4, "c")]


def test_a_name_is_printable_and_bounded():
    names = symbols_of(Symbol("\x1b[31mred\n", BASE, 4), Symbol("x" * 60_000, BASE + 4, 4))
    assert names.lookup(BASE) == ("\\x1b[31mred\\n", 0)
    assert len(names.lookup(BASE + 4)[0]) < 1100


def test_a_name_without_an_end_is_a_question_mark():
    """A local function's name is not read when the image loads."""
    data = build_elf(
        CODE,
        symbols=[Symbol("f", BASE, 4), Symbol("local", BASE + 4, 4, bind=STB_LOCAL)],
        section_fields={".strtab": {"sh_size": 9}},
    )
    at = data.index(b"\0local\0f\0")
    data = data[:at] + b"\0f\0local!" + data[at + 9 :]
    # The two names have changed places: `local` is now at 3 and has no zero within the table.
    rows = data.index(struct.pack("<IBBHQQ", 1, 0x02, 0, 1, BASE + 4, 4))
    data = data[:rows] + struct.pack("<I", 3) + data[rows + 4 :]
    rows = data.index(struct.pack("<IBBHQQ", 7, 0x12, 0, 1, BASE, 4))
    data = data[:rows] + struct.pack("<I", 1) + data[rows + 4 :]
    names = read_elf(data).symbols
    assert names.lookup(BASE) == ("f", 0)
    assert names.lookup(BASE + 4) == ("?", 0)


def test_a_stripped_image_has_no_names():
    image = read_elf(build_elf(CODE, symbol_table=False), require_relocations=False)
    assert image.symbols.lookup(BASE) is None
    assert image.symbols.functions() == []
    assert image.symbols.line(BASE) is None
    assert image.symbols.location(BASE) is None


@given(
    st.lists(
        st.tuples(st.integers(0, 80), st.integers(0, 80), st.sampled_from([STB_LOCAL, STB_WEAK, 1])),
        max_size=12,
    )
)
@settings(deadline=None)
def test_lookup_answers_within_what_it_says(entries):
    symbols = [Symbol("_start", BASE, 0)]
    for index, (start, size, bind) in enumerate(entries):
        address = BASE + (start & ~1 if start < 64 else 0)
        symbols.append(Symbol(f"f{index}", address, size, bind=bind))
    names = symbols_of(*symbols)
    listed = {name: (start, size) for start, size, name in names.functions()}
    for address in range(BASE - 2, BASE + 70):
        found = names.lookup(address)
        extent = names.extent(address)
        assert (found is None) == (extent is None)
        if found is not None:
            start, size = listed[found[0]]
            assert address == start + found[1]
            assert extent == (start, start + size)
            assert start <= address < start + size


SOURCE = """
static inline long square(long x) {
    return x * x;
}
volatile long sink;
__attribute__((noinline)) long loop(long n) {
    long sum = 0;
    for (long i = 0; i < n; i++) {
        sum += square(i);
        if (sum > 1000)
            sink = sum;
    }
    return sum;
}
long run(void) {
    return loop(sink) +
           loop(7);
}
void _start(void) { __asm__ volatile("" :: "r"(run)); __builtin_trap(); }
"""
FORMATS = {
    "DWARF 2": {"options": "-O1 -gdwarf-2"},
    "DWARF 3": {"options": "-O1 -gdwarf-3"},
    "DWARF 4": {"options": "-O1 -gdwarf-4"},
    "DWARF 5": {"options": "-O1 -gdwarf-5"},
    "DWARF 5, 64 bit": {"options": "-O1 -gdwarf-5 -gdwarf64"},
    "DWARF 5, without relaxation": {"options": "-O1 -gdwarf-5", "cpu": "generic_rv64+m+a+c"},
    "compressed": {
        "options": "-O1 -gdwarf-5",
        "link": LINK.replace("--emit-relocs", "--emit-relocs --compress-debug-sections=zlib"),
    },
}


def reference_lines(data):
    """Return {address: (file, line)} of every address, as pyelftools has it."""
    info = ELFFile(io.BytesIO(data)).get_dwarf_info(relocate_dwarf_sections=False)
    found = {}
    for unit in info.iter_CUs():
        program = info.line_program_for_CU(unit)
        first = 0 if program["version"] >= 5 else 1
        previous = None
        for state in [entry.state for entry in program.get_entries() if entry.state is not None]:
            if previous is not None and previous.line:
                name = program["file_entry"][previous.file - first].name.decode()
                for address in range(previous.address, state.address):
                    found.setdefault(address, (name, previous.line))
            previous = None if state.end_sequence else state
    return found


@pytest.mark.parametrize("options", FORMATS.values(), ids=FORMATS)
def test_lines_are_those_that_pyelftools_reads(options):
    data = compile_image(SOURCE, **options)
    image = read_elf(data)
    wanted = reference_lines(data)
    addresses = list(range(image.code[0].start, image.code[0].end))
    assert len({wanted[address] for address in addresses if address in wanted}) > 8
    for start in range(0, len(addresses), 64):
        part = addresses[start : start + 64]
        assert image.symbols.lines(part) == {
            address: wanted[address] for address in part if address in wanted
        }


def test_a_file_is_shown_with_its_directory():
    source = '#line 7 "lib/text.h"\nint run(int x) { return x * 3; }\n' + SOURCE.rsplit("\n", 2)[1]
    for options in ("-O1 -gdwarf-4", "-O1 -gdwarf-5"):
        image = read_elf(compile_image(source, options=options))
        assert image.symbols.location(image.exports["run"]) == "lib/text.h:7"


def test_more_than_64_addresses_are_asked_about_64_at_a_time():
    image = read_elf(compile_image(SOURCE, options="-O1 -g"))
    start = image.code[0].start
    assert set(image.symbols.lines(range(start, start + 200))) <= set(range(start, start + 64))
    assert image.symbols.lines([]) == {}


def line_section(program, *, version=4, header=b"", line_range=14, opcode_base=13, min_length=1):
    """Return one unit of a line table: file 1 is a.c, and program."""
    tables = header or b"\0a.c\0\0\0\0\0"
    fields = bytes([min_length]) + (b"\1" if version >= 4 else b"") + bytes([1, 251, line_range, opcode_base])
    body = fields + b"\0\1\1\1\1\0\0\0\1\0\0\1"[: max(opcode_base - 1, 0)] + tables
    rest = struct.pack("<H", version) + (b"\x08\0" if version >= 5 else b"")
    rest += struct.pack("<I", len(body)) + body + program
    return struct.pack("<I", len(rest)) + rest


SET_ADDRESS = b"\0\x09\2" + struct.pack("<Q", BASE)
END = b"\0\1\1"
ONE_LINE = SET_ADDRESS + b"\3\x09\1" + b"\2\x10" + END  # line 10 for 16 bytes


def image_with(section, **others):
    sections = [Section(".debug_line", data=section)]
    sections += [Section("." + name, data=data) for name, data in others.items()]
    return read_elf(build_elf(CODE, extra_sections=sections))


def test_a_line_program_by_hand():
    names = image_with(line_section(ONE_LINE)).symbols
    assert [names.location(BASE + at) for at in (0, 15, 16)] == ["a.c:10", "a.c:10", None]


@pytest.mark.parametrize("version", [2, 3, 4])
def test_opcodes_of_a_later_standard_are_passed_over(version):
    program = SET_ADDRESS + b"\3\x09" + b"\x0c\x05" + b"\6\7\x0a\x0b" + b"\5\4" + b"\1" + b"\x08\x08" + END
    # 255 - 13 over 14 is 17 bytes for each const_add_pc.
    names = image_with(line_section(program, version=version)).symbols
    assert [names.location(BASE + at) for at in (0, 33, 34)] == ["a.c:10", "a.c:10", None]


def test_a_special_opcode_moves_address_and_line():
    # Operation advance 2, line advance -5 + 8: 13 + 2 * 14 + 8.
    program = SET_ADDRESS + b"\1" + bytes([13 + 2 * 14 + 8]) + b"\x09\x20\0" + END
    names = image_with(line_section(program, min_length=2)).symbols
    assert [names.location(BASE + at) for at in (0, 3, 4, 35, 36)] == [
        "a.c:1",
        "a.c:1",
        "a.c:4",
        "a.c:4",
        None,
    ]


def unit_5(entry_format, count, entries):
    """Return the tables of a DWARF 5 unit whose two tables are alike."""
    one = bytes([len(entry_format)]) + b"".join(bytes(pair) for pair in entry_format) + count + entries
    return one + one


STRING, LINE_STRP, STRP, UDATA, DATA16, BLOCK, DATA1 = 0x08, 0x1F, 0x0E, 0x0F, 0x1E, 0x09, 0x0B
TABLES_5 = {
    "inline": (unit_5([(1, STRING)], b"\2", b"dir\0a.c\0"), "a.c:10"),
    "string sections": (unit_5([(1, LINE_STRP)], b"\2", struct.pack("<II", 0, 4)), "two:10"),
    "debug strings": (unit_5([(1, STRP)], b"\2", struct.pack("<II", 0, 6)), "six:10"),
    "with a checksum": (
        unit_5([(1, STRING), (5, DATA16)], b"\2", b"x\0" + bytes(16) + b"a.c\0" + bytes(16)), "a.c:10"
    ),
    "with a block": (unit_5([(1, STRING), (9, BLOCK)], b"\2", b"x\0\1\0a.c\0\2\0\0"), "a.c:10"),
    "in a directory": (unit_5([(1, STRING), (2, DATA1)], b"\2", b"x\0\0a.c\0\1"), "a.c/a.c:10"),
    "directory missing": (unit_5([(1, STRING), (2, UDATA)], b"\2", b"x\0\0a.c\0\x7f"), "a.c:10"),
    "string outside": (unit_5([(1, LINE_STRP)], b"\2", struct.pack("<II", 0, 1 << 31)), "?:10"),
    "too few files": (unit_5([(1, STRING)], b"\1", b"a.c\0"), "?:10"),
    "unknown form": (unit_5([(1, 0x7F)], b"\2", b"a.c\0"), "?:10"),
    "entries of no bytes": (unit_5([], b"\xff\xff\xff\xff\x0f", b""), "?:10"),
    "fields of no bytes": (unit_5([(1, 0x19)], b"\xff\xff\xff\xff\x0f", b""), "?:10"),
    "endless count": (unit_5([(1, STRING)], b"\xff" * 9 + b"\1", b"a\0" * 40), "?:10"),
    "many fields": (unit_5([(1, STRING)] * 9, b"\2", b"a\0" * 18), "?:10"),
}  # fmt: skip


@pytest.mark.parametrize(("tables", "location"), TABLES_5.values(), ids=TABLES_5)
def test_the_file_names_of_dwarf_5(tables, location):
    section = line_section(ONE_LINE, version=5, header=tables)
    names = image_with(section, debug_line_str=b"one\0two\0", debug_str=b"long_\0six\0").symbols
    assert names.location(BASE) == location


def test_a_file_name_that_would_drive_a_terminal_is_escaped():
    names = image_with(line_section(ONE_LINE, header=b"\0\x1b[2J.c\0\0\0\0\0")).symbols
    assert names.location(BASE) == "\\x1b[2J.c:10"


GOOD = line_section(ONE_LINE)
BROKEN = {
    "empty": b"",
    "cut in the length": GOOD[:3],
    "cut in the header": GOOD[:12],
    "cut in the program": GOOD[:-4],
    "length past the end": struct.pack("<I", len(GOOD)) + GOOD[4:],
    "64-bit length past the end": b"\xff\xff\xff\xff" + b"\xff" * 8 + GOOD[4:],
    "version 1": GOOD[:4] + b"\1\0" + GOOD[6:],
    "version 6": GOOD[:4] + b"\6\0" + GOOD[6:],
    "header past the end": GOOD[:6] + struct.pack("<I", 10_000) + GOOD[10:],
    "line range of zero": line_section(ONE_LINE, line_range=0),
    "opcode base of zero": line_section(ONE_LINE, opcode_base=0),
    "opcodes past the end": GOOD[:15] + b"\xff" + GOOD[16:],
    "a number without an end": line_section(SET_ADDRESS + b"\2" + b"\xff" * 100),
    "an extended opcode past the end": line_section(SET_ADDRESS + b"\0\x7f\1"),
    "an extended opcode of no bytes": line_section(SET_ADDRESS + b"\0\0"),
    "line zero": line_section(SET_ADDRESS + b"\3\x7f\1" + b"\2\x10" + END),
    "a line below zero": line_section(SET_ADDRESS + b"\3\x40\1" + b"\2\x10" + END),
    "a line past every file": line_section(SET_ADDRESS + b"\3" + b"\xff" * 4 + b"\x3f\1\2\x10" + END),
    "addresses of four bytes": GOOD[:4] + b"\5\0\4\0" + GOOD[6:],
}  # fmt: skip


@pytest.mark.parametrize("section", BROKEN.values(), ids=BROKEN)
def test_a_broken_line_table_gives_no_line_and_raises_nothing(section):
    names = image_with(section).symbols
    assert names.lines([BASE, BASE + 4]) == {}
    assert names.location(BASE) is None


def test_a_broken_unit_does_not_hide_the_next():
    wrong = line_section(ONE_LINE, line_range=0)
    assert image_with(wrong + GOOD).symbols.location(BASE) == "a.c:10"


def test_numbers_longer_than_64_bits_are_cut():
    # Advance by 2**70 + 16 in the low bits: only those count.
    program = SET_ADDRESS + b"\3\x09\1" + b"\2" + b"\x90" + b"\x80" * 9 + b"\1" + END
    assert image_with(line_section(program)).symbols.location(BASE + 15) == "a.c:10"


@given(st.binary(max_size=400), st.integers(0, 1 << 64), st.integers(0, 1 << 40))
@example(b"", (1 << 64) - 1, 0)
@example(bytes(400), 1 << 63, 0)
@settings(deadline=None)
def test_any_bytes_are_walked_without_an_error(section, offset, index):
    assert set(find_lines(section, [BASE])) <= {BASE}
    file_name(section, offset & ((1 << 64) - 1), index, section, section)


@given(st.data())
@settings(deadline=None, max_examples=200)
def test_any_change_to_a_real_table_is_walked_without_an_error(data):
    image = read_elf(compile_image(SOURCE, options="-O1 -gdwarf-5"))
    table = bytearray(image.section(".debug_line"))
    for _ in range(data.draw(st.integers(1, 8))):
        table[data.draw(st.integers(0, len(table) - 1))] = data.draw(st.integers(0, 255))
    strings = image.section(".debug_line_str")
    for unit, file, line in find_lines(bytes(table), range(BASE, BASE + 64)).values():
        assert line > 0
        name = file_name(bytes(table), unit, file, strings, strings)
        assert name is None or name


def test_a_line_table_of_the_largest_size_takes_bounded_time():
    """32 MiB of the opcodes that do least, walked once."""
    section = line_section(SET_ADDRESS + b"\1" * (8 << 20))[: 8 << 20]
    section = struct.pack("<I", len(section) - 4) + section[4:]
    names = image_with(section).symbols
    start = time.perf_counter()
    assert names.lines([BASE]) == {}
    assert time.perf_counter() - start < 10


def test_a_larger_line_table_is_not_walked():
    section = GOOD + bytes(8 << 20)
    assert image_with(section).symbols.location(BASE) is None


def compressed(data, size, kind=1):
    return struct.pack("<IIQQ", kind, 0, size, 1) + data


COMPRESSED = {
    "good": (compressed(zlib.compress(GOOD), len(GOOD)), "a.c:10"),
    "zstd": (compressed(zlib.compress(GOOD), len(GOOD), kind=2), None),
    "not zlib": (compressed(GOOD, len(GOOD)), None),
    "cut": (compressed(zlib.compress(GOOD)[:10], len(GOOD)), None),
    "no header": (b"\1\0\0\0", None),
    "a size past the bound": (compressed(zlib.compress(GOOD), 1 << 40), None),
    "more than it says": (compressed(zlib.compress(GOOD + bytes(64 << 20)), len(GOOD)), "a.c:10"),
}


@pytest.mark.parametrize(("data", "location"), COMPRESSED.values(), ids=COMPRESSED)
def test_a_compressed_line_table_is_read_as_far_as_it_says(data, location):
    section = Section(".debug_line", flags=0x800, data=data)
    names = read_elf(build_elf(CODE, extra_sections=[section])).symbols
    assert names.location(BASE) == location


def test_a_large_table_of_symbols_is_searched_quickly():
    """100,000 functions, all of them asked about."""
    source = random.Random(3)
    count = 100_000
    symbols = [Symbol("f", BASE, 4)]
    symbols += [Symbol("g", BASE + 4 * index, 4, bind=STB_LOCAL) for index in range(1, count)]
    source.shuffle(symbols)
    names = symbols_of(*symbols, code=asm("ret") * count)
    start = time.perf_counter()
    assert names.lookup(BASE + 4 * count - 2) == ("g", 2)
    assert all(names.lookup(BASE + 4 * index + 2) for index in range(0, count, 100))
    assert time.perf_counter() - start < 2


def test_a_deep_stack_of_long_functions_is_unwound_in_bounded_time() -> None:
    """A guest that traps decides how much there is to follow; the host follows a fixed part of it."""
    size, frames = 3000, 60
    body = ["addi sp, sp, -16", "sd ra, 8(sp)", *["addi a0, a0, 1"] * size]
    end = ["ld ra, 8(sp)", "addi sp, sp, 16", "ret"]
    calling, labels = assemble("\n".join([*body, "jal ra, following", *end, "following: nop"]), 0x10000)
    length = labels["following"] - 0x10000
    dying, _ = assemble("\n".join([*body, "ebreak", *end]), 0x10000)
    assert len(dying) == length  # so that each function is where the one before it calls
    code = calling[:length] * (frames - 1) + dying
    symbols = {f"f{index}": (0x10000 + index * length, length) for index in range(frames)}
    engine = rvcore.Engine()
    module = rvcore.Module(engine, build_elf(code, symbols=symbols))
    with rvcore.Store(engine) as store:
        call = rvcore.Linker(engine).instantiate(store, module).exports(store)["f0"].start(store)
        began = time.perf_counter()
        trap = call.run().trap
        took = time.perf_counter() - began
    assert trap is not None
    assert [frame.symbol for frame in trap.frames[:3]] == ["f59", "f58", "f57"]
    assert len(trap.frames) < 10
    assert took < 1
