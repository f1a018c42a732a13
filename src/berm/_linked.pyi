from collections.abc import Callable, Iterable

from typing_extensions import disjoint_base

from berm._call import Bound, Call
from berm._chain import Chain
from berm._invocation import Invocation
from berm._outcome import Done, Failed, Limits
from berm.binding import Capability
from rvcore._machine import HostTable
from rvcore._program import Program

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

def link_table(
    entries: Iterable[tuple[str, Capability, bool]],
) -> tuple[HostTable, tuple[Bound | None, ...]]: ...
