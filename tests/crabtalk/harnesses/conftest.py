"""The harnesses that we ship, in a daemon within the test whose wall clock can be moved."""

import json

import pytest
import trio
from pytest_trio import trio_fixture

from crabtalk.clock import SystemClock
from crabtalk.store.memory import MemoryEngine
from crabtalk.wire.pb import crabtalk_pb2 as pb
from daemon_client import serving
from guest_images import image_path


class MovedClock(SystemClock):
    """The machine's clocks, with the wall clock set forward."""

    def __init__(self):
        self.moved_ms = 0

    def now_ms(self):
        return super().now_ms() + self.moved_ms


class Keeper:
    """An agent with one harness, and everything that is published while a test runs."""

    def __init__(self, daemon, clock, harness):
        self.daemon = daemon
        self.client = daemon.client
        self.clock = clock
        self.harness = harness
        self.agent = None
        self.tail = None

    async def declare(self, **arguments):
        await self.client.put(self.harness, image_path(self.harness))
        self.agent = await self.client.declare("ann", {"name": self.harness, **arguments})
        self.tail = await self.client.send(tail_events=pb.TailEventsMsg(source=""))

    async def call(self, tool, **args):
        return await self.client.call(self.agent, self.harness, tool, json.dumps(args))

    async def done(self, tool, **args):
        outcome = await self.call(tool, **args)
        assert outcome.WhichOneof("outcome") == "done", outcome
        return outcome.done.decode()

    async def pending(self):
        listed = await self.client.ask(list_wakes=pb.ListWakesMsg(agent=self.agent))
        return sorted((wake for wake in listed.wakes if wake.state == "pending"), key=lambda wake: wake.at_ms)

    async def advance(self, late_ms=0):
        """Set the clock to when the next wake is due."""
        wake = (await self.pending())[0]
        self.clock.moved_ms += max(wake.at_ms + late_ms - self.clock.now_ms(), 0)
        self.daemon.runtime.loop.ring()

    async def next_wake(self, late_ms=0):
        """The same, and return how it ended."""
        before = len(await self.runs())
        await self.advance(late_ms)
        with trio.fail_after(20):
            while len(runs := await self.runs()) == before:  # noqa: ASYNC110 - it is asked for
                await trio.sleep(0.005)
        return runs[-1]

    async def event(self, source):
        """Return the payload of the next event from a source."""
        with trio.fail_after(20):
            while True:
                event = await self.client.receive(self.tail)
                if event.source == source:
                    return json.loads(event.payload)

    async def events_so_far(self):
        """Return the sources of all events that were published and not received yet."""
        await self.client.ask(publish_event=pb.PublishEventMsg(source="test:end", payload=""))
        found = []
        with trio.fail_after(20):
            while (event := await self.client.receive(self.tail)).source != "test:end":
                found.append(event.source)
        return found

    async def runs(self):
        """Return how wakes ended, oldest first."""
        listed = await self.client.ask(
            list_invocations=pb.ListInvocationsMsg(limit=1000, harness=self.harness)
        )
        return sorted((row for row in listed.invocations if row.trigger == "wake"), key=lambda row: row.id)


@pytest.fixture
def clock():
    return MovedClock()


@trio_fixture
async def daemon(clock):
    async with serving(MemoryEngine(), clock=clock) as daemon:
        yield daemon


@pytest.fixture
def keeper(daemon, clock):
    def keeper(harness):
        return Keeper(daemon, clock, harness)

    return keeper
