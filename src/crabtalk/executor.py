"""The executor: nothing else starts a guest.

Owns the way of one piece of work from acceptance to its audit row: the queue says when it may run, a provider
of tools runs it, on its chain and until its deadline, and its outcome is written down before anybody hears of
it. Work that ends in its first slice costs no task; everything else runs in the task of whoever awaits it, so
that cancelling that task cancels the guest. Knows no images, no sockets and no schedules.
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final

import trio

from crabtalk import accounting
from crabtalk.chains import MAX_INVOCATIONS, Chain, Chains
from crabtalk.clock import Clock
from crabtalk.declarations import Bounds
from crabtalk.errors import (
    Cancelled,
    DeadlinePassed,
    Internal,
    NotFound,
    RequestError,
    ShuttingDown,
)
from crabtalk.ids import new_id
from crabtalk.journal import End, Journal, Listener
from crabtalk.known_secrets import KNOWN
from crabtalk.runs import Call, Run
from crabtalk.store.engine import Engine
from crabtalk.store.interfaces.agents import AgentRecord
from crabtalk.store.interfaces.wakes import ChainRecord
from crabtalk.tickets import ENDED, NEW, RUNNING
from crabtalk.tools import (
    OUTCOMES,
    Context,
    Done,
    InlineProvider,
    Outcome,
    ToolProvider,
    Trapped,
    Trigger,
)
from crabtalk.turns import Threads
from crabtalk.watchdog import GRACE_S
from crabtalk.work import TAKEN_BACK, ExecutorLimits, ExecutorStatistics, Running, Work
from crabtalk.work_queue import WorkQueue

logger = logging.getLogger(__name__)

# How work ended, what to await for its outcome, or why it was not run.
Answer = End | Awaitable[Outcome] | RequestError
Declarations = Callable[[AgentRecord, str], Bounds]

_STOPPING: Final = "the daemon is stopping"
_ENOUGH_BYTES: Final = 256 << 10  # of results that nobody has yet, before `start_all` ends early
_ROUTES: Final = 4096  # harnesses whose provider is remembered
_UNASKED: Final = frozenset({Trigger.WAKE, Trigger.EVENT})


class Executor:
    """Runs work; used from trio's thread only."""

    def __init__(
        self,
        store: Engine,
        clock: Clock,
        limits: ExecutorLimits,
        providers: Sequence[ToolProvider],
        declarations: Declarations,
        listener: Listener | None = None,
    ) -> None:
        """Take on work for the tools of `providers`.

        `declarations` says what bounds a harness of an agent, or raises NotFound; it is asked once for each
        record. `listener` hears of every
        invocation that ran, once its row is written; it must not raise.
        """
        self._clock = clock
        self._limits = limits
        self._providers = [(one, _call_of(one)) for one in providers]
        # By agent and harness, as found for the record.
        self._routes: dict[tuple[str, str], tuple[AgentRecord, tuple[Bounds, Call]]] = {}
        self._declarations = declarations
        self._journal = Journal(store, clock, listener)
        self.queue = WorkQueue(limits.queue)
        self.threads = Threads(limits.workers, limits.blocking_workers)
        self._chains = Chains(limits.chain_tokens)
        self._runs: dict[str, Run] = {}  # those that did not end at once
        self._started = 0
        self._closing = False
        self._drained: trio.Event | None = None

    def start(self, work: Work) -> Outcome | Awaitable[Outcome]:
        """Run `work`: its outcome at once if it ends in its first slice, else what to await for it.

        Await it always, and only once: the work has its place in the queue already.

        **Cancellation:** cancelling whoever awaits stops the guest, and waits until it has ended.

        Raises:
            RequestError: if it was not run (404, 400, 429, 503, 504, or 499: somebody cancelled it while it
                waited). Raised here or by what is awaited; `finish` was not called then.
        """
        (answer,) = self.start_all((work,))
        if isinstance(answer, RequestError):
            raise answer
        return answer.outcome if isinstance(answer, End) else answer

    def start_all(self, works: Sequence[Work]) -> list[Answer]:
        """As `start` for each, in their order; what would be raised is returned in its place.

        Each step is done for as many as may run at once before the next step is: their code stays in the
        processor's caches, which saves a third. Ends early, after at least one, when the results are large or
        something unforeseen is raised for the next: ask again for the rest. Raises only what is the first
        one's, so that nothing that ran is lost or runs again. All of them begin chains.
        """
        answers: list[Answer] = []
        while len(answers) < len(works):
            try:
                admitted = self._admit_some(works, len(answers))
            except Exception:
                if answers:
                    break  # those are told first; it is raised when it is asked for again
                raise
            if not isinstance(admitted, list):
                answers.append(admitted)
                continue
            begun = self._begin_all(admitted)
            answers += begun
            if len(begun) < len(admitted):
                break
        return answers

    def _admit_some(self, works: Sequence[Work], first: int) -> list[Run] | Answer:
        """Give works from `first` on their places, as far as they may run at once.

        If that is none, return what has to be awaited for the first one, or why it is not run.
        """
        runs: list[Run] = []
        now_ms, now_s = self._clock.now_ms(), self._clock.monotonic()
        for work in works[first:] if first else works:
            try:
                bounds, call = self._route_of(work)
                run = self._accept(work, bounds, call, now_ms, now_s, may_wait=not runs)
            except RequestError as error:
                if runs:
                    break  # the others first
                self._journal.refuse(work, error)
                return error
            except Exception:
                if runs:
                    break  # whatever it is, it is not theirs
                raise
            if run.state is NEW:
                break
            if run.state is not RUNNING:
                self._registered(run)
                self.start_ready()  # a concurrency that was raised since may let others start, or this one
                return self._drive(run)
            runs.append(run)
        return runs

    def _begin_all(self, runs: Sequence[Run]) -> list[Answer]:
        """Call the guests of runs that have their places, and write down the ends of those that end.

        Those for which there is no answer have lost their places again.
        """
        answers: list[Answer] = []
        ends: list[End] = []
        held_bytes = 0
        now_s = self._clock.monotonic()
        for run in runs:
            if held_bytes > _ENOUGH_BYTES:
                self.queue.withdraw(run)
                continue
            run.started_s = now_s
            try:
                began = self._begin(run, now_s)
                now_s = self._clock.monotonic()
                if isinstance(began, OUTCOMES):
                    end = End(run, began if type(began) is Done else KNOWN.outcome(began), now_s)
                    if self._journal.is_quick(end):
                        held_bytes += end.size
                        ends.append(end)
                        answers.append(end)
                        continue
                answers.append(self._drive(self._registered(run), began))
            except RequestError as error:
                self._release(run)
                self._journal.refuse(run.work, error)
                answers.append(error)
            except Exception as error:  # noqa: BLE001 - whatever it is, the others have run or hold their places
                self._release(run)
                answers.append(Internal(_broken(run, error).message))
        for end in ends:
            self._let_go(end.run)
        self._journal.note(ends)
        return answers

    async def run(self, work: Work) -> Outcome:
        """Start `work` and wait for its outcome.

        **Cancellation:** as `start`.

        Raises:
            RequestError: as `start`.
        """
        outcome = self.start(work)
        return outcome if isinstance(outcome, OUTCOMES) else await outcome

    def cancel(self, invocation_id: str, reason: str = "it was cancelled") -> bool:
        """Stop one run; False if there is none of this id. Its outcome is a Trapped of kind `cancelled`."""
        run = self._runs.get(invocation_id)
        if run is None:
            return False
        run.stop(reason)
        return True

    def running(self) -> list[Running]:
        """Return everything that has not ended, oldest first."""
        return [run.shown() for run in self._runs.values() if run.state is not ENDED]

    def statistics(self) -> ExecutorStatistics:
        """Count what was done and is being done."""
        return ExecutorStatistics(
            queue=self.queue.statistics(),
            started=self._started,
            refused=self._journal.refused,
            unlisted_refusals=self._journal.unlisted,
            chains=len(self._chains),
            computing=self.threads.computing.in_use,
            waiting_to_compute=self.threads.computing.waiting,
            blocking=self.threads.blocking.in_use,
        )

    def add_provider(self, provider: ToolProvider) -> None:
        """Take on work for the tools of another provider; those before it are asked first."""
        self._providers.append((provider, _call_of(provider)))
        self._routes.clear()

    def join_chain(self, work: Work, id: str) -> tuple[Chain, int]:  # noqa: A002 - the word of the audit
        """Count what is no guest, but starts some, on the chain of `work`: a turn of an agent.

        Raises:
            ChainSpent: if the chain admits no more.
        """
        chain, depth = self._chain_of(work, id, self._clock.now_ms())
        self._chains.note(chain)
        return chain, depth

    def leave_chain(self, chain: Chain) -> None:
        """Take note that what joined a chain has ended."""
        if chain.recorded:
            self._chains.keep(chain)

    def forget(self, agent_id: str) -> None:
        """Forget the rates of an agent that is gone."""
        self.queue.forget(agent_id)

    @asynccontextmanager
    async def open(self) -> AsyncIterator["Executor"]:
        """Let the executor work until the block ends; what still runs then is cancelled and waited for."""
        try:
            yield self
        finally:
            with trio.CancelScope(shield=True):
                await self.shutdown(0.0)

    @property
    def closing(self) -> bool:
        """Whether nothing is accepted any more."""
        return self._closing

    @property
    def idle(self) -> bool:
        """Whether nothing runs or waits."""
        return not self._runs

    async def shutdown(self, drain_s: float) -> None:
        """Accept nothing any more, let what was accepted end, and cancel what has not after `drain_s`.

        Work of the background that only waits is cancelled at once: the store still has it.
        """
        self._closing = True
        for run in list(self._runs.values()):
            if not run.interactive and not run.began:
                run.stop(_STOPPING)
        with trio.move_on_after(drain_s):
            await self._until_idle()
        for run in list(self._runs.values()):
            run.stop(_STOPPING)
        with trio.move_on_after(self._limits.stop_s):
            await self._until_idle()
        if self._runs:
            logger.error("%d invocations did not end when they were cancelled", len(self._runs))

    # The way of a run

    def start_ready(self) -> None:
        """Wake the runs whose turn has come."""
        for ticket in self.queue.start_ready():
            if isinstance(ticket, Run):
                ticket.wake()

    def _accept(
        self, work: Work, bounds: Bounds, call: Call, now_ms: int, now_s: float, *, may_wait: bool
    ) -> Run:
        """Give work its place in the queue.

        Raises:
            RequestError: if it must not run.
        """
        if self._closing and work.trigger is not Trigger.CALL:
            raise ShuttingDown("the daemon is stopping")
        invocation_id = new_id()
        chain, depth = self._chain_of(work, invocation_id, now_ms)
        run = Run(work, invocation_id, bounds, call, chain, depth, self, now_ms, now_s)
        if work.deadline_s is not None:
            run.deadline = now_s + work.deadline_s
        owner = work.agent.id, work.harness
        self.queue.admit(
            run, owner, concurrency=bounds.concurrency, rate=bounds.rate, now_s=now_s, may_wait=may_wait
        )
        return run

    def _route_of(self, work: Work) -> tuple[Bounds, Call]:
        """Find what bounds a harness and whose it is; not asked again while the agent's record is the same.

        Raises:
            NotFound: if the agent has no such harness.
        """
        agent, harness = work.agent, work.harness
        known = self._routes.get((agent.id, harness))
        if known is not None and known[0] is agent:
            return known[1]
        bounds = self._declarations(agent, harness)
        for provider, call in self._providers:
            if harness in provider.harnesses(agent):
                if len(self._routes) >= _ROUTES:
                    self._routes.clear()
                self._routes[agent.id, harness] = agent, (bounds, call)
                return bounds, call
        raise NotFound(f"agent `{agent.name}` has no harness `{harness[:80]}`")

    def _chain_of(self, work: Work, invocation_id: str, now_ms: int) -> tuple[Chain, int]:
        """Count the invocation on its chain; a new chain has the id of its first invocation.

        Raises:
            ChainSpent: if the chain admits no more.
        """
        chain = work.chain
        if chain is None:
            rest = MAX_INVOCATIONS - 1
            return Chain(
                invocation_id,
                started_ms=now_ms,
                parent=work.parent_chain,
                invocations=rest,
                tokens=self._limits.chain_tokens,
            ), 0
        if isinstance(chain, ChainRecord):
            restored = self._chains.restore(chain, now_ms)
            restored.admit(chain.depth)
            return restored, chain.depth
        chain.admit(work.depth)
        return chain, work.depth

    def _begin(self, run: Run, now_s: float) -> Outcome | Awaitable[Outcome]:
        """Call the guest.

        Raises:
            RequestError: if the provider does not run it.
        """
        work = run.work
        left_s = run.bounds.deadline_s
        if work.chain is not None:
            left_s = min(left_s, run.chain.wall_left_s)
        if now_s + left_s > run.deadline:
            left_s = run.deadline - now_s
        else:
            run.deadline = now_s + left_s
        run.began = True
        self._started += 1
        context = Context(
            run.id,
            work.agent,
            work.harness,
            work.trigger,
            run.chain,
            run.depth,
            run.deadline,
            run,
            work.session,
            work.session_root,
            work.client or _origin(work),
            left_s,
        )
        try:
            return run.call(context, work.entry, work.args)
        except RequestError:
            raise
        except Exception as error:  # noqa: BLE001 - as `_outcome_of`
            return _broken(run, error)

    async def _drive(self, run: Run, began: Outcome | Awaitable[Outcome] | None = None) -> Outcome:
        """Go on with a run in this task, to its end and its row."""
        try:
            outcome = await self._outcome_of(run, began)
        except RequestError as error:
            self._journal.refuse(run.work, error)
            raise
        except BaseException as error:  # noqa: BLE001 - cancellations, alone or in groups; raised again
            with trio.CancelScope(shield=True):
                await self._note_cancelled(run)
            raise _cancellation(run, error) from None
        else:
            outcome = KNOWN.outcome(outcome)
            end = End(run, outcome, self._clock.monotonic())
            if self._journal.is_quick(end):
                self._let_go(run)
                self._journal.note((end,))
                return outcome
            with trio.CancelScope(shield=True):  # milliseconds: a thread's digest, one commit
                await self._end(end)
            return outcome
        finally:
            self._release(run)

    async def _outcome_of(self, run: Run, began: Outcome | Awaitable[Outcome] | None) -> Outcome:
        """Wait for a run's turn and for its outcome.

        Raises:
            RequestError: if it was not run.
        """
        assert run.scope is not None  # noqa: S101 - `_registered` made it
        try:
            with run.scope:
                if began is None:
                    await self._turn_of(run)
                    accepted_s = run.started_s
                    run.started_ms, run.started_s = self._clock.now_ms(), self._clock.monotonic()
                    self._journal.note_wait(run.work, run.started_s - accepted_s)
                    began = self._begin(run, run.started_s)
                run.scope.deadline = run.deadline + GRACE_S
                return began if isinstance(began, OUTCOMES) else await began
        except RequestError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a provider raises, the daemon goes on
            return _broken(run, error)
        return self._stopped(run)

    async def _turn_of(self, run: Run) -> None:
        """Wait until the queue lets a run start; who waits for it waits no longer than it might run."""
        assert run.scope is not None  # noqa: S101 - as above
        assert run.woken is not None  # noqa: S101 - as above
        run.scope.deadline = run.deadline
        if run.interactive:
            run.scope.deadline = min(run.deadline, run.started_s + run.bounds.deadline_s)
        await run.woken.wait()

    def _stopped(self, run: Run) -> Outcome:
        """Return what became of a run that its own scope cancelled.

        Raises:
            RequestError: if it had not begun.
        """
        if run.began:
            return run.ending_when_stopped(self._clock.monotonic())
        if run.stopped_because == _STOPPING:
            raise ShuttingDown(_STOPPING)
        if run.stopped_because:
            raise Cancelled(run.stopped_because)
        waited_s = self._clock.monotonic() - run.started_s
        raise DeadlinePassed(f"waited {waited_s:.3g} s for other calls to end, and was not run")

    # The end of a run

    async def _end(self, end: End) -> None:
        """Give a run's place away and write down its end.

        Raises:
            Internal: if that was not stored.
        """
        self.queue.finish(end.run)  # its key stays taken until what it wrote can be read
        self.start_ready()
        await self._journal.finish(end)

    def _registered(self, run: Run) -> Run:
        """Keep a run that does not end at once where it is seen and can be cancelled."""
        run.scope = trio.CancelScope()
        if run.state is not RUNNING:
            run.woken = trio.Event()
        self._runs[run.id] = run
        self._chains.note(run.chain)
        return run

    def _release(self, run: Run) -> None:
        """Let go of everything that a run holds, and of the run."""
        self._let_go(run)
        self._runs.pop(run.id, None)
        if self._drained is not None and not self._runs:
            self._drained.set()

    def _let_go(self, run: Run) -> None:
        self.queue.finish(run)
        if run.key is not None:
            self.queue.release_key(run)
        if self.queue.waiting:
            self.start_ready()
        if run.chain.recorded:
            self._chains.keep(run.chain)

    async def _note_cancelled(self, run: Run) -> None:
        """Write the row of a run whose asker went away."""
        if not run.began and run.work.finish is not None:
            return
        outcome = Trapped("cancelled", run.stopped_because or TAKEN_BACK)
        try:
            await self._end(End(run, outcome, self._clock.monotonic()))
        except Internal:
            logger.exception("an invocation that was cancelled left no row")

    async def _until_idle(self) -> None:
        while self._runs:
            self._drained = trio.Event()
            await self._drained.wait()


def _call_of(provider: ToolProvider) -> Call:
    """Return the way to call a provider that costs the least."""
    return provider.call_inline if isinstance(provider, InlineProvider) else provider.call


def _origin(work: Work) -> str:
    """Return who asked, of what no client did: the wake or the event, also for what it starts."""
    return f"{work.trigger.value}:{work.subject or ''}" if work.trigger in _UNASKED else ""


def _broken(run: Run, error: Exception) -> Trapped:
    """Return the outcome of a provider that raised what it must not."""
    logger.error("invocation %s of `%s` failed inside the daemon", run.id, run.work.harness, exc_info=error)
    return Trapped("internal", f"{type(error).__name__}: {error}"[: accounting.MESSAGE_CHARACTERS])


def _cancellation(run: Run, error: BaseException) -> BaseException:
    """Return what of `error` is the caller's to hear: not what a guest's tasks raised as they ended."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    ours, others = error.split(Exception)
    if ours is not None and others is not None:
        _broken(run, ours)
    return others or error
