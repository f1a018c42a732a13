"""The values of harnesses, in the store: what stands behind `storage` in the daemon.

An owner is an agent and a declaration's name, so that an upgrade of the image keeps its data. What an owner
uses is kept beside the values and changed in the same batch; a lock for each owner makes the quota exact.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from weakref import WeakKeyDictionary, WeakValueDictionary

from crabtalk.capabilities._keyvalue import StorageError, cost_bytes, fits
from crabtalk.errors import StoreError
from crabtalk.store.engine import Engine, Write, delete, keys, put
from crabtalk.store.keys import key, prefix
from crabtalk.store.records import decode_json, encode_json, refuse

COLUMN: Final = "kv"

# One lock for each owner that is in use, shared by every object that stands for it.
_locks: "WeakKeyDictionary[Engine, WeakValueDictionary[tuple[str, str], threading.Lock]]" = (
    WeakKeyDictionary()
)
_locks_lock = threading.Lock()


class StoredKeyValue:
    """One owner's values; every method is atomic, and safe in any thread.

    `set` and `delete` wait for the disk: what they returned from survives power loss.
    """

    def __init__(self, engine: Engine, agent_id: str, harness: str) -> None:
        self._engine = engine
        self._values = prefix("value", agent_id, harness)
        self._usage = key("used", agent_id, harness)
        self._lock = _lock_of(engine, agent_id, harness)

    def get(self, key: bytes) -> bytes | None:
        """Return the value, None if there is none."""
        with _explained():
            return self._engine.get(COLUMN, self._values + key)

    def set(self, key: bytes, value: bytes, quota_bytes: int) -> bool:
        """Store, unless the owner would hold more than `quota_bytes` then; report whether it was stored."""
        new = cost_bytes(key, value)
        with self._lock, _explained():
            old, used = self._cost(key), self.used_bytes()
            if not fits(used, old, new, quota_bytes):
                return False
            self._engine.apply(
                [
                    put(COLUMN, self._values + key, value),
                    put(COLUMN, self._usage, encode_json(used - old + new)),
                ]
            )
        return True

    def delete(self, key: bytes) -> bool:
        """Remove, and report whether there was something."""
        with self._lock, _explained():
            old = self._cost(key)
            if old:
                used = encode_json(self.used_bytes() - old)
                self._engine.apply([delete(COLUMN, self._values + key), put(COLUMN, self._usage, used)])
        return bool(old)

    def keys(self, prefix: bytes, after: bytes, limit: int) -> list[bytes]:
        """Return at most `limit` keys that start with `prefix` and are greater than `after`, ascending."""
        with _explained():
            found = self._engine.scan_keys(
                COLUMN, self._values + prefix, self._values + after if after else None, limit
            )
        return [one.removeprefix(self._values) for one in found]

    def used_bytes(self) -> int:
        """Return what counts towards the quota."""
        raw = self._engine.get(COLUMN, self._usage)
        used = 0 if raw is None else decode_json(COLUMN, self._usage, raw)
        if not isinstance(used, int):
            refuse(COLUMN, self._usage, "expected a number")
        return used

    def forget(self) -> list[Write]:
        """Return what removes everything of this owner."""
        found = keys(self._engine, COLUMN, self._values)
        return [delete(COLUMN, self._usage), *(delete(COLUMN, at) for at in found)]

    def _cost(self, key: bytes) -> int:
        old = self._engine.get(COLUMN, self._values + key)
        return 0 if old is None else cost_bytes(key, old)


def forget_agent(engine: Engine, agent_id: str) -> list[Write]:
    """Return what removes every value of an agent, also of harnesses that it no longer declares."""
    owned = (prefix(kind, agent_id) for kind in ("used", "value"))
    return [delete(COLUMN, at) for one in owned for at in keys(engine, COLUMN, one)]


def _lock_of(engine: Engine, agent_id: str, harness: str) -> threading.Lock:
    with _locks_lock:
        owners = _locks.setdefault(engine, WeakValueDictionary())
        lock = owners.get((agent_id, harness))
        if lock is None:
            lock = owners[agent_id, harness] = threading.Lock()
        return lock


@contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except (StoreError, ValueError) as error:
        raise StorageError(str(error)) from error
