"""Turns that no client asks for: those that wakes and events start, and those that agents send each other.

A wake or an event comes as the work of an executor, and is answered like one: with an outcome, and a row of
the audit in the batch that ends the occurrence. Its session is named after the occurrence, so that one which
a crash cut off goes on where it was: what tools had done by then is in its history, and is not done again.
"""

import base64
import json
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from crabtalk.chains import MAX_INVOCATIONS, Chain, ChainSpent
from crabtalk.clock import Clock
from crabtalk.conversation.rows import outcome_of, row_of
from crabtalk.conversation.turns import Ending, Turn
from crabtalk.errors import BadRequest, Internal, TooLarge
from crabtalk.ids import new_id
from crabtalk.sessions import SessionService
from crabtalk.store.engine import Write
from crabtalk.store.interfaces.agents import AgentRecord
from crabtalk.store.interfaces.audit import Audit
from crabtalk.store.interfaces.wakes import ChainRecord
from crabtalk.tools import Context, Outcome, Trigger
from crabtalk.work import TAKEN_BACK, Work

MAX_CONTENT_BYTES: Final = 1 << 20


class Service(Protocol):
    """What runs turns."""

    def check_room(self) -> None:
        """Return if another turn could be accepted now; see `Conversations.check_room`."""

    def accept(self, turn: Turn) -> None:
        """Start a turn; see `Conversations.accept`."""

    async def ending_of(self, turn: Turn, *, because: str) -> Ending:
        """Wait for the end of a turn; see `Conversations.ending_of`."""


class Chains(Protocol):
    """What counts turns on chains: the executor."""

    def join_chain(self, work: Work, id: str) -> tuple[Chain, int]:  # noqa: A002 - as the executor has it
        """Count a turn on the chain of `work`; see `Executor.join_chain`."""


# Hears of a chain that has ended: its record one deeper, why, and the agent whose turn was not run.
ChainEnded = Callable[[ChainRecord, str, str], None]


class Unattended:
    """Starts such turns, and says how they ended."""

    def __init__(
        self,
        service: Service,
        chains: Chains,
        sessions: SessionService,
        audit: Audit,
        clock: Clock,
        chain_ended: ChainEnded,
    ) -> None:
        self._service = service
        self._chains = chains
        self._sessions = sessions
        self._audit = audit
        self._clock = clock
        self._chain_ended = chain_ended

    async def run(self, work: Work) -> Outcome:
        """Run the turn of a wake or an event whose target is an agent.

        **Cancellation:** stops the turn, and waits until it has ended.

        Raises:
            RequestError: if it was not run; `finish` was not called then.
        """
        self._service.check_room()  # before it counts on its chain: it may be asked for again
        turn_id = new_id()
        try:
            chain, depth = self._chains.join_chain(work, turn_id)
        except ChainSpent as error:
            if isinstance(work.chain, ChainRecord):
                self._chain_ended(work.chain, error.message, work.agent.id)
            raise
        occurrence = _Occurrence(work)
        turn = self._turn(
            turn_id, work.agent, occurrence.handle, occurrence.content(), chain, depth, work.trigger
        )
        turn.client = f"{work.trigger.value}:{work.subject}"
        turn.sender = occurrence.sender
        turn.title = occurrence.title
        turn.resumes = True
        outcome: Outcome | None = None

        def closing(ending: Ending) -> Sequence[Write] | None:
            nonlocal outcome
            outcome = outcome_of(ending)
            row = row_of(turn, outcome, self._clock.now_ms(), work)
            writes = work.finish(outcome, row) if work.finish is not None else ()
            return None if writes is None else [*writes, *self._audit.row(row)]

        turn.closing = closing
        self._service.accept(turn)
        await self._service.ending_of(turn, because=TAKEN_BACK)
        if turn.unstored or outcome is None:
            raise Internal("the turn has ended, but that was not stored")
        return outcome

    async def send(self, context: Context, target: AgentRecord, content: str) -> Ending:
        """Run a turn of `target` for the invocation of `context`, and return how it ended.

        **Cancellation:** stops the turn, and waits until it has ended.

        Raises:
            RequestError: if it was not run.
        """
        if not content:
            raise BadRequest("content: expected what to say, got nothing")
        if len(content.encode()) > MAX_CONTENT_BYTES:
            raise TooLarge(f"content: at most {MAX_CONTENT_BYTES} bytes are taken")
        self._service.check_room()
        chain, depth = context.chain, context.depth + 1
        try:
            chain.admit(depth)
        except ChainSpent as error:
            self._chain_ended(chain.record(depth), error.message, target.id)
            raise
        number = MAX_INVOCATIONS - chain.berm.invocations_left
        while self._sessions.find(handle := f"send:{chain.id}:{number}") is not None:
            number += 1
        turn = self._turn(new_id(), target, handle, content, chain, depth, Trigger.CALL)
        turn.client = context.client
        turn.caller = context.gate
        turn.sender = f"agent:{context.agent.id}"

        def closing(ending: Ending) -> Sequence[Write]:
            return self._audit.row(row_of(turn, outcome_of(ending), self._clock.now_ms()))

        turn.closing = closing
        self._service.accept(turn)
        return await self._service.ending_of(turn, because="who asked for it was stopped")

    def _turn(
        self,
        turn_id: str,
        agent: AgentRecord,
        handle: str,
        content: str,
        chain: Chain,
        depth: int,
        trigger: Trigger,
    ) -> Turn:
        return Turn(
            id=turn_id,
            agent=agent,
            speaker=agent,
            handle=handle,
            content=content,
            client="",
            started_ms=self._clock.now_ms(),
            trigger=trigger.value,
            chain=chain,
            depth=depth,
        )


class _Occurrence:
    """What a wake or an event is for the agent that it starts: facts as JSON, no words of ours."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._given: dict[str, Any] = json.loads(work.args)

    @property
    def handle(self) -> str:
        """The session's, the same for every attempt."""
        if self._work.trigger is Trigger.WAKE:
            return f"wake:{self._work.subject}"
        return f"event:{self._work.subject}:{self._given['subscription']}"

    @property
    def sender(self) -> str:
        """Who speaks in it."""
        work = self._work
        return f"wake:{work.key or work.subject}" if work.trigger is Trigger.WAKE else f"event:{work.reason}"

    @property
    def title(self) -> str:
        """What its session is called: what it is about, as far as that is text."""
        if self._work.trigger is Trigger.WAKE:
            return _payload(self._given["payload_base64"]).get("payload") or self.sender
        return f"{self._given['source']} {self._given['payload']}"

    def content(self) -> str:
        """Return what the agent reads."""
        given = dict(self._given)
        if self._work.trigger is Trigger.WAKE:
            facts: dict[str, Any] = {"wake": given.pop("id"), **_payload(given.pop("payload_base64"))}
        else:
            facts = {"event": given.pop("source"), "id": given.pop("id"), "payload": given.pop("payload")}
        return json.dumps(facts | given, ensure_ascii=False)


def _payload(encoded: str) -> dict[str, str]:
    """Return a wake's payload as text, where it is text."""
    try:
        return {"payload": base64.b64decode(encoded).decode()}
    except UnicodeDecodeError:
        return {"payload_base64": encoded}
