"""A daemon's parts around images, real ones, with a store in memory."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from crabtalk.agents import AgentService
from crabtalk.binding import Services
from crabtalk.builtins import NO_BUILTINS, Builtins, BuiltinTools
from crabtalk.capabilities.calls import calls
from crabtalk.clock import SystemClock
from crabtalk.executor import Executor
from crabtalk.image_tools import ImageTools
from crabtalk.images import Images
from crabtalk.store.interfaces.agents import AgentRecord
from crabtalk.store.interfaces.audit import Audit
from crabtalk.store.interfaces.keyvalue import StoredKeyValue
from crabtalk.store.memory import MemoryEngine
from crabtalk.tools import Outcome, Trigger
from crabtalk.work import ExecutorLimits, Work
from declared_guests import guest, request, sha256_of

_NOTHING: Callable[[Any], Iterable[Any]] = lambda _argument: ()  # noqa: E731 - where a test binds none


@dataclass
class World:
    """What a test declares, calls and looks at."""

    store: MemoryEngine
    home: Path
    images: Images = field(init=False)
    agents: AgentService = field(init=False)
    tools: ImageTools = field(init=False)
    executor: Executor = field(init=False)
    schedule: Callable[[int], Iterable[Any]] = _NOTHING
    topics: Callable[[tuple[str, ...]], Iterable[Any]] = _NOTHING
    send: Callable[[Any], Iterable[Any]] = _NOTHING
    sessions: Callable[[Any], Iterable[Any]] = _NOTHING
    skills: Callable[[Any, tuple[str, ...]], Iterable[Any]] = lambda _owner, _names: ()
    asking: Callable[[Any, Any], Any] = lambda _grant, capability: capability
    builtins: Builtins = NO_BUILTINS
    budget_bytes: int = 64 << 20

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        """Assemble everything from what is stored, as a start of the daemon does."""
        clock = SystemClock()
        self.images = Images(self.store, clock, budget_bytes=self.budget_bytes)
        services = Services(
            home=self.home,
            now_ms=clock.now_ms,
            keyvalue=lambda owner: StoredKeyValue(self.store, owner.agent_id, owner.harness),
            calls=lambda names: calls(self.executor, names),
            schedule=lambda limit: tuple(self.schedule(limit)),  # as it is when it is called
            topics=lambda patterns: tuple(self.topics(patterns)),
            send=lambda names: tuple(self.send(names)),
            sessions=lambda owner: tuple(self.sessions(owner)),
            skills=lambda owner, names: tuple(self.skills(owner, names)),
            asking=lambda *what: self.asking(*what),  # noqa: PLW0108 - as it is when it is called
        )
        self.agents = AgentService(self.store, self.images, services, clock, self.builtins)
        self.tools = ImageTools(self.images, self.agents)
        self.agents.add_listener(self.tools)
        providers = [self.tools, BuiltinTools(self.builtins, self.agents)]
        self.executor = Executor(self.store, clock, ExecutorLimits(), providers, self.agents.bounds)

    async def put(self, name: str, elf: bytes | None = None) -> str:
        """Store an image and return its sha256."""
        elf = guest() if elf is None else elf
        await self.images.put(name, elf, sha256_of(elf))
        return sha256_of(elf)

    async def declare(self, *harnesses: dict[str, Any], name: str = "tester", **keys: Any) -> AgentRecord:
        """Create an agent with these harnesses, whose images are stored."""
        return await self.agents.create(name, {"harnesses": list(harnesses), **keys})

    async def one(self, elf: bytes | None = None, *, agent: str = "tester", **arguments: Any) -> AgentRecord:
        """Store the image of a guest and declare it as `probe`, with these arguments."""
        await self.put("probe", elf)
        return await self.declare({"name": "probe", **arguments}, name=agent)

    async def call(
        self, agent: AgentRecord, tool: str, args: bytes | str = b"", *, harness: str = "probe", **more: Any
    ) -> Outcome:
        """Call a tool through the executor."""
        raw = args if isinstance(args, bytes) else args.encode()
        work = Work(trigger=Trigger.TOOL, agent=agent, harness=harness, entry=tool, args=raw, **more)
        return await self.executor.run(work)

    async def ask(self, agent: AgentRecord, name: str, *fields: bytes | str, **more: Any) -> Outcome:
        """Let the guest call a capability."""
        return await self.call(agent, "ask", request(name, *fields), **more)

    def rows(self) -> list[Any]:
        """Return the audit rows, the newest first."""
        self.store.flush()
        return Audit(self.store).latest(100)


@pytest.fixture
def store():
    engine = MemoryEngine()
    yield engine
    engine.close()


@pytest.fixture
def world(store, home):
    world = World(store, home)
    yield world
    world.images.close()


@pytest.fixture
def make_world():
    return World
