"""The typed interfaces: what is written is what is read, and nothing else is touched."""

from dataclasses import replace

import pytest

from crabtalk.errors import StoreError
from crabtalk.store.engine import put
from crabtalk.store.interfaces.agents import AgentRecord, Agents
from crabtalk.store.interfaces.config import Values
from crabtalk.store.interfaces.harnesses import Harnesses, HarnessRecord
from crabtalk.store.interfaces.memories import Memories, MemoryRecord
from crabtalk.store.interfaces.sessions import SessionRecord, Sessions
from crabtalk.store.interfaces.skills import SkillRecord, Skills
from crabtalk.store.interfaces.subscriptions import DeliveryRecord, SubscriptionRecord, Subscriptions
from crabtalk.store.interfaces.wakes import ChainRecord, Due, WakeRecord, Wakes

AGENT = AgentRecord(
    "01AGENT", "me", {"description": "ü", "harnesses": [{"name": "os", "sha256": "ab"}]}, 1, 2, 1
)
CHAIN = ChainRecord("01CHAIN", 2, 1000, 250, 10**10, parent="01PARENT")


# Agents, harnesses, skills, values


def test_agents_are_saved_changed_and_removed(engine):
    agents = Agents(engine)
    other = replace(AGENT, id="00OTHER", name="you", config={})
    engine.apply([*agents.save(AGENT), *agents.save(other)])
    assert agents.all() == [other, AGENT]
    changed = replace(AGENT, name="renamed", revision=2)
    engine.apply(agents.save(changed))
    assert (agents.get("01AGENT"), agents.get("nobody")) == (changed, None)
    engine.apply(agents.remove("01AGENT"))
    assert agents.all() == [other]


def test_a_damaged_agent_says_which(engine):
    engine.apply([put("agent", b"local/id/01X", b'\x01{"id":"01X"}')])
    with pytest.raises(StoreError, match="at agent `local/id/01X` is damaged: lacks one of name, config"):
        Agents(engine).get("01X")
    with pytest.raises(StoreError, match="local/id/01X"):
        Agents(engine).all()


def test_memories_are_kept_by_agent_and_kind(engine):
    memories = Memories(engine)
    note = MemoryRecord("a/b", "A", "note", "a/b", ("ü",), "text", 1, 2)
    archives = [MemoryRecord(f"01{n}", "A", "archive", "title", (), "long", n, n) for n in range(3)]
    other = replace(note, agent_id="AB")
    engine.apply([write for one in (note, *archives, other) for write in memories.save(one)])
    assert memories.of_agent("A") == [note, *archives]
    assert memories.get("A", "note", "a/b") == note
    assert memories.get("A", "archive", "a/b") is None
    engine.apply(memories.oldest_archives("A", 1))
    assert memories.of_agent("A") == [note, archives[2]]
    assert memories.oldest_archives("A", 5) == []
    engine.apply(memories.remove(note))
    assert memories.all() == [other, archives[2]]
    engine.apply(memories.forget_agent("A"))
    assert memories.all() == [other]


def test_a_name_means_its_newest_bytes_and_older_ones_stay(engine):
    harnesses = Harnesses(engine)
    old, new = HarnessRecord("os", "aa", 3, 1), HarnessRecord("os", "bb", 4, 2)
    engine.apply(harnesses.save(old, b"old"))
    engine.apply(harnesses.save(new, b"\x00new"))
    assert harnesses.all() == [new]
    assert harnesses.get("os") == new
    assert harnesses.get("nothing") is None
    assert harnesses.digests() == ["aa", "bb"]
    assert [harnesses.elf(digest) for digest in ("aa", "bb", "cc")] == [b"old", b"\x00new", None]
    engine.apply(harnesses.remove("os"))
    assert (harnesses.all(), harnesses.digests()) == ([], ["aa", "bb"])
    engine.apply(harnesses.remove_elf("aa"))
    assert harnesses.digests() == ["bb"]


def test_skills_are_saved_and_removed(engine):
    skills = Skills(engine)
    record = SkillRecord("a/b", "when", "body", 5)
    engine.apply(skills.save(record))
    assert skills.all() == [record] == [skills.get("a/b")]
    engine.apply(skills.remove("a/b"))
    assert skills.get("a/b") is None


def test_values_are_kept_by_name(engine):
    values = Values(engine)
    assert (values.get("boots"), values.number("boots"), values.names()) == (None, 0, [])
    engine.apply([*values.save("boots", 7), *values.save("a/b", {"x": [1]})])
    assert (values.number("boots"), values.get("a/b"), values.names()) == (7, {"x": [1]}, ["a/b", "boots"])
    with pytest.raises(StoreError, match="at config `local/value/a%2Fb` is damaged: expected a number"):
        values.number("a/b")
    engine.apply(values.remove("boots"))
    assert values.get("boots") is None


# Sessions


def session(handle="s", **more):
    return SessionRecord(handle, "01AGENT", "me", None, "", 1, 1, **more)


def test_messages_come_in_order_and_in_pages(engine):
    sessions = Sessions(engine)
    record = session("send:01CHAIN:0/x")
    engine.apply(sessions.save(record))
    for start in range(0, 30, 10):
        bodies = [{"role": "user", "content": f"{start + n}"} for n in range(10)]
        record, writes = sessions.append(record, bodies, now_ms=start)
        engine.apply(writes)
    assert sessions.get(record.handle) == record
    assert (record.message_count, record.updated_ms) == (30, 20)
    first = sessions.messages(record.handle, limit=12)
    rest = sessions.messages(record.handle, after=first[-1].index)
    assert [one.body["content"] for one in first + rest] == [str(n) for n in range(30)]
    assert [one.index for one in rest] == list(range(12, 30))


def test_events_are_numbered_on_their_own(engine):
    sessions = Sessions(engine)
    record, writes = sessions.append_events(session(), [{"kind": "a"}, {"kind": "b"}])
    engine.apply(writes)
    record, writes = sessions.append(record, [{"role": "user"}], 1)
    engine.apply(writes)
    record, writes = sessions.append_events(record, [{"kind": "c"}])
    engine.apply(writes)
    assert sessions.events("s") == [(0, {"kind": "a"}), (1, {"kind": "b"}), (2, {"kind": "c"})]
    assert sessions.events("s", after=1) == [(2, {"kind": "c"})]
    assert (record.event_count, record.message_count) == (3, 1)


def test_a_session_is_removed_with_what_is_in_it(engine):
    sessions = Sessions(engine)
    kept, writes = sessions.append(session("s/2"), [{}], 1)
    engine.apply(writes)
    for handle in ("s", "s%2F2"):
        record, writes = sessions.append(session(handle), [{}, {}], 1)
        engine.apply(writes)
        record, writes = sessions.append_events(record, [{}])
        engine.apply(writes)
        assert sessions.of_agent("01AGENT") == [record, kept] if handle == "s" else True
        engine.apply(sessions.remove(record))
    assert sessions.all() == sessions.of_agent("01AGENT") == [kept]
    assert len(sessions.messages("s/2")) == 1
    assert len(engine.scan_keys("session")) == 3


# Wakes


def wake(wake_id="W1", at_ms=5000, **more):
    facts = {"agent_id": "01AGENT", "harness": "os", "payload": b"\0\xff", "created_ms": 1} | more
    return WakeRecord(wake_id, at_ms=at_ms, **facts)


def test_a_wake_is_found_by_id_instant_owner_and_key(engine):
    wakes = Wakes(engine)
    record = wake(key="every/%day", chain=CHAIN)
    engine.apply(wakes.insert(record))
    assert wakes.get("W1") == record
    assert wakes.keys() == [Due(5000, "W1")]
    assert wakes.by_owner("01AGENT", "os") == wakes.by_owner("01AGENT") == [record]
    assert wakes.by_key("01AGENT", "os", "every/%day") == record
    assert list(wakes.all()) == [record]
    for harness, name in (("other", "every/%day"), ("os", "every")):
        assert wakes.by_key("01AGENT", harness, name) is None
    engine.apply(wakes.remove(record))
    assert engine.scan_keys("wake") == []


def test_wakes_come_as_they_fall_due_in_pages(engine):
    wakes = Wakes(engine)
    records = [wake(f"W{n:02}", at_ms=(n * 7919) % 13) for n in range(30)]
    for record in records:
        engine.apply(wakes.insert(record))
    expected = sorted(Due(one.at_ms, one.id) for one in records)
    assert wakes.keys() == expected
    first = wakes.keys(limit=7)
    assert first + wakes.keys(first[-1], 100) == expected
    assert [Due(one.at_ms, one.id) for one in wakes.by_owner("01AGENT", "os")] == expected


def test_owners_with_like_names_are_kept_apart(engine):
    wakes = Wakes(engine)
    for n, (agent_id, harness) in enumerate(
        [("A", "os"), ("A", "os2"), ("A", "o"), ("AA", "os"), ("B", "os")]
    ):
        engine.apply(wakes.insert(wake(f"W{n}", agent_id=agent_id, harness=harness)))
    assert [one.id for one in wakes.by_owner("A", "os")] == ["W0"]
    assert sorted(one.id for one in wakes.by_owner("A")) == ["W0", "W1", "W2"]
    assert (wakes.count("A"), wakes.count("A", "os"), wakes.count("C")) == (3, 1, 0)


def test_the_harnesses_that_have_wakes_are_found_without_reading_all_wakes(engine, monkeypatch):
    wakes = Wakes(engine)
    names = ["", "0", "h", "h-x", "h.y", "h/z", "h0", "hh", "z"]
    for n, harness in enumerate(names * 20):
        engine.apply(wakes.insert(wake(f"W{n}", agent_id="A", harness=harness)))
        engine.apply(wakes.insert(wake(f"V{n}", agent_id="AA", harness=f"{harness}b")))
    read = []
    scan_keys = engine.scan_keys
    monkeypatch.setattr(engine, "scan_keys", lambda *args: read.append(found := scan_keys(*args)) or found)
    assert sorted(wakes.harnesses_of("A")) == sorted(names)
    assert sum(map(len, read)) == len(names)
    assert list(wakes.harnesses_of("C")) == []


def test_counting_and_listing_stop_at_a_limit(engine):
    wakes = Wakes(engine)
    for n in range(10):
        engine.apply(wakes.insert(wake(f"W{n}", at_ms=n)))
    assert (wakes.count("01AGENT", "os", 4), wakes.count("01AGENT", "os", 40)) == (4, 10)
    assert [one.id for one in wakes.by_owner("01AGENT", "os", 2)] == ["W0", "W1"]
    assert wakes.by_owner("01AGENT", "os", 0) == []


def test_what_a_harness_made_itself_is_counted_alone(engine):
    wakes = Wakes(engine)
    records = [wake(f"W{n}", at_ms=n, by="harness" if n < 4 else "client") for n in range(9)]
    for record in records:
        engine.apply(wakes.insert(record))
    other = wake("V", harness="o/s%", by="harness")
    engine.apply(wakes.insert(other))
    assert wakes.made() == {("01AGENT", "os"): 4, ("01AGENT", "o/s%"): 1}
    assert engine.check() == []
    engine.apply(wakes.remove(other))
    for record in records:
        engine.apply(wakes.remove(record))
    assert (engine.scan_keys("wake"), wakes.made()) == ([], {})


def test_the_same_key_replaces_in_one_batch(engine):
    wakes = Wakes(engine)
    old, new = wake("W1", key="k"), wake("W2", at_ms=7000, key="k")
    engine.apply(wakes.insert(old))
    engine.apply(wakes.insert(new, replaces=wakes.by_key("01AGENT", "os", "k")))
    assert (wakes.get("W1"), wakes.by_key("01AGENT", "os", "k")) == (None, new)
    assert wakes.keys() == [Due(7000, "W2")]


def test_a_running_wake_keeps_its_instant_and_frees_its_key(engine):
    wakes = Wakes(engine)
    record = wake(key="k")
    engine.apply(wakes.insert(record))
    running, writes = wakes.claim(record, "BOOT1")
    engine.apply(writes)
    assert wakes.get("W1") == running == replace(record, state="running", claim="BOOT1")
    assert (wakes.keys(), wakes.by_key("01AGENT", "os", "k")) == ([Due(5000, "W1")], None)


def test_the_next_occurrence_keeps_the_key_of_a_running_one(engine):
    wakes = Wakes(engine)
    record, following = wake("W1", key="k"), wake("W2", at_ms=9000, key="k")
    engine.apply(wakes.insert(record))
    running, writes = wakes.claim(record, "BOOT1")
    engine.apply(writes)
    engine.apply(wakes.insert(following))
    again, writes = wakes.release(running, attempt=2)
    engine.apply(writes)
    assert again == replace(record, attempt=2) == wakes.get("W1")
    assert wakes.by_key("01AGENT", "os", "k") == following
    claimed, writes = wakes.claim(again, "BOOT2")
    engine.apply(writes)
    engine.apply(wakes.remove(claimed))
    assert wakes.by_key("01AGENT", "os", "k") == following
    engine.apply(wakes.remove(following))
    assert engine.scan_keys("wake") == []


def test_a_released_wake_has_its_key_again(engine):
    wakes = Wakes(engine)
    record = wake(key="k")
    engine.apply(wakes.insert(record))
    running, writes = wakes.claim(record, "BOOT1")
    engine.apply(writes)
    again, writes = wakes.release(running, attempt=2)
    engine.apply(writes)
    assert wakes.by_key("01AGENT", "os", "k") == again == replace(record, attempt=2)


# Subscriptions


def subscription(number, **more):
    facts = {"source": "a:*", "target_agent": None, "target_harness": ("01AGENT", "os"), "once": False}
    return SubscriptionRecord(number, **(facts | {"created_ms": 1, "by": "client"} | more))


def delivery(number, seq, **more):
    return DeliveryRecord(number, seq, f"E{seq}", "a:b", "päyload", 5, **more)


def test_subscriptions_are_saved_and_removed(engine):
    subscriptions = Subscriptions(engine)
    assert subscriptions.last_id() == 0
    one = subscription(1)
    ten = subscription(10, target_agent="01X", target_harness=None, once=True, by="harness")
    engine.apply(subscriptions.save(one))
    engine.apply(subscriptions.save(ten))
    assert subscriptions.all() == [one, ten]
    assert (subscriptions.get(10), subscriptions.get(2)) == (ten, None)


def test_the_id_of_a_subscription_is_never_given_again(engine):
    subscriptions = Subscriptions(engine)
    for number in (1, 2):
        engine.apply(subscriptions.save(subscription(number)))
    engine.apply(subscriptions.remove(2))
    assert subscriptions.last_id() == 2
    engine.apply(subscriptions.save(subscription(1, once=True)))
    assert subscriptions.last_id() == 2


def test_events_wait_in_order_for_each_subscription(engine):
    subscriptions = Subscriptions(engine)
    for seq in (2, 10, 1):
        engine.apply(subscriptions.save_delivery(delivery(1, seq)))
    engine.apply(subscriptions.save_delivery(delivery(11, 1, attempt=2, chain=CHAIN)))
    assert [one.seq for one in subscriptions.deliveries(1)] == [1, 2, 10]
    assert [one.seq for one in subscriptions.deliveries(1, after_seq=1)] == [2, 10]
    assert [one.seq for one in subscriptions.deliveries(1, limit=1)] == [1]
    assert subscriptions.deliveries(11) == [delivery(11, 1, attempt=2, chain=CHAIN)]
    assert [(one.subscription_id, one.seq) for one in subscriptions.all_deliveries()] == [
        (1, 1),
        (1, 2),
        (1, 10),
        (11, 1),
    ]
    engine.apply(subscriptions.remove_delivery(1, 2))
    assert [one.seq for one in subscriptions.deliveries(1)] == [1, 10]


def test_a_subscription_is_removed_with_what_waits_for_it(engine):
    subscriptions = Subscriptions(engine)
    for number in (1, 11):
        engine.apply(subscriptions.save(subscription(number)))
        engine.apply(subscriptions.save_delivery(delivery(number, 1)))
    engine.apply(subscriptions.remove(1))
    assert subscriptions.all() == [subscription(11)]
    assert [one.subscription_id for one in subscriptions.all_deliveries()] == [11]
