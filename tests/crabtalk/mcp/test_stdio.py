"""Servers that the daemon starts: real processes, with the public SDK at both ends."""

import json

import pytest
import trio

from crabtalk.wire.pb import crabtalk_pb2 as pb
from daemon_client import Refused
from descriptors import open_descriptors
from mcp_servers import good, processes_with, raw

pytestmark = pytest.mark.trio


async def lines_of(client, agent, name, enough, timeout_s=10):
    """Return what a server wrote, once `enough` says so."""
    found = []
    with trio.fail_after(timeout_s):
        request = await client.send(mcp_logs={"agent": agent.id, "name": name})
        while not enough(found):
            found.append((await client.receive(request)).text)
    await client.ask(cancel={"request_id": request})
    return found


async def test_a_server_is_connected_when_it_is_declared_and_its_tools_can_be_called(agent):
    ann = await agent()
    info = await ann.upsert(good())
    assert (info.status, info.error, info.tool_count) == (pb.CONNECTED, "", 8)
    assert await ann.call("good", "add", a=2, b=3) == ("done", "5")
    kind, message = await ann.call("good", "fail")
    assert kind == "failed"
    assert "this one never works" in message
    with pytest.raises(Refused, match="server `good` has no tool `nothing`") as refused:
        await ann.call("good", "nothing")
    assert refused.value.code == 404


async def test_a_model_sees_the_tools_by_names_that_endpoints_take(agent, served):
    ann = await agent(good())
    await ann.until(lambda listed: listed[0].status == pb.CONNECTED)
    record = served.runtime.agents.get(ann.id)
    tools = served.runtime.toolbox.tools(record)
    assert tools["good__add"].description == "Add two numbers."
    assert set(tools["good__add"].parameters["properties"]) == {"a", "b"}
    # What a server says of itself is not said to the model.
    assert served.runtime.toolbox.system(record) == ""


async def test_a_call_has_its_row_in_the_audit(agent, client):
    ann = await agent()
    await ann.upsert(good())
    await ann.call("good", "add", a=2, b=3)
    rows = (await client.ask(list_invocations={"limit": 1})).invocations
    assert [(row.harness, row.tool, row.outcome, row.digest) for row in rows] == [
        ("good", "add", "done", "mcp:good")
    ]


async def test_secrets_reach_the_server_and_nobody_else(agent, client, monkeypatch):
    monkeypatch.setenv("UNRELATED", "of the daemon")
    ann = await agent()
    info = await ann.upsert(good(env={"SECRET": "hush-hush"}))
    assert dict(info.env) == {"SECRET": '{"$secret": "set"}'}
    kind, text = await ann.call("good", "where")
    assert (kind, text.split(" ", 1)[1]) == ("done", f"{sorted('hush-hush')} -")
    assert await ann.call("good", "leak") == ("done", "it is [redacted]!")
    await ann.call("good", "say", text="my secret is hush-hush \x1b[2J")
    said = await lines_of(client, ann, "good", lambda lines: any("my secret" in line for line in lines))
    assert said[-1] == "my secret is [redacted] \\x1b[2J"
    shown = await client.ask(get_agent={"name": "ann"})
    assert "hush" not in shown.config


async def test_a_marker_keeps_a_secret(agent):
    ann = await agent()
    await ann.upsert(good(env={"SECRET": "hush-hush"}))
    await ann.upsert(good(env={"SECRET": {"$secret": "set"}}, deadline=5))
    assert await ann.call("good", "leak") == ("done", "it is [redacted]!")


async def test_agents_share_a_server_that_they_declare_alike(agent):
    ann, bob, eve = await agent(good()), await agent(good("other"), name="bob"), await agent(name="eve")
    await eve.upsert(good(env={"SECRET": "x"}))
    for one in (ann, bob):
        await one.until(lambda listed: listed[0].status == pb.CONNECTED)
    lives = [
        (await one.call(name, "where"))[1].split()[0]
        for one, name in ((ann, "good"), (bob, "other"), (eve, "good"))
    ]
    assert lives[0] == lives[1] != lives[2]


async def test_a_server_ends_when_nobody_declares_it(agent, client, served):
    ann, bob = await agent(), await agent(name="bob")
    await ann.upsert(good())
    await bob.upsert(good())
    [peer] = served.runtime.mcp._peers.values()
    process = peer._connection.process
    started = process.said["started"]
    await client.ask(delete_mcp={"agent": ann.id, "name": "good"})
    assert (await bob.call("good", "add", a=1, b=1)) == ("done", "2")
    await client.ask(delete_agent={"agent": bob.id})
    with trio.fail_after(10):
        await process.ended.wait()
    assert started.isdigit()
    assert served.runtime.mcp._peers == {}
    with pytest.raises(Refused, match="no MCP server"):
        await client.ask(delete_mcp={"agent": ann.id, "name": "good"})


async def test_a_server_that_ends_is_connected_again(agent, client):
    ann = await agent()
    await ann.upsert(good())
    events = await client.send(subscribe_mcp_events={})
    kind, message = await ann.call("good", "die")
    assert kind == "trap"
    assert "it ended with exit status 3" in message
    [info] = await ann.until(lambda listed: listed[0].status == pb.DISCONNECTED)
    assert info.error == "it ended with exit status 3"
    # While it is away the reason is said at once.
    assert await ann.call("good", "add", a=1, b=2) == ("trap", "it ended with exit status 3")
    await ann.until(lambda listed: listed[0].status == pb.CONNECTED)
    assert await ann.call("good", "add", a=1, b=2) == ("done", "3")
    kinds = []
    while pb.MCP_EVENT_KIND_CONNECTED not in kinds:
        event = await client.receive(events)
        assert (event.name, event.agent) == ("good", ann.id)
        kinds.append(event.kind)
    assert kinds == [
        pb.MCP_EVENT_KIND_DISCONNECTED,
        pb.MCP_EVENT_KIND_CONNECTING,
        pb.MCP_EVENT_KIND_CONNECTED,
    ]


async def test_a_server_that_shall_not_be_restarted_waits_to_be_asked(agent, client):
    ann = await agent()
    await ann.upsert(good(auto_restart=False))
    await ann.call("good", "die")
    await trio.sleep(1.5)
    [info] = await ann.list()
    assert info.status == pb.DISCONNECTED
    info = await client.ask(reconnect_mcp={"agent": ann.id, "name": "good"})
    assert (info.status, info.tool_count) == (pb.CONNECTED, 8)


async def test_a_server_that_cannot_be_started_says_why(agent):
    ann = await agent()
    info = await ann.upsert({"name": "none", "command": "/no/such/program"})
    assert info.status == pb.FAILED
    assert info.error == "it cannot be started: there is no program `/no/such/program`"
    with pytest.raises(Refused, match="expected either `command` or `url`"):
        await ann.upsert({"name": "none"})
    assert (await ann.call("none", "x"))[0] == "trap"


async def test_new_tools_are_listed_when_the_server_says_so(agent, served):
    ann = await agent()
    await ann.upsert(good())
    assert await ann.call("good", "more") == ("done", "added")
    await ann.until(lambda listed: listed[0].tool_count == 9)
    assert await ann.call("good", "newcomer") == ("done", "new")
    assert "good__newcomer" in served.runtime.toolbox.tools(served.runtime.agents.get(ann.id))


async def test_a_call_that_is_taken_back_is_cancelled_at_the_server(agent, client, tmp_path):
    ann = await agent()
    await ann.upsert(good())
    mark = tmp_path / "mark"
    call = {
        "agent": ann.id,
        "harness": "good",
        "tool": "wait",
        "args": json.dumps({"mark": str(mark)}).encode(),
    }
    request = await client.send(call_tool=call)
    await trio.sleep(0.3)
    await client.ask(cancel={"request_id": request})
    with trio.fail_after(5):
        while not mark.exists():  # noqa: ASYNC110 - another process writes it
            await trio.sleep(0.02)
    assert await ann.call("good", "add", a=1, b=2) == ("done", "3")


async def test_a_call_that_is_late_is_cancelled_at_the_server_and_its_answer_dropped(agent, client):
    ann = await agent()
    await ann.upsert(raw("mute", deadline=0.5))
    kind, message = await ann.call("raw", "echo", n=1)
    assert (kind, "timed out" in message) == ("trap", True)
    said = await lines_of(client, ann, "raw", lambda lines: any("cancelled" in line for line in lines))
    assert '"requestId"' in said[-1]
    # The answer that came all the same did not end the connection.
    assert [info.status for info in await ann.list()] == [pb.CONNECTED]


async def test_calls_of_a_server_run_side_by_side(agent, client, tmp_path):
    ann = await agent()
    await ann.upsert(good())
    args = json.dumps({"mark": str(tmp_path / "m")}).encode()
    for _ in range(40):
        await client.send(call_tool={"agent": ann.id, "harness": "good", "tool": "wait", "args": args})
    assert await ann.call("good", "add", a=1, b=2) == ("done", "3")


async def test_arguments_have_to_be_an_object(agent, client):
    ann = await agent()
    await ann.upsert(good())
    for args in (b"[1]", b"{", b"\xff", b"[" * 100_000):
        outcome = await client.ask(
            call_tool={"agent": ann.id, "harness": "good", "tool": "add", "args": args}
        )
        assert outcome.failed.startswith("the arguments")


# Servers that do what they must not


@pytest.mark.parametrize("how", ["junk", "ghost answers", "always changing", "endless pages", "plain"])
async def test_a_server_that_says_more_than_it_should_can_be_used(agent, how):
    ann = await agent()
    info = await ann.upsert(raw(how))
    assert (info.status, info.error, info.tool_count) == (pb.CONNECTED, "", 1)
    for number in range(3):
        assert await ann.call("raw", "echo", n=number) == ("done", json.dumps({"n": number}))


async def test_junk_on_stdout_is_shown_and_counted(agent, client):
    ann = await agent()
    await ann.upsert(raw("junk"))
    said = await lines_of(client, ann, "raw", lambda lines: any("connected" in line for line in lines))
    assert "not MCP, on stdout: Starting up!" in said
    assert "64 lines on stdout were not MCP" in said
    assert len(said) < 40


async def test_a_line_without_an_end_ends_the_connection(agent):
    ann = await agent()
    info = await ann.upsert(raw("endless line", auto_restart=False))
    assert info.status == pb.FAILED


async def test_what_is_no_result_is_said_to_be_none(agent):
    ann = await agent()
    await ann.upsert(raw("no result"))
    kind, message = await ann.call("raw", "echo")
    assert kind == "trap"
    assert "ValidationError" in message
    assert [info.status for info in await ann.list()] == [pb.CONNECTED]


async def test_tools_beyond_the_bounds_are_left_out(agent):
    ann = await agent()
    assert (await ann.upsert(raw("many tools"))).tool_count == 512
    assert (await ann.upsert(raw("huge schema", "huge"))).tool_count == 1


async def test_a_server_that_will_not_end_is_killed_with_all_that_came_of_it(agent, client, served):
    ann = await agent()
    await ann.upsert(raw("stubborn"))
    [peer] = served.runtime.mcp._peers.values()
    process = peer._connection.process
    await client.ask(delete_mcp={"agent": ann.id, "name": "raw"})
    with trio.fail_after(8):
        await process.ended.wait()
    assert not processes_with("stubborn")


async def test_a_name_of_a_server_can_be_told_from_that_of_a_tool(agent):
    ann = await agent()
    for name in ("a__b", "a_", "_a", "a b", "x" * 33, ""):
        with pytest.raises(Refused, match="expected a server's name"):
            await ann.upsert(good(name))
    with pytest.raises(Refused, match="is for a `url`"):
        await ann.upsert(good(auth="x"))


async def test_connecting_anew_leaves_nothing_behind(agent, client):
    ann = await agent()
    await ann.upsert(raw("plain"))
    await client.ask(reconnect_mcp={"agent": ann.id, "name": "raw"})
    before = len(open_descriptors())
    for _ in range(10):
        info = await client.ask(reconnect_mcp={"agent": ann.id, "name": "raw"})
        assert info.status == pb.CONNECTED
    assert len(processes_with("plain")) <= 3  # the server, and its supervisor's processes
    assert len(open_descriptors()) == before
