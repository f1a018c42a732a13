"""Call frames from prologues, checked at every instruction of real programs against a shadow call stack."""

import pytest
from unicorn import UC_ARCH_RISCV, UC_HOOK_CODE, UC_MODE_RISCV64, Uc, UcError
from unicorn.riscv_const import UC_RISCV_REG_PC, UC_RISCV_REG_RA, UC_RISCV_REG_SP, UC_RISCV_REG_X0

from asm import assemble
from elfs import Symbol, build_elf
from rvcore._compressed import expand
from rvcore._elf import read_elf
from zigimages import compile_image

STACK, STACK_BYTES, END = 0x8000_0000, 1 << 20, 0x7000_0000
REGISTERS = [UC_RISCV_REG_X0 + index for index in range(32)]


def instruction_at(image, address):
    """Return (word, size), a compressed instruction expanded."""
    for piece in image.code:
        if piece.start <= address < piece.end:
            raw = piece.data[address - piece.start :][:4]
            half = int.from_bytes(raw[:2], "little")
            return (int.from_bytes(raw, "little"), 4) if half & 3 == 3 else (expand(half) or 0, 2)
    raise AssertionError(hex(address))


def return_sites(image):
    """Return every address behind a call, of code that holds no data."""
    sites = set()
    for piece in image.code:
        address = piece.start
        while address < piece.end:
            word, size = instruction_at(image, address)
            address += size
            if word & 0x7F in {0x6F, 0x67} and word >> 7 & 31 == 1:
                sites.add(address)
    return sites


class Run:
    """A run of a function under unicorn that asks for the frames at every instruction."""

    def __init__(self, data, *, limit=1500):
        self.image = read_elf(data, require_relocations=False)
        self.sites = return_sites(self.image)
        self.limit = limit
        self.shadow = []  # return addresses, outermost first
        self.pending = None  # the call or return that the last instruction was
        self.checked = 0
        self.wrong = []
        self.uc = Uc(UC_ARCH_RISCV, UC_MODE_RISCV64)
        start = self.image.image_start & ~0xFFF
        self.uc.mem_map(start, (self.image.image_end - start + 0xFFF) & ~0xFFF)
        for segment in self.image.segments:
            self.uc.mem_write(segment.vaddr, segment.data)
        self.uc.mem_map(STACK, STACK_BYTES)
        self.uc.hook_add(UC_HOOK_CODE, self.step)

    def read(self, address, size):
        try:
            return bytes(self.uc.mem_read(address, size))
        except UcError:
            return None

    def frames(self, pc):
        registers = [self.uc.reg_read(index) for index in REGISTERS]
        return self.image.symbols.frames(pc, registers, self.read, self.sites.__contains__)

    def step(self, uc, pc, _size, _data):
        self.follow(pc)
        self.checked += 1
        if self.checked > self.limit:
            uc.emu_stop()
            return
        found = [frame.pc for frame in self.frames(pc)]
        wanted = [pc, *reversed(self.shadow)][:64]
        if found != wanted:
            self.wrong.append((hex(pc), self.image.symbols.lookup(pc), found, wanted))
        self.note(pc)

    def follow(self, pc):
        """Carry out the call or the return that the last instruction was."""
        if self.pending is not None:
            kind, address = self.pending
            if kind == "call":
                self.shadow.append(address)
            elif self.shadow and pc == self.shadow[-1]:
                self.shadow.pop()
        self.pending = None

    def note(self, pc):
        word, size = instruction_at(self.image, pc)
        rd, rs1 = word >> 7 & 31, word >> 15 & 31
        if word & 0x7F in {0x6F, 0x67} and rd == 1:
            self.pending = ("call", pc + size)
        elif word & 0x7F == 0x67 and rd == 0 and rs1 == 1:
            self.pending = ("return", 0)

    def start(self, name):
        self.uc.reg_write(UC_RISCV_REG_SP, STACK + STACK_BYTES)
        self.uc.reg_write(UC_RISCV_REG_RA, END)
        try:
            self.uc.emu_start(self.image.exports[name], END)
        except UcError:
            return self.uc.reg_read(UC_RISCV_REG_PC)
        return None


CALLS = """
typedef long (*operation)(long);
#define FAR __attribute__((noinline))
volatile long sink;
FAR long leaf(long x) { return x * 3 + sink; }
FAR long twice(long x) { return leaf(x) + leaf(x + 1); }
FAR long early(long x) { if (x < 5) return x; long a = twice(x), b = twice(a); return a * b + leaf(b); }
FAR long recurse(long x) { return x <= 0 ? leaf(x) : recurse(x - 1) * 3 + early(x); }
FAR long large(long x) { volatile char bytes[9000]; bytes[x & 1023] = x; return twice(bytes[7]) + bytes[8]; }
FAR long medium(long x) { volatile char bytes[2500]; bytes[x & 1023] = x; return twice(bytes[7]) + bytes[8]; }
FAR long sized(long x) {
    volatile char buffer[(x & 63) + 16]; buffer[3] = x; return twice(x) + buffer[3];
}
FAR long tail(long x) { sink = x; return early(x + 7); }
FAR long through(operation f, long x) { return f(x) + 1; }
static operation volatile operations[] = {leaf, twice, early, tail};
FAR long cases(long x, long y) {
    switch (x) {
        case 0: return twice(y) + 1; case 1: return leaf(y) * 2; case 2: return early(y) - 3;
        case 3: return y; case 4: return tail(y) ^ 5; case 5: return leaf(y) + twice(y); case 6: return 9;
    }
    return early(x) + 1;
}
FAR long many(long a, long b, long c, long d, long e, long f, long g, long h, long i, long j) {
    return leaf(a) + leaf(b) * c + d * leaf(e) + f + g * leaf(h) + i - j;
}
long run(void) {
    long sum = recurse(4) + large(3) + medium(4) + sized(5) + tail(9);
    for (int i = 0; i < 4; i++) sum += through(operations[i], i * 4);
    for (int i = 0; i < 8; i++) sum += cases(i, sum & 15);
    return sum + many(1, 2, 3, 4, 5, 6, 7, 8, 9, 10);
}
void _start(void) { __asm__ volatile("" :: "r"(run)); __builtin_trap(); }
"""


@pytest.mark.parametrize("options", ["-O0", "-O2", "-Os -fomit-frame-pointer"])
def test_the_frames_are_the_callers_at_every_instruction(options):
    run = Run(compile_image(CALLS, options=options))
    run.start("run")
    assert run.checked > 1000
    assert run.wrong == []


def test_frames_are_named_by_function_and_line():
    source = """
    #define FAR __attribute__((noinline))
    volatile long sink;
    FAR long inner(long x) {
        sink = x;
        if (x > 5) __builtin_trap();
        return sink;
    }
    FAR long middle(long x) {
        long y = inner(x + 1);
        return y * sink;
    }
    long run(void) {
        return middle(7) + 1;
    }
    void _start(void) { __asm__ volatile("" :: "r"(run)); __builtin_trap(); }
    """
    run = Run(compile_image(source, options="-O1 -g"), limit=0)
    run.start("run")
    image = run.image
    run = Run(image.data)
    seen = []
    run.step = lambda *_: None
    run.uc.hook_add(UC_HOOK_CODE, lambda _uc, pc, _size, _data: seen.append(run.frames(pc)))
    run.start("run")
    facts = [(frame.symbol, frame.location) for frame in seen[-1]]
    assert facts == [("inner", "guest.c:6"), ("middle", "guest.c:10"), ("run", "guest.c:14")]
    for frame in seen[-1]:
        assert frame.pc - frame.offset == image.exports[frame.symbol]


SAVE_RESTORE = """
    main: jal t0, save_1; li s0, 5; jal ra, f; mv a0, s0; j restore_1
    f: auipc t0, 0; jalr t0, save_1-f(t0); addi sp, sp, -32; jal ra, g; addi sp, sp, 32; j restore_1
    g: add a0, a0, a1; ret
    save_1: addi sp, sp, -16; sd s0, 0(sp); sd ra, 8(sp); jr t0
    restore_1: ld s0, 0(sp); ld ra, 8(sp); addi sp, sp, 16; ret
"""


def test_frames_reach_through_save_and_restore_routines():
    """`-msave-restore`: the prologue is a routine that returns through t0, the epilogue a tail jump."""
    _, labels = assemble(SAVE_RESTORE.replace("save_1-f", "0"))
    code, labels = assemble(SAVE_RESTORE.replace("save_1-f", str(labels["save_1"] - labels["f"])))
    order = sorted(labels, key=labels.get)
    ends = [*(labels[name] for name in order[1:]), 0x10000 + len(code)]
    symbols = [Symbol(name, labels[name], end - labels[name]) for name, end in zip(order, ends, strict=True)]
    run = Run(build_elf(code, symbols=symbols))
    run.start("main")
    assert run.checked == 29
    # In the routines themselves ra or sp are on their way; everywhere else the stack is whole.
    assert {symbol for _, (symbol, _), _, _ in run.wrong} <= {"save_1", "restore_1"}


def frames_of(code, symbols, pc, registers, memory, sites):
    """Return the pcs of the frames of a made-up state."""
    image = read_elf(build_elf(code, symbols=symbols))
    values = [0] * 32
    for number, value in registers.items():
        values[number] = value

    def read(address, size):
        return memory.get(address, None) if size == 8 else None

    return [frame.pc for frame in image.symbols.frames(pc, values, read, sites.__contains__)]


def test_a_stack_that_names_no_return_site_ends_the_list():
    code, labels = assemble("f: addi sp, sp, -16; sd ra, 8(sp); nop; ret")
    inside = labels["f"] + 8
    symbols = {"f": (labels["f"], len(code))}
    smashed = {0x8008: (0x4141414141414141).to_bytes(8, "little")}
    assert frames_of(code, symbols, inside, {2: 0x8000}, smashed, {inside}) == [inside]
    assert frames_of(code, symbols, inside, {2: 0x8000}, {}, {inside}) == [inside]


def test_a_stack_that_returns_to_itself_ends_after_64_frames():
    code, labels = assemble("f: addi sp, sp, -16; sd ra, 8(sp); jal ra, f; nop; ret")
    site = labels["f"] + 12

    memory = {address: site.to_bytes(8, "little") for address in range(0x8000, 0x9000, 8)}
    found = frames_of(code, {"f": (labels["f"], len(code))}, site, {2: 0x8000}, memory, {site})
    assert found == [site] * 64


def test_a_stack_pointer_that_wraps_ends_the_list():
    code, labels = assemble("f: addi sp, sp, -16; sd ra, 8(sp); jal ra, f; nop; ret")
    site = labels["f"] + 12
    top = (1 << 64) - 8
    memory = {
        address & ((1 << 64) - 1): site.to_bytes(8, "little") for address in range(top - 64, top + 64, 8)
    }
    assert len(frames_of(code, {"f": (labels["f"], len(code))}, site, {2: top}, memory, {site})) <= 64


def test_a_function_without_an_end_is_walked_only_so_far():
    """A chain of branches longer than the bound: the answer is what was known at the first branch."""
    body = "beqz a0, .+4; " * 6000
    code, labels = assemble(f"f: addi sp, sp, -16; sd ra, 8(sp); {body} end: nop; ret")
    site = labels["f"]
    memory = {0x8008: site.to_bytes(8, "little")}
    symbols = {"f": (labels["f"], len(code))}
    assert frames_of(code, symbols, labels["end"], {2: 0x8000}, memory, {site}) == [labels["end"], site]


def test_a_pc_outside_code_still_shows_who_called():
    """A wild jump with control-flow checks off: ra is all there is."""
    code, labels = assemble("f: jalr ra, 0(a0); ret")
    site = labels["f"] + 4
    assert frames_of(code, {"f": (labels["f"], 8)}, 0x55550, {1: site, 2: 0x8000}, {}, {site})[:2] == [
        0x55550,
        site,
    ]
