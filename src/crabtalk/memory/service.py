"""The memories of agents: kept in the store, ranked in memory, found by words.

What an agent remembers is read when it is first asked for, in a thread, and kept as long as there is room. A
change is committed before it is seen. Used from trio's thread only.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final
from weakref import WeakValueDictionary

import trio

from crabtalk.clock import Clock
from crabtalk.errors import NotFound, TooLarge
from crabtalk.ids import new_id
from crabtalk.memory.ranking import ALIAS, CONTENT, NAME, Ranking
from crabtalk.search.words import words
from crabtalk.store.engine import Engine, Write
from crabtalk.store.interfaces.memories import Memories, MemoryRecord

MAX_NAME: Final = 128  # characters
MAX_NOTES: Final = 5000  # of an agent, as the next ones
MAX_NOTES_BYTES: Final = 4 << 20
MAX_ARCHIVES: Final = 200  # the oldest go
MAX_ARCHIVE_CHARACTERS: Final = 256 << 10
ARCHIVE: Final = 0.5  # how much an archive weighs beside a note: it says more of everything
_RANKED_CHARACTERS: Final = 8192  # of an archive: what its summary says at first
_KEPT_BYTES: Final = 16 << 20  # of text, whose words take several times that; picked, not measured


@dataclass(frozen=True, slots=True)
class Recalled:
    """One memory that answers a question."""

    record: MemoryRecord
    score: float


@dataclass(slots=True)
class _Mind:
    """What one agent remembers, as it is used."""

    records: dict[str, MemoryRecord] = field(default_factory=dict)
    ranking: Ranking = field(default_factory=Ranking)
    notes: int = 0
    notes_bytes: int = 0

    def put(self, record: MemoryRecord) -> None:
        self.remove(_key(record))
        self.records[_key(record)] = record
        self.ranking.put(_key(record), _fields(record), 1.0 if record.kind == "note" else ARCHIVE)
        if record.kind == "note":
            self.notes += 1
            self.notes_bytes += _size(record)

    def remove(self, key: str) -> None:
        record = self.records.pop(key, None)
        self.ranking.remove(key)
        if record is not None and record.kind == "note":
            self.notes -= 1
            self.notes_bytes -= _size(record)


class MemoryService:
    """Remembers, recalls and forgets for every agent."""

    def __init__(self, store: Engine, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._memories = Memories(store)
        self._minds: OrderedDict[str, _Mind] = OrderedDict()
        self._locks: WeakValueDictionary[str, trio.Lock] = WeakValueDictionary()
        self._changes = 0  # made by others

    async def remember(self, agent_id: str, name: str, content: str, aliases: Sequence[str] = ()) -> bool:
        """Keep a note under a name, and report whether there was one that it replaces.

        Raises:
            TooLarge: if the agent remembers too much already.
            StoreError: if the store does not work.
        """
        async with self._lock(agent_id):
            mind = await self._mind(agent_id)
            now_ms = self._clock.now_ms()
            old = mind.records.get(f"note/{name}")
            created_ms = old.created_ms if old is not None else now_ms
            record = MemoryRecord(name, agent_id, "note", name, tuple(aliases), content, created_ms, now_ms)
            _check_room(mind, old, record)
            await self._store.commit(self._memories.save(record))
            mind.put(record)
        return old is not None

    async def recall(self, agent_id: str, query: str, limit: int) -> list[Recalled]:
        """Return the memories that have words of `query`, the best first; the latest if it has no word.

        Raises:
            StoreError: if the store does not work.
        """
        async with self._lock(agent_id):
            mind = await self._mind(agent_id)
        asked = words(query)
        if not asked:
            latest = sorted(mind.records.values(), key=lambda one: one.updated_ms, reverse=True)
            return [Recalled(one, 0.0) for one in latest[:limit]]
        return [
            Recalled(mind.records[key], round(score, 4)) for key, score in mind.ranking.rank(asked)[:limit]
        ]

    async def forget(self, agent_id: str, name: str) -> None:
        """Remove the note, or else the archives, of a name.

        Raises:
            NotFound: if nothing is remembered by it.
            StoreError: if the store does not work.
        """
        async with self._lock(agent_id):
            mind = await self._mind(agent_id)
            found = [one for one in mind.records.values() if one.name == name]
            gone = [one for one in found if one.kind == "note"] or found
            if not gone:
                raise NotFound(f"nothing is remembered as `{name[:80]}`")
            await self._store.commit([write for one in gone for write in self._memories.remove(one)])
            for one in gone:
                mind.remove(_key(one))

    def archive_writes(self, agent_id: str, title: str, text: str, now_ms: int) -> list[Write]:
        """Return what keeps an archive, for the caller's batch; `changed` has to be called after it."""
        name = " ".join(title.split())[:MAX_NAME] or f"conversation until {instant(now_ms)}"
        text = text[:MAX_ARCHIVE_CHARACTERS]
        record = MemoryRecord(new_id(), agent_id, "archive", name, (), text, now_ms, now_ms)
        return [*self._memories.oldest_archives(agent_id, MAX_ARCHIVES - 1), *self._memories.save(record)]

    def changed(self, agent_id: str) -> None:
        """Take note that something was committed for an agent, or that it is gone."""
        self._changes += 1
        self._minds.pop(agent_id, None)

    def forgetting(self, agent_id: str) -> list[Write]:
        """Return what removes the memories of an agent that goes."""
        return self._memories.forget_agent(agent_id)

    def _lock(self, agent_id: str) -> trio.Lock:
        # Whoever holds or waits for a lock keeps it alive.
        return self._locks.setdefault(agent_id, trio.Lock())

    async def _mind(self, agent_id: str) -> _Mind:
        """Return what an agent remembers; the caller holds its lock."""
        while (mind := self._minds.get(agent_id)) is None:
            changes = self._changes
            mind = await trio.to_thread.run_sync(self._read, agent_id)
            if changes == self._changes:  # else it may lack what was committed meanwhile
                self._minds[agent_id] = mind
        self._minds.move_to_end(agent_id)
        self._make_room()
        return mind

    def _read(self, agent_id: str) -> _Mind:
        mind = _Mind()
        for record in sorted(self._memories.of_agent(agent_id), key=lambda one: one.updated_ms):
            mind.put(record)
        return mind

    def _make_room(self) -> None:
        used = sum(mind.notes_bytes + _RANKED_CHARACTERS for mind in self._minds.values())
        while used > _KEPT_BYTES and len(self._minds) > 1:
            _, gone = self._minds.popitem(last=False)
            used -= gone.notes_bytes + _RANKED_CHARACTERS


def instant(ms: int) -> str:
    """Return an instant as people read it."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="seconds")


def _check_room(mind: _Mind, old: MemoryRecord | None, new: MemoryRecord) -> None:
    notes = mind.notes + (old is None)
    size = mind.notes_bytes + _size(new) - (_size(old) if old is not None else 0)
    if notes > MAX_NOTES:
        raise TooLarge(f"there are {MAX_NOTES} notes already: forget some first")
    if size > MAX_NOTES_BYTES:
        raise TooLarge(f"the notes would be more than {MAX_NOTES_BYTES} bytes: forget some first")


def _key(record: MemoryRecord) -> str:
    return f"{record.kind}/{record.id}"


def _fields(record: MemoryRecord) -> list[tuple[float, list[str]]]:
    said = record.content if record.kind == "note" else record.content[:_RANKED_CHARACTERS]
    aliases = [word for alias in record.aliases for word in words(alias)]
    return [(NAME, words(record.name)), (ALIAS, aliases), (CONTENT, words(said))]


def _size(record: MemoryRecord) -> int:
    return len(record.content.encode()) + sum(len(one.encode()) for one in (record.name, *record.aliases))
