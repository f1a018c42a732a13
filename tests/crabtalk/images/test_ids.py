"""Ids: ULIDs that only grow."""

import threading

from crabtalk.ids import LENGTH, IdSource, is_id, new_id


def milliseconds(made):
    """Decode the first ten characters, as the specification of ULIDs says."""
    value = 0
    for character in made[:10]:
        value = value * 32 + "0123456789ABCDEFGHJKMNPQRSTVWXYZ".index(character)
    return value


class Steps:
    """A clock that shows the instants of a list, the last one for ever."""

    def __init__(self, *instants_ms):
        self.instants_ms = list(instants_ms)

    def now_ms(self):
        return self.instants_ms.pop(0) if len(self.instants_ms) > 1 else self.instants_ms[0]

    def monotonic(self):
        return 0.0


def test_an_id_is_a_ulid_of_its_time():
    made = IdSource(Steps(1_700_000_000_123))()
    assert milliseconds(made) == 1_700_000_000_123
    assert len(made) == LENGTH
    assert is_id(made)


def test_ids_only_grow_in_one_millisecond():
    source = IdSource(Steps(5))
    made = [source() for _ in range(10_000)]
    assert made == sorted(set(made))


def test_ids_only_grow_when_the_clock_is_set_back():
    source = IdSource(Steps(1000, 10, 10, 1001))
    made = [source() for _ in range(4)]
    assert made == sorted(set(made))


def test_a_millisecond_that_is_used_up_borrows_the_next_one():
    source = IdSource(Steps(7))
    source()
    source._count = (1 << 20) - 2
    last, first = source(), source()
    assert last < first
    assert milliseconds(first) == 8


def test_threads_get_different_ids():
    made = []

    def make():
        made.extend([new_id() for _ in range(2000)])

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(made)) == 8000


def test_what_is_no_id():
    good = new_id()
    for text in (
        "",
        "reviewer",
        good[:-1],
        good + "0",
        good.lower(),
        "8" + good[1:],
        good[:-1] + "U",
        good + "\n",
    ):
        assert not is_id(text)
