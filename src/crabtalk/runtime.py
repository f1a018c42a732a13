"""The parts of a daemon, put together: store, images, agents, executor, wakes, bus, in that order.

Each part knows only those before it; where an early one needs a late one, it was given a function that finds
it here when it is called. What is opened here is closed here, in the reverse order. Nothing of it knows
sockets or signals.
"""

import logging
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Final

import trio

from crabtalk.accounting import ending_of
from crabtalk.agents import AgentService
from crabtalk.approvals import Approvals
from crabtalk.ask_user import AskUser
from crabtalk.binding import Services
from crabtalk.builtins import Builtin, Builtins, BuiltinTools
from crabtalk.capabilities.asking import asking
from crabtalk.capabilities.calls import calls
from crabtalk.capabilities.schedule import schedule
from crabtalk.capabilities.send import send
from crabtalk.capabilities.sessions import sessions
from crabtalk.capabilities.skills import skills
from crabtalk.capabilities.topics import topics
from crabtalk.chains import Chain
from crabtalk.clock import Clock
from crabtalk.config import Config, ExecutorConfig
from crabtalk.conversation.speaking import Speaking
from crabtalk.conversation.unattended import Unattended
from crabtalk.conversations import Conversations
from crabtalk.events.bus import Bus
from crabtalk.executor import Executor
from crabtalk.home import Home
from crabtalk.ids import new_id
from crabtalk.image_tools import ImageTools
from crabtalk.images import Images
from crabtalk.journal import End
from crabtalk.known_secrets import KNOWN
from crabtalk.logs import Logs
from crabtalk.mcp.service import McpService
from crabtalk.measures import measure
from crabtalk.memory.harness import MemoryHarness
from crabtalk.memory.service import MemoryService
from crabtalk.metrics import Metrics
from crabtalk.models import Models
from crabtalk.prompts import Prompts
from crabtalk.rates import Rate
from crabtalk.scheduling.backlog import Pace
from crabtalk.scheduling.loop import WakeLoop
from crabtalk.scheduling.wakes import WakeService
from crabtalk.search.service import SearchService
from crabtalk.sessions import SessionService
from crabtalk.skills import SkillService
from crabtalk.starting import Starter
from crabtalk.store.engine import Engine
from crabtalk.store.interfaces.agents import AgentRecord
from crabtalk.store.interfaces.audit import Audit, AuditRow
from crabtalk.store.interfaces.config import Values
from crabtalk.store.interfaces.keyvalue import StoredKeyValue, forget_agent
from crabtalk.store.opening import open_store
from crabtalk.toolbox import ToolBox
from crabtalk.tools import ToolProvider, Trapped
from crabtalk.units import rate_per_s
from crabtalk.work import ExecutorLimits, Work
from crabtalk.work_queue import QueueLimits

logger = logging.getLogger(__name__)

_BOOTS: Final = "boots"  # the name of the counter


@dataclass(frozen=True, slots=True)
class Boot:
    """This life of the daemon."""

    id: str  # a ULID: claims of any other are dead
    number: int  # 1 for the first one of a home
    started_ms: int
    started_s: float  # of the monotonic clock


@dataclass(slots=True)
class Settings:
    """What may change while the daemon runs."""

    config: Config


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """What handlers are given."""

    home: Home
    settings: Settings
    clock: Clock
    boot: Boot
    version: str
    logs: Logs
    metrics: Metrics
    store: Engine
    audit: Audit
    prompts: Prompts
    approvals: Approvals
    skills: SkillService
    sessions: SessionService
    search: SearchService
    memory: MemoryService
    models: Models
    images: Images
    agents: AgentService
    tools: ImageTools
    toolbox: ToolBox
    executor: Executor
    wakes: WakeService
    loop: WakeLoop
    bus: Bus
    mcp: McpService
    speaking: Speaking
    conversations: Conversations
    unattended: Unattended

    def stop_starting(self) -> None:
        """Start no wake and deliver no event any more; what was begun is let go on."""
        self.loop.stop()
        self.bus.stop()
        self.conversations.stop()

    async def shutdown(self, drain_s: float) -> None:
        """Let turns, then everything else that runs, end within `drain_s`; what has not then is cancelled."""
        until = self.clock.monotonic() + drain_s
        await self.conversations.shutdown(drain_s)
        await self.executor.shutdown(max(0.0, until - self.clock.monotonic()))


@asynccontextmanager
async def open_runtime(
    config: Config,
    home: Home,
    clock: Clock,
    logs: Logs,
    *,
    store: Engine | None = None,
    builtins: Sequence[Builtin] = (),
    providers: Sequence[ToolProvider] = (),
) -> AsyncIterator[Runtime]:
    """Put a daemon together, let it wake and deliver until the block ends, and take it apart.

    `store` takes the place of the home's own, and is closed by whoever gave it. `builtins` are harnesses that
    agents may declare besides those that come with the daemon, `providers` are tools that they need not.

    Raises:
        StoreError: if the store cannot be used, or holds what nobody can read.
    """
    with _opened(home, store) as engine:
        boot = await _boot(engine, clock)
        KNOWN.learn(boot.id, config.known_secrets())
        runtime = _assemble(config, home, clock, logs, engine, boot, builtins)
        for provider in providers:
            runtime.toolbox.add(provider)
        try:
            await _load(runtime)
            async with runtime.mcp.open(), runtime.executor.open(), trio.open_nursery() as nursery:
                await nursery.start(runtime.conversations.serve)
                await nursery.start(runtime.bus.serve)
                await nursery.start(runtime.loop.serve)
                await nursery.start(runtime.search.serve)
                runtime.bus.emit("daemon:started", {"boot": boot.number, "version": runtime.version})
                yield runtime
                runtime.stop_starting()
                await runtime.shutdown(0.0)
                runtime.search.stop()
                nursery.cancel_scope.cancel()
        finally:
            await runtime.models.close()
            runtime.images.close()
            KNOWN.forget(boot.id)


def version() -> str:
    """Return the version of this daemon."""
    return metadata.version("crabtalk")


@contextmanager
def _opened(home: Home, given: Engine | None) -> Iterator[Engine]:
    if given is not None:
        yield given
        return
    engine = open_store(home.store_file)
    try:
        yield engine
    finally:
        engine.close()


async def _boot(store: Engine, clock: Clock) -> Boot:
    values = Values(store)
    number = values.number(_BOOTS) + 1
    await store.commit(values.save(_BOOTS, number))
    return Boot(new_id(), number, clock.now_ms(), clock.monotonic())


def _assemble(
    config: Config,
    home: Home,
    clock: Clock,
    logs: Logs,
    store: Engine,
    boot: Boot,
    more_builtins: Sequence[Builtin],
) -> Runtime:
    metrics = Metrics(version())
    settings = Settings(config)
    memory = MemoryService(store, clock)
    prompts = Prompts(clock)
    builtins = Builtins([MemoryHarness(memory), AskUser(prompts), *more_builtins])
    search = SearchService(store, home.search_file)
    known_skills = SkillService(store, clock.now_ms, lambda: _skill_folders(home, settings))
    images = Images(store, clock, budget_bytes=config.images.budget)
    services = Services(
        home=home.root,
        now_ms=clock.now_ms,
        keyvalue=lambda owner: StoredKeyValue(store, *owner),
        calls=lambda names: calls(executor, names),
        schedule=lambda limit: schedule(wakes, limit),
        topics=lambda patterns: topics(bus, patterns),
        send=lambda names: send(unattended, agents.maybe_find, names),
        sessions=lambda owner: sessions(search, owner.agent_id),
        skills=lambda owner, names: skills(
            lambda: known_skills.visible(names, agents.skills_of(owner.agent_id))
        ),
        asking=lambda grant, capability: asking(approvals, grant, capability),
    )
    agents = AgentService(store, images, services, clock, builtins)
    tools = ImageTools(images, agents)
    providers: list[ToolProvider] = [tools, BuiltinTools(builtins, agents)]

    session_service = SessionService(store, clock)
    approvals = Approvals(
        store,
        prompts,
        clock,
        agent_exists=lambda agent_id: agents.agent(agent_id) is not None,
        session_exists=lambda handle: session_service.find(handle) is not None,
    )
    toolbox = ToolBox(agents)
    listener = _Listening(metrics, lambda: bus)
    executor = Executor(store, clock, _limits(config.executor), providers, toolbox.bounds, listener)
    toolbox.run_by(executor, providers)
    starter = Starter(agents, executor)
    wakes = WakeService(store, clock, starter, boot_id=boot.id)
    bus = Bus(store, clock, starter, starter)
    pace = Pace(workers=config.wakes.concurrency)
    models = Models(config.models, home.root, store, clock)
    speaking = Speaking(store, clock, sessions=session_service, agents=agents, toolbox=toolbox, models=models)
    speaking.archive = memory
    speaking.on_change.append(search.touched)
    conversations = Conversations(
        store,
        clock,
        sessions=session_service,
        agents=agents,
        models=models,
        speaking=speaking,
        bus=bus,
        leave_chain=executor.leave_chain,
    )
    conversations.chain_tokens = config.executor.chain_tokens
    audit = Audit(store)
    unattended = Unattended(conversations, executor, session_service, audit, clock, bus.tell_chain_ended)
    starter.turns = unattended
    runtime = Runtime(
        home=home,
        settings=settings,
        clock=clock,
        boot=boot,
        version=version(),
        logs=logs,
        metrics=metrics,
        store=store,
        audit=audit,
        prompts=prompts,
        approvals=approvals,
        skills=known_skills,
        sessions=session_service,
        search=search,
        memory=memory,
        models=models,
        images=images,
        agents=agents,
        tools=tools,
        toolbox=toolbox,
        executor=executor,
        wakes=wakes,
        loop=WakeLoop(wakes, bus, starter, starter, store, clock, boot_number=boot.number, pace=pace),
        bus=bus,
        mcp=McpService(agents, clock, home.root, bus.emit, limits=lambda: settings.config.mcp),
        speaking=speaking,
        conversations=conversations,
        unattended=unattended,
    )
    _connect(runtime)
    return runtime


def _connect(runtime: Runtime) -> None:
    """Let the parts hear of agents that come, change and go."""
    agents = runtime.agents
    agents.add_listener(runtime.tools)
    runtime.toolbox.add(runtime.mcp, runtime.mcp.bounds)
    runtime.speaking.ready = runtime.mcp.ready
    agents.add_listener(_Rechecking(runtime))
    agents.add_listener(runtime.conversations)
    agents.on_delete(runtime.wakes.forget_writes, runtime.wakes.forgotten)
    agents.on_delete(runtime.bus.forget_writes, runtime.bus.forgotten)
    agents.on_delete(runtime.sessions.forgetting, runtime.search.agent_forgotten)
    agents.on_delete(runtime.approvals.forget_agent, runtime.approvals.agent_forgotten)
    runtime.sessions.on_delete(runtime.approvals.forget_session, runtime.approvals.session_forgotten)
    agents.on_delete(runtime.memory.forgetting, runtime.memory.changed)
    agents.on_delete(lambda agent_id: forget_agent(runtime.store, agent_id), runtime.executor.forget)
    measure(runtime)


class _Listening:
    """What hears of every invocation that ran; the bus is made after the executor."""

    def __init__(self, metrics: Metrics, bus: Callable[[], Bus]) -> None:
        self._metrics = metrics
        self._bus = bus

    def waited(self, work: Work, waited_s: float) -> None:
        self._metrics.count_wait(work.trigger, waited_s)

    def ended(self, ends: Sequence[End]) -> None:
        count = self._metrics.count_outcome
        for end in ends:
            outcome = end.outcome
            count(end.run.work.trigger, ending_of(outcome), end.duration_us, outcome.instructions)

    def trapped(self, row: AuditRow, outcome: Trapped, chain: Chain) -> None:
        self._bus().on_trap(row, outcome, chain)


class _Rechecking:
    """Tries wakes and events again whose harness could not be run, when its agent has changed."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def on_declare(self, agent: AgentRecord) -> None:
        self._runtime.loop.recheck(agent.id)
        self._runtime.bus.recheck(agent.id)

    async def on_forget(self, agent: AgentRecord) -> None:
        """Leave it: its wakes went with it."""


async def _load(runtime: Runtime) -> None:
    """Read what was stored, and what was put into the home by hand."""
    for scanned in await runtime.images.scan_directory(runtime.home.harnesses):
        if scanned.added:
            logger.info(
                "image added from its file", extra={"harness": scanned.name, "sha256": scanned.sha256}
            )
    for agent in runtime.agents.all():
        await runtime.tools.on_declare(agent)
        await runtime.mcp.on_declare(agent)
        if problem := runtime.agents.problem(agent):
            logger.warning("agent cannot be used: %s", problem, extra={"agent": agent.id})
    await runtime.wakes.load()
    await runtime.bus.load()


def _skill_folders(home: Home, settings: Settings) -> list[Path]:
    return [home.skills, *map(Path, settings.config.skills.folders)]


def _limits(config: ExecutorConfig) -> ExecutorLimits:
    return ExecutorLimits(
        workers=config.workers,
        chain_tokens=config.chain_tokens,
        queue=QueueLimits(
            slots=config.concurrency,
            slots_of_agent=config.concurrency_per_agent,
            background_slots=config.background,
            rate=Rate(*rate_per_s(config.rate)) if config.rate else None,
            queued=config.queue,
            queued_of_agent=config.queue_per_agent,
            suspended=config.suspended,
            suspended_of_harness=config.suspended_per_harness,
            suspended_bytes=config.suspended_memory,
        ),
    )
