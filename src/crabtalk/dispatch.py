"""Which handler serves which request: a table by the names of the fields of `ClientMessage.msg`.

Rule 1: every field of the schema is in the table, with a handler, a stream handler, or as not built yet.
Rule 2: the table knows no handler of its own; whoever opens the server puts them in.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Literal, Protocol, TypeVar

from crabtalk.errors import RequestError
from crabtalk.wire.pb import crabtalk_pb2 as pb

R = TypeVar("R")

# `cancel` and `auth` are about the connection itself, and it serves them.
CONNECTION_FIELDS: Final = frozenset({"cancel", "auth"})
REQUEST_FIELDS: Final = tuple(
    field.name for field in pb.ClientMessage.DESCRIPTOR.oneofs_by_name["msg"].fields
)
# Streams that are turns of an agent: they have an end of their own, and their client waits for it. All other
# streams are subscriptions, which end with the connection.
TURNS: Final = frozenset({"stream"})
# What `cancel` and the end of the connection cancel, beside subscriptions.
CANCELLABLE: Final = frozenset({"call_tool"})


@dataclass(frozen=True, slots=True)
class Peer:
    """Who is at the other end."""

    name: str  # for logs and the audit: `unix:pid 4711`, `tcp:127.0.0.1:50312`
    transport: Literal["unix", "tcp", "memory"]
    uid: int | None  # None where the transport does not tell


@dataclass(slots=True)
class Request:
    """One message, and where it came from."""

    body: Any  # what is in the oneof: `pb.CallToolMsg`, …; bytes of an `extension`
    request_id: int | None
    connection: Peer


class Send(Protocol):
    """Sends one reply of many; sets its request id.

    A subscriber that does not read loses replies; when it reads again it gets an `error` that says how many,
    and the subscription is over. A turn waits instead, and is cancelled when the write deadline passes.
    """

    async def __call__(self, message: pb.ServerMessage) -> None:
        """Put `message` into the connection's queue."""


Reply = pb.ServerMessage | Awaitable[pb.ServerMessage]
# Answers at once, or returns what has to be awaited: that costs a task. Raises `RequestError` to refuse.
Handler = Callable[[R, Request], Reply]
# As a handler for each of some requests that came together; answers the first ones, at least one of them.
# What it raises is the first one's, and nothing was done for the others then: they are asked for again.
BatchHandler = Callable[[R, Sequence[Request]], list[Reply | RequestError]]
# Returns when there is nothing more to send.
StreamHandler = Callable[[R, Request, Send], Awaitable[None]]


@dataclass(frozen=True)
class Table(Generic[R]):
    """A complete table.

    Raises:
        ValueError: if a field of the schema is missing, unknown, or in it twice.
    """

    handlers: Mapping[str, Handler[R]]
    streams: Mapping[str, StreamHandler[R]]
    not_built: frozenset[str]  # answered with 501
    batched: Mapping[str, BatchHandler[R]] = field(default_factory=dict)  # of `handlers`, those that have one

    def __post_init__(self) -> None:
        names = [*self.handlers, *self.streams, *self.not_built, *CONNECTION_FIELDS]
        wrong = {
            "missing": set(REQUEST_FIELDS) - set(names),
            "unknown": set(names) - set(REQUEST_FIELDS),
            "twice": {name for name in names if names.count(name) > 1},
        }
        found = [f"{what}: {', '.join(sorted(which))}" for what, which in wrong.items() if which]
        if found:
            raise ValueError(f"not a complete table of requests; {'; '.join(found)}")
