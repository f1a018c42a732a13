"""The bus: an event is acknowledged when every subscription that it goes to has it in the store.

Publishing is one batch: the event in each matching queue, or a row for a queue that had no room for too
long. Events that have no subscription are only shown to whoever watches. The first words of `matching` that
are reserved belong to the daemon, which publishes through `emit` and `prepare`.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import trio

from crabtalk.accounting import Floods
from crabtalk.chains import MAX_DEPTH, Chain
from crabtalk.clock import Clock
from crabtalk.errors import BadRequest, Busy, CrabtalkError, NotFound, TooLarge
from crabtalk.events.builtin import (
    CHAIN_ENDED,
    TRAP,
    as_payload,
    chain_ended_event,
    trap_event,
)
from crabtalk.events.deliveries import Deliveries, unrun_row
from crabtalk.events.matching import check_pattern, check_source, is_reserved
from crabtalk.events.routes import MAX_OF_HARNESS, MAX_WAITING, Place, Queue, Routes
from crabtalk.events.tails import Event, Tail
from crabtalk.ids import new_id
from crabtalk.known_secrets import KNOWN
from crabtalk.scheduling.chaining import inherited
from crabtalk.scheduling.targets import AGENT_ITSELF, Owner, Runner, Targets, name_of
from crabtalk.store.engine import Engine, Write
from crabtalk.store.interfaces.audit import Audit, AuditRow
from crabtalk.store.interfaces.subscriptions import DeliveryRecord, SubscriptionRecord, Subscriptions
from crabtalk.store.interfaces.wakes import ChainRecord
from crabtalk.tools import Trapped
from crabtalk.work import ON_NOTIFY

logger = logging.getLogger(__name__)

MAX_PAYLOAD_BYTES: Final = 64 << 10
_OVERHEAD_BYTES: Final = 256  # what an event takes in the store beside its payload, about
_ENDED_CHAINS: Final = 1000  # remembered; picked, not measured
_EMITTED: Final = 1000  # of the daemon's own events, on their way into the store

By = Literal["client", "harness"]


@dataclass(frozen=True, slots=True)
class BusStatistics:
    """What the bus has done since it began, and what is before it."""

    subscriptions: int
    waiting: int  # events in queues
    tails: int
    published: int
    delivered: int
    missed: int  # undeliverable for a day
    lost: int  # for a queue that was full
    dropped: int  # of the daemon's own events: too many at once, or set off by others too deep


@dataclass(slots=True, eq=False)
class Prepared:
    """An event that has its places, and is announced once its writes are committed."""

    event: Event
    writes: Sequence[Write]
    places: Sequence[tuple[Queue, Place]]
    bus: "Bus"

    def committed(self) -> None:
        """Deliver it."""
        self.bus.announce(self)

    def abandoned(self) -> None:
        """Take it back: its writes were not committed."""
        self.bus.take_back(self)


class Bus:
    """Publishes, subscribes and delivers; used from trio's thread only."""

    def __init__(self, store: Engine, clock: Clock, targets: Targets, runner: Runner) -> None:
        self._store = store
        self._records = Subscriptions(store)
        self._audit = Audit(store)
        self._clock = clock
        self._targets = targets
        self._routes = Routes()
        self._deliveries = Deliveries(store, clock, targets, runner, self._routes)
        self._subscribing = trio.Lock()
        self._last_id = 0
        self._tails: set[Tail] = set()
        self._emitted, self._to_emit = trio.open_memory_channel[tuple[str, str, ChainRecord | None]](_EMITTED)
        self._forgetting: dict[str, list[Queue]] = {}
        self._published = self._lost = self._dropped = 0
        self._floods = Floods()  # of the daemon's own events, by subscription
        self._ended_chains: OrderedDict[str, None] = OrderedDict()  # those that were told of

    async def load(self) -> None:
        """Read subscriptions and what waits for them from the store; once, before anything else.

        Raises:
            StoreError: if the store does not work.
        """
        subscriptions, waiting = await trio.to_thread.run_sync(self._read)
        at = self._clock.monotonic()
        for record in subscriptions:
            self._routes.add(record)
        orphans: list[Write] = []
        for subscription_id, seq, size_bytes in waiting:
            queue = self._routes.queues.get(subscription_id)
            if queue is None:
                orphans += self._records.remove_delivery(subscription_id, seq)
            else:
                queue.next_seq = seq
                queue.append(size_bytes, at, committed=True)
        if orphans:
            await self._store.commit(orphans)

    async def serve(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Deliver until `stop`, and return when what was started has ended.

        **Cancellation:** guests are stopped; their events run again after a restart.
        """
        async with trio.open_nursery() as nursery:
            await nursery.start(self._emit_in_order)
            await nursery.start(self._deliveries.serve)
            task_status.started()

    def stop(self) -> None:
        """Deliver nothing any more; publishing goes on, into the store."""
        self._emitted.close()
        self._deliveries.stop()

    def recheck(self, agent_id: str) -> None:
        """Look again at events that could not be delivered: something about their agent changed."""
        self._deliveries.recheck(agent_id)

    # Publishing

    async def publish(
        self, source: str, payload: str, *, chain: Chain | None = None, depth: int = 0
    ) -> Event:
        """Publish what comes from outside; `chain` and `depth` are of the invocation that asks.

        Raises:
            BadRequest: for a source that is none, or is reserved; ChainSpent: if the chain has ended.
            TooLarge: for the payload.
            Busy: if a subscription has no room; nobody got the event then.
            StoreError: if the store does not work; as Busy.
        """
        _check_event(source, payload)
        prepared = self._prepared(
            source, payload, None if chain is None else inherited(chain, depth), refuse_when_full=True
        )
        await self._commit(prepared)
        return prepared.event

    def prepare(
        self, source: str, payload: Mapping[str, object], chain: ChainRecord | None = None
    ) -> Prepared:
        """Make an event of the daemon's own ready to be committed with something else; never raises."""
        return self._prepared(source, as_payload(payload), chain, refuse_when_full=False)

    def emit(self, source: str, payload: Mapping[str, object], chain: ChainRecord | None = None) -> None:
        """Publish an event of the daemon's own, soon; never raises."""
        try:
            self._emitted.send_nowait((source, as_payload(payload), chain))
        except (trio.WouldBlock, trio.ClosedResourceError):
            self._dropped += 1

    def on_trap(self, row: AuditRow, outcome: Trapped, chain: Chain) -> None:
        """Tell of a guest that died; what that sets off goes on with its chain, one deeper than itself."""
        if self._is_heard(TRAP):
            self.emit(TRAP, trap_event(row, outcome), chain.record(row.depth + 1))

    def tell_chain_ended(self, chain: ChainRecord, reason: str, agent_id: str) -> None:
        """Tell, once for each chain, that it starts nothing more: those who watch, and the log.

        Nobody is started by it: that would go on with what has just been ended.
        """
        if chain.id in self._ended_chains:
            return
        self._ended_chains[chain.id] = None
        if len(self._ended_chains) > _ENDED_CHAINS:
            self._ended_chains.popitem(last=False)
        logger.warning("a chain has ended: %s", reason, extra={"chain": chain.id, "agent": agent_id})
        payload = as_payload(chain_ended_event(chain, KNOWN.text(reason), agent_id))
        self.announce(Prepared(Event(new_id(), CHAIN_ENDED, payload, self._clock.now_ms()), (), (), self))

    def announce(self, prepared: Prepared) -> None:
        """Deliver an event that is in the store."""
        self._published += 1
        for tail in list(self._tails):
            tail.offer(prepared.event)
        for queue, place in prepared.places:
            place.committed = True
            self._deliveries.start(queue)

    def take_back(self, prepared: Prepared) -> None:
        """Forget an event that is not in the store."""
        at = self._clock.monotonic()
        for queue, place in prepared.places:
            queue.take_back(place, at)
            self._deliveries.start(queue)

    def tail(self, pattern: str) -> Tail:
        """Watch the events of a pattern from now on; an empty one is all of them.

        Raises:
            BadRequest: if it is no pattern.
        """
        try:
            tail = Tail(pattern, self._tails.discard)
        except ValueError as error:
            raise BadRequest(str(error)) from error
        self._tails.add(tail)
        return tail

    # Subscribing

    async def subscribe(
        self,
        source: str,
        *,
        target_harness: Owner | None,
        target_agent: str | None = None,
        once: bool = False,
        by: By = "client",
    ) -> SubscriptionRecord:
        """Deliver events of a pattern to a harness, or to an agent as its turns; the same again is the same.

        Raises:
            BadRequest: for the pattern, or an image that cannot be notified; NotFound: for the target.
            Busy: if the target has too many subscriptions.
            StoreError: if the store does not work.
        """
        _check(check_pattern, source)
        if bool(target_agent) == (target_harness is not None):
            raise BadRequest("target: expected either an agent's id, or `agent-id/harness`")
        owner = target_harness or (target_agent or "", AGENT_ITSELF)
        await self._require(owner)
        async with self._subscribing:
            wanted = SubscriptionRecord(
                self._last_id + 1,
                source,
                None if target_harness else target_agent,
                target_harness,
                once,
                self._clock.now_ms(),
                by,
            )
            if (same := self._routes.same(wanted)) is not None:
                return same
            if len(self._routes.of_harness(owner)) >= MAX_OF_HARNESS:
                raise Busy(f"{name_of(owner)} has {MAX_OF_HARNESS} subscriptions, which is the most")
            with trio.CancelScope(shield=True):
                await self._store.commit(self._records.save(wanted))
            self._last_id = wanted.id
            self._routes.add(wanted)
        return wanted

    async def unsubscribe(self, subscription_id: int, owner: Owner | None = None) -> bool:
        """Remove a subscription and what waits for it; with `owner`, only one that this harness made.

        Returns whether there was one.

        Raises:
            StoreError: if the store does not work.
        """
        queue = self._routes.queues.get(subscription_id)
        if queue is None or (owner is not None and (queue.owner != owner or queue.record.by != "harness")):
            return False
        async with self._deliveries.locks.hold(subscription_id):
            if queue.closed:
                return False
            with trio.CancelScope(shield=True):
                await self._store.commit(self._records.remove(subscription_id))
            self._routes.remove(queue)
        self._deliveries.recheck(queue.owner[0])
        return True

    def subscriptions(self) -> list[SubscriptionRecord]:
        """Return every subscription, by id."""
        return [queue.record for _, queue in sorted(self._routes.queues.items())]

    def forget_writes(self, agent_id: str) -> Sequence[Write]:
        """Return what removes an agent's subscriptions; `forgotten` has to follow the commit."""
        queues = self._forgetting[agent_id] = self._routes.of_agent(agent_id)
        return [write for queue in queues for write in self._records.remove(queue.record.id)]

    def forgotten(self, agent_id: str) -> None:
        """Take note that an agent's subscriptions were removed; what runs ends by itself."""
        for queue in self._forgetting.pop(agent_id, ()):
            self._routes.remove(queue)
        self._deliveries.forget(agent_id)

    def statistics(self) -> BusStatistics:
        """Count."""
        return BusStatistics(
            len(self._routes.queues),
            self._routes.waiting(),
            len(self._tails),
            self._published,
            self._deliveries.delivered,
            self._deliveries.missed,
            self._lost,
            self._dropped,
        )

    def _read(self) -> tuple[list[SubscriptionRecord], list[tuple[int, int, int]]]:
        subscriptions = self._records.all()
        self._last_id = max([self._records.last_id(), *(one.id for one in subscriptions)])
        waiting = [
            (one.subscription_id, one.seq, _size(one.payload)) for one in self._records.all_deliveries()
        ]
        return subscriptions, waiting

    async def _require(self, owner: Owner) -> None:
        agent = self._targets.agent(owner[0])
        if agent is None:
            raise NotFound(f"no agent has the id `{owner[0][:80]}`")
        await self._targets.require_entry(agent, owner[1], ON_NOTIFY)

    def _prepared(
        self, source: str, payload: str, chain: ChainRecord | None, *, refuse_when_full: bool
    ) -> Prepared:
        """Give an event its places.

        Raises:
            Busy: if a queue is full, and publishers are to wait for it.
        """
        event = Event(new_id(), source, payload, self._clock.now_ms())
        queues = self._routes.matching(source)
        if chain is not None and chain.depth > MAX_DEPTH:
            self._dropped += 1
            if queues:
                reason = f"chain {chain.id}: depth {chain.depth} is beyond the chain's {MAX_DEPTH}: {source}"
                self.tell_chain_ended(chain, reason, queues[0].owner[0])
            queues = []
        at = self._clock.monotonic()
        full = [queue for queue in queues if queue.full]
        if refuse_when_full:
            _check_room(full, at)
        places = [(queue, queue.append(_size(payload), at)) for queue in queues if not queue.full]
        writes = [
            write
            for queue, place in places
            for write in self._records.save_delivery(_delivery(queue, place.seq, event, chain))
        ]
        for queue in full:
            self._lost += 1
            # Of the daemon's own there may be many: one for each trap.
            more = 0 if refuse_when_full else self._floods.note_one(queue.record.id, at)
            if more is not None:
                writes += self._lost_row(queue, event, chain, more)
        return Prepared(event, writes, places, self)

    def _lost_row(self, queue: Queue, event: Event, chain: ChainRecord | None, more: int) -> list[Write]:
        agent = self._targets.agent(queue.owner[0])
        record = _delivery(queue, queue.next_seq, event, chain)
        why = f"subscription {queue.record.id} has {len(queue.places)} events waiting"
        if queue.is_stuck(self._clock.monotonic()):
            why += ", and none gets delivered"
        if more:
            why += f" ({more} more that it lost were not listed)"
        name = "" if agent is None else agent.name
        return self._audit.row(unrun_row(record, queue.owner, name, "refused", why, event.published_at_ms))

    async def _commit(self, prepared: Prepared) -> None:
        await trio.lowlevel.checkpoint_if_cancelled()
        try:
            if prepared.writes:
                with trio.CancelScope(shield=True):
                    await self._store.commit(prepared.writes)
        except BaseException:
            prepared.abandoned()
            raise
        prepared.committed()

    async def _emit_in_order(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Publish the daemon's own events, one after the other."""
        task_status.started()
        async for source, payload, chain in self._to_emit:
            try:
                await self._commit(self._prepared(source, payload, chain, refuse_when_full=False))
            except CrabtalkError:
                self._dropped += 1
                logger.exception("event `%s` was not published", source)

    def _is_heard(self, source: str) -> bool:
        return bool(self._tails or self._routes.matching(source))


def _check(check: Callable[[str], str], text: str) -> None:
    try:
        check(text)
    except ValueError as error:
        raise BadRequest(str(error)) from error


def _check_event(source: str, payload: str) -> None:
    _check(check_source, source)
    if is_reserved(source):
        raise BadRequest(f"events of `{source.partition(':')[0]}:` come from the daemon only")
    try:
        size_bytes = len(payload.encode())
    except UnicodeEncodeError as error:
        raise BadRequest("payload is no text that UTF-8 can write") from error
    if size_bytes > MAX_PAYLOAD_BYTES:
        raise TooLarge(f"payload is {size_bytes} bytes long, at most {MAX_PAYLOAD_BYTES} are taken")


def _check_room(full: Sequence[Queue], at: float) -> None:
    for queue in full:
        if not queue.is_stuck(at):
            raise Busy(
                f"subscription {queue.record.id} of {name_of(queue.owner)} has {MAX_WAITING} events, "
                "or 8 MiB of them, waiting: publish again later"
            )


def _delivery(queue: Queue, seq: int, event: Event, chain: ChainRecord | None) -> DeliveryRecord:
    return DeliveryRecord(
        queue.record.id, seq, event.id, event.source, event.payload, event.published_at_ms, chain=chain
    )


def _size(payload: str) -> int:
    return len(payload.encode()) + _OVERHEAD_BYTES
