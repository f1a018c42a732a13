"""A life of the daemon's middle over the engine in memory, under a clock that jumps to what is next."""

import pytest

from crabtalk.store.memory import MemoryEngine
from waking import MovedClock, Natives, World


@pytest.fixture
def natives():
    natives = Natives()
    natives.me = natives.add_agent("me")
    natives.add("clockwork", "on_wake")
    natives.add("mute", "run")
    return natives


@pytest.fixture
async def world(natives):
    return World(MemoryEngine(), natives, MovedClock())
