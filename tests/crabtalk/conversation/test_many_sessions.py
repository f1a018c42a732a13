"""Two hundred sessions at once on slow streams: nobody waits for anybody else."""

import time

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
        pings = []
        async with trio.open_nursery() as nursery:
            for number in range(SESSIONS):
                nursery.start_soon(talk, number)
            await daemon.model.until_asked(SESSIONS)
            while len(ended) < SESSIONS:
                before = time.perf_counter()
                await client.ask(ping=pb.PingMsg())
                pings.append(time.perf_counter() - before)
                await trio.sleep(0.02)
        elapsed = time.perf_counter() - started
        assert all(ending.text == "word " * PIECES for _, ending in ended)
        # One after the other they would take over three minutes.
        assert elapsed < 30
        assert sorted(pings)[len(pings) // 2] < 0.25
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
