"""The task that wakes harnesses: one waiter sleeps until something is due, and a task runs each wake.

The sleep is bounded, since the wall clock may be set, or go on while the machine sleeps: at each step it is
read again, and what is due is due. What starts when is for `Backlog` to say; this claims, hands to executor,
and sees that each occurrence leaves one row: it ran, failed, or was missed. Without wakes it does nothing.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

import trio

from crabtalk.clock import Clock
from crabtalk.errors import Busy, NotFound, RequestError, ShuttingDown, StoreError
from crabtalk.scheduling.backlog import Backlog, Item, Pace
from crabtalk.scheduling.chaining import chain_of
from crabtalk.scheduling.occurrence import (
    MISSED,
    Emitter,
    Prepared,
    Reason,
    argument,
    missed_event,
    unrun_row,
    was_cut_off,
)
from crabtalk.scheduling.targets import Owner, Runner, Targets, name_of
from crabtalk.scheduling.wakes import MAX_ATTEMPTS, WakeService
from crabtalk.store.engine import Engine, Write
from crabtalk.store.interfaces.agents import AgentRecord
from crabtalk.store.interfaces.audit import Audit, AuditRow, Ending
from crabtalk.store.interfaces.wakes import WakeRecord
from crabtalk.tools import Outcome, Trigger, never_began
from crabtalk.work import ON_WAKE, Work
from crabtalk.work_queue import Overloaded

logger = logging.getLogger(__name__)

MISSED_MS: Final = 24 * 3600 * 1000  # how long a wake may be undeliverable
_STEP_MS: Final = 2000  # of the wall clock against the monotonic one, from when on it is noticed
_BUSY_S: Final = 1.0  # until a wake that found the queue full is tried again, at first
_MAX_BUSY_S: Final = 30.0
_DOUBLINGS: Final = 10  # of the wait; beyond the longest one by far
_BROKEN_S: Final = 30.0  # and one for which the store did not work
_BOOT_SHIFT: Final = 32  # the bits of an epoch that count drains; those above are the number of the boot


class _Fate(Enum):
    """What became of a wake whose turn it was."""

    ENDED = auto()  # or was gone
    BLOCKED = auto()  # its harness cannot be run
    BUSY = auto()  # the executor did not take it
    BROKEN = auto()  # the store did not work


@dataclass(frozen=True, slots=True)
class LoopStatistics:
    """What the loop has done since it began, and what is before it."""

    running: int
    spilled: int  # due, and waiting for its turn
    blocked: int  # due, and waiting for a harness that can be run
    started: int
    late: int  # of those started
    missed: int
    exhausted: int
    clock_steps: int
    epoch: int


class WakeLoop:
    """Runs what is due; used from trio's thread only."""

    def __init__(
        self,
        wakes: WakeService,
        events: Emitter,
        runner: Runner,
        targets: Targets,
        store: Engine,
        clock: Clock,
        *,
        boot_number: int,
        pace: Pace | None = None,
    ) -> None:
        """`boot_number` grows with each start of the daemon, and epochs with it."""
        self._wakes = wakes
        self._events = events
        self._runner = runner
        self._targets = targets
        self._audit = Audit(store)
        self._clock = clock
        self._backlog = Backlog(wakes.due, pace or Pace(), self._find)
        self._bell = trio.Event()
        self._stopping = False
        self._epoch = boot_number << _BOOT_SHIFT
        self._busy: dict[str, tuple[int, float]] = {}  # how often a wake was not taken, when to ask again
        self._last: tuple[int, float] | None = None  # wall and monotonic clock, read together
        self._started = self._late = self._missed = self._exhausted = self._clock_steps = 0
        wakes.on_earlier(self.ring)

    async def serve(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Wake harnesses until `stop`, and return when what was started has ended.

        **Cancellation:** guests are stopped, and their wakes given back.
        """
        async with trio.open_nursery() as nursery:
            task_status.started()
            while not self._stopping:
                self._bell = trio.Event()
                now_ms, at = self._clock.now_ms(), self._clock.monotonic()
                self._step(nursery, now_ms, at)
                await self._sleep(self._backlog.wait_s(now_ms, at))

    def stop(self) -> None:
        """Start nothing any more; wakes whose guests are cancelled from now on run again after a restart."""
        self._stopping = True
        self.ring()

    def ring(self) -> None:
        """Look again at what is due."""
        self._bell.set()

    def recheck(self, agent_id: str) -> None:
        """Look again at wakes that could not be delivered: something about their agent changed."""
        self._backlog.hasten(agent_id, self._clock.monotonic())
        self.ring()

    def statistics(self) -> LoopStatistics:
        """Count."""
        return LoopStatistics(
            self._backlog.running,
            self._backlog.spilled(self._clock.now_ms()),
            self._backlog.blocked,
            self._started,
            self._late,
            self._missed,
            self._exhausted,
            self._clock_steps,
            self._epoch,
        )

    # The waiter

    def _step(self, nursery: trio.Nursery, now_ms: int, at: float) -> None:
        """Start what is due."""
        self._note_clock(now_ms, at)
        taken = self._backlog.take(now_ms, at)
        self._epoch += bool(taken)
        for item in taken:
            nursery.start_soon(self._wake, item, self._epoch, name=f"wake {item.id}")
        for owner in self._backlog.to_retry(at):
            nursery.start_soon(self._ask_again, owner, name=f"ask again for {owner}")

    async def _sleep(self, wait_s: float | None) -> None:
        if wait_s is None:
            await self._bell.wait()
            return
        if wait_s <= 0:
            await trio.lowlevel.checkpoint()
            return
        with trio.move_on_after(wait_s):
            await self._bell.wait()

    def _note_clock(self, now_ms: int, at: float) -> None:
        """Notice that the wall clock was set, or that the machine slept."""
        if self._last is not None:
            then_ms, then = self._last
            step_ms = now_ms - then_ms - round((at - then) * 1000)
            if abs(step_ms) >= _STEP_MS:
                self._clock_steps += 1
                logger.warning("the wall clock moved by %+.1f s, wakes follow it", step_ms / 1000)
        self._last = (now_ms, at)

    def _find(self, wake_id: str) -> WakeRecord | None:
        try:
            return self._wakes.get(wake_id)
        except StoreError:
            logger.exception("wake %s is left alone until the next start", wake_id)
            return None

    # One wake

    async def _wake(self, item: Item, epoch: int) -> None:
        """Run one wake, and give it back to the backlog unless it ended."""
        try:
            fate = await self._deliver(item, epoch)
        except trio.Cancelled:
            self._backlog.finish(item)
            raise
        except StoreError:
            logger.exception("wake %s was not run", item.id)
            fate = _Fate.BROKEN
        except Exception:
            logger.exception("wake %s failed inside the daemon", item.id)
            fate = _Fate.BROKEN
        self._settle(item, fate)
        self.ring()

    def _settle(self, item: Item, fate: _Fate) -> None:
        at = self._clock.monotonic()
        if fate is _Fate.BUSY:
            self._backlog.postpone(item, at + self._busy[item.id][1])
            return
        self._busy.pop(item.id, None)
        if fate is _Fate.ENDED:
            self._backlog.finish(item)
        elif fate is _Fate.BLOCKED:
            self._backlog.block(item, at)
        else:
            self._backlog.postpone(item, at + _BROKEN_S)

    async def _deliver(self, item: Item, epoch: int) -> _Fate:
        why = await self._why_not(item.owner)
        agent = self._targets.agent(item.agent_id)
        if agent is None or why is not None:
            return self._cannot(item.owner, why)
        record = await self._wakes.claim(item.id)
        if record is None:
            return _Fate.ENDED
        if self._wakes.is_exhausted(record):
            self._exhausted += 1
            reason = f"the daemon ended {MAX_ATTEMPTS} times while it ran"
            await self._end_unrun(record.id, "failed", reason)
            return _Fate.ENDED
        return await self._run(record, agent, epoch)

    async def _run(self, record: WakeRecord, agent: AgentRecord, epoch: int) -> _Fate:
        """Run a claimed wake; whatever happens, it has ended then or is given back."""
        ending = _Ending(self, record)
        fate = _Fate.ENDED
        why: str | None = None
        try:
            await self._runner.run(self._work(record, agent, epoch, ending))
        except (Busy, ShuttingDown) as error:
            fate = _Fate.BUSY
            self._note_busy(record, error)
        except NotFound as error:
            fate, why = _Fate.BLOCKED, error.message
        except RequestError as error:
            await self._refused(record, error, ending)
            return _Fate.ENDED
        except BaseException:
            if not ending.offered:
                with trio.CancelScope(shield=True):
                    await self._wakes.release(record)
            raise
        if ending.offered:
            self._wakes.ended(record)
        else:
            await self._wakes.release(record)
        why = why or ending.never_began
        return self._cannot(_owner(record), why) if why else fate

    def _note_busy(self, record: WakeRecord, error: RequestError) -> None:
        """Decide when a wake that the executor did not take is tried again."""
        tries = self._busy.get(record.id, (0, 0.0))[0]
        wait_s = min(_BUSY_S * 2 ** min(tries, _DOUBLINGS), _MAX_BUSY_S)
        if isinstance(error, Overloaded):
            wait_s = max(wait_s, error.retry_after_s)
        self._busy[record.id] = (tries + 1, wait_s)

    async def _refused(self, record: WakeRecord, error: RequestError, ending: "_Ending") -> None:
        """End a wake that asking again would not help."""
        if ending.offered:
            # It stays claimed, so that it does not run twice in this life of the daemon.
            logger.error("wake %s ran and is still stored as running: %s", record.id, error)
        else:
            await self._end_unrun(record.id, "failed", f"{error.code}: {error.message}")

    def _work(self, record: WakeRecord, agent: AgentRecord, epoch: int, ending: "_Ending") -> Work:
        now_ms = self._clock.now_ms()
        item = Item(record.at_ms, record.id, record.agent_id, record.harness, record.key)
        reason: Reason = "late" if self._backlog.is_late(item, now_ms) else "due"
        self._started += 1
        self._late += reason == "late"
        chain, parent = chain_of(record)
        return Work(
            trigger=Trigger.WAKE,
            agent=agent,
            harness=record.harness,
            entry=ON_WAKE,
            args=argument(record, now_ms, reason),
            chain=chain,
            parent_chain=parent,
            key=record.key,
            interactive=False,
            epoch=epoch,
            reason=reason,
            scheduled_at_ms=record.at_ms,
            attempt=record.attempt,
            subject=record.id,
            finish=ending,
        )

    def finish(self, record: WakeRecord, outcome: Outcome) -> list[Write] | None:
        """Return what ends an occurrence, None if it is to run again: it did not begin, or was cut off."""
        if never_began(outcome) or was_cut_off(outcome, stopping=self._stopping):
            return None
        return self._wakes.removal(record)

    # Wakes that cannot be delivered

    def _cannot(self, owner: Owner, why: str | None) -> _Fate:
        """Say so in the log, once until the harness is asked for again and can be run."""
        if not self._backlog.is_blocked(owner):
            logger.warning(
                "wakes of %s wait until it can be run: %s",
                name_of(owner),
                why or "its agent is gone",
                extra={"agent": owner[0], "harness": owner[1]},
            )
        return _Fate.BLOCKED

    async def _why_not(self, owner: Owner) -> str | None:
        """Say why a harness cannot be woken, None if it can."""
        agent_id, harness = owner
        agent = self._targets.agent(agent_id)
        if agent is None:
            return f"there is no agent with the id `{agent_id}`"
        try:
            await self._targets.require_ready(agent, harness, ON_WAKE)
        except RequestError as error:
            return error.message
        return None

    async def _ask_again(self, owner: Owner) -> None:
        """Let the wakes of a harness go on, or give up those that have waited for too long."""
        try:
            why = await self._why_not(owner)
            now_ms = self._clock.now_ms()
            if why is None:
                self._backlog.unblock(owner)
                self.ring()
                return
            for due in self._backlog.keep(owner, self._clock.monotonic(), now_ms - MISSED_MS):
                await self._miss(due.id, why)
            self.ring()
        except Exception:
            logger.exception("asking again for harness `%s` failed inside the daemon", owner[1])

    async def _miss(self, wake_id: str, why: str) -> None:
        prepared: Prepared | None = None

        def event(record: WakeRecord) -> list[Write]:
            nonlocal prepared
            prepared = self._events.prepare(MISSED, missed_event(record))
            return list(prepared.writes)

        try:
            ended = await self._end_unrun(wake_id, "missed", f"not delivered for 24 hours: {why}", event)
        except BaseException:
            if prepared is not None:
                prepared.abandoned()
            raise
        if ended and prepared is not None:
            self._missed += 1
            prepared.committed()

    async def _end_unrun(
        self,
        wake_id: str,
        ending: Ending,
        message: str,
        more: Callable[[WakeRecord], Sequence[Write]] = lambda _record: (),
    ) -> bool:
        """End an occurrence that does not run, with its row; report whether it was still there."""

        def writes(record: WakeRecord) -> list[Write]:
            agent = self._targets.agent(record.agent_id)
            row = unrun_row(record, agent, ending, message, self._clock.now_ms())
            return [*self._audit.row(row), *more(record)]

        return await self._wakes.end_unrun(wake_id, writes) is not None


def _owner(record: WakeRecord) -> Owner:
    return record.agent_id, record.harness


class _Ending:
    """What the executor calls when the guest of a wake has ended."""

    def __init__(self, loop: WakeLoop, record: WakeRecord) -> None:
        self._loop = loop
        self._record = record
        self.offered = False  # whether the executor got what ends the wake
        self.never_began = ""  # why there was no guest

    def __call__(self, outcome: Outcome, _row: AuditRow) -> list[Write] | None:
        self.never_began = outcome.message or outcome.kind if never_began(outcome) else ""
        writes = self._loop.finish(self._record, outcome)
        self.offered = writes is not None
        return writes
