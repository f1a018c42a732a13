"""Memories: notes that an agent keeps by name, and archives of conversations that were summed up."""

from dataclasses import dataclass
from typing import Final, Literal

from crabtalk.store.engine import Reader, Write, delete, entries, keys, put
from crabtalk.store.keys import key, prefix
from crabtalk.store.records import Codec

COLUMN: Final = "memory"
KINDS: Final[tuple[Literal["note", "archive"], ...]] = ("note", "archive")


@dataclass(frozen=True, slots=True)
class MemoryRecord:
    """One memory of an agent."""

    id: str  # of a note, its name; of an archive, a ULID
    agent_id: str
    kind: Literal["note", "archive"]
    name: str
    aliases: tuple[str, ...]  # other words that it is found by
    content: str
    created_ms: int
    updated_ms: int


_CODEC: Final = Codec(MemoryRecord)


class Memories:
    """Reads memories, and says what to write for them."""

    def __init__(self, engine: Reader) -> None:
        self._engine = engine

    def of_agent(self, agent_id: str) -> list[MemoryRecord]:
        """Return what an agent remembers: notes by name, then archives, the oldest first.

        Raises:
            StoreError: if one is damaged; every reading method may.
        """
        return [
            _CODEC.decode(COLUMN, at, raw)
            for kind in KINDS
            for at, raw in entries(self._engine, COLUMN, prefix(kind, agent_id))
        ]

    def all(self) -> list[MemoryRecord]:
        """Return what all agents remember."""
        return [
            _CODEC.decode(COLUMN, at, raw)
            for kind in KINDS
            for at, raw in entries(self._engine, COLUMN, prefix(kind))
        ]

    def get(self, agent_id: str, kind: str, memory_id: str) -> MemoryRecord | None:
        """Return one memory, None if there is none."""
        at = key(kind, agent_id, memory_id)
        raw = self._engine.get(COLUMN, at)
        return None if raw is None else _CODEC.decode(COLUMN, at, raw)

    def save(self, record: MemoryRecord) -> list[Write]:
        """Return what stores a memory, new or changed."""
        return [put(COLUMN, key(record.kind, record.agent_id, record.id), _CODEC.encode(record))]

    def remove(self, record: MemoryRecord) -> list[Write]:
        """Return what removes a memory."""
        return [delete(COLUMN, key(record.kind, record.agent_id, record.id))]

    def oldest_archives(self, agent_id: str, but: int) -> list[Write]:
        """Return what removes all archives of an agent except the newest `but`."""
        found = list(keys(self._engine, COLUMN, prefix("archive", agent_id)))
        return [delete(COLUMN, at) for at in found[: max(0, len(found) - but)]]

    def forget_agent(self, agent_id: str) -> list[Write]:
        """Return what removes everything that an agent remembers."""
        return [
            delete(COLUMN, at) for kind in KINDS for at in keys(self._engine, COLUMN, prefix(kind, agent_id))
        ]
