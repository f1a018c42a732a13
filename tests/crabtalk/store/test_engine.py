"""What every engine promises: one contract, in memory and in a file."""

import itertools
import random
import threading
import time

import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crabtalk.store.engine import COLUMNS, Write, delete, end_of, entries, keys, put
from crabtalk.store.memory import MemoryEngine
from crabtalk.store.sqlite import SqliteEngine


def fill(engine, *names, column="kv"):
    engine.apply([put(column, name, b"=" + name) for name in names])


def test_an_absent_value_differs_from_an_empty_one(engine):
    assert engine.get("kv", b"k") is None
    engine.apply([put("kv", b"k", b"")])
    assert engine.get("kv", b"k") == b""


def test_every_column_is_its_own(engine):
    for column in COLUMNS:
        engine.apply([put(column, b"k", column.encode())])
    assert [engine.get(column, b"k") for column in COLUMNS] == [column.encode() for column in COLUMNS]
    engine.apply([delete("wake", b"k")])
    assert [column for column in COLUMNS if engine.get(column, b"k") is None] == ["wake"]


def test_keys_come_in_the_order_of_their_bytes(engine):
    names = [
        bytes(pair) for n in (1, 2) for pair in itertools.product(b"\x00\x01/a\x7f\x80\xfe\xff", repeat=n)
    ]
    shuffled = random.Random(5).sample(names, len(names))
    fill(engine, *shuffled)
    assert engine.scan_keys("kv") == sorted(names)
    assert engine.scan("kv") == [(name, b"=" + name) for name in sorted(names)]


@pytest.mark.parametrize(
    "prefix", [b"", b"a", b"a\xff", b"\xff", b"\xff\xff", b"%", b"_", b"a/", b"\0", b"zz"]
)
def test_a_prefix_is_bytes_and_no_pattern(engine, prefix):
    names = [
        b"a",
        b"a\xff",
        b"a\xff\xff",
        b"a\xff\0",
        b"b",
        b"\xff",
        b"\xff\xff",
        b"\xff\xff\xff",
        b"%",
        b"%a",
    ]
    names += [b"_", b"a/", b"a/b", b"a0", b"\0", b"\0\0", b"\xfe", b"'; DROP TABLE kv; --"]
    fill(engine, *names)
    assert engine.scan_keys("kv", prefix) == sorted(name for name in names if name.startswith(prefix))


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (None, [b"p", b"p/", b"p/1", b"p/2"]),
        (b"", [b"p", b"p/", b"p/1", b"p/2"]),
        (b"o\xff", [b"p", b"p/", b"p/1", b"p/2"]),
        (b"p", [b"p/", b"p/1", b"p/2"]),
        (b"p\0", [b"p/", b"p/1", b"p/2"]),
        (b"p/1", [b"p/2"]),
        (b"p/2", []),
        (b"q", []),
        (b"\xff" * 1024, []),
    ],
)
def test_a_scan_goes_on_after_a_key_that_need_not_exist(engine, after, expected):
    fill(engine, b"o", b"p", b"p/", b"p/1", b"p/2", b"q")
    assert engine.scan_keys("kv", b"p", after) == expected
    assert engine.scan("kv", b"p", after) == [(name, b"=" + name) for name in expected]


def test_a_scan_stops_at_its_limit(engine):
    fill(engine, *(b"%04d" % n for n in range(50)))
    assert engine.scan_keys("kv", limit=3) == [b"0000", b"0001", b"0002"]
    assert engine.scan_keys("kv", limit=0) == engine.scan("kv", limit=-1) == []
    assert len(engine.scan("kv")) == 50


def test_everything_with_a_prefix_can_be_walked_in_pages(engine):
    names = [b"p%03d" % n for n in range(25)]
    fill(engine, b"o", *names, b"q")
    for page in (1, 5, 24, 25, 26):
        assert list(keys(engine, "kv", b"p", page)) == names
        assert list(entries(engine, "kv", b"p", page)) == [(name, b"=" + name) for name in names]


def test_big_keys_and_values_come_back(engine):
    key, value = b"\xff" * 1024, random.Random(1).randbytes(64 << 20)
    engine.apply([put("harness", key, value), put("harness", b"\0" * 1024, b"small")])
    assert engine.get("harness", key) == value
    assert engine.scan_keys("harness") == [b"\0" * 1024, key]
    assert engine.scan_keys("harness", b"\xff") == [key]


@pytest.mark.parametrize(
    ("write", "error", "message"),
    [
        (put("kv", b"", b""), ValueError, "key is 0 bytes long, from 1 to 1024 are taken"),
        (put("kv", b"x" * 1025, b""), ValueError, "key is 1025 bytes long"),
        (put("kv", b"k", bytes((64 << 20) + 1)), ValueError, "at most 67108864 are taken"),
        (put("secrets", b"k", b""), ValueError, "there is no column 'secrets'"),
        (Write("kv", "k", b""), TypeError, "keys and values are bytes"),
        (Write("kv", b"k", "v"), TypeError, "keys and values are bytes"),
    ],
)
def test_what_no_engine_takes_is_the_callers_mistake(engine, write, error, message):
    with pytest.raises(error, match=message):
        engine.apply([put("kv", b"before", b""), write])
    with pytest.raises(error, match=message):
        engine.defer([write])
    assert engine.scan_keys("kv") == []


def test_a_column_that_is_not_there_is_an_error(engine):
    for read in (engine.scan, engine.scan_keys):
        with pytest.raises(ValueError, match="there is no column 'kv; --'"):
            read("kv; --")
    with pytest.raises(ValueError, match="there is no column 'sqlite_schema'"):
        engine.get("sqlite_schema", b"k")


def test_later_writes_of_a_key_win(engine):
    engine.apply([put("kv", b"a", b"1"), delete("kv", b"a"), put("kv", b"a", b"2"), put("kv", b"b", b"1")])
    engine.apply([put("kv", b"b", b"2"), delete("kv", b"b"), delete("kv", b"absent")])
    assert engine.scan("kv") == [(b"a", b"2")]


def test_an_empty_batch_is_fine(engine):
    engine.apply([])
    assert engine.scan_keys("kv") == []


@pytest.mark.parametrize("rows", [1, 2, 3, 255, 256, 257, 1023])
def test_a_batch_of_any_length_is_written_whole(engine, rows):
    names = [b"%05d" % n for n in range(rows)]
    fill(engine, *names)
    assert engine.scan("kv", limit=2000) == [(name, b"=" + name) for name in names]
    engine.apply([delete("kv", name) for name in names[1:]])
    assert engine.scan_keys("kv") == names[:1]


def test_small_and_big_values_mix_in_a_batch(engine):
    values = {b"%d" % n: bytes([n]) * size for n, size in enumerate((0, 65536, 65537, 5, 1 << 20, 70000))}
    engine.apply([put("kv", name, value) for name, value in values.items()])
    assert dict(engine.scan("kv")) == values
    engine.apply([delete("kv", b"4"), put("kv", b"1", b"small now"), put("kv", b"3", bytes(100_000))])
    assert engine.get("kv", b"4") is None
    assert (engine.get("kv", b"1"), engine.get("kv", b"3")) == (b"small now", bytes(100_000))


def test_what_is_deferred_is_seen_with_the_next_batch(engine):
    engine.defer([put("audit", b"row", b"1")])
    engine.apply([put("kv", b"k", b"v")])
    assert engine.get("audit", b"row") == b"1"


def test_deferred_and_other_batches_keep_their_order(engine):
    for n in range(40):
        engine.defer([put("kv", b"k", b"deferred %d" % n)])
        engine.apply([put("kv", b"k", b"applied %d" % n)])
        assert engine.get("kv", b"k") == b"applied %d" % n
    engine.defer([put("kv", b"k", b"last")])
    engine.flush()
    assert engine.get("kv", b"k") == b"last"


def test_what_is_deferred_is_there_soon_by_itself(engine):
    start = time.monotonic()
    engine.defer([put("audit", b"row", b"1")])
    while engine.get("audit", b"row") is None:
        assert time.monotonic() - start < 5
        time.sleep(0.005)
    assert time.monotonic() - start >= 0.09


def test_statistics_count_keys_and_bytes(engine):
    engine.apply([put("kv", b"a", b"123"), put("kv", b"b", b""), put("wake", b"a", b"1")])
    engine.defer([put("kv", b"c", b"4567")])
    engine.flush()
    found = engine.statistics()
    assert {column: n for column, n in found.keys.items() if n} == {"kv": 3, "wake": 1}
    assert {column: n for column, n in found.bytes.items() if n} == {"kv": 7, "wake": 1}
    assert list(found.keys) == list(found.bytes) == list(COLUMNS)
    assert (found.batches, found.deferred_lost) in {(2, 0), (3, 0)}  # a flush may count
    assert found.size_bytes >= 8


def test_a_healthy_store_passes_its_check(engine):
    fill(engine, b"a", b"b")
    assert engine.check() == []


def test_a_closed_store_says_so(engine):
    engine.close()
    engine.close()
    for call in (
        lambda: engine.get("kv", b"k"),
        lambda: engine.scan("kv"),
        lambda: engine.scan_keys("kv"),
        lambda: engine.apply([]),
        lambda: engine.defer([]),
        engine.flush,
        engine.statistics,
        engine.check,
    ):
        with pytest.raises(ValueError, match="store is closed"):
            call()


@pytest.mark.trio
async def test_tasks_commit_together(engine):
    async with trio.open_nursery() as nursery:
        for n in range(100):
            nursery.start_soon(engine.commit, [put("kv", b"%03d" % n, b"v")])
    assert len(engine.scan_keys("kv")) == 100


@pytest.mark.trio
async def test_a_commit_that_is_cancelled_is_made_all_the_same(engine):
    with trio.CancelScope() as scope:
        scope.cancel()
        await engine.commit([put("kv", b"k", b"v")])
        assert engine.get("kv", b"k") == b"v"
        await trio.lowlevel.checkpoint()
    assert scope.cancelled_caught


@pytest.mark.trio
async def test_a_commit_that_is_no_batch_is_refused_at_once(engine):
    with pytest.raises(ValueError, match="there is no column"):
        await engine.commit([put("nowhere", b"k", b"v")])
    engine.close()
    with pytest.raises(ValueError, match="store is closed"):
        await engine.commit([])


def test_a_scan_is_one_snapshot_while_threads_write(engine):
    """Each batch sets all keys to one number, so a scan that mixes two batches is found out."""
    names = [b"%03d" % n for n in range(50)]
    stop = threading.Event()

    def write(start):
        for n in itertools.count(start, 2):
            engine.apply([put("kv", name, b"%d" % n) for name in names])
            if stop.is_set():
                return

    writers = [threading.Thread(target=write, args=(start,)) for start in (0, 1)]
    for thread in writers:
        thread.start()
    try:
        seen = set()
        deadline = time.monotonic() + 20
        while len(seen) < 10 and time.monotonic() < deadline:
            values = {value for _, value in engine.scan("kv")}
            assert len(values) <= 1
            seen |= values
        assert len(seen) >= 10
    finally:
        stop.set()
        for thread in writers:
            thread.join()


def test_threads_write_and_read_what_they_wrote(engine):
    failures = []

    def work(name):
        for n in range(30):
            key = b"%s/%d" % (name, n)
            engine.apply([put("kv", key, name), put("wake", key, b"")])
            engine.defer([put("audit", key, b"")])
            if engine.get("kv", key) != name or engine.scan_keys("wake", key) != [key]:
                failures.append(key)

    threads = [threading.Thread(target=work, args=(b"t%d" % n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    engine.flush()
    assert failures == []
    assert [len(engine.scan_keys(column)) for column in ("kv", "wake", "audit")] == [120, 120, 120]


@pytest.mark.parametrize(
    ("prefix", "end"),
    [(b"", None), (b"a", b"b"), (b"a\xff", b"b"), (b"\xff", None), (b"\xff\xff", None), (b"a\xfe", b"a\xff")],
)
def test_the_end_of_a_prefix(prefix, end):
    assert end_of(prefix) == end


names = st.binary(min_size=1, max_size=3) | st.sampled_from([b"a", b"a/", b"a/\xff", b"\xff\xff"])
writes = st.builds(Write, st.sampled_from(["kv", "wake"]), names, st.none() | st.binary(max_size=4))
steps = st.lists(
    st.one_of(
        st.tuples(st.just("apply"), st.lists(writes, max_size=12)),
        st.tuples(st.just("defer"), st.lists(writes, max_size=12)),
        st.tuples(st.just("scan"), names, st.none() | names, st.integers(0, 5)),
    ),
    max_size=25,
)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(steps)
def test_both_engines_answer_alike(tmp_path_factory, steps):
    model = MemoryEngine()
    with SqliteEngine(tmp_path_factory.mktemp("alike") / "store.db") as engine:
        for step, *args in steps:
            if step == "scan":
                engine.flush()
                model.flush()
                assert engine.scan("kv", *args) == model.scan("kv", *args)
                assert engine.scan_keys("wake", *args) == model.scan_keys("wake", *args)
            else:
                getattr(engine, step)(*args)
                getattr(model, step)(*args)
        engine.flush()
        model.flush()
        for column in ("kv", "wake"):
            assert engine.scan(column) == model.scan(column)
            for name, _ in model.scan(column):
                assert engine.get(column, name) == model.get(column, name)
