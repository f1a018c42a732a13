"""Images that are refused: each with the field, place or symbol at fault, and the remedy."""

import dataclasses
import pickle
import struct

import pytest

from asm import asm
from elfs import (
    PF_R,
    PF_W,
    PF_X,
    PT_DYNAMIC,
    PT_INTERP,
    R_64,
    SHF_ALLOC,
    SHF_EXECINSTR,
    SHF_WRITE,
    SHT_NOBITS,
    SHT_RELA,
    SHT_STRTAB,
    SHT_SYMTAB,
    STB_WEAK,
    STT_NOTYPE,
    STT_OBJECT,
    Relocation,
    Section,
    Segment,
    Symbol,
    build_elf,
)
from rvcore._elf import read_elf
from rvcore._errors import LoadError

BASE = 0x10000
RET = asm("ret")
GOOD = build_elf(RET)
TEXT_AT = GOOD.index(RET)  # behind the header and one program header
IMAC = "compile with -march=rv64imac -mabi=lp64"
STATIC = "link with -static -no-pie"

pytestmark = pytest.mark.core


@dataclasses.dataclass
class Refused:
    """How a file is made wrong, and the whole of what is said of it; problem is how the message begins."""

    problem: str
    options: dict = dataclasses.field(default_factory=dict)
    data: bytes | None = None
    field: str | None = None
    offset: int | None = None
    address: int | None = None
    symbol: str | None = None
    remedy: str | None = None


def header(field, offset, value, problem, remedy=None):
    return Refused(problem, {"header": {field: value}}, field=field, offset=offset, remedy=remedy)


def ident(at, value):
    raw = bytearray(GOOD[:16])
    raw[at] = value
    return {"header": {"e_ident": bytes(raw)}}


HEADER = {
    "empty": Refused("expected 7f 45 4c 46, the start of an ELF file, got nothing", data=b"",
        field="e_ident", offset=0),
    "text": Refused(
        "expected 7f 45 4c 46, the start of an ELF file, got 23 21 2f 62", data=b"#!/bin/sh\n",
        field="e_ident", offset=0
    ),
    "cut in the header": Refused("the file has 63 bytes, fewer than an ELF header", data=GOOD[:63],
        field="e_ident", offset=0),
    "32 bit": Refused(
        "expected EI_CLASS 2 (ELFCLASS64), got 1 (ELFCLASS32)", ident(4, 1), field="EI_CLASS", offset=4,
        remedy="build for riscv64",
    ),
    "big endian": Refused(
        "expected EI_DATA 1 (ELFDATA2LSB), got 2 (ELFDATA2MSB)", ident(5, 2), field="EI_DATA", offset=5,
        remedy="build for little-endian riscv64",
    ),
    "ident version": Refused(
        "expected EI_VERSION 1 (EV_CURRENT), got 9 (unknown)", ident(6, 9), field="EI_VERSION", offset=6
    ),
    "x86-64": header(
        "e_machine", 18, 62, "expected e_machine 243 (EM_RISCV), got 62 (EM_X86_64)", "build for riscv64"
    ),
    "object file": header(
        "e_type", 16, 1, "expected e_type 2 (ET_EXEC), got 1 (ET_REL)", "link the object into an executable"
    ),
    "shared object": header("e_type", 16, 3, "expected e_type 2 (ET_EXEC), got 3 (ET_DYN)", STATIC),
    "core file": header("e_type", 16, 4, "expected e_type 2 (ET_EXEC), got 4 (ET_CORE)"),
    "version": header("e_version", 20, 2, "expected e_version 1 (EV_CURRENT), got 2 (unknown)"),
    "single float": header("e_flags", 48, 0x3, "the image passes floats in registers (single-float ABI)",
        IMAC),
    "double float": header("e_flags", 48, 0x5, "the image passes floats in registers (double-float ABI)",
        IMAC),
    "quad float": header("e_flags", 48, 0x6, "the image passes floats in registers (quad-float ABI)", IMAC),
    "RVE": header("e_flags", 48, 0x9, "the image is built for RV64E, with 16 registers", IMAC),
    "TSO": header("e_flags", 48, 0x11, "the image needs total store ordering (Ztso)", IMAC),
    "unknown flag": header("e_flags", 48, 0x41, "e_flags has unknown bits: 0x41", IMAC),
    "program header size": header("e_phentsize", 54, 32, "expected e_phentsize 56, got 32"),
    "many program headers": header("e_phnum", 56, 0xFFFF, "e_phnum is 65535, more than 128"),
    "program headers outside": header(
        "e_phoff", 32, 1 << 63,
        f"bytes 0x8000000000000000 to 0x8000000000000038 are outside the file of {len(GOOD):#x} bytes",
        "the file may be cut short",
    ),
    "no program headers": Refused(
        "the image has no loadable segment", {"header": {"e_phnum": 0}}, field="p_type", offset=64
    ),
    "section header size": header("e_shentsize", 58, 40, "expected e_shentsize 64, got 40"),
    "no sections though a table": header("e_shnum", 60, 0, "e_shnum is 0, but e_shoff is set"),
    "extended section count": header("e_shnum", 60, 0xFF00, "e_shnum is 65280, but e_shoff is set"),
    "section table outside": header(
        "e_shoff", 40, (1 << 64) - 1, "bytes 0xffffffffffffffff to ", "the file may be cut short"
    ),
    "section names outside": header("e_shstrndx", 62, 77, "section 77 is no string table"),
    "section names of a wrong type": header("e_shstrndx", 62, 1, "section 1 is no string table"),
}  # fmt: skip


def segment(problem, field, at, *, remedy=None, address=BASE, **fields):
    return Refused(
        problem,
        {"segment_fields": {".text": fields}},
        field=field,
        offset=64 + at,
        address=address,
        remedy=remedy,
    )


RX, RW = PF_R | PF_X, PF_R | PF_W
SEGMENTS = {
    "writable and executable": segment(
        "a segment is both writable and executable", "p_flags[0]", 4, p_flags=7,
        remedy="link without -N (--omagic), and keep writable data out of executable sections",
    ),
    "more in the file than in memory": segment(
        "a segment has 0x4 bytes in the file, but 0x3 in memory", "p_memsz[0]", 40, p_memsz=3
    ),
    "wraps": segment(
        "a segment of 0x4 bytes wraps around the address space", "p_vaddr[0]", 16, p_vaddr=(1 << 64) - 3,
        address=(1 << 64) - 3,
    ),
    "wraps by its size": segment(
        "a segment of 0xffffffffffffffff bytes wraps around the address space", "p_vaddr[0]", 16,
        p_memsz=(1 << 64) - 1,
    ),
    "in the null page": segment(
        "a segment covers the null page", "p_vaddr[0]", 16, p_vaddr=0xFFE, address=0xFFE,
        remedy="link at 0x10000 or above",
    ),
    "starts past the file": segment(
        "bytes 0x10000000 to 0x10000004 are outside the file", "p_offset[0]", 8, p_offset=1 << 28,
        address=None,
        remedy="the file may be cut short",
    ),
    "ends past the file": segment(
        f"bytes {TEXT_AT:#x} to {TEXT_AT + 0x4000:#x} are outside the file", "p_offset[0]", 8,
        p_filesz=0x4000,
        p_memsz=0x4000, address=None, remedy="the file may be cut short",
    ),
    "offset wraps": segment(
        "bytes 0xfffffffffffffffe to 0x10000000000000002 are outside the file", "p_offset[0]", 8,
        p_offset=(1 << 64) - 2, address=None, remedy="the file may be cut short",
    ),
    "overlapping": Refused(
        "segments overlap: one ends at 0x10004, the next starts before it", {"data": b"x",
            "data_addr": BASE + 3},
        field="p_vaddr", address=BASE + 3,
    ),
    "overlapping in bss": Refused(
        "segments overlap: one ends at 0x10001, the next starts before it",
        {"data": b"x", "bss": 0x1000, "data_addr": BASE - 0x1000}, field="p_vaddr", address=BASE,
    ),
    "twice the same": Refused(
        "segments overlap: one ends at 0x10004, the next starts before it",
        {"extra_segments": [Segment(None, PF_R, BASE, memsz=4)]}, field="p_vaddr", address=BASE,
    ),
    "writable on a page of code": Refused(
        "a writable segment shares a page with one that is not", {"data": b"x", "data_addr": BASE + 4},
        field="p_vaddr", address=BASE + 4,
        remedy="link without -n (--nmagic), with -z max-page-size=4096 or a multiple",
    ),
    "dynamically linked": Refused(
        "the image is linked dynamically (PT_INTERP)",
        {"extra_segments": [Segment(None, PF_R, 0x20000, type=PT_INTERP)]}, field="p_type[1]", offset=120,
        remedy=STATIC,
    ),
    "with a dynamic section": Refused(
        "the image is linked dynamically (PT_DYNAMIC)",
        {"extra_segments": [Segment(None, PF_R, 0x20000, type=PT_DYNAMIC)]}, field="p_type[1]", offset=120,
        remedy=STATIC,
    ),
    "nothing executable": Refused(
        "the image has no executable code",
        {"segment_fields": {".text": {"p_flags": PF_R}},
        "section_fields": {".text": {"sh_flags": SHF_ALLOC}}},
        field="sh_flags",
    ),
}  # fmt: skip


def section(problem, **options):
    facts = {
        name: options.pop(name)
        for name in ("field", "offset", "address", "remedy", "symbol")
        if name in options
    }
    return Refused(problem, options, **facts)


CODE_FLAGS = SHF_ALLOC | SHF_EXECINSTR
SECTIONS = {
    "outside the file": section(
        "bytes 0x100000000 to 0x100000004 are outside the file",
        section_fields={".text": {"sh_offset": 1 << 32}},
        field="sh_offset[1]", remedy="the file may be cut short",
    ),
    "size wraps": section(
        f"bytes {TEXT_AT:#x} to {(1 << 64) + TEXT_AT - 1:#x} are outside the file",
        section_fields={".text": {"sh_size": (1 << 64) - 1}}, field="sh_offset[1]",
        remedy="the file may be cut short",
    ),
    "name outside": section(
        "a section's name has no end within 1024 bytes of the string table",
        section_fields={".text": {"sh_name": 1 << 31}}, field="sh_name[1]",
    ),
    "names outside": section(
        "bytes 0x7fffffff to ", section_fields={".shstrtab": {"sh_offset": 0x7FFFFFFF}}, field="sh_offset[5]",
        remedy="the file may be cut short",
    ),
    "names without an end": section(
        "a section's name has no end within 1024 bytes of the string table",
        section_fields={".shstrtab": {"sh_size": 3}}, field="sh_name[1]",
    ),
    "name too long": section(
        "a section's name has no end within 1024 bytes of the string table",
        extra_sections=[Section("x" * 1024)], field="sh_name[2]",
    ),
    "code outside segments": section(
        "code is outside the file part of every executable segment", field=".more", address=0x20000,
        extra_sections=[Section(".more", flags=CODE_FLAGS, address=0x20000, data=RET)],
    ),
    "code before segments": section(
        "code is outside the file part of every executable segment", field=".more", address=BASE - 4,
        extra_sections=[Section(".more", flags=CODE_FLAGS, address=BASE - 4, data=RET)],
    ),
    "code past its segment": section(
        "code is outside the file part of every executable segment", field=".text", address=BASE,
        section_fields={".text": {"sh_size": 8}},
    ),
    "code in bss": section(
        "code is outside the file part of every executable segment", field=".more", address=BASE + 4,
        segment_fields={".text": {"p_memsz": 64}},
        extra_sections=[Section(".more", SHT_NOBITS, CODE_FLAGS, BASE + 4, size=8)],
    ),
    "code in a writable segment": section(
        "code is outside the file part of every executable segment", field=".data", address=0x11000,
        data=RET, section_fields={".data": {"sh_flags": CODE_FLAGS | SHF_WRITE}},
    ),
    "code wraps": section(
        "code is outside the file part of every executable segment", field=".text", address=(1 << 64) - 2,
        section_fields={".text": {"sh_addr": (1 << 64) - 2}},
    ),
    "code at an odd address": section(
        "code starts or ends at an odd address", field=".text", address=BASE + 1,
        section_fields={".text": {"sh_addr": BASE + 1, "sh_size": 2}},
    ),
    "code of an odd size": section(
        "code starts or ends at an odd address", field=".text", address=BASE,
        section_fields={".text": {"sh_size": 3}},
    ),
    "code sections overlap": section(
        "executable sections overlap", field=".more", address=BASE + 2,
        extra_sections=[Section(".more", flags=CODE_FLAGS, address=BASE + 2, data=RET[2:])],
    ),
}  # fmt: skip


def table(problem, field, **fields):
    return section(problem, section_fields={".symtab": fields}, field=field)


ENTRIES = "expected entries of 24 bytes, got "
SYMTAB_AT = TEXT_AT + 8 - TEXT_AT % 8
TABLES = {
    "symbols of a wrong size": section(
        ENTRIES + "72 bytes in entries of 16", section_fields={".symtab": {"sh_entsize": 16}},
        field=".symtab",
        offset=SYMTAB_AT,
    ),
    "symbols cut": section(
        ENTRIES + "71 bytes in entries of 24", section_fields={".symtab": {"sh_size": 71}}, field=".symtab",
        offset=SYMTAB_AT,
    ),
    "symbols outside": section(
        "bytes 0x1000000000000 to 0x1000000000048 are outside the file",
        section_fields={".symtab": {"sh_offset": 1 << 48}}, field="sh_offset[2]",
        remedy="the file may be cut short",
    ),
    "symbol names missing": table("section 0 is no string table", "sh_link[2]", sh_link=0),
    "symbol names outside the table": table("section 999 is no string table", "sh_link[2]", sh_link=999),
    "two symbol tables": section(
        "the image has two symbol tables", extra_sections=[Section(".other", SHT_SYMTAB, entsize=24)],
        field="sh_type[3]",
    ),
    "symbol name outside": section(
        "st_name is outside the string table", symbols=[Symbol("f", BASE, 4, name_offset=1 << 20)],
        field=".symtab[2]", offset=SYMTAB_AT + 48,
    ),
    "symbol name without an end": section(
        "st_name has no end within 4 bytes", section_fields={".strtab": {"sh_size": 12}},
        symbols={"_start": (BASE, 4), "later": (BASE, 4)}, field=".symtab[3]", offset=SYMTAB_AT + 72,
    ),
    "symbol name too long": section(
        "st_name has no end within 65536 bytes", symbols=[Symbol("f" * 65536, BASE, 4)], field=".symtab[2]",
        offset=SYMTAB_AT + 48,
    ),
    "symbol of no section": section(
        "st_shndx is 100, but there are 6 sections", symbols=[Symbol("f", BASE, 4, section=100)],
        field=".symtab[2]", offset=SYMTAB_AT + 48,
    ),
    "relocations of a wrong size": section(
        ENTRIES + "0 bytes in entries of 12", section_fields={".rela.text": {"sh_entsize": 12}},
        field=".rela.text",
        offset=SYMTAB_AT + 72 + 8,
    ),
    "relocations without a symbol table": section(
        "section 1 is no symbol table", section_fields={".rela.text": {"sh_link": 1}}, field="sh_link[4]"
    ),
    "relocation of no symbol": section(
        "r_info names symbol 3, but there are 3", relocations=[Relocation(BASE, R_64, BASE, symbol=3)],
        field=".rela.text[0]", offset=SYMTAB_AT + 72 + 8,
    ),
    "relocation of symbol -1": section(
        "r_info names symbol 4294967295, but there are 3",
        relocations=[Relocation(BASE, 0), Relocation(BASE, R_64, BASE, symbol=0xFFFFFFFF)],
        field=".rela.text[1]", offset=SYMTAB_AT + 72 + 8 + 24,
    ),
    "relative relocation": section(
        "relocation type 3 needs a dynamic loader", relocations=[(BASE, 3, BASE)], field=".rela.text[0]",
        offset=SYMTAB_AT + 72 + 8, remedy="link with -static -no-pie, without ifuncs",
    ),
    "ifunc": section(
        "relocation type 58 needs a dynamic loader", field=".rela.iplt[0]", offset=SYMTAB_AT,
        remedy="link with -static -no-pie, without ifuncs",
        extra_sections=[Section(".rela.iplt", SHT_RELA, SHF_ALLOC, data=bytes(8) + b"\x3a" + bytes(15),
        entsize=24)],
    ),
    "relocations without addends": section(
        "only relocations of type SHT_RELA are read", field=".rel.text", remedy="assemble without --crel",
        extra_sections=[Section(".rel.text", 9, info=1, entsize=16)],
    ),
    "compact relocations": section(
        "only relocations of type SHT_RELA are read", field=".crel.text", remedy="assemble without --crel",
        extra_sections=[Section(".crel.text", 0x40000014, info=1, entsize=1)],
    ),
    "no relocations": section(
        "the image has no relocations for its code", relocations=None, field=".rela.text",
        remedy="link with --emit-relocs, and strip with `objcopy --strip-debug`, which keeps them",
    ),
    "stripped": section(
        "the image has no relocations for its code", symbol_table=False, field=".rela.text",
        remedy="link with --emit-relocs, and strip with `objcopy --strip-debug`, which keeps them",
    ),
    "no section table": section(
        "the image has no relocations for its code", section_table=False, field=".rela.text",
        remedy="link with --emit-relocs, and strip with `objcopy --strip-debug`, which keeps them",
    ),
}  # fmt: skip


def function(problem, value, **fields):
    entry = Symbol("berm_tool_x", value, **fields)
    return section(problem, symbols=[entry], field="st_value", address=value, symbol="berm_tool_x")


EXPORTS = {
    "undefined": function("a global function is undefined", 0, section=0),
    "outside code": function("a global function is outside code", 0x40000, size=4),
    "at the end of code": function("a global function is outside code", BASE + 4, size=4),
    "absolute": function("a global function is outside code", 0x40, section=0xFFF1),
    "odd": function("a global function is misaligned", BASE + 1, size=2),
    "in data": section(
        "a global function is outside code", data=b"data", symbols=[Symbol("berm_tool_x", 0x11000, 4)],
        field="st_value", address=0x11000, symbol="berm_tool_x",
    ),
    "weak and outside code": function("a global function is outside code", 0x40000, size=4, bind=STB_WEAK),
    "defined twice": Refused(
        "a global function is defined twice",
        {"code": RET * 2, "symbols": [Symbol("f", BASE, 4), Symbol("f", BASE + 4, 4)]}, address=BASE + 4,
        symbol="f",
    ),
}  # fmt: skip

ALL = {
    f"{group}: {name}": case
    for group, cases in {
        "header": HEADER,
        "segments": SEGMENTS,
        "sections": SECTIONS,
        "tables": TABLES,
        "exports": EXPORTS,
    }.items()
    for name, case in cases.items()
}


def build(case):
    options = dict(case.options)
    return build_elf(options.pop("code", RET), **options) if case.data is None else case.data


@pytest.mark.parametrize("case", ALL.values(), ids=ALL)
def test_this_file_is_refused_for_its_own_reason(case):
    with pytest.raises(LoadError) as caught:
        read_elf(build(case))
    error = caught.value
    assert error.problem.startswith(case.problem), error.problem
    assert (error.field, error.address, error.symbol, error.remedy) == (
        case.field,
        case.address,
        case.symbol,
        case.remedy,
    )
    if case.offset is not None:
        assert error.offset == case.offset


@pytest.mark.parametrize("case", ALL.values(), ids=ALL)
def test_what_is_said_is_one_printable_line_with_the_remedy_at_its_end(case):
    with pytest.raises(LoadError) as caught:
        read_elf(build(case))
    text = str(caught.value)
    assert text.isprintable()
    assert text.startswith(caught.value.problem)
    assert not text.endswith(".")
    assert text.endswith(caught.value.remedy or "")


def test_a_message_is_made_of_its_facts():
    error = LoadError("it is wrong", symbol="f", field="p_x", address=16, offset=32, remedy="make it right")
    assert str(error) == "it is wrong - at symbol `f`, `p_x`, address 0x10, file offset 0x20; make it right"
    assert str(LoadError("it is wrong")) == "it is wrong"


def test_a_message_does_not_repeat_control_characters_of_the_file():
    symbols = [Symbol("\x1b[2Jevil\n", 0x40000, 4)]
    with pytest.raises(LoadError) as caught:
        read_elf(build_elf(RET, symbols=symbols))
    assert caught.value.symbol == "\x1b[2Jevil\n"
    assert "symbol `\\x1b[2Jevil\\n`" in str(caught.value)


def test_a_refusal_can_be_pickled():
    with pytest.raises(LoadError) as caught:
        read_elf(b"")
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.__dict__) == (str(caught.value), caught.value.__dict__)


@pytest.mark.parametrize(
    "symbol",
    [
        Symbol("berm_tool_x", 0x11000, 4, type=STT_OBJECT),
        Symbol("berm_tool_x", BASE, 0, type=STT_NOTYPE),
        Symbol("berm_tool_x", 0, 0, type=STT_NOTYPE, section=0),
        Symbol("berm_tool_x", 0, 0, type=STT_NOTYPE, section=0, bind=STB_WEAK),
    ],
    ids=["data", "a label", "undefined", "weak and undefined"],
)
def test_a_global_of_an_export_name_must_be_a_function(symbol):
    image = read_elf(build_elf(RET, data=b"data", symbols=[Symbol("_start", BASE, 4), symbol]))
    image.require_functions(lambda name: name == "other")
    with pytest.raises(LoadError, match="an export is no function that the image defines") as caught:
        image.require_functions(lambda name: name.startswith("berm_tool_"))
    assert caught.value.symbol == "berm_tool_x"
    assert caught.value.address == symbol.value
    assert "@function" in caught.value.remedy


def test_a_file_larger_than_the_bound_is_refused_before_it_is_read(monkeypatch):
    monkeypatch.setattr("rvcore._header.MAX_FILE_BYTES", 100)
    with pytest.raises(LoadError, match=f"the file has {len(GOOD)} bytes, more than the 100 that are read"):
        read_elf(GOOD)


def test_segments_that_multiply_the_file_are_refused():
    """128 segments over the same bytes would copy the file 128 times."""
    copies = [Segment(".blob", PF_R, 0x100000 * (index + 1)) for index in range(3)]
    blob = Section(".blob", data=bytes(1000))
    read_elf(build_elf(RET, extra_sections=[blob], extra_segments=copies[:1]))
    with pytest.raises(LoadError, match="segments share bytes of the file") as caught:
        read_elf(build_elf(RET, extra_sections=[blob], extra_segments=copies))
    assert caught.value.field == "p_filesz[2]"


def test_relocation_tables_that_multiply_the_file_are_refused():
    """65,000 headers over the same table would read each of its entries 65,000 times."""
    rows = struct.pack("<QIIq", BASE, R_64, 0, BASE) * 100
    table = Section(".rela.once", SHT_RELA, data=rows, info=1, entsize=24)
    alone = build_elf(RET, extra_sections=[table])
    read_elf(alone)
    again = dataclasses.replace(
        table, name=".rela.again", data=b"", size=len(rows), fields={"sh_offset": alone.index(rows)}
    )
    with pytest.raises(LoadError, match="relocation tables share bytes of the file") as caught:
        read_elf(build_elf(RET, extra_sections=[table, again, again, again]))
    assert caught.value.field == ".rela.again"


def test_more_global_functions_than_the_bound_are_refused():
    count = (1 << 18) + 1
    names = bytearray(b"\0")
    rows = bytearray(24)

    for index in range(count):
        rows += struct.pack("<IBBHQQ", len(names), 0x12, 0, 1, BASE, 4)
        names += b"%x\0" % index
    sections = [
        Section(".symtab", SHT_SYMTAB, data=bytes(rows), link=3, entsize=24),
        Section(".strtab", SHT_STRTAB, data=bytes(names)),
    ]
    with pytest.raises(LoadError, match="more than 262144 global functions") as caught:
        read_elf(build_elf(RET, extra_sections=sections, symbol_table=False))
    assert caught.value.field == ".symtab[262145]"
