"""Search as clients ask for it, in what turns of agents said; and memory in a turn."""

import json

import pytest

from conversing import Hands, calls, conversing, says, sent, streamed
from crabtalk.wire.pb import crabtalk_pb2 as pb
from daemon_client import Refused

pytestmark = pytest.mark.trio


async def search(daemon, query, **options):
    reply = await daemon.client.ask(search_sessions=pb.SearchSessionsMsg(query=query, **options))
    return list(reply.hits)


async def found(daemon, query, **options):
    return [(hit.session_handle, hit.msg_idx) for hit in await search(daemon, query, **options)]


async def test_what_was_said_in_a_turn_is_found_when_it_has_ended():
    hands = Hands(fetch_timetable=lambda _context, _given: "secretresult")
    answers = [calls(("fetch_timetable", {"port": "secretargument"})), says("The ferry leaves at seven.")]
    async with conversing(*answers, hands=hands) as daemon:
        ann = await daemon.client.declare("ann")
        await streamed(daemon.client, ann, "When does the boat leave?", handle="trip", sender="me")
        (hit,) = await search(daemon, "ferry")
        assert (hit.session_handle, hit.msg_idx, hit.sender) == ("trip", 3, "me")
        assert (hit.agent_id, hit.agent_name) == (ann, "ann")
        assert hit.score > 0
        assert hit.created_at <= hit.updated_at
        assert hit.created_at.endswith("+00:00")
        assert [(one.role, one.msg_idx, one.snippet, one.tool_name) for one in hit.window] == [
            ("tool", 2, "", "fetch_timetable"),
            ("assistant", 3, "The ferry leaves at seven.", ""),
        ]
        assert await found(daemon, "boat") == [("trip", 0)]
        assert await found(daemon, "timetable") == [("trip", 1)]
        assert await found(daemon, "secretresult") == await found(daemon, "secretargument") == []


async def test_an_ephemeral_turn_leaves_nothing():
    async with conversing(says("of course"), says("narwhal")) as daemon:
        ann = await daemon.client.declare("ann")
        await streamed(daemon.client, ann, "ship", handle="s")
        await streamed(daemon.client, ann, "whale?", handle="s", ephemeral=True)
        assert await found(daemon, "ship") == [("s", 0)]
        assert await found(daemon, "narwhal whale") == []


async def test_filters_numbers_and_what_is_refused():
    async with conversing() as daemon:
        ann, bob = await daemon.client.declare("ann"), await daemon.client.declare("bob")
        await sent(daemon.client, ann, "ship", handle="a", sender="me")
        await sent(daemon.client, bob, "ship", handle="b", sender="you")
        assert sorted(await found(daemon, "ship")) == [("a", 0), ("b", 0)]
        assert (
            await found(daemon, "ship", agent=bob) == await found(daemon, "ship", sender="you") == [("b", 0)]
        )
        assert len(await found(daemon, "ship", limit=1)) == 1
        (hit,) = await search(daemon, "ship", agent=ann, context_before=0, context_after=0)
        assert len(hit.window) == 1
        for code, request in (
            (400, {"query": ""}),
            (400, {"query": "ship", "limit": 0}),
            (400, {"query": "ship", "limit": 21}),
            (400, {"query": "ship", "context_before": 21}),
            (404, {"query": "ship", "agent": "nobody"}),
        ):
            with pytest.raises(Refused) as caught:
                await search(daemon, **request)
            assert caught.value.code == code


async def test_sessions_and_agents_that_go_are_not_found():
    async with conversing() as daemon:
        ann, bob = await daemon.client.declare("ann"), await daemon.client.declare("bob")
        for agent, handle in ((ann, "a1"), (ann, "a2"), (bob, "b")):
            await sent(daemon.client, agent, "ship", handle=handle)
        await daemon.client.ask(delete_conversation=pb.DeleteConversationMsg(file_path="a1"))
        assert sorted(await found(daemon, "ship")) == [("a2", 0), ("b", 0)]
        await daemon.client.ask(delete_agent=pb.DeleteAgentMsg(agent=ann))
        assert await found(daemon, "ship") == [("b", 0)]


async def test_an_agent_remembers_over_sessions():
    note = {"name": "harbour", "content": "Ferries leave at 7.", "aliases": ["boats"]}
    answers = [
        calls(("remember", note)),
        says("noted"),
        calls(("recall", {"query": "when do boats leave"})),
        says("at seven"),
    ]
    async with conversing(*answers) as daemon:
        ann = await daemon.client.declare(
            "ann", {"name": "memory", "builtin": "memory"}, description="You help."
        )
        await sent(daemon.client, ann, "Remember the ferries.", handle="one")
        await sent(daemon.client, ann, "When does the boat leave?", handle="two")
        first, last = daemon.model.requests[0], daemon.model.requests[-1]
        assert first.system.startswith("You help.\n\n`remember` keeps a note")
        assert [tool.wire_name for tool in first.tools] == ["remember", "recall", "forget"]
        (recalled,) = json.loads(last.messages[-1].content)
        assert (recalled["name"], recalled["content"]) == ("harbour", "Ferries leave at 7.")


async def test_a_summary_is_recalled_and_what_it_sums_up_is_still_found():
    answers = [
        says("The narwhal swims north."),
        says("They spoke of the sea."),
        calls(("recall", {"query": "sea"})),
    ]
    async with conversing(*answers) as daemon:
        ann = await daemon.client.declare("ann", {"name": "memory", "builtin": "memory"})
        await sent(daemon.client, ann, "Where does it swim?", handle="s")
        compact = pb.CompactMsg(session_handle="s", prompt="Sum it up.")
        assert (await daemon.client.ask(compact=compact)).summary == "They spoke of the sea."
        assert await found(daemon, "narwhal") == [("s", 1)]
        await sent(daemon.client, ann, "What was it about?", handle="other")
        (recalled,) = json.loads(daemon.model.requests[-1].messages[-1].content)
        assert (recalled["kind"], recalled["content"]) == ("archive", "They spoke of the sea.")
