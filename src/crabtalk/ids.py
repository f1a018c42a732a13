"""Names for what the daemon makes: ULIDs, which sort by when they were made.

Ids of one process only grow, also when the clock is set back and in one millisecond. One is made for every
invocation, so the time and the random part are written out once a millisecond and only the end counts.
"""

import os
import re
import threading
from typing import Final

from crabtalk.clock import Clock, SystemClock

_ALPHABET: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"  # Crockford's base 32
_PAIRS: Final = tuple(high + low for high in _ALPHABET for low in _ALPHABET)  # of ten bits each
_TIME_PAIRS: Final = 5
_RANDOM_PAIRS: Final = 6
_COUNTER_BITS: Final = 20
_BEGUN: Final = 10  # random bytes for a millisecond: 79 bits of them are used
_DRAWN: Final = 400  # milliseconds for which they are drawn at once
_ID: Final = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}\Z")

LENGTH: Final = 26


class IdSource:
    """Makes ids; safe in any thread."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._now_ms = (clock or SystemClock()).now_ms
        self._lock = threading.Lock()
        self._ms = -1
        self._second = ""  # the beginning that all ids of 1,024 ms share
        self._start = ""
        self._count = 0
        self._random = b""  # what was drawn and is not used

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
        if not self._random:
            # Drawing gives the interpreter's lock away, which a busy thread keeps for a while: seldom, then.
            self._random = os.urandom(_DRAWN * _BEGUN)
        drawn = int.from_bytes(self._random[-_BEGUN:])
        self._random = self._random[:-_BEGUN]
        if ms >> 10 != self._ms >> 10:
            self._second = _text(ms >> 10, _TIME_PAIRS - 1)
        self._ms = ms
        self._start = self._second + _PAIRS[ms & 1023] + _text(drawn, _RANDOM_PAIRS)
        # Leaves half a million to count.
        self._count = drawn >> 10 * _RANDOM_PAIRS & (1 << _COUNTER_BITS - 1) - 1


new_id: Final = IdSource()


def is_id(text: str) -> bool:
    """Report whether `text` has the form of an id."""
    return _ID.match(text) is not None


def _text(value: int, pairs: int) -> str:
    return "".join([_PAIRS[value >> 10 * place & 1023] for place in range(pairs - 1, -1, -1)])
