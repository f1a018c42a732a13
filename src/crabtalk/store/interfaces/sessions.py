"""Sessions: what is known of each, its messages in order, and the events of its turns."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from crabtalk.store.engine import Reader, Write, delete, entries, keys, put
from crabtalk.store.keys import key, parts_of, prefix
from crabtalk.store.records import Codec, decode_json, encode_json

COLUMN: Final = "session"


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """One conversation; its handle is whatever its client chose."""

    handle: str
    agent_id: str
    sender: str
    root: str | None  # narrows a `{session}` root of the agent's harnesses
    title: str
    created_ms: int
    updated_ms: int
    message_count: int = 0
    event_count: int = 0
    context_from: int = 0  # the message that a model's context begins with: the last summary, or the first


@dataclass(frozen=True, slots=True)
class MessageRecord:
    """One message of a session; what is in it is the business of those who write it."""

    index: int
    created_ms: int
    body: Mapping[str, Any]


_SESSION: Final = Codec(SessionRecord)
_MESSAGE: Final = Codec(MessageRecord)


class Sessions:
    """Reads sessions, and says what to write for them."""

    def __init__(self, engine: Reader) -> None:
        self._engine = engine

    def all(self) -> list[SessionRecord]:
        """Return every session, by handle.

        Raises:
            StoreError: if one is damaged; every reading method may.
        """
        rows = entries(self._engine, COLUMN, prefix("handle"))
        return [_SESSION.decode(COLUMN, at, raw) for at, raw in rows]

    def get(self, handle: str) -> SessionRecord | None:
        """Return one session, None if there is none."""
        at = key("handle", handle)
        raw = self._engine.get(COLUMN, at)
        return None if raw is None else _SESSION.decode(COLUMN, at, raw)

    def of_agent(self, agent_id: str) -> list[SessionRecord]:
        """Return the sessions of an agent, by handle."""
        handles = (parts_of(at)[-1] for at in keys(self._engine, COLUMN, prefix("agent", agent_id)))
        return [record for record in map(self.get, handles) if record is not None]

    def save(self, record: SessionRecord) -> list[Write]:
        """Return what stores a session, new or changed; its agent stays the same."""
        return [
            put(COLUMN, key("handle", record.handle), _SESSION.encode(record)),
            put(COLUMN, key("agent", record.agent_id, record.handle), b""),
        ]

    def remove(self, record: SessionRecord) -> list[Write]:
        """Return what removes a session and all that is in it."""
        inside = (
            at
            for kind in ("message", "event")
            for at in keys(self._engine, COLUMN, prefix(kind, record.handle))
        )
        return [
            delete(COLUMN, key("handle", record.handle)),
            delete(COLUMN, key("agent", record.agent_id, record.handle)),
            *(delete(COLUMN, at) for at in inside),
        ]

    def messages(self, handle: str, after: int = -1, limit: int = 1000) -> list[MessageRecord]:
        """Return the next messages of a session, in order, beyond the one with index `after`."""
        beyond = key("message", handle, after) if after >= 0 else None
        rows = self._engine.scan(COLUMN, prefix("message", handle), beyond, limit)
        return [_MESSAGE.decode(COLUMN, at, raw) for at, raw in rows]

    def append(
        self, record: SessionRecord, bodies: Iterable[Mapping[str, Any]], now_ms: int
    ) -> tuple[SessionRecord, list[Write]]:
        """Return the session with more messages, and what stores both."""
        start = record.message_count
        added = [MessageRecord(start + n, now_ms, body) for n, body in enumerate(bodies)]
        grown = replace(record, message_count=start + len(added), updated_ms=now_ms)
        stored = [
            put(COLUMN, key("message", record.handle, one.index), _MESSAGE.encode(one)) for one in added
        ]
        return grown, [*stored, *self.save(grown)]

    def events(self, handle: str, after: int = -1, limit: int = 1000) -> list[tuple[int, Any]]:
        """Return the next events of a session, with their numbers, beyond the one with number `after`."""
        beyond = key("event", handle, after) if after >= 0 else None
        rows = self._engine.scan(COLUMN, prefix("event", handle), beyond, limit)
        return [(int(parts_of(at)[-1]), decode_json(COLUMN, at, raw)) for at, raw in rows]

    def append_events(
        self, record: SessionRecord, events: Iterable[Mapping[str, Any]]
    ) -> tuple[SessionRecord, list[Write]]:
        """Return the session with more events, and what stores both."""
        start = record.event_count
        stored = [
            put(COLUMN, key("event", record.handle, start + n), encode_json(event))
            for n, event in enumerate(events)
        ]
        grown = replace(record, event_count=start + len(stored))
        return grown, [*stored, *self.save(grown)]
