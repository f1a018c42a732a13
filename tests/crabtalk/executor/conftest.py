"""What the executor's tests share: native tools and raw images behind the seam, and an executor for them."""

import gc
from collections.abc import Awaitable

import pytest

import berm
import rawguests
from crabtalk.clock import SystemClock
from crabtalk.declarations import Bounds
from crabtalk.errors import NotFound
from crabtalk.executor import Executor
from crabtalk.invocation import drive_inline
from crabtalk.store.interfaces.agents import AgentRecord
from crabtalk.store.interfaces.audit import Audit
from crabtalk.store.memory import MemoryEngine
from crabtalk.tools import Done, Failed, Tool, Trapped, Trigger
from crabtalk.work import ExecutorLimits, Work


def agent(name="a"):
    return AgentRecord(f"id-{name}", name, {}, 0, 0, 1)


class Native:
    """A harness of Python functions: `name(context, args)`, plain or async; bytes stand for Done."""

    def __init__(self, harness="native", **tools):
        self.harness = harness
        self.functions = tools

    def harnesses(self, _agent):
        return (self.harness,)

    def tools(self, _agent):
        return [Tool(self.harness, name, name, "", {"type": "object"}) for name in self.functions]

    def usage(self, _agent):
        return []

    def result_of(self, context, tool, args):
        if tool not in self.functions:
            raise NotFound(f"no tool `{tool}`")
        return self.functions[tool](context, args)

    async def call(self, context, tool, args):
        result = self.result_of(context, tool, args)
        return outcome(await result if isinstance(result, Awaitable) else result)

    async def on_declare(self, agent):
        pass

    async def on_forget(self, agent):
        pass


class InlineNative(Native):
    """The same, with plain functions called at once."""

    def call_inline(self, context, tool, args):
        result = self.result_of(context, tool, args)
        return finished(result) if isinstance(result, Awaitable) else outcome(result)


def outcome(result):
    return Done(result) if isinstance(result, bytes) else result


async def finished(result):
    return outcome(await result)


class Raw(Native):
    """Images linked by hand, by harness name, run as the daemon's own provider runs them."""

    def __init__(self, **harnesses):
        self.linked = harnesses

    def harnesses(self, _agent):
        return tuple(self.linked)

    def call_inline(self, context, tool, args):
        try:
            invocation = self.start(context, tool, args)
            ended = drive_inline(invocation, context)
        except berm.Trap as trap:
            return trapped(trap)
        return self.finish(ended) if isinstance(ended, Awaitable) else converted(ended)

    def start(self, context, tool, args):
        import trio

        harness = self.linked[context.harness]
        options = {
            "limits": berm.Limits(deadline=max(1e-6, context.deadline - trio.current_time())),
            "context": context,
            "chain": context.chain.berm,
            "depth": context.depth,
        }
        if tool == "on_wake":
            return harness.start_wake(args, **options)
        try:
            return harness.start(tool, args, **options)
        except berm.NoSuchTool as error:
            raise NotFound(str(error)) from error

    async def finish(self, ended):
        try:
            return converted(await ended)
        except berm.Trap as trap:
            return trapped(trap)

    async def call(self, context, tool, args):
        result = self.call_inline(context, tool, args)
        return await result if isinstance(result, Awaitable) else result


def converted(ended):
    kind = Done if isinstance(ended, berm.Done) else Failed
    return kind(ended.data if kind is Done else ended.message, ended.instructions)


def trapped(trap):
    return Trapped(trap.code.name.lower(), str(trap))


class Setup:
    """An executor over a store in memory, and what a test asks of it."""

    def __init__(self, *providers, limits=None, store=None, **bounds):
        self.store = store or MemoryEngine()
        self.bounds = Bounds(**{"digest": "image", **bounds})
        self.heard = []  # ends, as the executor's listener
        self.trapped_rows = []
        self.waits = []
        self.executor = Executor(
            self.store,
            SystemClock(),
            limits or ExecutorLimits(),
            providers,
            lambda _agent, _harness: self.bounds,
            self,
        )

    def waited(self, work, waited_s):
        self.waits.append((work.entry, waited_s))

    def ended(self, ends):
        self.heard += ends

    def trapped(self, row, _outcome, _chain):
        self.trapped_rows.append(row)

    @staticmethod
    def work(entry, args=b"", *, harness="native", of="a", trigger=Trigger.TOOL, **facts):
        return Work(trigger=trigger, agent=agent(of), harness=harness, entry=entry, args=args, **facts)

    def start(self, *args, **facts):
        return self.executor.start(self.work(*args, **facts))

    async def run(self, *args, **facts):
        return await self.executor.run(self.work(*args, **facts))

    @property
    def rows(self):
        """The audit, oldest first."""
        self.store.flush()
        return Audit(self.store).latest(10_000)[::-1]

    @property
    def endings(self):
        """How everything ended, in no order: rows of one millisecond have none."""
        return sorted(row.outcome for row in self.rows)

    def states(self):
        return [one.state for one in self.executor.running()]


@pytest.fixture
def setup():
    return Setup


@pytest.fixture(params=[Native, InlineNative], ids=["task", "inline"])
def native(request):
    """The native harness on both ways: called in a task, and called at once."""
    return request.param


@pytest.fixture(scope="session")
def engine():
    with berm.Engine(berm.Config()) as engine:
        yield engine


@pytest.fixture
def plain(engine):
    """Return a function that links the plain guest with capabilities."""
    elf = rawguests.build("plain")

    def plain(*capabilities):
        return berm.Harness.load(engine, elf, capabilities)

    return plain


@pytest.fixture
def no_guest_left(engine):
    """Check that no guest of the test still holds memory."""
    before = engine.statistics().arenas_live
    yield
    if engine.statistics().arenas_live != before:
        gc.collect()
    assert engine.statistics().arenas_live == before
