"""What one occurrence of a wake is to a guest and to the audit: values in, values out."""

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Final, Literal, Protocol

from crabtalk.ids import new_id
from crabtalk.store.engine import Write
from crabtalk.store.interfaces.agents import AgentRecord
from crabtalk.store.interfaces.audit import AuditRow, Ending
from crabtalk.store.interfaces.wakes import WakeRecord
from crabtalk.tools import Outcome, Trapped, Trigger
from crabtalk.work import ON_WAKE, TAKEN_BACK

MISSED: Final = "wake:missed"  # the source of the event

Reason = Literal["due", "late"]


class Prepared(Protocol):
    """An event that has its places, and is announced once its writes are committed."""

    @property
    def writes(self) -> Sequence[Write]:
        """What has to be committed."""

    def committed(self) -> None:
        """Deliver it."""

    def abandoned(self) -> None:
        """Take it back: its writes were not committed."""


class Emitter(Protocol):
    """Where the daemon's own events go."""

    def prepare(self, source: str, payload: Mapping[str, object]) -> Prepared:
        """Make an event ready to be committed with something else."""


def argument(record: WakeRecord, now_ms: int, reason: Reason) -> bytes:
    """Return what `on_wake` gets: a JSON object."""
    values = {
        "id": record.id,
        "key": record.key or "",
        "payload_base64": b64encode(record.payload).decode(),
        "scheduled_at_ms": record.at_ms,
        "now_ms": now_ms,
        "attempt": record.attempt,
        "reason": reason,
    }
    return json.dumps(values, ensure_ascii=False, separators=(",", ":")).encode()


def was_cut_off(outcome: Outcome, *, stopping: bool) -> bool:
    """Report whether a guest was stopped with the daemon, so that what it ran for is not over."""
    if not isinstance(outcome, Trapped) or outcome.kind != "cancelled":
        return False
    return stopping or outcome.message == TAKEN_BACK


def missed_event(record: WakeRecord) -> dict[str, object]:
    """Return what subscribers hear of a wake that could not be delivered."""
    return {
        "id": record.id,
        "agent": record.agent_id,
        "harness": record.harness,
        "key": record.key or "",
        "scheduled_at_ms": record.at_ms,
    }


def unrun_row(
    record: WakeRecord, agent: AgentRecord | None, ending: Ending, message: str, now_ms: int
) -> AuditRow:
    """Return the audit's row of an occurrence that ends without a run of its own."""
    return AuditRow(
        id=new_id(),
        trigger=Trigger.WAKE.value,
        agent_id=record.agent_id,
        agent_name="" if agent is None else agent.name,
        harness=record.harness,
        tool=ON_WAKE,
        digest="",
        started_ms=now_ms,
        duration_us=0,
        instructions=0,
        outcome=ending,
        message=message,
        depth=0 if record.chain is None else record.chain.depth,
        chain="" if record.chain is None else record.chain.id,
        args_size=len(record.payload),
        attempt=record.attempt,
        scheduled_at_ms=record.at_ms,
        key=record.key,
        subject=record.id,
    )
