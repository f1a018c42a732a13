"""Names for what the daemon makes: ULIDs, which sort by when they were made.

Ids of one process only grow, also when the clock is set back and in one millisecond. One is made for every
invocation, so the random part is drawn once a second, and the end counts the ids of a millisecond.
"""

import os
import re
import threading
from typing import Final

from crabtalk.clock import Clock, SystemClock

_ALPHABET: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"  # Crockford's base 32
_PAIRS: Final = tuple(high + low for high in _ALPHABET for low in _ALPHABET)  # of ten bits each
_TIME_PAIRS: Final = 4  # beside the one that changes each millisecond
_RANDOM_PAIRS: Final = 6
_RANDOM_BYTES: Final = 8  # 60 bits of them are used
_COUNTER_BITS: Final = 20
_ID: Final = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}\Z")

LENGTH: Final = 26


class IdSource:
    """Makes ids; safe in any thread."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._now_ms = (clock or SystemClock()).now_ms
        self._lock = threading.Lock()
        self._ms = -1
        self._time = ""  # the beginning that all ids of 1,024 ms share
        self._random = ""  # and what they have behind their millisecond
        self._start = ""
        self._count = 0  # in this millisecond

    def __call__(self) -> str:
        """Return an id greater than every one before."""
        with self._lock:
            now_ms = self._now_ms()
            if now_ms > self._ms:
                self._begin(now_ms)
            self._count += 1
            if self._count >> _COUNTER_BITS:
                self._begin(self._ms + 1)
            return self._start + _PAIRS[self._count >> 10] + _PAIRS[self._count & 1023]

    def _begin(self, ms: int) -> None:
        if ms >> 10 != self._ms >> 10:
            self._time = _text(ms >> 10, _TIME_PAIRS)
            # Drawing gives the interpreter's lock away, which a busy thread keeps for a while: seldom, then.
            self._random = _text(int.from_bytes(os.urandom(_RANDOM_BYTES)), _RANDOM_PAIRS)
        self._ms = ms
        self._start = self._time + _PAIRS[ms & 1023] + self._random
        self._count = 0


new_id: Final = IdSource()


def is_id(text: str) -> bool:
    """Report whether `text` has the form of an id."""
    return _ID.match(text) is not None


def _text(value: int, pairs: int) -> str:
    return "".join([_PAIRS[value >> 10 * place & 1023] for place in range(pairs - 1, -1, -1)])
