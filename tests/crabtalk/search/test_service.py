"""Search over sessions: in step with the store, whatever happens to the index or to the daemon."""

import contextlib

import pytest
import trio
import trio.lowlevel
from pytest_trio import trio_fixture

from crabtalk.conversation.messages import Message, ToolCall
from crabtalk.errors import BadRequest, Busy, Internal, StoreError
from crabtalk.search import service as module
from crabtalk.search.excerpts import MAX_SEARCHED
from crabtalk.search.service import SearchService
from crabtalk.store.engine import put
from crabtalk.store.interfaces.sessions import SessionRecord, Sessions
from crabtalk.store.keys import key
from crabtalk.store.memory import MemoryEngine

pytestmark = pytest.mark.trio


class World:
    """A store, sessions in it, and a search that may be started again."""

    def __init__(self, path):
        self.store = MemoryEngine()
        self.sessions = Sessions(self.store)
        self.path = path
        self.search = None

    @contextlib.asynccontextmanager
    async def serving(self):
        self.search = SearchService(self.store, self.path)
        async with trio.open_nursery() as nursery:
            await nursery.start(self.search.serve)
            yield self.search
            self.search.stop()
            nursery.cancel_scope.cancel()

    def say(self, handle, *messages, agent="A", sender="me", created_ms=1):
        """Commit messages to a session, which is made if it is not there."""
        record = self.sessions.get(handle) or SessionRecord(
            handle, agent, sender, None, "", created_ms, created_ms
        )
        said = [Message("user", one) if isinstance(one, str) else one for one in messages]
        _, writes = self.sessions.append(record, [one.to_json() for one in said], created_ms)
        self.store.apply(writes)
        if self.search is not None:
            self.search.touched(handle)

    def remove(self, handle):
        self.store.apply(self.sessions.remove(self.sessions.get(handle)))

    async def found(self, query, **options):
        return [(hit.session.handle, hit.index) for hit in await self.search.search(query, **options)]


@pytest.fixture
def cold(tmp_path):
    made = World(tmp_path / "search.db")
    yield made
    made.store.close()


@trio_fixture
async def world(cold):
    async with cold.serving():
        yield cold


async def test_what_was_committed_before_a_search_is_found(world):
    for number in range(50):
        world.say("s", f"message about topic{number}")
        assert await world.found(f"topic{number}") == [("s", number)]


async def test_roles_and_names_of_tools_are_searched_and_results_and_arguments_are_not(world):
    call = ToolCall("c1", "os__read_file", '{"path": "secretargument"}')
    world.say(
        "s",
        Message("system", "systemword"),
        Message("user", "userword"),
        Message("assistant", "assistantword", thinking="thinkingword", tool_calls=(call,)),
        Message("tool", "resultword", tool_call_id="c1"),
    )
    assert await world.found("userword") == [("s", 1)]
    assert await world.found("assistantword") == [("s", 2)]
    assert await world.found("read") == [("s", 2)]
    for word in ("systemword", "thinkingword", "resultword", "secretargument", "path"):
        assert await world.found(word) == []


async def test_a_hit_has_a_window_of_what_was_said_around_it(world):
    call = ToolCall("c1", "grep", "{}")
    world.say(
        "s",
        "zero",
        Message("assistant", "", tool_calls=(call,)),
        Message("tool", "found something", tool_call_id="c1"),
        "the lighthouse",
        Message("assistant", "x" * 5000),
    )
    (hit,) = await world.search.search("lighthouse", 5, 2, 1)
    assert [(one.role, one.index, one.tool_name) for one in hit.window] == [
        ("assistant", 1, "grep"), ("tool", 2, "grep"), ("user", 3, ""), ("assistant", 4, ""),
    ]  # fmt: skip
    assert [(one.snippet[:20], one.truncated) for one in hit.window] == [
        ("", False), ("", True), ("the lighthouse", False), ("x" * 20, True),
    ]  # fmt: skip
    assert hit.score > 0
    (alone,) = await world.search.search("lighthouse", 5, 0, 0)
    assert [one.index for one in alone.window] == [3]
    (result,) = await world.search.search("lighthouse", 5, 1, 0)
    assert [one.tool_name for one in result.window] == ["grep", ""]  # the call is before the window


async def test_filters(world):
    world.say("1", "ship", agent="A", sender="ann")
    world.say("2", "ship", agent="B", sender="bob")
    assert await world.found("ship", agent_id="B") == [("2", 0)]
    assert await world.found("ship", sender="ann") == [("1", 0)]


async def test_what_is_wrong_with_a_request_is_said(world):
    for numbers in ((0, 1, 1), (21, 1, 1), (1, -1, 0), (1, 11, 10)):
        with pytest.raises(BadRequest):
            await world.search.search("ship", *numbers)
    with pytest.raises(BadRequest, match="expected words"):
        await world.search.search("...")


async def test_sessions_that_go_are_not_found(world):
    world.say("1", "ship")
    world.say("2", "ship", agent="B")
    world.remove("1")
    world.search.touched("1")
    assert await world.found("ship") == [("2", 0)]
    world.remove("2")
    world.search.agent_forgotten("B")
    assert await world.found("ship") == []


async def test_a_session_of_the_same_handle_is_another_one(world):
    world.say("s", "ship")
    world.remove("s")
    world.say("s", "boat", created_ms=2)
    assert (await world.found("ship"), await world.found("boat")) == ([], [("s", 0)])


async def test_messages_that_were_rewritten_are_read_anew(world):
    world.say("s", "ship", "last")
    assert await world.found("ship") == [("s", 0)]
    changed = {"index": 0, "created_ms": 1, "body": {"role": "user", "content": "boat"}}
    world.store.apply([put("session", key("message", "s", 0), b"\x01" + _json(changed))])
    world.search.rewritten("s")
    assert (await world.found("ship"), await world.found("boat")) == ([], [("s", 0)])


def _json(value):
    import json

    return json.dumps(value).encode()


async def test_a_start_finds_what_was_said_and_removed_meanwhile(cold):
    async with cold.serving():
        for handle in ("kept", "grows", "goes", "again"):
            cold.say(handle, f"ship of {handle}")
        assert len(await cold.found("ship")) == 4
    cold.search = None
    cold.say("grows", "another ship")
    cold.say("new", "ship")
    cold.remove("goes")
    cold.remove("again")
    cold.say("again", "boat", created_ms=5)
    async with cold.serving():
        assert sorted(await cold.found("ship")) == [("grows", 0), ("grows", 1), ("kept", 0), ("new", 0)]
        assert await cold.found("boat") == [("again", 0)]


async def test_the_index_of_another_store_is_not_believed(cold):
    async with cold.serving():
        cold.say("s", "ship")
        assert await cold.found("ship") == [("s", 0)]
    cold.search = None
    cold.remove("s")
    cold.say("s", "boat")  # as many messages, of the same time
    async with cold.serving():
        assert (await cold.found("ship"), await cold.found("boat")) == ([], [("s", 0)])


@pytest.mark.parametrize(
    "damage", [lambda path: path.unlink(), lambda path: path.write_bytes(b"junk" * 5000)]
)
async def test_an_index_that_is_lost_is_made_again(cold, damage):
    async with cold.serving():
        cold.say("s", "ship")
        await cold.found("ship")
    damage(cold.path)
    async with cold.serving():
        assert await cold.found("ship") == [("s", 0)]


async def test_an_index_that_breaks_while_it_is_used_is_made_again(world):
    world.say("s", *(f"ship {number}" for number in range(300)))
    assert await world.found("ship 7")
    with world.path.open("r+b") as file:
        file.seek(100)
        file.write(b"\xff" * (world.path.stat().st_size - 100))
    for end in ("-wal", "-shm"):
        with contextlib.suppress(FileNotFoundError):
            (world.path.parent / (world.path.name + end)).unlink()
    with contextlib.suppress(Internal):
        await world.found("ship")
    world.say("s", "narwhal")
    assert await world.found("narwhal") == [("s", 300)]
    assert len(await world.found("ship")) == 10


async def test_an_index_that_cannot_be_made_is_said_and_tried_again(cold):
    cold.path.mkdir()
    cold.say("s", "ship")
    async with cold.serving():
        with pytest.raises(Internal, match="the search index does not work: "):
            await cold.found("ship")
        cold.path.rmdir()
        assert await cold.found("ship") == [("s", 0)]


async def test_a_full_disk_costs_nothing_that_was_there(world, monkeypatch):
    world.say("s", "ship")
    assert await world.found("ship") == [("s", 0)]
    index = world.search._index

    def full(*_):
        raise StoreError("database or disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(index, "add", full)
        patched.setattr(index, "clear", lambda: pytest.fail("the index is not broken"))
        world.say("s", "boat")
        with pytest.raises(Internal, match="database or disk is full"):
            await world.found("ship")
    assert await world.found("boat") == [("s", 1)]
    assert await world.found("ship") == [("s", 0)]


async def test_a_search_does_not_wait_for_ever(cold, monkeypatch):
    monkeypatch.setattr(module, "_PATIENCE_S", 0.05)
    search = SearchService(cold.store, cold.path)  # that nobody serves
    search.touched("s")
    with pytest.raises(Busy, match="the search index is being made: 1 sessions are left"):
        await search.search("ship")


async def test_what_is_no_message_is_passed_over(world):
    record = SessionRecord("odd", "A", "me", None, "", 1, 1)
    bodies = [{"role": "user", "content": "ship"}, {"role": "nobody"}, {}, {"role": "user", "content": 7}]
    world.store.apply(world.sessions.append(record, bodies, 1)[1])
    world.search.touched("odd")
    assert await world.found("ship") == [("odd", 0)]
    (hit,) = await world.search.search("ship", 1, 0, 3)
    assert [one.index for one in hit.window] == [0]


async def test_the_end_of_a_giant_message_is_not_searched(world):
    world.say("s", "start " + "x " * MAX_SEARCHED + "end")
    assert await world.found("start") == [("s", 0)]
    assert await world.found("end") == []


async def test_a_long_session_is_read_in_pages(world):
    world.say("s", *(f"word{number}" for number in range(module._PAGE * 2 + 3)))
    assert await world.found(f"word{module._PAGE * 2 + 2}") == [("s", module._PAGE * 2 + 2)]


async def test_many_sessions_at_once_while_others_search(world):
    async def talk(number):
        for turn in range(5):
            world.say(f"s{number}", f"talk{number} turn{turn}")
            await trio.lowlevel.checkpoint()
            assert (f"s{number}", turn) in await world.found(f'"talk{number} turn{turn}"')

    async with trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(talk, number)
