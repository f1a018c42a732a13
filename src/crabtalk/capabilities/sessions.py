"""The capability over what was said: `crabtalk.sessions.search`, in the declaring agent's sessions.

Whose sessions they are is decided when it is bound. Owns the form of the answer; what is found, and how much
of it is shown, is the search's.
"""

from typing import TypedDict

from berm import Capability, capability
from crabtalk.capabilities._call import Call
from crabtalk.capabilities._caller import explained
from crabtalk.capabilities._failure import Failure
from crabtalk.errors import Internal
from crabtalk.search.hits import Hit
from crabtalk.search.service import SearchService


class ShownItem(TypedDict):
    """One message as a guest gets it."""

    role: str
    index: int
    snippet: str
    truncated: bool
    tool_name: str


class ShownHit(TypedDict):
    """One message that matched, as a guest gets it."""

    session: str
    index: int
    score: float
    title: str
    window: list[ShownItem]


def sessions(search: SearchService, agent_id: str) -> tuple[Capability, ...]:
    """Grant a search in the sessions of one agent."""

    @capability("crabtalk.sessions.search")
    async def find(_call: Call, query: str, limit: int, before: int, after: int) -> list[ShownHit]:
        with explained():
            try:
                found = await search.search(query, limit, before, after, agent_id=agent_id)
            except Internal as error:  # whose details are the operator's
                raise Failure("the search does not work") from error
        return [_shown(hit) for hit in found]

    return (find,)


def _shown(hit: Hit) -> ShownHit:
    window = [
        ShownItem(
            role=one.role,
            index=one.index,
            snippet=one.snippet,
            truncated=one.truncated,
            tool_name=one.tool_name,
        )
        for one in hit.window
    ]
    return ShownHit(
        session=hit.session.handle, index=hit.index, score=hit.score, title=hit.session.title, window=window
    )
