"""Indirect jumps land where a relocation says, returns behind a call, and nowhere else."""

import pytest

import rvcore
from rvcore import TrapCode

from .guests import BASE, MIB

pytestmark = pytest.mark.core

OPEN = rvcore.Config(memory_size=MIB, stack_size=65536, cfi=False)

# go: jump to a0 by each register that is no link; taken and hidden are functions, only taken is a target.
JUMPS = """
go:      jr a0
callit:  addi sp, sp, -16
         sd ra, 8(sp)
         jalr a0
_behind: addi a0, a0, 1
         ld ra, 8(sp)
         addi sp, sp, 16
         ret
taken:   li a0, 1
         ret
hidden:  li a0, 2
_inside: ret
"""


@pytest.fixture
def g(guest):
    return guest(JUMPS, targets=("taken",))


# What a jump may not reach: (label, bytes past it).
FORBIDDEN = {
    "a function that is never address-taken": ("hidden", 0),
    "the middle of a function": ("_inside", 0),
    "the middle of an instruction": ("taken", 2),
    "a return site": ("_behind", 0),
    "itself": ("go", 0),
}


def test_a_jump_lands_on_a_target(g):
    assert g.call("go", g.labels["taken"]) == 1
    assert g.call("callit", g.labels["taken"]) == 2


def test_bit_zero_of_a_target_is_ignored(g):
    assert g.call("go", g.labels["taken"] + 1) == 1


@pytest.mark.parametrize("name", ["go", "callit"])
@pytest.mark.parametrize("kind", FORBIDDEN)
def test_a_jump_to_any_other_code_is_a_bad_jump(g, name, kind):
    label, offset = FORBIDDEN[kind]
    target = g.labels[label] + offset
    trap = g.trap(name, target)
    jump = g.labels["go"] if name == "go" else g.labels["_behind"] - 4
    assert (trap.code, trap.address, trap.pc, trap.access) == (TrapCode.BAD_JUMP, target, jump, "fetch")
    # A jalr that traps does not link.
    assert trap.registers[1] != g.labels["_behind"]


@pytest.mark.parametrize(
    "target", [0, 2, BASE - 2, BASE + 0x1000, 0x20000, MIB - 4, MIB, 2**32 + BASE, 2**63 + BASE, 2**64 - 2]
)
def test_a_jump_out_of_the_code_is_a_bad_jump(guest, target):
    g = guest(JUMPS, targets=("taken",), data=b"\x82\x80" * 8, data_addr=0x20000)
    trap = g.trap("go", target)
    assert (trap.code, trap.address) == (TrapCode.BAD_JUMP, target)


def test_a_jump_into_data_that_was_just_written_is_a_bad_jump(guest):
    g = guest("f: lui t1, 0x20; li t2, 0x8082; sh t2, 0(t1); jr t1", data=bytes(16), data_addr=0x20000)
    trap = g.trap("f")
    assert (trap.code, trap.address) == (TrapCode.BAD_JUMP, 0x20000)


def test_every_halfword_of_code_is_a_target_or_is_not(g):
    """Exhaustive: what the map allows is exactly the relocated address."""
    code = g.module.image.code[0]
    allowed = set()
    for target in range(code.start, code.end, 2):
        done = g.start("go", target).run(100)
        if not (done.trap and done.trap.code is TrapCode.BAD_JUMP):
            allowed.add(target)
    assert allowed == {g.labels["taken"]}


RETURNS = """
f:       ld a1, 0(a0)
         addi ra, a1, 0
         ret
caller:  addi sp, sp, -16
         sd ra, 8(sp)
         jal f
_site1:  jalr t0, 0(a2)
_site2:  ld ra, 8(sp)
         addi sp, sp, 16
         ret
plain:   jal zero, _site3
_site3:  nop
         nop
         ret
viat0:   mv t0, a0
         jr t0
link3:   jal a3, _site4
_site4:  ret
back:    mv ra, a0
         jalr zero, 4(ra)
c_ret:   mv ra, a0
         c.jr ra
c_call:  c.jalr a5
_site5:  nop
         ret
"""
LINKS = {"_site1", "_site2", "_site4", "_site5"}


@pytest.mark.parametrize("how", ["viat0", "c_ret", "back"])
def test_every_halfword_of_code_is_a_return_site_or_is_not(guest, how):
    g = guest(RETURNS)
    code = g.module.image.code[0]
    shift = 4 if how == "back" else 0
    allowed = set()
    for target in range(code.start, code.end, 2):
        trap = g.start(how, target - shift).run(2).trap
        if trap is None:
            allowed.add(target)
        else:
            assert (trap.code, trap.address, trap.access) == (TrapCode.BAD_RETURN, target, "fetch")
            assert trap.pc == g.labels[how] + 4
    assert allowed == {g.labels[name] for name in LINKS}


def test_an_overwritten_return_address_is_a_bad_return(guest):
    text = """
    f:      addi sp, sp, -16
            sd ra, 8(sp)
            sd a0, 8(sp)        # the overflow
            ld ra, 8(sp)
            addi sp, sp, 16
    _ret:   ret
    secret: li a0, 42
            ret
    """
    g = guest(text, targets=("secret",))
    trap = g.trap("f", g.labels["secret"])
    assert (trap.code, trap.address, trap.pc) == (TrapCode.BAD_RETURN, g.labels["secret"], g.labels["_ret"])


def test_a_return_may_go_to_another_call_site(guest):
    """A longjmp, or a coroutine's switch: return sites are checked, not a stack of them."""
    text = """
    f:      addi sp, sp, -32
            sd ra, 24(sp)
            jal setjmp
    _first: bnez a0, _out
            jal deep
            ebreak
    _out:   ld ra, 24(sp)
            addi sp, sp, 32
            ret
    setjmp: sd ra, 0(sp)
            sd sp, 8(sp)
            li a0, 0
            ret
    deep:   mv s1, sp
            addi sp, sp, -64
            jal longjmp
            ebreak
    longjmp: ld ra, 0(s1)
            ld sp, 8(s1)
            li a0, 7
            ret
    """
    assert guest(text).call("f") == 7


def test_the_exit_address_ends_the_call_for_returns_only(guest):
    g = guest("f: mv a1, ra; jr a1; g: mv t0, ra; jr t0; h: jalr ra, 0(ra)")
    trap = g.trap("f")
    assert trap.code is TrapCode.BAD_JUMP
    assert g.start("g").run(10).reason is rvcore.ExitReason.RETURNED
    # `jalr ra, 0(ra)` is a call through ra, not a return.
    assert g.trap("h").code is TrapCode.BAD_JUMP


def test_save_and_restore_by_t0_works(guest):
    text = """
    f:       jal t0, save
             li s0, 5
             add a0, a0, s0
             j restore
    save:    addi sp, sp, -16
             sd ra, 8(sp)
             sd s0, 0(sp)
             jr t0
    restore: ld s0, 0(sp)
             ld ra, 8(sp)
             addi sp, sp, 16
             ret
    """
    assert guest(text).call("f", 1) == 6


def test_far_calls_need_no_relocation(guest):
    """auipc and jalr name their one target together, so it is a direct call."""
    text = """
    f:  addi sp, sp, -16
        sd ra, 8(sp)
        call g
        ld ra, 8(sp)
        addi sp, sp, 16
        tail h
    g:  addi a0, a0, 1
        ret
    h:  addi a0, a0, 2
        ret
    i:  auipc t0, 0
        jalr t0, 16(t0)
        addi a0, a0, 100
        ret
        addi a0, a0, 4
        jr t0
    """
    g = guest(text)
    assert g.call("f") == 3
    assert g.call("i") == 104


def test_bit_zero_of_a_far_call_is_ignored(guest):
    g = guest("f: auipc t1, 0; jalr zero, 9(t1); g: li a0, 5; ret")
    assert g.call("f") == 5


@pytest.mark.parametrize("pair", ["lui t1, 0x10; jalr zero, 12(t1)", "auipc t1, 0; jalr zero, 12(t1)"])
def test_a_far_jump_has_its_right_only_with_its_own_constant(guest, pair):
    """The jalr of a pair is entered from elsewhere, with a register that the attacker chose."""
    text = f"f: {pair}; nop; _in: li a0, 3; ret; sneak: mv t1, a0; j _jalr; other: li a0, 4; ret"
    text = text.replace("; jalr", "; _jalr: jalr", 1)
    g = guest(text)
    assert g.call("f") == 3
    assert g.call("sneak", g.labels["_in"] - 12) == 3
    trap = g.trap("sneak", g.labels["other"] - 12)
    assert (trap.code, trap.address, trap.pc) == (TrapCode.BAD_JUMP, g.labels["other"], g.labels["_jalr"])
    for target in (0, 2**32 + g.labels["_in"], 2**64 - 2**32 + g.labels["_in"], g.labels["_in"] + 2):
        assert g.trap("sneak", target - 12).code is TrapCode.BAD_JUMP


def test_a_far_jump_by_another_register_is_an_ordinary_one(guest):
    g = guest("f: auipc t1, 0; jalr zero, 12(t2); nop; ret")
    assert g.trap("f").code is TrapCode.BAD_JUMP


@pytest.mark.parametrize("offset", [-4, -2, 0x2000, 0x7FFD0000])
def test_a_far_jump_out_of_the_code_is_a_bad_jump(guest, offset):
    high, low = divmod(BASE + offset + 0x800, 0x1000)
    g = guest(f"f: lui t1, {high}; jalr zero, {low - 0x800}(t1)")
    trap = g.trap("f")
    assert (trap.code, trap.address) == (TrapCode.BAD_JUMP, BASE + offset)


TABLE = """
f:      la t1, _table
        slli a0, a0, 3
        add t1, t1, a0
        ld t1, 0(t1)
        jr t1
_a:     li a0, 10
        ret
_b:     li a0, 20
        ret
_c:     li a0, 30
        ret
g:      jr a0
_d:     li a0, 40
        ret
callg:  addi sp, sp, -16
        sd ra, 8(sp)
        jalr a0
_back:  ld ra, 8(sp)
        addi sp, sp, 16
        ret
.align 3
_table: .dword _a, _b, _c, _d, g
"""


def test_a_jump_table_reaches_the_entries_of_its_function_and_nothing_else(guest):
    g = guest(TABLE, targets=("_a", "_b", "_d", "g"))
    assert [g.call("f", 0), g.call("f", 1)] == [10, 20]
    for entry, label in ((2, "_c"), (3, "_d")):
        trap = g.trap("f", entry)
        assert (trap.code, trap.address) == (TrapCode.BAD_JUMP, g.labels[label])
    assert g.call("g", g.labels["_d"]) == 40
    for label in ("_a", "_b", "_c"):
        assert g.trap("g", g.labels[label]).code is TrapCode.BAD_JUMP


def test_a_call_never_lands_on_an_entry_of_a_jump_table(guest):
    g = guest(TABLE, targets=("_a", "_d", "_back", "g"))
    for label in ("_a", "_d", "_back"):
        trap = g.trap("callg", g.labels[label])
        assert (trap.code, trap.address) == (TrapCode.BAD_JUMP, g.labels[label])


def test_a_function_is_a_target_for_jumps_and_calls_from_everywhere(guest):
    g = guest(TABLE, targets=("f", "g"))
    assert g.start("g", g.labels["f"]).run(1).reason is rvcore.ExitReason.OUT_OF_FUEL
    assert g.start("callg", g.labels["f"]).run(3).reason is rvcore.ExitReason.OUT_OF_FUEL


@pytest.mark.parametrize("jump", ["jr t1", "c.jr t1"])
def test_a_constant_and_a_plain_jump_are_a_far_jump_in_every_function(guest, jump):
    """The target is known, so it needs no relocation."""
    body = "beqz a0, _out{0}; addi a0, a0, -1; lui t1, 0x10; {1}; _out{0}: li a0, 7; ret; "
    loop = "auipc t1, 0; {1}; "
    text = "".join(f"f{i}: {body.format(i, jump)} g{i}: {loop.format(i, jump)}" for i in range(5))
    g = guest(text)
    for index in range(5):
        # Each f goes on as f0, which lies where the lui says.
        call = g.start(f"f{index}", 3)
        assert call.run(100).values[:1] == (7,)
        assert call.instructions == 3 * 4 + 3
        assert g.start(f"g{index}").run(100).reason is rvcore.ExitReason.OUT_OF_FUEL


def test_without_the_check_every_even_address_of_code_is_a_target(guest):
    g = guest(JUMPS, config=OPEN)
    assert g.call("go", g.labels["hidden"]) == 2
    assert g.call("callit", g.labels["hidden"]) == 3
    code = g.module.image.code[0]
    for target in range(code.start, code.end, 2):
        trap = g.start("go", target).run(100).trap
        assert trap is None or trap.code not in {TrapCode.BAD_JUMP, TrapCode.BAD_RETURN}
    for target in (0, code.start - 2, code.end, 2**64 - 2, 2**32 + code.start):
        assert g.trap("go", target).code is TrapCode.BAD_JUMP


def test_without_the_check_a_return_may_go_anywhere_in_code(guest):
    g = guest(RETURNS, config=OPEN)
    assert g.start("c_ret", g.labels["plain"]).run(2).reason is rvcore.ExitReason.OUT_OF_FUEL
    assert g.call("viat0", g.labels["_site3"]) == g.labels["_site3"]
