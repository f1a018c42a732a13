"""Who gets which event, and how many wait for each: subscriptions in memory. Pure.

The store has every subscription and every event that waits; this has where they lead and the order, so that
publishing looks up a few patterns and delivering reads one record at a time.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Final, TypeVar

from crabtalk.events.matching import selecting
from crabtalk.scheduling.targets import AGENT_ITSELF, Owner
from crabtalk.store.interfaces.subscriptions import SubscriptionRecord

Key = TypeVar("Key", str, Owner)

MAX_WAITING: Final = 1000  # events of one subscription
MAX_WAITING_BYTES: Final = 8 << 20
MAX_OF_HARNESS: Final = 64  # subscriptions
STUCK_S: Final = 60.0  # a full queue that has not moved for this long holds nobody up any more


@dataclass(slots=True, eq=False)
class Place:
    """One event in one queue."""

    seq: int
    size_bytes: int
    committed: bool = False


@dataclass(slots=True, eq=False)
class Queue:
    """What waits for one subscription, in the order of publishing."""

    record: SubscriptionRecord
    owner: Owner
    next_seq: int = 0
    places: deque[Place] = field(default_factory=deque)
    size_bytes: int = 0
    moved_at: float = 0.0  # when the first one came to its place
    draining: bool = False  # whether a task delivers
    closed: bool = False  # unsubscribed

    @property
    def full(self) -> bool:
        """Whether there is no room for another event."""
        return len(self.places) >= MAX_WAITING or self.size_bytes >= MAX_WAITING_BYTES

    @property
    def spent(self) -> bool:
        """Whether it was for one event, which came."""
        return self.record.once and self.next_seq > 0

    def is_stuck(self, at: float) -> bool:
        """Report whether nothing was delivered for so long that publishers need not wait for it."""
        return at - self.moved_at >= STUCK_S

    def append(self, size_bytes: int, at: float, *, committed: bool = False) -> Place:
        """Give an event the next place."""
        if not self.places:
            self.moved_at = at
        place = Place(self.next_seq, size_bytes, committed)
        self.next_seq += 1
        self.places.append(place)
        self.size_bytes += size_bytes
        return place

    def remove(self, place: Place, at: float) -> None:
        """Take an event out, wherever it stands."""
        if self.places and self.places[0] is place:
            self.places.popleft()
            self.moved_at = at
        elif place in self.places:
            self.places.remove(place)
        else:
            return
        self.size_bytes -= place.size_bytes

    def take_back(self, place: Place, at: float) -> None:
        """Undo `append`: the event was not stored."""
        self.remove(place, at)
        if self.record.once and not self.places:
            self.next_seq = 0


class Routes:
    """Every subscription, by id, by pattern and by target."""

    def __init__(self) -> None:
        self.queues: dict[int, Queue] = {}
        self._by_pattern: dict[str, dict[int, Queue]] = {}
        self._by_owner: dict[Owner, dict[int, Queue]] = {}

    def add(self, record: SubscriptionRecord) -> Queue:
        """Add a subscription."""
        queue = Queue(record, owner_of(record))
        self.queues[record.id] = queue
        self._by_pattern.setdefault(record.source, {})[record.id] = queue
        self._by_owner.setdefault(queue.owner, {})[record.id] = queue
        return queue

    def remove(self, queue: Queue) -> None:
        """Remove a subscription, if it is still there."""
        queue.closed = True
        if self.queues.pop(queue.record.id, None) is None:
            return
        _remove(self._by_pattern, queue.record.source, queue.record.id)
        _remove(self._by_owner, queue.owner, queue.record.id)

    def matching(self, source: str) -> list[Queue]:
        """Return the subscriptions that get an event of `source`."""
        found = (queue for one in selecting(source) for queue in self._by_pattern.get(one, {}).values())
        return [queue for queue in found if not queue.spent]

    def of_harness(self, owner: Owner) -> list[Queue]:
        """Return the subscriptions of a harness."""
        return list(self._by_owner.get(owner, {}).values())

    def of_agent(self, agent_id: str) -> list[Queue]:
        """Return the subscriptions of all harnesses of an agent."""
        return [queue for queue in self.queues.values() if queue.owner[0] == agent_id]

    def same(self, record: SubscriptionRecord) -> SubscriptionRecord | None:
        """Return a subscription that does what `record` would."""
        for queue in self.of_harness(owner_of(record)):
            one = queue.record
            if (one.source, one.once, one.by) == (record.source, record.once, record.by) and not queue.spent:
                return one
        return None

    def waiting(self) -> int:
        """Count the events that wait."""
        return sum(len(queue.places) for queue in self.queues.values())


def owner_of(record: SubscriptionRecord) -> Owner:
    """Return whose subscription it is: a harness's, or an agent's own."""
    return record.target_harness or (record.target_agent or "", AGENT_ITSELF)


def _remove(index: dict[Key, dict[int, Queue]], name: Key, subscription_id: int) -> None:
    del index[name][subscription_id]
    if not index[name]:
        del index[name]
