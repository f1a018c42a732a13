"""One piece of work on its way through the executor: what it is, where it stands, its guest's gate."""

import math
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from types import TracebackType
from typing import Final, Literal, Protocol

import trio

from crabtalk.chains import Chain
from crabtalk.declarations import Bounds
from crabtalk.tickets import NEW, State, Ticket
from crabtalk.tools import CALL, Context, Outcome, Trapped
from crabtalk.turns import Threads
from crabtalk.watchdog import GRACE_S
from crabtalk.work import Running, Work
from crabtalk.work_queue import WorkQueue

# How a provider is called: the outcome at once, or what to await for it.
Call = Callable[[Context, str, bytes], Outcome | Awaitable[Outcome]]


_STATES: Final[dict[State, Literal["queued", "running", "suspended"]]] = {
    State.PARKED: "queued",
    State.QUEUED: "queued",
    State.URGENT: "suspended",
    State.RUNNING: "running",
    State.SUSPENDED: "suspended",
}


class Place(Protocol):
    """Where runs stand in line."""

    @property
    def queue(self) -> WorkQueue:
        """The queue that they are tickets of."""

    @property
    def threads(self) -> Threads:
        """The threads that their guests share."""

    def start_ready(self) -> None:
        """Start what may run now."""


class Run(Ticket):
    """A ticket of the queue with its work; also the gate that its guest is given."""

    __slots__ = (
        "began",
        "bounds",
        "call",
        "chain",
        "deadline",
        "depth",
        "followers",
        "id",
        "left_s",
        "place",
        "scope",
        "standing",
        "started_ms",
        "started_s",
        "stopped_because",
        "woken",
        "work",
    )

    def __init__(  # noqa: PLR0913, PLR0917 - by place, as one is made for every call
        self,
        work: Work,
        id: str,  # noqa: A002 - the word of the audit
        bounds: Bounds,
        call: Call,
        chain: Chain,
        depth: int,
        place: Place,
        started_ms: int,
        started_s: float,
    ) -> None:
        # As Ticket makes itself, without the call.
        self.interactive = work.interactive
        self.key = work.key
        self.inherits = work.trigger is CALL
        self.state = NEW
        self.owner = None
        self.size_bytes = 0
        self.holds_key = False
        self.work = work
        self.id = id
        self.bounds = bounds
        self.call = call
        self.chain = chain
        self.depth = depth
        self.place = place
        self.started_ms = started_ms  # wall clock: when it began, before that when it was accepted
        self.started_s = started_s  # monotonic, likewise
        self.began = False  # whether the guest was ever called
        self.deadline = math.inf  # an instant of trio's clock
        self.standing = 0  # how many reasons there are for it to stand still
        self.left_s = 0.0  # until the deadline, while it does
        self.followers: list[trio.CancelScope] | None = None  # that end at the deadline, beside `scope`
        self.scope: trio.CancelScope | None = None  # of a run that did not end at once
        self.woken: trio.Event | None = None  # set when its turn has come
        self.stopped_because = ""

    @property
    def threads(self) -> Threads:
        """The threads that all guests share."""
        return self.place.threads

    def stop(self, reason: str) -> None:
        """Cancel a run that did not end at once; its outcome says `reason`."""
        if self.scope is not None and not self.stopped_because:
            self.stopped_because = reason
            self.scope.cancel()

    def wake(self) -> None:
        """Say that its turn has come."""
        if self.woken is not None:
            self.woken.set()

    def suspended(self, touched_bytes: int = 0) -> AbstractAsyncContextManager[None]:
        """Give the slot away for a while; see `tools.Gate`."""
        return _Suspension(self, touched_bytes)

    @contextmanager
    def bounded(self) -> Iterator[trio.CancelScope]:
        """Cancel the block at the deadline; see `tools.Gate`."""
        with trio.CancelScope(deadline=self.deadline) as scope:
            self.followers = [*(self.followers or ()), scope]
            try:
                yield scope
            finally:
                self.followers.remove(scope)

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        """Let no time pass; see `tools.Gate`."""
        caller = self.work.caller
        with caller.standing_still() if caller is not None else nullcontext():
            self.standing += 1
            if self.standing == 1:
                self.left_s = self.deadline - trio.current_time()
                self._move_deadline(math.inf)
            try:
                yield
            finally:
                self.standing -= 1
                if not self.standing:
                    self._move_deadline(trio.current_time() + self.left_s)

    def _move_deadline(self, deadline: float) -> None:
        self.deadline = deadline
        for scope in self.followers or ():
            scope.deadline = deadline
        if self.scope is not None:
            self.scope.deadline = deadline + GRACE_S

    def shown(self) -> Running:
        """Return what is seen of it while it has not ended."""
        work = self.work
        waits = self.state is State.URGENT and not self.began  # a callee, whose harness is busy
        return Running(
            self.id,
            work.trigger,
            work.agent,
            work.harness,
            work.entry,
            self.started_ms,
            self.depth,
            self.chain.id,
            work.session,
            "queued" if waits else _STATES[self.state],
        )

    def ending_when_stopped(self, now_s: float) -> Trapped:
        """Return the outcome of a guest that was cancelled, by its deadline or by somebody."""
        if self.stopped_because:
            return Trapped(
                "cancelled", self.stopped_because, sentence="the tool was stopped and gave no result"
            )
        return Trapped(
            "deadline",
            f"not finished after {now_s - self.started_s:.3g} s",
            sentence="the tool took too long and was stopped",
        )


class _Suspension(AbstractAsyncContextManager[None]):
    """The time in which a guest waits for something."""

    def __init__(self, run: Run, size_bytes: int) -> None:
        self._run = run
        self._size_bytes = size_bytes

    async def __aenter__(self) -> None:
        """Give the slot away.

        Raises:
            Overloaded: if too many guests are suspended already.
        """
        place = self._run.place
        place.queue.suspend(self._run, self._size_bytes)
        place.start_ready()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take a slot again.

        **Cancellation:** it has a slot then too, since it has to clean up.
        """
        run, queue = self._run, self._run.place.queue
        if queue.resume(run, at_once=kind is not None):
            return
        run.woken = trio.Event()
        try:
            await run.woken.wait()
        except BaseException:
            if run.state is State.URGENT:
                queue.resume(run, at_once=True)
            raise
