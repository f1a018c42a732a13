"""A daemon with a guest whose arguments have to be approved, and clients that answer."""

import contextlib
import functools
from pathlib import Path

import pytest
import trio
from pytest_trio import trio_fixture

from crabtalk.store.memory import MemoryEngine
from crabtalk.wire.pb import crabtalk_pb2 as pb
from daemon_client import Client, serving
from declared_guests import guest, request, sha256_of

ELF = guest(wake=True, notify=True)
OTHER_ELF = guest(wake=True, notify=True, describe="other bytes")


class Person:
    """A client that is shown prompts."""

    def __init__(self, client):
        self.client = client

    async def arrive(self):
        self.stream = await self.client.send(subscribe_prompts=pb.SubscribePromptsMsg())
        await self.client.ask(ping=pb.PingMsg())
        return self

    async def next(self):
        """Return the next prompt that is not over."""
        while True:
            prompt = await self.shown()
            if prompt.expires_ms:
                return prompt

    async def shown(self):
        with trio.fail_after(5):
            return await self.client.receive(self.stream)

    async def answer(self, prompt, *, allow=True, scope="", text=""):
        return await self.client.ask(
            answer_prompt=pb.AnswerPromptMsg(id=prompt.id, allow=allow, scope=scope, text=text)
        )

    async def nothing(self):
        """Check that nothing is asked: what is sent first is read first."""
        await self.client.ask(ping=pb.PingMsg())
        assert not any(one.prompt.expires_ms for one in self.client.replies.get(self.stream, []))


class World:
    """The daemon, and short ways to what tests do with it."""

    def __init__(self, daemon, files):
        self.daemon = daemon
        self.client = daemon.client
        self.runtime = daemon.runtime
        self.files = files

    async def connect(self):
        return Client(await self.daemon.listener.connect())

    async def person(self):
        return await Person(await self.connect()).arrive()

    async def put(self, name, elf=ELF):
        made = await self.client.ask(put_harness=pb.PutHarnessMsg(name=name, elf=elf, sha256=sha256_of(elf)))
        return made.sha256

    async def declare(self, name="ann", harness="probe", **arguments):
        """Store the guest and declare it with files that have to be approved, or with `arguments`."""
        arguments = arguments or {"files": {"path": str(self.files), "ask": True}}
        await self.put(harness)
        return await self.client.declare(name, {"name": harness, **arguments})

    async def read(self, agent, path="a.txt", client=None, **options):
        """Let the guest read a file; return its mark (`o`, `e`) and what it got."""
        return await self.ask_for(agent, "berm.fs.read", path, client=client, **options)

    async def ask_for(self, agent, capability, *fields, client=None, harness="probe", **options):
        outcome = await self.outcome(agent, capability, *fields, client=client, harness=harness, **options)
        return outcome.done[:1].decode(), outcome.done[1:].decode()

    async def outcome(self, agent, capability, *fields, client=None, harness="probe", **options):
        asked = pb.CallToolMsg(
            agent=agent, harness=harness, tool="ask", args=request(capability, *fields), **options
        )
        return await (client or self.client).ask(call_tool=asked)

    async def waiting(self, count):
        """Return when so many prompts wait, whoever is there to answer."""
        with trio.fail_after(5):
            while len(self.runtime.prompts.pending) < count:  # noqa: ASYNC110 - nothing tells of it
                await trio.sleep(0.01)

    async def approvals(self):
        found = await self.client.ask(list_approvals=pb.ListApprovalsMsg())
        return list(found.approvals)


@pytest.fixture
def files(tmp_path) -> Path:
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "a.txt").write_text("AAA")
    (folder / "b.txt").write_text("BBB")
    return folder


@pytest.fixture
def open_world(files):
    """Return what serves a store, for tests that start the daemon more than once."""

    @contextlib.asynccontextmanager
    async def opened(store, **options):
        async with serving(store, **options) as daemon:
            yield World(daemon, files)

    return opened


@trio_fixture
async def world(open_world):
    async with open_world(MemoryEngine()) as world:
        yield world


class Doing:
    """Something that goes on while a test does something else."""

    def __init__(self, nursery, function, *args, **options):
        self._done = trio.Event()
        nursery.start_soon(self._run, lambda: function(*args, **options))

    async def _run(self, work):
        self._value = await work()
        self._done.set()

    @property
    def ended(self):
        return self._done.is_set()

    async def result(self):
        with trio.fail_after(5):
            await self._done.wait()
        return self._value


@pytest.fixture
def doing(nursery):
    return functools.partial(Doing, nursery)
