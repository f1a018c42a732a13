"""A profile counts each instruction as often as it ran, and changes nothing else."""

from collections import Counter

import pytest

from rvcore import ExitReason

from .guests import BASE

pytestmark = pytest.mark.core

SUM = """
sum:    mv a1, a0
        li a0, 0
_more:  add a0, a0, a1
        addi a1, a1, -1
        bnez a1, _more
        ret
ask:    li a7, 5
        ecall
        ret
boom:   nop
        ebreak
"""


def test_every_instruction_is_counted(guest):
    g = guest(SUM)
    g.store.start_profile()
    assert g.call("sum", 10) == 55
    once = [BASE, BASE + 4, BASE + 20]
    assert dict(g.store.profile()) == dict.fromkeys(once, 1) | dict.fromkeys(
        range(BASE + 8, BASE + 20, 4), 10
    )


def test_a_profile_adds_up_to_the_instructions_that_retired(guest):
    """The host call and the last return are instructions; the one that traps is not."""
    g = guest(SUM, hosts={5: lambda *_: 1})
    g.store.start_profile()
    total = 0
    for name in ("sum", "ask", "boom"):
        call = g.start(name, 3)
        call.run()
        total += call.instructions
        assert sum(count for _, count in g.store.profile()) == total
    counts = dict(g.store.profile())
    assert counts[g.labels["ask"] + 4] == 1
    assert counts[g.labels["ask"] + 8] == 1
    assert g.labels["boom"] + 4 not in counts


def test_a_profiled_run_ends_like_one_that_is_not(guest):
    plain, profiled = guest(SUM), guest(SUM)
    profiled.store.start_profile()
    for fuel in (1, 5, 31, 32):
        one, two = plain.start("sum", 10), profiled.start("sum", 10)
        assert one.run(fuel).reason is two.run(fuel).reason
        assert one.instructions == two.instructions
        assert one.run().values == two.run().values
        assert one.instructions == two.instructions


def test_a_deferred_call_is_counted_once(guest):
    g = guest(SUM, deferred=(5,))
    g.store.start_profile()
    call = g.start("ask")
    assert call.run().reason is ExitReason.HOST_CALL
    assert Counter(dict(g.store.profile())).total() == call.instructions == 2
    call.resume()
    call.run()
    assert Counter(dict(g.store.profile())).total() == call.instructions == 3


def test_starting_again_starts_from_zero(guest):
    g = guest(SUM)
    assert g.store.profile() == []
    g.store.start_profile()
    g.call("sum", 10)
    g.store.start_profile()
    assert g.store.profile() == []
    g.call("sum", 1)
    assert sum(count for _, count in g.store.profile()) == 6


def test_a_host_function_may_start_a_profile(guest):
    """In the middle of a call, between two slices."""
    g = guest(SUM, hosts={5: lambda *_: g.store.start_profile()})
    g.call("ask")
    assert g.store.profile() == [(g.labels["ask"] + 8, 1)]


def test_instructions_that_overlap_are_counted_where_they_start(guest):
    """The branch leads into the middle of a lui; joining the main line is no instruction."""
    g = guest("f: beqz zero, 65542; insn 0x05850537; addi a1, a1, 2; ret")
    g.store.start_profile()
    g.call("f")
    assert dict(g.store.profile()) == {BASE: 1, BASE + 6: 1, BASE + 8: 1, BASE + 12: 1}
