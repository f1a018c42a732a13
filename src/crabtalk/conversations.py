"""Conversations: turns of agents in their sessions, one at a time in each, side by side everywhere else.

A turn is accepted, waits for those before it in its session, runs, and ends once: with an answer, or with why
there is none. It belongs to the daemon, not to whoever asked: a client that goes away leaves it running.
Everything that happens in it is told to its listener, which it waits for, and to watchers, which it does not.
What is said in it is the business of `Speaking`.
"""

import logging
from collections.abc import Callable
from typing import Final

import trio

from crabtalk.agents import AgentService
from crabtalk.chains import TOKENS, Chain
from crabtalk.clock import Clock
from crabtalk.conversation.asking import ModelSource, TurnFailed
from crabtalk.conversation.history import repaired
from crabtalk.conversation.messages import Message
from crabtalk.conversation.rows import outcome_of, row_of
from crabtalk.conversation.speaking import Speaking
from crabtalk.conversation.steps import ContextUsed, Step, TurnEnded, TurnStarted
from crabtalk.conversation.turns import Ending, Listener, Outcome, Turn, TurnRequest
from crabtalk.conversation.watching import Watcher
from crabtalk.dispatch import Peer
from crabtalk.errors import (
    BadRequest,
    Busy,
    Cancelled,
    DeadlinePassed,
    Internal,
    RequestError,
    ShuttingDown,
    StoreError,
)
from crabtalk.events.bus import Bus
from crabtalk.ids import new_id
from crabtalk.scheduling.locks import Locks
from crabtalk.sessions import SessionService
from crabtalk.store.engine import Engine, Write
from crabtalk.store.interfaces.agents import AgentRecord
from crabtalk.store.interfaces.audit import Audit
from crabtalk.store.interfaces.sessions import SessionRecord
from crabtalk.work import TAKEN_BACK

logger = logging.getLogger(__name__)

MAX_TURNS: Final = 1000  # that have not ended; picked, not measured
MAX_WAITING: Final = 16  # turns of one session
STOPPING: Final = "the daemon is stopping"
STOP_S: Final = 5.0  # for turns that were cancelled to end
_DELETED: Final = "its agent was deleted"
_DELETED_S: Final = 30.0  # for the turns of an agent that is gone to end


class Conversations:
    """Runs turns; used from trio's thread only."""

    def __init__(
        self,
        store: Engine,
        clock: Clock,
        *,
        sessions: SessionService,
        agents: AgentService,
        models: ModelSource,
        speaking: Speaking,
        bus: Bus,
        leave_chain: Callable[[Chain], None] = lambda _chain: None,
    ) -> None:
        """`leave_chain` hears of every chain that a turn was on, when it has ended."""
        self._store = store
        self._clock = clock
        self._sessions = sessions
        self._agents = agents
        self._models = models
        self._bus = bus
        self._leave_chain = leave_chain
        self.chain_tokens = TOKENS  # of models, for all turns on a chain that a client begins
        self._audit = Audit(store)
        self._speaking = speaking
        self._lines = Locks()  # by session: who writes in it
        self._turns: dict[str, Turn] = {}
        self._watchers: set[Watcher] = set()
        self._nursery: trio.Nursery | None = None
        self._stopping = False
        self._ended = trio.lowlevel.ParkingLot()

    async def serve(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run turns until cancelled.

        **Cancellation:** every turn is cancelled, and has ended then.
        """
        async with trio.open_nursery() as self._nursery:
            task_status.started()
            await trio.sleep_forever()

    # What is asked for

    def start(self, asked: TurnRequest, listener: Listener | None = None) -> Turn:
        """Accept a client's turn.

        Raises:
            BadRequest, NotFound, TooLarge: if it cannot be one.
            Busy: if there are too many; ShuttingDown: if the daemon is stopping.
        """
        turn = Turn(
            id=new_id(),
            agent=asked.agent,
            speaker=asked.guest or asked.agent,
            handle=asked.handle,
            content=asked.content,
            client=asked.client,
            started_ms=self._clock.now_ms(),
            sender=asked.sender,
            tool_choice=asked.tool_choice,
            ephemeral=asked.ephemeral,
            asker=asked.asker,
            listener=listener,
        )
        self._check(turn)
        self._begin(turn)
        return turn

    def _begin(self, turn: Turn) -> None:
        """Accept a turn that a client asked for: it begins a chain, and leaves a row in the audit.

        Raises:
            BadRequest, NotFound, Busy, ShuttingDown: as `start`.
        """

        def closing(ending: Ending) -> list[Write]:
            return self._audit.row(row_of(turn, outcome_of(ending), self._clock.now_ms()))

        turn.chain = Chain(turn.id, started_ms=turn.started_ms, tokens=self.chain_tokens)
        turn.closing = closing
        self.accept(turn)

    def accept(self, turn: Turn) -> None:
        """Start a turn that has its chain.

        Raises:
            BadRequest, NotFound, Busy, ShuttingDown: as `start`.
        """
        nursery = self._nursery
        self.check_room()
        if not turn.ephemeral and len(self.turns(turn.handle)) >= MAX_WAITING:
            raise Busy(f"{MAX_WAITING} turns of this session have not ended, which is the most")
        turn.model = self._models.resolve(self._agents.config(turn.speaker).model)
        assert nursery is not None  # noqa: S101 - there is room
        self._turns[turn.id] = turn
        nursery.start_soon(self._drive, turn, name=f"turn {turn.id}")

    def check_room(self) -> None:
        """Return if another turn could be accepted now.

        Raises:
            Busy: if there are too many; ShuttingDown: if the daemon is stopping.
        """
        if self._stopping or self._nursery is None:
            raise ShuttingDown(STOPPING)
        if len(self._turns) >= MAX_TURNS:
            raise Busy(f"{MAX_TURNS} turns have not ended, which is the most")

    async def ending_of(self, turn: Turn, *, because: str) -> Ending:
        """Wait for the end of a turn that belongs to whoever waits.

        **Cancellation:** stops the turn, and waits until it has ended.
        """
        try:
            return await turn.result()
        except trio.Cancelled:
            turn.cancel(because)
            with trio.CancelScope(shield=True):
                await turn.result()
            raise

    def turns(self, handle: str | None = None) -> list[Turn]:
        """Return the turns that have not ended, of a session or all, oldest first."""
        return [one for one in self._turns.values() if handle is None or one.handle == handle]

    def cancel(self, handle: str, asker: Peer | None = None, reason: str = "it was cancelled") -> bool:
        """Stop what runs in a session, or rather what `asker` waits for there; report whether there was one.

        That is its own turn first, even one that still waits for another client's, then one that its process
        asked for on another connection, and only then whatever has begun.
        """
        turns = self.turns(handle)
        ours: list[Turn] = []
        if asker is not None:
            ours = [one for one in turns if one.asker is asker] or [
                one for one in turns if one.asker is not None and one.asker.name == asker.name
            ]
        stopped = [one for one in ours or turns if one.began] or ours[:1]
        for turn in stopped:
            turn.cancel(reason)
        return bool(stopped)

    def kill(self, handle: str, reason: str = "it was killed") -> bool:
        """Stop every turn of a session, also those that wait."""
        found = self.turns(handle)
        for turn in found:
            turn.cancel(reason)
        return bool(found)

    async def delete(self, record: SessionRecord) -> None:
        """Stop what goes on in a session, and remove it.

        Raises:
            StoreError: if the store does not work.
        """
        self.kill(record.handle, "its session was deleted")
        async with self._lines.hold(record.handle):
            current = self._sessions.find(record.handle)
            if current is not None:
                await self._sessions.delete(current)

    def history(self, record: SessionRecord) -> list[Message]:
        """Return what was said in a session, with nothing missing; also from another thread."""
        return repaired(self._speaking.read(record, 0))

    def watch(self) -> Watcher:
        """Watch all turns from now on."""
        watcher = Watcher(self._watchers.discard)
        self._watchers.add(watcher)
        return watcher

    async def compact(self, handle: str, prompt: str, asker: Peer | None = None) -> str:
        """Have a session summed up as `prompt` says, and let the summary stand for what was said.

        What was said stays in the store; a model hears the summary instead of it.

        Raises:
            NotFound: if there is no such session.
            BadRequest: without a prompt, or if nothing was said.
            RequestError: if the model does not answer.
            StoreError: if the store does not work.
        """
        record = self._sessions.get(handle)
        if not prompt.strip():
            raise BadRequest("prompt: expected what the model is to do with the messages, got nothing")
        if record.message_count == 0:
            raise BadRequest("nothing was said in this session yet")
        agent = self._agents.get(record.agent_id)
        turn = Turn(
            id=new_id(),
            agent=agent,
            speaker=agent,
            handle=handle,
            content=prompt,
            client="" if asker is None else asker.name,
            started_ms=self._clock.now_ms(),
            asker=asker,
            summary=True,
        )
        self._begin(turn)
        ending = await turn.result()
        if ending.error is not None:
            raise ending.error
        return ending.text

    # Agents that go, and the end

    async def on_declare(self, agent: AgentRecord) -> None:
        """Do nothing: a turn has what its agent was when it began."""

    async def on_forget(self, agent: AgentRecord) -> None:
        """Stop the turns of an agent that is gone, and remove what they stored meanwhile."""
        theirs = [one for one in self._turns.values() if agent.id in {one.agent.id, one.speaker.id}]
        for turn in theirs:
            turn.cancel(_DELETED)
        with trio.move_on_after(_DELETED_S):
            for turn in theirs:
                await turn.result()
        if writes := self._sessions.forgetting(agent.id):
            await self._store.commit(writes)

    def stop(self) -> None:
        """Accept no turn any more."""
        self._stopping = True

    async def shutdown(self, drain_s: float) -> None:
        """Accept no turn any more, let those that run end, and cancel those that have not after `drain_s`."""
        self.stop()
        with trio.move_on_after(drain_s):
            await self._until_idle()
        for turn in self.turns():
            turn.cancel(STOPPING)
        with trio.move_on_after(STOP_S):
            await self._until_idle()
        for turn in self.turns():
            turn.telling.cancel()

    async def _until_idle(self) -> None:
        while self._turns:
            await self._ended.park()

    # The way of a turn

    def _check(self, turn: Turn) -> None:
        """Refuse what cannot be a turn, before anything of it is told.

        Raises:
            BadRequest, NotFound, TooLarge: with what is wrong.
        """
        if not turn.content:
            raise BadRequest("content: expected what to say, got nothing")
        if not turn.handle and turn.ephemeral:
            return
        record = self._sessions.find(turn.handle)
        if record is not None:
            self._sessions.of(turn.agent, turn.handle)
        elif not turn.ephemeral:
            self._sessions.check_new(turn.handle, turn.sender)

    async def _drive(self, turn: Turn) -> None:
        """Run a turn, and see that it ends once."""
        ending: Ending | None = None
        try:
            with turn.scope:
                ending = await self._ending_of(turn)
        except Exception as error:  # noqa: BLE001 - whatever it was, it is over
            ending = self._failed(turn, error)
        finally:
            with trio.CancelScope(shield=True):
                await self._end(turn, ending or self._stopped(turn))

    async def _ending_of(self, turn: Turn) -> Ending:
        async def tell(step: Step) -> None:
            await self._tell(turn, step)

        try:
            await tell(TurnStarted(turn.speaker.id))
            if turn.ephemeral:
                text = await self._speaking.run(turn, tell)
            else:
                async with self._lines.hold(turn.handle):
                    text = await self._speaking.run(turn, tell)
        except Exception as error:  # noqa: BLE001 - as `_drive`
            return self._failed(turn, error)
        return Ending(turn.speaker.id, text, turn.model, turn.usage)

    def _failed(self, turn: Turn, error: Exception) -> Ending:
        """Return the ending of a turn that raised."""
        while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        outcome: Outcome = "failed"
        told: RequestError
        if isinstance(error, TurnFailed):
            told, outcome = error.error, "halted" if error.halted else "failed"
        elif isinstance(error, RequestError):
            told = error
        elif isinstance(error, StoreError):
            told = Internal(f"the store does not work: {error}")
        else:
            logger.error("turn %s failed inside the daemon", turn.id, exc_info=error)
            told = Internal("an internal error, please report it; the log of the daemon has the details")
        return Ending(turn.speaker.id, "", turn.model, turn.usage, told, outcome)

    def _stopped(self, turn: Turn) -> Ending:
        """Return the ending of a turn that was cancelled."""
        if turn.unread is not None:
            return Ending(turn.speaker.id, "", turn.model, turn.usage, turn.unread, "cancelled")
        why = turn.stopped_because
        if why or turn.chain is None or turn.chain.wall_left_s > 0:
            # Without a reason everything is being taken down, and whoever waits is cancelled as well.
            why = why or (STOPPING if turn.trigger == "client" else TAKEN_BACK)
            error: RequestError = ShuttingDown(why) if why == STOPPING else Cancelled(why)
            return Ending(turn.speaker.id, "", turn.model, turn.usage, error, "cancelled")
        halted = DeadlinePassed(f"chain {turn.chain.id}: the chain's deadline has passed")
        return Ending(turn.speaker.id, "", turn.model, turn.usage, halted, "halted")

    async def _end(self, turn: Turn, ending: Ending) -> None:
        """Write down that a turn has ended, tell of it, and let go of it."""
        try:
            await self._close(turn, ending)
        except Exception as error:  # noqa: BLE001 - as `_drive`
            turn.unstored = True
            ending = self._failed(turn, error)
        turn.ending = ending
        message = ending.error.message if ending.error is not None else ""
        with turn.telling:
            await self._tell(turn, TurnEnded(ending.agent_id, ending.model, message, ending.usage))
        del self._turns[turn.id]
        turn.done.set()
        self._ended.unpark_all()
        if turn.chain is not None:
            self._leave_chain(turn.chain)

    async def _close(self, turn: Turn, ending: Ending) -> None:
        """Commit what a turn's end writes, with the event that tells of it.

        Raises:
            StoreError: if the store does not work.
        """
        writes = turn.closing(ending) if turn.closing is not None else ()
        if writes is None:
            return
        if turn.ephemeral or turn.summary:
            if writes:
                await self._store.commit(writes)
            return
        chain = turn.chain.record(turn.depth + 1) if turn.chain is not None else None
        prepared = self._bus.prepare(f"agent:{turn.speaker.name}:done", _done_event(turn, ending), chain)
        try:
            if batch := [*writes, *prepared.writes]:
                await self._store.commit(batch)
        except BaseException:
            prepared.abandoned()
            raise
        prepared.committed()
        if ending.outcome == "halted" and chain is not None and ending.error is not None:
            self._bus.tell_chain_ended(chain, ending.error.message, turn.speaker.id)

    async def _tell(self, turn: Turn, step: Step) -> None:
        """Tell whoever listens; a listener that fails has stopped its turn, and hears nothing more."""
        if isinstance(step, ContextUsed):
            turn.usage = step.usage if turn.usage is None else turn.usage + step.usage
        if not turn.summary:
            for watcher in self._watchers:
                watcher.offer(turn, step)
        if turn.listener is None:
            return
        try:
            await turn.listener(step)
        except Exception as error:  # noqa: BLE001 - at the end of a turn nobody else would take it
            turn.listener = None
            turn.unread = self._failed(turn, error).error
            turn.cancel("its listener failed" if turn.unread is None else turn.unread.message)


def _done_event(turn: Turn, ending: Ending) -> dict[str, object]:
    """Return what subscribers hear of a turn that ended: ids and outcome, no content."""
    chain = turn.chain
    return {
        "agent": turn.speaker.id,
        "name": turn.speaker.name,
        "session": turn.handle,
        "turn": turn.id,
        "outcome": ending.outcome,
        "trigger": turn.trigger,
        "chain": chain.id if chain is not None else "",
        "depth": turn.depth,
    }
