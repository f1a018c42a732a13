"""Every request of the protocol, asked of a real daemon."""

import json
from functools import partial

import pytest
import trio

from crabtalk import accounting, executor
from crabtalk.config import Config, ExecutorConfig, LogConfig
from crabtalk.dispatch import CONNECTION_FIELDS, REQUEST_FIELDS
from crabtalk.errors import StoreError
from crabtalk.handlers import calls
from crabtalk.handlers.table import NOT_BUILT, request_table
from crabtalk.image_tools import ImageTools
from crabtalk.journal import Journal
from crabtalk.metrics import Metrics
from crabtalk.store.memory import MemoryEngine
from crabtalk.wire.codec import encode_request
from crabtalk.wire.pb import crabtalk_pb2 as pb
from daemon_client import Client, Refused, serving
from guest_images import image_path

pytestmark = pytest.mark.trio

HOUR_MS = 3_600_000


async def refusal(asking):
    with pytest.raises(Refused) as caught:
        await asking
    return caught.value.code, caught.value.message


def empty(field):
    return {field: b"" if field == "extension" else _message(field)()}


def _message(field):
    name = pb.ClientMessage.DESCRIPTOR.fields_by_name[field].message_type.name
    return getattr(pb, name)


async def until(condition):
    with trio.fail_after(20):
        while not (found := await condition()):  # noqa: ASYNC110 - what is waited for is asked for
            await trio.sleep(0.01)
    return found


async def test_the_messages_that_are_not_built_are_these():
    assert sorted(NOT_BUILT) == ["extension"]


@pytest.mark.parametrize("field", sorted(NOT_BUILT))
async def test_what_is_not_built_says_so(client, field):
    code, message = await refusal(client.ask(**empty(field)))
    assert code == 501
    assert "not built" in message


@pytest.mark.parametrize("field", sorted(set(REQUEST_FIELDS) - NOT_BUILT - CONNECTION_FIELDS))
async def test_everything_else_answers_an_empty_message(client, field):
    request_id = await client.send(**empty(field))
    if field in request_table().streams:
        await client.ask(cancel=pb.CancelMsg(request_id=request_id))
    with trio.fail_after(5):
        assert await client.code(request_id) in {0, 400, 404, 499}


async def test_a_store_that_takes_nothing_is_what_the_client_hears_of(client, bell, served, monkeypatch):
    agent = await bell()

    async def commit(_batch):
        raise StoreError("store `here`: the disk is full")

    def flush():
        raise StoreError("store `here`: the disk is full")

    monkeypatch.setattr(served.runtime.store, "commit", commit)
    monkeypatch.setattr(served.runtime.store, "flush", flush)
    for asked in (
        {"create_agent": pb.CreateAgentMsg(name="new", config="{}")},
        {"create_session": pb.CreateSessionMsg(session_handle="new", agent=agent)},
        {"schedule_wake": pb.ScheduleWakeMsg(agent=agent, harness="alarm", at_ms=1)},
        {"list_invocations": pb.ListInvocationsMsg()},
    ):
        assert await refusal(client.ask(**asked)) == (
            500,
            "the store does not work: store `here`: the disk is full",
        )


async def test_ping_and_what_the_daemon_is(client, served):
    assert await client.ask(ping=pb.PingMsg()) == pb.Pong()
    stats = await client.ask(get_stats=pb.GetStatsMsg())
    assert stats.version == served.runtime.version
    assert (stats.registered_agents, stats.queue_depth, stats.running, stats.pending_wakes) == (0, 0, 0, 0)
    config = json.loads((await client.ask(get_config=pb.GetConfigMsg())).config)
    assert config["log"]["level"] == "debug"


async def test_agents_come_change_and_go(client, alarm):
    await client.put("alarm", alarm)
    made = await client.ask(
        create_agent=pb.CreateAgentMsg(
            name="ann", config='{"description": "rings", "harnesses": [{"name": "alarm"}]}'
        )
    )
    assert (made.name, made.description, made.max_iterations) == ("ann", "rings", 16)
    assert len(json.loads(made.config)["harnesses"][0]["sha256"]) == 64
    assert await client.ask(get_agent=pb.GetAgentMsg(name="ann")) == made
    changed = await client.ask(
        update_agent=pb.UpdateAgentMsg(agent=made.id, config='{"id": "ignored", "description": null}')
    )
    assert (changed.id, changed.description) == (made.id, "")
    renamed = await client.ask(rename_agent=pb.RenameAgentMsg(agent=made.id, new_name="bob"))
    assert (renamed.id, renamed.name) == (made.id, "bob")
    listed = await client.ask(list_agents=pb.ListAgentsMsg())
    assert [one.name for one in listed.agents] == ["bob"]
    await client.ask(delete_agent=pb.DeleteAgentMsg(agent=made.id))
    assert (await refusal(client.ask(get_agent=pb.GetAgentMsg(name="bob"))))[0] == 404
    assert not (await client.ask(list_agents=pb.ListAgentsMsg())).agents


async def test_a_mistake_in_a_declaration_is_named(client):
    code, message = await refusal(client.declare("ann", {"name": "alarm", "fiels": "/tmp"}))
    assert (code, "harnesses[0].fiels" in message, "files" in message) == (400, True, True)
    assert (await refusal(client.declare("ann", "missing")))[0] == 404
    assert (await refusal(client.ask(create_agent=pb.CreateAgentMsg(name="x", config="{"))))[0] == 400


async def test_harnesses_are_stored_inspected_and_removed(client, alarm):
    put = await client.put("alarm", alarm)
    assert [tool.name for tool in put.tools] == ["say", "binary", "refuse", "crash", "spin"]
    assert (put.exports_wake, put.exports_notify, put.size) == (True, True, alarm.stat().st_size)
    assert list(put.requested) == ["crabtalk.event.publish", "berm.set"]
    for question in ({"digest": put.sha256}, {"name": "alarm"}):
        assert await client.ask(inspect_harness=pb.InspectHarnessMsg(**question)) == put
    assert list((await client.ask(list_harnesses=pb.ListHarnessesMsg())).harnesses) == [put]
    agent = await client.declare("ann", {"name": "alarm", "storage": "1MiB"})
    view = await client.ask(inspect_harness=pb.InspectHarnessMsg(agent=agent, name="alarm"))
    assert (view.sha256, list(view.bound)) == (
        put.sha256,
        ["berm.get, berm.set, berm.kv.*: storage = 1048576"],
    )
    by_digest = await client.ask(inspect_harness=pb.InspectHarnessMsg(digest=view.digest))
    assert by_digest == view
    assert list((await client.ask(list_harnesses=pb.ListHarnessesMsg(agent=agent))).harnesses) == [view]
    code, message = await refusal(client.ask(remove_harness=pb.RemoveHarnessMsg(name="alarm")))
    assert (code, "ann/alarm" in message) == (409, True)
    await client.ask(delete_agent=pb.DeleteAgentMsg(agent=agent))
    await client.ask(remove_harness=pb.RemoveHarnessMsg(name="alarm"))
    assert (await refusal(client.ask(remove_harness=pb.RemoveHarnessMsg(name="alarm"))))[0] == 404


async def test_a_list_links_nothing_and_an_inspection_does(alarm, tmp_path):
    (tmp_path / "given").mkdir()
    store = MemoryEngine()
    async with serving(store) as daemon:
        await daemon.client.put("alarm", alarm)
        agent = await daemon.client.declare("ann", {"name": "alarm", "files": str(tmp_path / "given")})
    asked = pb.ListHarnessesMsg(agent=agent)
    async with serving(store) as daemon:
        links = lambda: daemon.runtime.images.statistics().links  # noqa: E731 - one line
        (listed,) = (await daemon.client.ask(list_harnesses=asked)).harnesses
        assert (listed.name, listed.error, listed.exports_wake, links()) == ("alarm", "", True, 0)
        question = pb.InspectHarnessMsg(agent=agent, name="alarm")
        assert await daemon.client.ask(inspect_harness=question) == listed
        assert links() == 1
        (tmp_path / "given").rmdir()
        (listed,) = (await daemon.client.ask(list_harnesses=asked)).harnesses
        assert (listed.error, links()) == (f"root `{tmp_path}/given`: no such file or directory", 1)


async def test_bytes_that_are_not_what_was_said_are_not_stored(client):
    wrong = pb.PutHarnessMsg(name="x", elf=b"\x7fELF", sha256="0" * 64)
    assert (await refusal(client.ask(put_harness=wrong)))[0] == 400
    assert not (await client.ask(list_harnesses=pb.ListHarnessesMsg())).harnesses


async def test_an_upgrade_is_shown_before_it_is_made(client, alarm):
    old = await client.put("tool", alarm)
    agent = await client.declare("ann", "tool")
    new = await client.put("tool", image_path("cli"))
    ask = pb.UpgradeHarnessMsg(agent=agent, name="tool")
    shown = await client.ask(upgrade_harness=ask)
    assert (shown.sha256, shown.exports_wake) == (new.sha256, new.exports_wake)
    view = await client.ask(inspect_harness=pb.InspectHarnessMsg(agent=agent, name="tool"))
    assert view.sha256 == old.sha256
    ask.confirm = True
    assert (await refusal(client.ask(upgrade_harness=ask)))[0] == 400  # without the sha256 that was shown
    ask.sha256 = shown.sha256
    done = await client.ask(upgrade_harness=ask)
    assert (done.sha256, [one.name for one in done.tools]) == (new.sha256, [one.name for one in new.tools])


async def test_each_way_for_a_tool_to_end(client, bell):
    agent = await bell()
    done = await client.call(agent, "alarm", "say", '{"text": "hello"}')
    assert (done.done, done.instructions > 0) == (b"hello", True)
    failed = await client.call(agent, "alarm", "refuse", '{"message": "no"}')
    assert failed.failed == "no"
    crashed = await client.call(agent, "alarm", "crash")
    assert (crashed.trap.kind, crashed.trap.address, "crash" in crashed.trap.symbol) == (
        "load_fault",
        8,
        True,
    )
    late = await client.call(agent, "alarm", "spin", deadline_ms=50)
    assert late.trap.kind == "deadline"
    rows = (await client.ask(list_invocations=pb.ListInvocationsMsg(limit=10))).invocations
    assert [(row.tool, row.outcome) for row in rows] == [
        ("spin", "trap"), ("crash", "trap"), ("refuse", "failed"), ("say", "done")
    ]  # fmt: skip
    assert {row.agent for row in rows} == {agent}


@pytest.mark.parametrize("place", [0, 3, 9])
async def test_a_call_that_breaks_the_daemon_costs_those_beside_it_nothing(
    client, served, bell, monkeypatch, place
):
    """They come in one receive: each of the others runs once and is answered."""
    agent = await bell()
    await client.call(agent, "alarm", "say", '{"text": "linked"}')

    def damaged(_agent, _handle):
        raise ZeroDivisionError("a mistake of ours")

    monkeypatch.setattr(served.runtime.sessions, "of", damaged)
    frames = []
    for n in range(10):
        session = {"session_handle": "s"} if n == place else {}
        args = json.dumps({"text": str(n)}).encode()
        asked = pb.CallToolMsg(agent=agent, harness="alarm", tool="say", args=args, **session)
        frames.append(encode_request(pb.ClientMessage(request_id=100 + n, call_tool=asked)))
    await client.stream.send_all(b"".join(frames))
    for n in range(10):
        if n == place:
            assert await client.code(100 + n) == 500
        else:
            assert (await client.receive(100 + n)).done == str(n).encode()
    rows = (await client.ask(list_invocations=pb.ListInvocationsMsg(limit=50))).invocations
    assert len(rows) == 1 + 9
    assert served.runtime.executor.queue.statistics().running == 0


async def test_what_cannot_be_called_says_why(client, bell):
    agent = await bell()
    assert (await refusal(client.call("nobody", "alarm", "say")))[0] == 404
    assert (await refusal(client.call(agent, "other", "say")))[0] == 404
    assert (await refusal(client.call(agent, "alarm", "other")))[0] == 404
    assert await refusal(client.call(agent, "alarm", "say", deadline_ms=0)) == (
        400,
        "deadline_ms: expected 1 to 3600000, got 0",
    )
    assert (await refusal(client.call(agent, "alarm", "say", session_handle="none")))[0] == 404


async def test_half_a_frame_and_then_the_end_stops_the_guest(client, bell, served):
    agent = await bell()
    other = Client(await served.listener.connect())
    await other.send(call_tool=pb.CallToolMsg(agent=agent, harness="alarm", tool="spin", args=b"{}"))

    async def running():
        return (await client.ask(list_running=pb.ListRunningMsg())).invocations

    async def rows():
        return (await client.ask(list_invocations=pb.ListInvocationsMsg())).invocations

    (spinning,) = await until(running)
    assert (spinning.tool, spinning.outcome) == ("spin", "running")
    await other.stream.send_all(b"\x00\x00\x00\x10half")
    other.stream.close()
    (row,) = await until(rows)
    assert (row.id, row.outcome) == (spinning.id, "cancelled")
    assert not await running()


async def test_invocations_are_found_by_their_harness(client, bell):
    ann, bob = await bell("ann"), await bell("bob")
    for agent in (ann, bob, ann):
        await client.call(agent, "alarm", "say", '{"text": ""}')

    async def count(harness):
        found = await client.ask(list_invocations=pb.ListInvocationsMsg(harness=harness))
        return len(found.invocations)

    assert [await count(one) for one in ("", "alarm", f"{ann}/alarm", f"{bob}/alarm", "x")] == [3, 3, 2, 1, 0]
    assert (await refusal(client.ask(list_invocations=pb.ListInvocationsMsg(limit=10_001))))[0] == 400


async def test_what_runs_is_shown_and_stops_when_it_is_taken_back(client, bell):
    agent = await bell()
    request = await client.send(
        call_tool=pb.CallToolMsg(agent=agent, harness="alarm", tool="spin", args=b"{}")
    )

    async def running():
        return (await client.ask(list_running=pb.ListRunningMsg())).invocations

    (one,) = await until(running)
    assert (one.trigger, one.agent, one.harness, one.tool, one.outcome) == (
        "tool", agent, "alarm", "spin", "running"
    )  # fmt: skip
    assert (await client.ask(get_stats=pb.GetStatsMsg())).running == 1
    await client.ask(cancel=pb.CancelMsg(request_id=request))
    assert (await client.receive(request)).trap.kind == "cancelled"
    assert not await running()


async def test_a_wake_is_scheduled_listed_replaced_and_cancelled(client, bell, served):
    agent = await bell(schedule=5)
    at_ms = served.runtime.clock.now_ms() + HOUR_MS
    ask = pb.ScheduleWakeMsg(agent=agent, harness="alarm", at_ms=at_ms, payload=b"p", key="k")
    first = await client.ask(schedule_wake=ask)
    assert (first.agent, first.harness, first.key, first.payload, first.state) == (
        agent, "alarm", "k", b"p", "pending"
    )  # fmt: skip
    assert 0 <= first.at_ms - at_ms < 1000
    second = await client.ask(schedule_wake=ask)
    for question in ({}, {"agent": agent}, {"agent": agent, "harness": "alarm"}, {"harness": "alarm"}):
        listed = await client.ask(list_wakes=pb.ListWakesMsg(**question))
        assert [one.id for one in listed.wakes] == [second.id]
    assert not (await client.ask(list_wakes=pb.ListWakesMsg(harness="other"))).wakes
    assert (await client.ask(get_stats=pb.GetStatsMsg())).pending_wakes == 1
    await client.ask(cancel_wake=pb.CancelWakeMsg(id=second.id))
    assert (await refusal(client.ask(cancel_wake=pb.CancelWakeMsg(id=second.id))))[0] == 404


async def test_a_wake_runs_and_what_it_publishes_arrives(client, bell, served):
    agent = await bell(topics=["alarm:*"])
    listener = await client.declare("bob", "alarm")
    made = await client.ask(
        subscribe_event=pb.SubscribeEventMsg(source="alarm:*", target_harness=f"{listener}/alarm", once=True)
    )
    assert (made.source, made.target_harness, made.once) == ("alarm:*", f"{listener}/alarm", True)
    assert list((await client.ask(list_subscriptions=pb.ListSubscriptionsMsg())).subscriptions) == [made]
    watching = await client.send(tail_events=pb.TailEventsMsg(source="alarm:*"))
    await client.ask(
        schedule_wake=pb.ScheduleWakeMsg(
            agent=agent, harness="alarm", at_ms=served.runtime.clock.now_ms(), payload=b"up"
        )
    )
    with trio.fail_after(20):
        event = await client.receive(watching)
    assert event.source == "alarm:rang"

    async def rows():
        found = (await client.ask(list_invocations=pb.ListInvocationsMsg())).invocations
        return {(row.trigger, row.agent, row.outcome) for row in found}

    expected = {("wake", agent, "done"), ("event", listener, "done")}
    await until(lambda: _equal(rows, expected))
    assert not (await client.ask(list_subscriptions=pb.ListSubscriptionsMsg())).subscriptions
    assert not (await client.ask(list_wakes=pb.ListWakesMsg(agent=agent))).wakes


async def test_a_directory_that_is_gone_for_a_while_costs_no_wake_and_no_event(
    client, bell, served, tmp_path, caplog
):
    place = tmp_path / "place"
    place.mkdir()
    agent = await bell(files=str(place), topics=["alarm:*"])
    asking = pb.SubscribeEventMsg(source="ring", target_harness=f"{agent}/alarm")
    await client.ask(subscribe_event=asking)
    place.rmdir()
    now_ms = served.runtime.clock.now_ms()
    wake = pb.ScheduleWakeMsg(agent=agent, harness="alarm", at_ms=now_ms, payload=b"up")
    made = await client.ask(schedule_wake=wake)
    await client.ask(publish_event=pb.PublishEventMsg(source="ring", payload="x"))

    async def blocked():
        await trio.lowlevel.checkpoint()
        return served.runtime.loop.statistics().blocked == 1

    await until(blocked)
    assert list((await client.ask(list_invocations=pb.ListInvocationsMsg())).invocations) == []
    stats = await client.ask(get_stats=pb.GetStatsMsg())
    assert (stats.pending_wakes, stats.spilled, stats.blocked_wakes) == (1, 0, 1)
    for question in ({}, {"agent": agent}, {"harness": "alarm"}):
        listed = await client.ask(list_wakes=pb.ListWakesMsg(**question))
        assert [(one.id, one.state) for one in listed.wakes] == [(made.id, "pending")]
    (warned,) = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    assert warned == (
        "wakes of harness `alarm` wait until it can be run: harness `alarm` cannot be linked: "
        f"root `{place}`: no such file or directory"
    )
    assert served.runtime.bus.statistics().waiting == 1
    place.mkdir()
    await client.ask(update_agent=pb.UpdateAgentMsg(agent=agent, config='{"description": "again"}'))

    async def both():
        rows = (await client.ask(list_invocations=pb.ListInvocationsMsg())).invocations
        return rows if len(rows) >= 2 else None

    rows = await until(both)
    assert sorted((row.trigger, row.outcome) for row in rows) == [("event", "done"), ("wake", "done")]


async def test_who_subscribed_to_it_hears_of_each_start(alarm):
    store = MemoryEngine()
    async with serving(store) as first:
        await first.client.put("alarm", alarm)
        agent = await first.client.declare("ann", "alarm")
        await first.client.ask(
            subscribe_event=pb.SubscribeEventMsg(source="daemon:started", target_harness=f"{agent}/alarm")
        )
    async with serving(store, Config(log=LogConfig(level="debug"))) as second:

        async def rows():
            return (await second.client.ask(list_invocations=pb.ListInvocationsMsg())).invocations

        (row,) = await until(rows)
        assert (row.trigger, row.agent, row.harness, row.tool, row.outcome) == (
            "event", agent, "alarm", "on_notify", "done"
        )  # fmt: skip
        text = next(line.text for line in second.runtime.logs.recent() if "daemon:started" in line.text)
        heard, source = text.removeprefix("heard ").rsplit(" from ", 1)
        assert source == "daemon:started"
        assert json.loads(heard) == {"boot": 2, "version": second.runtime.version}


async def _equal(asking, expected):
    return await asking() == expected


async def test_events_from_outside(client, bell):
    agent = await bell()
    target = f"{agent}/alarm"
    for source, code in (("daemon:started", 400), ("no good", 400), ("", 400)):
        assert (await refusal(client.ask(publish_event=pb.PublishEventMsg(source=source))))[0] == code
    subscribe = pb.SubscribeEventMsg(source="build:*", target_agent=agent, target_harness=target)
    assert (await refusal(client.ask(subscribe_event=subscribe)))[0] == 400
    subscribe = pb.SubscribeEventMsg(source="build:*", target_harness="alarm")
    assert (await refusal(client.ask(subscribe_event=subscribe)))[0] == 400
    made = await client.ask(subscribe_event=pb.SubscribeEventMsg(source="build:*", target_harness=target))
    watching = await client.send(tail_events=pb.TailEventsMsg())
    await client.ask(publish_event=pb.PublishEventMsg(source="build:done", payload="green"))
    event = await client.receive(watching)
    assert (event.source, event.payload) == ("build:done", "green")
    await client.ask(unsubscribe_event=pb.UnsubscribeEventMsg(id=made.id))
    assert (await refusal(client.ask(unsubscribe_event=pb.UnsubscribeEventMsg(id=made.id))))[0] == 404


async def test_the_log_can_be_followed(client, bell):
    watching = await client.send(tail_logs=pb.TailLogsMsg(level="info"))
    agent = await bell()
    await client.ask(
        subscribe_event=pb.SubscribeEventMsg(source="news", target_harness=f"{agent}/alarm", once=True)
    )
    await client.ask(publish_event=pb.PublishEventMsg(source="news", payload="a\nb"))
    with trio.fail_after(20):
        while (line := await client.receive(watching)).text != "heard a\\x0ab from news":
            pass
    assert (line.level, line.harness, line.agent) == ("info", "alarm", agent)
    code, message = await refusal(client.ask(tail_logs=pb.TailLogsMsg(level="inf")))
    assert (code, message) == (
        400,
        "level: expected one of debug, info, warning, error, got `inf`; did you mean `info`?",
    )


async def test_a_session_narrows_and_is_killed(client, bell):
    agent = await bell()
    await client.ask(create_session=pb.CreateSessionMsg(session_handle="s", agent=agent, sender="me"))
    again = pb.CreateSessionMsg(session_handle="s", agent=agent)
    assert (await refusal(client.ask(create_session=again)))[0] == 409
    request = await client.send(
        call_tool=pb.CallToolMsg(agent=agent, harness="alarm", tool="spin", args=b"{}", session_handle="s")
    )

    async def active():
        found = await client.ask(list_active_conversations=pb.ListActiveConversationsMsg(agent=agent))
        return found.conversations

    (one,) = await until(active)
    assert (one.session_handle, one.sender, one.agent_name) == ("s", "me", "ann")
    await client.ask(kill=pb.KillMsg(session_handle="s"))
    assert (await client.receive(request)).trap.kind == "cancelled"
    (listed,) = (await client.ask(list_conversations=pb.ListConversationsMsg())).conversations
    assert (listed.file_path, listed.sender, listed.agent_id, listed.seq) == ("s", "me", agent, 1)
    history = await client.ask(get_conversation_history=pb.GetConversationHistoryMsg(file_path="s"))
    assert (history.agent_name, len(history.messages)) == ("ann", 0)
    await client.ask(delete_conversation=pb.DeleteConversationMsg(file_path="s"))
    gone = pb.GetConversationHistoryMsg(file_path="s")
    assert (await refusal(client.ask(get_conversation_history=gone)))[0] == 404


async def test_a_sessions_root_narrows_that_of_its_agent(client, tmp_path):
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "a.txt").write_text("inside")
    (tmp_path / "b.txt").write_text("outside")
    await client.put("os", image_path("os"))
    agent = await client.declare("ann", {"name": "os", "root": {"session": str(tmp_path)}})
    await client.ask(
        create_session=pb.CreateSessionMsg(session_handle="s", agent=agent, root=str(tmp_path / "one"))
    )
    inside = await client.call(agent, "os", "read", '{"path": "a.txt"}', session_handle="s")
    assert b"inside" in inside.done
    outside = await client.call(agent, "os", "read", '{"path": "../b.txt"}', session_handle="s")
    assert outside.failed
    assert b"outside" in (await client.call(agent, "os", "read", '{"path": "b.txt"}')).done


async def test_skills_are_listed(client, served):
    from crabtalk.store.interfaces.skills import SkillRecord, Skills

    record = SkillRecord(name="sums", description="how to add", body="1 + 1", updated_ms=0)
    await served.runtime.store.commit(Skills(served.runtime.store).save(record))
    (listed,) = (await client.ask(list_skills=pb.ListSkillsMsg())).skills
    assert (listed.name, listed.description) == ("sums", "how to add")
    assert (await client.ask(get_skill=pb.GetSkillMsg(name="sums"))).body == "1 + 1"
    assert (await refusal(client.ask(get_skill=pb.GetSkillMsg(name="other"))))[0] == 404


async def test_everything_of_an_agent_goes_with_it(client, bell, served):
    agent = await bell(storage="1MiB", schedule=5)
    at_ms = served.runtime.clock.now_ms() + HOUR_MS
    await client.ask(schedule_wake=pb.ScheduleWakeMsg(agent=agent, harness="alarm", at_ms=at_ms))
    await client.ask(subscribe_event=pb.SubscribeEventMsg(source="news", target_harness=f"{agent}/alarm"))
    await client.ask(create_session=pb.CreateSessionMsg(session_handle="s", agent=agent))
    await client.ask(delete_agent=pb.DeleteAgentMsg(agent=agent))
    assert not (await client.ask(list_wakes=pb.ListWakesMsg())).wakes
    assert not (await client.ask(list_subscriptions=pb.ListSubscriptionsMsg())).subscriptions
    assert not (await client.ask(list_conversations=pb.ListConversationsMsg())).conversations
    store = served.runtime.store
    left = {column: store.scan_keys(column) for column in ("agent", "wake", "sub", "session", "kv")}
    assert {column: [key for key in keys if agent.encode() in key] for column, keys in left.items()} == {
        "agent": [], "wake": [], "sub": [], "session": [], "kv": []
    }  # fmt: skip


@pytest.mark.parametrize("pause_s", [None, 0.0, 0.002, 0.01])
async def test_a_call_of_an_image_that_is_not_linked_yet_can_be_taken_back_at_any_moment(
    client, bell, pause_s
):
    for number in range(4):
        ann = await bell(f"ann-{number}", memory=f"{16 << number}MiB", deadline=3000, fuel=10**15)
        called = await client.send(
            call_tool=pb.CallToolMsg(agent=ann, harness="alarm", tool="spin", args=b"{}")
        )
        if pause_s is not None:
            await trio.sleep(pause_s)
        await client.ask(cancel=pb.CancelMsg(request_id=called))
        with trio.fail_after(10):
            assert (await client.receive(called)).trap.kind == "cancelled"
        assert not (await client.ask(list_running=pb.ListRunningMsg())).invocations


BROKEN_STEPS = {
    "the row": (Journal, "_write"),
    "the row of a refusal": (accounting, "refused_row"),
    "the figures": (Metrics, "count_outcome"),
    "whether it is quick": (Journal, "is_quick"),
    "the context": (executor, "Context"),
    "the reply": (calls, "_reply"),
}


@pytest.mark.parametrize("nth", range(1, 5))
@pytest.mark.parametrize("step", BROKEN_STEPS)
async def test_a_step_that_breaks_lets_no_call_of_its_batch_run_twice_or_keep_its_place(
    client, bell, served, monkeypatch, step, nth
):
    agent = await bell()
    await client.call(agent, "alarm", "say", '{"text": "linked"}')
    begun, count = [], 0
    owner, name = BROKEN_STEPS[step]
    real, call_inline = getattr(owner, name), ImageTools.call_inline

    def breaking(*args, **options):
        nonlocal count
        count += 1
        if count == nth:
            raise MemoryError
        return real(*args, **options)

    def counting(self, context, tool, args):
        begun.append(args)
        return call_inline(self, context, tool, args)

    monkeypatch.setattr(owner, name, staticmethod(breaking) if name == "is_quick" else breaking)
    monkeypatch.setattr(served.runtime.tools, "call_inline", partial(counting, served.runtime.tools))
    served.runtime.executor._providers.clear()
    served.runtime.executor._routes.clear()
    served.runtime.executor.add_provider(served.runtime.tools)
    tools = ["say", "spin", "missing", "say", "spin", "missing", "say", "crash"]
    messages = [
        pb.ClientMessage(
            request_id=100 + n,
            call_tool=pb.CallToolMsg(
                agent=agent, harness="alarm", tool=tool, args=b'{"text": "%d"}' % n, deadline_ms=100
            ),
        )
        for n, tool in enumerate(tools)
    ]
    await client.stream.send_all(b"".join(map(encode_request, messages)))
    with trio.fail_after(10):
        codes = [await client.code(100 + n) for n in range(len(tools))]
    assert set(codes) <= {0, 404, 500}
    assert codes.count(500) <= 1
    assert len(begun) == len(set(begun))
    assert len(begun) >= len(tools) - 1
    assert await client.ask(ping=pb.PingMsg()) == pb.Pong()
    assert not any(client.replies.values())
    assert served.runtime.executor.idle
    assert served.runtime.executor.queue.statistics().running == 0


@pytest.mark.parametrize(
    ("rate", "last"),
    [("3/h", (429, "the rate of all harnesses, 3 in 3600 s, is used up; again in 1200 s")), ("", b"x")],
)
async def test_the_rate_of_all_harnesses_is_configured(alarm, rate, last):
    async with serving(MemoryEngine(), Config(executor=ExecutorConfig(rate=rate))) as daemon:
        await daemon.client.put("alarm", alarm)
        agents = [await daemon.client.declare(name, "alarm") for name in ("ann", "bob")]

        async def say(agent):
            return (await daemon.client.call(agent, "alarm", "say", '{"text": "x"}')).done

        assert [await say(agents[number % 2]) for number in range(3)] == [b"x"] * 3
        assert (await refusal(say(agents[0])) if isinstance(last, tuple) else await say(agents[0])) == last
