"""Accepted work in order: who may run now, who waits, who is refused. Pure: no clock, no tasks, no guests.

Owns every limit on how much runs at once. A *ticket* is one piece of work; its *owner* is a harness of an
agent. Whoever changes a ticket's state asks `start_ready` next and starts what it returns.

Strategy: two classes, interactive before background, with every `_TURNS`th start left to the background.
Within a class agents take turns, within an agent its harnesses do, within a harness it is first come, first
served. Rings hold only what could start now, so that a choice never looks at work that is blocked. A guest
that was suspended takes its place again before new work of its harness, and never waits for other agents.
"""

from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from crabtalk.errors import Busy
from crabtalk.rates import Bucket, Rate
from crabtalk.tickets import ENDED, RUNNING, Agent, Owner, State, Ticket

_T = TypeVar("_T")

_TURNS: Final = 8  # starts of waiting interactive work for one of the background; picked, not measured
_IDLE_OWNERS: Final = 4096  # owners without work that are remembered for their rate
_INTERACTIVE: Final = 0
_BACKGROUND: Final = 1


class Overloaded(Busy):
    """Work that was not accepted; `retry_after_s` says when it may be, 0.0 where nobody knows."""

    def __init__(self, message: str, retry_after_s: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLimits:
    """How much may run and wait."""

    slots: int = 256  # runnable guests
    slots_of_agent: int = 64
    background_slots: int = 192  # of `slots`; the others are left for people who wait
    queued: int = 1024
    queued_of_agent: int = 256
    suspended: int = 1000
    suspended_of_harness: int = 64
    suspended_bytes: int = 1 << 30
    rate: Rate | None = None  # of all starts together


@dataclass(frozen=True, slots=True)
class QueueStatistics:
    """How much runs and waits."""

    running: int
    queued: int
    suspended: int
    suspended_bytes: int


class WorkQueue:
    """The one queue; used from one thread."""

    def __init__(self, limits: QueueLimits) -> None:
        self._limits = limits
        self._agents: dict[str, Agent] = {}
        self._owners: dict[tuple[str, str], Owner] = {}
        self._ready: tuple[OrderedDict[Agent, None], ...] = (OrderedDict(), OrderedDict())  # by class
        self._freed: deque[Owner] = deque()  # owners whose urgent work may have room now
        self._running = 0
        self._background = 0  # of `_running`
        self._queued = 0
        self._suspended = 0
        self._suspended_bytes = 0
        self._bucket = Bucket()  # of the rate of all
        self._sweep_at = _IDLE_OWNERS
        self._turns = 0  # interactive starts since the last one of waiting background work

    @property
    def waiting(self) -> bool:
        """Whether `start_ready` may have something to start."""
        return bool(self._queued or self._freed)

    def statistics(self) -> QueueStatistics:
        """Count what runs and waits."""
        return QueueStatistics(self._running, self._queued, self._suspended, self._suspended_bytes)

    def admit(
        self,
        ticket: Ticket,
        owner: tuple[str, str],
        *,
        concurrency: int,
        rate: Rate | None = None,
        now_s: float = 0.0,
        may_wait: bool = True,
    ) -> bool:
        """Accept a new ticket; True: it runs from now on, False: it waits for `start_ready`.

        `owner` is (agent id, harness), `concurrency` and `rate` are what its declaration says now. One that
        may not wait is left NEW where it would have to, and nothing has happened.

        Raises:
            Overloaded: if it is not accepted.
        """
        place = self._owners.get(owner) or self._new_owner(owner)
        place.concurrency = concurrency
        if self._suspended:
            self._check_suspended(place)
        tokens = 0.0 if rate is None else _tokens(place.bucket, rate, now_s, f"of `{place.harness}`")
        of_all = self._limits.rate
        tokens_of_all = 0.0 if of_all is None else _tokens(self._bucket, of_all, now_s, "of all harnesses")
        runs = self._has_room(place, ticket)
        if not may_wait and (not runs or ticket.key in place.keys):
            return False
        if not runs:
            self._check_queue(place.agent)
        if rate is not None:
            place.bucket.take(tokens, now_s)
        if of_all is not None:
            self._bucket.take(tokens_of_all, now_s)
        ticket.owner = place
        if ticket.key is not None and not self._take_key(place, ticket):
            return False
        if runs:
            self._run(ticket, place)
        else:
            self._enqueue(ticket, place)
        return runs

    def withdraw(self, ticket: Ticket) -> None:
        """Take a ticket out that has not begun: as if it had never been admitted."""
        owner = ticket.owner
        self.finish(ticket)
        self.release_key(ticket)
        self._bucket.give_back()
        if owner is not None:
            owner.bucket.give_back()

    def start_ready(self) -> Sequence[Ticket]:
        """Let everything run that may now, and return it in the order in which to start it."""
        started: list[Ticket] = []
        while self._freed:
            owner = self._freed.popleft()
            while owner.urgent and owner.running < owner.concurrency:
                ticket, _ = owner.urgent.popitem(last=False)
                self._run(ticket, owner)
                started.append(ticket)
            self._refresh(owner)
        while self._running < self._limits.slots and (chosen := self._pick()) is not None:
            started.append(chosen)
        return started

    def suspend(self, ticket: Ticket, size_bytes: int) -> None:
        """Take a running ticket's slot while its guest, of so many bytes, waits for something.

        Raises:
            Overloaded: if too many are suspended already; it goes on running then.
        """
        owner = _owner_of(ticket, RUNNING)
        self._check_suspended(owner, size_bytes)
        self._leave(ticket, owner)
        ticket.state = State.SUSPENDED
        ticket.size_bytes = size_bytes
        owner.suspended += 1
        self._suspended += 1
        self._suspended_bytes += size_bytes

    def resume(self, ticket: Ticket, *, at_once: bool = False) -> bool:
        """Let a suspended ticket run again: True now, False when `start_ready` returns it.

        `at_once` is for one that has to clean up: it runs, however many others do.
        """
        if ticket.state is State.URGENT and at_once:
            owner = _owner_of(ticket, State.URGENT)
            del owner.urgent[ticket]
        else:
            owner = _owner_of(ticket, State.SUSPENDED)
            self._end_suspension(ticket, owner)
        if at_once or owner.running < owner.concurrency:
            self._run(ticket, owner)
            return True
        ticket.state = State.URGENT
        owner.urgent[ticket] = None
        return False

    def finish(self, ticket: Ticket) -> None:
        """Take a ticket out, wherever it is; its key stays in flight until `release_key`."""
        owner = ticket.owner
        if owner is None or ticket.state is ENDED:
            return
        if ticket.state is RUNNING:
            self._leave(ticket, owner)
        elif ticket.state is State.SUSPENDED:
            self._end_suspension(ticket, owner)
        elif ticket.state is State.URGENT:
            del owner.urgent[ticket]
        elif ticket.state is State.QUEUED:
            del owner.waiting[_class_of(ticket)][ticket]
            self._dequeued(owner)
        elif ticket.state is State.PARKED and ticket.key is not None:
            owner.keys[ticket.key].remove(ticket)
            self._dequeued(owner)
        ticket.state = ENDED

    def release_key(self, ticket: Ticket) -> None:
        """Let the next ticket of the same owner and key have its turn."""
        owner, key = ticket.owner, ticket.key
        if owner is None or key is None or not ticket.holds_key:
            return
        ticket.holds_key = False
        parked = owner.keys[key]
        if not parked:
            del owner.keys[key]
            return
        following = parked.popleft()
        following.holds_key = True
        following.state = State.QUEUED
        owner.waiting[_class_of(following)][following] = None
        self._refresh(owner)

    def forget(self, agent_id: str) -> None:
        """Forget what the rates of an agent that is gone have left."""
        for name, owner in list(self._owners.items()):
            if name[0] == agent_id:
                owner.bucket.forget()
                self._maybe_drop(name, owner)

    # What may run

    def _has_room(self, owner: Owner, ticket: Ticket) -> bool:
        if owner.running >= owner.concurrency or owner.urgent:
            return False
        if ticket.inherits:
            return True
        limits = self._limits
        return (
            self._running < limits.slots
            and owner.agent.running < limits.slots_of_agent
            and not owner.waiting[_INTERACTIVE]
            and (ticket.interactive or self._has_background_room(owner))
        )

    def _has_background_room(self, owner: Owner) -> bool:
        return self._background < self._limits.background_slots and not owner.waiting[_BACKGROUND]

    def _run(self, ticket: Ticket, owner: Owner) -> None:
        ticket.state = RUNNING
        owner.running += 1
        owner.agent.running += 1
        self._running += 1
        if not ticket.interactive:
            self._background += 1
        if self._queued:
            self._refresh(owner)

    def _leave(self, ticket: Ticket, owner: Owner) -> None:
        owner.running -= 1
        owner.agent.running -= 1
        self._running -= 1
        if not ticket.interactive:
            self._background -= 1
        if self._queued or owner.urgent:
            self._freed.append(owner)

    def _end_suspension(self, ticket: Ticket, owner: Owner) -> None:
        owner.suspended -= 1
        self._suspended -= 1
        self._suspended_bytes -= ticket.size_bytes

    def _pick(self) -> Ticket | None:
        """Choose waiting work of the class whose turn it is, let it run and return it."""
        interactive, background = self._ready
        if background and self._background < self._limits.background_slots:
            kind = _BACKGROUND if not interactive or self._turns >= _TURNS else _INTERACTIVE
        elif interactive:
            kind = _INTERACTIVE
        else:
            return None
        self._turns = 0 if kind == _BACKGROUND else self._turns + 1
        agent = next(iter(self._ready[kind]))
        owner = next(iter(agent.ready[kind]))
        self._ready[kind].move_to_end(agent)
        agent.ready[kind].move_to_end(owner)
        ticket, _ = owner.waiting[kind].popitem(last=False)
        self._run(ticket, owner)
        self._dequeued(owner)
        return ticket

    def _refresh(self, owner: Owner) -> None:
        """Put an owner and its agent into the rings of those that could start something, or take them out."""
        agent = owner.agent
        free = owner.running < owner.concurrency and not owner.urgent
        agent_free = agent.running < self._limits.slots_of_agent
        for kind in (_INTERACTIVE, _BACKGROUND):
            _set_member(agent.ready[kind], owner, wanted=free and bool(owner.waiting[kind]))
            _set_member(self._ready[kind], agent, wanted=agent_free and bool(agent.ready[kind]))

    # Who waits

    def _enqueue(self, ticket: Ticket, owner: Owner) -> None:
        if ticket.inherits:
            ticket.state = State.URGENT
            owner.urgent[ticket] = None
            return
        self._queued += 1
        owner.agent.queued += 1
        ticket.state = State.QUEUED
        owner.waiting[_class_of(ticket)][ticket] = None
        self._refresh(owner)

    def _dequeued(self, owner: Owner) -> None:
        self._queued -= 1
        owner.agent.queued -= 1
        self._refresh(owner)

    def _take_key(self, owner: Owner, ticket: Ticket) -> bool:
        """Put the key of a ticket in flight, or park the ticket behind the one that has it."""
        key = str(ticket.key)
        if key not in owner.keys:
            owner.keys[key] = deque()
            ticket.holds_key = True
            return True
        self._check_queue(owner.agent)
        owner.keys[key].append(ticket)
        ticket.state = State.PARKED
        self._queued += 1
        owner.agent.queued += 1
        return False

    # What is refused

    def _check_queue(self, agent: Agent) -> None:
        limits = self._limits
        if self._queued >= limits.queued:
            raise Overloaded(f"the queue is full: {limits.queued} calls wait already")
        if agent.queued >= limits.queued_of_agent:
            raise Overloaded(f"the queue of this agent is full: {limits.queued_of_agent} calls wait already")

    def _check_suspended(self, owner: Owner, size_bytes: int = 0) -> None:
        limits = self._limits
        if owner.suspended >= limits.suspended_of_harness:
            raise Overloaded(f"{owner.suspended} calls of `{owner.harness}` wait for something already")
        if self._suspended >= limits.suspended:
            raise Overloaded(f"{self._suspended} calls wait for something already")
        if self._suspended_bytes + size_bytes > limits.suspended_bytes:
            raise Overloaded(f"calls that wait for something hold {self._suspended_bytes} bytes already")

    def _new_owner(self, name: tuple[str, str]) -> Owner:
        if len(self._owners) >= self._sweep_at:
            for old_name, old in list(self._owners.items()):
                self._maybe_drop(old_name, old)
            self._sweep_at = max(_IDLE_OWNERS, 2 * len(self._owners))
        agent = self._agents.setdefault(name[0], Agent())
        agent.owners += 1
        owner = self._owners[name] = Owner(agent, name[1])
        return owner

    def _maybe_drop(self, name: tuple[str, str], owner: Owner) -> None:
        """Drop what is known of an owner that has no work, unless it is what its rate has left."""
        if not owner.idle or owner.bucket.known or owner in self._freed:
            return
        del self._owners[name]
        owner.agent.owners -= 1
        if not owner.agent.owners:
            del self._agents[name[0]]


def _tokens(bucket: Bucket, rate: Rate, now_s: float, whose: str) -> float:
    """Return what a rate has left, before this ticket takes one.

    Raises:
        Overloaded: if that is nothing.
    """
    tokens = bucket.filled(rate, now_s)
    if tokens < 1.0:
        wait_s = (1.0 - tokens) * rate.per_s / rate.count
        raise Overloaded(f"the rate {whose}, {rate}, is used up; again in {wait_s:.4g} s", wait_s)
    return tokens


def _owner_of(ticket: Ticket, expected: State) -> Owner:
    owner = ticket.owner
    if owner is None or ticket.state is not expected:
        raise ValueError(f"the ticket is {ticket.state.value}, not {expected.value}")
    return owner


def _class_of(ticket: Ticket) -> int:
    return _INTERACTIVE if ticket.interactive else _BACKGROUND


def _set_member(ring: OrderedDict[_T, None], item: _T, *, wanted: bool) -> None:
    if wanted:
        ring.setdefault(item)
    else:
        ring.pop(item, None)
