"""An instance: one module in one store's memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from rvcore._func import Func

if TYPE_CHECKING:
    from rvcore._module import Module
    from rvcore._store import Memory, Store


class Exports(Mapping[str, Func]):
    """The global functions of an instance, by name."""

    def __init__(self, store: Store, module: Module) -> None:
        self._store = store
        self._module = module

    def __getitem__(self, name: str) -> Func:
        return Func(self._store, name, self._module.exports[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._module.exports)

    def __len__(self) -> int:
        return len(self._module.exports)


class Instance:
    """One module with memory of its own, as long as its store is open."""

    def __init__(self, store: Store, module: Module) -> None:
        self._store = store
        self.module = module

    def exports(self, store: Store) -> Exports:
        """Return the functions that can be called.

        Raises:
            ValueError: `store` is not the one this instance lives in.
        """
        if store is not self._store:
            raise ValueError("the instance belongs to another store")
        return Exports(store, self.module)

    @property
    def memory(self) -> Memory:
        """The guest's memory."""
        return self._store.memory
