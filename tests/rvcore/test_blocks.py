"""Code is decoded once, in bounded time and memory, and runs as its bytes say wherever it is entered."""

import array
import random

import pytest

import rvcore
from asm import assemble
from elfs import build_elf
from rvcore import ExitReason, TrapCode
from rvcore._blocks import MAX_OPS, Code
from rvcore._program import MAX_CODE_SPAN

from .guests import BASE, MIB, Guest

MOST_UNCHECKED = 1024
NOP = b"\x01\x00"  # c.nop
BIG = rvcore.Config(memory_size=256 * MIB, stack_size=65536)


def decode(data, *, targets=(), cfi=True, base=BASE):
    return Code([(base, data)], array.array("Q", [base]), array.array("Q", targets), cfi)


# Code without a backward or indirect edge, in which a run could go on for long without a look at its budget.
STRAIGHT = {
    "nothing but nops": lambda: "c.nop; " * 6_000,
    "pairs that could be fused": lambda: "addi a1, a1, 1; addi a2, a2, 1; " * 3_000,
    "loads and stores": lambda: "sd a0, -8(sp); ld a1, -8(sp); " * 2_000,
    "a ladder of jumps, each over one instruction": lambda: "".join(
        f"j _s{i}; nop; _s{i}: " for i in range(3_000)
    ),
    "branches that skip every other one": lambda: "".join(
        f"beqz zero, _l{i}; nop; _l{i}: addi a1, a1, 1; " for i in range(2_000)
    ),
    "branches of every length": lambda: (
        "".join(f"_k{i}: beqz zero, _k{min(i + 1 + i % 40, 3_000)}; " for i in range(3_000)) + "_k3000: nop; "
    ),
    "calls deeper and deeper": lambda: (
        "".join(f"_c{i}: jal a3, _c{i + 1}; nop; " for i in range(3_000)) + "_c3000: nop; "
    ),
}


@pytest.mark.core
@pytest.mark.parametrize("shape", STRAIGHT)
def test_straight_code_of_any_shape_looks_at_its_budget(guest, shape):
    """`longest` bounds how late an interrupt is seen; fuel stays exact around the places where it was cut."""
    g = guest(f"f: {STRAIGHT[shape]()} ret")
    assert 1 <= g.program.code.longest <= MOST_UNCHECKED
    call = g.start("f")
    assert call.run().reason is ExitReason.RETURNED
    whole = call.instructions
    draw = random.Random(shape)
    for _ in range(10):
        call = g.start("f")
        ran = 0
        while ran < whole - 1:
            step = min(
                draw.choice([1, 2, 1023, 1024, 1025, 2047, 2049, draw.randrange(1, whole)]), whole - 1 - ran
            )
            assert call.run(step).reason is ExitReason.OUT_OF_FUEL
            ran += step
            assert call.instructions == ran
        assert call.run(1).reason is ExitReason.RETURNED


@pytest.mark.core
def test_an_ordinary_function_is_not_slowed_down(guest):
    """The cuts are only where no look at the budget is in reach."""
    g = guest("f: " + "addi a1, a1, 1; " * 1000 + "ret")
    assert g.program.code.longest == 1001


def test_code_that_spans_too_much_is_refused():
    code = assemble("ret")[0]
    elf = build_elf(
        code + bytes(MAX_CODE_SPAN) + code,
        symbols={"f": (BASE, 4)},
        code_sections=[(BASE, 4), (BASE + MAX_CODE_SPAN + 4, 4)],
    )
    with pytest.raises(rvcore.LoadError, match="code spans 67108872 bytes, more than 67108864") as refused:
        rvcore.Module(rvcore.Engine(BIG), elf)
    assert refused.value.remedy == "link executable sections together"


@pytest.mark.core
@pytest.mark.parametrize("cfi", [True, False])
def test_two_instructions_far_apart_take_little_time(core_clock, cfi):
    """The jump map covers the gap, but nothing of it is touched."""
    with core_clock(5):
        far = BASE + MAX_CODE_SPAN - 8
        code = Code([(BASE, NOP), (far, NOP)], array.array("Q"), array.array("Q"), cfi)
        assert set(code.addresses()) == {0, BASE, BASE + 2, far, far + 2}


def test_code_of_too_many_instructions_is_refused(core_clock):
    with core_clock(20), pytest.raises(rvcore.LoadError, match=f"more than {MAX_OPS} decoded instructions"):
        decode(NOP * (MAX_OPS + 1))


@pytest.mark.core
def test_code_that_is_decoded_twice_at_most_doubles():
    """Every halfword starts an instruction that overlaps the next; a branch leads into the second stream."""
    words = 4000
    data = assemble(f"beqz zero, {BASE + 6}")[0] + b"\x37\x05" * (2 * words)
    code = decode(data)
    assert code.count <= 2 * (len(data) // 2)
    both = {address for address, _ in code.entries()}
    assert both >= set(range(BASE + 4, BASE + len(data) - 2, 2))


@pytest.mark.core
def test_bad_branches_of_code_in_many_pieces_take_time_in_proportion(core_clock):
    """Each branch leads out of its piece; none of them makes the decoder look at all pieces."""
    count = 20_000
    branch = assemble("beqz a0, 65600")[0]
    ranges = [(BASE + 64 * i, branch) for i in range(count)]
    with core_clock(10):
        code = Code(ranges, array.array("Q"), array.array("Q"), True)
    assert code.count <= 3 * count + 1


@pytest.mark.core
def test_odd_and_foreign_targets_are_ignored():
    """Nothing that a relocation says can make code start in the middle of a halfword."""
    data = assemble("lui a0, 1; ret")[0]
    code = decode(
        data, targets=[BASE + 1, BASE + 3, BASE - 2, 0, 2**64 - 1, BASE + len(data), BASE + len(data) + 1]
    )
    assert code.entries() == [(BASE, 0), (BASE + 4, 0)]


@pytest.mark.core
def test_a_stream_that_never_meets_the_main_line_ends_with_the_code(guest):
    """From its second halfword on, a row of lui is another row of lui, up to where the last is cut off."""
    g = guest("f: beqz zero, 65542; " + "insn 0x05370537; " * 50)
    end = g.module.image.code[0].end
    trap = g.trap("f")
    assert trap.code is TrapCode.ILLEGAL_INSTRUCTION
    assert trap.pc == end - 2
    assert trap.registers[10] == 0x05370000


@pytest.mark.core
def test_joining_the_main_line_costs_no_fuel(guest):
    """`lui` with c.addi in its upper half: the branch runs the c.addi and goes on with the next lui."""
    g = guest("f: beqz zero, 65542; insn 0x05850537; addi a1, a1, 2; ret")
    call = g.start("f")
    assert call.run().values[1] == 3
    assert call.instructions == 4
    call = g.start("f")
    for count in range(1, 4):
        assert call.run(1).reason is ExitReason.OUT_OF_FUEL
        assert call.instructions == count
    assert call.run(1).reason is ExitReason.RETURNED


@pytest.mark.core
def test_a_loop_through_joined_streams_stops(guest):
    """A backward branch from the second stream; its fuel and its interrupt work as in the first."""
    g = guest("f: j _in; insn 0x05850537; j f; _in: j 65542")
    assert g.start("f").run(100_000).reason is ExitReason.OUT_OF_FUEL
    call = g.start("f")
    g.store.interrupt()
    assert call.run().reason is ExitReason.INTERRUPTED


@pytest.mark.core
@pytest.mark.parametrize("text", ["unimp", "c.unimp"])
def test_unimp_loads_and_traps_when_it_runs(guest, text):
    g = guest(f"f: bnez a0, _bad; ret; _bad: {text}; ret")
    assert g.call("f", 0) == 0
    trap = g.trap("f", 1)
    assert (trap.code, trap.pc) == (TrapCode.ILLEGAL_INSTRUCTION, g.labels["_bad"])
    assert trap.bytes == assemble(text)[0]
    assert "unimp" in trap.disassembly


@pytest.mark.core
def test_data_beside_code_does_not_hide_functions(guest):
    """Each constant looks like the first half of a longer instruction than there is room for."""
    text = ""
    for index in range(64):
        text += f"_d{index}: .half {0x0003 | index << 2 | 0x37}; f{index}: li a0, {index}; ret; "
    g = guest(text)
    assert [g.call(f"f{index}") for index in range(64)] == list(range(64))


@pytest.mark.core
def test_the_last_instruction_may_be_a_call(guest):
    """Its return site is no code, so the return is refused."""
    g = guest("g: ret; f: jal g")
    trap = g.trap("f")
    assert (trap.code, trap.address) == (TrapCode.BAD_RETURN, g.module.image.code[0].end)


@pytest.mark.core
def test_every_op_of_a_program_is_dense_and_in_order(guest):
    g = guest("f: c.addi a0, 1; addi a0, a0, 1; c.jr ra")
    assert list(g.program.code.addresses()) == [0, BASE, BASE + 2, BASE + 6, BASE + 8]
    assert g.program.code.start == BASE
    assert g.program.code.size == 8


@pytest.mark.core
def test_programs_of_one_engine_keep_to_themselves():
    with Guest("f: li a0, 1; ret") as one, Guest("f: li a0, 2; ret") as two:
        assert (one.call("f"), two.call("f"), one.call("f")) == (1, 2, 1)


@pytest.mark.core
def test_a_large_program_with_fusing_off_runs_the_same():
    """`fuse` changes handlers, never ops."""
    data = assemble("f: " + "addi a1, a1, 1; addi a2, a2, 1; ld a3, 0(a1); add a3, a3, a2; " * 200 + "ret")[0]
    ranges = [(BASE, data)]
    plain = Code(ranges, array.array("Q"), array.array("Q"), True, False)
    fused = Code(ranges, array.array("Q"), array.array("Q"), True, True)
    assert plain.count == fused.count
    assert [(name, link) for name, link, _ in plain.links()] == [
        (name, link) for name, link, _ in fused.links()
    ]


def random_layout(draw):
    """Return sorted pieces of random code with gaps between them."""
    ranges, address = [], BASE + 2 * draw.randrange(100)
    for _ in range(draw.randrange(1, 6)):
        size = 2 * draw.choice([1, 2, 3, draw.randrange(1, 200)])
        ranges.append((address, b"".join(random_halfword(draw) for _ in range(size // 2))))
        address += size + 2 * draw.choice([1, 2, draw.randrange(1, 5000)])
    return ranges


def random_halfword(draw):
    """Return two bytes that are often the start of a branch, a jump or a constant."""
    low = draw.choice(
        [0x63, 0x6F, 0x67, 0x17, 0x37, 0x13, 0x01, 0xA001, 0xC101, 0x8002, draw.randrange(1 << 16)]
    )
    return (low | draw.randrange(1 << 16) & 0xFF80).to_bytes(2, "little")


@pytest.mark.core
@pytest.mark.parametrize("seed", range(8))
def test_any_layout_of_any_bytes_is_decoded_within_bounds(seed):
    """Whatever the bytes, and whatever the symbols and relocations claim of them."""
    draw = random.Random(seed)
    for _ in range(40):
        ranges = random_layout(draw)
        end = ranges[-1][0] + len(ranges[-1][1])
        anywhere = [draw.randrange(BASE - 8, end + 8) for _ in range(20)] + [0, 2**32, 2**64 - 1]
        starts = array.array("Q", sorted(draw.sample(anywhere, 8)))
        targets = array.array("Q", sorted(draw.sample(anywhere, 8)))
        cfi = draw.random() < 0.5
        code = Code(ranges, starts, targets, cfi)
        halfwords = {address for begin, data in ranges for address in range(begin, begin + len(data), 2)}
        entries = dict(code.entries())
        assert set(entries) <= halfwords, f"seed {seed}"
        assert 1 <= code.longest <= MOST_UNCHECKED
        # One op a halfword, one that joins or ends each stream, one that leaves the code for each branch.
        assert code.count <= 3 * len(halfwords) + len(ranges) + 2
        if cfi:
            assert {address for address, flags in entries.items() if flags & 5} <= set(targets)
            assert {target for target in targets if target in halfwords} <= set(entries)
        else:
            assert set(entries) == halfwords
