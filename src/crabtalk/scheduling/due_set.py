"""Which wakes are pending, ordered by instant: pure, no clock, no I/O.

A million must fit, so an entry is one integer: the instant above the id's 130 bits (26 digits of base 32).
Integers order as (instant, id) does, and an entry costs 48 bytes and its place in a list.
"""

from collections.abc import Iterable
from itertools import islice
from typing import Final

from sortedcontainers import SortedList

from crabtalk.ids import is_id
from crabtalk.store.interfaces.wakes import Due

__all__ = ["MAX_AT_MS", "Due", "DueSet"]

MAX_AT_MS: Final = 253_402_300_799_000  # the last second of the year 9999

_ALPHABET: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_TO_PYTHON: Final = str.maketrans(_ALPHABET, "0123456789abcdefghijklmnopqrstuv")  # the digits of `int(…, 32)`
_PAIRS: Final = tuple(high + low for high in _ALPHABET for low in _ALPHABET)
_ID_BITS: Final = 130
_SHIFTS: Final = range(120, -1, -10)


class DueSet:
    """Pending wakes in order; adding, removing and taking cost the logarithm of how many there are."""

    def __init__(self, entries: Iterable[tuple[int, str]] = ()) -> None:
        self._entries = SortedList(_pack(at_ms, wake_id) for at_ms, wake_id in entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, due: tuple[int, str]) -> bool:
        return _pack(*due) in self._entries

    def add(self, at_ms: int, wake_id: str) -> bool:
        """Add a wake, and report whether it is now the earliest; one that is there already changes nothing.

        Raises:
            ValueError: if the instant is out of range or the id is no ULID.
        """
        entry = _pack(at_ms, wake_id)
        if entry not in self._entries:
            self._entries.add(entry)
        return bool(self._entries[0] == entry)

    def extend(self, entries: Iterable[tuple[int, str]]) -> None:
        """Add many that are not there; fastest when they come in order and beyond what is there.

        Raises:
            ValueError: as `add`.
        """
        self._entries.update([_pack(at_ms, wake_id) for at_ms, wake_id in entries])

    def clear(self) -> None:
        """Remove all."""
        self._entries.clear()

    def discard(self, at_ms: int, wake_id: str) -> bool:
        """Remove a wake, and report whether it was there."""
        entry = _pack(at_ms, wake_id)
        if entry not in self._entries:
            return False
        self._entries.remove(entry)
        return True

    def pop_due(self, now_ms: int, budget: int, *, since_ms: int = 0) -> list[Due]:
        """Take out up to `budget` wakes due from `since_ms` until `now_ms`, the earliest first."""
        start = self._entries.bisect_left(since_ms << _ID_BITS) if since_ms > 0 else 0
        stop = min(start + budget, self._entries.bisect_left(now_ms + 1 << _ID_BITS))
        if stop <= start:
            return []
        taken = self._entries[start:stop]
        del self._entries[start:stop]
        return [_unpack(entry) for entry in taken]

    def earliest(self, since_ms: int = 0) -> int | None:
        """Return the first instant, at or after `since_ms`, at which a wake is due."""
        start = self._entries.bisect_left(since_ms << _ID_BITS) if since_ms > 0 else 0
        return self._entries[start] >> _ID_BITS if start < len(self._entries) else None

    def due_count(self, now_ms: int) -> int:
        """Count what is due until `now_ms`."""
        return int(self._entries.bisect_left(now_ms + 1 << _ID_BITS))

    def first(self, limit: int) -> list[Due]:
        """Return the earliest, without taking them."""
        return [_unpack(entry) for entry in islice(self._entries, limit)]


def _pack(at_ms: int, wake_id: str) -> int:
    if not 0 <= at_ms <= MAX_AT_MS:
        raise ValueError(f"instant: expected 0 to {MAX_AT_MS} ms, got {at_ms}")
    if not is_id(wake_id):
        raise ValueError(f"expected the id of a wake, got {wake_id[:40]!a}")
    return at_ms << _ID_BITS | int(wake_id.translate(_TO_PYTHON), 32)


def _unpack(entry: int) -> Due:
    return Due(entry >> _ID_BITS, "".join([_PAIRS[entry >> shift & 1023] for shift in _SHIFTS]))
