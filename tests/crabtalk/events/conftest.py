"""A life of the daemon's middle over the engine in memory, and a harness that listens."""

import pytest

from crabtalk.store.memory import MemoryEngine
from waking import MovedClock, Natives, World


@pytest.fixture
def natives():
    natives = Natives()
    natives.me = natives.add_agent("me")
    natives.add("listener", "on_notify")
    natives.add("deaf", "on_wake")
    return natives


@pytest.fixture
async def world(natives):
    return World(MemoryEngine(), natives, MovedClock())
