"""Agents: who there is, what each was declared to have, and every change of that.

Identity is an id, a name is a label. The index in memory is the truth while the daemon runs; the store is
written before it changes. What an agent runs changes only by `update` with a digest that somebody wrote, or
by `upgrade`, which shows the difference first. Wakes, subscriptions and values of a deleted agent go in the
batch that deletes it, by the hooks of those who keep them.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, Protocol

import trio

from crabtalk.agent_index import AgentIndex, Entry, read_stored
from crabtalk.binding import Owner, Services, describe
from crabtalk.builtins import NO_BUILTINS, Builtins
from crabtalk.clock import Clock
from crabtalk.config_patch import masked, merge_patch, with_kept_secrets
from crabtalk.declarations import AgentConfig, Bounds, HarnessDeclaration, check_agent_name
from crabtalk.declaring import Declarer
from crabtalk.errors import BadRequest, NotFound, TooLarge
from crabtalk.ids import new_id
from crabtalk.images import Difference, ImageInfo, Images, Unusable, diff
from crabtalk.linking import Linker
from crabtalk.store.engine import Engine, Write
from crabtalk.store.interfaces.agents import AgentRecord, Agents

logger = logging.getLogger(__name__)

MAX_AGENTS: Final = 10_000

ForgetWrites = Callable[[str], Sequence[Write]]


class Listener(Protocol):
    """Somebody who wants to know of agents; every provider of tools is one."""

    async def on_declare(self, agent: AgentRecord) -> None:
        """Take note that `agent` was created or changed."""

    async def on_forget(self, agent: AgentRecord) -> None:
        """Take note that `agent` is gone."""


@dataclass(frozen=True, slots=True)
class HarnessView:
    """One harness of an agent, for people."""

    declaration: HarnessDeclaration
    digest: str  # of the image
    info: ImageInfo
    bound: list[str]
    error: str  # why it does not work; "" when it does


@dataclass(frozen=True, slots=True)
class Upgrade:
    """What an upgrade changes, or has changed."""

    before: ImageInfo
    after: ImageInfo
    difference: Difference
    agent: AgentRecord | None  # as it is now, None when it was only shown


class AgentService:
    """The agents of a daemon; for the event loop."""

    def __init__(
        self,
        store: Engine,
        images: Images,
        services: Services,
        clock: Clock,
        builtins: Builtins = NO_BUILTINS,
    ) -> None:
        self._store = store
        self._images = images
        self._builtins = builtins
        self._clock = clock
        self._agents = Agents(store)
        self._index = AgentIndex()
        self._listeners: list[Listener] = []
        self._hooks: list[tuple[ForgetWrites, Callable[[str], None] | None]] = []
        self.linker = Linker(images, services, self._visible_peers)
        self._declarer = Declarer(images, builtins, self.linker, self._index.id_of)
        for record in self._agents.all():
            self._index.put(record, *read_stored(record))
        images.pinned = self._index.pinned
        images.declared = self._index.declarers

    # Who there is

    def all(self) -> list[AgentRecord]:
        """Return every agent, by name."""
        return self._index.records()

    def agent(self, agent_id: str) -> AgentRecord | None:
        """Return the agent with this id."""
        entry = self._index.find(agent_id)
        return entry.record if entry is not None else None

    def get(self, agent_id: str) -> AgentRecord:
        """Return the agent with this id.

        Raises:
            NotFound: if there is none.
        """
        return self._index.entry(agent_id).record

    def by_name(self, name: str) -> AgentRecord:
        """Return the agent with this name.

        Raises:
            NotFound: if there is none.
        """
        return self._index.by_name(name).record

    def find(self, text: str) -> AgentRecord:
        """Return the agent with this id, or this name.

        Raises:
            NotFound: if there is none.
        """
        return self.agent(text) or self.by_name(text)

    def maybe_find(self, text: str) -> AgentRecord | None:
        """Return the agent with this id, or this name, None if there is none."""
        agent_id = self._index.id_of(text)
        return self.agent(agent_id) if agent_id is not None else None

    def config(self, agent: AgentRecord) -> AgentConfig:
        """Return what an agent was declared to be.

        Raises:
            NotFound: if it is gone.
        """
        return self._index.entry(agent.id).config

    def skills_of(self, agent_id: str) -> tuple[str, ...]:
        """Return the names of the skills that an agent sees, none for all; from any thread."""
        entry = self._index.find(agent_id)
        return entry.config.skills if entry is not None else ()

    def problem(self, agent: AgentRecord) -> str:
        """Return why an agent's stored configuration cannot be used, "" when it can."""
        return self._index.entry(agent.id).problem

    def shown(self, agent: AgentRecord) -> dict[str, Any]:
        """Return an agent's configuration for a client: with its id and name, without secrets."""
        return {"id": agent.id, "name": agent.name, **masked(agent.config)}

    def declaration(self, agent: AgentRecord, harness: str) -> HarnessDeclaration:
        """Return the declaration of one harness.

        Raises:
            NotFound: if the agent is gone, or declares none of that name.
        """
        entry = self._index.entry(agent.id)
        found = entry.harnesses.get(harness)
        if found is None:
            reason = entry.problem or f"agent `{entry.record.name}` declares no harness `{harness[:80]}`"
            raise NotFound(reason)
        return found

    def bounds(self, agent: AgentRecord, harness: str) -> Bounds:
        """Return what is enforced for one harness.

        Raises:
            NotFound: as `declaration`.
        """
        entry = self._index.find(agent.id)
        known = entry.bounds.get(harness) if entry is not None else None
        if known is not None:
            return known
        one = self.declaration(agent, harness)
        digest = f"builtin:{one.builtin}" if one.builtin else self.linker.ready(agent.id, one).digest
        bounds = Bounds(one.deadline, one.fuel, one.rate, one.concurrency, digest)
        self._index.entry(agent.id).bounds[harness] = bounds
        return bounds

    def pinned(self, sha256: str) -> list[str]:
        """Return who is pinned to some bytes, as `agent/harness`."""
        return self._index.pinned(sha256)

    async def require_entry(
        self, agent: AgentRecord, harness: str, entry: Literal["on_wake", "on_notify"]
    ) -> None:
        """Return if `entry` of that harness could be started now.

        Raises:
            NotFound: if the agent declares no such harness, or its image is not here.
            BadRequest: if the image does not load, or has no such entry.
        """
        one = self.declaration(agent, harness)
        info = await self._info(one)
        if info.error:
            raise BadRequest(f"harness `{harness}` does not load: {info.error}")
        if not info.exports(entry):
            use = "scheduled" if entry == "on_wake" else "subscribed"
            raise BadRequest(f"harness `{harness}` exports no `{entry}`, so it cannot be {use}")

    async def require_ready(
        self, agent: AgentRecord, harness: str, entry: Literal["on_wake", "on_notify"]
    ) -> None:
        """As `require_entry`, and link: what is bound has to be there as well.

        Raises:
            NotFound, BadRequest: as `require_entry`; BadRequest also if something cannot be bound.
        """
        await self.require_entry(agent, harness, entry)
        one = self.declaration(agent, harness)
        if one.builtin:
            return
        try:
            await self.linker.link(self.linker.ready(agent.id, one))
        except Unusable as error:
            raise BadRequest(f"harness `{harness}` cannot be linked: {error}") from error

    # Changes

    def add_listener(self, listener: Listener) -> None:
        """Tell somebody of every change from now on, after it was stored."""
        self._listeners.append(listener)

    def on_delete(self, writes: ForgetWrites, forgotten: Callable[[str], None] | None = None) -> None:
        """Let `writes` go into the batch that deletes an agent, and call `forgotten` when it is stored."""
        self._hooks.append((writes, forgotten))

    async def create(self, name: str, config: Mapping[str, Any]) -> AgentRecord:
        """Declare an agent.

        Raises:
            Conflict: if there is one of that name.
            BadRequest, NotFound, TooLarge: as `Declarer.resolve`.
        """
        async with self._images.lock:
            self._index.require_free(check_agent_name(name))
            if len(self._index) >= MAX_AGENTS:
                raise TooLarge(f"there are {MAX_AGENTS} agents already")
            agent_id = new_id()
            given = with_kept_secrets(_without_identity(config, name), {})
            stored, resolved = await self._declarer.resolve(agent_id, given, AgentConfig())
            now_ms = self._clock.now_ms()
            record = AgentRecord(agent_id, name, stored, now_ms, now_ms, 1)
            await self._store.commit(self._agents.save(record))
            self._index.put(record, resolved)
        logger.info("agent created", extra={"agent": agent_id})
        await self._tell(record)
        return record

    async def update(self, agent_id: str, patch: Mapping[str, Any]) -> AgentRecord:
        """Change an agent by a JSON merge patch.

        Raises:
            NotFound, BadRequest, TooLarge: as `create`.
        """
        async with self._images.lock:
            entry = self._index.entry(agent_id)
            changed = merge_patch(entry.record.config, _without_identity(patch, entry.record.name))
            record = await self._declare(entry, with_kept_secrets(changed, entry.record.config))
        await self._tell(record)
        return record

    async def rename(self, agent_id: str, new_name: str) -> AgentRecord:
        """Give an agent another name, which changes nothing else.

        Raises:
            NotFound: if there is no such agent.
            Conflict: if the name is taken.
            BadRequest: if it is no name.
        """
        async with self._images.lock:
            entry = self._index.entry(agent_id)
            if check_agent_name(new_name) == entry.record.name:
                return entry.record
            self._index.require_free(new_name)
            record = self._revised(entry.record, name=new_name)
            await self._store.commit(self._agents.save(record))
            self._index.put(record, entry.config, entry.problem)
        await self._tell(record)
        return record

    async def delete(self, agent_id: str) -> None:
        """Forget an agent and all that belongs to it.

        Raises:
            NotFound: if there is no such agent.
        """
        async with self._images.lock:
            entry = self._index.entry(agent_id)
            record = entry.record
            writes = [write for hook, _ in self._hooks for write in hook(agent_id)]
            dropped = self._index.only_pinned_by(entry)
            writes += self._images.unused(dropped)
            await self._store.commit([*self._agents.remove(agent_id), *writes])
            self._index.remove(agent_id)
            self._images.forget(dropped)
            self.linker.forget(agent_id)
            for _, forgotten in self._hooks:
                if forgotten is not None:
                    forgotten(agent_id)
        logger.info("agent deleted", extra={"agent": agent_id})
        await self._tell_gone(record)

    async def upgrade(self, agent_id: str, harness: str, sha256: str | None, *, confirm: bool) -> Upgrade:
        """Show what other bytes would change for one harness; with `confirm`, pin it to them.

        Raises:
            NotFound: if there is no such agent, harness or image.
            BadRequest: if the image does not work here, or `confirm` does not say which bytes were shown.
        """
        if confirm and not sha256:
            raise BadRequest("say which bytes: confirm with the sha256 that was shown")
        one = self.declaration(self.get(agent_id), harness)
        if one.builtin:
            raise BadRequest(f"harness `{harness}` is built in: it changes with the program")
        wanted = sha256.lower() if sha256 else self._images.newest(harness).sha256
        before = await self._inspect(one.sha256)
        after = await self._images.inspect(wanted)
        agent = await self._pin(agent_id, harness, wanted) if confirm else None
        return Upgrade(before, after, diff(before, after), agent)

    async def inspect(self, agent: AgentRecord, harness: str) -> HarnessView:
        """Tell all that can be found out of one harness of an agent: it is linked, and not run.

        Raises:
            NotFound: as `declaration`.
        """
        one = self.declaration(agent, harness)
        if not one.builtin and not (await self._inspect(one.sha256)).error:
            with suppress(Unusable):  # which the linker remembers
                await self.linker.link(self.linker.ready(agent.id, one))
        return await self.view(agent, harness)

    async def view(self, agent: AgentRecord, harness: str) -> HarnessView:
        """Tell what is known of one harness of an agent, without linking it: for lists.

        Raises:
            NotFound: as `declaration`.
        """
        one = self.declaration(agent, harness)
        if one.builtin:
            info = self._builtins.info(one.builtin)
            return HarnessView(one, self.bounds(agent, harness).digest, info, [], info.error)
        ready = self.linker.ready(agent.id, one)
        info = await self._inspect(one.sha256)
        return HarnessView(one, ready.digest, info, describe(one), info.error or ready.known_failure)

    async def _info(self, one: HarnessDeclaration) -> ImageInfo:
        if one.builtin:
            return self._builtins.info(one.builtin)
        return self._images.known(one.sha256) or await self._images.inspect(one.sha256)

    async def _inspect(self, sha256: str) -> ImageInfo:
        try:
            return await self._images.inspect(sha256)
        except NotFound as error:
            return ImageInfo(sha256, 0, error=str(error))

    async def _pin(self, agent_id: str, harness: str, sha256: str) -> AgentRecord:
        async with self._images.lock:
            entry = self._index.entry(agent_id)
            self.declaration(entry.record, harness)
            listed = [
                {**one, "sha256": sha256} if one["name"] == harness else one
                for one in entry.record.config["harnesses"]
            ]
            record = await self._declare(entry, {**entry.record.config, "harnesses": listed})
        logger.info("harness upgraded", extra={"agent": agent_id, "harness": harness, "sha256": sha256})
        await self._tell(record)
        return record

    async def _declare(self, entry: Entry, config: Mapping[str, Any]) -> AgentRecord:
        stored, resolved = await self._declarer.resolve(entry.record.id, config, entry.config)
        record = self._revised(entry.record, config=stored)
        kept = {one.sha256 for one in resolved.harnesses if not one.builtin}
        dropped = [sha256 for sha256 in self._index.only_pinned_by(entry) if sha256 not in kept]
        await self._store.commit([*self._agents.save(record), *self._images.unused(dropped)])
        self._index.put(record, resolved)
        self._images.forget(dropped)
        return record

    def _revised(self, record: AgentRecord, **changes: Any) -> AgentRecord:  # noqa: ANN401 - fields
        return replace(record, updated_ms=self._clock.now_ms(), revision=record.revision + 1, **changes)

    def _visible_peers(self, owner: Owner, allowed: tuple[str, ...]) -> Iterable[tuple[str, str]]:
        # Called from worker threads too, so it looks at a copy.
        for entry in self._index.entries():
            record = entry.record
            if record.id != owner.agent_id and ("*" in allowed or record.id in allowed):
                yield record.name, entry.config.description

    async def _tell(self, record: AgentRecord) -> None:
        await self._tell_all(record, [one.on_declare for one in self._listeners])

    async def _tell_gone(self, record: AgentRecord) -> None:
        await self._tell_all(record, [one.on_forget for one in self._listeners])

    async def _tell_all(
        self, record: AgentRecord, told: Iterable[Callable[[AgentRecord], Awaitable[None]]]
    ) -> None:
        # It is stored, so everybody hears of it, whatever becomes of whoever asked for it.
        with trio.CancelScope(shield=True):
            for tell in told:
                try:
                    await tell(record)
                except Exception:
                    logger.exception("a listener failed", extra={"agent": record.id})


def _without_identity(config: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Take out what says who an agent is: `id` is ours to give, `name` has a request of its own."""
    given = dict(config)
    given.pop("id", None)
    if given.pop("name", name) != name:
        raise BadRequest(f"the agent is called `{name}`; another name is a rename - at `name`")
    return given
