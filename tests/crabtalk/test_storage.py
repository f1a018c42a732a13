"""`berm.get`, `berm.set`, `berm.kv.*`: one contract, in memory and in a file."""

import json
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import threading

import pytest

from berm import Refused
from crabtalk.capabilities import storage as module
from crabtalk.capabilities._failure import Failure
from crabtalk.capabilities._keyvalue import ENTRY_BYTES, KeyValueFile, MemoryKeyValue, StorageError
from crabtalk.capabilities.storage import storage
from descriptors import open_descriptors

BIG = 1 << 30


@pytest.fixture
def file(tmp_path):
    with KeyValueFile(tmp_path / "store") as opened:
        yield opened


@pytest.fixture(params=["memory", "file"])
def store(request):
    if request.param == "memory":
        return MemoryKeyValue()
    return request.getfixturevalue("file").namespace("a")


@pytest.fixture
def kv(store, bind):
    return bind(storage(store, BIG))


def test_the_names_of_the_capabilities(store):
    assert [(one.name, one.blocking) for one in storage(store, 1)] == [
        ("berm.get", True),
        ("berm.set", True),
        ("berm.kv.delete", True),
        ("berm.kv.keys", True),
    ]


def test_an_absent_value_differs_from_an_empty_one(kv, wire):
    assert kv("berm.get", "k") == b""
    assert kv("berm.set", "k", b"") == b""
    assert kv("berm.get", "k") == wire.pack([b""])
    kv("berm.set", "k", b"\0\xff")
    assert kv("berm.get", "k") == wire.pack([b"\0\xff"])


def test_delete_says_whether_there_was_something(kv):
    kv("berm.set", "k", b"v")
    assert [kv("berm.kv.delete", "k") for _ in range(2)] == [b"1", b"0"]
    assert kv("berm.get", "k") == b""


@pytest.mark.parametrize("key", ["", "x" * 257, "ü" * 129])
def test_a_key_out_of_bounds_is_refused_everywhere(kv, key):
    for request in (("berm.get", key), ("berm.set", key, b""), ("berm.kv.delete", key)):
        with pytest.raises(Refused, match="from 1 to 256"):
            kv(*request)


def test_the_bounds_are_exact(kv, wire):
    kv("berm.set", "ü" * 128, b"x" * (1 << 20))
    assert len(wire.unpack(kv("berm.get", "ü" * 128))[0]) == 1 << 20
    with pytest.raises(Refused, match="value is 1048577 bytes long"):
        kv("berm.set", "k", b"x" * ((1 << 20) + 1))
    assert kv("berm.get", "k") == b""


def test_keys_come_in_pages(kv, monkeypatch):
    assert module.PAGE_KEYS == 1000
    monkeypatch.setattr(module, "PAGE_KEYS", 10)
    for i in range(25):
        kv("berm.set", f"p/{i:05}", b"")
    kv("berm.set", "q", b"")
    kv("berm.set", "o", b"")
    seen, cursor = [], ""
    while page := json.loads(kv("berm.kv.keys", "p/", cursor)):
        assert len(page) == min(10, 25 - len(seen))
        seen += page
        cursor = page[-1]
    assert seen == [f"p/{i:05}" for i in range(25)]
    assert json.loads(kv("berm.kv.keys", "q", "")) == ["q"]
    assert json.loads(kv("berm.kv.keys", "", "p/00024")) == ["q"]


@pytest.mark.parametrize("prefix", ["", "a", "a\0", "%", "_", "ÿ", "\U0010ffff", "'; DROP TABLE entry; --"])
def test_a_prefix_is_bytes_and_no_pattern(kv, prefix):
    keys = [
        "a",
        "a\0",
        "a\0b",
        "b",
        "%",
        "%a",
        "_",
        "ÿ",
        "ÿÿ",
        "\U0010ffff",
        "\U0010ffff\U0010ffff",
        "'; DROP",
    ]
    for key in keys:
        kv("berm.set", key, b"")
    expected = sorted((key for key in keys if key.startswith(prefix)), key=str.encode)
    assert json.loads(kv("berm.kv.keys", prefix, "")) == expected


def test_the_quota_counts_keys_values_and_entries(store, bind):
    kv = bind(storage(store, 3 * (ENTRY_BYTES + 10)))
    for key in "abc":
        kv("berm.set", key, b"x" * 9)
    for key, value in (("d", b""), ("a", b"x" * 10)):
        with pytest.raises(Refused, match="quota of 222 bytes is used up"):
            kv("berm.set", key, value)
    kv("berm.set", "a", b"x" * 8)
    kv("berm.set", "b", b"x" * 10)
    with pytest.raises(Refused):
        kv("berm.set", "b", b"x" * 11)
    kv("berm.kv.delete", "a")
    kv("berm.set", "d", b"x" * 8)
    assert json.loads(kv("berm.kv.keys", "", "")) == ["b", "c", "d"]


def test_with_a_smaller_quota_than_is_used_values_may_shrink_and_not_grow(store, bind):
    bind(storage(store, BIG))("berm.set", "k", b"x" * 100)
    kv = bind(storage(store, 10))
    with pytest.raises(Refused):
        kv("berm.set", "k", b"x" * 101)
    kv("berm.set", "k", b"x" * 50)
    with pytest.raises(Refused):
        kv("berm.set", "k", b"x" * 51)


def test_threads_cannot_pass_the_quota_together(store):
    quota = 10 * (ENTRY_BYTES + 3)
    stored = []

    def write(thread):
        stored.extend(store.set(b"%d%02d" % (thread, i), b"", quota) for i in range(25))

    threads = [threading.Thread(target=write, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (sum(stored), len(store.keys(b"", b"", 1000))) == (10, 10)


def test_a_negative_quota_is_an_error(store):
    with pytest.raises(ValueError, match="expected bytes"):
        storage(store, -1)


# The file


def test_owners_do_not_see_each_other(file):
    a, b = file.namespace("a"), file.namespace("a' OR '1'='1")
    a.set(b"k", b"of a", BIG)
    assert (b.get(b"k"), b.delete(b"k"), b.keys(b"", b"", 9)) == (None, False, [])
    b.set(b"k", b"of b", 80)
    assert (a.get(b"k"), b.get(b"k")) == (b"of a", b"of b")


def test_values_last_and_the_quota_is_remembered(tmp_path):
    with KeyValueFile(tmp_path / "store") as file:
        assert file.namespace("a").set(b"k", b"v" * 100, BIG)
    with KeyValueFile(tmp_path / "store") as file:
        assert file.namespace("a").get(b"k") == b"v" * 100
        assert not file.namespace("a").set(b"l", b"", 100 + 1 + 2 * ENTRY_BYTES)
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


def test_the_file_is_for_its_user_only(tmp_path):
    old = os.umask(0)
    try:
        KeyValueFile(tmp_path / "store").close()
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "store").stat().st_mode) == 0o600


def test_another_programs_database_is_left_alone(tmp_path):
    path = tmp_path / "cookies"
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE cookies (x)")
    db.commit()
    db.close()
    before = path.read_bytes()
    with pytest.raises(ValueError, match="database of another program"):
        KeyValueFile(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "program",
    [
        "ALTER TABLE entry RENAME TO real; CREATE VIEW entry AS SELECT * FROM real",
        "CREATE TRIGGER t AFTER INSERT ON entry BEGIN DELETE FROM usage; END",
        "CREATE TABLE more (x)",
        "DROP TABLE usage",
    ],
)
def test_a_file_with_a_program_in_it_is_refused(tmp_path, program):
    path = tmp_path / "store"
    KeyValueFile(path).close()
    db = sqlite3.connect(path)
    db.executescript(program)
    db.close()
    with pytest.raises(ValueError, match="tables of another making"):
        KeyValueFile(path)


def test_a_file_that_is_no_database_is_left_alone(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("dear diary, " * 100)
    with pytest.raises(ValueError, match="file is not a database"):
        KeyValueFile(path)
    assert path.read_text() == "dear diary, " * 100


@pytest.mark.parametrize(
    ("path", "reason"), [(".", "is a directory"), ("missing/store", "no such file"), ("a\0", "null")]
)
def test_a_path_that_cannot_be_opened_is_an_error(tmp_path, path, reason):
    with pytest.raises(ValueError, match=reason):
        KeyValueFile(f"{tmp_path}/{path}")


def test_a_closed_file_is_an_error_for_the_guest(file, bind):
    kv = bind(storage(file.namespace("a"), BIG))
    file.close()
    for request in (("berm.get", "k"), ("berm.set", "k", b""), ("berm.kv.keys", "", "")):
        with pytest.raises(Failure, match="storage does not work: cannot operate on a closed database"):
            kv(*request)


def test_a_damaged_file_is_an_error_for_the_guest(tmp_path, bind):
    path = tmp_path / "store"
    with KeyValueFile(path) as file:
        for i in range(50):
            file.namespace("a").set(b"%d" % i, b"x" * 1000, BIG)
    raw = bytearray(path.read_bytes())
    assert len(raw) > 40_000
    raw[4096:] = os.urandom(len(raw) - 4096)
    path.write_bytes(raw)
    with KeyValueFile(path) as file, pytest.raises(Failure, match="storage does not work"):
        bind(storage(file.namespace("a"), BIG))("berm.get", "1")


def test_a_failed_write_changes_nothing(file):
    a = file.namespace("a")
    a.set(b"k", b"old", BIG)

    def fail(*_):
        raise sqlite3.OperationalError("disk I/O error")

    a._charge = fail
    with pytest.raises(StorageError, match="disk i/o error"):
        a.set(b"k", b"new", BIG)
    del a._charge
    assert a.get(b"k") == b"old"
    assert a.set(b"k", b"new", 3 + 1 + ENTRY_BYTES)


WRITER = """
import sys, time
from crabtalk.capabilities._keyvalue import KeyValueFile
with KeyValueFile(sys.argv[1]) as file:
    store = file.namespace(sys.argv[2])
    for i in range(100_000):
        store.set(b"count", b"%d" % i, 1 << 30)
        print(i, flush=True)
        time.sleep(float(sys.argv[3]))
"""


@pytest.fixture
def start_writer():
    started = []

    def start_writer(path, owner, pause_s=0.0):
        program = [sys.executable, "-c", WRITER, str(path), owner, str(pause_s)]
        started.append(subprocess.Popen(program, stdout=subprocess.PIPE))
        return started[-1]

    yield start_writer
    for writer in started:
        writer.kill()
        writer.wait()
        writer.stdout.close()


def test_what_was_acknowledged_survives_a_kill(tmp_path, start_writer):
    path = tmp_path / "store"
    for lines in (1, 7, 30):
        writer = start_writer(path, "a")
        for _ in range(lines):
            acknowledged = int(writer.stdout.readline())
        writer.send_signal(signal.SIGKILL)
        rest = writer.communicate()[0].split()
        acknowledged = int(rest[-1]) if rest else acknowledged
        with KeyValueFile(path) as file:
            kept = int(file.namespace("a").get(b"count"))
            assert acknowledged <= kept <= acknowledged + 1
            assert file.rows("PRAGMA integrity_check") == [("ok",)]


def test_two_processes_share_a_file(tmp_path, start_writer):
    path = tmp_path / "store"
    KeyValueFile(path).close()
    writers = [start_writer(path, owner, 0.001) for owner in ("a", "b")]
    for writer in writers:
        for i in range(40):
            assert int(writer.stdout.readline()) == i
    with KeyValueFile(path) as file:
        for owner in ("a", "b"):
            assert int(file.namespace(owner).get(b"count")) >= 39


def test_the_file_is_closed_with_its_last_user(tmp_path, bind):
    before = open_descriptors()
    kv = bind(storage(KeyValueFile(tmp_path / "store").namespace("a"), BIG))
    kv("berm.set", "k", b"v")
    assert len(open_descriptors()) > len(before)
    del kv
    assert open_descriptors() == before


def test_a_new_file_can_be_opened_by_many_at_once(tmp_path):
    failures = []

    def open_and_write(i):
        try:
            with KeyValueFile(tmp_path / "store") as file:
                file.namespace("a").set(b"%d" % i, b"", BIG)
        except (ValueError, StorageError) as error:
            failures.append(error)

    threads = [threading.Thread(target=open_and_write, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    with KeyValueFile(tmp_path / "store") as file:
        assert len(file.namespace("a").keys(b"", b"", 10)) == 4
