"""Agents as they were declared: one record each, by id."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from crabtalk.store.engine import Reader, Write, delete, entries, put
from crabtalk.store.keys import key, prefix
from crabtalk.store.records import Codec

COLUMN: Final = "agent"


@dataclass(frozen=True, slots=True)
class AgentRecord:
    """One agent: who it is, and what was declared for it."""

    id: str  # a ULID; stays for life
    name: str  # a label, which may change
    config: Mapping[str, Any]  # the canonical declaration, without id and name; its harnesses have `sha256`
    created_ms: int
    updated_ms: int
    revision: int  # 1, and one more with each change


_CODEC: Final = Codec(AgentRecord)


class Agents:
    """Reads agents, and says what to write for them."""

    def __init__(self, engine: Reader) -> None:
        self._engine = engine

    def all(self) -> list[AgentRecord]:
        """Return every agent, by id.

        Raises:
            StoreError: if one is damaged; every reading method may.
        """
        rows = entries(self._engine, COLUMN, prefix("id"))
        return [_CODEC.decode(COLUMN, at, raw) for at, raw in rows]

    def get(self, agent_id: str) -> AgentRecord | None:
        """Return one agent, None if there is none."""
        at = key("id", agent_id)
        raw = self._engine.get(COLUMN, at)
        return None if raw is None else _CODEC.decode(COLUMN, at, raw)

    def save(self, record: AgentRecord) -> list[Write]:
        """Return what stores an agent, new or changed."""
        return [put(COLUMN, key("id", record.id), _CODEC.encode(record))]

    def remove(self, agent_id: str) -> list[Write]:
        """Return what removes an agent; what belongs to it is removed by whoever keeps it."""
        return [delete(COLUMN, key("id", agent_id))]
