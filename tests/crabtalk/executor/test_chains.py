"""Chains: what they have left, what the store keeps of them, and that records share one budget."""

import gc

import pytest

from crabtalk.chains import Chain, Chains, ChainSpent
from crabtalk.store.interfaces.wakes import ChainRecord

HOUR_MS = 3_600_000


def chain(**options):
    return Chain("id", **{"started_ms": 1000, **options})


@pytest.mark.parametrize(
    ("options", "depth", "why"),
    [
        ({}, 9, "depth 9 is beyond the chain's 8"),
        ({"invocations": 0}, 0, "the chain has started all the invocations that it may"),
        ({"fuel": 0}, 0, "the chain has used all its fuel"),
        ({"wall_s": 0}, 0, "the chain's deadline has passed"),
    ],
)
def test_a_spent_chain_says_why_without_and_with_counting(options, depth, why):
    left = {"invocations": 5, "fuel": 5, "wall_s": 5, **options}
    record = ChainRecord("id", depth, 0, left["invocations"], left["fuel"])
    spent = Chain.from_record(record, HOUR_MS - 1000 * left["wall_s"])
    assert spent.refusal(depth) == why
    with pytest.raises(ChainSpent, match=f"chain id: {why}") as caught:
        spent.admit(depth)
    assert caught.value.code == 400


def test_asking_counts_nothing():
    one = chain(invocations=1)
    assert one.refusal(8) is None
    assert one.berm.invocations_left == 1
    one.admit(8)
    assert one.refusal(0) == "the chain has started all the invocations that it may"


def test_a_record_holds_what_is_left():
    one = chain(parent="before")
    one.admit(0)
    one.berm.charge(1_000_000)
    one.tokens_left -= 500
    record = one.record(3)
    assert record == ChainRecord("id", 3, 1000, 255, 100_000_000_000 - 1_000_000, "before", 1_999_500)
    again = Chain.from_record(record, 1000)
    assert again.record(3) == record
    assert (again.id, again.parent, again.started_ms) == ("id", "before", 1000)


def test_a_chain_that_used_its_tokens_has_none_after_a_restart():
    one = chain(tokens=100)
    one.tokens_left -= 130
    again = Chains().restore(one.record(1), 1000)
    assert again is not one
    assert again.refusal(1) == "the chain has used all the tokens that it may"


def test_a_record_without_tokens_has_those_of_a_new_chain():
    record = ChainRecord("id", 1, 1000, 5, 5)
    assert Chains(tokens=70).restore(record, 1000).tokens_left == 70


def test_a_restored_chain_has_the_rest_of_its_hour():
    record = chain().record(0)
    assert Chain.from_record(record, 1000 + HOUR_MS - 10_000).wall_left_s == pytest.approx(10, abs=1)
    assert Chain.from_record(record, 1000 + 2 * HOUR_MS).refusal(0) == "the chain's deadline has passed"


def test_a_clock_that_was_set_back_gives_no_more_than_an_hour():
    assert Chain.from_record(chain().record(0), -HOUR_MS).wall_left_s <= 3600


def test_records_of_one_chain_share_its_budget():
    chains = Chains()
    record = chain().record(1)
    first, second = chains.restore(record, 1000), chains.restore(record, 1000)
    assert first is second
    assert len(chains) == 1


def test_a_chain_in_use_is_found_and_kept_no_longer_than_that():
    chains, one = Chains(), chain()
    chains.note(one)
    assert chains.restore(one.record(1), 1000) is one
    del one
    gc.collect()
    assert len(chains) == 0


def test_chains_are_remembered_in_bounded_number(monkeypatch):
    monkeypatch.setattr("crabtalk.chains._KEPT", 3)
    chains = Chains()
    for number in range(10):
        chains.keep(Chain(str(number), started_ms=0))
    assert len(chains) == 3
