"""Locks by name, made when somebody wants one and gone when nobody does."""

from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager

import trio


class Locks:
    """One trio lock for each name in use."""

    def __init__(self) -> None:
        self._locks: dict[Hashable, trio.Lock] = {}

    def __len__(self) -> int:
        return len(self._locks)

    @asynccontextmanager
    async def hold(self, name: Hashable) -> AsyncIterator[None]:
        """Be the only one between here and the end of the block.

        **Cancellation:** while waiting, the lock is not taken.
        """
        lock = self._locks.setdefault(name, trio.Lock())
        try:
            async with lock:
                yield
        finally:
            if not lock.locked() and self._locks.get(name) is lock:
                del self._locks[name]
