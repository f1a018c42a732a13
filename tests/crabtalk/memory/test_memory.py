"""Memories of agents: kept, found, forgotten, and nobody else's."""

import json

import pytest
import trio

from crabtalk.clock import SystemClock
from crabtalk.errors import NotFound, StoreError, TooLarge
from crabtalk.memory import service as module
from crabtalk.memory.service import MemoryService
from crabtalk.store.checking import check_records
from crabtalk.store.engine import put
from crabtalk.store.interfaces.memories import Memories
from crabtalk.store.memory import MemoryEngine
from crabtalk.wire.pb import crabtalk_pb2 as pb
from daemon_client import serving

pytestmark = pytest.mark.trio


@pytest.fixture
def store():
    engine = MemoryEngine()
    yield engine
    engine.close()


@pytest.fixture
def memory(store):
    return MemoryService(store, SystemClock())


async def names(memory, query, agent="A", limit=10):
    return [one.record.name for one in await memory.recall(agent, query, limit)]


async def test_what_is_remembered_is_recalled_by_name_alias_and_text(memory):
    assert not await memory.remember("A", "harbour", "The boats are blue.", ["Hafen"])
    for query in ("harbour", "hafen", "blue boats", "HARBOUR!", "where is the harbour"):
        assert await names(memory, query) == ["harbour"]
    assert await names(memory, "mountain") == []


async def test_a_note_of_the_same_name_is_replaced(memory):
    await memory.remember("A", "harbour", "blue")
    (first,) = await memory.recall("A", "harbour", 5)
    assert await memory.remember("A", "harbour", "green")
    (second,) = await memory.recall("A", "harbour", 5)
    assert (second.record.content, second.record.created_ms) == ("green", first.record.created_ms)
    assert await names(memory, "blue") == []


async def test_agents_have_memories_of_their_own(memory):
    await memory.remember("A", "harbour", "A's")
    assert await names(memory, "harbour", agent="B") == []
    with pytest.raises(NotFound, match="nothing is remembered as `harbour`"):
        await memory.forget("B", "harbour")
    assert await names(memory, "harbour") == ["harbour"]


async def test_what_is_forgotten_is_gone(memory, store):
    await memory.remember("A", "harbour", "blue")
    await memory.forget("A", "harbour")
    assert await names(memory, "harbour") == []
    assert Memories(store).all() == []


async def test_a_query_without_words_returns_the_latest(memory):
    for name in ("one", "two", "three"):
        await memory.remember("A", name, name)
        await trio.sleep(0.002)
    assert await names(memory, "", limit=2) == ["three", "two"]


async def test_memories_outlive_the_service(memory, store):
    await memory.remember("A", "harbour", "blue", ["Hafen"])
    again = MemoryService(store, SystemClock())
    assert await names(again, "hafen") == ["harbour"]


async def test_archives_are_recalled_behind_notes(memory, store):
    await memory.recall("A", "", 1)  # so that it is in memory already
    store.apply(memory.archive_writes("A", "About the  harbour\n", "We spoke about the harbour.", 5))
    memory.changed("A")
    await memory.remember("A", "harbour", "We spoke about the harbour.")
    assert await names(memory, "harbour") == ["harbour", "About the harbour"]
    await memory.forget("A", "About the harbour")
    assert await names(memory, "harbour") == ["harbour"]


async def test_an_archive_without_a_title_is_called_by_its_time(memory, store):
    store.apply(memory.archive_writes("A", " ", "harbour", 0))
    assert await names(memory, "harbour") == ["conversation until 1970-01-01T00:00:00+00:00"]


async def test_the_oldest_archives_go(memory, store, monkeypatch):
    monkeypatch.setattr(module, "MAX_ARCHIVES", 3)
    for number in range(5):
        store.apply(memory.archive_writes("A", f"t{number}", "harbour", number))
    assert sorted(await names(memory, "harbour")) == ["t2", "t3", "t4"]


async def test_there_is_room_for_so_much(memory, monkeypatch):
    monkeypatch.setattr(module, "MAX_NOTES", 2)
    await memory.remember("A", "one", "x")
    await memory.remember("A", "two", "x")
    with pytest.raises(TooLarge, match="there are 2 notes already"):
        await memory.remember("A", "three", "x")
    assert await memory.remember("A", "two", "y")
    monkeypatch.setattr(module, "MAX_NOTES_BYTES", 20)
    with pytest.raises(TooLarge, match="more than 20 bytes"):
        await memory.remember("A", "two", "y" * 20)
    await memory.forget("A", "one")
    await memory.remember("A", "two", "y" * 16)


async def test_what_was_not_stored_is_not_remembered(memory, store, monkeypatch):
    async def fails(_batch):
        raise StoreError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(store, "commit", fails)
        with pytest.raises(StoreError):
            await memory.remember("A", "harbour", "blue")
    assert await names(memory, "harbour") == []


async def test_agents_that_were_not_asked_for_long_make_room(memory, monkeypatch):
    monkeypatch.setattr(module, "_KEPT_BYTES", 20_000)
    for agent in "ABCDE":
        await memory.remember(agent, "harbour", "x" * 4000)
    assert len(memory._minds) < 5
    for agent in "ABCDE":
        assert await names(memory, "harbour", agent=agent) == ["harbour"]


async def test_many_at_once_lose_nothing(memory, store):
    async with trio.open_nursery() as nursery:
        for number in range(50):
            nursery.start_soon(memory.remember, "A", f"note {number}", "harbour")
    assert len(Memories(store).of_agent("A")) == 50
    assert len(await memory.recall("A", "harbour", 100)) == 50


async def test_a_damaged_memory_is_found_by_the_check(memory, store):
    await memory.remember("A", "harbour", "blue")
    assert check_records(store) == []
    store.apply([put("memory", b"local/note/A/broken", b"\x01{}"), put("memory", b"local/other/A", b"")])
    problems = "\n".join(check_records(store))
    assert "local/note/A/broken` is damaged" in problems
    assert "column memory has a key of no known kind: `other/A`" in problems


# The harness, through a daemon


@pytest.fixture
async def daemon(store):
    async with serving(store) as daemon:
        yield daemon


async def ask(daemon, agent, tool, harness="memory", **arguments):
    outcome = await daemon.client.call(agent, harness, tool, json.dumps(arguments))
    return outcome.done.decode() if outcome.WhichOneof("outcome") == "done" else f"failed: {outcome.failed}"


async def test_the_tools_of_the_harness(daemon):
    agent = await daemon.client.declare("ann", {"name": "memory", "builtin": "memory"})
    assert await ask(daemon, agent, "remember", name="harbour", content="blue") == "remembered `harbour`"
    replaced = await ask(daemon, agent, "remember", name=" harbour\n", content="green", aliases=["Hafen"])
    assert replaced == "replaced what was remembered as `harbour`"
    (found,) = json.loads(await ask(daemon, agent, "recall", query="hafen"))
    assert (found["name"], found["kind"], found["content"]) == ("harbour", "note", "green")
    assert await ask(daemon, agent, "recall", query="mountain") == "nothing is remembered about it"
    assert await ask(daemon, agent, "forget", name="harbour") == "forgot `harbour`"
    assert await ask(daemon, agent, "forget", name="harbour") == "failed: nothing is remembered as `harbour`"


async def test_each_call_leaves_a_row(daemon):
    agent = await daemon.client.declare("ann", {"name": "notes", "builtin": "memory"})
    await ask(daemon, agent, "recall", harness="notes", query="x")
    rows = (await daemon.client.ask(list_invocations=pb.ListInvocationsMsg())).invocations
    assert [(one.harness, one.tool, one.outcome, one.digest) for one in rows] == [
        ("notes", "recall", "done", "builtin:memory")
    ]


@pytest.mark.parametrize(
    ("tool", "args", "why"),
    [
        ("remember", "", "`name` is missing"),
        ("remember", "[]", "arguments: expected an object"),
        ("remember", '{"name": "a"', "arguments: "),
        ("remember", '{"name": "a"}', "`content` is missing"),
        ("remember", '{"name": "", "content": "x"}', "name: expected 1 to 128 characters, got 0"),
        ("remember", '{"name": "a\\u0000", "content": "x"}', "name: expected text without control"),
        ("remember", '{"name": 1, "content": "x"}', "name: expected text"),
        ("remember", json.dumps({"name": "a", "content": "x" * 8193}), "content: expected 1 to 8192 bytes"),
        ("remember", '{"name": "a", "content": "x", "aliases": "b"}', "aliases: expected a list"),
        ("remember", '{"name": "a", "content": "x", "agent": "B"}', "unknown argument `agent`"),
        ("recall", '{"query": "a", "limit": 21}', "limit: expected 1 to 20"),
        ("recall", '{"query": "a", "limit": true}', "limit: expected 1 to 20"),
        ("recall", json.dumps({"query": "x" * 1001}), "query: expected at most 1000 characters"),
        ("recall", json.dumps({"query": "x" * 70_000}), "arguments: expected at most 65536 bytes"),
        ("forget", "{}", "`name` is missing"),
    ],
)
async def test_wrong_arguments_are_told_to_the_model(daemon, tool, args, why):
    agent = await daemon.client.declare("ann", {"name": "memory", "builtin": "memory"})
    outcome = await daemon.client.call(agent, "memory", tool, args)
    assert outcome.failed.startswith(why)


async def test_memories_go_with_their_agent(daemon, store):
    agent = await daemon.client.declare("ann", {"name": "memory", "builtin": "memory"})
    await ask(daemon, agent, "remember", name="harbour", content="blue")
    await daemon.client.ask(delete_agent=pb.DeleteAgentMsg(agent=agent))
    assert Memories(store).all() == []


async def test_a_long_archive_is_shown_in_part(daemon, store):
    agent = await daemon.client.declare("ann", {"name": "memory", "builtin": "memory"})
    text = "x " * 3000 + "the narwhal swam" + " y" * 3000
    store.apply(daemon.runtime.memory.archive_writes(agent, "Sea", text, 0))
    (found,) = json.loads(await ask(daemon, agent, "recall", query="narwhal"))
    assert (found["kind"], found["truncated"]) == ("archive", True)
    assert "the narwhal swam" in found["content"]
