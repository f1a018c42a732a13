"""One test for each key of a declaration: that it is enforced, through the executor, on a real guest.

What is bound works, what is not bound is not there: the guest traps on a call that nobody registered.
"""

import json
import time
from types import SimpleNamespace

import pytest
import trio
from pytest_trio import trio_fixture

from berm.fnv import ALIASES, CAPABILITIES
from berm.wire import unpack_fields
from crabtalk.builtins import Builtins
from crabtalk.capabilities.schedule import schedule
from crabtalk.capabilities.send import send
from crabtalk.capabilities.sessions import sessions
from crabtalk.capabilities.skills import skills
from crabtalk.capabilities.topics import topics
from crabtalk.clock import SystemClock
from crabtalk.declarations import HARNESS_KEYS
from crabtalk.errors import BadRequest, Busy, NotFound
from crabtalk.events.bus import Bus
from crabtalk.ids import new_id
from crabtalk.memory.harness import MemoryHarness
from crabtalk.memory.service import MemoryService
from crabtalk.scheduling.wakes import WakeService
from crabtalk.search.service import SearchService
from crabtalk.skills import SkillService
from crabtalk.store.interfaces.sessions import SessionRecord, Sessions
from crabtalk.tools import Done, Failed, Trapped
from declared_guests import guest, request, sha256_of
from servers import Server, reply

pytestmark = pytest.mark.trio

GROUPS = {
    "files": {"berm.fs.read", "berm.fs.write", "berm.fs.list", "berm.fs.stat", "berm.fs.remove"},
    "hosts": {"berm.http.fetch", "berm.http.start", "berm.http.collect"},
    "zone": {"berm.clock.now", "berm.clock.offset"},
    "storage": {"berm.get", "berm.set", "berm.kv.delete", "berm.kv.keys"},
    "calls": {"berm.call"},
    "schedule": {"crabtalk.wake.schedule", "crabtalk.wake.cancel", "crabtalk.wake.list"},
    "topics": {"crabtalk.event.publish", "crabtalk.event.subscribe", "crabtalk.event.unsubscribe"},
    "peers": {"crabtalk.peers.list"},
    "send": {"crabtalk.agent.send"},
    "sessions": {"crabtalk.sessions.search"},
    "skills": {"crabtalk.skills.list", "crabtalk.skills.get"},
}
GROUPS["root"] = {*GROUPS["files"], "berm.exec.run"}
VALUES = {
    "hosts": ["api.x.org"],
    "zone": "UTC",
    "storage": 1000,
    "calls": ["probe"],
    "schedule": 1,
    "topics": ["a:*"],
    "peers": ["*"],
    "send": ["helper"],
    "sessions": "own",
    "skills": ["*"],
}


def ok(outcome):
    """Return what the capability replied to the guest."""
    assert isinstance(outcome, Done), outcome
    assert outcome.data[:1] == b"o", outcome
    return outcome.data[1:]


def no(outcome, kind):
    """Return why the capability said no: `e`, it failed, or `r`, it was refused where guests can tell."""
    assert isinstance(outcome, Done), outcome
    assert outcome.data[:1] == kind, outcome
    return outcome.data[1:].decode()


class Answering:
    """Turns whose answer tells who was asked by whom; `hush` is answered by nothing."""

    async def send(self, context, target, content):
        if content == "full":
            raise Busy("too many turns")
        error = BadRequest("no words") if content == "hush" else None
        return SimpleNamespace(text=f"{context.agent.name} to {target.name}: {content}", error=error)


@trio_fixture
async def bound(world, tmp_path):
    """A world with wakes, events, skills and search, as the daemon has."""
    wakes = WakeService(world.store, SystemClock(), world.agents, boot_id=new_id())
    bus = Bus(world.store, SystemClock(), world.agents, world.executor)
    world.schedule = lambda limit: schedule(wakes, limit)
    world.topics = lambda patterns: topics(bus, patterns)
    known = SkillService(world.store, SystemClock().now_ms, lambda: [tmp_path / "skills"])
    world.skills = lambda owner, names: skills(
        lambda: known.visible(names, world.agents.skills_of(owner.agent_id))
    )
    search = SearchService(world.store, tmp_path / "search.db")
    world.sessions = lambda owner: sessions(search, owner.agent_id)
    world.search = search
    world.send = lambda names: send(Answering(), world.agents.maybe_find, names)
    async with trio.open_nursery() as nursery:
        await nursery.start(search.serve)
        yield world
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("key", sorted(GROUPS))
async def test_an_argument_registers_its_capabilities_and_no_other(bound, tmp_path, key):
    value = VALUES.get(key, str(tmp_path))
    await bound.one(agent="helper")
    agent = await bound.one(**{key: value})
    registered = set()
    for name in (*CAPABILITIES, *ALIASES):
        outcome = await bound.call(agent, "ask", request(name))
        if isinstance(outcome, Trapped):
            assert outcome.kind == "unknown_host_call"
            assert f"`{name}` is not bound here" in outcome.message
        else:
            registered.add(ALIASES.get(name, name))
    assert registered == GROUPS[key]


async def test_without_an_argument_nothing_is_registered(world):
    agent = await world.one()
    for name in (*CAPABILITIES, *ALIASES, "crabtalk.protocol.call"):
        outcome = await world.ask(agent, name)
        assert isinstance(outcome, Trapped)
        assert outcome.kind == "unknown_host_call"


async def test_name(world):
    agent = await world.one()
    assert (await world.call(agent, "echo", "hi")).data == b"hi"
    with pytest.raises(NotFound, match="declares no harness `other`"):
        await world.call(agent, "echo", harness="other")


async def test_sha256(world):
    old = await world.put("probe", guest(("echo",)))
    agent = await world.declare({"name": "probe"})
    await world.put("probe", guest(("say",)))
    assert world.images.newest("probe").sha256 != old
    assert (await world.call(agent, "echo", "still the old bytes")).data == b"still the old bytes"
    with pytest.raises(NotFound, match="no tool `say`"):
        await world.call(agent, "say")
    with pytest.raises(NotFound, match="no image with sha256 000"):
        await world.declare({"name": "probe", "sha256": "0" * 64}, name="second")


async def test_source_is_text_for_people(world):
    agent = await world.one(source="github:somebody/something@v1")
    assert world.agents.shown(agent)["harnesses"][0]["source"] == "github:somebody/something@v1"
    assert (await world.call(agent, "echo", "x")).data == b"x"


async def test_files(world, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "secret").write_text("no")
    (tmp_path / "in" / "a.txt").write_text("yes")
    agent = await world.one(files=str(tmp_path / "in"))
    assert ok(await world.ask(agent, "berm.fs.read", "a.txt")) == b"yes"
    assert "path leaves the root" in no(await world.ask(agent, "berm.fs.read", "../secret"), b"e")
    assert (await world.ask(agent, "berm.exec.run", "true", "")).kind == "unknown_host_call"


async def test_root(world, tmp_path):
    agent = await world.one(root=str(tmp_path))
    ran = json.loads(ok(await world.ask(agent, "berm.exec.run", "echo made > a.txt; pwd", "")))
    assert ran["stdout"] == f"{tmp_path}\n"
    assert ok(await world.ask(agent, "berm.fs.read", "a.txt")) == b"made\n"


async def test_root_of_a_session_narrows_inside_it(world, tmp_path):
    (tmp_path / "code" / "one").mkdir(parents=True)
    (tmp_path / "code" / "top.txt").write_text("top")
    (tmp_path / "code" / "one" / "a.txt").write_text("inner")
    agent = await world.one(root={"session": str(tmp_path / "code")})

    async def read(path, root):
        return await world.ask(agent, "berm.fs.read", path, session="s", session_root=root)

    assert ok(await read("top.txt", None)) == b"top"
    for root in ("one", str(tmp_path / "code" / "one")):
        assert ok(await read("a.txt", root)) == b"inner"
        assert "path leaves the root" in no(await read("../top.txt", root), b"e")
    ran = await world.ask(agent, "berm.exec.run", "pwd", "", session_root="one")
    assert json.loads(ok(ran))["stdout"] == f"{tmp_path}/code/one\n"


@pytest.mark.parametrize("root", ["..", "/", "link", "../code_secret", "gone"])
async def test_root_of_a_session_never_widens(world, tmp_path, root):
    (tmp_path / "code").mkdir()
    (tmp_path / "code_secret").mkdir()
    (tmp_path / "code" / "link").symlink_to(tmp_path)
    agent = await world.one(root={"session": str(tmp_path / "code")})
    outcome = await world.ask(agent, "berm.fs.read", "x", session_root=root)
    assert isinstance(outcome, Trapped)
    assert outcome.kind == "link"
    assert outcome.message.startswith(f"root `{root}`: ")


async def test_a_root_in_the_home_is_an_error(world, home, tmp_path):
    (home / "harnesses").mkdir(parents=True)
    for key, path in (("root", home), ("files", home / "harnesses"), ("root", {"session": str(home)})):
        with pytest.raises(BadRequest, match="which no tool may enter"):
            await world.one(**{key: path if isinstance(path, dict) else str(path)})
    agent = await world.one(files=str(home.parent))
    assert "daemon's own directory" in no(await world.ask(agent, "berm.fs.list", home.name), b"e")
    with pytest.raises(BadRequest, match="no such file or directory"):
        await world.one(agent="second", root=str(tmp_path / "gone"))


async def test_hosts(world):
    with Server(lambda connection, _request: connection.sendall(reply(b"served"))) as server:
        agent = await world.one(hosts=[f"http://127.0.0.1:{server.port}"])
        answer = ok(await world.ask(agent, "berm.http.fetch", "GET", f"http://127.0.0.1:{server.port}/", ""))
        status, _, body = unpack_fields(answer)
        assert (status, body) == (b"200", b"served")
        for url in (f"http://localhost:{server.port}/", "https://example.org/"):
            refused = no(await world.ask(agent, "berm.http.fetch", "GET", url, ""), b"e")
            assert refused.startswith("host is not granted")


async def test_zone(world):
    agent = await world.one(zone=["Europe/Berlin", "UTC"])
    assert unpack_fields(ok(await world.ask(agent, "berm.clock.now")))[2] == b"Europe/Berlin"
    assert unpack_fields(ok(await world.ask(agent, "berm.clock.offset", "UTC", "0")))[0] == b"0"
    assert "zone is not bound" in no(await world.ask(agent, "berm.clock.offset", "Asia/Tokyo", "0"), b"e")


async def test_storage(world):
    agent = await world.one(storage="0.25KiB")
    assert ok(await world.ask(agent, "berm.set", "a", b"x" * 100)) == b""
    assert "quota of 256 bytes is used up" in no(await world.ask(agent, "berm.set", "b", b"x" * 100), b"r")
    assert unpack_fields(ok(await world.ask(agent, "berm.get", "a"))) == [b"x" * 100]


async def test_storage_belongs_to_the_agent_and_the_declared_name(world):
    pin = await world.put("probe")
    same = {"storage": "1MiB", "sha256": pin}
    agent = await world.declare({"name": "probe", **same}, {"name": "twin", **same, "prefix": "t"})
    other = await world.declare({"name": "probe", **same}, name="other")
    ok(await world.ask(agent, "berm.set", "key", "mine"))
    assert unpack_fields(ok(await world.ask(agent, "berm.get", "key"))) == [b"mine"]
    assert unpack_fields(ok(await world.ask(agent, "berm.get", "key", harness="twin"))) == []
    assert unpack_fields(ok(await world.ask(other, "berm.get", "key"))) == []


async def test_calls(world):
    await world.put("probe")
    await world.put("helper", guest(describe="helps"))
    await world.put("stranger", guest(describe="is not for everybody"))
    agent = await world.declare(
        {"name": "probe", "calls": ["helper"]},
        {"name": "helper", "prefix": "h"},
        {"name": "stranger", "prefix": "s"},
    )
    assert ok(await world.ask(agent, "berm.call", "helper", "echo", "hello")) == b"hello"
    assert "no such harness: stranger" in no(
        await world.ask(agent, "berm.call", "stranger", "echo", ""), b"r"
    )
    assert no(await world.ask(agent, "berm.call", "helper", "no", ""), b"e") == "no such thing"
    assert [row.trigger for row in world.rows()].count("call") == 2


async def test_schedule(bound):
    agent = await bound.one(guest(wake=True), schedule=1)
    at_ms = str(SystemClock().now_ms() + 3_600_000)
    first = ok(await bound.ask(agent, "crabtalk.wake.schedule", at_ms, "payload", "a")).decode()
    assert no(await bound.ask(agent, "crabtalk.wake.schedule", at_ms, "payload", "b"), b"e")
    (listed,) = json.loads(ok(await bound.ask(agent, "crabtalk.wake.list")))
    assert (listed["id"], listed["key"]) == (first, "a")
    assert ok(await bound.ask(agent, "crabtalk.wake.cancel", first)) == b"1"


async def test_topics(bound):
    agent = await bound.one(guest(notify=True), topics=["build:*", "exact"])
    ok(await bound.ask(agent, "crabtalk.event.publish", "build:done", "{}"))
    ok(await bound.ask(agent, "crabtalk.event.subscribe", "exact", "0"))
    for capability in ("publish", "subscribe"):
        for source in ("other:done", "wake:missed"):
            assert no(await bound.ask(agent, f"crabtalk.event.{capability}", source, "0"), b"e")


async def test_peers(world):
    agent = await world.one()
    reviewer = await world.declare(name="reviewer", description="Reviews.")
    await world.declare(name="writer", description="Writes.")
    agent = await world.agents.update(agent.id, {"harnesses": [{"name": "probe", "peers": ["reviewer"]}]})
    assert agent.config["harnesses"][0]["peers"] == [reviewer.id]
    listed = json.loads(ok(await world.ask(agent, "crabtalk.peers.list")))
    assert listed == [{"name": "reviewer", "description": "Reviews."}]
    await world.agents.rename(reviewer.id, "critic")
    listed = json.loads(ok(await world.ask(agent, "crabtalk.peers.list")))
    assert [peer["name"] for peer in listed] == ["critic"]
    agent = await world.agents.update(agent.id, {"harnesses": [{"name": "probe", "peers": ["*"]}]})
    listed = json.loads(ok(await world.ask(agent, "crabtalk.peers.list")))
    assert [peer["name"] for peer in listed] == ["critic", "writer"]


async def test_send(bound):
    helper, other = await bound.one(agent="helper"), await bound.one(agent="other")
    agent = await bound.one(send=["helper"])
    assert bound.agents.config(agent).harness("probe").send == (helper.id,)
    for name in ("helper", helper.id):
        answer = ok(await bound.ask(agent, "crabtalk.agent.send", name, "hi"))
        assert answer.decode() == f"{agent.name} to helper: hi"
    await bound.agents.rename(helper.id, "aide")
    assert ok(await bound.ask(agent, "crabtalk.agent.send", "aide", "hi")).endswith(b"to aide: hi")
    for name in ("helper", "other", other.id, agent.name, "", "*"):
        refused = no(await bound.ask(agent, "crabtalk.agent.send", name, "hi"), b"e")
        assert refused == f"no such agent: {name}"
    assert no(await bound.ask(agent, "crabtalk.agent.send", "aide", "full"), b"e") == "too many turns"
    assert no(await bound.ask(agent, "crabtalk.agent.send", "aide", "hush"), b"e") == (
        "aide gave no answer: no words"
    )
    await bound.agents.delete(helper.id)
    assert "no such agent" in no(await bound.ask(agent, "crabtalk.agent.send", helper.id, "hi"), b"e")
    with pytest.raises(NotFound, match=r"no agent `nobody` - at `harnesses\[0\].send\[0\]`"):
        await bound.one(agent="last", send=["nobody"])


async def test_sessions(bound):
    agent = await bound.one(sessions="own")
    other = await bound.one(agent="other", sessions="own")
    stored = Sessions(bound.store)
    for owner, handle in ((agent, "mine"), (other, "theirs")):
        said = [{"role": "user", "content": f"where is the harbour of {handle}?"}]
        record = SessionRecord(handle, owner.id, "me", None, "Trips", 1, 1)
        bound.store.apply(stored.append(record, said, 1)[1])
        bound.search.touched(handle)
    (hit,) = json.loads(ok(await bound.ask(agent, "crabtalk.sessions.search", "harbour", "5", "1", "1")))
    assert (hit["session"], hit["index"], hit["title"]) == ("mine", 0, "Trips")
    assert hit["window"] == [
        {
            "role": "user",
            "index": 0,
            "snippet": "where is the harbour of mine?",
            "truncated": False,
            "tool_name": "",
        }
    ]
    for numbers in (("0", "1", "1"), ("21", "1", "1"), ("1", "15", "6"), ("1", "-1", "0")):
        refused = await bound.ask(agent, "crabtalk.sessions.search", "harbour", *numbers)
        assert "expected" in no(refused, b"e")
    assert "expected words" in no(
        await bound.ask(agent, "crabtalk.sessions.search", "?", "1", "0", "0"), b"e"
    )


async def test_skills(bound, tmp_path):
    for name in ("cook", "bake", "sail"):
        (tmp_path / "skills" / name).mkdir(parents=True)
        text = f"---\nname: {name}\ndescription: How to {name}.\n---\nFirst {name}.\n"
        (tmp_path / "skills" / name / "SKILL.md").write_text(text)
    agent = await bound.one(skills=["cook", "sail"])
    listed = json.loads(ok(await bound.ask(agent, "crabtalk.skills.list")))
    assert listed == [
        {"name": "cook", "description": "How to cook."},
        {"name": "sail", "description": "How to sail."},
    ]
    assert ok(await bound.ask(agent, "crabtalk.skills.get", "cook")) == b"First cook."
    assert no(await bound.ask(agent, "crabtalk.skills.get", "bake"), b"e") == "no skill `bake`"
    # What the agent itself does not see is not there for its harnesses.
    await bound.agents.update(agent.id, {"skills": ["bake", "sail"]})
    listed = json.loads(ok(await bound.ask(agent, "crabtalk.skills.list")))
    assert [one["name"] for one in listed] == ["sail"]
    assert no(await bound.ask(agent, "crabtalk.skills.get", "cook"), b"e") == "no skill `cook`"


async def test_builtin(world, make_world):
    clock = SystemClock()
    memory = Builtins([MemoryHarness(MemoryService(world.store, clock))])
    with_memory = make_world(world.store, world.home, builtins=memory)
    await with_memory.put("probe")
    agent = await with_memory.declare(
        {"name": "probe", "calls": ["notes"]}, {"name": "notes", "builtin": "memory"}, name="remembers"
    )
    note = json.dumps({"name": "harbour", "content": "blue"})
    for told in (b"remembered `harbour`", b"replaced what was remembered as `harbour`"):
        assert ok(await with_memory.ask(agent, "berm.call", "notes", "remember", note)) == told
    with_memory.images.close()
    with pytest.raises(BadRequest, match="no harness `memory` is built in"):
        await world.declare({"name": "memory", "builtin": "memory"})


async def test_deadline(world):
    agent = await world.one(deadline=0.3)
    started = time.monotonic()
    outcome = await world.call(agent, "spin")
    assert outcome.kind == "deadline"
    assert outcome.sentence == "the tool took too long and was stopped"
    assert 0.2 < time.monotonic() - started < 3


async def test_fuel(world):
    agent = await world.one(fuel=1_000_000)
    assert (await world.call(agent, "count", b"x" * 10)).data == b"counted"
    outcome = await world.call(agent, "count", b"x" * 100)
    assert outcome.kind == "out_of_fuel"
    assert 900_000 < outcome.instructions <= 1_000_000


async def test_memory(world):
    small = await world.one(memory="1MiB")
    large = await world.declare({"name": "probe", "memory": "256MiB"}, name="large")
    assert len((await world.call(small, "heap")).data) < 1
    assert 250 < len((await world.call(large, "heap")).data) < 256
    with pytest.raises(BadRequest, match="harness `probe`: "):
        await world.declare({"name": "probe", "memory": "128KiB"}, name="tiny")


async def test_rate(world):
    agent = await world.one(rate="3/h")
    for _ in range(3):
        await world.call(agent, "echo")
    with pytest.raises(Busy):
        await world.call(agent, "echo")


async def test_concurrency(world):
    agent = await world.one(concurrency=2, deadline=20)
    async with world.executor.open(), trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(world.call, agent, "spin")
        with trio.fail_after(10):
            while len(world.executor.running()) < 3:  # noqa: ASYNC110 - about other tasks
                await trio.sleep(0.01)
        states = sorted(one.state for one in world.executor.running())
        assert states == ["queued", "running", "running"]
        nursery.cancel_scope.cancel()


async def test_prefix(world):
    agent = await world.one(guest(("echo", "no")), prefix="p")
    assert [tool.wire_name for tool in world.tools.tools(agent)] == ["p__echo", "p__no"]
    assert [tool.name for tool in world.tools.tools(agent)] == ["echo", "no"]
    assert isinstance(await world.call(agent, "no"), Failed)


async def test_every_key_has_a_test_here():
    tested = {name.removeprefix("test_").split("_")[0] for name in globals() if name.startswith("test_")}
    assert set(HARNESS_KEYS) <= tested


async def test_bounds_are_what_was_declared(world):
    agent = await world.one(deadline=2, fuel=1000, rate="5/min", concurrency=4)
    bounds = world.agents.bounds(agent, "probe")
    assert (bounds.deadline_s, bounds.fuel, bounds.concurrency) == (2.0, 1000, 4)
    assert (bounds.rate.count, bounds.rate.per_s) == (5, 60.0)
    assert sha256_of(guest()) != bounds.digest
    assert (await world.agents.inspect(agent, "probe")).digest == bounds.digest
