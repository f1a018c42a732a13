"""What is due and not started: which wakes start now, and how long nothing will change. Pure.

Wakes that are on time go first; those that are late by more than a minute, after a downtime or a step of the
clock, are paced. Within both, agents take turns, and none has more than its share of the workers, so that the
backlog of one does not delay another's. A wake whose key is running waits for that run to end; the wakes of
a harness that cannot be run wait together until it can, or until they are given up.

A wake stands in the due-set until it is due, then here, by its id alone: one that was cancelled or replaced
meanwhile is found to be gone when its turn comes. Whose it is, its record says, and a step reads a few.
What is found of an agent that has enough in its lane, or of a harness that cannot be run, is put aside as the
due-set keeps it, in a few bytes, and read again when there is room: so a million of one agent's cost little,
and hold nobody up for long.
"""

import heapq
import itertools
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from crabtalk.scheduling.due_set import Due, DueSet
from crabtalk.scheduling.targets import Owner
from crabtalk.store.interfaces.wakes import WakeRecord

STEP_S: Final = 30.0  # the longest sleep before the wall clock is read again
_LEAST_S: Final = 0.001  # and the shortest, so that a rounded instant is not waited for in ever smaller steps
_LOOKS: Final = 64  # records read in one step, so that a step is a millisecond or two
_PAUSE_S: Final = 0.002  # after a step that read so many and started none, so that others have the loop
_HELD: Final = 64  # of one agent's in a lane
_REFILL: Final = 16  # of one harness's, at once
_EXPLORED: Final = 16  # in each step, whatever is in the lanes already
_LOST: Final = 1000  # given up at once
_RETRY_S: Final = 60.0  # how soon a harness that could not be run is asked for again, at first
_MAX_RETRY_S: Final = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How fast wakes are started; picked, not measured."""

    workers: int = 64  # wakes that run at once
    per_agent: int | None = None  # of one agent's; None: three quarters of the workers
    late_after_s: float = 60.0  # from when on a wake is late
    late_per_s: float = 50.0  # late wakes started in a second
    late_burst: int = 50  # and at once after a pause

    @property
    def share(self) -> int:
        """How many workers one agent may have, so that another's wake finds one."""
        return max(1, self.workers * 3 // 4) if self.per_agent is None else self.per_agent


class Item(NamedTuple):
    """A wake whose time has come."""

    at_ms: int
    id: str
    agent_id: str
    harness: str
    key: str | None

    @property
    def owner(self) -> Owner:
        """Whose it is."""
        return self.agent_id, self.harness

    @property
    def flight(self) -> tuple[str, str, str] | None:
        """What may run only once at a time."""
        return None if self.key is None else (self.agent_id, self.harness, self.key)


class _Lane:
    """Items of many agents, who take turns."""

    def __init__(self) -> None:
        self._queues: dict[str, deque[Item]] = {}  # in the order of turns
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def held(self, agent_id: str) -> int:
        return len(self._queues.get(agent_id, ()))

    def put(self, item: Item, *, first: bool = False) -> None:
        queue = self._queues.setdefault(item.agent_id, deque())
        (queue.appendleft if first else queue.append)(item)
        self._size += 1

    def take(self, has_room: Callable[[str], bool]) -> Item | None:
        agent_id = self.next_agent(has_room)
        if agent_id is None:
            return None
        queue = self._queues.pop(agent_id)
        item = queue.popleft()
        if queue:
            self._queues[agent_id] = queue  # behind all others
        self._size -= 1
        return item

    def next_agent(self, has_room: Callable[[str], bool]) -> str | None:
        return next(filter(has_room, self._queues), None)


@dataclass(slots=True)
class _Blocked:
    """A harness that cannot be run, and its wakes."""

    since: float
    retry_at: float
    retry_s: float = _RETRY_S
    items: DueSet = field(default_factory=DueSet)


class Backlog:
    """Decides; instants of `now` are Unix ms, those of `at` seconds of the monotonic clock."""

    def __init__(self, due: DueSet, pace: Pace, find: Callable[[str], WakeRecord | None]) -> None:
        """Take wakes out of `due`; `find` reads the record of one, which may be gone, and never raises."""
        self._due = due
        self._pace = pace
        self._share = pace.share
        self._late_ms = int(pace.late_after_s * 1000)
        self._find = find
        self._on_time = _Lane()
        self._late = _Lane()
        self._crowds: dict[Owner, DueSet] = {}  # found due, of agents that have enough in a lane
        self._running: dict[str, Item] = {}
        self._of_agent: Counter[str] = Counter()
        self._waiting: dict[tuple[str, str, str], deque[Item]] = {}  # by what is in flight
        self._postponed: list[tuple[float, int, Item]] = []  # a heap
        self._order = itertools.count()
        self._blocked: dict[Owner, _Blocked] = {}
        self._tokens = float(pace.late_burst)
        self._tokens_at = 0.0
        self._more = False
        self._pause_s = 0.0

    @property
    def running(self) -> int:
        """How many were taken and have not finished."""
        return len(self._running)

    @property
    def blocked(self) -> int:
        """How many wait for a harness that cannot be run."""
        return sum(len(one.items) for one in self._blocked.values())

    def is_blocked(self, owner: Owner) -> bool:
        """Report whether wakes wait for this harness."""
        return owner in self._blocked

    def spilled(self, now_ms: int) -> int:
        """Count what is due and waits for its turn."""
        waiting = sum(map(len, self._waiting.values()))
        lanes = len(self._on_time) + len(self._late) + sum(map(len, self._crowds.values()))
        return self._due.due_count(now_ms) + lanes + waiting + len(self._postponed)

    def is_late(self, item: Item, now_ms: int) -> bool:
        """Report whether an item that starts now is late."""
        return now_ms - item.at_ms >= self._late_ms

    def take(self, now_ms: int, at: float) -> list[Item]:
        """Return what starts now; each has to be handed to `finish`, `postpone` or `block`."""
        self._refill(at)
        while self._postponed and self._postponed[0][0] <= at:
            self._put(heapq.heappop(self._postponed)[2], now_ms, first=True)
        looks = _Looks(_LOOKS)
        self._explore(now_ms, looks)
        taken: list[Item] = []
        while len(self._running) < self._pace.workers and (item := self._next(now_ms, looks)):
            self._begin(item)
            taken.append(item)
        self._more = looks.left == 0 and len(self._running) < self._pace.workers
        self._pause_s = 0.0 if taken else _PAUSE_S
        return taken

    def wait_s(self, now_ms: int, at: float) -> float | None:
        """Return how long nothing can start unless something else happens, None for as long as that."""
        if self._more:
            return self._pause_s
        return max(_LEAST_S, min(waits)) if (waits := list(self._waits(now_ms, at))) else None

    def finish(self, item: Item) -> None:
        """Let go of an item that ended, or is gone."""
        del self._running[item.id]
        self._of_agent[item.agent_id] -= 1
        if not self._of_agent[item.agent_id]:
            del self._of_agent[item.agent_id]
        if item.flight is None:
            return
        waiting = self._waiting.pop(item.flight)
        for one in reversed(waiting):  # the first one flies, and the others wait for it in turn
            self._on_time.put(one, first=True)

    def postpone(self, item: Item, until: float) -> None:
        """Let go of an item that is to be tried again."""
        self.finish(item)
        heapq.heappush(self._postponed, (until, next(self._order), item))

    def block(self, item: Item, at: float) -> None:
        """Let go of an item whose harness cannot be run; others of that harness join it."""
        self.finish(item)
        if item.owner not in self._blocked:
            crowd = self._crowds.pop(item.owner, None) or DueSet()
            self._blocked[item.owner] = _Blocked(at, at + _RETRY_S, items=crowd)
        self._blocked[item.owner].items.add(item.at_ms, item.id)

    def to_retry(self, at: float) -> list[Owner]:
        """Return the harnesses that are to be asked for again, each to be handed to `unblock` or `keep`."""
        found = [owner for owner, blocked in self._blocked.items() if blocked.retry_at <= at]
        for owner in found:
            blocked = self._blocked[owner]
            blocked.retry_at = at + blocked.retry_s
        return found

    def hasten(self, agent_id: str, at: float) -> None:
        """Ask for an agent's harnesses again at once: something about them changed."""
        for owner, blocked in self._blocked.items():
            if owner[0] == agent_id:
                blocked.retry_at = at

    def unblock(self, owner: Owner) -> None:
        """Let the wakes of a harness that can be run again take their turns."""
        if blocked := self._blocked.pop(owner, None):
            self._crowds[owner] = blocked.items

    def keep(self, owner: Owner, at: float, lost_before_ms: int) -> list[Due]:
        """Keep a harness blocked, and return those of its wakes that are given up: due before an instant.

        None is before the harness was asked for twice. Of very many, the rest comes when it is asked again.
        """
        blocked = self._blocked.get(owner)
        if blocked is None:
            return []
        blocked.retry_s = min(blocked.retry_s * 2, _MAX_RETRY_S)
        blocked.retry_at = at + blocked.retry_s
        if at - blocked.since < _RETRY_S:
            return []
        lost = blocked.items.pop_due(lost_before_ms - 1, _LOST) if lost_before_ms > 0 else []
        if len(lost) == _LOST:
            blocked.retry_at = at
        if not blocked.items:
            del self._blocked[owner]
        return lost

    def _begin(self, item: Item) -> None:
        self._running[item.id] = item
        self._of_agent[item.agent_id] += 1
        if item.flight is not None:
            self._waiting[item.flight] = deque()

    def _next(self, now_ms: int, looks: "_Looks") -> Item | None:
        if item := self._from(self._on_time, now_ms, looks, since_ms=now_ms - self._late_ms + 1):
            return item
        if self._tokens < 1:
            return None
        item = self._from(self._late, now_ms, looks, until_ms=now_ms - self._late_ms)
        self._tokens -= item is not None
        return item

    def _from(
        self, lane: _Lane, now_ms: int, looks: "_Looks", *, since_ms: int = 0, until_ms: int | None = None
    ) -> Item | None:
        until_ms = now_ms if until_ms is None else until_ms
        while True:
            item = lane.take(self._has_room)
            if item is None:
                if not self._look(lane, looks, since_ms, until_ms):
                    return None
            elif self._may_start(item, now_ms):
                return item

    def _look(self, lane: _Lane, looks: "_Looks", since_ms: int, until_ms: int) -> bool:
        """Move what is due into a lane; report whether there was any."""
        if until_ms < 0:
            return False
        since_ms = max(0, since_ms)
        found = self._from_crowds(lane, looks, since_ms, until_ms)
        if not found:
            found = self._due.pop_due(until_ms, looks.left, since_ms=since_ms)
        looks.left -= len(found)
        for due in found:
            if item := self._read(due):
                self._sort(item, lane)
        return bool(found)

    def _explore(self, now_ms: int, looks: "_Looks") -> None:
        """Look at a few more that are due, so that agents are found behind another's many, and take turns."""
        for due in self._due.pop_due(now_ms, _EXPLORED):
            looks.left -= 1
            if item := self._read(due):
                self._sort(item, self._late if self.is_late(item, now_ms) else self._on_time)

    def _read(self, due: Due) -> Item | None:
        record = self._find(due.id)
        if record is None:
            return None
        return Item(due.at_ms, due.id, record.agent_id, record.harness, record.key)

    def _from_crowds(self, lane: _Lane, looks: "_Looks", since_ms: int, until_ms: int) -> list[Due]:
        """Take from what was put aside, for an agent that has room again and nothing in its lane."""
        for owner, crowd in self._crowds.items():
            if self._has_room(owner[0]) and not lane.held(owner[0]):
                found = crowd.pop_due(until_ms, min(looks.left, _REFILL), since_ms=since_ms)
                if found:
                    del self._crowds[owner]
                    if crowd:
                        self._crowds[owner] = crowd  # behind all others
                    return found
        return []

    def _sort(self, item: Item, lane: _Lane) -> None:
        """Put what was found where it belongs."""
        if item.owner in self._blocked:
            self._blocked[item.owner].items.add(item.at_ms, item.id)
        elif lane.held(item.agent_id) < _HELD:
            lane.put(item)
        else:
            self._crowds.setdefault(item.owner, DueSet()).add(item.at_ms, item.id)

    def _may_start(self, item: Item, now_ms: int) -> bool:
        """Report whether an item may start; put it where it waits if not."""
        if item.id in self._running:
            return False
        if item.at_ms > now_ms:  # the clock was set back
            self._due.add(item.at_ms, item.id)
        elif item.owner in self._blocked:
            self._blocked[item.owner].items.add(item.at_ms, item.id)
        elif item.flight in self._waiting:
            self._waiting[item.flight].append(item)
        else:
            return True
        return False

    def _has_room(self, agent_id: str) -> bool:
        return self._of_agent[agent_id] < self._share

    def _put(self, item: Item, now_ms: int, *, first: bool) -> None:
        lane = self._late if self.is_late(item, now_ms) else self._on_time
        lane.put(item, first=first)

    def _refill(self, at: float) -> None:
        gained = max(0.0, at - self._tokens_at) * self._pace.late_per_s
        self._tokens = min(float(self._pace.late_burst), self._tokens + gained)
        self._tokens_at = at

    def _waits(self, now_ms: int, at: float) -> Iterator[float]:
        if self._postponed:
            yield self._postponed[0][0] - at
        if self._blocked:
            yield min(blocked.retry_at for blocked in self._blocked.values()) - at
        if len(self._running) >= self._pace.workers:
            return  # what else is due waits for one of them to end
        earliest = self._earliest(0)
        late_before = now_ms - self._late_ms
        if self._late.next_agent(self._has_room) or (earliest is not None and earliest <= late_before):
            yield (1 - self._tokens) / self._pace.late_per_s
        upcoming = self._earliest(max(0, late_before + 1))
        if upcoming is not None:
            yield min(STEP_S, (upcoming - now_ms) / 1000)

    def _earliest(self, since_ms: int) -> int | None:
        """Return when the first wake is due that could start then."""
        sets = [self._due, *(crowd for owner, crowd in self._crowds.items() if self._has_room(owner[0]))]
        instants = (found for one in sets if (found := one.earliest(since_ms)) is not None)
        return min(instants, default=None)


@dataclass(slots=True)
class _Looks:
    """How many records a step may still read."""

    left: int
