"""The capability over small values: `berm.get`, `berm.set`, `berm.kv.delete`, `berm.kv.keys`.

Memory is per invocation; this is what a harness keeps. Owns the bounds of a key, a value and a page, and
hands the quota of the declaration to the store, which enforces it. Whose values they are is in the `KeyValue`
that was given.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from berm import Capability, Refused, capability
from crabtalk.capabilities._call import Call
from crabtalk.capabilities._failure import Failure
from crabtalk.capabilities._keyvalue import KeyValue, KeyValueFile, MemoryKeyValue, StorageError

__all__ = ["KeyValue", "KeyValueFile", "MemoryKeyValue", "Storage", "StorageError", "storage"]

MAX_KEY_BYTES: Final = 256
MAX_VALUE_BYTES: Final = 1 << 20
PAGE_KEYS: Final = 1000


@dataclass(frozen=True)
class Storage:
    """The bound: one owner's values, and how many bytes they may be."""

    store: KeyValue
    quota_bytes: int

    def get(self, key: str) -> bytes | None:
        """Return the value, None if there is none.

        Raises:
            Refused, Failure: in the guest's terms.
        """
        with _explained():
            return self.store.get(_checked(key))

    def set(self, key: str, value: bytes) -> None:
        """Store a value.

        Raises:
            Refused: if it is too large, or the quota is used up; nothing was stored then.
            Failure: if the store does not work.
        """
        if len(value) > MAX_VALUE_BYTES:
            raise Refused(f"value is {len(value)} bytes long, at most {MAX_VALUE_BYTES} are taken")
        with _explained():
            if not self.store.set(_checked(key), value, self.quota_bytes):
                raise Refused(f"quota of {self.quota_bytes} bytes is used up")

    def delete(self, key: str) -> bool:
        """Remove a value, and report whether there was one.

        Raises:
            Refused, Failure: in the guest's terms.
        """
        with _explained():
            return self.store.delete(_checked(key))

    def keys(self, prefix: str, cursor: str) -> list[str]:
        """Return the next page of keys after `cursor`; a page that is not full is the last.

        Raises:
            Failure: if the store does not work.
        """
        with _explained():
            page = self.store.keys(prefix.encode(), cursor.encode(), PAGE_KEYS)
        return [key.decode(errors="replace") for key in page]


def storage(store: KeyValue, quota_bytes: int) -> tuple[Capability, ...]:
    """Grant the values in `store`, up to `quota_bytes` of keys, values and 64 bytes for each entry.

    Raises:
        ValueError: if the quota is negative.
    """
    if quota_bytes < 0:
        raise ValueError(f"quota: expected bytes, got {quota_bytes}")
    bound = Storage(store, quota_bytes)

    @capability("berm.get", blocking=True)
    def get(_call: Call, key: str) -> bytes | None:
        return bound.get(key)

    @capability("berm.set", blocking=True)
    def put(_call: Call, key: str, value: bytes) -> None:
        bound.set(key, value)

    @capability("berm.kv.delete", blocking=True)
    def delete(_call: Call, key: str) -> int:
        return int(bound.delete(key))

    @capability("berm.kv.keys", blocking=True)
    def keys(_call: Call, prefix: str, cursor: str) -> list[str]:
        return bound.keys(prefix, cursor)

    return (get, put, delete, keys)


def _checked(key: str) -> bytes:
    raw = key.encode()
    if not 0 < len(raw) <= MAX_KEY_BYTES:
        raise Refused(f"key is {len(raw)} bytes long, from 1 to {MAX_KEY_BYTES} are taken")
    return raw


@contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except StorageError as error:
        raise Failure(f"storage does not work: {error}") from error
