"""What the audit keeps of an invocation: makes the rows, and spares the store a flood of refusals.

Sizes and digests of arguments and results go into a row, never their bytes. Knows neither queue nor guests.
"""

import math
from collections import OrderedDict
from collections.abc import Hashable
from hashlib import sha256
from typing import Final

from crabtalk.chains import Chain
from crabtalk.errors import RequestError
from crabtalk.store.interfaces.audit import AuditRow, Ending
from crabtalk.store.interfaces.wakes import ChainRecord
from crabtalk.tools import Done, Failed, Outcome, Trapped
from crabtalk.work import Work

MESSAGE_CHARACTERS: Final = 4096  # of a row's message
# Bytes from which a digest is made in a thread: about 0.2 ms of the loop.
LONG_DIGEST: Final = 256 << 10
_QUIET_S: Final = 10.0  # between two rows about refusals of one harness; picked, not measured
_FLOODS: Final = 4096  # harnesses whose refusals are counted at once
_FLOODING: Final = frozenset({429, 503})

_NAME_CHARACTERS: Final = 128  # of names that may be anybody's invention


def digest(data: bytes) -> str:
    """Return what a row says of some bytes: SHA-256 in hexadecimal, nothing of nothing."""
    return sha256(data).hexdigest() if data else ""


def row_of(
    work: Work,
    outcome: Outcome,
    *,
    id: str,  # noqa: A002 - as the row has it
    image: str,
    chain: Chain,
    depth: int,
    started_ms: int,
    duration_us: int,
) -> AuditRow:
    """Return the row of an invocation that ended; beyond LONG_DIGEST not on the loop."""
    result = result_of(outcome)
    message = "" if type(outcome) is Done else outcome.message[:MESSAGE_CHARACTERS]  # type: ignore[union-attr]
    agent, args = work.agent, work.args
    # All fields in their order, without the constructor: this is made for every call.
    return tuple.__new__(
        AuditRow,
        (
            id,
            work.trigger,
            agent.id,
            agent.name,
            work.harness,
            work.entry,
            image,
            started_ms,
            duration_us,
            outcome.instructions,
            ending_of(outcome),
            message,
            depth,
            chain.id,
            chain.parent,
            len(args),
            digest(args),
            len(result),
            digest(result),
            work.epoch,
            work.reason,
            work.client,
            work.attempt,
            work.scheduled_at_ms,
            work.key,
            work.subject,
        ),
    )


def refused_row(work: Work, error: RequestError, *, id: str, now_ms: int, more: int) -> AuditRow:  # noqa: A002
    """Return the row of work that was not run; `more` like it were not listed before it."""
    chain = work.chain
    message = f"{error.code}: {error.message[:MESSAGE_CHARACTERS]}"
    if more:
        message += f" ({more} more refusals of this harness were not listed)"
    return AuditRow(
        id=id,
        trigger=work.trigger.value,
        agent_id=work.agent.id,
        agent_name=work.agent.name,
        harness=work.harness[:_NAME_CHARACTERS],
        tool=work.entry[:_NAME_CHARACTERS],
        digest="",
        started_ms=now_ms,
        duration_us=0,
        instructions=0,
        outcome="refused",
        message=message,
        depth=chain.depth if isinstance(chain, ChainRecord) else work.depth,
        chain="" if chain is None else chain.id,
        parent_chain=work.parent_chain,
        args_size=len(work.args),
        epoch=work.epoch,
        reason=work.reason,
        client=work.client,
        attempt=work.attempt,
        scheduled_at_ms=work.scheduled_at_ms,
        key=work.key,
        subject=work.subject,
    )


def result_of(outcome: Outcome) -> bytes:
    """Return what a row counts as the result."""
    if type(outcome) is Done:
        return outcome.data
    return outcome.message.encode(errors="replace") if type(outcome) is Failed else b""


def ending_of(outcome: Outcome) -> Ending:
    """Return what a row calls an outcome."""
    if type(outcome) is Done:
        return "done"
    if type(outcome) is Failed:
        return "failed"
    assert type(outcome) is Trapped  # noqa: S101 - for the type checker
    return "cancelled" if outcome.kind == "cancelled" else "trap"


class Floods:
    """Decides which refusals get a row: of many of one kind, the first and then one every ten seconds."""

    def __init__(self) -> None:
        self._since: OrderedDict[Hashable, tuple[float, int]] = OrderedDict()  # when listed, more since
        self.unlisted = 0

    def note(self, work: Work, error: RequestError, now_s: float) -> int | None:
        """Return how many went unlisted before this one, None if this one is only counted."""
        if error.code not in _FLOODING:
            return 0
        return self.note_one((work.agent.id, work.harness), now_s)

    def note_one(self, kind: Hashable, now_s: float) -> int | None:
        """As `note`, of a kind that comes in floods."""
        listed_s, more = self._since.get(kind, (-math.inf, 0))
        if now_s - listed_s < _QUIET_S:
            self._since[kind] = listed_s, more + 1
            self.unlisted += 1
            return None
        self._since[kind] = now_s, 0
        self._since.move_to_end(kind)
        if len(self._since) > _FLOODS:
            self._since.popitem(last=False)
        return more
