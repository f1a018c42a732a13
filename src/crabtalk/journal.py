"""The end of each piece of work, written down: its audit row, what it wants stored with it, who hears of it.

Rows of tool calls are deferred, since they may be lost with the power; the end of a wake or an event is one
durable batch. Knows no queue and starts nothing.
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import trio

from crabtalk import accounting
from crabtalk.clock import Clock
from crabtalk.errors import Internal, RequestError, StoreError
from crabtalk.ids import new_id
from crabtalk.runs import Run
from crabtalk.store.engine import Engine, Later, Write
from crabtalk.store.interfaces.audit import Audit, AuditRow
from crabtalk.tools import Outcome
from crabtalk.work import Work

logger = logging.getLogger(__name__)

_SMALL_BYTES: Final = 16 << 10  # of arguments and result: what is held until the row is made
_ROW_BYTES: Final = 1024

# Hears of each row before its digests are made.
Listener = Callable[[Work, AuditRow, Outcome], None]


class Journal:
    """Writes rows, and keeps count of those that it does not write."""

    def __init__(self, store: Engine, clock: Clock, listener: Listener | None) -> None:
        self._store = store
        self._audit = Audit(store)
        self._clock = clock
        self._listener = listener
        self._floods = accounting.Floods()
        self.refused = 0

    @property
    def unlisted(self) -> int:
        """How many refusals have no row of their own."""
        return self._floods.unlisted

    @staticmethod
    def is_quick(work: Work, outcome: Outcome) -> bool:
        """Report whether `note` will do, without waiting for anything."""
        return work.finish is None and not accounting.is_long(work, outcome)

    def note(self, run: Run, outcome: Outcome) -> None:
        """Write the row of a run that has ended, with the next batch."""
        row = _row(run, outcome, self._clock.monotonic())
        args, result = run.work.args, accounting.result_of(outcome)
        size = len(args) + len(result)
        if size <= _SMALL_BYTES:
            self._defer(Later(partial(self._writes_of, row, args, result), _ROW_BYTES + size))
        else:
            self._defer(self._writes_of(row, args, result))
        self._tell(run, row, outcome)

    async def finish(self, run: Run, outcome: Outcome) -> None:
        """Write the row of a run that has ended, together with what its work wants to write.

        Raises:
            Internal: if that was not to be had, or the store did not take it.
        """
        ended_s = self._clock.monotonic()
        if accounting.is_long(run.work, outcome):
            row = await trio.to_thread.run_sync(partial(_whole_row, run, outcome, ended_s))
        else:
            row = _whole_row(run, outcome, ended_s)
        if run.work.finish is None:
            self._defer(self._audit.row(row))
        elif (writes := _writes(run, outcome, row)) is not None:
            await self._commit([*writes, *self._audit.row(row)])
        self._tell(run, row, outcome)

    def refuse(self, work: Work, error: RequestError) -> None:
        """Count work that was not run, and write a row about it unless there are too many."""
        self.refused += 1
        more = self._floods.note(work, error, self._clock.monotonic())
        # Work that finishes something is its owner's to note: it may ask again, as often as it likes.
        if more is not None and work.finish is None:
            now_ms = self._clock.now_ms()
            row = accounting.refused_row(work, error, id=new_id(), now_ms=now_ms, more=more)
            self._defer(self._audit.row(row))

    def _tell(self, run: Run, row: AuditRow, outcome: Outcome) -> None:
        if self._listener is not None:
            self._listener(run.work, row, outcome)

    def _writes_of(self, row: AuditRow, args: bytes, result: bytes) -> list[Write]:
        return self._audit.row(accounting.with_digests(row, args, result))

    def _defer(self, writes: Sequence[Write] | Later) -> None:
        try:
            self._store.defer(writes)
        except StoreError:
            # Whoever asked gets the outcome all the same: it happened.
            logger.exception("an audit row was not stored")

    async def _commit(self, writes: Sequence[Write]) -> None:
        try:
            await self._store.commit(writes)
        except StoreError as error:
            logger.exception("the end of an invocation was not stored")
            raise Internal(f"it ran, but its end was not stored: {error}") from error


def _row(run: Run, outcome: Outcome, ended_s: float) -> AuditRow:
    return accounting.row_of(
        run.work,
        outcome,
        id=run.id,
        image=run.bounds.digest,
        chain=run.chain,
        depth=run.depth,
        started_ms=run.started_ms,
        duration_us=int((ended_s - run.started_s) * 1_000_000),
    )


def _whole_row(run: Run, outcome: Outcome, ended_s: float) -> AuditRow:
    row = _row(run, outcome, ended_s)
    return accounting.with_digests(row, run.work.args, accounting.result_of(outcome))


def _writes(run: Run, outcome: Outcome, row: AuditRow) -> Sequence[Write] | None:
    """Ask the work what to write.

    Raises:
        Internal: if it does not know.
    """
    assert run.work.finish is not None  # noqa: S101 - for the type checker
    try:
        return run.work.finish(outcome, row)
    except Exception as error:
        logger.exception("invocation %s has ended, and what that means was not found out", run.id)
        raise Internal(f"it ran, but its end was not stored: {type(error).__name__}: {error}") from error
