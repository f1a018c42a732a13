"""Sessions of clients."""

import pytest
import trio

from crabtalk.errors import BadRequest, Conflict, NotFound, TooLarge
from crabtalk.ids import new_id
from crabtalk.sessions import SessionService
from crabtalk.store.interfaces.agents import AgentRecord
from crabtalk.store.memory import MemoryEngine

pytestmark = pytest.mark.trio


class Clock:
    now = 1_000

    def now_ms(self):
        return self.now

    def monotonic(self):
        return trio.current_time()


def agent(name):
    return AgentRecord(id=new_id(), name=name, config={}, created_ms=0, updated_ms=0, revision=1)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def store():
    return MemoryEngine()


@pytest.fixture
def sessions(store, clock):
    return SessionService(store, clock)


async def test_a_session_is_found_by_its_handle_and_its_agent_alone(sessions):
    ann, bob = agent("ann"), agent("bob")
    made = await sessions.create("chat/1", ann, "me", "/srv/code")
    assert sessions.get("chat/1") == made
    assert sessions.of(ann, "chat/1").root == "/srv/code"
    with pytest.raises(BadRequest, match="session `chat/1` is not one of agent bob"):
        sessions.of(bob, "chat/1")
    with pytest.raises(NotFound, match="there is no session `chat`"):
        sessions.get("chat")


async def test_a_handle_is_taken_once_even_by_two_at_the_same_time(sessions):
    ann = agent("ann")
    refused = []

    async def create():
        try:
            await sessions.create("one", ann, "", None)
        except Conflict as error:
            refused.append(error.message)

    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(create)
    assert refused == ["session `one` exists already"] * 4
    assert len(sessions.matching()) == 1


async def test_sessions_are_listed_newest_first(sessions, clock):
    ann, bob = agent("ann"), agent("bob")
    for number, (who, sender) in enumerate([(ann, "x"), (bob, "x"), (ann, "y")]):
        clock.now = 1000 + number
        await sessions.create(f"s{number}", who, sender, None)
    assert [one.handle for one in sessions.matching()] == ["s2", "s1", "s0"]
    assert [one.handle for one in sessions.matching(ann.id)] == ["s2", "s0"]
    assert [one.handle for one in sessions.matching(ann.id, "x")] == ["s0"]
    assert [one.handle for one in sessions.matching(sender="x")] == ["s1", "s0"]


@pytest.mark.parametrize(
    ("handle", "sender", "kind", "message"),
    [
        ("", "", BadRequest, "session_handle: expected a handle, got nothing"),
        ("a\nb", "", BadRequest, "session_handle: expected text without control characters"),
        ("x" * 257, "", TooLarge, "session_handle: expected at most 256 bytes, got 257"),
        ("x", "é" * 129, TooLarge, "sender: expected at most 256 bytes, got 258"),
        ("send:a:1", "", BadRequest, "session_handle: handles that start with `send:` are the daemon's own"),
    ],
)
async def test_what_cannot_be_a_session_is_refused(sessions, handle, sender, kind, message):
    with pytest.raises(kind) as caught:
        await sessions.create(handle, agent("ann"), sender, None)
    assert caught.value.message == message


@pytest.mark.parametrize("handle", ["", "x" * 257, "/" * 256, "é" * 128])
async def test_any_handle_can_be_asked_for(sessions, handle):
    with pytest.raises(NotFound):
        sessions.get(handle)


async def test_the_longest_handle_of_escaped_characters_can_be_stored(sessions):
    made = await sessions.create("/" * 256, agent("ann"), "", None)
    assert sessions.get("/" * 256) == made


async def test_a_session_goes_with_its_agent(sessions, store):
    ann, bob = agent("ann"), agent("bob")
    await sessions.create("a", ann, "", None)
    await sessions.create("b", bob, "", None)
    await store.commit(sessions.forgetting(ann.id))
    assert [one.handle for one in sessions.matching()] == ["b"]
    await sessions.delete(sessions.get("b"))
    assert store.scan_keys("session") == []
