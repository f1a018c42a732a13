"""Search over sessions: keeps the index in step with what the store holds, and answers.

Whoever commits messages says which session was touched, and the index reads from the store what it does not
have yet, in a thread of its own. A search waits for everything that was touched before it, so that it finds
what was committed. At the start all sessions are compared with the index, which may be lost, stale or of
another store: it is brought up to date, or made anew. Used from trio's thread only.
"""

import hashlib
import logging
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Final

import trio

from crabtalk.errors import BadRequest, Busy, Internal, StoreError
from crabtalk.search.excerpts import MAX_SEARCHED
from crabtalk.search.hits import LOOK_BACK, Hit, message_of, window_of
from crabtalk.search.index import MAX_MESSAGES, BrokenIndex, Entry, Found, Known, SearchIndex
from crabtalk.search.words import Term, parse_query, words
from crabtalk.store.engine import Engine
from crabtalk.store.interfaces.sessions import MessageRecord, SessionRecord, Sessions
from crabtalk.store.records import encode_json

logger = logging.getLogger(__name__)

MAX_LIMIT: Final = 20
MAX_WINDOW: Final = 20  # messages around the one that matches
LIMIT: Final = 10
CONTEXT: Final = 1
BROKEN: Final = "the search index does not work"

_AT_ONCE: Final = 32  # sessions that are brought up to date in one go of the thread
_PAGE: Final = 500  # messages of one transaction
_PAUSE_S: Final = 0.5  # after a failure; what failed is likely to fail again
_PATIENCE_S: Final = 10.0  # how long a search waits for the index


class SearchService:
    """The index of one store, and searches in it."""

    def __init__(self, store: Engine, path: Path) -> None:
        self._sessions = Sessions(store)
        self._path = path
        self._index: SearchIndex | None = None
        self._touched: dict[str, bool] = {}  # sessions, oldest first; whether they have to be read anew
        self._forgotten: set[str] = set()  # agents whose sessions are gone
        self._to_compare = True  # all of them, as nothing is known yet
        self._wake = trio.Event()
        self._wake.set()
        self._wanted = 1  # grows with everything that is to be done
        self._done = 0  # what of it has been
        self._advanced = trio.Event()
        self._failure = ""
        self._stopping = False

    # Keeping in step

    def touched(self, handle: str) -> None:
        """Take note that messages of a session were committed, or that it is gone."""
        self._note(handle, anew=False)

    def rewritten(self, handle: str) -> None:
        """Take note that messages of a session were changed or removed."""
        self._note(handle, anew=True)

    def agent_forgotten(self, agent_id: str) -> None:
        """Take note that an agent and all its sessions are gone."""
        self._forgotten.add(agent_id)
        self._want()

    def stop(self) -> None:
        """Begin no page any more; the rest is done after the next start."""
        self._stopping = True

    async def serve(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep the index in step until it is cancelled.

        **Cancellation:** waits for the page that is being written.
        """
        task_status.started()
        try:
            while True:
                await self._wake.wait()
                self._wake = trio.Event()
                await self._catch_up()
                if self._failure:
                    await trio.sleep(_PAUSE_S)
        finally:
            self._stopping = True
            if self._index is not None:
                self._index.close()

    async def search(
        self,
        query: str,
        limit: int = LIMIT,
        before: int = CONTEXT,
        after: int = CONTEXT,
        *,
        agent_id: str = "",
        sender: str = "",
    ) -> list[Hit]:
        """Return the messages that match best, each with those around it.

        Raises:
            BadRequest: if the query or a number cannot be used.
            Busy: while the index is being made.
            Internal: if the index or the store does not work.
        """
        terms = parse_query(query)
        check_numbers(limit, before, after)
        index = await self._current()

        def find() -> list[Hit]:
            found = index.search(terms, limit, agent_id, sender)
            hits = (self._hit(one, terms, before, after) for one in found)
            return [hit for hit in hits if hit is not None]

        try:
            return await trio.to_thread.run_sync(find)
        except StoreError as error:
            # Whatever it is, a comparison finds it, or makes the index anew.
            logger.warning("a search failed: %s", error)
            self._to_compare = True
            self._want()
            raise Internal(f"{BROKEN}: {error}") from error

    async def settled(self) -> None:
        """Wait until everything that was touched so far is in the index, or could not be."""
        wanted = self._wanted
        while self._done < wanted:
            await self._advanced.wait()

    def _note(self, handle: str, *, anew: bool) -> None:
        self._touched[handle] = anew or self._touched.get(handle, False)
        self._want()

    def _want(self) -> None:
        self._wanted += 1
        self._wake.set()

    async def _current(self) -> SearchIndex:
        """Return the index when all that was committed is in it."""
        if self._failure:
            self._want()
        with trio.move_on_after(_PATIENCE_S) as waiting:
            await self.settled()
        if waiting.cancelled_caught:
            raise Busy(
                f"the search index is being made: {len(self._touched)} sessions are left; ask again later"
            )
        if self._failure or self._index is None:
            raise Internal(f"{BROKEN}: {self._failure}")
        return self._index

    async def _catch_up(self) -> None:
        """Do everything that is to be done, with a new index if the old one is broken."""
        wanted = self._wanted
        try:
            try:
                await self._work_off()
            except BrokenIndex as error:
                logger.warning("%s; it is made anew", error)
                await self._work_off(anew=True)
            self._failure = ""
        except StoreError as error:
            self._failure = str(error)
            self._to_compare = True
            logger.warning("sessions cannot be searched: %s", error)
        self._done = wanted
        self._advanced.set()
        self._advanced = trio.Event()

    async def _work_off(self, *, anew: bool = False) -> None:
        index = self._index
        if index is None:
            index = self._index = await trio.to_thread.run_sync(SearchIndex, self._path)
        if anew:
            await trio.to_thread.run_sync(index.clear)
            self._to_compare = True
        await self._gather(index)
        while self._touched:
            batch = list(islice(self._touched.items(), _AT_ONCE))
            for handle, _ in batch:
                del self._touched[handle]
            try:
                await trio.to_thread.run_sync(self._bring_all, index, batch)
            except StoreError:
                for handle, was_rewritten in batch:
                    self._touched[handle] = was_rewritten or self._touched.get(handle, False)
                raise

    async def _gather(self, index: SearchIndex) -> None:
        """Find the sessions that nobody named, and that differ all the same."""
        found: list[str] = []
        if self._to_compare:
            found += await trio.to_thread.run_sync(self._differing, index)
            self._to_compare = False
        while self._forgotten:
            agent_id = self._forgotten.pop()
            found += await trio.to_thread.run_sync(index.of_agent, agent_id)
        for handle in found:
            self._touched.setdefault(handle, False)

    # In the thread

    def _differing(self, index: SearchIndex) -> list[str]:
        known = index.all_known()
        found = []
        for record in self._sessions.all():
            one = known.pop(record.handle, None)
            is_empty = one is None and not record.message_count
            if not is_empty and not self._is_prefix(one, record, complete=True):
                found.append(record.handle)
        return [*known, *found]  # first those that are gone

    def _bring_all(self, index: SearchIndex, batch: Sequence[tuple[str, bool]]) -> None:
        for handle, anew in batch:
            self._bring(index, handle, anew)

    def _bring(self, index: SearchIndex, handle: str, anew: bool) -> None:  # noqa: FBT001 - for the thread
        """Bring one session up to date."""
        record, known = self._sessions.get(handle), index.known(handle)
        if known is not None and (record is None or anew or not self._is_prefix(known, record)):
            index.forget(handle)
            known = None
        if record is None:
            return
        count = known.count if known is not None else 0
        while not self._stopping and count < MAX_MESSAGES:
            page = self._sessions.messages(handle, count - 1, _PAGE)
            if not page:
                return
            entries = [entry for one in page if (entry := _entry(one)) is not None]
            count = page[-1].index + 1
            index.add(record, entries, count, _digest(page[-1]))

    def _is_prefix(self, known: Known | None, record: SessionRecord, *, complete: bool = False) -> bool:
        """Report whether what the index has of a session is still true; with `complete`, all of it."""
        if known is None or known.count > record.message_count:
            return False
        if complete and known.count != min(record.message_count, MAX_MESSAGES):
            return False
        facts = known.agent_id, known.sender, known.created_ms
        if facts != (record.agent_id, record.sender, record.created_ms):
            return False
        if not known.count:
            return True
        last = self._sessions.messages(record.handle, known.count - 2, 1)
        return bool(last) and last[0].index == known.count - 1 and _digest(last[0]) == known.last

    def _hit(self, found: Found, terms: Sequence[Term], before: int, after: int) -> Hit | None:
        record = self._sessions.get(found.handle)
        if record is None:  # it went meanwhile
            return None
        first, last = max(0, found.index - before), found.index + after

        def earlier() -> list[MessageRecord]:
            start = max(0, first - LOOK_BACK)
            return self._sessions.messages(found.handle, start - 1, first - start)

        records = self._sessions.messages(found.handle, first - 1, last - first + 1)
        window = window_of(records, found.index, terms, earlier)
        return Hit(record, found.index, round(found.score, 4), window)


def check_numbers(limit: int, before: int, after: int) -> None:
    """Return if a search may be that large.

    Raises:
        BadRequest: if not.
    """
    if not 1 <= limit <= MAX_LIMIT:
        raise BadRequest(f"limit: expected 1 to {MAX_LIMIT}, got {limit}")
    if before < 0 or after < 0 or before + after > MAX_WINDOW:
        raise BadRequest(f"expected at most {MAX_WINDOW} messages around a hit, got {before} and {after}")


def _entry(record: MessageRecord) -> Entry | None:
    message = message_of(record)
    if message is None:
        return None
    said = message.content[:MAX_SEARCHED] if message.role in {"user", "assistant"} else ""
    tools = " ".join(word for call in message.tool_calls for word in words(call.name))
    folded = " ".join(words(said))
    if not folded and not tools:
        return None
    user, assistant = (folded, "") if message.role == "user" else ("", folded)
    return Entry(record.index, user, assistant, tools)


def _digest(record: MessageRecord) -> bytes:
    return hashlib.blake2b(encode_json(record.body), digest_size=8).digest()
