"""Backups while others write, and the way back."""

import os
import sqlite3
import stat
import threading

import pytest

from crabtalk.errors import StoreError
from crabtalk.store.engine import put
from crabtalk.store.opening import open_store
from crabtalk.store.restoring import restore
from crabtalk.store.sqlite import SqliteEngine


@pytest.fixture
def backup(tmp_path):
    return tmp_path / "backup.db"


def names_in(path):
    return sorted(one.name for one in path.parent.iterdir())


def value_in(path, key=b"k"):
    with open_store(path, create=False) as engine:
        return engine.get("kv", key)


def make(path, value):
    with SqliteEngine(path) as engine:
        engine.apply([put("kv", b"k", value)])


def test_a_backup_is_one_private_file_that_opens(sqlite_engine, backup):
    sqlite_engine.apply([put("kv", b"k", b"v")])
    sqlite_engine.defer([put("audit", b"row", b"1")])
    old = os.umask(0)
    try:
        sqlite_engine.backup(backup)
    finally:
        os.umask(old)
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    assert names_in(backup) == ["backup.db", "store.db", "store.db-shm", "store.db-wal"]
    sqlite_engine.apply([put("kv", b"k", b"later")])
    with open_store(backup, create=False) as copied:
        assert (copied.get("kv", b"k"), copied.get("audit", b"row")) == (b"v", b"1")
        assert copied.check() == []


def test_a_backup_is_one_moment_while_threads_write(sqlite_engine, tmp_path):
    names = [b"%03d" % n for n in range(200)]
    stop = threading.Event()

    def write():
        number = 0
        while not stop.is_set():
            number += 1
            sqlite_engine.apply([put("kv", name, b"%d" % number * 100) for name in names])

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for number in range(5):
            sqlite_engine.backup(tmp_path / f"{number}.db")
    finally:
        stop.set()
        writer.join()
    for number in range(5):
        with open_store(tmp_path / f"{number}.db", create=False) as copied:
            assert len({value for _, value in copied.scan("kv")}) <= 1


def test_a_backup_replaces_nothing(sqlite_engine, backup):
    backup.write_text("precious")
    with pytest.raises(StoreError, match=r"`.*backup.db` is there already"):
        sqlite_engine.backup(backup)
    assert backup.read_text() == "precious"


def test_a_backup_that_cannot_be_written_leaves_nothing(sqlite_engine, tmp_path):
    with pytest.raises(StoreError, match="no such file"):
        sqlite_engine.backup(tmp_path / "missing" / "backup.db")
    (tmp_path / "partial").mkdir()
    target = tmp_path / "partial" / "x.db"
    (tmp_path / "partial").chmod(0o500)
    try:
        if os.geteuid() != 0:
            with pytest.raises(StoreError, match="permission denied"):
                sqlite_engine.backup(target)
    finally:
        (tmp_path / "partial").chmod(0o700)
    assert list((tmp_path / "partial").iterdir()) == []


def test_an_attempt_that_was_killed_is_no_obstacle(sqlite_engine, backup):
    backup.with_name("backup.db.partial").write_text("half")
    sqlite_engine.backup(backup)
    assert value_in(backup) is None


def test_a_reader_can_back_up_too(path, backup):
    with SqliteEngine(path) as engine, open_store(path, create=False, read_only=True) as reader:
        engine.apply([put("kv", b"k", b"v")])
        reader.backup(backup)
    assert value_in(backup) == b"v"


def test_a_restore_keeps_what_was_there(path, backup):
    make(path, b"old")
    make(backup, b"backed up")
    assert restore(backup, path) == path.with_name("store.db.before-1")
    assert (value_in(path), value_in(path.with_name("store.db.before-1"))) == (b"backed up", b"old")
    make(path, b"newer")
    assert restore(backup, path) == path.with_name("store.db.before-2")
    assert value_in(path) == b"backed up"
    assert value_in(path.with_name("store.db.before-2")) == b"newer"
    assert value_in(backup) == b"backed up"
    assert names_in(path) == ["backup.db", "store.db", "store.db.before-1", "store.db.before-2"]


def test_a_restore_where_nothing_was(path, backup):
    make(backup, b"backed up")
    assert restore(backup, path) is None
    assert value_in(path) == b"backed up"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_store_that_was_killed_is_kept_with_what_was_in_its_log(path, backup, tmp_path):
    """The files of an open store are those that a kill leaves behind."""
    make(backup, b"backed up")
    with SqliteEngine(tmp_path / "live.db") as engine:
        engine.apply([put("kv", b"k", b"in the log")])
        for end in ("", "-wal"):
            path.with_name(path.name + end).write_bytes((tmp_path / f"live.db{end}").read_bytes())
    kept = restore(backup, path)
    assert (value_in(path), value_in(kept)) == (b"backed up", b"in the log")


def test_a_damaged_store_is_put_aside_as_it_is(path, backup):
    path.write_bytes(b"garbage" * 1000)
    path.with_name("store.db-wal").write_bytes(b"log")
    make(backup, b"backed up")
    kept = restore(backup, path)
    assert kept.read_bytes() == b"garbage" * 1000
    assert kept.with_name(kept.name + "-wal").read_bytes() == b"log"
    assert value_in(path) == b"backed up"
    assert path.with_name("store.db-wal").exists() is False


def test_a_store_in_use_is_not_replaced(sqlite_engine, path, backup):
    sqlite_engine.apply([put("kv", b"k", b"mine")])
    make(backup, b"backed up")
    with pytest.raises(StoreError, match="is in use: stop the daemon first"):
        restore(backup, path)
    sqlite_engine.apply([put("kv", b"l", b"")])
    assert sqlite_engine.scan("kv") == [(b"k", b"mine"), (b"l", b"")]
    assert names_in(path) == ["backup.db", "store.db", "store.db-shm", "store.db-wal"]


def newer(path):
    make(path, b"x")
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 9")
    db.close()


def foreign(path):
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE cookies (x)")
    db.close()


def damaged(path):
    with SqliteEngine(path) as engine:
        engine.apply([put("kv", b"%05d" % n, b"x" * 500) for n in range(500)])
    raw = bytearray(path.read_bytes())
    raw[12 * 4096 : 22 * 4096] = b"\x99" * (10 * 4096)
    path.write_bytes(raw)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda _path: None, "is not there"),
        (lambda path: path.write_bytes(b""), "holds no store"),
        (lambda path: path.write_text("dear diary, " * 100), "file is not a database"),
        (newer, "has format 9"),
        (foreign, "is a database of another program"),
        (damaged, "the copy of the store is damaged|malformed"),
    ],
)
def test_what_is_no_healthy_store_is_not_restored(path, backup, spoil, reason):
    make(path, b"mine")
    spoil(backup)
    with pytest.raises(StoreError, match=reason):
        restore(backup, path)
    assert value_in(path) == b"mine"
    assert [name for name in names_in(path) if not name.startswith("backup")] == ["store.db"]
