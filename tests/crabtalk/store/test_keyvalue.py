"""The values of harnesses in the store: the contract of `storage`, over both engines."""

import gc
import threading

import pytest

from berm import Refused
from crabtalk.capabilities._keyvalue import ENTRY_BYTES, StorageError
from crabtalk.capabilities.storage import storage
from crabtalk.errors import StoreError
from crabtalk.store.engine import put
from crabtalk.store.interfaces import keyvalue as module
from crabtalk.store.interfaces.keyvalue import StoredKeyValue, forget_agent
from crabtalk.store.sqlite import SqliteEngine

BIG = 1 << 30


@pytest.fixture
def values(engine):
    return StoredKeyValue(engine, "01AGENT", "os")


def test_it_stands_behind_the_capability(values, bind, wire):
    kv = bind(storage(values, 200))
    assert kv("berm.get", "k") == b""
    kv("berm.set", "k", b"v")
    assert kv("berm.get", "k") == wire.pack([b"v"])
    with pytest.raises(Refused, match="quota of 200 bytes is used up"):
        kv("berm.set", "l", bytes(100))
    assert kv("berm.kv.keys", "", "") == b'["k"]'
    assert [kv("berm.kv.delete", "k") for _ in range(2)] == [b"1", b"0"]


def test_keys_are_bytes_and_come_in_pages(values):
    names = [b"\0", b"/", b"a", b"a/b", b"a/b/c", b"%2F", b"\xff", b"\xff\xff", "ü".encode()]
    for name in names:
        assert values.set(name, b"=" + name, BIG)
    assert values.keys(b"", b"", 100) == sorted(names)
    assert values.keys(b"a", b"", 100) == [b"a", b"a/b", b"a/b/c"]
    assert values.keys(b"a", b"a", 1) == [b"a/b"]
    assert values.keys(b"\xff", b"\xff", 100) == [b"\xff\xff"]
    assert [values.get(name) for name in names] == [b"=" + name for name in names]


def test_what_is_used_is_kept_exactly(values):
    values.set(b"a", b"123", BIG)
    values.set(b"b", b"", BIG)
    assert values.used_bytes() == 2 * ENTRY_BYTES + 5
    values.set(b"a", b"1", BIG)
    assert values.used_bytes() == 2 * ENTRY_BYTES + 3
    assert values.delete(b"a")
    assert not values.delete(b"a")
    values.delete(b"b")
    assert values.used_bytes() == 0


def test_with_a_smaller_quota_values_may_shrink_and_not_grow(values):
    values.set(b"k", bytes(100), BIG)
    assert [values.set(b"k", bytes(size), 10) for size in (101, 50, 51)] == [False, True, False]


def test_objects_for_one_owner_share_the_quota_among_threads(engine):
    quota = 10 * (ENTRY_BYTES + 3)
    stored = []

    def write(thread):
        own = StoredKeyValue(engine, "01AGENT", "os")
        stored.extend(own.set(b"%d%02d" % (thread, i), b"", quota) for i in range(25))

    threads = [threading.Thread(target=write, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    values = StoredKeyValue(engine, "01AGENT", "os")
    assert (sum(stored), len(values.keys(b"", b"", 1000)), values.used_bytes()) == (10, 10, quota)


def test_owners_do_not_see_each_other(engine):
    owners = [("A", "os"), ("A", "os2"), ("A", "o"), ("AA", "os"), ("A/os", "x")]
    for agent_id, harness in owners:
        StoredKeyValue(engine, agent_id, harness).set(b"k", f"{agent_id} {harness}".encode(), BIG)
    for agent_id, harness in owners:
        values = StoredKeyValue(engine, agent_id, harness)
        assert values.get(b"k") == f"{agent_id} {harness}".encode()
        assert values.keys(b"", b"", 10) == [b"k"]


def test_an_owner_can_be_forgotten(engine):
    mine, other = StoredKeyValue(engine, "A", "os"), StoredKeyValue(engine, "A", "os2")
    for values in (mine, other):
        values.set(b"a", b"1", BIG)
        values.set(b"b", b"2", BIG)
    engine.apply(mine.forget())
    assert (mine.keys(b"", b"", 10), mine.used_bytes()) == ([], 0)
    assert (other.keys(b"", b"", 10), other.used_bytes()) == ([b"a", b"b"], 2 * ENTRY_BYTES + 4)


def test_all_of_an_agent_can_be_forgotten(engine):
    for agent_id, harness in [("A", "os"), ("A", "gone"), ("AA", "os")]:
        StoredKeyValue(engine, agent_id, harness).set(b"a", b"1", BIG)
    engine.apply(forget_agent(engine, "A"))
    assert len(engine.scan_keys("kv")) == 2
    assert StoredKeyValue(engine, "AA", "os").get(b"a") == b"1"


def test_values_survive_a_restart(path):
    with SqliteEngine(path) as engine:
        assert StoredKeyValue(engine, "A", "os").set(b"k", bytes(100), BIG)
    with SqliteEngine(path) as engine:
        values = StoredKeyValue(engine, "A", "os")
        assert values.get(b"k") == bytes(100)
        assert not values.set(b"l", b"", 100 + 1 + 2 * ENTRY_BYTES)


def test_a_store_that_does_not_work_is_the_storages_error(engine, values, monkeypatch):
    def fail(_):
        raise StoreError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(engine, "apply", fail)
        with pytest.raises(StorageError, match="the disk is full"):
            values.set(b"k", b"v", BIG)
    assert (values.get(b"k"), values.used_bytes()) == (None, 0)
    engine.apply([put("kv", b"local/used/01AGENT/os", b'\x01"x"')])
    with pytest.raises(StorageError, match="expected a number"):
        values.set(b"k", b"v", BIG)
    engine.close()
    with pytest.raises(StorageError, match="store is closed"):
        values.get(b"k")


def test_the_locks_of_owners_go_with_them(engine):
    values = StoredKeyValue(engine, "01AGENT", "os")
    assert len(module._locks[engine]) == 1
    del values
    gc.collect()
    assert len(module._locks[engine]) == 0
