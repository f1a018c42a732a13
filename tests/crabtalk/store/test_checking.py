"""The check of the records finds each thing that can be wrong with them, and nothing where nothing is."""

import hashlib

import pytest

from crabtalk.store.checking import check_records
from crabtalk.store.engine import delete, put
from crabtalk.store.interfaces.agents import AgentRecord, Agents
from crabtalk.store.interfaces.audit import Audit, AuditRow
from crabtalk.store.interfaces.config import Values
from crabtalk.store.interfaces.harnesses import Harnesses, HarnessRecord
from crabtalk.store.interfaces.keyvalue import StoredKeyValue
from crabtalk.store.interfaces.sessions import SessionRecord, Sessions
from crabtalk.store.interfaces.skills import SkillRecord, Skills
from crabtalk.store.interfaces.subscriptions import DeliveryRecord, SubscriptionRecord, Subscriptions
from crabtalk.store.interfaces.wakes import WakeRecord, Wakes

ELF = b"\x7fELF"
DIGEST = hashlib.sha256(ELF).hexdigest()


@pytest.fixture
def filled(engine):
    """A store with one of everything."""
    engine.apply(Agents(engine).save(AgentRecord("A", "me", {}, 1, 1, 1)))
    engine.apply(Harnesses(engine).save(HarnessRecord("os", DIGEST, len(ELF), 1), ELF))
    engine.apply(Skills(engine).save(SkillRecord("s", "", "", 1)))
    engine.apply(Values(engine).save("boots", 1))
    _, writes = Sessions(engine).append(SessionRecord("s", "A", "", None, "", 1, 1), [{}, {}], 1)
    engine.apply(writes)
    wakes = Wakes(engine)
    pending = WakeRecord("W1", "A", "os", 5, b"", key="k")
    running = WakeRecord("W2", "A", "os", 6, b"", key="l")
    engine.apply([*wakes.insert(pending), *wakes.insert(running)])
    engine.apply(wakes.claim(running, "BOOT")[1])
    subscriptions = Subscriptions(engine)
    engine.apply(subscriptions.save(SubscriptionRecord(3, "a", None, ("A", "os"), False, 1, "client")))
    engine.apply(subscriptions.save_delivery(DeliveryRecord(3, 1, "E", "a", "", 1)))
    StoredKeyValue(engine, "A", "os").set(b"a/b\xff", b"value", 1000)
    row = AuditRow("I", "tool", "A", "me", "os", "t", DIGEST, 1, 1, 1, "done", "", 0, "C")
    engine.apply(Audit(engine).row(row))
    return engine


def test_nothing_is_wrong_with_a_store_that_is_fine(filled):
    assert check_records(filled) == []


def test_a_snapshot_can_be_checked_while_others_write(sqlite_engine):
    wakes = Wakes(sqlite_engine)
    record = WakeRecord("W1", "A", "os", 5, b"")
    sqlite_engine.apply(wakes.insert(record))
    with sqlite_engine.snapshot() as moment:
        sqlite_engine.apply(wakes.remove(record)[1:2])
        assert check_records(moment) == []
    assert check_records(sqlite_engine) != []


@pytest.mark.parametrize(
    ("write", "problem"),
    [
        (put("agent", b"local/id/A", b"\x02"), "local/id/A` is damaged"),
        (put("skill", b"local/name/s", b"\x01{}"), "local/name/s` is damaged"),
        (put("config", b"local/value/boots", b"\x01{"), "local/value/boots` is damaged"),
        (put("audit", b"local/row/x", b"\x01[]"), "local/row/x` is damaged"),
        (put("kv", b"elsewhere", b""), "column kv has a key of no known kind: `elsewhere`"),
        (put("wake", b"local/other/x", b""), "column wake has a key of no known kind: `other/x`"),
        (put("harness", b"local/elf/" + DIGEST.encode(), b"x"), "has other bytes than its digest says"),
        (
            delete("harness", b"local/elf/" + DIGEST.encode()),
            f"harness os means {DIGEST}, which is not there",
        ),
        (put("wake", b"local/id/W1", b"\x01{}"), "local/id/W1` is damaged"),
        (delete("wake", b"local/due/00000000000000000005/W1"), "wake W1 is not found by `due/0000"),
        (delete("wake", b"local/owner/A/os/00000000000000000006/W2"), "wake W2 is not found by `owner/A/os"),
        (
            put("wake", b"local/due/00000000000000000007/W1", b""),
            "`due/00000000000000000007/W1` leads to no such",
        ),
        (
            put("wake", b"local/due/00000000000000000007/W9", b""),
            "`due/00000000000000000007/W9` leads to no such",
        ),
        (delete("wake", b"local/key/A/os/k"), "wake W1 is pending and its key does not lead"),
        (put("wake", b"local/key/A/os/k", b"W2"), "wake W1 is pending and its key does not lead"),
        (put("wake", b"local/key/A/os/z", b"W9"), "`key/A/os/z` leads to no pending wake"),
        (put("wake", b"local/key/A/os/l", b"W2"), "`key/A/os/l` leads to no pending wake"),
        (
            delete("sub", b"local/id/00000000000000000003"),
            "event E waits for subscription 3, which is not there",
        ),
        (put("sub", b"local/last", b"\x012"), "the last subscription was 2, and there is 3"),
        (put("kv", b"local/value/A/os/b", b""), "the values of `A/os` are 138 bytes, not 73"),
        (put("kv", b"local/used/B/os", b"\x015"), "the values of `B/os` are 0 bytes, not 5"),
        (delete("session", b"local/message/s/00000000000000000001"), "session s has 1 messages, not 2"),
        (put("session", b"local/event/s/00000000000000000001", b""), "session s has 1 events, not 0"),
        (delete("session", b"local/agent/A/s"), "session s is not found by its agent"),
    ],
)
def test_each_thing_that_is_wrong_is_said(filled, write, problem):
    filled.apply([write])
    problems = check_records(filled)
    assert any(problem in one for one in problems), problems


def test_a_wake_that_was_running_at_a_crash_may_share_its_key_with_the_next(engine):
    wakes = Wakes(engine)
    record, following = (
        WakeRecord("W1", "A", "os", 5, b"", key="k"),
        WakeRecord("W2", "A", "os", 9, b"", key="k"),
    )
    engine.apply(wakes.insert(record))
    running, writes = wakes.claim(record, "BOOT")
    engine.apply(writes)
    engine.apply(wakes.insert(following))
    engine.apply(wakes.release(running, attempt=2)[1])
    assert check_records(engine) == []


def test_the_sentences_are_bounded(engine):
    engine.apply([put("kv", b"x%03d" % n, b"") for n in range(500)])
    assert len(check_records(engine)) == 100
