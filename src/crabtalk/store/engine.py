"""The primitive that every engine serves: ordered bytes by (column, key), written in batches.

An engine is used from any thread. What `apply` or `commit` returned from survives power loss;
`defer` promises less.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

COLUMNS: Final = (
    "agent",
    "session",
    "memory",
    "skill",
    "harness",
    "config",
    "text",
    "wake",
    "sub",
    "kv",
    "audit",
)

_KNOWN: Final = frozenset(COLUMNS)
REALM: Final = b"local/"  # opens every key, so that one store can hold several some day

MAX_KEY_BYTES: Final = 1024
MAX_VALUE_BYTES: Final = 64 << 20
DEFER_S: Final = 0.1  # how long a deferred batch waits for company
MAX_DEFERRED_BYTES: Final = 64 << 20  # beyond, the disk has stalled, and what waits for it is refused


class Write(NamedTuple):
    """One change of a batch; a `value` of None deletes."""

    column: str
    key: bytes
    value: bytes | None


def put(column: str, key: bytes, value: bytes) -> Write:
    """Return the write that sets a value."""
    return Write(column, key, value)


def delete(column: str, key: bytes) -> Write:
    """Return the write that removes a key, if it is there."""
    return Write(column, key, None)


@dataclass(frozen=True)
class Statistics:
    """How much an engine holds."""

    format_version: int
    size_bytes: int
    keys: dict[str, int]  # by column
    bytes: dict[str, int]  # of values, by column
    commits: int  # groups that were made durable since it was opened
    batches: int  # batches in them
    deferred_lost: int = 0  # deferred batches that could not be written since it was opened


class Trouble(NamedTuple):
    """Why nothing can be written at the moment."""

    text: str
    lasting: bool  # until the store is opened again


class Reader(Protocol):
    """An ordered map for each column: keys of 1 to 1,024 bytes in byte order, values up to 64 MiB."""

    def get(self, column: str, key: bytes) -> bytes | None:
        """Return the value, None if there is none.

        Raises:
            StoreError: if the store does not work; every method may.
        """

    def scan_keys(
        self, column: str, prefix: bytes = b"", after: bytes | None = None, limit: int = 1000
    ) -> list[bytes]:
        """Return up to `limit` keys that start with `prefix` and are greater than `after`, ascending."""

    def scan(
        self, column: str, prefix: bytes = b"", after: bytes | None = None, limit: int = 1000
    ) -> list[tuple[bytes, bytes]]:
        """As `scan_keys`, with the values; one snapshot."""


class Engine(Reader, Protocol):
    """What is read, and written in batches."""

    def apply(self, batch: Sequence[Write]) -> None:
        """Make all of `batch` durable, or none of it; blocks the thread. Later writes of one key win."""

    async def commit(self, batch: Sequence[Write]) -> None:
        """As `apply`, from trio: batches that arrive together share one fsync.

        **Cancellation:** once called the batch is on its way and is waited for, shielded: it is milliseconds.
        """

    def defer(self, batch: Sequence[Write]) -> None:
        """Take `batch` along with the next commit, at most 100 ms later; lost if power goes first.

        Not visible to readers until then. Never waits for the disk.

        Raises:
            StoreError: if the disk takes nothing any more and `MAX_DEFERRED_BYTES` wait for it.
        """

    def flush(self) -> None:
        """Make everything deferred durable; blocks the thread.

        Raises:
            StoreError: if some of what was deferred since the last flush was lost.
        """

    def trouble(self) -> Trouble | None:
        """Say why what is written does not get into the store; None if it does. Never waits for the disk."""

    def statistics(self) -> Statistics:
        """Count what is there; reads the whole store."""

    def check(self) -> list[str]:
        """Return what is wrong with the store, in sentences; empty when nothing is."""

    def close(self) -> None:
        """Flush and let go; every call after is a ValueError."""


def checked(batch: Sequence[Write]) -> int:
    """Return how many bytes a batch is, keys and values.

    Raises:
        ValueError, TypeError: if a column, key or value is not one that an engine takes; a caller's mistake.
    """
    total = 0
    for column, key, value in batch:
        if column not in _KNOWN:
            raise ValueError(f"there is no column {column!r}")
        if key.__class__ is not bytes or (value is not None and value.__class__ is not bytes):
            raise TypeError("keys and values are bytes")
        if not 0 < len(key) <= MAX_KEY_BYTES:
            raise ValueError(f"key is {len(key)} bytes long, from 1 to {MAX_KEY_BYTES} are taken")
        total += len(key)
        if value is not None:
            if len(value) > MAX_VALUE_BYTES:
                raise ValueError(f"value is {len(value)} bytes long, at most {MAX_VALUE_BYTES} are taken")
            total += len(value)
    return total


def checked_column(column: str) -> str:
    """Return a column's name.

    Raises:
        ValueError: if there is none of that name.
    """
    if column not in _KNOWN:
        raise ValueError(f"there is no column {column!r}")
    return column


def end_of(prefix: bytes) -> bytes | None:
    """Return the least key that is greater than every key with `prefix`; None if there is no such key."""
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None


def entries(engine: Reader, column: str, prefix: bytes, page: int = 1000) -> Iterator[tuple[bytes, bytes]]:
    """Walk everything with `prefix`, page by page: one snapshot for each page, not for all."""
    after: bytes | None = None
    while rows := engine.scan(column, prefix, after, page):
        yield from rows
        if len(rows) < page:
            return
        after = rows[-1][0]


def keys(engine: Reader, column: str, prefix: bytes, page: int = 10_000) -> Iterator[bytes]:
    """Walk every key with `prefix`, as `entries`."""
    after: bytes | None = None
    while found := engine.scan_keys(column, prefix, after, page):
        yield from found
        if len(found) < page:
            return
        after = found[-1]
