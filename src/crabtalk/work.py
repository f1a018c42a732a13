"""Work: what the executor is asked to run, and within what. Values only."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from crabtalk.chains import TOKENS, Chain
from crabtalk.store.engine import Write
from crabtalk.store.interfaces.agents import AgentRecord
from crabtalk.store.interfaces.audit import AuditRow
from crabtalk.store.interfaces.wakes import ChainRecord
from crabtalk.tools import Gate, Outcome, Trigger
from crabtalk.work_queue import QueueLimits, QueueStatistics

ON_WAKE: Final = "on_wake"
ON_NOTIFY: Final = "on_notify"
# The message of an invocation that was cancelled with the task that awaited it, and by nobody else.
TAKEN_BACK: Final = "who asked for it took it back"

# Called when a guest has ended: says what goes into the batch that holds its audit row. None: write nothing,
# not even the row, since the same work will run again.
Finish = Callable[[Outcome, AuditRow], Sequence[Write] | None]


class Work(NamedTuple):
    """One invocation that is asked for; made by keywords. A tuple, as one is made for every call."""

    trigger: Trigger
    agent: AgentRecord
    harness: str  # as the agent declares it
    entry: str  # a tool's name, `on_wake` or `on_notify`
    args: bytes = b""
    chain: Chain | ChainRecord | None = None  # None: a new one
    parent_chain: str | None = None  # of a new chain: the id of the one that it came from
    depth: int = 0  # on its chain; a ChainRecord has its own
    session: str | None = None  # a session's handle
    session_root: str | None = None
    client: str = ""  # who asked
    deadline_s: float | None = None  # from when it is accepted; the declaration's counts from when it runs
    key: str | None = None  # never two at once of one harness and key
    interactive: bool = True  # somebody waits for it: before what is not
    epoch: int | None = None  # from here on: facts for the audit row
    reason: str = ""
    scheduled_at_ms: int | None = None
    attempt: int | None = None
    subject: str | None = None  # the id of the wake or event
    finish: Finish | None = None
    caller: Gate | None = None  # of who waits for this one: its deadline stands still with ours

    @property
    def is_bare(self) -> bool:
        """Whether it has no facts for the audit row."""
        return (
            self.key is None
            and self.epoch is None
            and self.subject is None
            and self.attempt is None
            and self.scheduled_at_ms is None
            and not self.reason
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorLimits:
    """How much the executor takes on."""

    queue: QueueLimits = field(default_factory=QueueLimits)
    workers: int = 0  # threads for guests that compute; 0: one for each core
    blocking_workers: int = 64  # threads for capabilities that block; picked, not measured
    chain_tokens: int = TOKENS  # of models, for all turns on one chain
    stop_s: float = 5.0  # how long a stop waits for what was cancelled


@dataclass(frozen=True, slots=True)
class Running:
    """One invocation that has not ended."""

    id: str
    trigger: Trigger
    agent: AgentRecord
    harness: str
    tool: str
    started_ms: int  # when it began to run, else when it was accepted
    depth: int
    chain: str
    session: str | None
    state: Literal["queued", "running", "suspended"]


@dataclass(frozen=True, slots=True)
class ExecutorStatistics:
    """What the executor has done and is doing."""

    queue: QueueStatistics
    started: int  # since it was made, as the rest
    refused: int
    unlisted_refusals: int  # of `refused`: those without an audit row of their own
    chains: int  # remembered for stored wakes and events
    computing: int  # threads that guests compute in, now
    waiting_to_compute: int  # guests that stand in line for one, now
    blocking: int  # threads that capabilities block, now
