"""Agents: declared, found, changed, upgraded with the difference shown, deleted with all that is theirs."""

import json

import pytest
import trio
import trio.testing

from crabtalk.config_patch import MARKER
from crabtalk.errors import BadRequest, Conflict, NotFound, TooLarge
from crabtalk.ids import is_id
from crabtalk.store.engine import put
from crabtalk.store.interfaces.agents import AgentRecord, Agents
from crabtalk.store.interfaces.harnesses import Harnesses
from crabtalk.store.interfaces.keyvalue import forget_agent
from crabtalk.store.sqlite import SqliteEngine
from crabtalk.tools import Done
from declared_guests import guest, request, sha256_of

pytestmark = pytest.mark.trio


async def test_an_agent_is_created_and_found(world):
    agent = await world.declare(description="Tests.", model="m")
    assert is_id(agent.id)
    assert (agent.name, agent.revision) == ("tester", 1)
    assert agent.config == {"description": "Tests.", "model": "m", "harnesses": []}
    assert world.agents.get(agent.id) == world.agents.by_name("tester") == agent
    assert world.agents.find(agent.id) == world.agents.find("tester") == agent
    assert world.agents.config(agent).model == "m"
    assert world.agents.agent("nobody") is None
    for look in (world.agents.get, world.agents.by_name, world.agents.find):
        with pytest.raises(NotFound):
            look("nobody")


async def test_agents_survive_a_restart(world):
    await world.put("probe")
    declared = [
        await world.declare({"name": "probe", "storage": "1MiB", "fuel": 1e6}, name=name) for name in "ba"
    ]
    world.start()
    assert world.agents.all() == declared[::-1]
    assert world.agents.bounds(declared[0], "probe").fuel == 1_000_000
    assert (await world.call(declared[0], "echo", "again")).data == b"again"


async def test_agents_survive_a_restart_on_disk(make_world, home, tmp_path):
    with SqliteEngine(tmp_path / "store.db") as store:
        world = make_world(store, home)
        agent = await world.one(storage="1MiB", peers=["*"])
        await world.ask(agent, "berm.set", "k", "v")
        world.images.close()
    with SqliteEngine(tmp_path / "store.db") as store:
        world = make_world(store, home)
        assert world.agents.all() == [agent]
        assert b"v" in (await world.ask(agent, "berm.get", "k")).data
        world.images.close()


async def test_names_are_labels_that_only_one_has(world):
    agent = await world.declare()
    with pytest.raises(Conflict, match="there is an agent named `tester` already"):
        await world.declare()
    other = await world.declare(name="other")
    with pytest.raises(Conflict):
        await world.agents.rename(other.id, "tester")
    renamed = await world.agents.rename(agent.id, "examiner")
    assert (renamed.id, renamed.name, renamed.revision) == (agent.id, "examiner", 2)
    assert world.agents.by_name("examiner") == renamed
    with pytest.raises(NotFound):
        world.agents.by_name("tester")
    await world.agents.rename(other.id, "tester")
    with pytest.raises(BadRequest, match="agent: expected a name"):
        await world.agents.rename(other.id, "a/b")


async def test_renaming_changes_nothing_else(world):
    agent = await world.one(storage="1MiB")
    await world.ask(agent, "berm.set", "k", "v")
    digest = world.agents.bounds(agent, "probe").digest
    renamed = await world.agents.rename(agent.id, "other")
    assert world.agents.bounds(renamed, "probe").digest == digest
    assert world.images.statistics().links == 1
    assert b"v" in (await world.ask(renamed, "berm.get", "k")).data


async def test_ids_and_names_in_a_configuration(world):
    agent = await world.agents.create("tester", {"name": "tester", "id": "mine", "model": "m"})
    assert agent.id != "mine"
    assert agent.config == {"model": "m"}
    shown = world.agents.shown(agent)
    assert (shown["id"], shown["name"]) == (agent.id, "tester")
    assert (await world.agents.update(agent.id, shown)).config == agent.config
    for change in ({"name": "other"}, {"name": 1}):
        with pytest.raises(BadRequest, match="another name is a rename - at `name`"):
            await world.agents.update(agent.id, change)


async def test_what_is_wrong_changes_nothing(world):
    await world.put("probe")
    agent = await world.declare({"name": "probe"}, model="m")
    for patch in (
        {"modle": "x"},
        {"harnesses": [{"name": "probe", "fuel": 0}]},
        {"harnesses": [{"name": "a"}]},
    ):
        with pytest.raises((BadRequest, NotFound)):
            await world.agents.update(agent.id, patch)
    assert world.agents.get(agent.id) == agent
    assert Agents(world.store).get(agent.id) == agent
    with pytest.raises(BadRequest):
        await world.agents.create("other", {"modle": "x"})
    with pytest.raises(TooLarge):
        await world.agents.create("other", {"description": "x" * (1 << 20)})
    assert [one.name for one in Agents(world.store).all()] == ["tester"]


async def test_a_merge_patch_changes_what_it_says(world):
    agent = await world.one(fuel=1000)
    changed = await world.agents.update(agent.id, {"model": "m", "description": "d"})
    assert changed.config["harnesses"] == agent.config["harnesses"]
    changed = await world.agents.update(agent.id, {"model": None})
    assert "model" not in changed.config
    assert (changed.revision, changed.created_ms) == (3, agent.created_ms)
    with pytest.raises(NotFound):
        await world.agents.update("nobody", {})


async def test_secrets_are_not_shown_and_can_be_kept(world):
    server = {"name": "git", "command": "git-mcp", "env": {"TOKEN": "hush"}}
    agent = await world.declare(mcps=[server])
    shown = world.agents.shown(agent)
    assert shown["mcps"][0]["env"] == {"TOKEN": MARKER}
    assert "hush" not in json.dumps(shown)
    changed = await world.agents.update(agent.id, {**shown, "model": "m"})
    assert changed.config["mcps"] == [server]
    with pytest.raises(BadRequest, match="no secret is stored"):
        await world.declare(name="other", mcps=[{"name": "git", "url": "u", "auth": MARKER}])


# Pins


async def test_a_digest_is_written_when_it_is_absent(world):
    pin = await world.put("probe")
    agent = await world.declare({"name": "probe"})
    assert agent.config["harnesses"] == [{"name": "probe", "sha256": pin}]
    await world.put("probe", guest(("say",)))
    changed = await world.agents.update(agent.id, {"harnesses": [{"name": "probe", "fuel": 10_000}]})
    assert changed.config["harnesses"][0]["sha256"] == pin
    second = await world.declare({"name": "probe"}, name="second")
    assert second.config["harnesses"][0]["sha256"] == sha256_of(guest(("say",)))


async def test_a_digest_that_is_written_is_what_runs(world):
    pin = await world.put("stored-as")
    agent = await world.declare({"name": "called", "sha256": pin.upper()})
    assert agent.config["harnesses"][0]["sha256"] == pin
    assert (await world.call(agent, "echo", "x", harness="called")).data == b"x"


async def test_an_image_that_is_not_here_is_said(world):
    with pytest.raises(NotFound, match="no harness named `probe` is stored: put it first"):
        await world.declare({"name": "probe"})
    with pytest.raises(NotFound, match=r"put it first - at `harnesses\[0\].sha256`"):
        await world.declare({"name": "probe", "sha256": "0" * 64})


async def test_pinned_bytes_stay_until_nobody_needs_them(world):
    old = await world.put("probe", guest(("echo",)))
    one = await world.declare({"name": "probe"}, name="one")
    two = await world.declare({"name": "probe"}, name="two")
    new = await world.put("probe", guest(("say",)))
    assert world.agents.pinned(old) == ["one/probe", "two/probe"]
    await world.agents.delete(one.id)
    assert sorted(Harnesses(world.store).digests()) == sorted([old, new])
    await world.agents.update(two.id, {"harnesses": [{"name": "probe", "sha256": new}]})
    assert Harnesses(world.store).digests() == [new]
    await world.agents.delete(two.id)
    assert Harnesses(world.store).digests() == [new]
    await world.images.remove("probe")
    assert Harnesses(world.store).digests() == []


async def test_a_declared_image_is_not_removed(world):
    await world.one()
    with pytest.raises(Conflict, match="harness `probe` is declared by tester/probe"):
        await world.images.remove("probe")


async def test_an_image_cannot_vanish_while_it_is_declared(world):
    """Removing and declaring at once ends with one of them refused, whatever comes first."""
    for _ in range(5):
        await world.put("probe")
        problems = []

        async def attempt(work, problems=problems):
            try:
                await work()
            except (Conflict, NotFound) as error:
                problems.append(error)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(attempt, lambda: world.declare({"name": "probe"}))
            nursery.start_soon(attempt, lambda: world.images.remove("probe"))
        assert len(problems) == 1
        for agent in world.agents.all():
            assert (await world.call(agent, "echo", "x")).data == b"x"
            await world.agents.delete(agent.id)


# Tools' names


async def test_two_tools_of_one_name_are_an_error(world):
    await world.put("one", guest(("echo",)))
    await world.put("two", guest(("echo", "say")))
    with pytest.raises(BadRequest) as caught:
        await world.declare({"name": "one"}, {"name": "two"})
    assert caught.value.message == (
        "tool `echo` is one of harness `one` and of `two`: give one of them a prefix, "
        'such as `prefix = "two"` - at `harnesses[1]`'
    )
    agent = await world.declare({"name": "one"}, {"name": "two", "prefix": "two"})
    assert [tool.wire_name for tool in world.tools.tools(agent)] == ["echo", "two__echo", "two__say"]


async def test_a_prefix_can_collide_too(world):
    await world.put("one", guest(("echo",)))
    await world.put("two", guest(("echo",)))
    with pytest.raises(BadRequest, match="tool `p__echo` is one of harness `one` and of `two`"):
        await world.declare({"name": "one", "prefix": "p"}, {"name": "two", "prefix": "p"})


async def test_a_name_that_a_prefix_makes_too_long_is_an_error(world):
    await world.put("one", guest(("echo",)))
    assert await world.declare({"name": "one", "prefix": "x" * 58})
    with pytest.raises(BadRequest, match="longer than the 64 characters"):
        await world.declare({"name": "one", "prefix": "x" * 59}, name="other")


# Upgrades


async def test_an_upgrade_shows_first_and_changes_when_confirmed(world):
    old = await world.put("probe", guest(("echo",)))
    agent = await world.declare({"name": "probe", "storage": "1MiB"})
    new = await world.put("probe", guest(("echo", "ask"), requests=("berm.exec.run",)))
    shown = await world.agents.upgrade(agent.id, "probe", None, confirm=False)
    assert (shown.before.sha256, shown.after.sha256, shown.agent) == (old, new, None)
    assert shown.difference.lines() == ["newly requests: berm.exec.run", "adds tools: ask"]
    assert world.agents.get(agent.id) == agent
    done = await world.agents.upgrade(agent.id, "probe", shown.after.sha256, confirm=True)
    assert done.agent.config["harnesses"] == [{"name": "probe", "sha256": new, "storage": "1MiB"}]
    assert done.agent.revision == 2
    assert isinstance(await world.call(done.agent, "ask", request("berm.get", "k")), Done)
    assert Harnesses(world.store).digests() == [new]


async def test_an_upgrade_keeps_the_data(world):
    agent = await world.one(guest(("ask",)), storage="1MiB")
    await world.ask(agent, "berm.set", "k", "v")
    new = await world.put("probe", guest(("ask", "echo")))
    await world.agents.upgrade(agent.id, "probe", new, confirm=True)
    assert b"v" in (await world.ask(agent, "berm.get", "k")).data


async def test_only_what_was_shown_is_confirmed(world):
    agent = await world.one()
    with pytest.raises(BadRequest, match="confirm with the sha256 that was shown"):
        await world.agents.upgrade(agent.id, "probe", None, confirm=True)
    with pytest.raises(NotFound, match="no image with sha256 0000"):
        await world.agents.upgrade(agent.id, "probe", "0" * 64, confirm=False)
    with pytest.raises(NotFound, match="declares no harness `other`"):
        await world.agents.upgrade(agent.id, "other", None, confirm=False)


async def test_an_upgrade_that_does_not_work_here_is_refused(world):
    await world.put("one", guest(("echo",)))
    await world.put("two", guest(("say",)))
    agent = await world.declare({"name": "one"}, {"name": "two"})
    new = await world.put("two", guest(("say", "echo")))
    with pytest.raises(BadRequest, match="tool `echo` is one of harness `one` and of `two`"):
        await world.agents.upgrade(agent.id, "two", new, confirm=True)
    assert world.agents.get(agent.id) == agent


async def test_calls_in_flight_finish_on_the_old_bytes(world):
    old = guest(("count", "echo"))
    agent = await world.one(old)
    outcomes = []
    await world.call(agent, "echo")

    async def count():
        outcomes.append(await world.call(agent, "count", b"x" * 20_000))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(count)
        await trio.testing.wait_all_tasks_blocked()
        assert world.executor.running()
        new = await world.put("probe", guest(("say",)))
        await world.agents.upgrade(agent.id, "probe", new, confirm=True)
        assert outcomes == []
        with pytest.raises(NotFound):
            await world.call(agent, "echo")
    assert [outcome.data for outcome in outcomes] == [b"counted"]


# What is told, and what goes


class Listener:
    def __init__(self, fails=False):
        self.told = []
        self.fails = fails

    async def on_declare(self, agent):
        self.told.append(("declare", agent.name, agent.revision))
        if self.fails:
            raise ValueError("a listener's own fault")

    async def on_forget(self, agent):
        self.told.append(("forget", agent.name, agent.revision))


async def test_listeners_are_told_of_every_change(world, caplog):
    broken, listener = Listener(fails=True), Listener()
    for one in (broken, listener):
        world.agents.add_listener(one)
    agent = await world.declare()
    await world.agents.update(agent.id, {"model": "m"})
    await world.agents.rename(agent.id, "other")
    await world.agents.delete(agent.id)
    assert listener.told == [
        ("declare", "tester", 1),
        ("declare", "tester", 2),
        ("declare", "other", 3),
        ("forget", "other", 3),
    ]
    assert broken.told == listener.told
    assert "a listener failed" in caplog.text


async def test_what_is_stored_is_told_whoever_asked_for_it(world):
    class Leaving(Listener):
        async def on_declare(self, agent):
            scope.cancel()
            await trio.lowlevel.checkpoint()
            await super().on_declare(agent)

    leaving, listener = Leaving(), Listener()
    for one in (leaving, listener):
        world.agents.add_listener(one)
    with trio.CancelScope() as scope:
        await world.declare()
    assert leaving.told == listener.told == [("declare", "tester", 1)]
    assert world.agents.by_name("tester")


async def test_what_belongs_to_an_agent_goes_with_it(world):
    agent = await world.one(storage="1MiB")
    other = await world.one(storage="1MiB", agent="other")
    for one in (agent, other):
        await world.ask(one, "berm.set", "k", "v")
    forgotten = []
    world.agents.on_delete(lambda agent_id: forget_agent(world.store, agent_id), forgotten.append)
    world.agents.on_delete(lambda _agent_id: [put("config", b"local/mark", b"1")])
    await world.agents.delete(agent.id)
    assert forgotten == [agent.id]
    assert world.store.get("config", b"local/mark") == b"1"
    assert [key for key in world.store.scan_keys("kv") if agent.id.encode() in key] == []
    assert b"v" in (await world.ask(other, "berm.get", "k")).data
    with pytest.raises(NotFound):
        await world.call(agent, "echo")
    with pytest.raises(NotFound):
        await world.agents.delete(agent.id)


async def test_a_configuration_that_this_version_does_not_take_stops_nobody_else(world, store, caplog):
    agent = await world.one()
    strange = AgentRecord(
        "01ARZ3NDEKTSV4RRFFQ69G5FAV",
        "strange",
        {
            "from_the_future": 1,
            "harnesses": [{"name": "probe", "sha256": agent.config["harnesses"][0]["sha256"]}],
        },
        1,
        1,
        1,
    )
    store.apply(Agents(store).save(strange))
    world.start()
    assert "does not take" in caplog.text
    assert (await world.call(agent, "echo", "x")).data == b"x"
    assert "unknown key" in world.agents.problem(strange)
    assert world.agents.problem(agent) == ""
    with pytest.raises(NotFound, match="cannot be used: unknown key"):
        await world.call(strange, "echo")
    # Its images are still its own.
    await world.agents.delete(agent.id)
    with pytest.raises(Conflict, match="strange/probe"):
        await world.images.remove("probe")
    repaired = await world.agents.update(strange.id, {"from_the_future": None})
    assert (await world.call(repaired, "echo", "y")).data == b"y"


async def test_a_directory_that_is_gone_keeps_nobody_from_changing_other_things(world, tmp_path):
    (tmp_path / "work").mkdir()
    agent = await world.one(files=str(tmp_path / "work"))
    (tmp_path / "work").rmdir()
    changed = await world.agents.update(agent.id, {"description": "still here"})
    assert changed.config["description"] == "still here"
    with pytest.raises(BadRequest, match="no such file or directory"):
        await world.agents.update(
            agent.id, {"harnesses": [{"name": "probe", "files": str(tmp_path / "work"), "fuel": 1000}]}
        )


async def test_entries_are_required_with_the_reason(world):
    await world.put("awake", guest(("echo",), wake=True))
    await world.put("probe", guest(("say",)))
    agent = await world.declare({"name": "awake"}, {"name": "probe"})
    await world.agents.require_entry(agent, "awake", "on_wake")
    for harness, entry, error, why in (
        ("awake", "on_notify", BadRequest, "exports no `on_notify`, so it cannot be subscribed"),
        ("probe", "on_wake", BadRequest, "exports no `on_wake`, so it cannot be scheduled"),
        ("other", "on_wake", NotFound, "declares no harness `other`"),
    ):
        with pytest.raises(error, match=why):
            await world.agents.require_entry(agent, harness, entry)


async def test_a_harness_is_inspected_without_running_it(world, tmp_path):
    (tmp_path / "work").mkdir()
    agent = await world.one(
        guest(("echo",), requests=("berm.fs.read",)),
        root={"session": str(tmp_path / "work")},
        zone=["UTC", "local"],
        storage="1MiB",
    )
    view = await world.agents.inspect(agent, "probe")
    assert view.bound == [
        f"berm.fs.*, berm.exec.run: root = {tmp_path}/work, or a session's root inside it",
        "berm.clock.*: zone = UTC, local",
        "berm.get, berm.set, berm.kv.*: storage = 1048576",
    ]
    assert (view.info.requested, view.error) == (("berm.fs.read",), "")
    assert view.digest == world.agents.bounds(agent, "probe").digest
    (tmp_path / "work").rmdir()
    assert "no such file or directory" in (await world.agents.inspect(agent, "probe")).error
    assert world.rows() == []
