"""Puts a backup in the place of a store; what was there is kept beside it.

The caller holds the lock on the home. At every moment there is one complete store under the store's name.
"""

import itertools
import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

from crabtalk.errors import StoreError
from crabtalk.store import database

_HOLDER_WAIT_MS: Final = 500
_UNREADABLE: Final = frozenset({"SQLITE_NOTADB", "SQLITE_CORRUPT"})


def restore(source: Path, path: Path) -> Path | None:
    """Let `path` be what `source` is; return where the store that was there is now, None if none was.

    Raises:
        StoreError: if the source is no healthy store, or somebody has the store open; nothing changed then.
    """
    fresh = path.with_name(path.name + ".restored")
    fresh.unlink(missing_ok=True)
    try:
        _copy(source, fresh)
        kept = _set_aside(path) if path.exists() else None
        fresh.replace(path)
        database.sync_directory(path.parent)
    except OSError as error:
        raise database.explained(error, path) from error
    finally:
        fresh.unlink(missing_ok=True)
    return kept


def _copy(source: Path, fresh: Path) -> None:
    if not source.exists():
        raise StoreError(f"`{source}` is not there")
    try:
        with closing(database.connect(source, writes=False)) as db:
            if database.verify(db, source) == 0:
                raise StoreError(f"`{source}` holds no store")
            database.copy(db, fresh)
    except sqlite3.Error as error:
        raise database.explained(error, source) from error


def _set_aside(path: Path) -> Path:
    """Give the store that is there a second name, and leave no log that a new one would take for its own."""
    names = (path.with_name(f"{path.name}.before-{n}") for n in itertools.count(1))
    kept = next(name for name in names if not name.exists())
    log, kept_log = Path(f"{path}-wal"), Path(f"{kept}-wal")
    with suppress(FileNotFoundError):
        os.link(log, kept_log)  # SQLite deletes it if it cannot make sense of the file
    is_whole = True
    try:
        is_whole = _without_log(path)
    finally:
        if is_whole:
            kept_log.unlink(missing_ok=True)
    log.unlink(missing_ok=True)
    Path(f"{path}-shm").unlink(missing_ok=True)
    os.link(path, kept)
    return kept


def _without_log(path: Path) -> bool:
    """Bring what is in the log into the file, and report whether that could be; a damaged file stays.

    Raises:
        StoreError: if somebody has it open.
    """
    try:
        with closing(database.connect(path, writes=True)) as db:
            db.execute(f"PRAGMA busy_timeout = {_HOLDER_WAIT_MS}")
            db.execute("PRAGMA journal_mode = DELETE")  # fails while anybody else has it open
    except sqlite3.Error as error:
        name = getattr(error, "sqlite_errorname", "")
        if name.startswith("SQLITE_BUSY"):
            raise StoreError(f"store `{path}`: is in use: stop the daemon first") from error
        if name not in _UNREADABLE:
            raise database.explained(error, path) from error
        return False
    return True
