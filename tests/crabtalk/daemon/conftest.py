"""A daemon within the test: every part real, the store in memory, clients over memory."""

import pytest
from pytest_trio import trio_fixture

from crabtalk.config import Config, LogConfig
from crabtalk.store.memory import MemoryEngine
from daemon_client import serving
from guest_images import image_path


@trio_fixture
async def served():
    async with serving(MemoryEngine(), Config(log=LogConfig(level="debug"))) as daemon:
        yield daemon


@pytest.fixture
def client(served):
    return served.client


@pytest.fixture(scope="session")
def alarm():
    return image_path("alarm")


@pytest.fixture
def bell(client, alarm):
    """Return what declares an agent with the harness `alarm`, and returns its id."""

    async def declare(name="ann", **harness):
        await client.put("alarm", alarm)
        return await client.declare(name, {"name": "alarm", **harness})

    return declare
