"""Harness images: ELF files by their sha256, and names that point at the newest bytes put under them.

Older bytes stay, since an agent may be pinned to them; who knows the pins removes what nobody needs.
"""

from dataclasses import dataclass
from typing import Final

from crabtalk.store.engine import Reader, Write, delete, entries, keys, put
from crabtalk.store.keys import key, parts_of, prefix
from crabtalk.store.records import Codec

COLUMN: Final = "harness"


@dataclass(frozen=True, slots=True)
class HarnessRecord:
    """A name, and the bytes it means now."""

    name: str
    sha256: str  # of the ELF, in hex
    size: int  # of the ELF, in bytes
    added_ms: int


_CODEC: Final = Codec(HarnessRecord)


class Harnesses:
    """Reads images, and says what to write for them."""

    def __init__(self, engine: Reader) -> None:
        self._engine = engine

    def all(self) -> list[HarnessRecord]:
        """Return every name, ascending.

        Raises:
            StoreError: if a record is damaged; every reading method may.
        """
        rows = entries(self._engine, COLUMN, prefix("name"))
        return [_CODEC.decode(COLUMN, at, raw) for at, raw in rows]

    def get(self, name: str) -> HarnessRecord | None:
        """Return what a name means, None if nothing."""
        at = key("name", name)
        raw = self._engine.get(COLUMN, at)
        return None if raw is None else _CODEC.decode(COLUMN, at, raw)

    def elf(self, sha256: str) -> bytes | None:
        """Return the bytes with this digest, None if they are not here; the caller verifies them."""
        return self._engine.get(COLUMN, key("elf", sha256))

    def digests(self) -> list[str]:
        """Return the sha256 of every stored ELF, ascending."""
        return [parts_of(at)[-1] for at in keys(self._engine, COLUMN, prefix("elf"))]

    def save(self, record: HarnessRecord, elf: bytes) -> list[Write]:
        """Return what stores an image and lets its name mean it."""
        return [
            put(COLUMN, key("elf", record.sha256), elf),
            put(COLUMN, key("name", record.name), _CODEC.encode(record)),
        ]

    def remove(self, name: str) -> list[Write]:
        """Return what forgets a name; its bytes stay."""
        return [delete(COLUMN, key("name", name))]

    def remove_elf(self, sha256: str) -> list[Write]:
        """Return what removes an image's bytes."""
        return [delete(COLUMN, key("elf", sha256))]
