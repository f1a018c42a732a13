"""Servers that the daemon starts: real processes, with the public SDK at both ends."""

import json
import os

import pytest
import trio

from crabtalk.wire.pb import crabtalk_pb2 as pb
from mcp_servers import good, raw

pytestmark = pytest.mark.trio


async def test_a_server_is_connected_when_it_is_declared_and_its_tools_can_be_called(agent):
    ann = await agent()
    info = await ann.upsert(good())
    assert (info.status, info.error, info.tool_count) == (pb.CONNECTED, "", 7)
    assert await ann.call("good", "add", a=2, b=3) == ("done", "5")
