"""Approvals: what people allowed, to which bytes of whose harness, and for how long."""

from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from crabtalk.store.engine import Reader, Write, delete, entries, keys, put
from crabtalk.store.keys import key, prefix
from crabtalk.store.records import Codec

COLUMN: Final = "agent"
Scope = Literal["once", "session", "always"]


class Subject(NamedTuple):
    """What an approval is about; anything else in it is another subject."""

    agent_id: str
    harness: str  # the declaration's name
    sha256: str  # of the ELF
    capability: str
    argument: str  # of the declaration: `root = /home/me/code`


@dataclass(frozen=True, slots=True)
class ApprovalRecord:
    """What a person allowed, as it was shown."""

    id: str  # a ULID
    agent_id: str
    harness: str
    sha256: str
    capability: str
    argument: str
    text: str  # what the guest wanted to do with it then
    scope: Scope
    session: str  # a handle: the only one that it holds for, where `scope` says so
    at_ms: int
    client: str  # who answered

    @property
    def subject(self) -> Subject:
        """What it is about."""
        return Subject(self.agent_id, self.harness, self.sha256, self.capability, self.argument)


_CODEC: Final = Codec(ApprovalRecord)


class Approvals:
    """Reads approvals, and says what to write for them."""

    def __init__(self, engine: Reader) -> None:
        self._engine = engine

    def all(self) -> list[ApprovalRecord]:
        """Return every approval, by agent, the oldest first.

        Raises:
            StoreError: if one is damaged.
        """
        rows = entries(self._engine, COLUMN, prefix("approval"))
        return [_CODEC.decode(COLUMN, at, raw) for at, raw in rows]

    def save(self, record: ApprovalRecord) -> list[Write]:
        """Return what stores an approval."""
        return [put(COLUMN, key("approval", record.agent_id, record.id), _CODEC.encode(record))]

    def remove(self, record: ApprovalRecord) -> list[Write]:
        """Return what removes an approval."""
        return [delete(COLUMN, key("approval", record.agent_id, record.id))]

    def forget_agent(self, agent_id: str) -> list[Write]:
        """Return what removes the approvals of an agent."""
        return [delete(COLUMN, at) for at in keys(self._engine, COLUMN, prefix("approval", agent_id))]
