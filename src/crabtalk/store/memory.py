"""The engine of tests and of throw-away daemons: the same contract, and nothing outlives the process."""

import threading
import time
from collections.abc import Sequence
from typing import Final

import trio
from sortedcontainers import SortedDict

from crabtalk.store.engine import COLUMNS, DEFER_S, Statistics, Trouble, Write, checked, checked_column

FORMAT_VERSION: Final = 0  # nothing is ever read back


class MemoryEngine:
    """Everything in ordered dictionaries behind one lock."""

    def __init__(self) -> None:
        self._columns = {column: SortedDict() for column in COLUMNS}
        self._deferred: list[Write] = []
        self._deferred_batches = 0
        self._deferred_since = 0.0  # monotonic, of the oldest
        self._commits = 0
        self._batches = 0
        self._closed = False
        self._lock = threading.RLock()

    def get(self, column: str, key: bytes) -> bytes | None:
        """Return the value, None if there is none."""
        with self._lock:
            value: bytes | None = self._column(column).get(key)
            return value

    def scan_keys(
        self, column: str, prefix: bytes = b"", after: bytes | None = None, limit: int = 1000
    ) -> list[bytes]:
        """Return up to `limit` keys that start with `prefix` and are greater than `after`, ascending."""
        return [key for key, _ in self.scan(column, prefix, after, limit)]

    def scan(
        self, column: str, prefix: bytes = b"", after: bytes | None = None, limit: int = 1000
    ) -> list[tuple[bytes, bytes]]:
        """As `scan_keys`, with the values."""
        with self._lock:
            ordered = self._column(column)
            found: list[tuple[bytes, bytes]] = []
            if limit <= 0:
                return found
            beyond = after is not None and after >= prefix
            for key in ordered.irange(after if beyond else prefix, inclusive=(not beyond, True)):
                if not key.startswith(prefix) or len(found) == limit:
                    break
                found.append((key, ordered[key]))
            return found

    def apply(self, batch: Sequence[Write]) -> None:
        """Make all of `batch` visible, or none of it."""
        checked(batch)
        with self._lock:
            self._settle(now=True)
            self._write(batch)
            self._commits += 1
            self._batches += 1

    async def commit(self, batch: Sequence[Write]) -> None:
        """As `apply`, from trio.

        **Cancellation:** the batch is written all the same.
        """
        self.apply(batch)
        await trio.lowlevel.cancel_shielded_checkpoint()

    def defer(self, batch: Sequence[Write]) -> None:
        """Take `batch` along with the next commit, at most 100 ms later."""
        checked(batch)
        with self._lock:
            self._settle()
            if not self._deferred:
                self._deferred_since = time.monotonic()
            self._deferred.extend(batch)
            self._deferred_batches += 1

    def flush(self) -> None:
        """Make everything deferred visible."""
        with self._lock:
            self._settle(now=True)

    def trouble(self) -> Trouble | None:
        """Say that all is well: there is no disk."""
        return None

    def statistics(self) -> Statistics:
        """Count what is there."""
        with self._lock:
            self._settle()
            sizes = {column: sum(map(len, ordered.values())) for column, ordered in self._columns.items()}
            return Statistics(
                format_version=FORMAT_VERSION,
                size_bytes=sum(sizes.values()),
                keys={column: len(ordered) for column, ordered in self._columns.items()},
                bytes=sizes,
                commits=self._commits,
                batches=self._batches,
            )

    def check(self) -> list[str]:
        """Return nothing: there is no file that could be damaged."""
        with self._lock:
            self._settle()
            return []

    def close(self) -> None:
        """Let go of everything; every call after is a ValueError."""
        with self._lock:
            self._closed = True
            self._columns = {column: SortedDict() for column in COLUMNS}

    def _column(self, column: str) -> "SortedDict[bytes, bytes]":
        self._settle()
        return self._columns[checked_column(column)]

    def _settle(self, *, now: bool = False) -> None:
        """Write what was deferred long enough ago."""
        if self._closed:
            raise ValueError("store is closed")
        if self._deferred and (now or time.monotonic() - self._deferred_since >= DEFER_S):
            self._write(self._deferred)
            self._commits += 1
            self._batches += self._deferred_batches
            self._deferred = []
            self._deferred_batches = 0

    def _write(self, batch: Sequence[Write]) -> None:
        for column, key, value in batch:
            if value is None:
                self._columns[column].pop(key, None)
            else:
                self._columns[column][key] = value
