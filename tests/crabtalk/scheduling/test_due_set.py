import pytest
from hypothesis import given
from hypothesis import strategies as st

from crabtalk.scheduling.due_set import MAX_AT_MS, Due, DueSet

# The same in every process that collects the tests.
IDS = [f"01JA{n:022X}" for n in range(20)]
DUES = st.lists(st.tuples(st.integers(0, 50), st.sampled_from(IDS)), max_size=40)


def test_entries_come_out_by_instant_then_id():
    first, second = sorted(IDS[:2])
    due = DueSet([(20, first), (10, second), (10, first)])
    assert due.pop_due(20, 10) == [Due(10, first), Due(10, second), Due(20, first)]
    assert len(due) == 0


def test_what_is_not_due_stays():
    due = DueSet([(10, IDS[0]), (11, IDS[1])])
    assert due.pop_due(10, 10) == [Due(10, IDS[0])]
    assert due.pop_due(10, 10) == []
    assert due.earliest() == 11


def test_the_budget_bounds_what_is_taken():
    due = DueSet((at, IDS[at]) for at in range(10))
    assert [one.at_ms for one in due.pop_due(100, 3)] == [0, 1, 2]
    assert due.pop_due(100, 0) == []
    assert due.due_count(100) == 7


def test_taking_can_begin_at_an_instant():
    due = DueSet((at, IDS[at]) for at in range(10))
    assert [one.at_ms for one in due.pop_due(7, 100, since_ms=5)] == [5, 6, 7]
    assert due.earliest(5) == 8
    assert due.earliest() == 0
    assert due.earliest(10) is None


def test_adding_says_whether_it_is_the_earliest_now():
    due = DueSet()
    assert due.add(10, IDS[0])
    assert not due.add(11, IDS[1])
    assert due.add(9, IDS[2])
    assert due.earliest() == 9


def test_adding_twice_changes_nothing():
    due = DueSet()
    due.add(10, IDS[0])
    due.add(10, IDS[0])
    assert len(due) == 1


def test_discarding_says_whether_it_was_there():
    due = DueSet([(10, IDS[0])])
    assert not due.discard(11, IDS[0])
    assert due.discard(10, IDS[0])
    assert not due.discard(10, IDS[0])
    assert due.earliest() is None


@pytest.mark.parametrize("at_ms", [-1, MAX_AT_MS + 1])
def test_an_instant_out_of_range_is_refused(at_ms):
    with pytest.raises(ValueError, match="instant: expected 0 to"):
        DueSet().add(at_ms, IDS[0])


@pytest.mark.parametrize("wake_id", ["", "x", IDS[0][:-1], IDS[0].lower(), "8" + IDS[0][1:]])
def test_only_ulids_are_ids(wake_id):
    with pytest.raises(ValueError, match="expected the id of a wake"):
        DueSet().add(0, wake_id)


@pytest.mark.parametrize("wake_id", ["0" * 26, "7" + "Z" * 25, IDS[0]])
@pytest.mark.parametrize("at_ms", [0, 1, MAX_AT_MS])
def test_packing_keeps_instant_and_id(at_ms, wake_id):
    due = DueSet([(at_ms, wake_id)])
    assert (at_ms, wake_id) in due
    assert due.first(5) == [Due(at_ms, wake_id)]


@given(DUES, DUES, st.integers(0, 60), st.integers(0, 60), st.integers(0, 50))
def test_it_agrees_with_a_sorted_list(added, removed, since, now, budget):
    due = DueSet()
    model = set()
    for entry in added:
        due.add(*entry)
        model.add(entry)
    for entry in removed:
        assert due.discard(*entry) == (entry in model)
        model.discard(entry)
    expected = sorted(entry for entry in model if since <= entry[0] <= now)[:budget]
    assert due.due_count(now) == sum(at <= now for at, _ in model)
    assert due.earliest(since) == min((at for at, _ in model if at >= since), default=None)
    assert due.pop_due(now, budget, since_ms=since) == expected
    assert due.first(100) == sorted(model - set(expected))


def test_extending_is_as_adding_each():
    entries = [(at, IDS[at % 20]) for at in range(0, 2000, 3)]
    due = DueSet()
    due.extend(entries[:100])
    due.extend(entries[100:])
    assert due.first(10_000) == sorted(entries)
