"""Stopping turns: at every point, by everybody who may, and what is left is a valid history."""

import pytest
import trio

from conversing import Hands, calls, conversing, events_of, history, kinds, says, sendable, sent
from crabtalk.connection import ConnectionLimits
from crabtalk.conversation.model import Finished, TextDelta, ThinkingDelta
from crabtalk.server import ServerLimits
from crabtalk.wire.pb import crabtalk_pb2 as pb
from daemon_client import Refused

pytestmark = pytest.mark.trio

CANCEL = {"cancel_stream": pb.CancelStreamMsg(session_handle="s")}


async def begun(daemon, agent, content="go", handle="s"):
    """Start a turn and return its request, when its model was asked."""
    client, asked = daemon.client, len(daemon.model.requests)
    request = await client.send(stream=pb.StreamMsg(agent=agent, content=content, session_handle=handle))
    await client.receive(request)
    await daemon.model.until_asked(asked + 1)
    await trio.testing.wait_all_tasks_blocked(0.02)
    return request


async def waiting(daemon, agent, content, handle="s"):
    """Start a turn that has to wait, and return its request."""
    request = await daemon.client.send(
        stream=pb.StreamMsg(agent=agent, content=content, session_handle=handle)
    )
    await daemon.client.receive(request)
    return request


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ([], []),
        ([ThinkingDelta("hm")], []),
        ([TextDelta("I was")], [("assistant", "I was")]),
    ],
)
async def test_a_turn_that_is_cancelled_keeps_what_it_said(said, kept):
    async with conversing([*said, trio.sleep_forever], says("better")) as daemon:
        client = daemon.client
        ann = await client.declare("ann")
        request = await begun(daemon, ann)
        await client.ask(**CANCEL)
        events = await events_of(client, request)
        assert kinds(events)[-1] == "end"
        assert events[-1].end.error == "it was cancelled"
        names = kinds(events)
        assert names.count("text_start") == names.count("text_end")
        assert names.count("thinking_start") == names.count("thinking_end")
        assert await history(client) == [("user", "go"), *kept]
        assert (await sent(client, ann, "again")).content == "better"
        sendable(daemon.model.requests[-1].messages)


async def test_tools_that_are_cancelled_have_results_and_are_stopped_first():
    stopped = []

    async def slow(_context, given):
        try:
            await trio.sleep_forever()
        finally:
            stopped.append(given["n"])

    hands = Hands(slow=slow, quick=lambda _context, _given: "quick")
    many = [("slow", {"n": n}) for n in range(18)]
    async with conversing(calls(("quick", {})), calls(*many), says("ok"), hands=hands) as daemon:
        client = daemon.client
        ann = await client.declare("ann")
        request = await begun(daemon, ann)
        await daemon.model.until_asked(2)
        await trio.testing.wait_all_tasks_blocked(0.02)
        await client.ask(**CANCEL)
        await events_of(client, request)
        assert len(stopped) == 8  # as many as the executor runs at once of one harness
        results = [content for role, content in await history(client) if role == "tool"]
        assert results[0] == "quick"
        assert sum("it may have done a part" in one for one in results) >= 8
        assert len(results) == 19
        await sent(client, ann, "again")
        sendable(daemon.model.requests[-1].messages)


async def test_kill_stops_also_those_that_wait_and_calls_of_clients():
    async with conversing([trio.sleep_forever]) as daemon:
        client = daemon.client
        ann = await client.declare("ann")
        first = await begun(daemon, ann)
        second = await waiting(daemon, ann, "next")
        listed = await client.ask(list_active_conversations=pb.ListActiveConversationsMsg(agent=ann))
        assert [one.session_handle for one in listed.conversations] == ["s"]
        await client.ask(kill=pb.KillMsg(session_handle="s"))
        assert (await events_of(client, first))[-1].end.error == "it was killed"
        assert (await events_of(client, second))[-1].end.error == "it was killed"
        assert await history(client) == [("user", "go")]
        listed = await client.ask(list_active_conversations=pb.ListActiveConversationsMsg(agent=ann))
        assert not listed.conversations


async def test_a_cancelled_turn_lets_the_next_one_of_its_session_run():
    async with conversing([trio.sleep_forever], says("next")) as daemon:
        client = daemon.client
        ann = await client.declare("ann")
        first = await begun(daemon, ann)
        second = await waiting(daemon, ann, "second")
        await client.ask(**CANCEL)
        assert (await events_of(client, first))[-1].end.error == "it was cancelled"
        assert (await events_of(client, second))[-1].end.error == ""


@pytest.mark.parametrize("by", ["the same connection", "another of its process"])
async def test_who_waits_behind_another_client_stops_its_own_turn_and_not_the_others(by):
    release = trio.Event()
    async with conversing([release.wait, *says("theirs")]) as daemon:
        ann = await daemon.client.declare("ann")
        theirs = await begun(daemon, ann)
        mine = type(daemon.client)(await daemon.listener.connect("unix:pid 7"))
        asking = mine
        if by != "the same connection":
            asking = type(daemon.client)(await daemon.listener.connect("unix:pid 7"))
        first = await mine.send(stream=pb.StreamMsg(agent=ann, content="mine", session_handle="s"))
        await mine.receive(first)
        second = await mine.send(stream=pb.StreamMsg(agent=ann, content="later", session_handle="s"))
        await mine.receive(second)
        await asking.ask(**CANCEL)
        assert (await events_of(mine, first))[-1].end.error == "it was cancelled"
        assert [one.content for one in daemon.runtime.conversations.turns("s")] == ["go", "later"]
        release.set()
        assert (await events_of(daemon.client, theirs))[-1].end.error == ""
        assert (await events_of(mine, second))[-1].end.error == ""


async def test_who_waits_for_nothing_stops_what_another_client_runs():
    async with conversing([trio.sleep_forever], says("next")) as daemon:
        ann = await daemon.client.declare("ann")
        theirs = await begun(daemon, ann)
        next_one = await waiting(daemon, ann, "next")
        other = type(daemon.client)(await daemon.listener.connect("unix:pid 7"))
        await other.ask(**CANCEL)
        assert (await events_of(daemon.client, theirs))[-1].end.error == "it was cancelled"
        assert (await events_of(daemon.client, next_one))[-1].end.error == ""


async def test_a_sum_that_waits_behind_another_client_is_stopped_by_who_asked_for_it():
    release = trio.Event()
    async with conversing(says("hi"), [release.wait, *says("theirs")]) as daemon:
        ann = await daemon.client.declare("ann")
        await sent(daemon.client, ann, "hello")
        theirs = await begun(daemon, ann)
        mine = type(daemon.client)(await daemon.listener.connect("unix:pid 7"))
        compacting = await mine.send(compact=pb.CompactMsg(session_handle="s", prompt="sum up"))
        await trio.testing.wait_all_tasks_blocked(0.02)
        await mine.ask(**CANCEL)
        with pytest.raises(Refused, match="it was cancelled"):
            await mine.receive(compacting)
        release.set()
        assert (await events_of(daemon.client, theirs))[-1].end.error == ""


async def test_a_session_that_is_deleted_is_stopped_and_leaves_nothing():
    async with conversing([TextDelta("I"), trio.sleep_forever]) as daemon:
        client = daemon.client
        ann = await client.declare("ann")
        request = await begun(daemon, ann)
        await client.ask(delete_conversation=pb.DeleteConversationMsg(file_path="s"))
        assert (await events_of(client, request))[-1].end.error == "its session was deleted"
        assert daemon.runtime.store.scan_keys("session") == []


async def test_an_agent_that_is_deleted_is_stopped_and_leaves_nothing():
    async with conversing([TextDelta("I"), trio.sleep_forever]) as daemon:
        client = daemon.client
        ann = await client.declare("ann")
        request = await begun(daemon, ann)
        await client.ask(delete_agent=pb.DeleteAgentMsg(agent=ann))
        assert (await events_of(client, request))[-1].end.error == "its agent was deleted"
        assert daemon.runtime.store.scan_keys("session") == []


async def test_a_daemon_that_stops_lets_turns_end_and_then_stops_them():
    release = trio.Event()
    async with conversing([release.wait, *says("in time")], [trio.sleep_forever]) as daemon:
        client = daemon.client
        ann = await client.declare("ann")
        quick = await begun(daemon, ann, handle="quick")
        slow = await begun(daemon, ann, handle="slow")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(daemon.runtime.conversations.shutdown, 0.2)
            await trio.testing.wait_all_tasks_blocked()
            release.set()
            assert (await events_of(client, quick))[-1].end.error == ""
            with pytest.raises(Refused, match="503"):
                await sent(client, ann, "more", "other")
            assert (await events_of(client, slow))[-1].end.error == "the daemon is stopping"


async def test_sessions_that_are_not_there_cannot_be_stopped():
    async with conversing() as daemon:
        for field in ({"kill": pb.KillMsg(session_handle="x")}, CANCEL):
            with pytest.raises(Refused, match="404: there is no session"):
                await daemon.client.ask(**field)


async def test_a_client_that_does_not_read_loses_its_turn_and_nobody_else_does():
    flood = [*(TextDelta("x" * 60_000) for _ in range(200)), Finished("stop")]
    async with conversing(flood, says("fine")) as daemon:
        ann = await daemon.client.declare("ann")
        daemon.server._limits = ServerLimits(connection=ConnectionLimits(write_deadline_s=0.2))
        stream = await daemon.listener.connect()
        other = type(daemon.client)(stream)
        await other.send(stream=pb.StreamMsg(agent=ann, content="hello", session_handle="s"))
        await daemon.model.until_asked(1)
        assert (await sent(daemon.client, ann, "hello", "other")).content == "fine"
        (turn,) = daemon.runtime.conversations.turns("s")
        with trio.fail_after(5):
            ending = await turn.result()
        assert ending.error.message == "the client did not read for 0.2 s"
        stream.close()
        kept = (await history(daemon.client))[-1]
        assert kept[0] == "assistant"
        assert 1 << 20 < len(kept[1]) < 12 << 20
