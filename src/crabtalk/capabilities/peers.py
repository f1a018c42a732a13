"""The capability over peers: `crabtalk.peers.list`, the agents that the declaration names.

Owns the form of the answer. Who may be seen is decided by whoever gives the list, since agents come and go.
"""

from collections.abc import Callable, Iterable
from typing import Final, TypedDict

from berm import Capability, capability
from crabtalk.capabilities._call import Call
from crabtalk.capabilities._failure import Failure

MAX_PEERS: Final = 1000
MAX_DESCRIPTION: Final = 1024  # characters; a system message may be much longer


class Peer(TypedDict):
    """What a guest learns of an agent."""

    name: str
    description: str


def peers(visible: Callable[[], Iterable[tuple[str, str]]]) -> tuple[Capability, ...]:
    """Grant a look at the agents of `visible`: their names and descriptions at the time of the call."""

    @capability("crabtalk.peers.list")
    def listing(_call: Call) -> list[Peer]:
        found = sorted(visible())
        if len(found) > MAX_PEERS:
            raise Failure(f"there are more than {MAX_PEERS} agents")
        return [Peer(name=name, description=_cut(description)) for name, description in found]

    return (listing,)


def _cut(text: str) -> str:
    return text if len(text) <= MAX_DESCRIPTION else text[: MAX_DESCRIPTION - 1] + "…"
