"""Skills: texts that an agent can look up, by name."""

from dataclasses import dataclass
from typing import Final

from crabtalk.store.engine import Reader, Write, delete, entries, put
from crabtalk.store.keys import key, prefix
from crabtalk.store.records import Codec

COLUMN: Final = "skill"


@dataclass(frozen=True, slots=True)
class SkillRecord:
    """One text, and the line that says when to read it."""

    name: str
    description: str
    body: str
    updated_ms: int


_CODEC: Final = Codec(SkillRecord)


class Skills:
    """Reads skills, and says what to write for them."""

    def __init__(self, engine: Reader) -> None:
        self._engine = engine

    def all(self) -> list[SkillRecord]:
        """Return every skill, by name.

        Raises:
            StoreError: if one is damaged; every reading method may.
        """
        rows = entries(self._engine, COLUMN, prefix("name"))
        return [_CODEC.decode(COLUMN, at, raw) for at, raw in rows]

    def get(self, name: str) -> SkillRecord | None:
        """Return one skill, None if there is none."""
        at = key("name", name)
        raw = self._engine.get(COLUMN, at)
        return None if raw is None else _CODEC.decode(COLUMN, at, raw)

    def save(self, record: SkillRecord) -> list[Write]:
        """Return what stores a skill, new or changed."""
        return [put(COLUMN, key("name", record.name), _CODEC.encode(record))]

    def remove(self, name: str) -> list[Write]:
        """Return what removes a skill."""
        return [delete(COLUMN, key("name", name))]
