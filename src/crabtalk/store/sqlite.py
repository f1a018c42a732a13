"""The engine of the daemon: one SQLite file, many readers, one writer.

Readers take a connection from a small pool, so that any thread may read and the loop pays no hand-over; the
log of the file gives each statement its own snapshot. Everything that writes goes through `Writer`.
"""

import sqlite3
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final, Self

import trio

from crabtalk.errors import StoreError
from crabtalk.store import database
from crabtalk.store.engine import (
    COLUMNS,
    MAX_KEY_BYTES,
    Statistics,
    Trouble,
    Write,
    checked,
    checked_column,
    end_of,
)
from crabtalk.store.writer import Writer

_IDLE_READERS: Final = 8  # more are closed after use
_BEYOND: Final = b"\xff" * (MAX_KEY_BYTES + 1)  # greater than every key


class _Rows(ABC):
    """Reads entries with whatever runs a query."""

    def get(self, column: str, key: bytes) -> bytes | None:
        """Return the value, None if there is none."""
        rows = self._read(_get(column), (key,))
        return _blob(rows[0][0]) if rows else None

    def scan_keys(
        self, column: str, prefix: bytes = b"", after: bytes | None = None, limit: int = 1000
    ) -> list[bytes]:
        """Return up to `limit` keys that start with `prefix` and are greater than `after`, ascending."""
        rows = self._read(_scan(column, "key"), _bounds(prefix, after, limit))
        return [_blob(key) for (key,) in rows]

    def scan(
        self, column: str, prefix: bytes = b"", after: bytes | None = None, limit: int = 1000
    ) -> list[tuple[bytes, bytes]]:
        """As `scan_keys`, with the values; one snapshot."""
        rows = self._read(_scan(column, "key, value"), _bounds(prefix, after, limit))
        return [(_blob(key), _blob(value)) for key, value in rows]

    @abstractmethod
    def _read(self, sql: str, values: tuple[object, ...]) -> list[tuple[Any, ...]]:
        """Run one query.

        Raises:
            StoreError: if it does not work.
        """


class Snapshot(_Rows):
    """All that was there at one moment, for as long as it is held."""

    def __init__(self, db: sqlite3.Connection, path: Path) -> None:
        self._db = db
        self._path = path

    def _read(self, sql: str, values: tuple[object, ...]) -> list[tuple[Any, ...]]:
        try:
            return self._db.execute(sql, values).fetchall()
        except sqlite3.Error as error:
            raise database.explained(error, self._path) from error


class SqliteEngine(_Rows):
    """A file that one process writes; others may look at it, with `read_only`."""

    def __init__(
        self,
        path: Path | str,
        *,
        create: bool = True,
        read_only: bool = False,
        format: database.Format = database.CURRENT,  # noqa: A002 - it is the format of the file
    ) -> None:
        """Open the file; with `create` make it if it is not there.

        Raises:
            StoreError: if it cannot be used.
        """
        self.path = Path(path)
        self._format = format
        self._readers: deque[sqlite3.Connection] = deque()
        self._closed = False
        if create and not read_only:
            database.create(self.path)
        elif not self.path.exists():
            raise StoreError(f"store `{self.path}`: is not there yet; the daemon makes it, or a restore")
        try:
            db = database.connect(self.path, writes=not read_only)
        except (sqlite3.Error, ValueError) as error:
            raise database.explained(error, self.path) from error
        try:
            self._writer = self._prepared(db, read_only=read_only)
        except BaseException as error:
            db.close()
            if isinstance(error, sqlite3.Error):
                raise database.explained(error, self.path) from error
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def apply(self, batch: Sequence[Write]) -> None:
        """Make all of `batch` durable, or none of it; blocks the thread."""
        waiter = _ThreadWaiter()
        self._writing().submit(batch, checked(batch), waiter.finish)
        waiter.wait()

    async def commit(self, batch: Sequence[Write]) -> None:
        """As `apply`, from trio: batches that arrive together share one fsync.

        **Cancellation:** once called the batch is on its way and is waited for, shielded: it is milliseconds.
        """
        waiter = _TaskWaiter()
        self._writing().submit(batch, checked(batch), waiter.finish)
        await waiter.wait()

    def defer(self, batch: Sequence[Write]) -> None:
        """Take `batch` along with the next commit, at most 100 ms later; lost if power goes first."""
        self._writing().defer(batch, checked(batch))

    def flush(self) -> None:
        """Make everything deferred durable; blocks the thread.

        Raises:
            StoreError: if some of what was deferred since the last flush was lost.
        """
        self.apply([])
        lost = self._writing().lost()
        if lost is not None:
            raise lost

    def trouble(self) -> Trouble | None:
        """Say why what is written does not get into the store; None if it does. Never waits for the disk."""
        return self._writer.trouble() if self._writer is not None else None

    def statistics(self) -> Statistics:
        """Count what is there; reads the whole store."""
        rows = self._read(_COUNT, ())
        writer = self._writer
        return Statistics(
            format_version=self._format.version,
            size_bytes=sum(_size(Path(f"{self.path}{end}")) for end in ("", "-wal")),
            keys={column: int(count) for column, count, _ in rows},
            bytes={column: int(size) for column, _, size in rows},
            commits=writer.commits if writer else 0,
            batches=writer.batches if writer else 0,
            deferred_lost=writer.deferred_lost if writer else 0,
        )

    def check(self) -> list[str]:
        """Return what is wrong with the file, in sentences; empty when nothing is."""
        db = self._reader()
        try:
            problems = database.integrity(db)
            database.verify(db, self.path, self._format)
            problems += [
                f"column {column} holds {count} entries that no store wrote"
                for column, count in db.execute(_MISFITS).fetchall()
                if count
            ]
        except StoreError as error:
            problems.append(str(error))
        except sqlite3.Error as error:
            problems = [str(database.explained(error, self.path))]
        finally:
            self._put_back(db)
        return problems

    @contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        """Hold one moment for many reads; others go on writing meanwhile, into a log that grows.

        Raises:
            StoreError: if it does not work.
        """
        db = self._reader()
        try:
            db.execute("BEGIN")
            db.execute(
                "SELECT count(*) FROM sqlite_schema"
            ).fetchone()  # the moment is that of the first read
            yield Snapshot(db, self.path)
            db.execute("ROLLBACK")
        except sqlite3.Error as error:
            raise database.explained(error, self.path) from error
        finally:
            db.close()

    def backup(self, target: Path | str) -> None:
        """Write all that is there now into a new file; others go on reading and writing meanwhile.

        Raises:
            StoreError: if the target is there already, or it does not work; the target is not there then.
        """
        if self._writer is not None:
            self.flush()
        db = self._reader()
        try:
            database.copy(db, Path(target))
        except (OSError, sqlite3.Error) as error:
            raise database.explained(error, Path(target)) from error
        finally:
            self._put_back(db)

    def close(self) -> None:
        """Flush and let go; every call after is a ValueError."""
        if self._closed:
            return
        self._closed = True
        self._close_readers()
        if self._writer is not None:
            self._writer.close()

    def _prepared(self, db: sqlite3.Connection, *, read_only: bool) -> Writer | None:
        if not read_only:
            database.prepare(db, self.path, self._format)
            return Writer(db, self.path)
        version = database.verify(db, self.path, self._format)
        if version != self._format.version:
            raise StoreError(f"store `{self.path}`: has format {version}; the daemon brings it up to date")
        self._readers.append(db)
        return None

    def _writing(self) -> Writer:
        if self._closed:
            raise ValueError("store is closed")
        if self._writer is None:
            raise StoreError(f"store `{self.path}`: is open for reading only")
        return self._writer

    def _read(self, sql: str, values: tuple[object, ...]) -> list[tuple[Any, ...]]:
        db = self._reader()
        try:
            return db.execute(sql, values).fetchall()
        except sqlite3.Error as error:
            raise database.explained(error, self.path) from error
        finally:
            self._put_back(db)

    def _reader(self) -> sqlite3.Connection:
        if self._closed:
            raise ValueError("store is closed")
        try:
            return self._readers.pop()
        except IndexError:
            pass
        try:
            return database.connect(self.path, writes=False)
        except sqlite3.Error as error:
            raise database.explained(error, self.path) from error

    def _put_back(self, db: sqlite3.Connection) -> None:
        if len(self._readers) >= _IDLE_READERS:
            db.close()
            return
        self._readers.append(db)
        if self._closed:  # meanwhile
            self._close_readers()

    def _close_readers(self) -> None:
        while self._readers:
            self._readers.pop().close()


class _ThreadWaiter:
    """A thread that waits for its batch."""

    def __init__(self) -> None:
        self._done = threading.Event()
        self._failure: StoreError | None = None

    def finish(self, failure: StoreError | None) -> None:
        self._failure = failure
        self._done.set()

    def wait(self) -> None:
        self._done.wait()
        if self._failure is not None:
            raise self._failure


class _TaskWaiter:
    """A task that waits for its batch, whatever is cancelled meanwhile."""

    def __init__(self) -> None:
        self._task = trio.lowlevel.current_task()
        self._token = trio.lowlevel.current_trio_token()
        self._failure: StoreError | None = None

    def finish(self, failure: StoreError | None) -> None:
        self._failure = failure
        try:
            self._token.run_sync_soon(trio.lowlevel.reschedule, self._task)
        except trio.RunFinishedError:  # the loop was torn down around the task
            return

    async def wait(self) -> None:
        await trio.lowlevel.wait_task_rescheduled(lambda _: trio.lowlevel.Abort.FAILED)
        if self._failure is not None:
            raise self._failure


def _blob(value: object) -> bytes:
    if not isinstance(value, bytes):
        raise StoreError("the store holds what no store wrote; restore a backup")
    return value


def _bounds(prefix: bytes, after: bytes | None, limit: int) -> tuple[bytes, bytes, int]:
    start = prefix if after is None else max(prefix, after + b"\0")
    return start, end_of(prefix) or _BEYOND, max(limit, 0)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


# Columns are checked names.


@cache
def _get(column: str) -> str:
    return f"SELECT value FROM {checked_column(column)} WHERE key = ?"  # noqa: S608


@cache
def _scan(column: str, what: str) -> str:
    known = checked_column(column)
    return f"SELECT {what} FROM {known} WHERE key >= ? AND key < ? ORDER BY key LIMIT ?"  # noqa: S608


_COUNT: Final = " UNION ALL ".join(
    f"SELECT '{column}', count(*), coalesce(sum(length(value)), 0) FROM {column}"  # noqa: S608
    for column in COLUMNS
)
_MISFITS: Final = " UNION ALL ".join(
    f"SELECT '{column}', count(*) FROM {column} WHERE typeof(key) != 'blob' "  # noqa: S608
    f"OR typeof(value) != 'blob' OR length(key) NOT BETWEEN 1 AND {MAX_KEY_BYTES}"
    for column in COLUMNS
)
