"""The one writer: a thread that takes whatever batches wait and makes them durable together.

All batches that wait when the thread wakes share a transaction, so one wait for the disk serves them all; if
it fails, each is tried alone, so that none takes the others along. Rows go in with few statements of many
rows, since each statement costs a hand-over of the interpreter's lock. After a failed fsync nothing is
written any more: what the kernel then still has of the file is unknown.
"""

import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple

from crabtalk.errors import StoreError
from crabtalk.store.database import BUSY_MS, explained
from crabtalk.store.engine import DEFER_S, MAX_DEFERRED_BYTES, Trouble, Write

_GROUP_BYTES: Final = 64 << 20  # a transaction takes no further batch beyond this
_ROWS: Final = tuple(1 << power for power in range(8, -1, -1))  # how many rows a statement may have
# A statement keeps a copy of what it wrote last; beyond this a row has one for itself, which is emptied.
_BIG_BYTES: Final = 64 << 10

_LOG_BYTES: Final = 32 << 20  # beyond, the log is emptied, whoever reads
_LOG_WAIT_MS: Final = 200  # for readers to end their reading

_STALLED_S: Final = 10.0  # a transaction that takes longer is one that the disk does not take
_RECENT_S: Final = 60.0  # a failure is the state of things until something was written, or for so long

_log = logging.getLogger(__name__)

Finish = Callable[[StoreError | None], None]


class _Batch(NamedTuple):
    writes: Sequence[Write]
    size: int
    finish: Finish | None  # None: deferred, nobody waits


class Writer:
    """Owns the connection that writes, and the thread that uses it."""

    def __init__(self, db: sqlite3.Connection, path: Path) -> None:
        self._db = db
        self._path = path
        self._queue: list[_Batch] = []
        self._urgent = False  # somebody waits for what is in the queue
        self._deferred_since = 0.0  # monotonic, of the oldest in the queue
        self._deferred_bytes = 0
        self._deferred_failure: StoreError | None = None
        self._closing = False
        self._broken: StoreError | None = None
        self._failed: tuple[float, StoreError] | None = None  # the last group: when (monotonic), and why
        self._began: float | None = None  # monotonic, of the group that is being written
        self._log = path.with_name(path.name + "-wal")
        self._log_bound = _LOG_BYTES
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self.commits = 0
        self.batches = 0
        self.deferred_lost = 0
        self._thread = threading.Thread(target=self._run, name="crabtalk store", daemon=True)
        self._thread.start()

    def submit(self, writes: Sequence[Write], size: int, finish: Finish) -> None:
        """Queue a batch; `finish` is called in the writer's thread once it is durable, or failed.

        Raises:
            ValueError: if the store is closed.
        """
        with self._changed:
            self._open()
            self._queue.append(_Batch(writes, size, finish))
            self._urgent = True
            self._changed.notify()

    def defer(self, writes: Sequence[Write], size: int) -> None:
        """Queue a batch that nobody waits for.

        Raises:
            StoreError: if too much waits already, or nothing can be written any more.
            ValueError: if the store is closed.
        """
        with self._lock:  # a quarter of what its condition costs, and nearly always enough
            self._open()
            if self._broken is not None:
                raise self._broken
            if self._deferred_bytes + size > MAX_DEFERRED_BYTES:
                raise StoreError(f"store `{self._path}`: the disk has stalled, and too much waits for it")
            if not self._queue:
                self._deferred_since = time.monotonic()
                self._changed.notify()
            self._deferred_bytes += size
            self._queue.append(_Batch(writes, size, None))

    def lost(self) -> StoreError | None:
        """Return why deferred batches were lost since this was asked last, None if none were."""
        with self._changed:
            failure, self._deferred_failure = self._deferred_failure, None
            return failure

    def trouble(self) -> Trouble | None:
        """Say why what is written does not get into the file; None if it does."""
        broken, began, failed = self._broken, self._began, self._failed  # each is the writer's to change
        if broken is not None:
            return Trouble(str(broken), lasting=True)
        now = time.monotonic()
        if began is not None and now - began > _STALLED_S:
            text = (
                f"store `{self._path}`: the disk has stalled: a write has not ended for {now - began:.0f} s"
            )
            return Trouble(text, lasting=False)
        if failed is not None and now - failed[0] < _RECENT_S:
            return Trouble(f"{failed[1]} (the last write, {now - failed[0]:.0f} s ago)", lasting=False)
        return None

    def close(self) -> None:
        """Write what is queued, and end."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()
        self._db.close()

    def _open(self) -> None:
        if self._closing:
            raise ValueError("store is closed")

    def _run(self) -> None:
        while group := self._next_group():
            self._began = time.monotonic()
            try:
                self._write_group(group)
                if _size(self._log) > self._log_bound:
                    self._empty_log()
            except Exception as error:  # noqa: BLE001 - a thread that ended would let everybody wait for ever
                self._broken = StoreError(f"store `{self._path}`: the writer failed: {error}; please report")
                self._broken.__cause__ = error
                _log.critical("%s", self._broken, exc_info=True)
            self._began = None

    def _next_group(self) -> list[_Batch]:
        """Wait for something to write; nothing when the end has come."""
        with self._changed:
            while not self._urgent and not self._closing:
                left = self._deferred_since + DEFER_S - time.monotonic() if self._queue else None
                if left is not None and left <= 0:
                    break
                self._changed.wait(left)
            return self._take()

    def _take(self) -> list[_Batch]:
        size = taken = 0
        for batch in self._queue:
            if taken and size + batch.size > _GROUP_BYTES:
                break
            size += batch.size
            taken += 1
            self._deferred_bytes -= 0 if batch.finish else batch.size
        group, self._queue = self._queue[:taken], self._queue[taken:]
        self._urgent = any(batch.finish for batch in self._queue)
        return group

    def _write_group(self, group: list[_Batch]) -> None:
        failure = self._broken or self._try(group)
        if failure is not None and len(group) > 1:
            for batch in group:
                self._write_group([batch])
            return
        self._failed = None if failure is None else (time.monotonic(), failure)
        if failure is None:
            self.commits += 1
            self.batches += len(group)
        for batch in group:
            if batch.finish is not None:
                batch.finish(failure)
            elif failure is not None:
                self._lose(failure)

    def _empty_log(self) -> None:
        """Bring all of the log into the file; SQLite's own housekeeping cannot while readers overlap.

        Waits for those who read now, not for those who come; one that holds its moment for long is left alone
        until the log has doubled.
        """
        execute = self._db.execute
        try:
            execute(f"PRAGMA busy_timeout = {_LOG_WAIT_MS}")
            execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except sqlite3.Error as error:
            _log.warning("%s", explained(error, self._path))  # the log has it all, and the next attempt comes
        finally:
            execute(f"PRAGMA busy_timeout = {BUSY_MS}")
        self._log_bound = max(_LOG_BYTES, 2 * _size(self._log))

    def _lose(self, failure: StoreError) -> None:
        self.deferred_lost += 1
        with self._changed:
            first, self._deferred_failure = self._deferred_failure is None, failure
        if first:
            _log.error("deferred rows are lost: %s", failure)

    def _try(self, group: list[_Batch]) -> StoreError | None:
        """Make a group durable as a whole, or return why it is not there at all."""
        try:
            self._transact(chain.from_iterable(batch.writes for batch in group))
        except sqlite3.Error as error:
            failure = explained(error, self._path)
            if getattr(error, "sqlite_errorname", "").endswith("FSYNC"):
                self._break(failure)
            return failure
        except Exception as error:  # noqa: BLE001 - whatever it is, somebody waits for an answer
            _log.exception("the writer of the store failed")
            failure = StoreError(f"store `{self._path}`: {type(error).__name__} in the writer: {error}")
            failure.__cause__ = error
            return failure
        return None

    def _break(self, failure: StoreError) -> None:
        self._broken = StoreError(
            f"store `{self._path}`: an fsync failed, so what the disk holds is unknown and nothing more is "
            "written; look after the disk, then start again"
        )
        self._broken.__cause__ = failure
        _log.critical("%s", self._broken)

    def _transact(self, writes: Iterator[Write]) -> None:
        statements = list(_statements(writes))
        execute = self._db.execute
        if len(statements) == 1:  # is a transaction by itself: one hand-over instead of three
            execute(*statements[0])
            return
        execute("BEGIN IMMEDIATE")
        try:
            for sql, values in statements:
                execute(sql, values)
            execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):  # a failed COMMIT may have rolled back by itself
                execute("ROLLBACK")
            raise


def _statements(writes: Iterator[Write]) -> Iterator[tuple[str, Sequence[bytes | None]]]:
    """Yield what makes a group's writes: of one key only the last counts, and the order is free."""
    last = {(column, key): value for column, key, value in writes}
    puts: dict[str, list[bytes]] = {}
    deletes: dict[str, list[bytes]] = {}
    for (column, key), value in sorted(last.items()):  # neighbours share pages
        if value is None:
            deletes.setdefault(column, []).append(key)
        elif len(value) > _BIG_BYTES:
            yield _put_big(column), (key, value)
            yield _put_big(column), (b"", None)
        else:
            puts.setdefault(column, []).extend((key, value))
    for column, values in puts.items():
        yield from _pieces(_put, column, values, 2)
    for column, values in deletes.items():
        yield from _pieces(_delete, column, values, 1)


def _pieces(
    make: Callable[[str, int], str], column: str, values: list[bytes], width: int
) -> Iterator[tuple[str, Sequence[bytes]]]:
    """Cut rows into statements of few different lengths, so that they are compiled once."""
    start, left = 0, len(values) // width
    for rows in _ROWS:
        while left >= rows:
            yield make(column, rows), values[start : start + rows * width]
            start += rows * width
            left -= rows


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


@cache
def _put(column: str, rows: int) -> str:
    values = ",".join(["(?,?)"] * rows)
    return f"REPLACE INTO {column} VALUES {values}"  # noqa: S608 - a column's name


@cache
def _put_big(column: str) -> str:
    # With a NULL it does nothing but forget the value it had before.
    return f"REPLACE INTO {column} SELECT ?1, ?2 WHERE ?2 IS NOT NULL"


@cache
def _delete(column: str, rows: int) -> str:
    return f"DELETE FROM {column} WHERE key IN ({','.join('?' * rows)})"  # noqa: S608 - as in _put
