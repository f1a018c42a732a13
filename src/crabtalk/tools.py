"""The seam of tools: what the executor knows of anything that can be called.

Images, compiled-in harnesses and MCP servers all stand behind `ToolProvider`; executor, audit and
cancellation know nothing else. This file holds the protocol and its values and imports no provider.
"""

from collections.abc import Awaitable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeGuard, runtime_checkable

if TYPE_CHECKING:
    import trio

    from crabtalk.chains import Chain
    from crabtalk.store.interfaces.agents import AgentRecord
    from crabtalk.turns import Threads


# What `Context.client` begins with in everything that a wake or an event started.
UNATTENDED: Final = ("wake:", "event:")


class Trigger(StrEnum):
    """What started an invocation."""

    TOOL = "tool"
    WAKE = "wake"
    EVENT = "event"
    CALL = "call"

    # Equal to its text, and counted for every call: an Enum's own is written in Python.
    __hash__ = str.__hash__


# By names of the module, for who asks at each call: a member of an Enum costs many times that.
TOOL: Final = Trigger.TOOL
WAKE: Final = Trigger.WAKE
EVENT: Final = Trigger.EVENT
CALL: Final = Trigger.CALL


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool as a client or a model sees it."""

    harness: str  # the declaration's name
    name: str  # as the guest exports it
    wire_name: str  # as a model calls it: `name`, or `prefix__name`
    description: str
    parameters: dict[str, Any]  # a JSON Schema


@dataclass(frozen=True, slots=True)
class Usage:
    """What one harness says about itself, for the system message; `error` when its image does not load."""

    harness: str
    text: str
    error: str = ""


class Gate(Protocol):
    """An invocation's place among the others, and its deadline; the executor gives one to each."""

    @property
    def threads(self) -> "Threads":
        """The threads that all guests share."""

    def suspended(self, touched_bytes: int = 0) -> AbstractAsyncContextManager[None]:
        """Give the slot away while waiting, and take one again before going on.

        Raises:
            Busy: on entry, if too many guests are suspended already, or their pages are too many.
        """

    @property
    def deadline(self) -> float:
        """An instant of trio's clock; infinity while it stands still."""

    def bounded(self) -> "AbstractContextManager[trio.CancelScope]":
        """Cancel the block at the deadline, wherever that has moved by then."""

    def standing_still(self) -> AbstractContextManager[None]:
        """Let no time pass, for this invocation and those that wait for it: a person is asked."""


class Context(NamedTuple):
    """Who is called, for whom, within what. A tuple, as one is made for every call."""

    invocation_id: str  # a ULID; the audit row has it
    agent: "AgentRecord"
    harness: str
    trigger: Trigger
    chain: "Chain"
    depth: int
    deadline: float  # an instant of trio's clock; `gate.deadline`, which may move later, as it was
    gate: Gate
    session: str | None = None  # a session's handle
    session_root: str | None = None
    client: str = ""  # who asked, for the audit
    left_s: float = 0.0  # from when it began until the deadline


def attended(client: str) -> bool:
    """Report whether a person may be behind `client`, a `Context`'s: no wake and no event."""
    return not client.startswith(UNATTENDED)


class Done(NamedTuple):
    """A result. A tuple, as one is made for every call."""

    data: bytes
    instructions: int = 0


class Failed(NamedTuple):
    """The tool said no; the model sees why."""

    message: str
    instructions: int = 0


@dataclass(frozen=True, slots=True)
class Trapped:
    """Ours to say: the guest died or was not run. Models get `sentence`, operators the rest."""

    kind: str  # a TrapCode's name in lower case, `load`, `link`, `cancelled`, `deadline`, `internal`
    message: str
    symbol: str = ""
    location: str = ""
    frames: tuple[str, ...] = ()
    pc: int = 0
    address: int = 0
    host_calls: tuple[str, ...] = ()
    instructions: int = 0
    sentence: str = field(default="the tool stopped with an error and gave no result", kw_only=True)


Outcome = Done | Failed | Trapped
OUTCOMES: Final = (Done, Failed, Trapped)  # for isinstance, which takes six times as long with a union


def never_began(outcome: Outcome) -> TypeGuard[Trapped]:
    """Report whether there was no guest: its image did not load, or what it declares was not to be bound."""
    return type(outcome) is Trapped and outcome.kind in {"load", "link"}


class ToolProvider(Protocol):
    """Tools of one kind."""

    def harnesses(self, agent: "AgentRecord") -> Sequence[str]:
        """Return the names of those harnesses of `agent` that are this provider's, as declared."""

    def tools(self, agent: "AgentRecord") -> Sequence[Tool]:
        """Return the tools of those harnesses; none of a harness that does not load."""

    def usage(self, agent: "AgentRecord") -> Sequence[Usage]:
        """Return what each of those harnesses says about itself."""

    async def call(self, context: Context, tool: str, args: bytes) -> Outcome:
        """Run a tool, or an entry that is no tool (`on_wake`, `on_notify`).

        **Cancellation:** the tool is stopped, and whatever runs for it is waited for.

        Raises:
            NotFound: if there is no such harness or tool.
            Busy: from `context.gate`.
        """

    async def on_declare(self, agent: "AgentRecord") -> None:
        """Take note that `agent` was created, changed, or read from the store."""

    async def on_forget(self, agent: "AgentRecord") -> None:
        """Take note that `agent` is gone."""


@runtime_checkable
class InlineProvider(Protocol):
    """A provider whose short calls end before any await, so that no task is needed for them."""

    def call_inline(self, context: Context, tool: str, args: bytes) -> Outcome | Awaitable[Outcome]:
        """As `call`; an outcome at once, or what to await for it, in a task of the caller's."""
