"""The rows that turns leave in the audit: how each ended, and with what the daemon answers for it."""

from typing import Final

from crabtalk.conversation.turns import Ending, Turn
from crabtalk.store.interfaces.audit import AuditRow
from crabtalk.store.interfaces.audit import Ending as RowEnding
from crabtalk.tools import Done, Failed, Outcome, Trapped
from crabtalk.work import Work

TURN: Final = "turn"  # what a row has in the place of a tool
COMPACT: Final = "compact"  # of a turn that summed a session up
_MESSAGE_CHARACTERS: Final = 4096


def outcome_of(ending: Ending) -> Outcome:
    """Return what whoever asked for an invocation hears of a turn that ended."""
    if ending.error is None:
        return Done(ending.text.encode(errors="replace"))
    if ending.outcome == "cancelled":
        return Trapped("cancelled", ending.error.message)
    return Failed(ending.error.message)


def row_of(turn: Turn, outcome: Outcome, now_ms: int, work: Work | None = None) -> AuditRow:
    """Return the row of a turn that ended now; `work` is what a wake or an event asked for."""
    ending, message, size = _ended(outcome)
    chain = turn.chain
    return AuditRow(
        id=turn.id,
        trigger=turn.trigger,
        agent_id=turn.speaker.id,
        agent_name=turn.speaker.name,
        harness="",
        tool=COMPACT if turn.summary else TURN,
        digest="",
        started_ms=turn.started_ms,
        duration_us=max(0, now_ms - turn.started_ms) * 1000,
        instructions=0,
        outcome=ending,
        message=message[:_MESSAGE_CHARACTERS],
        depth=turn.depth,
        chain=chain.id if chain is not None else "",
        parent_chain=chain.parent if chain is not None else None,
        args_size=len(turn.content.encode(errors="replace") if work is None else work.args),
        result_size=size,
        epoch=work.epoch if work is not None else None,
        reason=work.reason if work is not None else "",
        client=turn.client,
        attempt=work.attempt if work is not None else None,
        scheduled_at_ms=work.scheduled_at_ms if work is not None else None,
        key=work.key if work is not None else None,
        subject=work.subject if work is not None else None,
    )


def _ended(outcome: Outcome) -> tuple[RowEnding, str, int]:
    if isinstance(outcome, Done):
        return "done", "", len(outcome.data)
    return ("cancelled" if isinstance(outcome, Trapped) else "failed"), outcome.message, 0
