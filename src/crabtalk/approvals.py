"""Approvals: whether a person has allowed what an argument with `ask = true` binds, and asking for it.

An approval is about one subject: these bytes, as this harness of this agent, calling this capability with
this argument. Other bytes are another subject, so an upgrade asks again. What a prompt shows is what is
stored, word for word, and it is stored before it counts. Where no person can be, in what wakes and events
start, only an approval for always counts.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Literal

from berm import Refused
from crabtalk.clock import Clock
from crabtalk.errors import Busy, NotFound, TooLarge
from crabtalk.ids import new_id
from crabtalk.prompts import Answer, Prompt, Prompts
from crabtalk.store.engine import Engine, Write
from crabtalk.store.interfaces.approvals import ApprovalRecord, Subject
from crabtalk.store.interfaces.approvals import Approvals as Stored
from crabtalk.tools import Context, attended

logger = logging.getLogger(__name__)

MAX_OF_AGENT: Final = 1000  # approvals that are kept
_REFUSED_KEPT: Final = 1024  # refusals that are remembered, of invocations that may ask again

Exists = Callable[[str], bool]
Text = Callable[[], str]  # called when somebody is asked


class Approvals:
    """What people allowed; used from trio's thread only."""

    def __init__(
        self, store: Engine, prompts: Prompts, clock: Clock, *, agent_exists: Exists, session_exists: Exists
    ) -> None:
        """Read what is stored.

        Raises:
            StoreError: if it is damaged.
        """
        self._store = store
        self._stored = Stored(store)
        self._prompts = prompts
        self._clock = clock
        self._agent_exists = agent_exists
        self._session_exists = session_exists
        self._records = {record.id: record for record in self._stored.all()}
        self._by_subject: dict[Subject, dict[str, ApprovalRecord]] = {}
        self._refused: OrderedDict[tuple[str, Subject], None] = OrderedDict()
        for record in self._records.values():
            self._by_subject.setdefault(record.subject, {})[record.id] = record

    def all(self) -> list[ApprovalRecord]:
        """Return every approval, the oldest first; those that were for once are history."""
        return [self._records[one] for one in sorted(self._records)]

    async def require(self, context: Context, subject: Subject, text: Text) -> None:
        """Return when the invocation of `context` may do what `text` says, which is a case of `subject`.

        The deadline of the invocation, and of those that called it, stands still meanwhile.

        **Cancellation:** takes the question back.

        Raises:
            Refused: if it may not, with why.
        """
        session = context.session if attended(context.client) else None
        while not self._covers(subject, session):
            self._require_person(context, subject)
            answer = await self._ask(context, subject, text())
            if answer is None or not answer.allow:
                self._remember_refusal(context, subject)
                raise Refused(_refusal(subject, answer, self._prompts.limit))
            if answer.client:
                return

    async def revoke(self, approval_id: str) -> None:
        """Take an approval back; what was begun with it goes on.

        Raises:
            NotFound: if there is none.
            StoreError: if the store does not work; it is in force then.
        """
        record = self._records.get(approval_id)
        if record is None:
            raise NotFound(f"there is no approval `{approval_id[:80]}`")
        self._drop(record)
        try:
            await self._store.commit(self._stored.remove(record))
        except BaseException:
            self._add(record)
            raise
        logger.info("approval revoked: %s", _described(record.subject), extra=_about(record))

    # What goes with others

    def forget_agent(self, agent_id: str) -> Sequence[Write]:
        """Return what removes the approvals of an agent that goes."""
        return self._stored.forget_agent(agent_id)

    def agent_forgotten(self, agent_id: str) -> None:
        """Take note that an agent is gone."""
        self._drop_all(lambda one: one.agent_id == agent_id)

    def forget_session(self, handle: str) -> Sequence[Write]:
        """Return what removes the approvals for a session that goes."""
        return [write for one in self._of_session(handle) for write in self._stored.remove(one)]

    def session_forgotten(self, handle: str) -> None:
        """Take note that a session is gone."""
        self._drop_all(lambda one: one.scope == "session" and one.session == handle)

    # Whether it is allowed

    def _covers(self, subject: Subject, session: str | None) -> bool:
        return any(
            one.scope == "always" or (one.scope == "session" and one.session == session)
            for one in self._by_subject.get(subject, {}).values()
        )

    def _require_person(self, context: Context, subject: Subject) -> None:
        """Return if it makes sense to ask.

        Raises:
            Refused: if nobody could answer, or somebody did.
        """
        if not attended(context.client):
            raise Refused(
                f"{_named(subject)} was not approved: a wake or an event started this, so nobody is asked, "
                "and it needs an approval for always"
            )
        if (context.invocation_id, subject) in self._refused:
            raise Refused(f"{_named(subject)} was not approved: it was refused already")

    def _remember_refusal(self, context: Context, subject: Subject) -> None:
        self._refused[context.invocation_id, subject] = None
        if len(self._refused) > _REFUSED_KEPT:
            self._refused.popitem(last=False)

    async def _ask(self, context: Context, subject: Subject, text: str) -> Answer | None:
        """Ask a person.

        Raises:
            Refused: if too many are asked already.
        """
        session = context.session or ""
        in_session = bool(session) and self._session_exists(session)
        prompt = Prompt(
            kind="approval",
            agent_id=subject.agent_id,
            harness=subject.harness,
            capability=subject.capability,
            argument=subject.argument,
            text=text,
            session=session,
            scopes=("once", "session", "always") if in_session else ("once", "always"),
            subject=subject,
        )
        try:
            with context.gate.standing_still():
                return await self._prompts.ask(prompt, lambda answer: self._keep(prompt, subject, answer))
        except Busy as error:
            raise Refused(f"{_named(subject)} was not approved: {error.message}") from error

    # What is kept

    async def _keep(self, prompt: Prompt, subject: Subject, answer: Answer) -> None:
        """Store what was allowed, in place of what was allowed so before.

        Raises:
            NotFound: if the agent, or the session, is gone.
            TooLarge: if the agent has too many.
            StoreError: if the store does not work.
        """
        scope = _scope(answer.scope)
        session = prompt.session if scope == "session" else ""
        record = ApprovalRecord(
            new_id(),
            *subject,
            text=prompt.text,
            scope=scope,
            session=session,
            at_ms=self._clock.now_ms(),
            client=answer.client,
        )
        self._require_owner(record)
        replaced = [one for one in self._alike(record) if (one.scope, one.session) == (scope, session)]
        if (
            not replaced
            and sum(one.agent_id == record.agent_id for one in self._records.values()) >= MAX_OF_AGENT
        ):
            replaced = [self._oldest_once(record.agent_id)]
        removing = [write for one in replaced for write in self._stored.remove(one)]
        await self._store.commit([*self._stored.save(record), *removing])
        try:
            self._require_owner(record)
        except NotFound:  # it went meanwhile, and did not take what was not there yet
            await self._store.commit(self._stored.remove(record))
            raise
        for one in replaced:
            self._drop(one)
        self._add(record)
        logger.info("approved for %s: %s", scope, _described(subject), extra=_about(record))
        self._prompts.settle(lambda one: one.subject is not None and self._covers(one.subject, one.session))

    def _require_owner(self, record: ApprovalRecord) -> None:
        if not self._agent_exists(record.agent_id):
            raise NotFound(f"agent `{record.agent_id}` is gone")
        if record.session and not self._session_exists(record.session):
            raise NotFound(f"session `{record.session}` is gone")

    def _alike(self, record: ApprovalRecord) -> Iterator[ApprovalRecord]:
        yield from self._by_subject.get(record.subject, {}).values()

    def _oldest_once(self, agent_id: str) -> ApprovalRecord:
        for one in self.all():
            if one.agent_id == agent_id and one.scope == "once":
                return one
        raise TooLarge(f"this agent has {MAX_OF_AGENT} approvals, which is the most: revoke some")

    def _of_session(self, handle: str) -> list[ApprovalRecord]:
        found = self._records.values()
        return [one for one in found if one.scope == "session" and one.session == handle]

    def _add(self, record: ApprovalRecord) -> None:
        self._records[record.id] = record
        self._by_subject.setdefault(record.subject, {})[record.id] = record

    def _drop(self, record: ApprovalRecord) -> None:
        if self._records.pop(record.id, None) is None:
            return
        alike = self._by_subject[record.subject]
        del alike[record.id]
        if not alike:
            del self._by_subject[record.subject]

    def _drop_all(self, chosen: Callable[[ApprovalRecord], bool]) -> None:
        for record in [one for one in self._records.values() if chosen(one)]:
            self._drop(record)


def _scope(text: str) -> Literal["once", "session", "always"]:
    """Return a scope that a prompt offered."""
    return "always" if text == "always" else "session" if text == "session" else "once"


def _named(subject: Subject) -> str:
    return f"`{subject.capability}`"


def _refusal(subject: Subject, answer: Answer | None, limit: str) -> str:
    """Say why not, for the guest and its model."""
    if answer is None:
        return f"{_named(subject)} was not approved: nobody answered within {limit}"
    reason = f", saying: {answer.text}" if answer.text else ""
    return f"{_named(subject)} was not approved: a person refused it{reason}"


def _described(subject: Subject) -> str:
    return f"{subject.capability} with {subject.argument}"


def _about(record: ApprovalRecord) -> dict[str, str]:
    return {"agent": record.agent_id, "harness": record.harness, "client": record.client}
