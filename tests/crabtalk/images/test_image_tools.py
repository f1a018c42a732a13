"""Images behind the seam of tools: outcomes, what is visible of a broken one, and what is linked when."""

import logging

import pytest
import trio
import trio.testing

from crabtalk.chains import Chain
from crabtalk.errors import NotFound
from crabtalk.store.interfaces.harnesses import Harnesses
from crabtalk.tools import Done, Failed, InlineProvider, ToolProvider, Trapped, Trigger
from crabtalk.work import Work
from declared_guests import TOOLS, guest, sha256_of

pytestmark = pytest.mark.trio


async def test_it_is_a_provider(world):
    provider: ToolProvider = world.tools
    assert isinstance(provider, InlineProvider)


async def test_the_three_outcomes(world):
    agent = await world.one()
    done = await world.call(agent, "echo", "hi")
    assert done == Done(b"hi", done.instructions)
    assert 0 < done.instructions < 1000
    failed = await world.call(agent, "no")
    assert failed == Failed("no such thing", failed.instructions)
    trap = await world.call(agent, "crash")
    assert isinstance(trap, Trapped)
    assert (trap.kind, trap.address, trap.symbol) == ("load_fault", 8, "berm_tool_crash")
    assert trap.message.startswith("load fault, 8-byte load at 0x8 - at 0x")
    assert trap.sentence == "the tool stopped with an error and gave no result"
    assert trap.pc > 0
    assert "berm_tool_crash" in trap.frames[0]
    noise = await world.call(agent, "noise")
    assert (noise.kind, noise.message.split(" - ")[0]) == (
        "bad_result",
        "bad result: result is not UTF-8 at byte 0",
    )


async def test_the_last_host_calls_are_told(world):
    agent = await world.one()
    assert (await world.ask(agent, "berm.get", "k")).host_calls == ("berm.args.read",)


async def test_tools_are_listed_with_what_the_manifest_says(world):
    agent = await world.one()
    tools = world.tools.tools(agent)
    assert [tool.name for tool in tools] == list(TOOLS)
    assert (tools[0].harness, tools[0].wire_name, tools[0].description) == ("probe", "ask", "for tests")
    assert tools[0].parameters == {"type": "object"}
    assert world.tools.harnesses(agent) == ["probe"]


async def test_usage_is_that_of_each_harness_in_order(world):
    for name in ("b", "a"):
        await world.put(name, guest(("echo",), usage=f"Use {name}.", describe=name))
    agent = await world.declare({"name": "b"}, {"name": "a", "prefix": "a"})
    assert [(one.harness, one.text, one.error) for one in world.tools.usage(agent)] == [
        ("b", "Use b.", ""),
        ("a", "Use a.", ""),
    ]


async def test_an_unknown_tool_or_entry_is_not_found(world):
    agent = await world.one()
    with pytest.raises(NotFound, match="no tool `nothing` in this image: it has ask"):
        await world.call(agent, "nothing")
    for trigger, entry in ((Trigger.WAKE, "on_wake"), (Trigger.EVENT, "on_notify")):
        work = Work(trigger=trigger, agent=agent, harness="probe", entry=entry)
        with pytest.raises(NotFound, match=f"image exports no `{entry}`"):
            await world.executor.run(work)


@pytest.mark.parametrize(("trigger", "entry"), [(Trigger.WAKE, "on_wake"), (Trigger.EVENT, "on_notify")])
async def test_entries_get_their_argument(world, trigger, entry):
    agent = await world.one(guest(wake=True, notify=True))
    work = Work(trigger=trigger, agent=agent, harness="probe", entry=entry, args=b'{"id": "x"}')
    assert (await world.executor.run(work)).data == b'{"id": "x"}'


async def test_a_short_call_of_a_linked_image_needs_no_task(world):
    agent = await world.one()
    first = world.executor.start(Work(trigger=Trigger.TOOL, agent=agent, harness="probe", entry="echo"))
    assert isinstance(first, Done)  # it was linked when it was declared


async def test_a_start_links_only_what_is_called(world):
    await world.put("probe")
    agents = [await world.declare({"name": "probe", "storage": n}, name=f"a{n}") for n in range(1, 4)]
    world.start()
    for agent in agents:
        await world.tools.on_declare(agent)
    assert world.images.statistics().links == 0
    assert len(world.tools.tools(agents[0])) == len(TOOLS)
    assert (await world.call(agents[1], "echo", "x")).data == b"x"
    assert world.images.statistics().links == 1


async def test_equal_declarations_share_one_linked_image(world, tmp_path):
    await world.put("probe")
    for name in ("one", "two", "three"):
        agent = await world.declare({"name": "probe", "files": str(tmp_path), "fuel": 10_000}, name=name)
        await world.call(agent, "echo")
    assert world.images.statistics().links == 1
    owned = [await world.declare({"name": "probe", "storage": 1000}, name=f"o{n}") for n in range(2)]
    for agent in owned:
        await world.call(agent, "echo")
    assert world.images.statistics().links == 3


async def test_what_guests_log_says_whose_it_is(world, caplog):
    caplog.set_level(logging.INFO, logger="crabtalk")
    agent = await world.one()
    await world.call(agent, "say", "hello\x1b[2J")
    (record,) = [record for record in caplog.records if record.getMessage().startswith("hello")]
    assert (record.agent, record.harness, record.tool) == (agent.id, "probe", "say")


async def test_capabilities_see_the_context(world):
    """What a guest may not choose, it does not: caller, chain and depth are the host's."""
    await world.put("probe")
    await world.put("helper", guest(describe="helps"))
    agent = await world.declare({"name": "probe", "calls": ["helper"]}, {"name": "helper", "prefix": "h"})
    chain = Chain("01ARZ3NDEKTSV4RRFFQ69G5FAV", started_ms=0)
    await world.ask(agent, "berm.call", "helper", "echo", "x", chain=chain, depth=3)
    called = [row for row in world.rows() if row.trigger == "call"]
    assert [(row.harness, row.depth, row.chain) for row in called] == [("helper", 4, chain.id)]


# What does not work is visible


async def broken(world):
    """Declare an image whose bytes are then replaced by others in the store."""
    agent = await world.one()
    harnesses = Harnesses(world.store)
    record = harnesses.get("probe")
    world.store.apply(harnesses.save(record, b"\x7fELF, or so it says"))
    world.start()
    return agent


async def test_an_image_that_does_not_load_is_visible_wherever_its_tools_would_be(world):
    agent = await broken(world)
    await world.tools.on_declare(agent)
    outcome = await world.call(agent, "echo")
    assert isinstance(outcome, Trapped)
    assert outcome.kind == "load"
    assert outcome.sentence == "the tool is broken and could not be started"
    assert world.tools.tools(agent) == []
    (usage,) = world.tools.usage(agent)
    assert usage.error
    assert usage.error in (await world.agents.inspect(agent, "probe")).error
    row = world.rows()[0]
    assert (row.outcome, row.tool) == ("trap", "echo")
    assert outcome.message in row.message


async def test_bytes_that_are_not_those_of_the_pin_never_load(world):
    agent = await world.one(guest(("echo",)))
    harnesses = Harnesses(world.store)
    world.store.apply(harnesses.save(harnesses.get("probe"), guest(("echo", "spin"))))
    world.start()
    outcome = await world.call(agent, "echo")
    assert (outcome.kind, outcome.message) == (
        "load",
        f"image has sha256 {sha256_of(guest(('echo', 'spin')))}, expected {sha256_of(guest(('echo',)))}",
    )
    assert world.tools.tools(agent) == []
    assert world.tools.usage(agent)[0].error == outcome.message


async def test_putting_an_image_again_heals_its_bytes(world):
    agent = await broken(world)
    assert (await world.call(agent, "echo")).kind == "load"
    assert world.tools.tools(agent) == []
    await world.put("probe")
    assert (await world.call(agent, "echo", "x")).data == b"x"
    assert [usage.error for usage in world.tools.usage(agent)] == [""]


async def test_bytes_that_are_gone_are_visible_and_may_come_back(world):
    agent = await world.one()
    elf = Harnesses(world.store).elf(sha256_of(guest()))
    world.store.apply(Harnesses(world.store).remove_elf(sha256_of(guest())))
    world.start()
    assert (await world.call(agent, "echo")).kind == "load"
    assert "is stored" in world.tools.usage(agent)[0].error
    await world.images.put("again", elf, sha256_of(elf))
    assert (await world.call(agent, "echo", "x")).data == b"x"


async def test_a_directory_that_is_not_there_is_the_tool_s_answer_until_it_is(world, tmp_path):
    place = tmp_path / "place"
    place.mkdir()
    agent = await world.one(files=str(place))
    assert (await world.ask(agent, "berm.fs.list", "")).data[:1] == b"o"
    place.rmdir()
    for _ in range(2):
        outcome = await world.ask(agent, "berm.fs.list", "")
        assert (outcome.kind, outcome.message) == ("link", f"root `{place}`: no such file or directory")
    assert world.tools.usage(agent)[0].error == outcome.message
    place.mkdir()
    (place / "new.txt").write_text("new")
    assert b"new.txt" in (await world.ask(agent, "berm.fs.list", "")).data
    assert world.tools.usage(agent)[0].error == ""


async def test_a_directory_that_was_replaced_is_bound_anew(world, tmp_path):
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "b.txt").write_text("b")
    (tmp_path / "link").symlink_to("one")
    await world.put("probe")
    agents = [
        await world.declare({"name": "probe", "files": str(tmp_path / "link")}, name=name) for name in "ab"
    ]
    for agent in agents:
        assert (await world.ask(agent, "berm.fs.list", "")).data == b"o[]"
    digest = world.agents.linker.ready(agents[0].id, world.agents.declaration(agents[0], "probe")).digest
    (tmp_path / "new").symlink_to("two")
    (tmp_path / "new").replace(tmp_path / "link")
    links = world.images.statistics().links
    for agent in (*agents, *agents):
        assert b"b.txt" in (await world.ask(agent, "berm.fs.list", "")).data
    assert world.images.statistics().links == links + 1
    assert (
        world.agents.linker.ready(agents[0].id, world.agents.declaration(agents[0], "probe")).digest != digest
    )


# Cancellation


async def test_a_cancelled_call_frees_what_it_ran_on(world):
    agent = await world.one()
    for _ in range(3):
        with trio.move_on_after(0.05) as scope:
            await world.call(agent, "spin")
        assert scope.cancelled_caught
    statistics = world.images.statistics()
    assert (statistics.running, statistics.arenas_live) == (0, 0)
    assert (await world.call(agent, "echo", "x")).data == b"x"


async def test_every_end_is_counted_out(world):
    agent = await world.one(deadline=0.2, fuel=10_000_000)
    for tool in ("echo", "no", "crash", "noise", "spin"):
        await world.call(agent, tool)
    with pytest.raises(NotFound):
        await world.call(agent, "nothing")
    assert world.images.statistics().running == 0
    assert world.images.statistics().arenas_live == 0


async def test_one_that_waits_is_counted_in(world):
    agent = await world.one()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.call, agent, "spin")
        await trio.testing.wait_all_tasks_blocked()
        assert world.images.statistics().running == 1
        nursery.cancel_scope.cancel()
    assert world.images.statistics().running == 0
