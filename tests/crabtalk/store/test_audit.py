"""Audit rows: newest first, in little time, and not for ever."""

import pytest

from crabtalk.errors import StoreError
from crabtalk.store.engine import put
from crabtalk.store.interfaces import audit as module
from crabtalk.store.interfaces.audit import Audit, AuditRow
from crabtalk.store.records import encode_json


def row(number, started_ms=None, **more):
    facts = {
        "id": f"01H{number:023}",
        "trigger": "tool",
        "agent_id": "01AGENT",
        "agent_name": "me",
        "harness": "os",
        "tool": "read",
        "digest": "ab" * 32,
        "started_ms": 1_790_000_000_000 + number if started_ms is None else started_ms,
        "duration_us": 5,
        "instructions": 7,
        "outcome": "done",
        "message": "",
        "depth": 0,
        "chain": "01CHAIN",
    }
    return AuditRow(**(facts | more))


@pytest.fixture
def audit(engine):
    return Audit(engine)


def write(engine, *rows):
    engine.apply([one for each in rows for one in Audit(engine).row(each)])


def test_every_field_comes_back(engine, audit):
    full = row(
        1,
        outcome="trap",
        message='a "quoted"\nlïne \x00 \ud800',
        parent_chain="01P",
        args_size=1,
        args_digest="cd",
        result_size=2,
        result_digest="ef",
        epoch=3,
        reason="late",
        client="cli",
        attempt=2,
        scheduled_at_ms=4,
        key="k",
        subject="01W",
    )
    assert all(a != b for a, b in zip(full[14:], row(1)[14:], strict=True))
    write(engine, full)
    assert audit.latest(1) == [full]


def test_the_newest_rows_come_first(engine, audit):
    rows = [row(n, started_ms=1000 + n // 3) for n in range(600)]
    write(engine, *reversed(rows))
    newest = rows[::-1]
    assert audit.latest(5) == newest[:5]
    assert audit.latest(1000) == newest
    assert audit.since(1100, 1000) == [one for one in newest if one.started_ms >= 1100]
    assert audit.since(1100, 2) == newest[:2]
    assert audit.since(5000) == audit.latest(0) == []


def test_the_rows_of_one_harness(engine, audit):
    rows = [row(n, harness=("os", "search")[n % 2]) for n in range(600)]
    write(engine, *rows)
    assert audit.since(0, 3, "search") == [rows[599], rows[597], rows[595]]
    assert len(audit.since(0, 1000, "os")) == 300
    assert audit.since(0, 10, "nothing") == []


def test_rows_expire_by_age(engine, audit):
    rows = [row(n, started_ms=n // 2) for n in range(20)]
    write(engine, *rows)
    engine.apply(audit.expire(max_rows=100, before_ms=5))
    assert audit.latest(100) == rows[:9:-1]
    assert audit.expire(max_rows=100, before_ms=5) == audit.expire(max_rows=100, before_ms=-1) == []


def test_rows_expire_by_number(engine, audit):
    rows = [row(n) for n in range(20)]
    write(engine, *rows)
    engine.apply(audit.expire(max_rows=3, before_ms=0))
    assert audit.latest(100) == rows[:16:-1]
    engine.apply(audit.expire(max_rows=0, before_ms=0))
    assert audit.latest() == []


def test_much_expires_in_portions(engine, audit, monkeypatch):
    monkeypatch.setattr(module, "_EXPIRED_AT_ONCE", 7)
    rows = [row(n, started_ms=n) for n in range(30)]
    write(engine, *rows)
    sizes = []
    while writes := audit.expire(max_rows=10, before_ms=5):
        sizes.append(len(writes))
        engine.apply(writes)
    assert (sum(sizes), max(sizes)) == (20, 7)
    assert audit.latest(100) == rows[:19:-1]


@pytest.mark.parametrize("value", [[], ["x"] * 13, ["x"] * 40, {"id": 1}, None])
def test_a_damaged_row_says_so(engine, audit, value):
    write(engine, row(1))
    (at,) = engine.scan_keys("audit")
    engine.apply([put("audit", at, encode_json(value))])
    with pytest.raises(StoreError, match="is damaged: expected 26 values"):
        audit.latest()


def test_a_row_without_the_newest_fields_is_read(engine, audit):
    write(engine, row(1))
    (at,) = engine.scan_keys("audit")
    engine.apply([put("audit", at, encode_json(list(row(1))[:14]))])
    assert audit.latest() == [row(1)]


def test_an_interpreter_without_the_compiled_encoder_writes_the_same(monkeypatch):
    sample = row(1, message="ü", epoch=None)
    monkeypatch.setattr(module.encoder, "c_make_encoder", None)
    assert module._array_encoder()(sample) == module._encode(sample)
