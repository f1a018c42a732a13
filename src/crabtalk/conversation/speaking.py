"""What a turn says in its session: opens the transcript, puts the loop together, and sums sessions up.

Whoever calls has the session for itself. What a crash left unfinished is settled first: calls without a
result get one that says so, in the batch that adds what is said next.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final, Protocol

import trio

from crabtalk.agents import AgentService
from crabtalk.clock import Clock
from crabtalk.conversation.asking import ModelSource, TurnFailed
from crabtalk.conversation.history import interrupted, unanswered, with_short_results
from crabtalk.conversation.loop import Loop, Setting, Tell, for_summary
from crabtalk.conversation.messages import Message
from crabtalk.conversation.transcript import Transcript
from crabtalk.conversation.turns import Turn
from crabtalk.errors import StoreError
from crabtalk.sessions import SessionService
from crabtalk.store.engine import Engine, Write
from crabtalk.store.interfaces.agents import AgentRecord
from crabtalk.store.interfaces.sessions import SessionRecord
from crabtalk.toolbox import ToolBox
from crabtalk.tools import Tool, Trigger, attended
from crabtalk.work import Work

Ready = Callable[[AgentRecord, float], Awaitable[None]]
READY_S: Final = 10.0


class Archive(Protocol):
    """Where summaries go, beside their session: the memory of its agent."""

    def archive_writes(self, agent_id: str, title: str, text: str, now_ms: int) -> Sequence[Write]:
        """Return what stores a summary, for the batch that adds it to its session."""

    def changed(self, agent_id: str) -> None:
        """Take note that the batch was committed."""


class Speaking:
    """Runs what is said in turns."""

    def __init__(
        self,
        store: Engine,
        clock: Clock,
        *,
        sessions: SessionService,
        agents: AgentService,
        toolbox: ToolBox,
        models: ModelSource,
    ) -> None:
        self.archive: Archive | None = None
        self.ready: Ready | None = None  # waits, not for long, for tools that an agent is about to have
        self.on_change: list[Callable[[str], None]] = []  # hear the handle of each session that has grown
        self._store = store
        self._clock = clock
        self._sessions = sessions
        self._agents = agents
        self._toolbox = toolbox
        self._models = models

    async def run(self, turn: Turn, tell: Tell) -> str:
        """Return the answer of a turn, when it is stored.

        **Cancellation:** what was said is kept, and the history is valid.

        Raises:
            TurnFailed, RequestError: if there is no answer; StoreError: if the store does not work.
        """
        chain = turn.chain
        assert chain is not None  # noqa: S101 - whoever accepts a turn gives it one
        turn.began = True
        turn.scope.deadline = trio.current_time() + chain.wall_left_s
        if turn.summary:
            return await self._sum_up(turn, tell)
        record = self._sessions.find(turn.handle) if turn.handle else None
        transcript = await self._transcript(turn, record)
        if turn.resumes and (answer := _answer_of(transcript.messages)) is not None:
            return answer
        if self.ready is not None and not turn.guest:
            await self.ready(turn.speaker, READY_S)
        return await self._loop(turn, transcript, transcript.record or record, tell).run()

    # The transcript

    async def _transcript(self, turn: Turn, record: SessionRecord | None) -> Transcript:
        """Open the transcript of a turn, with what the turn begins with."""
        if record is not None:
            self._sessions.of(turn.agent, turn.handle)
        messages = await self._context(record) if record is not None else []
        said = Message("user", turn.content, sender=record.sender if record is not None else turn.sender)
        if turn.ephemeral:
            return Transcript([*messages, said], self._clock)
        missing = [interrupted(call) for call in unanswered(messages)]
        with self._opened(turn, record) as opened:
            transcript = Transcript(messages, self._clock, opened, self._store, self._tell_change, turn.title)
            if added := missing if turn.resumes and messages else [*missing, said]:
                await transcript.add(*added)
        return transcript

    @contextmanager
    def _opened(self, turn: Turn, record: SessionRecord | None) -> Iterator[SessionRecord]:
        """Return the session of a turn; a new one is stored before the block ends."""
        if record is not None:
            yield record
            return
        ours = turn.trigger != "client"
        with self._sessions.making(turn.handle, turn.agent, turn.sender, ours=ours) as made:
            yield made

    async def _context(self, record: SessionRecord) -> list[Message]:
        return await trio.to_thread.run_sync(self.read, record, record.context_from)

    def read(self, record: SessionRecord, first: int) -> list[Message]:
        """Return what was said in a session from a message on, as it is stored; also from another thread.

        Raises:
            StoreError: if the store does not work, or holds what nobody can read.
        """
        found = []
        for one in self._sessions.messages(record, first):
            try:
                found.append(Message.from_json(one.body))
            except ValueError as error:
                raise StoreError(f"message {one.index} of session `{record.handle}`: {error}") from error
        return found

    def _tell_change(self, record: SessionRecord) -> None:
        for told in self.on_change:
            told(record.handle)

    # The loop

    def _loop(self, turn: Turn, transcript: Transcript, record: SessionRecord | None, tell: Tell) -> Loop:
        """Return the loop of a turn; `record` is its session's, whose root holds also if nothing is kept."""
        work = Work(
            trigger=Trigger.TOOL,
            agent=turn.speaker,
            harness="",
            entry="",
            chain=turn.chain,
            depth=turn.depth,
            session=record.handle if record is not None else None,
            session_root=record.root if record is not None else None,
            client=turn.client,
            interactive=attended(turn.client),
            caller=turn.caller,
        )

        def offered() -> dict[str, Tool]:
            return {} if turn.guest else dict(self._toolbox.tools(turn.speaker))

        setting = for_summary(self._setting(turn)) if turn.summary else self._setting(turn)
        return Loop(setting, transcript, self._models, self._toolbox, offered, work, tell)

    def _setting(self, turn: Turn) -> Setting:
        config = self._agents.config(turn.speaker)
        return Setting(
            model=turn.model,
            # The tools that a guest does not have need no usage.
            system=config.description if turn.guest else self._toolbox.system(turn.agent),
            host=turn.agent.name,
            speaker=turn.guest,
            tool_choice=turn.tool_choice or config.tool_choice,
            thinking=config.thinking,
            thinking_budget=config.thinking_budget,
            max_tokens=config.max_tokens,
            max_iterations=config.max_iterations,
        )

    # Summaries

    async def _sum_up(self, turn: Turn, tell: Tell) -> str:
        record = self._sessions.of(turn.agent, turn.handle)
        messages = await self._context(record)
        most = self._agents.config(turn.agent).compact_tool_max_len
        aside = Transcript([*with_short_results(messages, most), Message("user", turn.content)], self._clock)
        summary = await self._loop(turn, aside, record, tell).run()
        if not summary.strip():
            raise TurnFailed("the model gave no summary")
        missing = [interrupted(call) for call in unanswered(messages)]
        begun = replace(record, context_from=record.message_count + len(missing))
        transcript = Transcript([], self._clock, begun, self._store, self._tell_change)
        await transcript.add(*missing, Message("system", summary), more=self._archived(record, summary))
        if self.archive is not None:
            self.archive.changed(turn.agent.id)
        return summary

    def _archived(self, record: SessionRecord, summary: str) -> Sequence[Write]:
        if self.archive is None:
            return ()
        return self.archive.archive_writes(record.agent_id, record.title, summary, self._clock.now_ms())


def _answer_of(messages: Sequence[Message]) -> str | None:
    """Return the answer that a history ends with, None if it ends with anything else."""
    last = messages[-1] if messages else None
    if last is None or last.role != "assistant" or last.tool_calls or last.is_error:
        return None
    return last.content
