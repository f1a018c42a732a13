from typing import Any, final

from berm._chain import Chain
from berm.binding import Capability

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
