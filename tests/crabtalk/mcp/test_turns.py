"""A model that calls tools of MCP servers, in turns of an agent."""

import json

import pytest
import trio

from conversing import calls, conversing, says
from mcp_servers import raw

pytestmark = pytest.mark.trio


def result_of(request):
    return [(one.content, one.is_error) for one in request.messages if one.role == "tool"]


async def turn(client, agent):
    asked = {"agent": agent, "content": "go", "session_handle": "s"}
    with trio.fail_after(30):
        return await client.ask(send=asked)


async def test_a_model_is_offered_the_tools_in_its_first_round_and_reads_what_they_return():
    async with conversing(calls(("raw__echo", {"n": 1})), says("it said so")) as daemon:
        config = json.dumps({"mcps": [raw("plain")]})
        agent = (await daemon.client.ask(create_agent={"name": "ann", "config": config})).id
        reply = await turn(daemon.client, agent)
        assert reply.content == "it said so"
        assert [tool.wire_name for tool in daemon.model.requests[0].tools] == ["raw__echo"]
        assert result_of(daemon.model.requests[1]) == [('{"n": 1}', False)]


async def test_a_server_that_cannot_be_reached_costs_its_tools_and_not_the_turn():
    async with conversing(calls(("raw__echo", {})), says("never mind")) as daemon:
        config = json.dumps({"mcps": [{"name": "raw", "command": "/no/such/program"}]})
        agent = (await daemon.client.ask(create_agent={"name": "ann", "config": config})).id
        reply = await turn(daemon.client, agent)
        assert reply.content == "never mind"
        assert list(daemon.model.requests[0].tools) == []
        [(text, is_error)] = result_of(daemon.model.requests[1])
        assert is_error
        assert "there is no tool `raw__echo`" in text


async def test_a_cancelled_turn_cancels_its_calls_at_the_server():
    async with conversing(calls(("raw__echo", {"n": 1}))) as daemon:
        config = json.dumps({"mcps": [raw("mute")]})
        agent = (await daemon.client.ask(create_agent={"name": "ann", "config": config})).id
        await daemon.client.send(send={"agent": agent, "content": "go", "session_handle": "s"})
        lines = await daemon.client.send(mcp_logs={"agent": agent, "name": "raw"})
        with trio.fail_after(30):
            while "called" not in (await daemon.client.receive(lines)).text:
                pass
            await daemon.client.ask(cancel_stream={"session_handle": "s"})
            while "cancelled" not in (await daemon.client.receive(lines)).text:
                pass
