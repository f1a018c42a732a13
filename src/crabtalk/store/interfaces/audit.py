"""The audit: one row for each invocation that ended, was refused, or should have been and was not.

Rows are the hot path of the daemon, so a row is a tuple, stored as an array in the order of its fields: new
fields go to the end and have a default. Keys are stored complemented, so that an ascending scan meets the
newest row first, which is what readers want.
"""

from collections.abc import Callable, Iterator, Sequence
from json import JSONEncoder, encoder
from typing import Final, Literal, NamedTuple

from crabtalk.known_secrets import KNOWN
from crabtalk.store.engine import REALM, Reader, Write, delete, keys
from crabtalk.store.records import VERSION, decode_json, refuse

COLUMN: Final = "audit"

Ending = Literal["done", "failed", "trap", "refused", "missed", "cancelled"]


class AuditRow(NamedTuple):
    """What is kept of one invocation: sizes and digests of arguments and results, not their bytes."""

    id: str  # of the invocation, a ULID
    trigger: str  # tool, wake, event, call, client
    agent_id: str
    agent_name: str
    harness: str
    tool: str  # or on_wake, on_notify
    digest: str  # of the image; empty when it never got that far
    started_ms: int
    duration_us: int
    instructions: int
    outcome: Ending  # `missed`: a wake that could not be delivered for a day; it never ran
    message: str  # why, in one sentence; empty when done
    depth: int
    chain: str  # its id
    parent_chain: str | None = None
    args_size: int = 0
    args_digest: str = ""
    result_size: int = 0
    result_digest: str = ""
    epoch: int | None = None  # of a wake: the drain of the due-set that started it
    reason: str = ""  # of a wake that ran: `due`, or `late`
    client: str = ""
    attempt: int | None = None
    scheduled_at_ms: int | None = None
    key: str | None = None  # of a wake
    subject: str | None = None  # the wake's or the event's id


_PREFIX: Final = REALM + b"row/"
_COMPLEMENT: Final = bytes(255 - byte for byte in range(256))
_LEAST_FIELDS: Final = len(AuditRow._fields) - len(AuditRow._field_defaults)
_EXPIRED_AT_ONCE: Final = 10_000


def _array_encoder() -> Callable[[AuditRow], str]:
    """Return what writes a row as compact JSON: the standard encoder, made once and not for each row."""
    make: Callable[..., Callable[[object, int], Sequence[str]]] | None
    make = getattr(encoder, "c_make_encoder", None)
    plain = JSONEncoder(separators=(",", ":"), check_circular=False)
    if make is None:  # a Python without the compiled one
        return plain.encode
    pieces = make(None, plain.default, encoder.encode_basestring_ascii, None, ":", ",", False, False, True)  # noqa: FBT003
    return lambda row: "".join(pieces(row, 0))


_encode: Final = _array_encoder()
_quoted: Final = encoder.encode_basestring_ascii


class DoneRows:
    """Writes the rows of one entry and one asker that are done: nearly all rows are such ones.

    What they share is written out once, so that a row takes a third of what the general encoder needs.
    """

    def __init__(self, *shared: str, client: str) -> None:
        """Take the fields that they share: those from `trigger` to `digest`, and `client`."""
        self._shared = ",".join(map(_quoted, shared))
        self._client = _quoted(client)

    def write(
        self,
        invocation_id: str,
        started_ms: int,
        duration_us: int,
        instructions: int,
        depth: int,
        chains: tuple[str, str | None],
        sizes: tuple[int, int],
        digests: tuple[str, str],
    ) -> Write:
        """Return what stores a row without a message and without any field after `client`.

        `chains` are its own and its parent, `sizes` and `digests` are of arguments and result. Ids and
        digests are the daemon's own: nothing in them needs quoting.
        """
        chain, parent = chains
        came_from = "null" if parent is None else f'"{parent}"'
        text = (
            f'["{invocation_id}",{self._shared},{started_ms},{duration_us},{instructions},"done","",{depth},'
            f'"{chain}",{came_from},{sizes[0]},"{digests[0]}",{sizes[1]},"{digests[1]}",null,"",{self._client}]'
        )
        return Write(COLUMN, _key(started_ms, invocation_id), VERSION + text.encode())


class Audit:
    """Reads rows, and says what to write for them."""

    def __init__(self, engine: Reader) -> None:
        self._engine = engine

    def row(self, row: AuditRow) -> list[Write]:
        """Return what stores a row."""
        return [self.write(row)]

    @staticmethod
    def write(row: AuditRow) -> Write:
        """Return the one write that stores a row, without secrets."""
        if row.message and KNOWN:
            row = row._replace(message=KNOWN.text(row.message))
        return Write(COLUMN, _key(row.started_ms, row.id), VERSION + _encode(row).encode())

    def latest(self, limit: int = 100) -> list[AuditRow]:
        """Return the newest rows, newest first.

        Raises:
            StoreError: if one is damaged; every reading method may.
        """
        return self.since(0, limit)

    def since(self, since_ms: int, limit: int = 100, harness: str = "", agent_id: str = "") -> list[AuditRow]:
        """Return the newest rows from `since_ms` on, newest first; of one harness or agent if it is named."""
        found: list[AuditRow] = []
        for row in self._newest_first():
            if row.started_ms < since_ms or len(found) >= limit:
                break
            if harness in {"", row.harness} and agent_id in {"", row.agent_id}:
                found.append(row)
        return found

    def expire(self, max_rows: int, before_ms: int) -> list[Write]:
        """Return what removes the rows beyond the newest `max_rows`, and those from before `before_ms`.

        At most 10,000 of them: call again while that many come.
        """
        start = _key(max(before_ms, 0), "") + b"\xff"  # behind every row of that millisecond
        old = self._engine.scan_keys(COLUMN, _PREFIX, start, _EXPIRED_AT_ONCE)
        room = _EXPIRED_AT_ONCE - len(old)
        surplus = self._beyond(max_rows, room) if room else []
        return [delete(COLUMN, at) for at in {*old, *surplus}]

    def _beyond(self, max_rows: int, limit: int) -> list[bytes]:
        found: list[bytes] = []
        for number, at in enumerate(keys(self._engine, COLUMN, _PREFIX)):
            if number >= max_rows:
                found.append(at)
            if len(found) >= limit:
                break
        return found

    def _newest_first(self, page: int = 256) -> Iterator[AuditRow]:
        after: bytes | None = None
        while rows := self._engine.scan(COLUMN, _PREFIX, after, page):
            for at, raw in rows:
                yield decode(at, raw)
            after = rows[-1][0]


def decode(at: bytes, raw: bytes) -> AuditRow:
    """Return the row of a stored value.

    Raises:
        StoreError: if it is none.
    """
    fields = decode_json(COLUMN, at, raw)
    if not isinstance(fields, list) or not _LEAST_FIELDS <= len(fields) <= len(AuditRow._fields):
        refuse(COLUMN, at, f"expected {len(AuditRow._fields)} values")
    return AuditRow(*fields)


def _key(started_ms: int, invocation_id: str) -> bytes:
    return _PREFIX + f"{started_ms:020}/{invocation_id}".encode().translate(_COMPLEMENT)
