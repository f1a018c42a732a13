"""Agents: who there is, what each was declared to have, and every change of that.

Identity is an id, a name is a label. The index in memory is the truth while the daemon runs; the store is
written before it changes. What an agent runs changes only by `update` with a digest that somebody wrote, or
by `upgrade`, which shows the difference first. Wakes, subscriptions and values of a deleted agent go in the
batch that deletes it, by the hooks of those who keep them.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, Protocol

from crabtalk.binding import Owner, Services, describe
from crabtalk.clock import Clock
from crabtalk.config_patch import masked, merge_patch, with_kept_secrets
from crabtalk.declarations import AgentConfig, Bounds, HarnessDeclaration, check_agent_name, parse_config
from crabtalk.declaring import Declarer
from crabtalk.errors import BadRequest, Conflict, NotFound, RequestError, TooLarge
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


@dataclass(frozen=True, slots=True)
class _Entry:
    record: AgentRecord
    config: AgentConfig
    harnesses: Mapping[str, HarnessDeclaration]
    problem: str = ""  # why its stored configuration cannot be used
    bounds: dict[str, Bounds] = field(default_factory=dict)


class AgentService:
    """The agents of a daemon; for the event loop."""

    def __init__(self, store: Engine, images: Images, services: Services, clock: Clock) -> None:
        self._store = store
        self._images = images
        self._clock = clock
        self._agents = Agents(store)
        self._by_id: dict[str, _Entry] = {}
        self._by_name: dict[str, str] = {}
        self._listeners: list[Listener] = []
        self._hooks: list[tuple[ForgetWrites, Callable[[str], None] | None]] = []
        self.linker = Linker(images, services, self._visible_peers)
        self._declarer = Declarer(images, self.linker, self._id_of)
        for record in self._agents.all():
            self._index(record, *_read_stored(record))
        images.pinned = self.pinned
        images.declared = self._declarers

    # Who there is

    def all(self) -> list[AgentRecord]:
        """Return every agent, by name."""
        return [self._by_id[self._by_name[name]].record for name in sorted(self._by_name)]

    def agent(self, agent_id: str) -> AgentRecord | None:
        """Return the agent with this id."""
        entry = self._by_id.get(agent_id)
        return entry.record if entry is not None else None

    def get(self, agent_id: str) -> AgentRecord:
        """Return the agent with this id.

        Raises:
            NotFound: if there is none.
        """
        return self._entry(agent_id).record

    def by_name(self, name: str) -> AgentRecord:
        """Return the agent with this name.

        Raises:
            NotFound: if there is none.
        """
        if name not in self._by_name:
            raise NotFound(f"no agent named `{name[:80]}`")
        return self._by_id[self._by_name[name]].record

    def find(self, text: str) -> AgentRecord:
        """Return the agent with this id, or this name.

        Raises:
            NotFound: if there is none.
        """
        return self.get(text) if text in self._by_id else self.by_name(text)

    def config(self, agent: AgentRecord) -> AgentConfig:
        """Return what an agent was declared to be.

        Raises:
            NotFound: if it is gone.
        """
        return self._entry(agent.id).config

    def problem(self, agent: AgentRecord) -> str:
        """Return why an agent's stored configuration cannot be used, "" when it can."""
        return self._entry(agent.id).problem

    def shown(self, agent: AgentRecord) -> dict[str, Any]:
        """Return an agent's configuration for a client: with its id and name, without secrets."""
        return {"id": agent.id, "name": agent.name, **masked(agent.config)}

    def declaration(self, agent: AgentRecord, harness: str) -> HarnessDeclaration:
        """Return the declaration of one harness.

        Raises:
            NotFound: if the agent is gone, or declares none of that name.
        """
        entry = self._entry(agent.id)
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
        entry = self._by_id.get(agent.id)
        known = entry.bounds.get(harness) if entry is not None else None
        if known is not None:
            return known
        one = self.declaration(agent, harness)
        digest = self.linker.ready(agent.id, one).digest
        bounds = Bounds(one.deadline, one.fuel, one.rate, one.concurrency, digest)
        self._entry(agent.id).bounds[harness] = bounds
        return bounds

    def pinned(self, sha256: str) -> list[str]:
        """Return who is pinned to some bytes, as `agent/harness`."""
        return self._declaring(lambda _name, pin: pin == sha256)

    async def require_entry(
        self, agent: AgentRecord, harness: str, entry: Literal["on_wake", "on_notify"]
    ) -> None:
        """Return if `entry` of that harness could be started now.

        Raises:
            NotFound: if the agent declares no such harness, or its image is not here.
            BadRequest: if the image does not load, or has no such entry.
        """
        one = self.declaration(agent, harness)
        info = self._images.known(one.sha256) or await self._images.inspect(one.sha256)
        if info.error:
            raise BadRequest(f"harness `{harness}` does not load: {info.error}")
        if not info.exports(entry):
            use = "scheduled" if entry == "on_wake" else "subscribed"
            raise BadRequest(f"harness `{harness}` exports no `{entry}`, so it cannot be {use}")

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
            self._check_free(check_agent_name(name))
            if len(self._by_id) >= MAX_AGENTS:
                raise TooLarge(f"there are {MAX_AGENTS} agents already")
            agent_id = new_id()
            given = with_kept_secrets(_without_identity(config, name), {})
            stored, resolved = await self._declarer.resolve(agent_id, given, AgentConfig())
            now_ms = self._clock.now_ms()
            record = AgentRecord(agent_id, name, stored, now_ms, now_ms, 1)
            await self._store.commit(self._agents.save(record))
            self._index(record, resolved)
        logger.info("agent created", extra={"agent": agent_id})
        await self._tell(record)
        return record

    async def update(self, agent_id: str, patch: Mapping[str, Any]) -> AgentRecord:
        """Change an agent by a JSON merge patch.

        Raises:
            NotFound, BadRequest, TooLarge: as `create`.
        """
        async with self._images.lock:
            entry = self._entry(agent_id)
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
            entry = self._entry(agent_id)
            if check_agent_name(new_name) == entry.record.name:
                return entry.record
            self._check_free(new_name)
            record = self._revised(entry.record, name=new_name)
            await self._store.commit(self._agents.save(record))
            self._index(record, entry.config, entry.problem)
        await self._tell(record)
        return record

    async def delete(self, agent_id: str) -> None:
        """Forget an agent and all that belongs to it.

        Raises:
            NotFound: if there is no such agent.
        """
        async with self._images.lock:
            entry = self._entry(agent_id)
            record = entry.record
            writes = [write for hook, _ in self._hooks for write in hook(agent_id)]
            dropped = self._only_pinned_by(entry)
            writes += self._images.unused(dropped)
            await self._store.commit([*self._agents.remove(agent_id), *writes])
            del self._by_id[agent_id], self._by_name[record.name]
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
        wanted = sha256.lower() if sha256 else self._images.newest(harness).sha256
        before = await self._inspect(one.sha256)
        after = await self._images.inspect(wanted)
        agent = await self._pin(agent_id, harness, wanted) if confirm else None
        return Upgrade(before, after, diff(before, after), agent)

    async def inspect(self, agent: AgentRecord, harness: str) -> HarnessView:
        """Tell all that is known of one harness of an agent, without running it.

        Raises:
            NotFound: as `declaration`.
        """
        one = self.declaration(agent, harness)
        ready = self.linker.ready(agent.id, one)
        info = await self._inspect(one.sha256)
        error = info.error
        if not error:
            try:
                await self.linker.link(ready)
            except Unusable as unusable:
                error = str(unusable)
        return HarnessView(one, ready.digest, info, describe(one), error)

    async def _inspect(self, sha256: str) -> ImageInfo:
        try:
            return await self._images.inspect(sha256)
        except NotFound as error:
            return ImageInfo(sha256, 0, error=str(error))

    async def _pin(self, agent_id: str, harness: str, sha256: str) -> AgentRecord:
        async with self._images.lock:
            entry = self._entry(agent_id)
            self.declaration(entry.record, harness)
            listed = [
                {**one, "sha256": sha256} if one["name"] == harness else one
                for one in entry.record.config["harnesses"]
            ]
            record = await self._declare(entry, {**entry.record.config, "harnesses": listed})
        logger.info("harness upgraded", extra={"agent": agent_id, "harness": harness, "sha256": sha256})
        await self._tell(record)
        return record

    async def _declare(self, entry: _Entry, config: Mapping[str, Any]) -> AgentRecord:
        stored, resolved = await self._declarer.resolve(entry.record.id, config, entry.config)
        record = self._revised(entry.record, config=stored)
        kept = {one.sha256 for one in resolved.harnesses}
        dropped = [sha256 for sha256 in self._only_pinned_by(entry) if sha256 not in kept]
        await self._store.commit([*self._agents.save(record), *self._images.unused(dropped)])
        self._index(record, resolved)
        self._images.forget(dropped)
        return record

    def _revised(self, record: AgentRecord, **changes: Any) -> AgentRecord:  # noqa: ANN401 - fields
        return replace(record, updated_ms=self._clock.now_ms(), revision=record.revision + 1, **changes)

    # The index

    def _entry(self, agent_id: str) -> _Entry:
        entry = self._by_id.get(agent_id)
        if entry is None:
            raise NotFound(f"no agent `{agent_id[:80]}`")
        return entry

    def _index(self, record: AgentRecord, config: AgentConfig, problem: str = "") -> None:
        old = self._by_id.get(record.id)
        if old is not None:
            del self._by_name[old.record.name]
        harnesses = {one.name: one for one in config.harnesses}
        self._by_id[record.id] = _Entry(record, config, harnesses, problem)
        self._by_name[record.name] = record.id

    def _check_free(self, name: str) -> None:
        if name in self._by_name:
            raise Conflict(f"there is an agent named `{name}` already")

    def _id_of(self, text: str) -> str | None:
        return text if text in self._by_id else self._by_name.get(text)

    def _declarers(self, name: str) -> list[str]:
        return self._declaring(lambda declared, _pin: declared == name)

    def _declaring(self, test: Callable[[str, str], bool]) -> list[str]:
        return [
            f"{entry.record.name}/{name}"
            for entry in self._by_id.values()
            for name, sha256 in _pins(entry.record)
            if test(name, sha256)
        ]

    def _only_pinned_by(self, entry: _Entry) -> list[str]:
        others = {
            sha256
            for other in self._by_id.values()
            if other is not entry
            for _, sha256 in _pins(other.record)
        }
        return sorted({sha256 for _, sha256 in _pins(entry.record)} - others)

    def _visible_peers(self, owner: Owner, allowed: tuple[str, ...]) -> Iterable[tuple[str, str]]:
        # Called from worker threads too, so it looks at a copy.
        for entry in list(self._by_id.values()):
            record = entry.record
            if record.id != owner.agent_id and ("*" in allowed or record.id in allowed):
                yield record.name, entry.config.description

    async def _tell(self, record: AgentRecord) -> None:
        for listener in self._listeners:
            try:
                await listener.on_declare(record)
            except Exception:
                logger.exception("a listener failed", extra={"agent": record.id})

    async def _tell_gone(self, record: AgentRecord) -> None:
        for listener in self._listeners:
            try:
                await listener.on_forget(record)
            except Exception:
                logger.exception("a listener failed", extra={"agent": record.id})


def _read_stored(record: AgentRecord) -> tuple[AgentConfig, str]:
    """Return a stored configuration, or an empty one with why it cannot be used: others go on."""
    try:
        return parse_config(record.config), ""
    except RequestError as error:
        logger.error(  # noqa: TRY400 - the sentence says it all
            "agent has a configuration that this version does not take: %s", error, extra={"agent": record.id}
        )
        return AgentConfig(), f"agent `{record.name}` has a configuration that cannot be used: {error}"


def _pins(record: AgentRecord) -> list[tuple[str, str]]:
    """Return the name and sha256 of each declared harness, also of a configuration that cannot be used."""
    listed = record.config.get("harnesses")
    entries = [one for one in listed if isinstance(one, Mapping)] if isinstance(listed, list) else []
    return [(str(one.get("name", "")), str(one.get("sha256", ""))) for one in entries]


def _without_identity(config: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Take out what says who an agent is: `id` is ours to give, `name` has a request of its own."""
    given = dict(config)
    given.pop("id", None)
    if given.pop("name", name) != name:
        raise BadRequest(f"the agent is called `{name}`; another name is a rename - at `name`")
    return given
