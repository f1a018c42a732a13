"""Instruction text: against an assembler, against llvm-objdump, and against the loader's view of a word."""

import random
import re
import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asm import asm, word
from elfs import build_elf
from rvcore._compressed import expand
from rvcore._disasm import disassemble, extension_of, instruction_length
from rvcore._elf import read_elf
from rvcore._errors import LoadError
from zigimages import compile_image

PC = 0x10000

# As written for an assembler, and as shown where that differs.
TEXTS = [
    "lui a0, 16", "auipc t6, 1048575", "jal ra, 0x10100 -> jal 0x10100", "jal t0, 0x10100", "j 0xff00",
    "jalr ra, 0(a0) -> jalr a0", "jalr ra, 8(a0) -> jalr 8(a0)", "jalr t0, 4(t1)",
    "jalr t0, 0(t1) -> jalr t0, t1",
    "jr a0", "jr -4(a0)", "ret", "beq a0, a1, 0x10ffe", "bne a0, a1, 0xf000", "blt s0, s1, 0x10000",
    "bge s2, s3, 0x10004", "bltu s4, s5, 0x10008", "bgeu s6, s7, 0x10008", "beqz a0, 0x10004",
    "bnez a0, 0x10004",
    "bltz a0, 0x10004", "bgez a0, 0x10004", "blez a0, 0x10004", "bgtz a0, 0x10004",
    "bgt a0, a1, 0x10004 -> blt a1, a0, 0x10004",
    "lb a0, -2048(sp)", "lh a0, 2047(sp)", "lw a0, 0(gp)", "ld a0, 0(tp)", "lbu a0, 1(a1)",
    "lhu a0, 1(a1)", "lwu a0, 1(a1)",
    "sb a0, -2048(sp)", "sh a0, 2047(sp)", "sw zero, 0(s11)", "sd ra, 8(sp)",
    "addi a0, a1, -1", "slti a0, a1, 5", "sltiu a0, a1, 5", "xori a0, a1, 5", "ori a0, a1, 5",
    "andi a0, a1, 5",
    "slli a0, a1, 63", "srli a0, a1, 63", "srai a0, a1, 63", "addiw a0, a1, 1", "slliw a0, a1, 31",
    "srliw a0, a1, 31",
    "sraiw a0, a1, 31", "nop", "li a0, -2048", "mv a0, a1", "not a0, a1", "seqz a0, a1", "sext.w a0, a1",
    "add a0, a1, a2", "sub a0, a1, a2", "sll a0, a1, a2", "slt a0, a1, a2", "sltu a0, a1, a2",
    "xor a0, a1, a2",
    "srl a0, a1, a2", "sra a0, a1, a2", "or a0, a1, a2", "and a0, a1, a2", "neg a0, a1", "snez a0, a1",
    "sltz a0, a1",
    "sgtz a0, a1", "addw a0, a1, a2", "subw a0, a1, a2", "sllw a0, a1, a2", "srlw a0, a1, a2",
    "sraw a0, a1, a2",
    "negw a0, a1", "mul a0, a1, a2", "mulh a0, a1, a2", "mulhsu a0, a1, a2", "mulhu a0, a1, a2",
    "div a0, a1, a2",
    "divu a0, a1, a2", "rem a0, a1, a2", "remu a0, a1, a2", "mulw a0, a1, a2", "divw a0, a1, a2",
    "divuw a0, a1, a2",
    "remw a0, a1, a2", "remuw a0, a1, a2", "lr.w a0, (a1)", "lr.d.aqrl a0, (a1)", "sc.w.rl a0, a1, (a2)",
    "sc.d a0, a1, (a2)", "amoswap.w.aq a0, a1, (a2)", "amoadd.d a0, a1, (a2)", "amoxor.w a0, a1, (a2)",
    "amoand.d a0, a1, (a2)", "amoor.w a0, a1, (a2)", "amomin.d a0, a1, (a2)", "amomax.w a0, a1, (a2)",
    "amominu.d a0, a1, (a2)", "amomaxu.w a0, a1, (a2)", "fence", "fence rw, w", "fence.i", "fence.tso",
    "pause",
    "ecall", "ebreak", "unimp", "c.unimp",
    "c.addi4spn a0, 16 -> addi a0, sp, 16", "c.lw a0, 124(a1) -> lw a0, 124(a1)",
    "c.ld a0, 248(a1) -> ld a0, 248(a1)",
    "c.sw a0, 4(a1) -> sw a0, 4(a1)", "c.sd a0, 8(a1) -> sd a0, 8(a1)", "c.nop -> nop",
    "c.addi a0, -32 -> addi a0, a0, -32",
    "c.addiw a0, 1 -> addiw a0, a0, 1", "c.li a0, 31 -> li a0, 31", "c.lui a0, 31 -> lui a0, 31",
    "c.lui a0, 1048575 -> lui a0, 1048575", "c.addi16sp -512 -> addi sp, sp, -512",
    "c.srli a0, 63 -> srli a0, a0, 63",
    "c.srai a0, 1 -> srai a0, a0, 1", "c.andi a0, -1 -> andi a0, a0, -1", "c.sub a0, a1 -> sub a0, a0, a1",
    "c.xor a0, a1 -> xor a0, a0, a1", "c.or a0, a1 -> or a0, a0, a1", "c.and a0, a1 -> and a0, a0, a1",
    "c.subw a0, a1 -> subw a0, a0, a1", "c.addw a0, a1 -> addw a0, a0, a1", "c.j 0xf800 -> j 0xf800",
    "c.beqz a0, 0x100fe -> beqz a0, 0x100fe", "c.bnez a0, 0xff00 -> bnez a0, 0xff00",
    "c.slli a0, 63 -> slli a0, a0, 63",
    "c.lwsp a0, 252(sp) -> lw a0, 252(sp)", "c.ldsp a0, 504(sp) -> ld a0, 504(sp)", "c.jr a0 -> jr a0",
    "c.jr ra -> ret",
    "c.mv a0, a1 -> mv a0, a1", "c.ebreak -> ebreak", "c.jalr a0 -> jalr a0",
    "c.add a0, a1 -> add a0, a0, a1",
    "c.swsp a0, 252(sp) -> sw a0, 252(sp)", "c.sdsp ra, 504(sp) -> sd ra, 504(sp)",
]  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
def test_an_instruction_is_shown_as_it_is_written(text):
    written, _, shown = text.partition(" -> ")
    number = word(written, PC)
    assert disassemble(number, PC) == (shown or written)
    assert extension_of(number) is None
    assert instruction_length(number) == len(asm(written, PC))


def test_targets_wrap_with_the_address_space():
    assert disassemble(word("j .-4"), 0) == "j 0xfffffffffffffffc"


@given(st.integers(0, (1 << 32) - 1), st.integers(0, (1 << 64) - 1))
def test_every_word_has_a_text(number, pc):
    text = disassemble(number, pc)
    assert text.isprintable()
    assert text
    extension = extension_of(number)
    assert text != "unknown" or extension is None


@given(st.integers(0, 0xFFFF))
def test_what_a_compressed_instruction_stands_for_is_an_instruction(half):
    expanded = expand(half)
    if expanded is None:
        return
    assert half & 3 != 3
    assert expanded & 3 == 3
    assert disassemble(expanded, 0) != "unknown"
    assert extension_of(half) is None


OBJDUMP = shutil.which("llvm-objdump")
KNOWN_TO_LLVM = {None, "F", "D", "Zfh", "Zba", "Zbb", "Zbs", "Zbc"}
ATTRIBUTES = "+m,+a,+c,+f,+d,+zfh,+zba,+zbb,+zbs,+zbc"
needs_objdump = pytest.mark.skipif(OBJDUMP is None, reason="llvm-objdump is not installed")


def objdump(path, attributes=ATTRIBUTES):
    """Return {address: text} of a file's code, as llvm-objdump shows it."""
    done = subprocess.run(
        [OBJDUMP, "-d", "-z", f"--mattr={attributes}", path], capture_output=True, text=True, check=True
    )
    found = {}
    for line in done.stdout.splitlines():
        match = re.match(r"\s*([0-9a-f]+):((?: [0-9a-f]{2})+)\s+(.*)", line)
        if match:
            text = re.sub(r"\s+", " ", re.sub(r"<[^>]*>", "", match[3])).strip()
            found[int(match[1], 16)] = text or "unknown"
    return found


def listing(code, base):
    """Return {address: (number, text)} of code, ours."""
    found = {}
    at = 0
    while at < len(code):
        size = instruction_length(code[at])
        number = int.from_bytes(code[at : at + size], "little")
        found[base + at] = (number, disassemble(number, base + at))
        at += size
    return found


def is_hint(number):
    """Tell whether a compressed instruction writes x0 or shifts by nothing: llvm shows its short form."""
    nothing = number & 0x107C == 0 and (number >> 13 == 0 or (number & 3 == 1 and number >> 11 & 3 == 0))
    return number & 3 in {1, 2} and (nothing or (number >> 7 & 31 == 0 and number >> 13 in {0, 2, 3, 4}))


def differences(path, code, base):
    theirs = objdump(path)
    for address, (number, text) in listing(code, base).items():
        if extension_of(number) not in KNOWN_TO_LLVM or is_hint(number):
            continue
        shown = theirs[address]
        shown = "c.unimp" if number == 0 else shown
        if shown != text:
            yield f"{number:#x}: {text} - llvm-objdump: {shown}"


@needs_objdump
def test_every_compressed_instruction_is_shown_as_llvm_does(tmp_path):
    code = b"".join(half.to_bytes(2, "little") for half in range(1 << 16) if half & 3 != 3)
    path = tmp_path / "code.elf"
    path.write_bytes(build_elf(code, symbols={}))
    # c.lui of zero is reserved, and for odd registers a Zcmop; this llvm shows it as lui.
    wrong = [line for line in differences(path, code, PC) if not line.endswith(", 0")]
    assert wrong == []


def random_words(count, seed):
    """Return words of the major opcodes that are known, biased to groups that mean something."""
    source = random.Random(seed)
    opcodes = [0x03, 0x07, 0x13, 0x17, 0x1B, 0x23, 0x27, 0x2F, 0x33, 0x37, 0x3B, 0x43, 0x53, 0x63, 0x67, 0x6F]
    groups = [0, 0, 1, 1, 0x20, 0x20, 4, 5, 0x10, 0x14, 0x24, 0x30, 0x34]
    for _ in range(count):
        number = source.getrandbits(32) & ~0x7F | (opcode := source.choice(opcodes))
        if opcode in {0x13, 0x1B, 0x33, 0x3B}:
            number = number & ~(0x7F << 25) | source.choice(groups) << 25
        yield number


@needs_objdump
def test_random_words_are_shown_as_llvm_does(tmp_path):
    code = b"".join(number.to_bytes(4, "little") for number in random_words(40000, seed=20))
    path = tmp_path / "code.elf"
    path.write_bytes(build_elf(code, symbols={}))
    # A width or a rounding mode that llvm 14 does not know: it says nothing, we name the extension.
    wrong = [line for line in differences(path, code, PC) if not line.endswith("objdump: unknown")]
    assert wrong == []


@needs_objdump
@pytest.mark.parametrize("options", ["-O2", "-Os", "-O0"])
def test_real_code_is_shown_as_llvm_does(tmp_path, options):
    source = """
    static unsigned long state = 88172645463325252ul;
    unsigned long next(void) { state ^= state << 13; state ^= state >> 7; return state ^= state << 17; }
    int table[64];
    void sort(int *v, int n) {
        for (int i = 1; i < n; i++) {
            int x = v[i], j = i; while (j > 0 && v[j-1] > x) { v[j] = v[j-1]; j--; } v[j] = x;
        }
    }
    long run(void) {
        for (int i = 0; i < 64; i++) table[i] = next() % 1000;
        sort(table, 64);
        long sum = 0; for (int i = 0; i < 64; i++) sum += (long)table[i] * i / 7;
        return __atomic_add_fetch(&state, sum, __ATOMIC_SEQ_CST);
    }
    void _start(void) { __asm__ volatile("" :: "r"(run)); __builtin_trap(); }
    """
    data = compile_image(source, options=options)
    path = tmp_path / "code.elf"
    path.write_bytes(data)
    for piece in read_elf(data).code:
        assert list(differences(path, piece.data, piece.start)) == []


STOPS = {
    "ret",
    "jr",
    "ebreak",
    "unimp",
    "c.unimp",
    "unknown",
    "mret",
    "sret",
    "wfi",
    "wrs.nto",
    "wrs.sto",
    "j",
}
FADD = (0x02B57553).to_bytes(4, "little")


@pytest.mark.core
def test_the_loader_and_the_disassembler_agree_on_what_an_instruction_is():
    """In a function of one random instruction and a float, the float is found if the first falls through."""
    source = random.Random(5)
    numbers = list(random_words(1500, seed=6)) + [source.getrandbits(32) | 3 for _ in range(1500)]
    numbers += [number for number in (source.getrandbits(16) for _ in range(1500)) if number & 3 != 3]
    for number in numbers:
        size = instruction_length(number)
        code = number.to_bytes(4, "little")[:size] + FADD
        mnemonic = disassemble(number, PC).split()[0]
        foreign = extension_of(number) is not None and mnemonic not in STOPS
        try:
            read_elf(build_elf(code, symbols={"f": (PC, len(code))}))
        except LoadError as error:
            found = (error.mnemonic, error.address)
        else:
            found = None
        wanted = (mnemonic, PC) if foreign else None if mnemonic in STOPS else ("fadd.d", PC + size)
        assert found == wanted, f"{number:#x} {disassemble(number, PC)}"
