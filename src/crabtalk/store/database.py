"""The file: how it is opened, what makes it ours, which format it has, and what its errors mean.

Nothing here reads or writes an entry. A file of a newer format is refused, one of an older format is copied
and then brought up in one transaction; a file with other tables, views or triggers is not ours.

The file is never opened other than by SQLite while it may be in use: closing any descriptor of it would drop
the locks that the whole process holds on it.
"""

import os
import sqlite3
import sys
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from crabtalk.errors import StoreError
from crabtalk.store.engine import COLUMNS

APPLICATION_ID: Final = 0x43725374  # "CrSt", in the header of the file
FORMAT_VERSION: Final = 1
BUSY_MS: Final = 10_000  # another process may look at the file: check, backup
_LOG_LIMIT_BYTES: Final = 64 << 20  # what the log beside the file shrinks to after a large batch

_HINTS: Final = {
    "SQLITE_FULL": "make room on the disk",
    "SQLITE_NOTADB": "restore a backup",
    "SQLITE_CORRUPT": "restore a backup",
    "SQLITE_BUSY": "another process holds it",
    "SQLITE_CANTOPEN": "check that its directory is there and yours",
    "SQLITE_READONLY": "check that the file and its directory can be written",
    "SQLITE_IOERR": "the disk failed, or took no more",
    "SQLITE_PERM": "check that the file is yours",
}


def table_of(column: str) -> str:
    """Return the statement that makes a column's table; word for word what SQLite keeps of it."""
    return f"CREATE TABLE {column} (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID"


@dataclass(frozen=True)
class Format:
    """What a program takes for current, and how it gets there from before."""

    version: int = FORMAT_VERSION
    tables: frozenset[str] = frozenset(map(table_of, COLUMNS))
    # From this version to the next, inside the transaction that says so.
    upgrades: Mapping[int, Callable[[sqlite3.Connection], None]] = field(default_factory=dict)


CURRENT: Final = Format()


def create(path: Path) -> None:
    """Make an empty file for this user only, unless there is one.

    Raises:
        StoreError: if it cannot be made.
    """
    try:
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            sync_directory(path.parent)
        path.chmod(0o600)
    except (OSError, ValueError) as error:
        raise StoreError(f"store `{path}`: {_system_reason(error)}") from error


def connect(path: Path, *, writes: bool) -> sqlite3.Connection:
    """Open an existing file.

    Raises:
        sqlite3.Error: if it cannot be opened.
    """
    db = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw",
        uri=True,
        timeout=BUSY_MS / 1000,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=256,
    )
    try:
        db.execute("PRAGMA trusted_schema = OFF")
        # Sent to the disk before a commit returns.
        db.execute("PRAGMA synchronous = FULL")
        if sys.platform == "darwin":  # untested; fsync leaves it in the disk's own memory there
            db.execute("PRAGMA fullfsync = ON")
            db.execute("PRAGMA checkpoint_fullfsync = ON")
        db.execute(f"PRAGMA journal_size_limit = {_LOG_LIMIT_BYTES}")
        if not writes:
            db.execute("PRAGMA query_only = ON")
    except BaseException:
        db.close()
        raise
    return db


def prepare(db: sqlite3.Connection, path: Path, wanted: Format = CURRENT) -> None:
    """Make a new file ours, bring an old one up to date.

    Raises:
        StoreError: if it is newer, or not ours.
        sqlite3.Error: if it does not work.
    """
    version = verify(db, path, wanted)
    # The log makes a commit one wait for the disk instead of three, and lets readers go on meanwhile.
    db.execute("PRAGMA journal_mode = WAL")
    if version == 0:
        with _transaction(db):
            for table in sorted(wanted.tables):
                db.execute(table)
            db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            db.execute(f"PRAGMA user_version = {wanted.version}")
    elif version < wanted.version:
        _upgrade(db, path, version, wanted)


def verify(db: sqlite3.Connection, path: Path, wanted: Format = CURRENT) -> int:
    """Return the format of a file, 0 if it is empty.

    Raises:
        StoreError: if it is newer than `wanted`, or not ours.
        sqlite3.Error: if it does not work.
    """
    (application,) = db.execute("PRAGMA application_id").fetchone()
    (version,) = db.execute("PRAGMA user_version").fetchone()
    found = schema(db)
    if not found and not application:
        return 0
    if application != APPLICATION_ID:
        raise StoreError(f"store `{path}`: is a database of another program")
    if version > wanted.version:
        raise StoreError(
            f"store `{path}`: has format {version}, and this program knows formats up to {wanted.version}: "
            "use the program that wrote it or a newer one, or restore a backup"
        )
    # A file that somebody else could write may hold views and triggers, which are programs.
    if version == wanted.version and found != wanted.tables:
        raise StoreError(f"store `{path}`: has tables of another making; restore a backup")
    return int(version)


def schema(db: sqlite3.Connection) -> set[str]:
    """Return the statements that would make the file's tables and whatever else it defines."""
    rows = db.execute("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL").fetchall()
    return {str(sql) for (sql,) in rows}


def copy(db: sqlite3.Connection, target: Path) -> None:
    """Write what `db` holds now into a new file, complete and on the disk before it has its name.

    Raises:
        StoreError: if the target is there already.
        OSError, sqlite3.Error: if it does not work.
    """
    if target.exists():
        raise StoreError(f"`{target}` is there already")
    partial = target.with_name(target.name + ".partial")
    partial.unlink(missing_ok=True)
    try:
        os.close(os.open(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        with closing(sqlite3.connect(partial, isolation_level=None)) as copied:
            db.backup(copied)
            copied.execute("PRAGMA journal_mode = DELETE")  # one file, without a log beside it
            problems = integrity(copied)
        if problems:
            raise StoreError(f"the copy of the store is damaged: {problems[0]}")
        _sync(partial)
        partial.rename(target)
    finally:
        partial.unlink(missing_ok=True)
    sync_directory(target.parent)


def integrity(db: sqlite3.Connection) -> list[str]:
    """Return what SQLite finds wrong with a file, at most 100 sentences.

    Raises:
        sqlite3.Error: if it cannot even look.
    """
    rows = db.execute("PRAGMA integrity_check(100)").fetchall()
    return [] if rows == [("ok",)] else [str(text) for (text,) in rows]


def sync_directory(path: Path) -> None:
    """Make the names in a directory survive power loss."""
    _sync(path)


def explained(error: Exception, path: Path) -> StoreError:
    """Return what an error of SQLite or of the system means, and what to do."""
    if not isinstance(error, sqlite3.Error):
        return StoreError(f"store `{path}`: {_system_reason(error)}")
    name: str = getattr(error, "sqlite_errorname", "")
    hint = next((text for start, text in _HINTS.items() if name.startswith(start)), "")
    return StoreError(f"store `{path}`: {str(error).lower()}" + (f"; {hint}" if hint else ""))


def _upgrade(db: sqlite3.Connection, path: Path, version: int, wanted: Format) -> None:
    kept = path.with_name(f"{path.name}.format-{version}")
    if not kept.exists():  # else an earlier attempt made it, of the same content
        copy(db, kept)
    with _transaction(db):
        for step in range(version, wanted.version):
            if step not in wanted.upgrades:
                raise StoreError(f"store `{path}`: nothing here brings format {step} up to date")
            wanted.upgrades[step](db)
        db.execute(f"PRAGMA user_version = {wanted.version}")
        verify(db, path, wanted)


class _transaction:  # noqa: N801 - used as a statement
    """All of the body, or nothing; nobody else writes meanwhile."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def __enter__(self) -> None:
        self._db.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self._db.execute("COMMIT")
        else:
            self._db.execute("ROLLBACK")


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _system_reason(error: Exception) -> str:
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return text.lower()
