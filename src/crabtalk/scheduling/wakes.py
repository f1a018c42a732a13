"""Wakes as the daemon keeps them: the store has the record, the due-set the instant, and both stay equal.

A wake is acknowledged when it is in the store, claimed in the store before it runs, and gone from the store
in the batch that holds its audit row. So a crash at any point leaves it either as it was or claimed by a boot
that is dead, and it runs again: at least once across crashes, and never twice while the daemon lives.

Everything that reads a wake and then writes it holds the lock of its key, or of its id where it has none.
"""

import json
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import nsmallest
from typing import Final

import trio

from crabtalk.chains import Chain
from crabtalk.clock import Clock
from crabtalk.errors import BadRequest, Busy, Conflict, NotFound, TooLarge
from crabtalk.ids import is_id, new_id
from crabtalk.scheduling.chaining import inherited, starts_chain
from crabtalk.scheduling.due_set import MAX_AT_MS, DueSet
from crabtalk.scheduling.locks import Locks
from crabtalk.scheduling.targets import Owner, Targets
from crabtalk.store.engine import Engine, Write
from crabtalk.store.interfaces.wakes import ChainRecord, Due, WakeRecord, Wakes

MAX_PAYLOAD_BYTES: Final = 64 << 10
MAX_KEY_BYTES: Final = 256
MAX_WAKES: Final = 2_000_000  # of everybody, so that the due-set stays in about 110 MiB
MAX_ATTEMPTS: Final = 3  # starts of one occurrence: the first, and after crashes
GRANULARITY_MS: Final = 1000

_PAGE: Final = 10_000
_LISTED: Final = 1000
_LISTED_BYTES: Final = 16 << 20  # of a list for a harness: more than a hundred thousand wakes with short keys


@dataclass(frozen=True, slots=True)
class WakeStatistics:
    """How many wakes there are."""

    stored: int  # pending, or running
    earliest_ms: int | None  # of those that are not due yet, or wait
    running: int = 0  # claimed by this life of the daemon


class WakeService:
    """Schedules and cancels wakes, and claims them for the loop; used from trio's thread only."""

    def __init__(
        self, store: Engine, clock: Clock, targets: Targets, *, boot_id: str, max_wakes: int = MAX_WAKES
    ) -> None:
        """`boot_id` names this life of the daemon: a claim of any other is dead."""
        self.due = DueSet()
        self.boot_id = boot_id
        self._store = store
        self._records = Wakes(store)
        self._clock = clock
        self._targets = targets
        self._locks = Locks()
        self._max_wakes = max_wakes
        self._stored = 0
        self._made: Counter[Owner] = Counter()  # of those, by the harness itself
        self._running: dict[Owner, dict[str, WakeRecord]] = {}  # by id: claimed by this boot
        self._unreleased: set[str] = set()  # those of them that do not run, which the store did not take
        self._forgetting: dict[str, list[WakeRecord]] = {}  # by agent, until that is committed
        self._earlier: Callable[[], None] = lambda: None

    async def load(self) -> None:
        """Fill the due-set from the store, by keys alone; once, before anything else.

        Raises:
            StoreError: if the store does not work.
        """
        self._stored, self._made = await trio.to_thread.run_sync(self._load)

    def on_earlier(self, listener: Callable[[], None]) -> None:
        """Have `listener` called when a wake was added that is due before all others."""
        self._earlier = listener

    async def schedule(
        self,
        agent_id: str,
        harness: str,
        at_ms: int,
        payload: bytes = b"",
        key: str | None = None,
        *,
        chain: Chain | None = None,
        depth: int = 0,
        limit: int | None = None,
    ) -> WakeRecord:
        """Wake a harness at an instant, rounded up to a second; a pending wake of its key is replaced.

        `chain` and `depth` are of the invocation that asks, `limit` is how many wakes its harness may have
        made, None if a client asks. While the key is running, this is its next occurrence, and has room.

        Raises:
            BadRequest: for an instant, key or image that cannot be; ChainSpent: if the chain has ended.
            NotFound: if there is no such agent or harness.
            TooLarge: for the payload.
            Busy: if `limit` is reached, or there are too many wakes at all.
            StoreError: if the store does not work.
        """
        at_ms = -(-_checked_instant(at_ms) // GRANULARITY_MS) * GRANULARITY_MS
        _check_payload(payload, key)
        await self._require(agent_id, harness)
        created_ms = self._clock.now_ms()
        record = WakeRecord(
            new_id(),
            agent_id,
            harness,
            at_ms,
            payload,
            key,
            created_ms=created_ms,
            chain=None if chain is None else _stored_chain(chain, depth, at_ms, created_ms),
            by="client" if limit is None else "harness",
        )
        if limit is None:
            await self._insert(record)
        else:
            async with self._locks.hold((agent_id, harness)):
                await self._insert(record, limit)
        return record

    async def cancel(self, wake_id: str, owner: Owner | None = None) -> bool:
        """Remove a pending wake, of `owner` if one is given; report whether there was one.

        Raises:
            Conflict: if it is running, and no owner is given.
            StoreError: if the store does not work.
        """
        record = self._records.get(wake_id) if is_id(wake_id) else None
        if record is None or (owner is not None and owner != _owner(record)):
            return False
        async with self._locks.hold(_lock_of(record)):
            current = self._records.get(wake_id)
            if current is None:
                return False
            if current.state == "running":
                if owner is None:
                    raise Conflict(
                        f"wake {wake_id} is running: it has begun, and cannot be cancelled as a wake"
                    )
                return False
            with trio.CancelScope(shield=True):
                await self._store.commit(self._records.remove(current))
            self._gone(current)
        return True

    async def claim(self, wake_id: str) -> WakeRecord | None:
        """Make a wake this boot's and return it as running; None if there is nothing to run.

        One that has had all its attempts is returned unclaimed, see `is_exhausted`.

        Raises:
            StoreError: if the store does not work; the wake is as it was.
        """
        record = self._records.get(wake_id)
        if record is None:
            return None
        async with self._locks.hold(_lock_of(record)):
            record = self._records.get(wake_id)
            if record is not None and wake_id in self._unreleased:
                self._unreleased.discard(wake_id)
                return record
            if record is None or record.claim == self.boot_id:
                return None
            if record.state == "running":  # the boot that claimed it is dead
                if record.attempt >= MAX_ATTEMPTS:
                    return record
                record = replace(record, attempt=record.attempt + 1)
            running, writes = self._records.claim(record, self.boot_id)
            with trio.CancelScope(shield=True):
                await self._store.commit(writes)
            self._running.setdefault(_owner(running), {})[running.id] = running
        return running

    def is_exhausted(self, record: WakeRecord) -> bool:
        """Report whether a wake has crashed the daemon as often as it may."""
        return record.claim != self.boot_id and record.state == "running" and record.attempt >= MAX_ATTEMPTS

    async def release(self, record: WakeRecord) -> None:
        """Give a claimed wake back: it did not run, or was stopped with the daemon.

        Raises:
            StoreError: if the store does not work; it may be claimed again all the same, and the next boot
                will find the claim dead.
        """
        async with self._locks.hold(_lock_of(record)):
            _, writes = self._records.release(record, attempt=record.attempt)
            self._unreleased.add(record.id)
            with trio.CancelScope(shield=True):
                await self._store.commit(writes)
            self._unreleased.discard(record.id)
            self._unclaim(record)

    async def end_unrun(
        self, wake_id: str, writes: Callable[[WakeRecord], Sequence[Write]]
    ) -> WakeRecord | None:
        """Remove a wake that will not run, in one batch with `writes`; None if it is gone.

        Raises:
            StoreError: if the store does not work; the wake is as it was.
        """
        record = self._records.get(wake_id)
        if record is None:
            return None
        async with self._locks.hold(_lock_of(record)):
            record = self._records.get(wake_id)
            if record is None:
                return None
            with trio.CancelScope(shield=True):
                await self._store.commit([*self._records.remove(record), *writes(record)])
            self.ended(record)
        return record

    def removal(self, record: WakeRecord) -> list[Write]:
        """Return what ends a wake, for the batch that holds its row."""
        return self._records.remove(record)

    def ended(self, record: WakeRecord) -> None:
        """Take note that the batch with a wake's removal was committed."""
        self._gone(record)
        if record.claim == self.boot_id:
            self._unclaim(record)

    def forget_writes(self, agent_id: str) -> Sequence[Write]:
        """Return what removes all wakes of an agent; `forgotten` has to follow the commit."""
        records = self._forgetting[agent_id] = self._records.by_owner(agent_id)
        return [write for record in records for write in self._records.remove(record)]

    def forgotten(self, agent_id: str) -> None:
        """Take note that the wakes of an agent were removed; those that run still end by themselves."""
        for record in self._forgetting.pop(agent_id, ()):
            if record.claim != self.boot_id:
                self._gone(record)

    def get(self, wake_id: str) -> WakeRecord | None:
        """Return a wake that has not ended."""
        return self._records.get(wake_id) if is_id(wake_id) else None

    def wakes_of(self, agent_id: str, harness: str | None = None, limit: int = _LISTED) -> list[WakeRecord]:
        """Return the first wakes of a harness, or of all of an agent's, in order."""
        return list(self.upcoming(limit, [agent_id], harness))

    async def pending_of(self, owner: Owner) -> bytes:
        """Return all wakes of a harness that do not run, in order: JSON of their ids, keys and instants.

        Raises:
            TooLarge: if it would be too long: nobody is to take a part for the whole.
            StoreError: if the store does not work.
        """
        return await trio.to_thread.run_sync(self._pending_of, owner)  # there may be many to read

    def upcoming(
        self, limit: int, agent_ids: Iterable[str] | None = None, harness: str | None = None
    ) -> Iterator[WakeRecord]:
        """Return the first wakes of everybody, or of some agents, as the store has them: running ones too.

        Each is read when it is asked for; from any thread. `harness` goes with `agent_ids` only.
        """
        if agent_ids is None:
            dues = self._records.keys(limit=limit)
        else:
            dues = nsmallest(
                limit,
                (
                    due
                    for agent_id in agent_ids
                    for one in (self._records.harnesses_of(agent_id) if harness is None else [harness])
                    for due in self._records.dues(agent_id, one, limit)  # which come in order
                ),
            )
        found = (self._records.get(due.id) for due in dues)
        return (record for record in found if record is not None)

    def statistics(self) -> WakeStatistics:
        """Count."""
        running = sum(map(len, self._running.values()))
        return WakeStatistics(self._stored, self.due.earliest(), running)

    def _load(self) -> tuple[int, Counter[Owner]]:
        after: Due | None = None
        stored = 0
        self.due.clear()
        while page := self._records.keys(after, _PAGE):
            self.due.extend(page)
            stored += len(page)
            after = page[-1]
        return stored, self._records.made()

    def _pending_of(self, owner: Owner) -> bytes:
        parts: list[bytes] = []
        left_bytes = _LISTED_BYTES
        for due in self._records.dues(*owner):
            trio.from_thread.check_cancelled()
            one = self._records.get(due.id)
            if one is None or one.state == "running":
                continue
            values = {"id": one.id, "key": one.key or "", "at_ms": one.at_ms}
            part = json.dumps(values, ensure_ascii=False, separators=(",", ":")).encode()
            left_bytes -= len(part) + 1
            if left_bytes < 0:
                raise TooLarge(
                    f"more than {len(parts)} wakes are pending, which is the most that a list holds"
                )
            parts.append(part)
        return b"[%b]" % b",".join(parts)

    async def _require(self, agent_id: str, harness: str) -> None:
        agent = self._targets.agent(agent_id)
        if agent is None:
            raise NotFound(f"no agent has the id `{agent_id[:80]}`")
        await self._targets.require_entry(agent, harness, "on_wake")

    async def _insert(self, record: WakeRecord, limit: int | None = None) -> None:
        if record.key is None:
            await self._store_new(record, None, limit)
            return
        async with self._locks.hold(_lock_of(record)):
            replaced = self._records.by_key(record.agent_id, record.harness, record.key)
            await self._store_new(record, replaced, limit)

    async def _store_new(self, record: WakeRecord, replaced: WakeRecord | None, limit: int | None) -> None:
        if replaced is None or (replaced.by, record.by) == ("client", "harness"):
            self._check_room(record, limit)
        self._count(record, 1)  # at once: others are deciding meanwhile
        try:
            with trio.CancelScope(shield=True):
                await self._store.commit(self._records.insert(record, replaced))
        except BaseException:
            self._count(record, -1)
            raise
        if replaced is not None:
            self._gone(replaced)
        if self.due.add(record.at_ms, record.id):
            self._earlier()

    def _check_room(self, record: WakeRecord, limit: int | None) -> None:
        """Raise Busy unless there is room; for the next occurrence of a wake that runs it was kept."""
        owner = _owner(record)
        running = [one for one in self._running.get(owner, {}).values() if one.by == "harness"]
        if record.key is not None and any(one.key == record.key for one in running):
            return
        if self._stored >= self._max_wakes:
            raise Busy(f"{self._max_wakes} wakes are stored, which is the most")
        if limit is None:
            return
        if self._made[owner] < limit:
            return
        kept = sum(map(self._keeps_place, running))
        if self._made[owner] - len(running) + kept >= limit:
            also = f", or the next ones of {kept} that run," if kept else ","
            raise Busy(f"{limit} wakes of harness `{owner[1]}` are pending{also} which is its most")

    def _keeps_place(self, running: WakeRecord) -> bool:
        """Report whether the next occurrence of a wake that runs is still to come."""
        if running.key is None or self._records.get(running.id) is None:
            return False
        following = self._records.by_key(running.agent_id, running.harness, running.key)
        return following is None or following.by == "client"

    def _gone(self, record: WakeRecord) -> None:
        self.due.discard(record.at_ms, record.id)
        self._unreleased.discard(record.id)
        self._count(record, -1)

    def _count(self, record: WakeRecord, more: int) -> None:
        self._stored += more
        if record.by == "harness":
            owner = _owner(record)
            self._made[owner] += more
            if not self._made[owner]:
                del self._made[owner]

    def _unclaim(self, record: WakeRecord) -> None:
        owner = _owner(record)
        running = self._running.get(owner, {})
        running.pop(record.id, None)
        if not running:
            self._running.pop(owner, None)


def _owner(record: WakeRecord) -> Owner:
    return record.agent_id, record.harness


def _lock_of(record: WakeRecord) -> Hashable:
    return record.id if record.key is None else (record.agent_id, record.harness, record.key)


def _checked_instant(at_ms: int) -> int:
    if not 0 <= at_ms <= MAX_AT_MS:
        raise BadRequest(f"instant: expected Unix milliseconds from 0 to {MAX_AT_MS}, got {at_ms}")
    return at_ms


def _check_payload(payload: bytes, key: str | None) -> None:
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise TooLarge(f"payload is {len(payload)} bytes long, at most {MAX_PAYLOAD_BYTES} are taken")
    if key is not None and not 0 < len(key.encode(errors="replace")) <= MAX_KEY_BYTES:
        raise BadRequest(
            f"key is {len(key.encode(errors='replace'))} bytes long, from 1 to {MAX_KEY_BYTES} are taken"
        )


def _stored_chain(chain: Chain, depth: int, at_ms: int, created_ms: int) -> ChainRecord:
    """Return what a wake remembers: the chain it goes on with, or only the name of its parent."""
    return chain.record(depth) if starts_chain(at_ms, created_ms) else inherited(chain, depth)
