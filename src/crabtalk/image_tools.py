"""The tools of images, behind the seam: an image is linked, its guest driven, its end translated.

A short call of an image that is linked already ends without a task. What an image has done is said in the
terms of `tools`; no error of berm's leaves here.
"""

from collections.abc import Awaitable, Sequence
from dataclasses import replace
from typing import Final

import trio

import berm
from berm import Invocation, Limits
from crabtalk.agents import AgentService
from crabtalk.declarations import HarnessDeclaration
from crabtalk.errors import NotFound
from crabtalk.image_cache import LinkedImage
from crabtalk.image_info import ImageInfo
from crabtalk.images import Images, Unusable
from crabtalk.invocation import Ended, drive_inline
from crabtalk.linking import Ready
from crabtalk.store.interfaces.agents import AgentRecord
from crabtalk.tools import (
    CALL,
    EVENT,
    OUTCOMES,
    WAKE,
    Context,
    Done,
    Failed,
    Outcome,
    Tool,
    Trapped,
    Usage,
)

_LEAST_S = 1e-6  # berm has no deadline that has passed already; this one has when the guest starts
_ENDED: Final = (berm.Done, berm.Failed)
_BROKEN = "the tool is broken and could not be started"
_SENTENCES = {
    berm.TrapCode.DEADLINE: "the tool took too long and was stopped",
    berm.TrapCode.OUT_OF_FUEL: "the tool computed for too long and was stopped",
    berm.TrapCode.INTERRUPTED: "the tool was stopped",
}


class ImageTools:
    """A `ToolProvider` for every image that an agent declares."""

    def __init__(self, images: Images, agents: AgentService) -> None:
        self._images = images
        self._agents = agents
        self._linker = agents.linker

    def harnesses(self, agent: AgentRecord) -> Sequence[str]:
        """Return the names of an agent's harnesses, in the order of their declaration."""
        return [one.name for one in self._declared(agent)]

    def tools(self, agent: AgentRecord) -> Sequence[Tool]:
        """Return what those advertise; nothing of one whose image does not load."""
        return [
            Tool(one.name, tool.name, one.wire_name(tool.name), tool.description, dict(tool.parameters))
            for one in self._declared(agent)
            for tool in self._info(one).tools
        ]

    def usage(self, agent: AgentRecord) -> Sequence[Usage]:
        """Return what each says about itself, or why it cannot be used."""
        found = []
        for one in self._declared(agent):
            info = self._info(one)
            error = info.error or self._linker.failure(agent.id, one.name)
            found.append(Usage(one.name, info.usage, error))
        return found

    async def call(self, context: Context, tool: str, args: bytes) -> Outcome:
        """Run a tool, or an entry.

        **Cancellation:** the guest is interrupted, and whatever runs for it is waited for.

        Raises:
            NotFound: if there is no such harness or tool.
        """
        outcome = self.call_inline(context, tool, args)
        return outcome if isinstance(outcome, OUTCOMES) else await outcome

    def call_inline(self, context: Context, tool: str, args: bytes) -> Outcome | Awaitable[Outcome]:
        """As `call`, at once if the first slice is all.

        Raises:
            NotFound: as `call`; raised here or by what is awaited.
        """
        one = self._agents.declaration(context.agent, context.harness)
        ready = self._linker.ready(context.agent.id, one, context.session_root)
        image = self._linker.linked(ready)
        if image is None:
            return self._link_and_run(ready, context, tool, args)
        return _run(image, ready, context, tool, args, _limits(ready, context.left_s))

    async def on_declare(self, agent: AgentRecord) -> None:
        """Read what the images of an agent are, so that its tools can be listed at once."""
        for one in self._declared(agent):
            if self._images.has(one.sha256):
                await self._images.inspect(one.sha256)

    async def on_forget(self, agent: AgentRecord) -> None:
        """Do nothing: what is linked goes when others need its place."""

    def _declared(self, agent: AgentRecord) -> Sequence[HarnessDeclaration]:
        current = self._agents.agent(agent.id)
        declared = self._agents.config(current).harnesses if current is not None else ()
        return [one for one in declared if not one.builtin]

    def _info(self, one: HarnessDeclaration) -> ImageInfo:
        try:
            return self._images.inspect_now(one.sha256)
        except NotFound as error:
            return ImageInfo(one.sha256, 0, error=str(error))

    async def _link_and_run(self, ready: Ready, context: Context, tool: str, args: bytes) -> Outcome:
        try:
            image = await self._linker.link(ready)
        except Unusable as error:
            return Trapped(error.kind, str(error), sentence=_BROKEN)
        # The deadline stands still meanwhile only for what waits for a person.
        limits = _limits(ready, context.deadline - trio.current_time())
        outcome = _run(image, ready, context, tool, args, limits)
        return outcome if isinstance(outcome, OUTCOMES) else await outcome


def _run(
    image: LinkedImage, ready: Ready, context: Context, tool: str, args: bytes, limits: Limits
) -> Outcome | Awaitable[Outcome]:
    invocation = None
    image.running += 1
    try:
        began = _begin(image.harness, context, tool, args, limits)
        if isinstance(began, Invocation):
            invocation = began
            ended = drive_inline(invocation, context, movable=ready.movable)
            if not isinstance(ended, _ENDED):
                return _finish(image, invocation, ended)
            began = ended
    except (berm.BermError, MemoryError) as error:
        image.running -= 1
        return _explained(error, invocation)
    except BaseException:
        image.running -= 1
        raise
    image.running -= 1
    return Done(began.data, began.instructions) if type(began) is berm.Done else _outcome(began)


async def _finish(image: LinkedImage, invocation: berm.Invocation, ended: Awaitable[Ended]) -> Outcome:
    try:
        return _outcome(await ended)
    except (berm.BermError, MemoryError) as error:
        return _explained(error, invocation)
    finally:
        image.running -= 1


def _begin(
    harness: berm.Harness, context: Context, tool: str, args: bytes, limits: Limits
) -> Ended | Invocation:
    chain, depth, trigger = context.chain.berm, context.depth, context.trigger
    if trigger is WAKE:
        return harness.start_wake(args, limits=limits, context=context, chain=chain, depth=depth)
    if trigger is EVENT:
        return harness.start_notify(args, limits=limits, context=context, chain=chain, depth=depth)
    # What one guest hands to another need not be text; what a client or a model gets is.
    raw = trigger is CALL
    return harness.begin(tool, args, limits=limits, context=context, raw=raw, chain=chain, depth=depth)


def _limits(ready: Ready, left_s: float) -> Limits:
    if ready.movable or left_s == ready.declaration.deadline:
        return ready.limits
    return Limits(fuel=ready.declaration.fuel, deadline=max(_LEAST_S, left_s))


def _outcome(ended: Ended) -> Outcome:
    if isinstance(ended, berm.Done):
        return Done(ended.data, ended.instructions)
    return Failed(ended.message, ended.instructions)


def _explained(error: Exception, invocation: berm.Invocation | None) -> Outcome:
    """Say how a guest died.

    Raises:
        NotFound: if there is no such tool or entry.
    """
    if isinstance(error, berm.NoSuchTool | berm.NoSuchEntry):
        raise NotFound(str(error)) from error
    instructions = invocation.instructions if invocation is not None else 0
    if isinstance(error, berm.Trap):
        return _trapped(error, instructions)
    reason = "this machine has no memory for a guest" if isinstance(error, MemoryError) else str(error)
    return Trapped("internal", reason, instructions=instructions)


def _trapped(trap: berm.Trap, instructions: int) -> Trapped:
    facts = Trapped(
        trap.code.name.lower(),
        str(trap),
        symbol=trap.symbol or "",
        location=trap.location or "",
        frames=tuple(map(str, trap.frames)),
        pc=trap.pc or 0,
        address=trap.address or 0,
        host_calls=trap.host_calls,
        instructions=instructions,
    )
    sentence = _SENTENCES.get(trap.code)
    return facts if sentence is None else replace(facts, sentence=sentence)
