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
LONGEST_LEAD = 4  # pieces; 2 were measured
MEDIAN_PING_S = 0.25
WORST_PING_S = 1.0  # 0.02 were measured
MOST_OF_SESSION = 100 << 10  # bytes; about 20 KiB were measured


def resident_bytes():
    """Return what this process has in memory; 0 where the system does not tell."""
    if sys.platform != "linux":
        return 0
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def test_two_hundred_slow_streams_leave_everybody_else_alone():
    everybody, progress, leads = trio.Event(), [], []

    def slow(_request):
        number = len(progress)
        progress.append(0)  # pieces that were taken

        async def pause():
            leads.append(progress[number] - min(progress))
            await trio.sleep(0.05)
            progress[number] += 1

        pieces = [step for _ in range(PIECES) for step in (pause, TextDelta("word "))]
        return [everybody.wait, *pieces, Finished("stop")]

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
            everybody.set()
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
        assert sorted(pings)[len(pings) // 2] < MEDIAN_PING_S
        assert max(pings) < WORST_PING_S
        assert (max(memory) - before_bytes) / SESSIONS < MOST_OF_SESSION
        # Fair: nobody has many more pieces than whoever has the fewest.
        assert max(leads) <= LONGEST_LEAD


async def test_there_is_a_bound_on_turns_of_one_session():
    async with conversing([trio.sleep_forever]) as daemon:
        agent = daemon.runtime.agents.get(await daemon.client.declare("ann"))
        asked = TurnRequest(agent=agent, content="go", handle="s")
        for _ in range(16):
            daemon.runtime.conversations.start(asked)
        with pytest.raises(Busy, match="16 turns of this session have not ended"):
            daemon.runtime.conversations.start(asked)
        daemon.runtime.conversations.kill("s")
