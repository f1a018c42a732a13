"""The events that the daemon publishes itself: ids and outcomes, no content. Values in, values out."""

import json
from collections.abc import Mapping
from typing import Final

from crabtalk.store.interfaces.audit import AuditRow
from crabtalk.store.interfaces.wakes import ChainRecord
from crabtalk.tools import Trapped

TRAP: Final = "harness:trap"
CHAIN_ENDED: Final = "daemon:chain-ended"


def as_payload(values: Mapping[str, object]) -> str:
    """Return the payload of an event of the daemon's own."""
    return json.dumps(values, ensure_ascii=False, separators=(",", ":"))


def trap_event(row: AuditRow, outcome: Trapped) -> dict[str, object]:
    """Return what subscribers hear of an invocation that trapped."""
    return {
        "invocation": row.id,
        "trigger": row.trigger,
        "agent": row.agent_id,
        "agent_name": row.agent_name,
        "harness": row.harness,
        "tool": row.tool,
        "kind": outcome.kind,
        "chain": row.chain,
    }


def chain_ended_event(chain: ChainRecord, reason: str, agent_id: str) -> dict[str, object]:
    """Return what those who watch hear when a chain starts nothing more."""
    return {"chain": chain.id, "depth": chain.depth, "agent": agent_id, "reason": reason}
