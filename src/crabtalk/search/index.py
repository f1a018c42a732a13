"""The index: an FTS5 table in a file of its own, made from what the store holds and thrown away at will.

It is beside the store and not in it, since it may be lost: whatever is wrong with the file, it is made anew.
One row for each message, in a column for each role, so that roles weigh differently; the number of a row is
the session's number and the message's index. Text goes in as folded words, since excerpts are taken from the
store. Any thread may ask; one at a time changes something.
"""

import contextlib
import logging
import sqlite3
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from crabtalk.errors import StoreError
from crabtalk.search.words import Term
from crabtalk.store.interfaces.sessions import SessionRecord

logger = logging.getLogger(__name__)

APPLICATION_ID: Final = 0x43725365  # "CrSe"
FORMAT: Final = 1
# How many messages are ranked: of more that match, those of the sessions that came last. A match costs about
# 2 us, and words that are in so many messages tell little; see bench/bench_search.py.
RANKED: Final = 2000
_SHIFT: Final = 24
MAX_MESSAGES: Final = 1 << _SHIFT  # of a session; what is beyond is not found
_IDLE_READERS: Final = 4
_BUSY_S: Final = 10.0

_SESSION: Final = (
    "CREATE TABLE session (id INTEGER PRIMARY KEY AUTOINCREMENT, handle TEXT NOT NULL UNIQUE, "
    "agent TEXT NOT NULL, sender TEXT NOT NULL, created INTEGER NOT NULL, count INTEGER NOT NULL, "
    "last BLOB NOT NULL)"
)
# Words are folded already; the tokenizer only has to cut at the spaces between them.
_MESSAGE: Final = (
    "CREATE VIRTUAL TABLE message USING fts5(user, assistant, tool, prefix='2 3', "
    'tokenize="unicode61 remove_diacritics 0")'
)
_KNOWN: Final = "id, agent, sender, created, count, last"  # in the order of `Known`
_TABLES: Final = "SELECT sql FROM sqlite_schema WHERE name IN ('session', 'message')"
# What people wrote says best what a conversation is about; that a tool was called says least.
_RANK: Final = "bm25(message, 2.0, 1.0, 0.5)"


@dataclass(frozen=True, slots=True)
class Known:
    """How far a session is in the index."""

    id: int
    agent_id: str
    sender: str
    created_ms: int
    count: int  # of its messages
    last: bytes  # digest of the last of them


@dataclass(frozen=True, slots=True)
class Entry:
    """What of one message is searched, as folded words."""

    index: int
    user: str
    assistant: str
    tool: str  # names only


@dataclass(frozen=True, slots=True)
class Found:
    """One message that matches."""

    handle: str
    index: int
    score: float  # the higher the better


class SearchIndex:
    """One file; made anew when it cannot be used."""

    def __init__(self, path: Path) -> None:
        """Open the file, or make it.

        Raises:
            StoreError: if it can neither be used nor made.
        """
        self.path = path
        self._lock = threading.Lock()
        self._readers: deque[sqlite3.Connection] = deque()
        self._file = 0  # which one: the first, or one that was made anew
        self._closed = False
        self._db = self._opened()

    def close(self) -> None:
        """Let go of the file."""
        self._closed = True
        while self._readers:
            self._readers.pop().close()
        self._db.close()

    def known(self, handle: str) -> Known | None:
        """Return how far a session is here, None if it is not.

        Raises:
            StoreError: if the index does not work; every method may.
        """
        rows = self._read(f"SELECT {_KNOWN} FROM session WHERE handle = ?", handle)  # noqa: S608
        return Known(*rows[0]) if rows else None

    def all_known(self) -> dict[str, Known]:
        """Return how far every session is here."""
        rows = self._read(f"SELECT handle, {_KNOWN} FROM session")  # noqa: S608
        return {handle: Known(*rest) for handle, *rest in rows}

    def of_agent(self, agent_id: str) -> list[str]:
        """Return the handles of an agent's sessions that are here."""
        return [handle for (handle,) in self._read("SELECT handle FROM session WHERE agent = ?", agent_id)]

    def add(self, record: SessionRecord, entries: Sequence[Entry], count: int, last: bytes) -> None:
        """Take messages in, and note that the session is here up to `count` of them."""
        with self._changing() as db:
            (number,) = db.execute(
                "INSERT INTO session (handle, agent, sender, created, count, last) "
                "VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (handle) "
                "DO UPDATE SET count = excluded.count, last = excluded.last RETURNING id",
                (record.handle, record.agent_id, record.sender, record.created_ms, count, last),
            ).fetchone()
            db.executemany(
                "INSERT INTO message (rowid, user, assistant, tool) VALUES (?, ?, ?, ?)",
                [(number << _SHIFT | one.index, one.user, one.assistant, one.tool) for one in entries],
            )

    def forget(self, handle: str) -> None:
        """Take a session out."""
        with self._changing() as db:
            row = db.execute("DELETE FROM session WHERE handle = ? RETURNING id", (handle,)).fetchone()
            if row is not None:
                first = row[0] << _SHIFT
                db.execute(
                    "DELETE FROM message WHERE rowid BETWEEN ? AND ?", (first, first + MAX_MESSAGES - 1)
                )

    def clear(self) -> None:
        """Throw everything away."""
        with self._lock:
            self.close()
            _unlink(self.path)
            self._db = self._opened()
            self._file += 1
            self._closed = False

    def search(self, terms: Sequence[Term], limit: int, agent_id: str = "", sender: str = "") -> list[Found]:
        """Return the best messages: those with all terms, then, if they are few, those with some."""
        found = self._ranked(" AND ".join(map(_expression, terms)), limit, agent_id, sender)
        if len(found) >= limit or len(terms) == 1:
            return found
        # With a word that is everywhere among them, the others would hardly be among those that are ranked.
        telling = [term for term in terms if self._is_rare(term)] or terms
        seen = {(one.handle, one.index) for one in found}
        more = self._ranked(" OR ".join(map(_expression, telling)), limit + len(found), agent_id, sender)
        return [*found, *(one for one in more if (one.handle, one.index) not in seen)][:limit]

    def _ranked(self, expression: str, limit: int, agent_id: str, sender: str) -> list[Found]:
        filters, values = "", [expression]
        for column, value in (("agent", agent_id), ("sender", sender)):
            if value:
                filters += f" AND session.{column} = ?"
                values.append(value)
        rows = self._read(
            "SELECT handle, number, score FROM ("  # noqa: S608 - constants and question marks
            f"SELECT session.handle AS handle, message.rowid AS number, {_RANK} AS score FROM message "
            f"JOIN session ON session.id = message.rowid >> {_SHIFT} WHERE message MATCH ?{filters} "
            f"ORDER BY message.rowid DESC LIMIT {RANKED}) ORDER BY score, number DESC LIMIT ?",
            *values,
            limit,
        )
        return [Found(handle, number & (MAX_MESSAGES - 1), -score) for handle, number, score in rows]

    def _is_rare(self, term: Term) -> bool:
        rows = self._read(
            "SELECT count(*) FROM (SELECT 1 FROM message WHERE message MATCH ? LIMIT ?)",
            _expression(term),
            RANKED + 1,
        )
        return int(rows[0][0]) <= RANKED

    @contextmanager
    def _changing(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                self._db.execute("BEGIN IMMEDIATE")
                try:
                    yield self._db
                except BaseException:
                    self._db.execute("ROLLBACK")
                    raise
                self._db.execute("COMMIT")
            except sqlite3.Error as error:
                raise self._explained(error) from error

    def _read(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        file = self._file
        try:
            db = self._readers.pop()
        except IndexError:
            db = None
        try:
            if db is None:
                db = _connect(self.path)
            return db.execute(sql, values).fetchall()
        except sqlite3.Error as error:
            raise self._explained(error) from error
        finally:
            if db is not None:
                self._put_back(db, file)

    def _put_back(self, db: sqlite3.Connection, file: int) -> None:
        if self._closed or file != self._file or len(self._readers) >= _IDLE_READERS:
            db.close()
        else:
            self._readers.append(db)

    def _opened(self) -> sqlite3.Connection:
        try:
            return _prepared(self.path)
        except (sqlite3.Error, _OtherFormat, OSError) as error:
            if not _is_broken(error):
                raise self._explained(error) from error
            logger.warning("search index `%s` is made anew: %s", self.path, str(error).lower())
        try:
            _unlink(self.path)
            return _prepared(self.path)
        except (sqlite3.Error, _OtherFormat, OSError) as error:
            raise self._explained(error) from error

    def _explained(self, error: Exception) -> StoreError:
        sentence = f"search index `{self.path}`: {str(error).lower()}"
        return BrokenIndex(sentence) if _is_broken(error) else StoreError(sentence)


class BrokenIndex(StoreError):  # noqa: N818 - what it is
    """What is in the file makes no sense: only a new one helps."""


def _is_broken(error: Exception) -> bool:
    # The others are about the disk or the system, and may go by themselves.
    passing = isinstance(error, sqlite3.OperationalError) and "no such table" not in str(error)
    return isinstance(error, sqlite3.Error | _OtherFormat) and not passing


class _OtherFormat(Exception):  # noqa: N818 - what was found
    """The file is not one that this program made."""


def _connect(path: Path) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?mode=rw"
    db = sqlite3.connect(uri, uri=True, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
    try:
        db.execute("PRAGMA trusted_schema = OFF")
        # A power cut takes the last changes at most, and they are made again from the store.
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute("PRAGMA cache_size = -16000")
        db.execute("PRAGMA secure_delete = ON")
    except BaseException:
        db.close()
        raise
    return db


def _prepared(path: Path) -> sqlite3.Connection:
    path.touch(mode=0o600)
    path.chmod(0o600)
    db = _connect(path)
    try:
        _make_ours(db)
    except BaseException:
        db.close()
        raise
    return db


def _make_ours(db: sqlite3.Connection) -> None:
    """Pass if the file is an index, or can become one.

    Raises:
        _OtherFormat: if it cannot.
    """
    (application,) = db.execute("PRAGMA application_id").fetchone()
    (version,) = db.execute("PRAGMA user_version").fetchone()
    tables = {sql for (sql,) in db.execute(_TABLES)}
    if not tables and not application:
        _create(db)
    elif (application, version, tables) != (APPLICATION_ID, FORMAT, {_SESSION, _MESSAGE}):
        raise _OtherFormat("is no index of this program")


def _create(db: sqlite3.Connection) -> None:
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("BEGIN IMMEDIATE")
    for statement in (_SESSION, _MESSAGE):
        db.execute(statement)
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    db.execute(f"PRAGMA user_version = {FORMAT}")
    db.execute("COMMIT")


def _unlink(path: Path) -> None:
    for end in ("", "-wal", "-shm"):
        with contextlib.suppress(FileNotFoundError):
            path.with_name(path.name + end).unlink()


def _expression(term: Term) -> str:
    # A word is letters and digits, so that nothing in it ends the quotes.
    return f'"{" ".join(term.words)}"' + (" *" if term.prefix else "")
