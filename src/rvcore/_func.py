"""A function of a guest: call it, or start it and drive the run yourself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rvcore._call import Call

if TYPE_CHECKING:
    from rvcore._store import Store


class Func:
    """One exported function."""

    def __init__(self, store: Store, name: str, address: int, results: int = 1) -> None:
        self._store = store
        self.name = name
        self.address = address
        self.results = results

    def with_results(self, results: int) -> Func:
        """Return this function as one of 0, 1 or 2 results (a0, a1).

        Raises:
            ValueError: Another count.
        """
        if results not in {0, 1, 2}:
            raise ValueError(f"expected 0, 1 or 2, got {results} - at `results`")
        return Func(self._store, self.name, self.address, results)

    def start(self, store: Store, *args: int) -> Call:
        """Return the run of a call, not begun yet.

        Raises:
            TypeError: More than eight arguments, or one that is no integer.
            ValueError: An argument does not fit 64 bits, the store is another one, closed, or running.
        """
        if store is not self._store:
            raise ValueError("the function belongs to another store")
        return Call(store, self.address, args)

    def __call__(self, store: Store, *args: int) -> int | tuple[int, int] | None:
        """Call the function and return its results as unsigned 64-bit integers.

        Raises:
            Trap: The guest trapped, ran out of fuel or was interrupted.
            LinkError: The guest made a deferred host call, which only `start` can serve.
            TypeError: As `start`.
            ValueError: As `start`.
        """
        values = self.start(store, *args).finish()
        if self.results == 2:  # noqa: PLR2004 - a0 and a1
            return values
        return values[0] if self.results else None
