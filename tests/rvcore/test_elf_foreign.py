"""Code beyond RV64IMAC: refused where a function can reach it, and only there."""

import pytest

from asm import asm, word
from elfs import R_64, R_PCREL_HI20, STB_LOCAL, STT_NOTYPE, STT_OBJECT, Symbol, build_elf
from rvcore._elf import read_elf
from rvcore._errors import LoadError
from zigimages import compile_image

BASE = 0x10000
FADD = "insn 0x02b57553"  # fadd.d fa0, fa0, fa1
IMAC = "compile with -march=rv64imac -mabi=lp64"

pytestmark = pytest.mark.core

# What each extension's instruction is called, and which extension it is said to be of.
FOREIGN = {
    "F load": (0x00052507, "flw fa0, 0(a0)", "F"),
    "D load": (0x00053507, "fld fa0, 0(a0)", "D"),
    "D store": (0x00A53427, "fsd fa0, 8(a0)", "D"),
    "F add": (0x00B57553, "fadd.s fa0, fa0, fa1", "F"),
    "D add": (0x02B57553, "fadd.d fa0, fa0, fa1", "D"),
    "Q add": (0x06B57553, "fadd.q fa0, fa0, fa1", "Q"),
    "Zfh add": (0x04B57553, "fadd.h fa0, fa0, fa1", "Zfh"),
    "D fused": (0x62B57543, "fmadd.d fa0, fa0, fa1, fa2", "D"),
    "D compare": (0xA2B52553, "feq.d a0, fa0, fa1", "D"),
    "D convert": (0xC2251553, "fcvt.l.d a0, fa0, rtz", "D"),
    "D move": (0xE2050553, "fmv.x.d a0, fa0", "D"),
    "D compressed load": (0x2108, "fld fa0, 0(a0)", "D"),
    "D compressed store": (0xA108, "fsd fa0, 0(a0)", "D"),
    "D compressed load from the stack": (0x2502, "fld fa0, 0(sp)", "D"),
    "D compressed store to the stack": (0xA02A, "fsd fa0, 0(sp)", "D"),
    "Zba": (0x20B52533, "sh1add a0, a0, a1", "Zba"),
    "Zbb": (0x60051513, "clz a0, a0", "Zbb"),
    "Zbs": (0x28B51533, "bset a0, a0, a1", "Zbs"),
    "Zbc": (0x0AB51533, "clmul a0, a0, a1", "Zbc"),
    "Zicond": (0x0EB55533, "czero.eqz a0, a0, a1", "Zicond"),
    "Zicsr": (0x30002573, "csrr a0, mstatus", "Zicsr"),
    "Zicsr counter": (0xC0002573, "rdcycle a0", "Zicsr"),
    "Zcb": (0x9D61, "c.zext.b", "Zcb"),
    "Zacas": (0x28B5252F, "amocas.w", "Zacas"),
    "V configuration": (0x0D057557, "vsetvli", "V"),
    "V load": (0x02055407, "vle16.v", "V"),
    "V add": (0x02860457, "vadd.vv", "V"),
    "Zicboz": (0x0045200F, "cbo.zero", "Zicboz"),
}


def load(text, symbols=None, **options):
    code = asm(text)
    return read_elf(build_elf(code, symbols=symbols or {"f": (BASE, len(code))}, **options))


@pytest.mark.parametrize(("number", "text", "extension"), FOREIGN.values(), ids=FOREIGN)
def test_an_instruction_of_an_extension_is_refused_by_name(number, text, extension):
    with pytest.raises(LoadError) as caught:
        load(f"addi sp, sp, -16; insn {number:#x}; ret")
    error = caught.value
    assert error.problem == (
        f"a function uses `{text}` ({number:#x}) of the {extension} extension, outside RV64IMAC"
    )
    assert (error.symbol, error.mnemonic, error.address) == ("f", text.split()[0], BASE + 4)
    assert error.remedy == IMAC


REACHED = {
    "behind a branch": f"beqz a0, far; ret; .zero 64; far: {FADD}; ret",
    "behind a compressed branch": f"c.beqz a0, far; ret; .zero 64; far: {FADD}; ret",
    "behind a jump": f"j far; .zero 64; far: {FADD}; ret",
    "behind a compressed jump": f"c.j far; .zero 64; far: {FADD}; ret",
    "behind a backward jump": f"j there; back: {FADD}; ret; there: j back",
    "behind a call": f"jal ra, .+8; {FADD}; ret",
    "in what is called": f"jal ra, far; ret; .zero 64; far: {FADD}; ret",
    "behind an indirect call": f"jalr ra, 0(a0); {FADD}; ret",
    "behind a compressed indirect call": f"c.jalr a0; {FADD}; ret",
    "behind a host call": f"ecall; {FADD}; ret",
    "behind a loop": f"loop: addi a0, a0, -1; bnez a0, loop; {FADD}; ret",
    "behind every kind of RV64IMAC": f"""
        lui a0, 1; auipc a0, 1; lb a0, 0(a0); lhu a0, 0(a0); ld a0, 0(a0); sd a0, 0(a0); slti a0, a0, 1
        slli a0, a0, 63; srai a0, a0, 63; addiw a0, a0, 1; sraiw a0, a0, 31; slliw a0, a0, 31
        sub a0, a0, a1; sra a0, a0, a1; subw a0, a0, a1; sraw a0, a0, a1; mulhsu a0, a0, a1; remuw a0, a0, a1
        fence; fence.i; fence.tso; pause; lr.d.aqrl a0, (a1); sc.w a0, a1, (a2); amomaxu.d a0, a1, (a2)
        c.addi4spn a0, 16; c.lw a0, 0(a1); c.sd a0, 0(a1); c.addi a0, 1; c.addiw a0, 1; c.li a0, 1
        c.lui a0, 1
        c.addi16sp 16; c.srai a0, 1; c.andi a0, 1; c.sub a0, a1; c.addw a0, a1; c.slli a0, 1; c.ldsp a0, 0(sp)
        c.mv a0, a1; c.add a0, a1; c.swsp a0, 0(sp); c.nop; {FADD}; ret""",
}


@pytest.mark.parametrize("text", REACHED.values(), ids=REACHED)
def test_code_that_a_function_reaches_is_looked_at(text):
    with pytest.raises(LoadError) as caught:
        load(text)
    assert (caught.value.symbol, caught.value.mnemonic) == ("f", "fadd.d")


BESIDE = {
    "behind a return": f"ret; {FADD}",
    "behind a compressed return": f"c.jr ra; {FADD}",
    "behind a tail call": f"auipc t1, 0; jalr x0, 8(t1); {FADD}",
    "behind a jump": f"j .+8; {FADD}; ret",
    "behind unimp": f"unimp; {FADD}",
    "behind the 16-bit unimp": f"c.unimp; {FADD}",
    "behind ebreak": f"ebreak; {FADD}",
    "behind the 16-bit ebreak": f"c.ebreak; {FADD}",
    "behind an unknown encoding": f"insn 0x0000000b; {FADD}",
    "behind a reserved compressed encoding": f"insn 0x2001; {FADD}",
    "behind a privileged instruction": f"insn 0x30200073; {FADD}",
    "in the middle of an instruction": "lui a0, 0x2b575; ret",
    "as the last halfword, cut": "ret; .half 0x7553",
}


@pytest.mark.parametrize("text", BESIDE.values(), ids=BESIDE)
def test_unimp_and_data_beside_code_do_not_refuse_an_image(text):
    load(text)


def test_the_end_of_a_function_is_the_end_of_its_code():
    """A call that does not return may be a function's last instruction; constants may follow."""
    code = asm(f"jal ra, .+0; {FADD}")
    symbols = [Symbol("f", BASE, 4), Symbol("g", BASE + 4, 0, bind=STB_LOCAL, type=STT_NOTYPE)]
    read_elf(build_elf(code, symbols=symbols))


def test_a_function_of_unknown_size_ends_where_data_begins():
    code = asm(f"ecall; {FADD}")
    for data in (
        Symbol("constants", BASE + 4, 4, type=STT_OBJECT),
        Symbol("$d", BASE + 4, 0, type=STT_NOTYPE, bind=STB_LOCAL),
        Symbol("$d.12", BASE + 4, 0, type=STT_NOTYPE, bind=STB_LOCAL),
    ):
        read_elf(build_elf(code, symbols=[Symbol("f", BASE, 0), data]))
    with pytest.raises(LoadError):
        read_elf(build_elf(code, symbols=[Symbol("f", BASE, 0)]))


def test_a_function_of_unknown_size_ends_where_the_next_begins():
    """The next function is looked at for itself, and named."""
    with pytest.raises(LoadError) as caught:
        read_elf(build_elf(asm(f"ecall; {FADD}; ret"), symbols=[Symbol("f", BASE), Symbol("g", BASE + 4)]))
    assert caught.value.symbol == "g"


def test_functions_that_nobody_exports_are_looked_at_too():
    code = asm(f"ret; {FADD}; ret")
    symbols = [Symbol("f", BASE, 4), Symbol("helper", BASE + 4, 8, bind=STB_LOCAL)]
    with pytest.raises(LoadError) as caught:
        read_elf(build_elf(code, symbols=symbols))
    assert caught.value.symbol == "helper"


def test_code_that_no_function_names_is_not_looked_at():
    read_elf(build_elf(asm(f"ret; {FADD}; ret"), symbols={"f": (BASE, 4)}))


def test_the_cases_of_a_jump_table_are_looked_at():
    code = asm(f"jr a0; {FADD}; ret")
    image = {"symbols": {"f": (BASE, len(code))}, "rodata": bytes(8)}
    read_elf(build_elf(code, **image))
    with pytest.raises(LoadError) as caught:
        read_elf(build_elf(code, relocations=[(0x11000, R_64, BASE + 4)], **image))
    assert (caught.value.symbol, caught.value.address) == ("f", BASE + 4)


def test_data_whose_address_is_taken_is_not_looked_at():
    code = asm(f"ret; {FADD}; ret")
    symbols = [Symbol("f", BASE, 4), Symbol("table", BASE + 4, 8, type=STT_OBJECT, bind=STB_LOCAL)]
    for kind in (R_64, R_PCREL_HI20):
        read_elf(build_elf(code, symbols=symbols, relocations=[(BASE, kind, BASE + 4)]))


def test_an_instruction_across_two_ranges_is_none():
    fadd = word(FADD).to_bytes(4, "little")
    code = asm("c.nop") + fadd[:2] + bytes(12) + fadd[2:] + asm("ret")
    pieces = [(BASE, 4), (BASE + 16, 6)]
    read_elf(build_elf(code, symbols={"f": (BASE, 4)}, code_sections=pieces))


FLOAT = """
double half(double x);
__attribute__((noinline)) double half(double x) { return x * 0.5; }
long run(long x) { return (long)half((double)x); }
void _start(void) { __asm__ volatile("" :: "r"(run)); __builtin_trap(); }
"""
START = 'void _start(void) { __asm__ volatile("" :: "r"(run)); __builtin_trap(); }'
VECTORS = "void run(long *a, long *b) { for (int i = 0; i < 64; i++) a[i] += b[i]; }" + START
POPCOUNT = "int run(unsigned long x) { return __builtin_popcountl(x); }" + START
CYCLES = 'long run(void) { long x; __asm__ volatile("rdcycle %0" : "=r"(x)); return x; }' + START
CPUS = {
    "float registers under the soft ABI": (FLOAT, "+f+d", "D"),
    "vectors": (VECTORS, "+v", "V"),
    "bit manipulation": (POPCOUNT, "+zbb", "Zbb"),
    "a cycle counter": (CYCLES, "+zicsr", "Zicsr"),
}


@pytest.mark.parametrize(("source", "cpu", "extension"), CPUS.values(), ids=CPUS)
def test_what_zig_builds_for_more_than_imac_is_refused_by_function(source, cpu, extension):
    image = compile_image(source, cpu="generic_rv64+m+a+c+relax" + cpu, options="-O3")
    with pytest.raises(LoadError, match=f"of the {extension} extension") as caught:
        read_elf(image)
    assert caught.value.symbol in {"run", "half"}
    assert caught.value.remedy == IMAC


def test_what_zig_builds_for_the_float_abi_is_refused_for_its_flags():
    image = compile_image(FLOAT, cpu="generic_rv64+m+a+c+f+d+relax", abi="lp64d")
    with pytest.raises(LoadError, match="double-float ABI") as caught:
        read_elf(image)
    assert caught.value.field == "e_flags"
