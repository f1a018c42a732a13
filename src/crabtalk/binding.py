"""From a declaration to capabilities: the only place where an argument becomes something that a guest holds.

No argument, nothing registered. The modules of capabilities are imported when an argument asks for them. What
belongs to the running daemon comes as `Services`, whose members are called when a guest is linked.
"""

# ruff: noqa: PLC0415 - an argument costs only its own imports

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from berm import Capability

if TYPE_CHECKING:
    from crabtalk.capabilities._beneath import Root
    from crabtalk.capabilities._keyvalue import KeyValue
    from crabtalk.declarations import HarnessDeclaration


class Owner(NamedTuple):
    """Whose capabilities they are."""

    agent_id: str
    harness: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """What the daemon gives; what gets no owner finds its caller in `call.context`."""

    home: Path  # never entered by any tool
    now_ms: Callable[[], int]  # the wall clock
    keyvalue: Callable[[Owner], "KeyValue"]
    calls: Callable[[tuple[str, ...]], Iterable[Capability]]
    schedule: Callable[[int], Iterable[Capability]]
    topics: Callable[[tuple[str, ...]], Iterable[Capability]]
    send: Callable[[tuple[str, ...]], Iterable[Capability]]
    sessions: Callable[[Owner], Iterable[Capability]]
    skills: Callable[[Owner, tuple[str, ...]], Iterable[Capability]]


Peers = Callable[[Owner, tuple[str, ...]], Iterable[tuple[str, str]]]  # names and descriptions

REGISTERS: Final = {
    "files": "berm.fs.*",
    "root": "berm.fs.*, berm.exec.run",
    "hosts": "berm.http.*",
    "zone": "berm.clock.*",
    "storage": "berm.get, berm.set, berm.kv.*",
    "calls": "berm.call",
    "schedule": "crabtalk.wake.*",
    "topics": "crabtalk.event.*",
    "peers": "crabtalk.peers.list",
    "send": "crabtalk.agent.send",
    "sessions": "crabtalk.sessions.search",
    "skills": "crabtalk.skills.*",
}


def capabilities_of(
    declaration: "HarnessDeclaration",
    owner: Owner,
    services: Services,
    peers: Peers,
    session_root: str | None = None,
) -> tuple[Capability, ...]:
    """Make everything that a declaration grants.

    Raises:
        ValueError: if an argument cannot be granted, such as a directory that is not there.
    """
    machine = _of_machine(declaration, services, session_root)
    return (*machine, *_of_daemon(declaration, owner, services, peers))


def describe(declaration: "HarnessDeclaration") -> list[str]:
    """Return what is bound, a line for each argument: `berm.fs.*: files = /home/me/notes`."""
    lines = []
    for key, names in REGISTERS.items():
        value = getattr(declaration, key)
        if value not in (None, (), ""):
            lines.append(f"{names}: {key} = {_argument(value)}")
    return lines


def _argument(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    path = getattr(value, "path", None)
    if path is None:
        return str(value)
    return f"{path}, or a session's root inside it" if getattr(value, "per_session", False) else str(path)


def _of_machine(
    declaration: "HarnessDeclaration", services: Services, session_root: str | None
) -> Iterator[Capability]:
    home = services.home
    if declaration.files is not None:
        from crabtalk.capabilities._beneath import Root
        from crabtalk.capabilities.files import files

        yield from files(Root(declaration.files, home=home))
    if declaration.root is not None:
        from crabtalk.capabilities.commands import commands

        yield from commands(_root(declaration.root.path, declaration.root.per_session, home, session_root))
    if declaration.hosts:
        from crabtalk.capabilities.web import web

        yield from web(declaration.hosts)
    if declaration.zone:
        from crabtalk.capabilities.clock import clock

        yield from clock(declaration.zone, services.now_ms)


def _of_daemon(
    declaration: "HarnessDeclaration", owner: Owner, services: Services, peers: Peers
) -> Iterator[Capability]:
    if declaration.storage is not None:
        from crabtalk.capabilities.storage import storage

        yield from storage(services.keyvalue(owner), declaration.storage)
    if declaration.calls:
        yield from services.calls(declaration.calls)
    if declaration.schedule is not None:
        yield from services.schedule(declaration.schedule)
    if declaration.topics:
        yield from services.topics(declaration.topics)
    if declaration.peers:
        from crabtalk.capabilities.peers import peers as peers_capability

        yield from peers_capability(lambda: peers(owner, declaration.peers))
    if declaration.send:
        yield from services.send(declaration.send)
    if declaration.sessions:
        yield from services.sessions(owner)
    if declaration.skills:
        yield from services.skills(owner, declaration.skills)


def _root(path: str, per_session: bool, home: Path, session_root: str | None) -> "Root":  # noqa: FBT001
    from crabtalk.capabilities._beneath import Root

    bound = Root(path, home=home)
    if not per_session or session_root is None:
        return bound
    with bound:
        return bound.narrowed(session_root)
