import enum
from dataclasses import dataclass
from typing import Any, Self, final

from rvcore._store import Store
from rvcore._traps import Trap

class ExitReason(enum.Enum):
    RETURNED = "returned"
    HOST_CALL = "host call"
    OUT_OF_FUEL = "out of fuel"
    INTERRUPTED = "interrupted"
    TRAP = "trap"

@dataclass(frozen=True, slots=True)
class Exit:
    reason: ExitReason
    values: tuple[int, ...] = ()
    number: int | None = None
    name: str = ""
    args: tuple[int, ...] = ()
    trap: Trap | None = None

@final
class Caller:
    def __new__(cls, store: Store) -> Self: ...
    @property
    def data(self) -> Any: ...  # noqa: ANN401 - the embedder knows what it gave the store
    @property
    def args(self) -> tuple[int, int, int, int, int, int]: ...
    def read(self, address: int, size: int) -> bytes: ...
    def write(self, address: int, data: bytes | bytearray | memoryview) -> None: ...

@final
class Call:
    def __new__(cls, store: Store, address: int, args: tuple[int, ...]) -> Self: ...
    @property
    def store(self) -> Store: ...
    @property
    def instructions(self) -> int: ...
    def run(self, fuel: int | None = None) -> Exit: ...
    def resume(self, value: int = 0) -> None: ...
    def finish(self) -> tuple[int, int]: ...
