from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, final

from typing_extensions import disjoint_base

from berm._chain import Chain
from berm._outcome import Done, Failed, Limits
from berm.binding import Capability
from rvcore._machine import HostTable, Machine
from rvcore._program import Program

@final
class Call:
    @property
    def tool(self) -> str: ...
    @property
    def context(self) -> Any: ...  # noqa: ANN401 - the embedder's own
    @property
    def chain(self) -> Chain: ...
    @property
    def depth(self) -> int: ...
    @property
    def invocation_id(self) -> int: ...
    @property
    def deadline_left(self) -> float: ...
    @property
    def cancelled(self) -> bool: ...
    @property
    def tasks(self) -> Any: ...  # noqa: ANN401 - anyio's TaskGroup, which this layer does not import

@final
class HostCall:
    @property
    def capability(self) -> Capability: ...
    @property
    def call(self) -> Call: ...
    @property
    def request(self) -> bytes: ...

@final
class Bound:
    def __init__(self, capability: Capability, refusable: bool) -> None: ...

@disjoint_base
class Linked:
    def __init__(
        self,
        program: Program,
        table: HostTable,
        entries: dict[str, int],
        bound: tuple[Bound | None, ...],
        log: Callable[[Call, str], object],
    ) -> None: ...
    def __contains__(self, tool: object) -> bool: ...
    @property
    def has_wake(self) -> bool: ...
    @property
    def has_notify(self) -> bool: ...
    def call(
        self,
        tool: str,
        args: bytes | str,
        *,
        limits: Limits | None = None,
        context: object = None,
        raw: bool = False,
        chain: Chain | None = None,
        depth: int = 0,
    ) -> Done | Failed: ...
    def wake(
        self,
        payload: bytes | str,
        *,
        limits: Limits | None = None,
        context: object = None,
        raw: bool = False,
        chain: Chain | None = None,
        depth: int = 0,
    ) -> Done | Failed: ...
    def notify(
        self,
        payload: bytes | str,
        *,
        limits: Limits | None = None,
        context: object = None,
        raw: bool = False,
        chain: Chain | None = None,
        depth: int = 0,
    ) -> Done | Failed: ...
    def start(
        self,
        tool: str,
        args: bytes | str,
        *,
        limits: Limits | None = None,
        context: object = None,
        raw: bool = False,
        chain: Chain | None = None,
        depth: int = 0,
    ) -> Invocation: ...
    def begin(
        self,
        tool: str,
        args: bytes | str,
        *,
        limits: Limits | None = None,
        context: object = None,
        raw: bool = False,
        chain: Chain | None = None,
        depth: int = 0,
    ) -> Done | Failed | Invocation: ...
    def start_wake(
        self,
        payload: bytes | str,
        *,
        limits: Limits | None = None,
        context: object = None,
        raw: bool = False,
        chain: Chain | None = None,
        depth: int = 0,
    ) -> Invocation: ...
    def start_notify(
        self,
        payload: bytes | str,
        *,
        limits: Limits | None = None,
        context: object = None,
        raw: bool = False,
        chain: Chain | None = None,
        depth: int = 0,
    ) -> Invocation: ...

@final
class Invocation:
    @property
    def invocation_id(self) -> int: ...
    @property
    def running_ids(self) -> tuple[int, ...]: ...
    @property
    def nesting(self) -> int: ...
    @property
    def closed(self) -> bool: ...
    @property
    def interrupted(self) -> bool: ...
    @property
    def computing(self) -> bool: ...
    @property
    def deadline_left(self) -> float: ...
    @property
    def machine(self) -> Machine | None: ...
    @property
    def outcome(self) -> Done | Failed | None: ...
    @property
    def instructions(self) -> int: ...
    @property
    def duration_ns(self) -> int: ...
    def __enter__(self) -> Invocation: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...
    def advance(self, instructions: int = 50_000) -> Done | Failed | HostCall | None: ...
    def compute(self) -> None: ...
    def run(self) -> Done | Failed: ...
    def reply(self, result: object) -> None: ...
    def reply_error(self, error: Exception) -> None: ...
    def expire(self) -> None: ...
    def attach_tasks(self, tasks: object) -> None: ...
    def interrupt(self) -> None: ...
    def close(self) -> None: ...

def live_guests() -> int: ...
def link_table(
    entries: Iterable[tuple[str, Capability, bool]],
) -> tuple[HostTable, tuple[Bound | None, ...]]: ...
