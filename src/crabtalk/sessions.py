"""Sessions: made, listed and removed; what is said in them is the business of turns.

A session names a directory that narrows its agent's `{session}` roots, and gathers what a client did. Its
handle is the client's own; two of one handle there are not. Used from trio's thread only.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from crabtalk.clock import Clock
from crabtalk.errors import BadRequest, Conflict, NotFound, TooLarge
from crabtalk.store.engine import Engine, Write
from crabtalk.store.interfaces.agents import AgentRecord
from crabtalk.store.interfaces.sessions import MessageRecord, SessionRecord, Sessions

MAX_HANDLE_BYTES: Final = 256
MAX_SENDER_BYTES: Final = 256
MAX_ROOT_BYTES: Final = 4095
# What the daemon itself starts has handles of its own (`send:CHAIN:N`), which nobody opens from outside.
RESERVED: Final = ("send:", "wake:", "event:")


class SessionService:
    """Reads and changes sessions."""

    def __init__(self, store: Engine, clock: Clock) -> None:
        self._store = store
        self._records = Sessions(store)
        self._clock = clock
        self._being_made: set[str] = set()
        self._hooks: list[tuple[Callable[[str], Sequence[Write]], Callable[[str], None]]] = []

    def get(self, handle: str) -> SessionRecord:
        """Return a session.

        Raises:
            NotFound: if there is none.
        """
        record = self.find(handle)
        if record is None:
            raise NotFound(f"there is no session `{handle[:80]}`")
        return record

    def find(self, handle: str) -> SessionRecord | None:
        """Return a session, None if there is none."""
        # What cannot be a handle is not looked up: the store has a bound on keys.
        return self._records.get(handle) if 0 < len(handle.encode()) <= MAX_HANDLE_BYTES else None

    def of(self, agent: AgentRecord, handle: str) -> SessionRecord:
        """Return a session of an agent.

        Raises:
            NotFound: if there is none.
            BadRequest: if it is another agent's.
        """
        record = self.get(handle)
        if record.agent_id != agent.id:
            raise BadRequest(f"session `{handle[:80]}` is not one of agent {agent.name}")
        return record

    def matching(self, agent_id: str = "", sender: str = "") -> list[SessionRecord]:
        """Return the sessions of an agent and a sender, where they are given, the newest first."""
        found = self._records.of_agent(agent_id) if agent_id else self._records.all()
        chosen = [one for one in found if not sender or one.sender == sender]
        return sorted(chosen, key=lambda one: (one.updated_ms, one.handle), reverse=True)

    def messages(self, record: SessionRecord, first: int = 0) -> list[MessageRecord]:
        """Return what was said in a session from a message on, in order; also from another thread."""
        found: list[MessageRecord] = []
        while page := self._records.messages(record.handle, found[-1].index if found else first - 1):
            found += page
        return found

    async def create(self, handle: str, agent: AgentRecord, sender: str, root: str | None) -> SessionRecord:
        """Make a session.

        Raises:
            Conflict: if the handle is taken.
            BadRequest: if the handle or the root cannot be one; TooLarge: if they or the sender are too long.
            StoreError: if the store does not work.
        """
        with self.making(handle, agent, sender, root) as record:
            await self._store.commit(self._records.save(record))
        return record

    @contextmanager
    def making(
        self, handle: str, agent: AgentRecord, sender: str, root: str | None = None, *, ours: bool = False
    ) -> Iterator[SessionRecord]:
        """Return a session that is to be stored before the block ends; `ours` is one of the daemon's own.

        Raises:
            Conflict, BadRequest, TooLarge: as `create`.
        """
        _check(handle, sender, root, ours=ours)
        if handle in self._being_made or self._records.get(handle) is not None:
            raise Conflict(f"session `{handle}` exists already")
        now_ms = self._clock.now_ms()
        self._being_made.add(handle)
        try:
            yield SessionRecord(handle, agent.id, sender, root or None, "", now_ms, now_ms)
        finally:
            self._being_made.discard(handle)

    def check_new(self, handle: str, sender: str) -> None:
        """Return if a client may open a session of this handle.

        Raises:
            BadRequest: if it cannot be one; TooLarge: if it, or the sender, is too long.
        """
        _check(handle, sender, None)

    async def delete(self, record: SessionRecord) -> None:
        """Remove a session with all that is in it.

        Raises:
            StoreError: if the store does not work.
        """
        writes = [write for hook, _ in self._hooks for write in hook(record.handle)]
        await self._store.commit([*self._records.remove(record), *writes])
        for _, forgotten in self._hooks:
            forgotten(record.handle)

    def on_delete(self, writes: Callable[[str], Sequence[Write]], forgotten: Callable[[str], None]) -> None:
        """Let `writes` go into the batch that deletes a session, and call `forgotten` when it is stored."""
        self._hooks.append((writes, forgotten))

    def forgetting(self, agent_id: str) -> Sequence[Write]:
        """Return what removes the sessions of an agent that goes."""
        records = self._records.of_agent(agent_id)
        return [write for record in records for write in self._records.remove(record)]


def _check(handle: str, sender: str, root: str | None, *, ours: bool = False) -> None:
    for what, text, limit in (
        ("session_handle", handle, MAX_HANDLE_BYTES),
        ("sender", sender, MAX_SENDER_BYTES),
        ("root", root or "", MAX_ROOT_BYTES),
    ):
        if len(text.encode()) > limit:
            raise TooLarge(f"{what}: expected at most {limit} bytes, got {len(text.encode())}")
        if not text.isprintable():
            raise BadRequest(f"{what}: expected text without control characters")
    if not handle:
        raise BadRequest("session_handle: expected a handle, got nothing")
    for start in RESERVED:
        if handle.startswith(start) and not ours:
            raise BadRequest(f"session_handle: handles that start with `{start}` are the daemon's own")
