"""What tests of conversations share: a model that says what a test tells it to, and tools in Python."""

import contextlib
import json
import re
from collections.abc import Awaitable

import trio

from crabtalk.conversation.answer import MAX_ARGUMENTS
from crabtalk.conversation.messages import Usage
from crabtalk.conversation.model import (
    Finished,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallStarted,
    UsageReport,
)
from crabtalk.errors import NotFound
from crabtalk.store.memory import MemoryEngine
from crabtalk.tools import Done, Tool
from crabtalk.tools import Usage as HarnessUsage
from crabtalk.wire.pb import crabtalk_pb2 as pb
from daemon_client import serving


class Puppet:
    """A source of models that answers each request with the next of `answers`.

    An answer is a list of events, exceptions, and functions that are awaited between them; or a function of
    the request that returns one.
    """

    def __init__(self, *answers):
        self.answers = list(answers)
        self.requests = []
        self.arrivals = trio.lowlevel.ParkingLot()

    async def until_asked(self, times):
        """Wait until so many requests have come."""
        with trio.fail_after(5):
            while len(self.requests) < times:
                await self.arrivals.park()

    def resolve(self, name):
        if name == "missing":
            raise NotFound("there is no model `missing`")
        return name or "puppet"

    @contextlib.asynccontextmanager
    async def stream(self, request):
        self.requests.append(request)
        self.arrivals.unpark_all()
        answer = self.answers.pop(0) if self.answers else says("done")
        async with contextlib.aclosing(self.play(answer(request) if callable(answer) else answer)) as events:
            yield events

    async def play(self, answer):
        for step in answer:
            await trio.lowlevel.checkpoint()
            if isinstance(step, BaseException):
                raise step
            if callable(step):
                await step()
            else:
                yield step


def says(text, *, thinking="", usage=None, reason="stop"):
    """Return an answer of words."""
    thoughts = [ThinkingDelta(thinking)] if thinking else []
    report = [UsageReport(usage)] if usage else []
    return [*thoughts, *map(TextDelta, re.findall(r"\S+\s*", text)), *report, Finished(reason)]


def calls(*wanted, text="", usage=None):
    """Return an answer that calls tools: `(name, arguments)`, arguments as they are if they are text."""
    events = [TextDelta(text)] if text else []
    for index, (name, arguments) in enumerate(wanted):
        written = arguments if isinstance(arguments, str) else json.dumps(arguments)
        events += [ToolCallStarted(index, f"c{index}", name), ToolCallDelta(index, written)]
    return [*events, UsageReport(usage or Usage(10, 5, 15)), Finished("tool_calls")]


class Hands:
    """A provider of the tools `name(context, args)`, plain or async; text stands for Done."""

    def __init__(self, harness="hands", usage="", **tools):
        self.harness = harness
        self.text = usage
        self.functions = tools
        self.called = []

    def harnesses(self, _agent):
        return (self.harness,)

    def tools(self, _agent):
        return [Tool(self.harness, name, name, "", {"type": "object"}) for name in self.functions]

    def usage(self, _agent):
        return [HarnessUsage(self.harness, self.text)] if self.text else []

    async def call(self, context, tool, args):
        if tool not in self.functions:
            raise NotFound(f"no tool `{tool}`")
        given = json.loads(args)
        self.called.append((tool, given))
        result = self.functions[tool](context, given)
        if isinstance(result, Awaitable):
            result = await result
        return Done(result.encode()) if isinstance(result, str) else result

    async def on_declare(self, agent):
        pass

    async def on_forget(self, agent):
        pass


@contextlib.asynccontextmanager
async def conversing(*answers, hands=None, store=None, **options):
    """Serve a daemon whose model is a `Puppet`, with the tools of `hands` for every agent."""
    providers = [] if hands is None else [hands] if isinstance(hands, Hands) else hands
    async with serving(store or MemoryEngine(), providers=providers, **options) as daemon:
        daemon.model = Puppet(*answers)
        daemon.runtime.speaking._models = daemon.runtime.conversations._models = daemon.model
        daemon.hands = hands
        yield daemon


def sendable(messages):
    """Check that a history is one that every endpoint takes."""
    waiting = []
    for message in messages:
        if message.role == "tool":
            assert message.tool_call_id == waiting.pop(0)
            continue
        assert not waiting
        assert message.content or message.tool_calls
        waiting = [call.id for call in message.tool_calls]
        assert len(set(waiting)) == len(waiting)
        for call in message.tool_calls:
            assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", call.name)
            assert len(call.arguments) <= MAX_ARGUMENTS
    assert not waiting


async def events_of(client, request_id):
    """Return the events of a stream, up to its end."""
    found = []
    while not found or found[-1].WhichOneof("event") != "end":
        found.append(await client.receive(request_id))
    return found


async def streamed(client, agent, content, handle="s", **options):
    """Run a turn and return its events."""
    asked = pb.StreamMsg(agent=agent, content=content, session_handle=handle, **options)
    return await events_of(client, await client.send(stream=asked))


async def sent(client, agent, content, handle="s", **options):
    """Run a turn and return the reply."""
    return await client.ask(send=pb.SendMsg(agent=agent, content=content, session_handle=handle, **options))


async def history(client, handle="s"):
    """Return what was said, as (role, content)."""
    told = await client.ask(get_conversation_history=pb.GetConversationHistoryMsg(file_path=handle))
    return [(one.role, one.content) for one in told.messages]


def kinds(events):
    return [one.WhichOneof("event") for one in events]


async def until_no_wakes(daemon, agent):
    """Wait until every wake of an agent has ended."""
    with trio.fail_after(10):
        while (await daemon.client.ask(list_wakes=pb.ListWakesMsg(agent=agent))).wakes:  # noqa: ASYNC110
            await trio.sleep(0.01)
