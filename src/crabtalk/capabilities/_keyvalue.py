"""Where the values of `berm.get` and `berm.set` are kept: a small protocol, in memory and in a file.

A `KeyValue` is one owner's namespace. Its quota is checked inside the same step that stores, so that two
writers cannot pass it together. The file is SQLite's, which is crash safe by itself and one file when it is
at rest. Nothing here knows of requests.
"""

import bisect
import os
import sqlite3
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Protocol, Self

# Charged for each entry beside its key and value, so that a quota bounds tiny entries too; picked, not
# measured.
ENTRY_BYTES: Final = 64

_APPLICATION_ID: Final = 0x43726162  # "Crab", in the header of the file
# Word for word what SQLite keeps of them.
_TABLES: Final = (
    """CREATE TABLE entry (
        owner TEXT NOT NULL, key BLOB NOT NULL, value BLOB NOT NULL, PRIMARY KEY (owner, key)
    ) WITHOUT ROWID""",
    """CREATE TABLE usage (owner TEXT PRIMARY KEY, bytes INTEGER NOT NULL) WITHOUT ROWID""",
)
_BUSY_S: Final = 10.0  # other processes may hold the file for one transaction each


class StorageError(Exception):
    """The store itself does not work: the disk is full, the file is damaged or locked."""


class KeyValue(Protocol):
    """One owner's values by key; every method is atomic, and safe in any thread."""

    def get(self, key: bytes) -> bytes | None:
        """Return the value, None if there is none."""

    def set(self, key: bytes, value: bytes, quota_bytes: int) -> bool:
        """Store, unless the owner would hold more than `quota_bytes` then; report whether it was stored."""

    def delete(self, key: bytes) -> bool:
        """Remove, and report whether there was something."""

    def keys(self, prefix: bytes, after: bytes, limit: int) -> list[bytes]:
        """Return at most `limit` keys that start with `prefix` and are greater than `after`, ascending."""


def cost_bytes(key: bytes, value: bytes) -> int:
    """Return what an entry counts towards the quota."""
    return len(key) + len(value) + ENTRY_BYTES


def fits(used_bytes: int, old: int, new: int, quota_bytes: int) -> bool:
    """Decide whether an entry may grow from `old` to `new`; one that shrinks always may."""
    return new <= old or used_bytes - old + new <= quota_bytes


class MemoryKeyValue:
    """Values that last as long as this object."""

    def __init__(self) -> None:
        self._values: dict[bytes, bytes] = {}
        self._order: list[bytes] = []  # the keys, ascending
        self._used_bytes = 0
        self._lock = threading.Lock()

    def get(self, key: bytes) -> bytes | None:
        """Return the value, None if there is none."""
        with self._lock:
            return self._values.get(key)

    def set(self, key: bytes, value: bytes, quota_bytes: int) -> bool:
        """Store, unless the quota is in the way; report whether it was stored."""
        with self._lock:
            old = self._cost(key)
            new = cost_bytes(key, value)
            if not fits(self._used_bytes, old, new, quota_bytes):
                return False
            if key not in self._values:
                bisect.insort(self._order, key)
            self._values[key] = value
            self._used_bytes += new - old
            return True

    def delete(self, key: bytes) -> bool:
        """Remove, and report whether there was something."""
        with self._lock:
            if key not in self._values:
                return False
            self._used_bytes -= self._cost(key)
            del self._values[key]
            del self._order[bisect.bisect_left(self._order, key)]
            return True

    def keys(self, prefix: bytes, after: bytes, limit: int) -> list[bytes]:
        """Return at most `limit` keys with `prefix` beyond `after`."""
        with self._lock:
            start = max(bisect.bisect_right(self._order, after), bisect.bisect_left(self._order, prefix))
            page = self._order[start : start + limit]
            return [key for key in page if key.startswith(prefix)]

    def _cost(self, key: bytes) -> int:
        old = self._values.get(key)
        return 0 if old is None else cost_bytes(key, old)


class KeyValueFile:
    """A file that holds the namespaces of any number of owners; several processes may use it at once."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Open the file, or make it, for this user only.

        Raises:
            ValueError: if it cannot be opened or is some other file.
        """
        self.path = Path(path)
        try:
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        except (OSError, ValueError) as error:
            raise ValueError(f"storage `{path}`: {_reason(error)}") from error
        self._db = sqlite3.connect(
            self.path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False, cached_statements=16
        )
        self._close = weakref.finalize(self, self._db.close)
        self._lock = threading.Lock()
        try:
            self._prepare()
        except (sqlite3.Error, StorageError, ValueError) as error:
            self._close()
            raise ValueError(f"storage `{path}`: {_reason(error)}") from error

    def close(self) -> None:
        """Close the file; its namespaces raise afterwards."""
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def namespace(self, name: str) -> "FileKeyValue":
        """Return the values of one owner."""
        return FileKeyValue(self, name)

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Cursor]:
        """Hold the file for writing; what the body did happens as a whole or not at all.

        Raises:
            StorageError: if the file does not work.
        """
        with self._lock:
            try:
                cursor = self._db.cursor()
                cursor.execute("BEGIN IMMEDIATE")
                try:
                    yield cursor
                    cursor.execute("COMMIT")
                except BaseException:
                    with suppress(sqlite3.Error):  # a failed COMMIT may have rolled back by itself
                        cursor.execute("ROLLBACK")
                    raise
            except sqlite3.Error as error:
                raise StorageError(_reason(error)) from error

    def rows(self, query: str, *values: object) -> list[tuple[object, ...]]:
        """Run one query.

        Raises:
            StorageError: if the file does not work.
        """
        with self._lock:
            try:
                return self._db.execute(query, values).fetchall()
            except sqlite3.Error as error:
                raise StorageError(_reason(error)) from error

    def _prepare(self) -> None:
        # In this order: whoever makes the file meanwhile sets both in one transaction.
        tables = self._schema()
        (found,) = self._db.execute("PRAGMA application_id").fetchone()
        if tables and found != _APPLICATION_ID:
            raise ValueError("is a database of another program")
        self._db.execute("PRAGMA trusted_schema = OFF")
        # Sent to the disk before a commit returns: nothing acknowledged is lost. The log beside the file
        # makes that one wait for the disk instead of three, and is gone when the last user closed the file.
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        with self.transaction() as cursor:
            if not self._schema():
                cursor.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
                for table in _TABLES:
                    cursor.execute(table)
        # A file that somebody else could write may hold views and triggers, which are programs.
        if self._schema() != set(_TABLES):
            raise ValueError("has tables of another making")

    def _schema(self) -> set[str]:
        rows = self._db.execute("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL").fetchall()
        return {str(sql) for (sql,) in rows}


class FileKeyValue:
    """One owner's values in a file."""

    def __init__(self, file: KeyValueFile, owner: str) -> None:
        self._file = file
        self._owner = owner

    def get(self, key: bytes) -> bytes | None:
        """Return the value, None if there is none."""
        rows = self._file.rows("SELECT value FROM entry WHERE owner = ? AND key = ?", self._owner, key)
        return _bytes(rows[0][0]) if rows else None

    def set(self, key: bytes, value: bytes, quota_bytes: int) -> bool:
        """Store, unless the quota is in the way; report whether it was stored."""
        new = cost_bytes(key, value)
        with self._file.transaction() as cursor:
            old = self._cost(cursor, key)
            if not fits(self._used_bytes(cursor), old, new, quota_bytes):
                return False
            cursor.execute(
                "INSERT INTO entry VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET value = excluded.value",
                (self._owner, key, value),
            )
            self._charge(cursor, new - old)
        return True

    def delete(self, key: bytes) -> bool:
        """Remove, and report whether there was something."""
        with self._file.transaction() as cursor:
            old = self._cost(cursor, key)
            if old:
                cursor.execute("DELETE FROM entry WHERE owner = ? AND key = ?", (self._owner, key))
                self._charge(cursor, -old)
        return bool(old)

    def keys(self, prefix: bytes, after: bytes, limit: int) -> list[bytes]:
        """Return at most `limit` keys with `prefix` beyond `after`."""
        query = "SELECT key FROM entry WHERE owner = ? AND key >= ? AND key > ? ORDER BY key LIMIT ?"
        keys = [_bytes(row[0]) for row in self._file.rows(query, self._owner, prefix, after, limit)]
        return [key for key in keys if key.startswith(prefix)]

    def _cost(self, cursor: sqlite3.Cursor, key: bytes) -> int:
        row = cursor.execute(
            "SELECT length(value) FROM entry WHERE owner = ? AND key = ?", (self._owner, key)
        ).fetchone()
        return len(key) + int(row[0]) + ENTRY_BYTES if row else 0

    def _used_bytes(self, cursor: sqlite3.Cursor) -> int:
        row = cursor.execute("SELECT bytes FROM usage WHERE owner = ?", (self._owner,)).fetchone()
        return int(row[0]) if row else 0

    def _charge(self, cursor: sqlite3.Cursor, more_bytes: int) -> None:
        cursor.execute(
            "INSERT INTO usage VALUES (?, ?) ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes",
            (self._owner, more_bytes),
        )


def _bytes(value: object) -> bytes:
    if not isinstance(value, bytes):
        raise StorageError("the file holds what no store wrote")
    return value


def _reason(error: Exception) -> str:
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return text.lower()
