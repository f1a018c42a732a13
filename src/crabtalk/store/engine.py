"""The primitive that every engine serves: ordered bytes by (column, key), written in batches.

An engine is used from any thread. What `apply` or `commit` returned from survives power loss;
`defer` promises less.
"""

from collections.abc import Sequence
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

REALM: Final = b"local/"  # opens every key, so that one store can hold several some day


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


class Engine(Protocol):
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

    def apply(self, batch: Sequence[Write]) -> None:
        """Make all of `batch` durable, or none of it; blocks the thread. Later writes of one key win."""

    async def commit(self, batch: Sequence[Write]) -> None:
        """As `apply`, from trio: batches that arrive together share one fsync.

        **Cancellation:** once called the batch is on its way and is waited for, shielded: it is milliseconds.
        """

    def defer(self, batch: Sequence[Write]) -> None:
        """Take `batch` along with the next commit, at most 100 ms later; lost if power goes first.

        Not visible to readers until then.
        """

    def flush(self) -> None:
        """Make everything deferred durable; blocks the thread."""

    def statistics(self) -> Statistics:
        """Count what is there; reads the whole store."""

    def check(self) -> list[str]:
        """Return what is wrong with the store, in sentences; empty when nothing is."""

    def close(self) -> None:
        """Flush and let go; every call after is a ValueError."""
