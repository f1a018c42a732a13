"""What the work queue holds: tickets, the harnesses that own them, and the agents of those.

Values and counts without rules: who may change what, and when, is in `work_queue`.
"""

from collections import OrderedDict, deque
from enum import Enum
from typing import Final

from crabtalk.rates import Bucket


class State(Enum):
    """Where a ticket is."""

    NEW = "new"
    PARKED = "parked"  # another ticket of its key is in flight
    QUEUED = "queued"
    URGENT = "urgent"  # waits for its harness alone: a callee, or a guest that was suspended
    RUNNING = "running"
    SUSPENDED = "suspended"
    ENDED = "ended"


# By names of the module, as each call looks at them ten times: a member of an Enum costs many times that.
NEW: Final = State.NEW
RUNNING: Final = State.RUNNING
ENDED: Final = State.ENDED


class Ticket:
    """One piece of work, as the queue sees it."""

    __slots__ = ("holds_key", "inherits", "interactive", "key", "owner", "size_bytes", "state")

    def __init__(self, interactive: bool, key: str | None = None, inherits: bool = False) -> None:  # noqa: FBT001, FBT002
        """`key`: never two at once of one owner and key; `inherits`: a callee, in the slot of its caller."""
        self.interactive = interactive
        self.key = key
        self.inherits = inherits
        self.state: State = NEW
        self.owner: Owner | None = None  # from here on the queue's
        self.size_bytes = 0  # of its pages, while suspended
        self.holds_key = False  # whether it is the one of its key


class Agent:
    """What the queue knows of an agent."""

    __slots__ = ("owners", "queued", "ready", "running")

    def __init__(self) -> None:
        self.owners = 0  # that the queue knows
        self.running = 0
        self.queued = 0
        self.ready: tuple[OrderedDict[Owner, None], ...] = (OrderedDict(), OrderedDict())  # by class


class Owner:
    """What the queue knows of a harness of an agent."""

    __slots__ = (
        "agent",
        "bucket",
        "concurrency",
        "harness",
        "keys",
        "running",
        "suspended",
        "urgent",
        "waiting",
    )

    def __init__(self, agent: Agent, harness: str) -> None:
        self.agent = agent
        self.harness = harness
        self.concurrency = 1
        self.running = 0
        self.suspended = 0
        self.waiting: tuple[OrderedDict[Ticket, None], ...] = (OrderedDict(), OrderedDict())  # by class
        self.urgent: OrderedDict[Ticket, None] = OrderedDict()
        self.keys: dict[str, deque[Ticket]] = {}  # in flight: who waits behind
        self.bucket = Bucket()

    @property
    def idle(self) -> bool:
        """Whether it has no work of any kind."""
        return not (self.running or self.suspended or self.keys or self.urgent or any(self.waiting))
