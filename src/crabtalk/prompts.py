"""Prompts: a question on its way to a person, and the answer back.

A prompt waits two minutes for any client that says it can ask a person. All of them are shown it, also those
that come later; the first answer counts, and then everybody is told that it is over. What an answer means is
its asker's business. Nothing here is stored: whoever asks is gone when the daemon is.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final, Literal

import trio

from crabtalk.clock import Clock
from crabtalk.errors import BadRequest, Busy, NotFound, TooLarge
from crabtalk.following import Following
from crabtalk.ids import new_id
from crabtalk.store.interfaces.approvals import Subject

LIMIT_S: Final = 120.0  # that a prompt waits
MAX_PENDING: Final = 256
MAX_OF_AGENT: Final = 32
MAX_ANSWER_BYTES: Final = 16 << 10
_ROOM: Final = 4 * MAX_PENDING  # prompts that a client may be behind; picked, not measured


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """What a person is asked."""

    id: str = ""  # a ULID, given when it is asked
    kind: Literal["approval", "question"]
    agent_id: str
    harness: str
    text: str
    capability: str = ""  # of an approval, as what follows
    argument: str = ""
    scopes: tuple[str, ...] = ()  # how long it may be approved for
    session: str = ""  # a handle
    subject: Subject | None = None  # what an approval of it would cover
    expires_ms: int = 0  # 0: it is over


@dataclass(frozen=True, slots=True)
class Answer:
    """What a person said."""

    allow: bool
    scope: str = ""  # one of the prompt's, of an approval
    text: str = ""
    client: str = ""  # who answered; "" when another answer covers it


# Keeps what a person allowed; whoever answered hears that it is done when it is.
Keep = Callable[[Answer], Awaitable[None]]


class Inbox(Following[Prompt]):
    """The prompts for one client, and that they are over."""

    def __init__(self, leave: Callable[["Inbox"], None]) -> None:
        super().__init__(_ROOM, leave)


class _Pending:
    """A prompt that waits for its answer."""

    def __init__(self, prompt: Prompt, keep: Keep | None) -> None:
        self.prompt = prompt
        self.keep = keep
        self.taken = False  # somebody has answered; nobody else can
        self.answer: Answer | None = None
        self.answered = trio.Event()

    def settle(self, answer: Answer) -> None:
        self.taken = True
        self.answer = answer
        self.answered.set()


class Prompts:
    """Brings prompts and answers together; used from trio's thread only."""

    def __init__(self, clock: Clock, *, limit_s: float = LIMIT_S) -> None:
        self._clock = clock
        self._limit_s = limit_s
        self._pending: dict[str, _Pending] = {}
        self._inboxes: set[Inbox] = set()

    @property
    def pending(self) -> list[Prompt]:
        """What waits for an answer, the oldest first."""
        return [one.prompt for one in self._pending.values()]

    @property
    def limit(self) -> str:
        """How long a prompt waits, in words."""
        minutes = self._limit_s / 60
        return f"{minutes:g} minutes" if minutes > 1 else f"{self._limit_s:g} seconds"

    def subscribe(self) -> Inbox:
        """Show a client everything that waits, and what comes."""
        inbox = Inbox(self._inboxes.discard)
        self._inboxes.add(inbox)
        for prompt in self.pending:
            inbox.take(prompt)
        return inbox

    async def ask(self, prompt: Prompt, keep: Keep | None = None) -> Answer | None:
        """Ask, and return the answer; None if nobody gave one in time.

        `keep` stores what is allowed, before the answer is acknowledged and returned.

        **Cancellation:** takes the question back.

        Raises:
            Busy: if too many questions wait already.
        """
        self._require_room(prompt.agent_id)
        expires_ms = self._clock.now_ms() + round(self._limit_s * 1000)
        asked = _Pending(replace(prompt, id=new_id(), expires_ms=expires_ms), keep)
        self._pending[asked.prompt.id] = asked
        self._tell(asked.prompt)
        try:
            with trio.move_on_after(self._limit_s):
                await asked.answered.wait()
            if asked.taken:  # in the last moment, and it is being stored
                await asked.answered.wait()
        finally:
            del self._pending[asked.prompt.id]
            self._tell(replace(asked.prompt, expires_ms=0, scopes=()))
        return asked.answer

    async def answer(self, prompt_id: str, answer: Answer) -> None:
        """Take a person's answer.

        **Cancellation:** has no effect once it is being stored.

        Raises:
            NotFound: if nobody waits for it, or not any more.
            BadRequest: if it is no answer to that; TooLarge: if it is too long.
            RequestError, StoreError: if it cannot be kept; whoever asked is refused then.
        """
        asked = self._pending.get(prompt_id)
        if asked is None or asked.taken:
            raise NotFound(f"no prompt `{prompt_id[:80]}` waits for an answer, or not any more")
        checked = _checked(asked.prompt, answer)
        asked.taken = True
        try:
            if checked.allow and asked.keep is not None:
                with trio.CancelScope(shield=True):  # milliseconds: one commit
                    await asked.keep(checked)
        except BaseException:
            asked.settle(Answer(allow=False, text="the approval could not be stored"))
            raise
        asked.settle(checked)

    def settle(self, covered: Callable[[Prompt], bool]) -> None:
        """Take back the prompts that need no answer any more; whoever asked looks again."""
        for asked in list(self._pending.values()):
            if not asked.taken and covered(asked.prompt):
                asked.settle(Answer(allow=True))

    def _require_room(self, agent_id: str) -> None:
        if len(self._pending) >= MAX_PENDING:
            raise Busy(f"{MAX_PENDING} questions wait for a person already")
        if sum(one.prompt.agent_id == agent_id for one in self._pending.values()) >= MAX_OF_AGENT:
            raise Busy(f"{MAX_OF_AGENT} questions of this agent wait for a person already")

    def _tell(self, prompt: Prompt) -> None:
        for inbox in self._inboxes:
            inbox.take(prompt)


def _checked(prompt: Prompt, answer: Answer) -> Answer:
    """Return an answer that fits its prompt.

    Raises:
        BadRequest, TooLarge: as `Prompts.answer`.
    """
    size = len(answer.text.encode(errors="replace"))
    if size > MAX_ANSWER_BYTES:
        raise TooLarge(f"text: at most {MAX_ANSWER_BYTES} bytes are taken, got {size}")
    if not answer.allow:
        return replace(answer, scope="")
    if prompt.kind == "question":
        if not answer.text.strip():
            raise BadRequest("text: expected the answer, got nothing")
        return replace(answer, scope="")
    scope = answer.scope or prompt.scopes[0]
    if scope not in prompt.scopes:
        raise BadRequest(f"scope: expected one of {', '.join(prompt.scopes)}, got `{scope[:80]}`")
    return replace(answer, scope=scope)
