"""Delivering: what waits for a subscription runs on its harness, one event at a time, in order.

An event leaves the store in the batch that holds the audit row of its run. Before a run the store notes that
it begins, so that what crashed the daemon is not tried forever. A queue whose harness cannot be run waits,
and gives its events up after a day.
"""

import json
import logging
from dataclasses import replace
from typing import Final

import trio

from crabtalk.clock import Clock
from crabtalk.errors import Busy, NotFound, RequestError, ShuttingDown, StoreError
from crabtalk.events.routes import Place, Queue, Routes
from crabtalk.ids import new_id
from crabtalk.scheduling.locks import Locks
from crabtalk.scheduling.occurrence import was_cut_off
from crabtalk.scheduling.targets import Owner, Runner, Targets
from crabtalk.store.engine import Engine, Write
from crabtalk.store.interfaces.agents import AgentRecord
from crabtalk.store.interfaces.audit import Audit, AuditRow, Ending
from crabtalk.store.interfaces.subscriptions import DeliveryRecord, Subscriptions
from crabtalk.tools import Outcome, Trigger, never_began
from crabtalk.work import ON_NOTIFY, Work

logger = logging.getLogger(__name__)

MAX_ATTEMPTS: Final = 3
MISSED_MS: Final = 24 * 3600 * 1000  # how long an event may be undeliverable
_PER_AGENT: Final = 16  # deliveries of one agent that run at once
_BUSY_S: Final = 1.0  # until an event that found the queue full is tried again, at first
_MAX_BUSY_S: Final = 30.0
_DOUBLINGS: Final = 10  # of the wait; beyond the longest one by far
_BROKEN_S: Final = 30.0  # and one for which the store did not work
_RETRY_S: Final = 60.0  # until a harness that could not be run is asked for again, at first
_MAX_RETRY_S: Final = 600.0


class Deliveries:
    """Runs what waits; used from trio's thread only."""

    def __init__(self, store: Engine, clock: Clock, targets: Targets, runner: Runner, routes: Routes) -> None:
        self.delivered = 0
        self.missed = 0
        self.locks = Locks()  # by subscription: who reads its records to write them
        self._store = store
        self._records = Subscriptions(store)
        self._audit = Audit(store)
        self._clock = clock
        self._targets = targets
        self._runner = runner
        self._routes = routes
        self._nursery: trio.Nursery | None = None
        self._stopping = trio.Event()
        self._rechecks: dict[str, trio.Event] = {}  # by agent: set when something about it changed
        self._slots: dict[str, trio.Semaphore] = {}

    async def serve(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Deliver until `stop`, and return when what was started has ended.

        **Cancellation:** guests are stopped; their events run again after a restart.
        """
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            for queue in list(self._routes.queues.values()):
                self.start(queue)
            task_status.started()
            await self._stopping.wait()
        self._nursery = None

    def stop(self) -> None:
        """Start nothing any more."""
        self._stopping.set()
        for agent_id in list(self._rechecks):
            self.recheck(agent_id)

    def recheck(self, agent_id: str) -> None:
        """Look again at events that could not be delivered: something about their agent changed."""
        if (event := self._rechecks.pop(agent_id, None)) is not None:
            event.set()

    def forget(self, agent_id: str) -> None:
        """Let go of what belonged to an agent that is gone."""
        self.recheck(agent_id)
        self._slots.pop(agent_id, None)

    def start(self, queue: Queue) -> None:
        """Deliver what waits, unless somebody does."""
        if self._nursery is None or self._stopping.is_set() or queue.draining or not _ready(queue):
            return
        queue.draining = True
        self._nursery.start_soon(self._drain, queue, name=f"deliver to subscription {queue.record.id}")

    async def _drain(self, queue: Queue) -> None:
        while _ready(queue) and not self._stopping.is_set():
            try:
                await self._deliver(queue, queue.places[0])
            except Exception:
                logger.exception("subscription %d is tried again in a while", queue.record.id)
                await self._wait(queue.owner[0], _BROKEN_S)
        queue.draining = False

    async def _deliver(self, queue: Queue, place: Place) -> None:
        """See one event to its end, however long that takes.

        Raises:
            StoreError: if the store does not work.
        """
        record = self._record_of(queue, place)
        if record is None:
            queue.remove(place, self._clock.monotonic())
            return
        delivery = _Delivery(record, self)
        try:
            while not (delivery.ended or queue.closed or self._stopping.is_set()):
                if await self._until_runnable(delivery, queue):
                    await self._run(delivery, queue)
        finally:
            if delivery.claimed and not delivery.ended:
                await self._release(delivery, queue)
        if delivery.ended:
            queue.remove(place, self._clock.monotonic())
            if queue.record.once:
                self._routes.remove(queue)

    def _record_of(self, queue: Queue, place: Place) -> DeliveryRecord | None:
        found = self._records.deliveries(queue.record.id, place.seq - 1, 1)
        return found[0] if found and found[0].seq == place.seq else None

    # Whether it can run

    async def _until_runnable(self, delivery: "_Delivery", queue: Queue) -> bool:
        """Wait until the harness can be run; False if the event was given up, or nobody wants it any more."""
        wait_s, since = _RETRY_S, self._clock.monotonic()
        while (why := await self._why_not(queue.owner)) is not None:
            old = self._clock.now_ms() - delivery.record.published_at_ms >= MISSED_MS
            if old and self._clock.monotonic() - since >= _RETRY_S:
                await self._end_unrun(delivery, queue, "missed", f"not delivered for 24 hours: {why}")
                self.missed += 1
                return False
            await self._wait(queue.owner[0], wait_s)
            if queue.closed or self._stopping.is_set():
                return False
            wait_s = min(wait_s * 2, _MAX_RETRY_S)
        return True

    async def _why_not(self, owner: Owner) -> str | None:
        """Say why a harness cannot be notified, None if it can."""
        agent = self._targets.agent(owner[0])
        if agent is None:
            return f"there is no agent with the id `{owner[0]}`"
        try:
            await self._targets.require_ready(agent, owner[1], ON_NOTIFY)
        except RequestError as error:
            return error.message
        return None

    async def _wait(self, agent_id: str, wait_s: float) -> None:
        """Wait for a while, or until something about an agent changed."""
        event = self._rechecks.setdefault(agent_id, trio.Event())
        with trio.move_on_after(wait_s):
            await event.wait()

    # A run

    async def _run(self, delivery: "_Delivery", queue: Queue) -> None:
        """Run the harness once; `delivery` says then whether that was the end of it."""
        async with self._slots.setdefault(queue.owner[0], trio.Semaphore(_PER_AGENT)):
            if not await self._claim(delivery, queue):
                return
            agent = self._targets.agent(queue.owner[0])
            if agent is None:
                return
            try:
                if never_began(await self._runner.run(_work(delivery, queue, agent))):
                    await self._release(delivery, queue)  # it may be long until it can
            except (Busy, NotFound, ShuttingDown):
                delivery.refusals += 1
            except RequestError as error:
                await self._refused(delivery, queue, error)
            else:
                self.delivered += delivery.ended
        if not (delivery.ended or self._stopping.is_set()):
            doublings = min(delivery.refusals, _DOUBLINGS)
            await self._wait(queue.owner[0], min(_BUSY_S * 2**doublings, _MAX_BUSY_S))

    async def _claim(self, delivery: "_Delivery", queue: Queue) -> bool:
        """Note in the store that a run begins; False if there is to be none."""
        record = delivery.record
        if record.attempt > MAX_ATTEMPTS:
            await self._end_unrun(
                delivery, queue, "failed", f"the daemon ended {MAX_ATTEMPTS} times while it ran"
            )
            return False
        async with self.locks.hold(queue.record.id):
            if queue.closed or self._stopping.is_set():
                return False
            if not delivery.claimed:
                with trio.CancelScope(shield=True):
                    # What a next life finds is the number of the attempt that it would be.
                    await self._store.commit(
                        self._records.save_delivery(replace(record, attempt=record.attempt + 1))
                    )
                delivery.claimed = True
        return True

    async def _release(self, delivery: "_Delivery", queue: Queue) -> None:
        """Take back the note of `_claim`: the run was stopped with the daemon, or never was."""
        with trio.CancelScope(shield=True):
            async with self.locks.hold(queue.record.id):
                if queue.closed:
                    return
                try:
                    await self._store.commit(self._records.save_delivery(delivery.record))
                    delivery.claimed = False
                except StoreError:
                    logger.exception(
                        "event %s counts an attempt that it did not have", delivery.record.event_id
                    )

    async def _refused(self, delivery: "_Delivery", queue: Queue, error: RequestError) -> None:
        """End an event that asking again would not help."""
        if delivery.ended:
            # It ran, and is out of memory here; only a next life would run it again.
            logger.error("the end of event %s was not stored: %s", delivery.record.event_id, error)
        else:
            await self._end_unrun(delivery, queue, "failed", f"{error.code}: {error.message}")

    def end_writes(self, delivery: "_Delivery", outcome: Outcome) -> list[Write] | None:
        """Return what ends an event, None if it is to run again: it did not begin, or was cut off."""
        if never_began(outcome) or was_cut_off(outcome, stopping=self._stopping.is_set()):
            return None
        return self._removal(delivery.record)

    def _removal(self, record: DeliveryRecord) -> list[Write]:
        queue = self._routes.queues.get(record.subscription_id)
        if queue is not None and queue.record.once:
            return list(self._records.remove(record.subscription_id))
        return list(self._records.remove_delivery(record.subscription_id, record.seq))

    async def _end_unrun(self, delivery: "_Delivery", queue: Queue, ending: Ending, message: str) -> None:
        """End an event that does not run, with its row."""
        agent = self._targets.agent(queue.owner[0])
        row = unrun_row(
            delivery.record,
            queue.owner,
            "" if agent is None else agent.name,
            ending,
            message,
            self._clock.now_ms(),
        )
        with trio.CancelScope(shield=True):
            await self._store.commit([*self._removal(delivery.record), *self._audit.row(row)])
        delivery.ended = True


class _Delivery:
    """One event on its way, and what the executor calls when its guest has ended."""

    def __init__(self, record: DeliveryRecord, deliveries: Deliveries) -> None:
        self.record = record
        self.claimed = False  # whether the store has the note that a run begins
        self.ended = False  # whether what ends it was handed over
        self.refusals = 0
        self._deliveries = deliveries

    def __call__(self, outcome: Outcome, _row: AuditRow) -> list[Write] | None:
        writes = self._deliveries.end_writes(self, outcome)
        self.ended = writes is not None
        return writes


def argument(record: DeliveryRecord) -> bytes:
    """Return what `on_notify` gets: a JSON object."""
    values = {
        "id": record.event_id,
        "source": record.source,
        "payload": record.payload,
        "published_at_ms": record.published_at_ms,
        "subscription": record.subscription_id,
    }
    return json.dumps(values, ensure_ascii=False, separators=(",", ":")).encode()


def unrun_row(
    record: DeliveryRecord, owner: Owner, agent_name: str, ending: Ending, message: str, now_ms: int
) -> AuditRow:
    """Return the audit's row of an event that ends without a run of its own."""
    return AuditRow(
        id=new_id(),
        trigger=Trigger.EVENT.value,
        agent_id=owner[0],
        agent_name=agent_name,
        harness=owner[1],
        tool=ON_NOTIFY,
        digest="",
        started_ms=now_ms,
        duration_us=0,
        instructions=0,
        outcome=ending,
        message=message,
        depth=0 if record.chain is None else record.chain.depth,
        chain="" if record.chain is None else record.chain.id,
        args_size=len(record.payload.encode()),
        reason=record.source,
        attempt=record.attempt,
        subject=record.event_id,
    )


def _work(delivery: _Delivery, queue: Queue, agent: AgentRecord) -> Work:
    record = delivery.record
    return Work(
        trigger=Trigger.EVENT,
        agent=agent,
        harness=queue.owner[1],
        entry=ON_NOTIFY,
        args=argument(record),
        chain=record.chain,
        interactive=False,
        reason=record.source,
        attempt=record.attempt,
        subject=record.event_id,
        finish=delivery,
    )


def _ready(queue: Queue) -> bool:
    return bool(queue.places) and queue.places[0].committed and not queue.closed
