"""A turn of an agent as others see it: what was asked for, how it stands, and how it ended."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import trio

from crabtalk.chains import Chain
from crabtalk.conversation.messages import Usage
from crabtalk.conversation.steps import Step
from crabtalk.dispatch import Peer
from crabtalk.errors import RequestError
from crabtalk.store.engine import Write
from crabtalk.store.interfaces.agents import AgentRecord
from crabtalk.tools import Gate

Listener = Callable[[Step], Awaitable[None]]
Outcome = Literal["done", "failed", "cancelled", "halted"]
# Says what goes into the batch that ends a turn. None: nothing does, since the same will run again.
Closing = Callable[["Ending"], Sequence[Write] | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRequest:
    """A turn that is asked for by a client."""

    agent: AgentRecord  # whose session it is
    content: str
    handle: str = ""  # of the session; a new one opens a new session
    sender: str = ""  # who speaks, when the session is new
    guest: AgentRecord | None = None  # who answers instead, in text only
    tool_choice: str = ""
    ephemeral: bool = False  # nothing of it is stored
    client: str = ""  # who asked, for the audit
    asker: Peer | None = None  # the connection that asked


@dataclass(frozen=True, slots=True)
class Ending:
    """How a turn ended."""

    agent_id: str  # who answered
    text: str = ""  # the answer; empty unless `error` is
    model: str = ""
    usage: Usage | None = None
    error: RequestError | None = None
    outcome: Outcome = "done"


@dataclass(slots=True, eq=False)
class Turn:
    """One turn, from when it was accepted."""

    id: str  # a ULID
    agent: AgentRecord  # whose session it is
    speaker: AgentRecord  # who answers
    handle: str  # "" of an ephemeral turn without a session
    content: str
    client: str
    started_ms: int
    sender: str = ""
    title: str = ""  # of a new session; "": what is said first
    tool_choice: str = ""
    ephemeral: bool = False
    asker: Peer | None = None  # the connection that asked; None if no client did
    trigger: str = "client"
    resumes: bool = False  # a session that is there already is gone on with, and not spoken to again
    chain: Chain | None = None  # set before it is started
    depth: int = 0  # on its chain
    caller: Gate | None = None  # of an invocation that waits for it
    model: str = ""  # in full
    usage: Usage | None = None  # of all requests so far
    closing: Closing | None = None
    summary: bool = False  # `content` says how the session is to be summed up
    began: bool = False  # it does not wait for another turn any more
    unstored: bool = False  # what its end was to write is not in the store
    unread: RequestError | None = None  # its listener failed with this
    listener: Listener | None = None
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    telling: trio.CancelScope = field(default_factory=lambda: trio.CancelScope(shield=True))  # of its end
    stopped_because: str = ""
    ending: Ending | None = None
    done: trio.Event = field(default_factory=trio.Event)

    @property
    def guest(self) -> str:
        """The name of the guest who answers, "" if none does."""
        return self.speaker.name if self.speaker.id != self.agent.id else ""

    def cancel(self, reason: str) -> None:
        """Stop it; the first reason is the one that is told."""
        if not self.stopped_because:
            self.stopped_because = reason
            self.scope.cancel()

    async def result(self) -> Ending:
        """Wait for its end.

        **Cancellation:** the turn goes on.
        """
        await self.done.wait()
        assert self.ending is not None  # noqa: S101 - set before the event
        return self.ending
