"""Two hundred sessions at once on slow streams: nobody waits for anybody else."""

import os
import sys
import time
from pathlib import Path

import pytest
import trio

from conversing import conversing
from crabtalk.conversation.model import Finished, TextDelta
from crabtalk.conversation.turns import TurnRequest
from crabtalk.errors import Busy
from crabtalk.wire.pb import crabtalk_pb2 as pb

pytestmark = pytest.mark.trio

SESSIONS = 200
PIECES = 20
MOST_OF_SESSION = 100 << 10  # bytes; about 20 KiB were measured


def resident_bytes():
    """Return what this process has in memory; 0 where the system does not tell."""
    if sys.platform != "linux":
        return 0
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def test_two_hundred_slow_streams_leave_everybody_else_alone():
    async def pause():
        await trio.sleep(0.05)

    def slow(_request):
        return [step for _ in range(PIECES) for step in (pause, TextDelta("word "))] + [Finished("stop")]

    async with conversing(*[slow] * SESSIONS) as daemon:
        client, runtime = daemon.client, daemon.runtime
        agents = [await client.declare(f"a{n}") for n in range(4)]
        ended = []

        async def talk(number):
            asked = TurnRequest(
                agent=runtime.agents.get(agents[number % 4]), content="go", handle=f"s{number}"
            )
            ending = await runtime.conversations.start(asked).result()
            ended.append((number, ending))

        started = time.perf_counter()
        pings, memory, before_bytes = [], [], resident_bytes()
        async with trio.open_nursery() as nursery:
            for number in range(SESSIONS):
                nursery.start_soon(talk, number)
            await daemon.model.until_asked(SESSIONS)
            while len(ended) < SESSIONS:
                before = time.perf_counter()
                await client.ask(ping=pb.PingMsg())
                pings.append(time.perf_counter() - before)
                memory.append(resident_bytes())
                await trio.sleep(0.02)
        elapsed = time.perf_counter() - started
        assert all(ending.text == "word " * PIECES for _, ending in ended)
        # One after the other they would take over three minutes.
        assert elapsed < 30
        assert sorted(pings)[len(pings) // 2] < 0.25
        assert (max(memory) - before_bytes) / SESSIONS < MOST_OF_SESSION
        # Fair: those that began first did not keep the others waiting until their end.
        assert {number % 4 for number, _ in ended[:100]} == {0, 1, 2, 3}


async def test_there_is_a_bound_on_turns_of_one_session():
    async with conversing([trio.sleep_forever]) as daemon:
        agent = daemon.runtime.agents.get(await daemon.client.declare("ann"))
        asked = TurnRequest(agent=agent, content="go", handle="s")
        for _ in range(16):
            daemon.runtime.conversations.start(asked)
        with pytest.raises(Busy, match="16 turns of this session have not ended"):
            daemon.runtime.conversations.start(asked)
        daemon.runtime.conversations.kill("s")
