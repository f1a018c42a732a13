"""Images that load: what the loader makes of them, on synthetic files and on what zig builds."""

import struct
from array import array

import pytest

from asm import asm, assemble
from elfs import (
    PF_R,
    PF_X,
    R_64,
    R_ADD32,
    R_CALL,
    R_CALL_PLT,
    R_GOT_HI20,
    R_HI20,
    R_PCREL_HI20,
    R_PCREL_LO12_I,
    R_RELAX,
    R_RVC_LUI,
    R_SET32,
    R_SUB32,
    SHF_ALLOC,
    SHT_RELA,
    STB_LOCAL,
    STB_WEAK,
    STT_NOTYPE,
    STT_OBJECT,
    Relocation,
    Section,
    Segment,
    Symbol,
    build_elf,
)
from rvcore._elf import ElfImage, read_elf
from zigimages import compile_image

BASE = 0x10000
RET = asm("ret")

pytestmark = pytest.mark.core


def test_one_function_is_an_image():
    image = read_elf(build_elf(RET, symbols={"f": (BASE, 4)}))
    assert isinstance(image, ElfImage)
    assert image.exports == {"f": BASE}
    assert image.entry == BASE
    assert image.flags == 1
    assert image.has_relocations
    assert image.global_pointer is None
    assert (image.image_start, image.image_end) == (BASE, BASE + 4)
    assert image.function_addresses == array("Q", [BASE])
    assert image.indirect_targets == array("Q")
    assert [(piece.start, piece.data, piece.end) for piece in image.code] == [(BASE, RET, BASE + 4)]


def test_any_buffer_is_read_and_nothing_else():
    data = build_elf(RET)
    assert read_elf(bytearray(data)).exports == read_elf(memoryview(data)).exports == {"_start": BASE}
    for wrong in ("text", 5, None):
        with pytest.raises(TypeError):
            read_elf(wrong)


def test_segments_come_by_address_with_their_rights():
    image = read_elf(
        build_elf(RET, rodata=b"ro", data=b"data", bss=100, data_addr=0x9000, rodata_addr=0x20000)
    )
    facts = [(s.vaddr, s.memsz, s.data, s.readable, s.writable, s.executable) for s in image.segments]
    assert facts == [
        (0x9000, 104, b"data", True, True, False),
        (0x10000, 4, RET, True, False, True),
        (0x20000, 2, b"ro", True, False, False),
    ]
    assert (image.image_start, image.image_end) == (0x9000, 0x20002)
    assert [segment.end for segment in image.segments] == [0x9000 + 104, 0x10004, 0x20002]


def test_segments_that_load_nothing_are_passed_over():
    others = [
        Segment(None, PF_R, 0x50000, memsz=0),
        Segment(None, PF_R, 0, memsz=1 << 40, type=0x6474E551),
        Segment(".text", PF_R | PF_X, 0x10000, type=0x70000003),
    ]
    assert len(read_elf(build_elf(RET, extra_segments=others)).segments) == 1


def test_a_section_is_found_by_name():
    manifest = b'{"abi_version": 0}'
    extra = [Section(".note", data=b"first"), Section(".note", data=b"second"), Section(".empty")]
    image = read_elf(build_elf(RET, manifest=manifest, bss=8, extra_sections=extra))
    assert image.section(".berm.abi") == manifest
    assert image.section(".text") == RET
    assert image.section(".empty") == b""
    assert image.section(".bss") is None
    assert image.section(".missing") is None


def test_exports_are_global_and_weak_functions():
    symbols = [
        Symbol("shown", BASE, 4),
        Symbol("weak", BASE + 4, 4, bind=STB_WEAK),
        Symbol("hidden", BASE + 8, 4, bind=STB_LOCAL),
        Symbol("label", BASE, 0, type=STT_NOTYPE),
        Symbol("table", BASE + 12, 4, type=STT_OBJECT),
        Symbol("absent", 0, 0, bind=STB_WEAK, section=0),
    ]
    image = read_elf(build_elf(RET * 4, symbols=symbols))
    assert image.exports == {"shown": BASE, "weak": BASE + 4}
    assert list(image.function_addresses) == [BASE, BASE + 4, BASE + 8]


def test_two_names_of_one_function_are_both_exported():
    image = read_elf(build_elf(RET, symbols={"a": (BASE, 4), "b": (BASE, 4)}))
    assert image.exports == {"a": BASE, "b": BASE}
    assert list(image.function_addresses) == [BASE]


def test_a_function_without_code_at_the_very_end_is_no_export():
    image = read_elf(build_elf(RET, symbols={"f": (BASE, 4), "unreachable": (BASE + 4, 0)}))
    assert image.exports == {"f": BASE}


def test_a_name_that_is_not_utf8_is_kept_readable():
    symbols = [Symbol("ab", BASE, 4)]
    data = build_elf(RET, symbols=symbols).replace(b"\0ab\0", b"\0a\xff\0")
    assert read_elf(data).exports == {"a\\xff": BASE}


def test_the_global_pointer_is_found():
    symbols = [Symbol("_start", BASE, 4), Symbol("__global_pointer$", 0x12800, type=STT_NOTYPE)]
    assert read_elf(build_elf(RET, symbols=symbols)).global_pointer == 0x12800
    symbols[1].bind = STB_LOCAL
    assert read_elf(build_elf(RET, symbols=symbols)).global_pointer is None


def test_sections_that_touch_are_one_range_of_code():
    pieces = [(BASE, 4), (BASE + 4, 8), (BASE + 16, 4)]
    image = read_elf(build_elf(RET * 5, code_sections=pieces))
    assert [(piece.start, len(piece.data)) for piece in image.code] == [(BASE, 12), (BASE + 16, 4)]


def test_read_only_data_in_an_executable_segment_is_no_code():
    """GNU ld puts .rodata into the RX segment."""
    image = read_elf(build_elf(RET * 4, symbols={"f": (BASE + 8, 8)}, code_sections=[(BASE + 8, 8)]))
    assert [(piece.start, len(piece.data)) for piece in image.code] == [(BASE + 8, 8)]
    assert len(image.segments[0].data) == 16


def test_without_a_section_table_the_executable_segments_are_code():
    data = build_elf(RET, section_table=False, rodata=b"data")
    image = read_elf(data, require_relocations=False)
    assert [(piece.start, piece.data) for piece in image.code] == [(BASE, RET)]
    assert image.exports == {}
    assert image.section(".text") is None
    assert not image.has_relocations


def test_a_foreign_image_may_do_without_relocations_when_asked():
    image = read_elf(build_elf(RET, relocations=None), require_relocations=False)
    assert not image.has_relocations
    assert image.exports == {"_start": BASE}


def test_an_odd_last_byte_of_a_segment_is_no_code():
    image = read_elf(build_elf(RET + b"\1", section_table=False), require_relocations=False)
    assert image.code[0].data == RET


TARGETS = {
    "R_RISCV_32": 1,
    "R_RISCV_64": R_64,
    "R_RISCV_GOT_HI20": R_GOT_HI20,
    "R_RISCV_PCREL_HI20": R_PCREL_HI20,
    "R_RISCV_HI20": R_HI20,
    "R_RISCV_RVC_LUI": R_RVC_LUI,
    "R_RISCV_ADD8": 33,
    "R_RISCV_ADD16": 34,
    "R_RISCV_ADD32": R_ADD32,
    "R_RISCV_ADD64": 36,
    "R_RISCV_SET8": 54,
    "R_RISCV_SET16": 55,
    "R_RISCV_SET32": R_SET32,
    "R_RISCV_32_PCREL": 57,
}
NO_TARGETS = {
    "R_RISCV_NONE": 0,
    "R_RISCV_BRANCH": 16,
    "R_RISCV_JAL": 17,
    "R_RISCV_CALL": R_CALL,
    "R_RISCV_CALL_PLT": R_CALL_PLT,
    "R_RISCV_PCREL_LO12_I": R_PCREL_LO12_I,
    "R_RISCV_PCREL_LO12_S": 25,
    "R_RISCV_LO12_I": 27,
    "R_RISCV_LO12_S": 28,
    "R_RISCV_SUB8": 37,
    "R_RISCV_SUB16": 38,
    "R_RISCV_SUB32": R_SUB32,
    "R_RISCV_SUB64": 40,
    "R_RISCV_ALIGN": 43,
    "R_RISCV_RELAX": R_RELAX,
    "R_RISCV_SUB6": 52,
    "R_RISCV_SET6": 53,
    "unknown": 0x1234,
}


@pytest.mark.parametrize("kind", TARGETS.values(), ids=TARGETS)
def test_a_relocation_of_this_type_names_a_legal_target(kind):
    image = read_elf(build_elf(RET * 3, relocations=[(BASE, kind, BASE + 8)]))
    assert list(image.indirect_targets) == [BASE + 8]


@pytest.mark.parametrize("kind", NO_TARGETS.values(), ids=NO_TARGETS)
def test_a_relocation_of_this_type_names_no_target(kind):
    image = read_elf(build_elf(RET * 3, relocations=[(BASE, kind, BASE + 8)]))
    assert list(image.indirect_targets) == []
    assert image.has_relocations


def test_a_target_is_symbol_plus_addend():
    symbols = [Symbol("f", BASE + 4, 8, bind=STB_LOCAL), Symbol("_start", BASE, 12)]
    places = [Relocation(0x11000, R_64, "f", addend=4), Relocation(0x11008, R_64, "f", addend=-4)]
    image = read_elf(build_elf(RET * 3, symbols=symbols, rodata=bytes(16), relocations=places))
    assert list(image.indirect_targets) == [BASE, BASE + 8]


def test_targets_outside_code_or_odd_are_left_out():
    places = [
        (0x11000, R_64, target) for target in (BASE - 2, BASE + 1, BASE + 12, 0x11000, 0, (1 << 63) - 2)
    ]
    image = read_elf(build_elf(RET * 3, rodata=bytes(64), relocations=places))
    assert list(image.indirect_targets) == []


def test_targets_are_ascending_and_unique():
    places = [(0x11000, R_64, BASE + at) for at in (8, 0, 8, 4, 0)]
    image = read_elf(build_elf(RET * 3, rodata=bytes(64), relocations=places))
    assert image.indirect_targets == array("Q", [BASE, BASE + 4, BASE + 8])


def test_targets_in_a_second_range_of_code_are_found():
    pieces = [(BASE, 4), (BASE + 0x100, 8), (BASE + 0x200, 4)]
    places = [(BASE, R_64, BASE + at) for at in (0, 4, 0xFE, 0x100, 0x106, 0x108, 0x200, 0x204)]
    image = read_elf(build_elf(RET * 0x81, relocations=places, code_sections=pieces))
    assert list(image.indirect_targets) == [BASE, BASE + 0x100, BASE + 0x106, BASE + 0x200]


def _with_rela(name, flags, *, info=None):
    """Return an image with a table for one more section, naming BASE + 4."""

    row = struct.pack("<QIIq", 0x20000, R_64, 1, 4)
    target = Section(name, flags=flags, data=bytes(8))
    table = Section(".rela" + name, SHT_RELA, data=row, info=2 if info is None else info, entsize=24)
    return build_elf(RET * 2, extra_sections=[target, table])


def test_only_tables_for_what_is_loaded_count():
    assert list(read_elf(_with_rela(".data.rel.ro", SHF_ALLOC)).indirect_targets) == [BASE + 4]
    assert list(read_elf(_with_rela(".debug_info", 0)).indirect_targets) == []
    assert list(read_elf(_with_rela(".eh_frame", SHF_ALLOC)).indirect_targets) == []


def test_a_table_for_a_section_that_is_not_there_is_passed_over():
    assert list(read_elf(_with_rela(".x", SHF_ALLOC, info=99)).indirect_targets) == []


def test_the_table_that_gnu_ld_leaves_behind_is_accepted_and_is_no_relocation():
    """`.rela.dyn` for no section, with one R_RISCV_NONE."""
    table = Section(".rela.dyn", SHT_RELA, SHF_ALLOC, data=bytes(24), entsize=24)
    assert read_elf(build_elf(RET, extra_sections=[table])).has_relocations
    image = read_elf(build_elf(RET, extra_sections=[table], relocations=None), require_relocations=False)
    assert not image.has_relocations


def _image_forming(text):
    """Return an image with f at BASE + 30, behind code that may form its address."""
    code = asm(text)
    code += asm("c.nop") * ((30 - len(code)) // 2) + RET
    return read_elf(build_elf(code, symbols={"_start": (BASE, 30), "f": (BASE + 30, 4)}))


FORMED = {
    "auipc+addi": "auipc a0, 0; addi a0, a0, 30",
    "auipc+addi, other register": "auipc a0, 0; addi a1, a0, 30",
    "auipc and addi apart": "auipc a0, 0; li a3, 1; add a4, a4, a3; addi a1, a0, 30",
    "auipc twice": "auipc a0, 1; auipc a0, 0; addi a1, a0, 26",
    "auipc backwards": "auipc a0, 1; addi a1, a0, -2000; addi a1, a1, -2048; addi a1, a1, -18",
    "lui+addi": "lui a0, 0x10; addi a0, a0, 30",
    "c.lui+addi": "c.lui a0, 0x10; addi a0, a0, 30",
    "lui+c.addi": "lui a0, 0x10; c.addi a0, 30",
}


@pytest.mark.parametrize("text", FORMED.values(), ids=FORMED)
def test_an_address_that_code_forms_is_a_target(text):
    """Images assembled without relaxation carry no relocation there."""
    assert list(_image_forming(text).indirect_targets) == [BASE + 30]


NOT_FORMED = {
    "no function there": "auipc a0, 0; addi a0, a0, 28",
    "overwritten between": "auipc a0, 0; li a0, 0; addi a0, a0, 30",
    "overwritten between, compressed": "auipc a0, 0; c.li a0, 0; addi a0, a0, 30",
    "loaded between": "auipc a0, 0; ld a0, 0(a0); addi a0, a0, 30",
    "another register": "auipc a1, 0; addi a0, a0, 30",
    "not addi": "auipc a0, 0; xori a0, a0, 30",
    "a direct call": "auipc ra, 0; jalr ra, 30(ra)",
}


@pytest.mark.parametrize("text", NOT_FORMED.values(), ids=NOT_FORMED)
def test_other_code_makes_no_target(text):
    assert list(_image_forming(text).indirect_targets) == []


def test_registers_do_not_carry_from_one_function_into_the_next():
    code = asm("auipc a0, 0; ret; addi a0, a0, 12; ret")
    symbols = {"f": (BASE, 8), "g": (BASE + 8, 4), "h": (BASE + 12, 4)}
    assert list(read_elf(build_elf(code, symbols=symbols)).indirect_targets) == []


def test_require_functions_accepts_what_is_a_function():
    image = read_elf(build_elf(RET, symbols={"tool_a": (BASE, 4)}))
    image.require_functions(lambda name: name.startswith("tool_"))


SOURCE = """
typedef int (*operation)(int);
static int one(int x) { return x + 1; }
static int two(int x) { return x * 2; }
static int never(int x) { return x - 7; }
operation volatile table[] = {one, two};
__attribute__((noinline)) int direct(int x) { return never(x) + x; }
static int through(operation f, int x) { return f(x); }
__attribute__((noinline)) static int given(int x) { return x ^ 99; }
__attribute__((noinline)) int pick(int x, int y) {
    switch (x) {
        case 0: return direct(y); case 1: return y * 3; case 2: return table[1](y) + 1;
        case 3: return -y; case 4: return y << 3; case 5: return direct(y) * 5; case 6: return y ^ 77;
    }
    __builtin_trap();
}
operation volatile chosen;
int run(int x) { chosen = given; return pick(x, table[x & 1](x)) + chosen(x); }
void _start(void) { __asm__ volatile("" :: "r"(run)); __builtin_trap(); }
"""
BUILDS = {
    "medany": {"model": "medany"},
    "medlow": {"model": "medlow"},
    "medany without relaxation": {"model": "medany", "cpu": "generic_rv64+m+a+c"},
    "medlow without relaxation": {"model": "medlow", "cpu": "generic_rv64+m+a+c"},
    "pic": {"options": "-O2 -fPIC"},
    "without C": {"cpu": "generic_rv64+m+a+relax"},
    "size": {"options": "-Os"},
    "unoptimised": {"options": "-O0"},
    "save-restore": {"options": "-Os -fno-inline", "cpu": "generic_rv64+m+a+c+relax"},
}


@pytest.mark.parametrize("options", BUILDS.values(), ids=BUILDS)
def test_what_zig_builds_loads_with_its_address_taken_functions(options):
    image = read_elf(compile_image(SOURCE, **options))
    assert {"run", "pick", "direct", "_start"} <= set(image.exports)
    functions = dict.fromkeys(image.function_addresses)
    names = {image.symbols.lookup(target) for target in image.indirect_targets}
    entries = {name for name, offset in names if offset == 0}
    assert {"one", "two", "given", "run"} <= entries
    assert not entries & {"direct", "pick", "never", "_start"}
    assert all(image.exports[name] in functions for name in image.exports)
    # Whatever else is a target is a label of the jump table in pick.
    assert {name for name, offset in names if offset} <= {"pick"}


def test_what_a_jump_table_names_are_the_cases():
    image = read_elf(compile_image(SOURCE))
    inside = [found for found in map(image.symbols.lookup, image.indirect_targets) if found[1]]
    assert len(inside) == 7


def test_cpp_virtual_functions_are_targets():
    source = """
    struct Shape { virtual int area(int) const = 0; };
    struct Square : Shape { int area(int x) const override { return x * x; } };
    struct Line : Shape { int area(int x) const override { return x; } };
    extern "C" void __cxa_pure_virtual() { __builtin_trap(); }
    Square square; Line line; const Shape *volatile shapes[] = {&square, &line};
    extern "C" int run(int x) { return shapes[x & 1]->area(x); }
    extern "C" void _start() { run(1); __builtin_trap(); }
    """
    image = read_elf(
        compile_image(source, language="c++", options="-O2 -fno-exceptions -fno-rtti -fno-threadsafe-statics")
    )
    entries = {image.symbols.lookup(target)[0] for target in image.indirect_targets}
    assert {"_ZNK6Square4areaEi", "_ZNK4Line4areaEi"} <= entries
    assert "run" not in entries


def test_the_test_assembler_agrees_on_labels():
    code, labels = assemble("start: j end; .zero 6; end: ret", BASE)
    assert labels == {"start": BASE, "end": BASE + 10}
    assert read_elf(build_elf(code)).code[0].data == code
