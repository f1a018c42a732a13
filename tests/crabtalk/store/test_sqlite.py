"""What the file promises beyond the contract: whose it is, its format, shared commits, failures, damage."""

import errno
import logging
import os
import sqlite3
import stat
import threading
import time
from pathlib import Path

import pytest
import trio

from crabtalk.errors import StoreError
from crabtalk.store import database, writer
from crabtalk.store.database import Format, table_of
from crabtalk.store.engine import COLUMNS, DEFER_S, MAX_DEFERRED_BYTES, delete, put
from crabtalk.store.opening import open_store
from crabtalk.store.sqlite import SqliteEngine
from descriptors import open_descriptors


def test_values_last(path):
    with SqliteEngine(path) as engine:
        engine.apply([put("kv", b"k", b"v")])
        engine.defer([put("audit", b"row", b"1")])
    with open_store(path, create=False) as engine:
        assert (engine.get("kv", b"k"), engine.get("audit", b"row")) == (b"v", b"1")
    assert [one.name for one in path.parent.iterdir()] == ["store.db"]


def test_the_files_are_for_their_user_only(path):
    old = os.umask(0)
    try:
        with SqliteEngine(path) as engine:
            engine.apply([put("kv", b"k", b"v")])
            modes = {one.name: stat.S_IMODE(one.stat().st_mode) for one in path.parent.iterdir()}
    finally:
        os.umask(old)
    assert modes == {"store.db": 0o600, "store.db-wal": 0o600, "store.db-shm": 0o600}


def test_a_file_that_others_could_read_is_closed_to_them(path):
    SqliteEngine(path).close()
    path.chmod(0o644)
    SqliteEngine(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_commits_wait_for_the_disk(sqlite_engine):
    execute = sqlite_engine._writer._db.execute
    found = {name: execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")}
    assert found == {"journal_mode": "wal", "synchronous": 2}


def test_a_name_with_special_characters_is_a_name(tmp_path):
    path = tmp_path / "what? #1 %41 ü.db"
    with SqliteEngine(path) as engine:
        engine.apply([put("kv", b"k", b"v")])
    assert [one.name for one in tmp_path.iterdir()] == [path.name]


def test_nothing_stays_open(path):
    before = open_descriptors()
    with SqliteEngine(path) as engine:
        threads = [threading.Thread(target=engine.get, args=("kv", b"k")) for _ in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with engine.snapshot():
            pass
    assert open_descriptors() == before
    assert [one.name for one in threading.enumerate() if one.name == "crabtalk store"] == []


def test_few_connections_serve_many_readers(sqlite_engine):
    readers = [sqlite_engine._reader() for _ in range(20)]
    for one in readers:
        sqlite_engine._put_back(one)
    assert len(sqlite_engine._readers) == 8


def test_a_reader_that_comes_back_late_is_closed(path):
    before = open_descriptors()
    engine = SqliteEngine(path)
    reader = engine._reader()
    engine.close()
    engine._put_back(reader)
    assert open_descriptors() == before


# Whose file it is


def test_another_programs_database_is_left_alone(path):
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE cookies (x)")
    db.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match=r"store `.*`: is a database of another program"):
        SqliteEngine(path)
    assert path.read_bytes() == before


def test_a_file_that_is_no_database_is_left_alone(path):
    path.write_text("dear diary, " * 100)
    with pytest.raises(StoreError, match="file is not a database; restore a backup"):
        SqliteEngine(path)
    assert path.read_text() == "dear diary, " * 100


@pytest.mark.parametrize(
    "program",
    [
        "ALTER TABLE kv RENAME TO real; CREATE VIEW kv AS SELECT * FROM real",
        "CREATE TRIGGER t AFTER INSERT ON kv BEGIN DELETE FROM wake; END",
        "CREATE TABLE more (x)",
        "DROP TABLE audit",
    ],
)
def test_a_file_with_a_program_in_it_is_refused(path, program):
    SqliteEngine(path).close()
    with sqlite3.connect(path) as db:
        db.executescript(program)
    db.close()
    with pytest.raises(StoreError, match="has tables of another making"):
        SqliteEngine(path)


@pytest.mark.parametrize(
    ("name", "reason"),
    [(".", "is a directory|unable to open"), ("missing/store.db", "no such file"), ("a\0", "null")],
)
def test_a_path_that_cannot_be_opened_is_an_error(tmp_path, name, reason):
    with pytest.raises(StoreError, match=reason):
        SqliteEngine(f"{tmp_path}/{name}")


def test_a_store_that_is_not_there_is_not_made_unasked(path):
    for read_only in (False, True):
        with pytest.raises(StoreError, match="is not there yet"):
            open_store(path, create=False, read_only=read_only)
    assert list(path.parent.iterdir()) == []


# Its format


def test_a_newer_format_is_refused_and_left_alone(path):
    SqliteEngine(path).close()
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 2")
    db.close()
    before = path.read_bytes()
    for read_only in (False, True):
        with pytest.raises(StoreError, match="has format 2, and this program knows formats up to 1"):
            open_store(path, read_only=read_only)
    assert path.read_bytes() == before


def add_table(db):
    db.execute(table_of("extra"))


NEXT = Format(
    version=3,
    tables=frozenset({*map(table_of, COLUMNS), table_of("extra")}),
    upgrades={1: add_table, 2: lambda db: db.execute("DELETE FROM kv WHERE key = x'6f6c64'")},
)


def test_an_older_format_is_brought_up_to_date_and_kept_beside(path):
    with SqliteEngine(path) as engine:
        engine.apply([put("kv", b"k", b"v"), put("kv", b"old", b"v")])
    with SqliteEngine(path, format=NEXT) as engine:
        assert engine.scan("kv") == [(b"k", b"v")]
        assert engine.check() == []
        assert engine.statistics().format_version == 3
    with SqliteEngine(path.with_name("store.db.format-1"), create=False) as kept:
        assert kept.scan_keys("kv") == [b"k", b"old"]
    with pytest.raises(StoreError, match="has format 3"):
        SqliteEngine(path)


def test_an_upgrade_that_fails_changes_nothing(path):
    with SqliteEngine(path) as engine:
        engine.apply([put("kv", b"old", b"v")])

    def fail(db):
        db.execute("DELETE FROM kv")
        raise sqlite3.OperationalError("disk I/O error")

    for upgrades, reason in (
        ({1: add_table, 2: fail}, "disk i/o error"),
        ({1: add_table}, "nothing here brings"),
    ):
        with pytest.raises(StoreError, match=reason):
            SqliteEngine(path, format=Format(3, NEXT.tables, upgrades))
        with SqliteEngine(path) as engine:
            assert engine.scan_keys("kv") == [b"old"]


def test_a_reader_leaves_an_older_format_to_the_daemon(path):
    SqliteEngine(path).close()
    with pytest.raises(StoreError, match="has format 1; the daemon brings it up to date"):
        SqliteEngine(path, create=False, read_only=True, format=NEXT)


# Reading only


def test_a_reader_sees_what_the_daemon_writes_and_writes_nothing(path):
    with SqliteEngine(path) as engine, open_store(path, create=False, read_only=True) as reader:
        engine.apply([put("kv", b"k", b"v")])
        assert reader.get("kv", b"k") == b"v"
        assert reader.check() == []
        assert reader.statistics().keys["kv"] == 1
        for write in (reader.apply, reader.defer):
            with pytest.raises(StoreError, match="is open for reading only"):
                write([put("kv", b"k", b"w")])
        engine.apply([put("kv", b"k", b"w")])
        assert reader.get("kv", b"k") == b"w"


def test_a_snapshot_stands_still(sqlite_engine):
    sqlite_engine.apply([put("kv", b"a", b"1"), put("wake", b"w", b"1")])
    with sqlite_engine.snapshot() as moment:
        assert moment.get("kv", b"a") == b"1"
        sqlite_engine.apply([put("kv", b"a", b"2"), put("kv", b"b", b"2"), delete("wake", b"w")])
        assert moment.scan("kv") == [(b"a", b"1")]
        assert moment.scan_keys("wake") == [b"w"]
    assert sqlite_engine.scan("kv") == [(b"a", b"2"), (b"b", b"2")]
    with sqlite_engine.snapshot() as moment:
        assert moment.scan_keys("wake") == []


# One writer


@pytest.fixture
def held(sqlite_engine, monkeypatch):
    """The engine with a writer that is held up before each transaction until the test lets it go on."""
    gate = threading.Event()
    write = sqlite_engine._writer._transact

    def wait_and_write(writes):
        assert gate.wait(10)
        write(writes)

    monkeypatch.setattr(sqlite_engine._writer, "_transact", wait_and_write)
    sqlite_engine.gate = gate
    yield sqlite_engine
    gate.set()


def run_all(*calls):
    threads = [threading.Thread(target=call) for call in calls]
    for thread in threads:
        thread.start()
    return threads


def wait_for(condition):
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_batches_that_wait_share_a_commit(held):
    first = run_all(lambda: held.apply([put("kv", b"first", b"")]))
    wait_for(lambda: not held._writer._queue)  # the writer has it
    rest = run_all(*(lambda n=n: held.apply([put("kv", b"%d" % n, b"")]) for n in range(20)))
    wait_for(lambda: len(held._writer._queue) == 20)
    held.gate.set()
    for thread in first + rest:
        thread.join()
    found = held.statistics()
    assert (found.commits, found.batches, found.keys["kv"]) == (2, 21, 21)


@pytest.mark.trio
async def test_tasks_that_wait_share_a_commit(held):
    async with trio.open_nursery() as nursery:
        for n in range(50):
            nursery.start_soon(held.commit, [put("kv", b"%d" % n, b"")])
        await trio.testing.wait_all_tasks_blocked()
        held.gate.set()
    found = held.statistics()
    assert found.commits <= 2
    assert (found.batches, found.keys["kv"]) == (50, 50)


def limit_pages(engine, more):
    """Let the file grow by so many pages only, as a disk does that is nearly full."""
    db = engine._writer._db
    (count,) = db.execute("PRAGMA page_count").fetchone()
    db.execute(f"PRAGMA max_page_count = {count + more}")


def test_a_batch_that_fails_takes_no_other_along(held):
    limit_pages(held, 20)
    outcomes = {}

    def apply(name, size):
        try:
            held.apply([put("kv", name + b"/1", b""), put("kv", name + b"/2", bytes(size))])
            outcomes[name] = None
        except StoreError as error:
            outcomes[name] = str(error)

    first = run_all(lambda: apply(b"first", 1))
    wait_for(lambda: not held._writer._queue)
    held.defer([put("audit", b"row", b"1")])
    sizes = {b"a": 10, b"big": 1 << 20, b"c": 10}
    rest = run_all(*(lambda name=name, size=size: apply(name, size) for name, size in sizes.items()))
    wait_for(lambda: len(held._writer._queue) == 4)
    held.gate.set()
    for thread in first + rest:
        thread.join()
    assert outcomes.pop(b"big") == f"store `{held.path}`: database or disk is full; make room on the disk"
    assert outcomes == {b"first": None, b"a": None, b"c": None}
    assert held.scan_keys("kv") == [b"a/1", b"a/2", b"c/1", b"c/2", b"first/1", b"first/2"]
    assert held.get("audit", b"row") == b"1"
    held.flush()


def test_deferred_rows_that_are_lost_are_counted_and_said(sqlite_engine, caplog):
    limit_pages(sqlite_engine, 20)
    with caplog.at_level(logging.ERROR):
        for n in range(3):
            sqlite_engine.defer([put("audit", b"%d" % n, bytes(1 << 20))])
        with pytest.raises(StoreError, match="disk is full"):
            sqlite_engine.flush()
    sqlite_engine.flush()
    assert sqlite_engine.statistics().deferred_lost == 3
    assert [one.message for one in caplog.records if "deferred rows are lost" in one.message] != []
    sqlite_engine.apply([put("kv", b"k", b"v")])
    assert sqlite_engine.get("kv", b"k") == b"v"


def test_a_disk_that_has_stalled_refuses_what_is_deferred(held):
    row = put("audit", b"row", bytes(1 << 20))
    with pytest.raises(StoreError, match="the disk has stalled"):  # noqa: PT012 - how many fit is not the point
        for _ in range(2 * (MAX_DEFERRED_BYTES >> 20) + 2):
            held.defer([row])
    held.gate.set()
    held.flush()
    held.defer([row])
    held.flush()


def test_nobody_is_woken_for_each_deferred_row(sqlite_engine):
    before = sqlite_engine.statistics()
    start = time.monotonic()
    for n in range(2000):
        sqlite_engine.defer([put("audit", b"%d" % n, b"row")])
    took = time.monotonic() - start
    sqlite_engine.flush()
    found = sqlite_engine.statistics()
    assert found.keys["audit"] == 2000
    assert found.commits - before.commits <= took / DEFER_S + 2


@pytest.fixture
def failing(sqlite_engine, monkeypatch):
    """The engine, with a way to let its next transaction fail like SQLite does."""

    def fail_with(error):
        def fail(_):
            monkeypatch.undo()
            raise error

        monkeypatch.setattr(sqlite_engine._writer, "_transact", fail)

    sqlite_engine.fail_with = fail_with
    return sqlite_engine


def sqlite_error(name, text):
    error = sqlite3.OperationalError(text)
    error.sqlite_errorname = name
    return error


def test_after_a_failed_fsync_nothing_is_written_any_more(failing):
    failing.apply([put("kv", b"before", b"")])
    failing.fail_with(sqlite_error("SQLITE_IOERR_FSYNC", "disk I/O error"))
    with pytest.raises(StoreError, match="disk i/o error; the disk failed"):
        failing.apply([put("kv", b"k", b"")])
    for write in (failing.apply, failing.defer):
        with pytest.raises(StoreError, match="an fsync failed, so what the disk holds is unknown"):
            write([put("kv", b"k", b"")])
    trouble = failing.trouble()
    assert trouble.lasting
    assert "an fsync failed" in trouble.text
    assert failing.scan_keys("kv") == [b"before"]


def test_other_failures_pass(failing):
    failing.fail_with(sqlite_error("SQLITE_IOERR_WRITE", "disk I/O error"))
    with pytest.raises(StoreError, match="disk i/o error"):
        failing.apply([put("kv", b"k", b"")])
    failing.apply([put("kv", b"k", b"")])


def test_a_failure_is_the_trouble_until_something_was_written_or_a_minute_has_passed(failing, monkeypatch):
    full = sqlite_error("SQLITE_FULL", "database or disk is full")
    assert failing.trouble() is None
    for forget in (lambda: failing.apply([put("kv", b"k", b"")]), lambda: minutes_pass(monkeypatch)):
        failing.fail_with(full)
        with pytest.raises(StoreError, match="disk is full"):
            failing.apply([put("kv", b"k", b"")])
        trouble = failing.trouble()
        assert "disk is full; make room" in trouble.text
        assert trouble.text.endswith("(the last write, 0 s ago)")
        assert not trouble.lasting
        forget()
        assert failing.trouble() is None


def minutes_pass(monkeypatch):
    monkeypatch.setattr(writer, "_RECENT_S", 0.0)


def test_a_write_that_does_not_end_is_trouble(held, monkeypatch):
    monkeypatch.setattr(writer, "_STALLED_S", 0.02)
    held.defer([put("kv", b"k", b"")])
    deadline = time.monotonic() + 10
    while held.trouble() is None:
        assert time.monotonic() < deadline
    assert "the disk has stalled: a write has not ended for 0 s" in held.trouble().text
    assert not held.trouble().lasting
    held.gate.set()
    held.flush()
    while held.trouble() is not None:
        assert time.monotonic() < deadline


def test_a_mistake_of_ours_in_the_writer_reaches_who_waits(failing):
    failing.fail_with(KeyError("oops"))
    with pytest.raises(StoreError, match=r"KeyError in the writer: 'oops'"):
        failing.apply([put("kv", b"k", b"")])
    failing.apply([put("kv", b"k", b"")])


def test_a_mistake_beside_a_transaction_lets_nobody_wait(sqlite_engine, monkeypatch):
    def fail():
        raise KeyError("oops")

    monkeypatch.setattr(sqlite_engine._writer, "_empty_log", fail)
    sqlite_engine._writer._log_bound = 0
    sqlite_engine.apply([put("kv", b"k", b"")])
    with pytest.raises(StoreError, match="the writer failed: 'oops'; please report"):
        sqlite_engine.apply([put("kv", b"l", b"")])
    assert sqlite_engine.trouble().lasting
    assert sqlite_engine.scan_keys("kv") == [b"k"]


def test_a_transaction_that_fails_half_way_leaves_nothing(sqlite_engine, monkeypatch):
    statements = writer._statements

    def break_last(writes):
        yield from statements(writes)
        yield "INSERT INTO nowhere VALUES (1)", ()

    monkeypatch.setattr(writer, "_statements", break_last)
    with pytest.raises(StoreError, match="no such table: nowhere"):
        sqlite_engine.apply([put("kv", b"%d" % n, b"") for n in range(600)])
    monkeypatch.undo()
    assert sqlite_engine.scan_keys("kv") == []
    sqlite_engine.apply([put("kv", b"k", b"")])
    assert sqlite_engine.scan_keys("kv") == [b"k"]


@pytest.mark.trio
async def test_a_commit_that_fails_says_why(failing):
    failing.fail_with(sqlite_error("SQLITE_FULL", "database or disk is full"))
    with pytest.raises(StoreError, match="disk is full; make room"):
        await failing.commit([put("kv", b"k", b"")])
    await failing.commit([put("kv", b"k", b"")])


def test_a_loop_that_is_gone_does_not_harm_the_writer(held):
    async def leave():
        trio.lowlevel.spawn_system_task(held.commit, [put("kv", b"left", b"")])
        await trio.testing.wait_all_tasks_blocked()

    waiting = threading.Timer(0.1, held.gate.set)
    waiting.start()
    trio.run(leave)
    waiting.join()
    held.apply([put("kv", b"k", b"")])
    assert held.scan_keys("kv") == [b"k", b"left"]


def test_large_groups_are_cut(held, monkeypatch):
    monkeypatch.setattr(writer, "_GROUP_BYTES", 1000)
    first = run_all(lambda: held.apply([put("kv", b"first", b"")]))
    wait_for(lambda: not held._writer._queue)
    rest = run_all(*(lambda n=n: held.apply([put("kv", b"%d" % n, bytes(400))]) for n in range(6)))
    wait_for(lambda: len(held._writer._queue) == 6)
    held.gate.set()
    for thread in first + rest:
        thread.join()
    assert held.statistics().commits == 4


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
def test_a_big_value_is_not_kept_by_its_statement(sqlite_engine):
    """SQLite holds what was bound last to each compiled statement."""
    value = b"x" * (32 << 20)
    sqlite_engine.apply([put("harness", b"warm", bytes(70_000))])
    before = resident_bytes()
    sqlite_engine.apply([put("harness", b"big", value)])
    assert resident_bytes() - before < len(value) / 2


def resident_bytes():
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


# The log


def log_bytes(engine):
    return engine.path.with_name("store.db-wal").stat().st_size


def write_much(engine, megabytes):
    for n in range(megabytes * 4):
        engine.apply([put("text", b"%05d/%d" % (n, i), bytes(4000)) for i in range(64)])


def test_the_log_stays_small_however_much_is_read(sqlite_engine, monkeypatch):
    """With readers that overlap, SQLite's own housekeeping never gets to start the log anew."""
    monkeypatch.setattr(writer, "_LOG_BYTES", 1 << 20)
    sqlite_engine._writer._log_bound = 1 << 20
    sqlite_engine.apply([put("kv", b"%05d" % n, bytes(500)) for n in range(3000)])
    stop = threading.Event()

    def read():
        while not stop.is_set():
            sqlite_engine.scan("kv", limit=500)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for thread in readers:
        thread.start()
    try:
        write_much(sqlite_engine, 12)
    finally:
        stop.set()
        for thread in readers:
            thread.join()
    assert log_bytes(sqlite_engine) < 6 << 20
    assert sqlite_engine.check() == []


def test_a_reader_that_holds_its_moment_does_not_stop_the_writer(sqlite_engine, monkeypatch):
    monkeypatch.setattr(writer, "_LOG_BYTES", 1 << 20)
    sqlite_engine._writer._log_bound = 1 << 20
    sqlite_engine.apply([put("kv", b"k", b"before")])
    with sqlite_engine.snapshot() as moment:
        start = time.monotonic()
        write_much(sqlite_engine, 6)
        assert time.monotonic() - start < 10  # the log doubled a few times; each was one wait of 0.2 s
        sqlite_engine.apply([put("kv", b"k", b"after")])
        assert moment.get("kv", b"k") == b"before"
        assert log_bytes(sqlite_engine) > 5 << 20
    write_much(sqlite_engine, 12)
    assert log_bytes(sqlite_engine) < 12 << 20


def test_a_log_that_cannot_be_emptied_is_said_and_writing_goes_on(sqlite_engine, monkeypatch, caplog):
    monkeypatch.setattr(writer, "_LOG_WAIT_MS", "no number;")
    sqlite_engine._writer._log_bound = 0
    sqlite_engine.apply([put("kv", b"k", b"1")])
    sqlite_engine.apply([put("kv", b"k", b"2")])
    assert sqlite_engine.get("kv", b"k") == b"2"
    assert "syntax error" in caplog.text


# Damage

PAGE_BYTES = 4096


def test_a_damaged_file_is_found_and_said(path):
    with SqliteEngine(path) as engine:
        engine.apply([put("kv", b"%05d" % n, b"x" * 500) for n in range(500)])
    raw = bytearray(path.read_bytes())
    assert len(raw) > 60 * PAGE_BYTES
    raw[30 * PAGE_BYTES :] = b"\x99" * (len(raw) - 30 * PAGE_BYTES)
    path.write_bytes(raw)
    with SqliteEngine(path) as engine:
        problems = engine.check()
        assert problems != []
        assert all(isinstance(one, str) and one for one in problems)
        with pytest.raises(StoreError, match="restore a backup"):
            engine.scan("kv")


def test_entries_that_no_store_wrote_are_found(path):
    SqliteEngine(path).close()
    with sqlite3.connect(path) as db:
        db.execute("INSERT INTO kv VALUES ('text', x'00')")
        db.execute("INSERT INTO wake VALUES (x'', x'00')")
    db.close()
    with SqliteEngine(path) as engine:
        assert engine.check() == [
            "column wake holds 1 entries that no store wrote",
            "column kv holds 1 entries that no store wrote",
        ]
        db = sqlite3.connect(path)
        db.execute("INSERT INTO kv VALUES (x'6b', 'text')")
        db.commit()
        db.close()
        with pytest.raises(StoreError, match="holds what no store wrote"):
            engine.get("kv", b"k")


def test_an_error_of_the_system_is_explained(path):
    error = OSError(errno.ENOSPC, "No space left on device")
    assert str(database.explained(error, path)) == f"store `{path}`: no space left on device"
