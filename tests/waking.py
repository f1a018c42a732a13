"""A daemon's middle without sockets and images: store, executor, wakes and bus, and harnesses in Python.

`World` is one life of the daemon over an engine; `Natives` are its harnesses, which implement the seams that
images implement; `MovedClock` is trio's clock with a wall clock beside it that a test can set.
"""

import json
from base64 import b64decode
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import trio
import trio.testing

from crabtalk.declarations import Bounds
from crabtalk.errors import BadRequest, NotFound
from crabtalk.events.bus import Bus
from crabtalk.executor import Executor
from crabtalk.ids import new_id
from crabtalk.scheduling.backlog import Pace
from crabtalk.scheduling.loop import WakeLoop
from crabtalk.scheduling.wakes import WakeService
from crabtalk.store.interfaces.agents import AgentRecord
from crabtalk.store.interfaces.audit import Audit
from crabtalk.tools import Done
from crabtalk.work import ExecutorLimits


def run_jumping(function, clock=None, instruments=()):  # noqa: ARG001 - as pytest-trio calls it
    """Run a test under a clock that jumps to what is next; for `pytest.mark.trio(run=run_jumping)`."""
    return trio.run(function, clock=trio.testing.MockClock(autojump_threshold=0), instruments=instruments)


START_MS = 1_800_000_000_000  # a whole second


class MovedClock:
    """Trio's clock, and a wall clock that runs with it and can be set."""

    def __init__(self):
        self.start = trio.current_time()
        self.moved_ms = 0

    def now_ms(self):
        return START_MS + int((trio.current_time() - self.start) * 1000 + 0.001) + self.moved_ms

    def monotonic(self):
        return trio.current_time()

    def move(self, seconds):
        self.moved_ms += int(seconds * 1000)


@dataclass
class Seen:
    """One call of an entry."""

    at: float
    agent: str
    harness: str
    entry: str
    argument: dict
    context: object

    @property
    def payload(self):
        if self.entry == "on_wake":
            return b64decode(self.argument["payload_base64"])
        return self.argument["payload"]


class Natives:
    """Agents with harnesses in Python: what the executor calls, and whom wakes and events reach."""

    def __init__(self):
        self.agents = {}
        self.entries = {}  # (harness, entry) -> async function of (seen), whose result is the outcome
        self.unloadable = {}  # harness -> why
        self.unlinkable = {}
        self.bounds = Bounds()
        self.seen = []

    def add_agent(self, name, agent_id=None):
        record = AgentRecord(agent_id or new_id(), name, {}, 0, 0, 1)
        self.agents[record.id] = record
        return record

    def add(self, harness, *entries, act=None):
        for entry in entries:
            self.entries[harness, entry] = act

    def harnesses(self, agent):  # noqa: ARG002 - all have the same
        return sorted({harness for harness, _ in self.entries})

    def tools(self, agent):  # noqa: ARG002
        return ()

    def usage(self, agent):  # noqa: ARG002
        return ()

    async def call(self, context, tool, args):
        act = self.entries[context.harness, tool]
        seen = Seen(trio.current_time(), context.agent.name, context.harness, tool, json.loads(args), context)
        self.seen.append(seen)
        outcome = None if act is None else await act(seen)
        return outcome or Done(b"")

    async def on_declare(self, agent):
        pass

    async def on_forget(self, agent):
        pass

    def agent(self, agent_id):
        return self.agents.get(agent_id)

    async def require_entry(self, agent, harness, entry):
        await trio.lowlevel.checkpoint()
        if not any(known == harness for known, _ in self.entries):
            raise NotFound(f"agent `{agent.name}` has no harness `{harness}`")
        if harness in self.unloadable:
            raise BadRequest(self.unloadable[harness])
        if (harness, entry) not in self.entries:
            raise BadRequest(f"harness `{harness}` has no `{entry}`")

    async def require_ready(self, agent, harness, entry):
        await self.require_entry(agent, harness, entry)
        if harness in self.unlinkable:
            raise BadRequest(self.unlinkable[harness])

    def declaration(self, agent, harness):
        if not any(known == harness for known, _ in self.entries):
            raise NotFound(f"agent `{agent.name}` has no harness `{harness}`")
        return self.bounds

    def payloads(self):
        return [one.payload for one in self.seen]


@dataclass
class World:
    """One life of the daemon."""

    engine: object
    natives: Natives
    clock: MovedClock
    boot: int = 1
    pace: Pace = field(default_factory=Pace)
    limits: ExecutorLimits = field(default_factory=ExecutorLimits)

    def waited(self, work, waited_s):
        """Hear of work that had to wait, likewise."""

    def ended(self, ends):
        """Hear of invocations that ran, as the executor's listener."""

    def trapped(self, row, outcome, chain):
        self.bus.on_trap(row, outcome, chain)

    def __post_init__(self):
        self.executor = Executor(
            self.engine,
            self.clock,
            self.limits,
            [self.natives],
            self.natives.declaration,
            self,
        )
        self.wakes = WakeService(self.engine, self.clock, self.natives, boot_id=f"boot-{self.boot}")
        self.bus = Bus(self.engine, self.clock, self.natives, self.executor)
        self.loop = WakeLoop(
            self.wakes,
            self.bus,
            self.executor,
            self.natives,
            self.engine,
            self.clock,
            boot_number=self.boot,
            pace=self.pace,
        )

    @asynccontextmanager
    async def alive(self):
        """Load and serve; at the end of the block everything is cut off, as by a crash."""
        await self.wakes.load()
        await self.bus.load()
        async with trio.open_nursery() as nursery:
            await nursery.start(self.bus.serve)
            await nursery.start(self.loop.serve)
            yield self
            nursery.cancel_scope.cancel()

    async def stop(self, drain_s=0.0):
        """Stop as the daemon does at SIGTERM."""
        self.loop.stop()
        self.bus.stop()
        await self.executor.shutdown(drain_s)

    def rows(self):
        self.engine.flush()
        return list(reversed(Audit(self.engine).latest(10_000)))

    def endings(self):
        return [row.outcome for row in self.rows()]

    @property
    def now_ms(self):
        return self.clock.now_ms()

    async def until(self, condition, seconds=5.0):
        """Wait for something to become true, looking every millisecond."""
        with trio.fail_after(seconds):
            while not condition():  # noqa: ASYNC110 - conditions are anything
                await trio.sleep(0.001)


class PowerCut(BaseException):
    """The end of a life of the daemon, in the middle of whatever it does."""


class FailingEngine:
    """An engine whose power fails at one of its commits, just before it or just after."""

    def __init__(self, inner, fail_at=None, *, after=False):
        self._inner = inner
        self._fail_at = fail_at
        self._after = after
        self.commits = 0
        self.failed = False

    def __getattr__(self, name):
        return getattr(self._inner, name)

    async def commit(self, batch):
        self._check()
        self.commits += 1
        if self.commits != self._fail_at:
            await self._inner.commit(batch)
            self._check()  # what others did not hear of is not heard of later either
            return
        if self._after:
            await self._inner.commit(batch)
        self.failed = True
        raise PowerCut

    def defer(self, batch):
        self._check()
        self._inner.defer(batch)

    def _check(self):
        if self.failed:
            raise PowerCut
