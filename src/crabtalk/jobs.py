"""The requests of a connection that are not answered yet: which there are, who waits, what is cancelled.

State only: nothing here runs, sends or waits.
"""

from collections import deque
from collections.abc import Awaitable, Collection
from dataclasses import dataclass
from dataclasses import field as default
from typing import Any

import trio

from crabtalk.dispatch import CANCELLABLE
from crabtalk.errors import Busy, Conflict, RequestError
from crabtalk.wire.pb import crabtalk_pb2 as pb


@dataclass(slots=True, eq=False)
class Job:
    """A request that was not answered at once."""

    field: str
    request_id: int | None
    work: Awaitable[pb.ServerMessage | None] | None = None  # a stream's is set when it has been opened
    subscription: bool = False
    held_bytes: int = 0  # of the server's budget
    lost: int = 0  # events that there was no room for
    cause: RequestError | None = None  # why it was cancelled
    scope: trio.CancelScope = default(default_factory=trio.CancelScope)

    @property
    def cancellable(self) -> bool:
        """Whether it ends with its connection; everything else is finished for whoever asks later."""
        return self.subscription or self.field in CANCELLABLE

    def cancel(self, cause: RequestError) -> None:
        """Stop it; the first cause is the one that is told."""
        if self.cause is None:
            self.cause = cause
            self.scope.cancel()


@dataclass(frozen=True, slots=True)
class Waiting:
    """A request without an id, that is served after those before it."""

    field: str
    body: Any
    size_bytes: int


class Jobs:
    """All of a connection."""

    def __init__(self, limit: int, waiting_limit: int, waiting_bytes: int) -> None:
        """Let `limit` requests run, and as many wait as the other two allow."""
        self._limit = limit
        self._waiting_limit = waiting_limit
        self._waiting_bytes_limit = waiting_bytes
        self._jobs: set[Job] = set()
        self._by_id: dict[int, Job] = {}
        self._ordered: Job | None = None  # the one without an id that others wait for
        self._waiting: deque[Waiting] = deque()
        self._waiting_bytes = 0
        self._ended: RequestError | None = None  # why no more are let in

    def __len__(self) -> int:
        return len(self._jobs) + len(self._waiting)

    @property
    def crowded(self) -> bool:
        """Whether no more requests should be read until some that wait are served."""
        return len(self._waiting) >= self._waiting_limit or self._waiting_bytes >= self._waiting_bytes_limit

    @property
    def room(self) -> int:
        """How many more requests may run."""
        return self._limit - len(self._jobs)

    def has_to_wait(self, request_id: int | None) -> bool:
        """Say whether a request without an id is before this one, which has none either."""
        return request_id is None and (self._ordered is not None or bool(self._waiting))

    def wait(self, waiting: Waiting) -> None:
        """Keep a request until `next_waiting` returns it."""
        self._waiting.append(waiting)
        self._waiting_bytes += waiting.size_bytes

    def next_waiting(self) -> Waiting | None:
        """Return the request that may be served now, if there is one."""
        if self._ordered is not None or not self._waiting:
            return None
        waiting = self._waiting.popleft()
        self._waiting_bytes -= waiting.size_bytes
        return waiting

    def check(self, request_id: int | None, *, always: bool) -> None:
        """Refuse a request that cannot be let in; `always` is for those that never take room.

        Raises:
            Conflict: if its id is in use.
            Busy: if there are too many.
            RequestError: the cause given to `cancel_all`, after that.
        """
        if self._ended is not None:
            raise self._ended
        if request_id in self._by_id:
            raise Conflict(f"request id {request_id} is in use by a request that is not answered yet")
        if len(self._jobs) >= self._limit and not always:
            raise Busy(f"{self._limit} requests of this connection are not answered yet")

    def let_in(self, request_ids: Collection[int]) -> bool:
        """Report whether all of some requests may be let in; else `check` says of each why it may not."""
        return (
            self._ended is None
            and len(self._jobs) + len(request_ids) <= self._limit
            and self._by_id.keys().isdisjoint(request_ids)
        )

    def add(self, job: Job) -> None:
        """Note a request that runs."""
        self._jobs.add(job)
        if job.request_id is not None:
            self._by_id[job.request_id] = job
        elif not job.subscription:
            self._ordered = job

    def remove(self, job: Job) -> None:
        """Note its end."""
        self._jobs.discard(job)
        if job.request_id is not None:
            del self._by_id[job.request_id]
        elif self._ordered is job:
            self._ordered = None

    def cancel(self, request_id: int, cause: RequestError) -> None:
        """Cancel one, if it runs and can be cancelled."""
        job = self._by_id.get(request_id)
        if job is not None and job.cancellable:
            job.cancel(cause)

    def cancel_all(self, cause: RequestError) -> None:
        """Let no more in, those that wait included, and cancel those that can be."""
        self._ended = cause
        for job in list(self._jobs):
            if job.cancellable:
                job.cancel(cause)

    def end_lossy(self) -> None:
        """Cancel the subscriptions that have lost events."""
        for job in list(self._jobs):
            if job.lost:
                job.cancel(Busy("events were lost"))
