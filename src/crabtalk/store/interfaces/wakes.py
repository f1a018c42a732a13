"""Wakes: instants at which harnesses are run.

A wake is a record under its id, and keys without values that lead there: by instant, so that a restart
fills the due-set from keys alone; by owner; by owner again, if the harness made it itself, so that those are
counted alone; by its owner's key, while it is pending. A running wake keeps its instant, so that a restart
after a crash finds it again, with the claim of the boot that ran it.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby, islice
from typing import Final, Literal, NamedTuple

from crabtalk.store.engine import Reader, Write, delete, end_of, entries, keys, put
from crabtalk.store.keys import DIGITS, key, parts_of, prefix, unescape
from crabtalk.store.records import Codec

COLUMN: Final = "wake"
_PAGE: Final = 10_000
_INSTANT: Final = slice(len(prefix("due")), len(prefix("due")) + DIGITS)


@dataclass(frozen=True, slots=True)
class ChainRecord:
    """What a stored wake or event remembers of the chain it came from."""

    id: str
    depth: int
    started_ms: int
    invocations_left: int
    fuel_left: int
    parent: str | None = None  # the id of the chain before this one
    tokens_left: int | None = None  # of models; None: it has used none that the record knows of


@dataclass(frozen=True, slots=True)
class WakeRecord:
    """One occurrence that is still to end."""

    id: str  # a ULID
    agent_id: str
    harness: str  # as declared
    at_ms: int
    payload: bytes
    key: str | None = None  # scheduling another one under it replaces this one
    attempt: int = 1  # grows when a crash made it start again
    state: Literal["pending", "running"] = "pending"
    claim: str | None = None  # while running: the id of the boot that runs it
    created_ms: int = 0
    chain: ChainRecord | None = None
    by: Literal["client", "harness"] = "client"  # who scheduled it


class Due(NamedTuple):
    """What the due-set needs of a wake; ordered as they fall due."""

    at_ms: int
    id: str


_CODEC: Final = Codec(WakeRecord)


class Wakes:
    """Reads wakes, and says what to write for them."""

    def __init__(self, engine: Reader) -> None:
        self._engine = engine

    def keys(self, after: Due | None = None, limit: int = 10_000) -> list[Due]:
        """Return the next wakes after `after`, running ones too, by instant; reads no records.

        Raises:
            StoreError: if something is damaged; every reading method may.
        """
        beyond = None if after is None else key("due", after.at_ms, after.id)
        return [_due(at) for at in self._engine.scan_keys(COLUMN, prefix("due"), beyond, limit)]

    def get(self, wake_id: str) -> WakeRecord | None:
        """Return one wake, None if it has ended or never was."""
        at = key("id", wake_id)
        raw = self._engine.get(COLUMN, at)
        return None if raw is None else _CODEC.decode(COLUMN, at, raw)

    def all(self) -> Iterator[WakeRecord]:
        """Walk every wake, by id."""
        for at, raw in entries(self._engine, COLUMN, prefix("id"), page=100):
            yield _CODEC.decode(COLUMN, at, raw)

    def by_owner(
        self, agent_id: str, harness: str | None = None, limit: int | None = None
    ) -> list[WakeRecord]:
        """Return the first wakes of a harness, or of all of an agent's, each harness's by instant."""
        found = (self.get(parts_of(at)[-1]) for at in self._owned(agent_id, harness, limit))
        return [record for record in found if record is not None]

    def harnesses_of(self, agent_id: str) -> Iterator[str]:
        """Walk the harnesses of an agent that have wakes: as many reads, however many wakes there are."""
        of_agent = prefix("owner", agent_id)
        after: bytes | None = None
        while found := self._engine.scan_keys(COLUMN, of_agent, after, 1):
            harness = parts_of(found[0])[2]
            yield harness
            after = end_of(prefix("owner", agent_id, harness))  # which is no key itself

    def dues(self, agent_id: str, harness: str, limit: int | None = None) -> Iterator[Due]:
        """Walk the wakes of a harness by instant; reads no records."""
        for at in self._owned(agent_id, harness, limit):
            *_, at_ms, wake_id = parts_of(at)
            yield Due(int(at_ms), wake_id)

    def count(self, agent_id: str, harness: str | None = None, limit: int | None = None) -> int:
        """Return how many wakes a harness has, or all of an agent's; counts no further than `limit`."""
        return sum(1 for _ in self._owned(agent_id, harness, limit))

    def made(self) -> Counter[tuple[str, str]]:
        """Count all wakes that harnesses scheduled themselves, by agent and harness."""
        found: Counter[tuple[str, str]] = Counter()
        owners = (at.rpartition(b"/")[0] for at in keys(self._engine, COLUMN, prefix("made"), _PAGE))
        for owner, theirs in groupby(owners):
            _, agent_id, harness = parts_of(owner)
            found[agent_id, harness] += sum(1 for _ in theirs)
        return found

    def by_key(self, agent_id: str, harness: str, wake_key: str) -> WakeRecord | None:
        """Return the pending wake of this key, None if there is none."""
        wake_id = self._pending(agent_id, harness, wake_key)
        return None if wake_id is None else self.get(wake_id)

    def insert(self, record: WakeRecord, replaces: WakeRecord | None = None) -> list[Write]:
        """Return what stores a new pending wake, in the place of the one that it replaces."""
        writes = [] if replaces is None else self.remove(replaces)
        return [*writes, *self._indexed(record)]

    def claim(self, record: WakeRecord, boot_id: str) -> tuple[WakeRecord, list[Write]]:
        """Return the wake as running, and what says so; its key is free for the next occurrence."""
        running = replace(record, state="running", claim=boot_id)
        return running, [put(COLUMN, key("id", record.id), _CODEC.encode(running)), *self._unkeyed(record)]

    def release(self, record: WakeRecord, *, attempt: int) -> tuple[WakeRecord, list[Write]]:
        """Return a running wake as pending again, and what says so.

        Its key leads to it again, unless the next occurrence has it.
        """
        pending = replace(record, state="pending", claim=None, attempt=attempt)
        writes = [put(COLUMN, key("id", record.id), _CODEC.encode(pending))]
        if record.key is not None and self._pending(record.agent_id, record.harness, record.key) is None:
            writes.append(put(COLUMN, _key_of(record, record.key), record.id.encode()))
        return pending, writes

    def remove(self, record: WakeRecord) -> list[Write]:
        """Return what removes a wake and all that leads to it."""
        return [
            delete(COLUMN, key("id", record.id)),
            *(delete(COLUMN, at) for at in index_keys(record)),
            *self._unkeyed(record),
        ]

    def _owned(self, agent_id: str, harness: str | None, limit: int | None) -> Iterator[bytes]:
        owner = ("owner", agent_id) if harness is None else ("owner", agent_id, harness)
        return self._keys(owner, limit)

    def _keys(self, parts: tuple[str, ...], limit: int | None) -> Iterator[bytes]:
        return islice(keys(self._engine, COLUMN, prefix(*parts), min(limit or _PAGE, _PAGE)), limit)

    def _indexed(self, record: WakeRecord) -> list[Write]:
        writes = [
            put(COLUMN, key("id", record.id), _CODEC.encode(record)),
            *(put(COLUMN, at, b"") for at in index_keys(record)),
        ]
        if record.key is not None:
            writes.append(put(COLUMN, _key_of(record, record.key), record.id.encode()))
        return writes

    def _unkeyed(self, record: WakeRecord) -> list[Write]:
        """Return what frees the key of a wake, if it is this wake's."""
        if record.key is None:
            return []
        owner = self._pending(record.agent_id, record.harness, record.key)
        return [delete(COLUMN, _key_of(record, record.key))] if owner == record.id else []

    def _pending(self, agent_id: str, harness: str, wake_key: str) -> str | None:
        raw = self._engine.get(COLUMN, key("key", agent_id, harness, wake_key))
        return None if raw is None else raw.decode(errors="replace")


def index_keys(record: WakeRecord) -> tuple[bytes, ...]:
    """Return the keys that lead to a wake for as long as it is there: by instant, by owner, by maker."""
    due = key("due", record.at_ms, record.id)
    owner = key("owner", record.agent_id, record.harness, record.at_ms, record.id)
    if record.by == "client":
        return due, owner
    return due, owner, key("made", record.agent_id, record.harness, record.id)


def _key_of(record: WakeRecord, wake_key: str) -> bytes:
    return key("key", record.agent_id, record.harness, wake_key)


def _due(at: bytes) -> Due:
    """Take apart a key of a wake's instant; a restart does so for each wake, so by its known lengths."""
    return Due(int(at[_INSTANT]), unescape(at[_INSTANT.stop + 1 :].decode()))
