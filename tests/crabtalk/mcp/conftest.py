"""A daemon within the test, and agents with MCP servers."""

import json

import pytest
import trio
from pytest_trio import trio_fixture

from crabtalk.config import Config, LogConfig
from crabtalk.store.memory import MemoryEngine
from daemon_client import serving


@trio_fixture
async def served():
    async with serving(MemoryEngine(), Config(log=LogConfig(level="debug"))) as daemon:
        yield daemon


@pytest.fixture
def client(served):
    return served.client


class Agent:
    """An agent with servers, as a client sees it."""

    def __init__(self, client, agent_id):
        self.client = client
        self.id = agent_id

    async def upsert(self, server):
        return await self.client.ask(upsert_mcp={"config": json.dumps(server), "agent": self.id})

    async def list(self):
        return (await self.client.ask(list_mcps={"agent": self.id})).mcps

    async def call(self, server, tool, **arguments):
        """Return what came of it: (`done` | `failed` | `trap`, text)."""
        asked = {"agent": self.id, "harness": server, "tool": tool, "args": json.dumps(arguments).encode()}
        outcome = await self.client.ask(call_tool=asked)
        kind = outcome.WhichOneof("outcome")
        value = getattr(outcome, kind)
        return kind, value.decode() if kind == "done" else value if kind == "failed" else value.message

    async def until(self, test, timeout_s=10):
        """Return the first listing of servers for which `test` is true."""
        with trio.fail_after(timeout_s):
            while not test(listed := await self.list()):  # noqa: ASYNC110 - asked over the wire
                await trio.sleep(0.02)
        return listed


@pytest.fixture
def agent(client):
    async def make(*servers, name="ann"):
        config = json.dumps({"mcps": list(servers)})
        info = await client.ask(create_agent={"name": name, "config": config})
        return Agent(client, info.id)

    return make
