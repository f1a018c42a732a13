"""The linker: numbers of host calls → functions. What is not defined here is absent for the guest."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from rvcore._errors import LinkError
from rvcore._instance import Instance
from rvcore._store import Linkage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rvcore._engine import Engine
    from rvcore._module import Module
    from rvcore._store import Store


class Linker:
    """Host calls that the instances made by it can reach, by the number in a7."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._linkage = Linkage()
        self._lock = threading.Lock()

    def define_func(self, number: int, func: Callable[..., int | None], *, name: str = "") -> None:
        """Bind a Python callable `func(caller, a0, …, a5)`; what it returns goes to a0, None as 0.

        Raises:
            LinkError: The number is bound already or is no 64-bit number.
            TypeError: `func` cannot be called.
        """
        if not callable(func):
            raise TypeError(f"expected a callable, got `{type(func).__name__}` - at `func`")
        self._add(number, name, func)

    def define_deferred(self, number: int, *, name: str = "") -> None:
        """Bind a call that suspends the run and goes to whoever drives it; see `Call.resume`.

        Raises:
            LinkError: The number is bound already or is no 64-bit number.
        """
        self._add(number, name, None)

    def define_native(self, number: int, capsule: Any, *, name: str = "") -> None:  # noqa: ANN401 - a PyCapsule
        """Bind a C function `int fn(Hart*, void*)`, given as a capsule named "rvcore.HostFn".

        It returns `HOST_OK`, `HOST_DEFER`, `HOST_FAULT`, or after a part of long work `HOST_AGAIN`: the run
        then looks whether it is to stop, and calls it again, at once or when it is resumed.

        Raises:
            LinkError: The number is bound already or is no 64-bit number.
            ValueError: The capsule is not of that name.
        """
        self._add(number, name, capsule, native=True)

    def know(self, names: Iterable[tuple[int, str]]) -> None:
        """Remember names of calls that are not bound, for the trap of a guest that calls one."""
        known = {number: f"`{name}` is not bound here" for number, name in names}
        with self._lock:
            linkage = self._linkage.copy()
            linkage.know(known)
            self._linkage = linkage

    def instantiate(self, store: Store, module: Module) -> Instance:
        """Give the store a fresh memory with this module in it.

        Raises:
            ValueError: The store or the engine is closed, or the store has an instance, or belongs to another
                engine.
            MemoryError: No memory can be had.
        """
        self.engine.check_open()
        if module.engine is not self.engine or store.engine is not self.engine:
            raise ValueError("linker, store and module belong to different engines")
        store.link(module._program, self._linkage)  # noqa: SLF001 - the one reader of a module's program
        return Instance(store, module)

    def _add(self, number: int, name: str, func: Any, *, native: bool = False) -> None:  # noqa: ANN401
        if not 0 <= number < 1 << 64:
            raise LinkError(
                f"expected a 64-bit number of a host call, got {number} - at `{name or 'number'}`"
            )
        with self._lock:
            # Instances keep the table they were made with.
            linkage = self._linkage.copy()
            if native:
                linkage.add_native(number, func, name)
            else:
                linkage.add(number, func, name)
            self._linkage = linkage
