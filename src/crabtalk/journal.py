"""The end of each piece of work, written down: its audit row, what it wants stored with it, who hears of it.

Rows of tool calls are deferred, since they may be lost with the power; the end of a wake or an event is one
durable batch. Rows are made where the calls ended: what they are made of is in that processor's caches, and
in a thread of the store they would cost twice. Knows no queue and starts nothing.
"""

import logging
from collections.abc import Sequence
from typing import Final, Protocol

import trio

from crabtalk import accounting
from crabtalk.accounting import LONG_DIGEST, digest
from crabtalk.chains import Chain
from crabtalk.clock import Clock
from crabtalk.errors import Internal, RequestError, StoreError
from crabtalk.ids import new_id
from crabtalk.runs import Run
from crabtalk.store.engine import Engine, Write
from crabtalk.store.interfaces.audit import Audit, AuditRow, DoneRows
from crabtalk.tools import Done, Failed, Outcome, Trapped, never_began
from crabtalk.work import Work

logger = logging.getLogger(__name__)


class End:
    """How a run ended."""

    __slots__ = ("duration_us", "ended_s", "outcome", "run", "size")

    def __init__(self, run: Run, outcome: Outcome, ended_s: float) -> None:
        self.run = run
        self.outcome = outcome
        self.ended_s = ended_s  # of the monotonic clock
        self.duration_us = int((ended_s - run.started_s) * 1_000_000)  # from when it began
        # Bytes that the digests of its row are made of: of its arguments and its result.
        self.size = len(run.work.args)
        if type(outcome) is Done:
            self.size += len(outcome.data)
        elif type(outcome) is Failed:
            self.size += len(outcome.message)


_KINDS: Final = 1024  # of rows whose shared part is remembered


class Listener(Protocol):
    """Hears of every invocation that ran; must not raise."""

    def waited(self, work: Work, waited_s: float) -> None:
        """Take note of work that could not begin at once, and does now."""

    def ended(self, ends: Sequence[End]) -> None:
        """Take note of them."""

    def trapped(self, row: AuditRow, outcome: Trapped, chain: Chain) -> None:
        """Take note of a guest that died, and was not cancelled; `chain` is the one that it ran on."""


class Journal:
    """Writes rows, and keeps count of those that it does not write."""

    def __init__(self, store: Engine, clock: Clock, listener: Listener | None) -> None:
        self._store = store
        self._audit = Audit(store)
        self._clock = clock
        self._listener = listener
        self._floods = accounting.Floods()
        self._done: dict[tuple[tuple[str, ...], str], DoneRows] = {}  # by what its rows share
        self.refused = 0

    @property
    def unlisted(self) -> int:
        """How many refusals have no row of their own."""
        return self._floods.unlisted

    @staticmethod
    def is_quick(end: End) -> bool:
        """Report whether `note` will do, without waiting for anything."""
        return end.run.work.finish is None and end.size <= LONG_DIGEST

    def note_wait(self, work: Work, waited_s: float) -> None:
        """Say that work begins that had to wait for its turn."""
        if self._listener is not None:
            self._listener.waited(work, waited_s)

    def note(self, ends: Sequence[End]) -> None:
        """Write the rows of runs that have ended, with the next batch.

        Raises nothing: they have run, and are not to run again because of their rows.
        """
        if not ends:
            return
        try:
            self._defer([self._write(end) for end in ends])
        except Exception:
            logger.exception("audit rows were not made")
        self._tell(ends)

    def _write(self, end: End) -> Write:
        """Return what stores the row of an end, as `_row` has it."""
        run, outcome = end.run, end.outcome
        work = run.work
        if type(outcome) is not Done or not work.is_bare:
            return self._audit.write(_row(end))
        agent = work.agent
        kind = (work.trigger, agent.id, agent.name, work.harness, work.entry, run.bounds.digest)
        rows = self._done.get((kind, work.client))
        if rows is None:
            if len(self._done) >= _KINDS:
                self._done.clear()
            rows = self._done[kind, work.client] = DoneRows(*kind, client=work.client)
        return rows.write(
            run.id,
            run.started_ms,
            end.duration_us,
            outcome.instructions,
            run.depth,
            (run.chain.id, run.chain.parent),
            (len(work.args), len(outcome.data)),
            (digest(work.args), digest(outcome.data)),
        )

    async def finish(self, end: End) -> None:
        """Write the row of a run that has ended, together with what its work wants to write.

        Raises:
            Internal: if that was not to be had, or the store did not take it.
        """
        row = await trio.to_thread.run_sync(_row, end) if end.size > LONG_DIGEST else _row(end)
        if end.run.work.finish is None:
            self._defer(self._audit.row(row))
        elif (writes := _writes(end, row)) is not None:
            await self._commit([*writes, *self._audit.row(row)])
        elif never_began(end.outcome):
            return  # nobody hears of what was not
        self._tell((end,))

    def refuse(self, work: Work, error: RequestError) -> None:
        """Count work that was not run, and write a row about it unless there are too many. Raises nothing."""
        self.refused += 1
        more = self._floods.note(work, error, self._clock.monotonic())
        # Work that finishes something is its owner's to note: it may ask again, as often as it likes.
        if more is None or work.finish is not None:
            return
        try:
            now_ms = self._clock.now_ms()
            row = accounting.refused_row(work, error, id=new_id(), now_ms=now_ms, more=more)
            self._defer(self._audit.row(row))
        except Exception:
            logger.exception("the audit row of a refusal was not made")

    def _tell(self, ends: Sequence[End]) -> None:
        if self._listener is None:
            return
        try:
            self._listener.ended(ends)
            for end in ends:
                if type(end.outcome) is Trapped and end.outcome.kind != "cancelled":
                    self._listener.trapped(_row(end), end.outcome, end.run.chain)
        except Exception:
            logger.exception("not everybody heard of what has ended")

    def _defer(self, writes: Sequence[Write]) -> None:
        try:
            self._store.defer(writes)
        except StoreError:
            # Whoever asked gets the outcome all the same: it happened.
            logger.exception("audit rows were not stored")

    async def _commit(self, writes: Sequence[Write]) -> None:
        try:
            await self._store.commit(writes)
        except StoreError as error:
            logger.exception("the end of an invocation was not stored")
            raise Internal(f"it ran, but its end was not stored: {error}") from error


def _row(end: End) -> AuditRow:
    run = end.run
    return accounting.row_of(
        run.work,
        end.outcome,
        id=run.id,
        image=run.bounds.digest,
        chain=run.chain,
        depth=run.depth,
        started_ms=run.started_ms,
        duration_us=end.duration_us,
    )


def _writes(end: End, row: AuditRow) -> Sequence[Write] | None:
    """Ask the work what to write.

    Raises:
        Internal: if it does not know.
    """
    run = end.run
    assert run.work.finish is not None  # noqa: S101 - for the type checker
    try:
        return run.work.finish(end.outcome, row)
    except Exception as error:
        logger.exception("invocation %s has ended, and what that means was not found out", run.id)
        raise Internal(f"it ran, but its end was not stored: {type(error).__name__}: {error}") from error
