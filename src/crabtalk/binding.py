"""From a declaration to capabilities: the only place where an argument becomes something that a guest holds.

No argument, nothing registered. The modules of capabilities are imported when an argument asks for them. What
belongs to the running daemon comes as `Services`, whose members are called when a guest is linked.
"""

# ruff: noqa: PLC0415 - an argument costs only its own imports

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from berm import Capability
from crabtalk.capabilities.asking import Grant

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
    asking: Callable[[Grant, Capability], Capability]  # puts a question before a capability


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
    """Make everything that a declaration grants; what it asks about, with the question before it.

    Raises:
        ValueError: if an argument cannot be granted, such as a directory that is not there.
    """
    machine = _of_machine(declaration, services, session_root)
    granted = []
    for key, capability in (*machine, *_of_daemon(declaration, owner, services, peers)):
        if key in declaration.ask:
            grant = Grant(declaration.sha256, argument_shown(declaration, key, session_root))
            granted.append(services.asking(grant, capability))
        else:
            granted.append(capability)
    return tuple(granted)


def argument_shown(declaration: "HarnessDeclaration", key: str, session_root: str | None = None) -> str:
    """Return what is bound by an argument, as a person approves it: directories by their real paths."""
    from crabtalk.identity import arguments

    value = arguments(declaration)[key]
    if isinstance(value, dict):
        ((kind, path),) = value.items()
        within = session_root if kind == "session" and session_root is not None else ""
        value = os.path.realpath(os.path.join(path, within))  # noqa: PTH118 - as it is opened
    return f"{key} = {', '.join(map(str, value)) if isinstance(value, list) else value}"


def describe(declaration: "HarnessDeclaration") -> list[str]:
    """Return what is bound, a line for each argument: `berm.fs.*: files = /home/me/notes`."""
    lines = []
    for key, names in REGISTERS.items():
        value = getattr(declaration, key)
        if value not in (None, (), ""):
            asks = ", asks first" if key in declaration.ask else ""
            lines.append(f"{names}: {key} = {_argument(value)}{asks}")
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
) -> Iterator[tuple[str, Capability]]:
    home = services.home
    if declaration.files is not None:
        from crabtalk.capabilities._beneath import Root
        from crabtalk.capabilities.files import files

        yield from _under("files", files(Root(declaration.files, home=home)))
    if declaration.root is not None:
        from crabtalk.capabilities.commands import commands

        yield from _under(
            "root", commands(_root(declaration.root.path, declaration.root.per_session, home, session_root))
        )
    if declaration.hosts:
        from crabtalk.capabilities.web import web

        yield from _under("hosts", web(declaration.hosts))
    if declaration.zone:
        from crabtalk.capabilities.clock import clock

        yield from _under("zone", clock(declaration.zone, services.now_ms))


def _of_daemon(
    declaration: "HarnessDeclaration", owner: Owner, services: Services, peers: Peers
) -> Iterator[tuple[str, Capability]]:
    if declaration.storage is not None:
        from crabtalk.capabilities.storage import storage

        yield from _under("storage", storage(services.keyvalue(owner), declaration.storage))
    if declaration.calls:
        yield from _under("calls", services.calls(declaration.calls))
    if declaration.schedule is not None:
        yield from _under("schedule", services.schedule(declaration.schedule))
    if declaration.topics:
        yield from _under("topics", services.topics(declaration.topics))
    if declaration.peers:
        from crabtalk.capabilities.peers import peers as peers_capability

        yield from _under("peers", peers_capability(lambda: peers(owner, declaration.peers)))
    if declaration.send:
        yield from _under("send", services.send(declaration.send))
    if declaration.sessions:
        yield from _under("sessions", services.sessions(owner))
    if declaration.skills:
        yield from _under("skills", services.skills(owner, declaration.skills))


def _under(key: str, capabilities: Iterable[Capability]) -> Iterator[tuple[str, Capability]]:
    return ((key, one) for one in capabilities)


def _root(path: str, per_session: bool, home: Path, session_root: str | None) -> "Root":  # noqa: FBT001
    from crabtalk.capabilities._beneath import Root

    bound = Root(path, home=home)
    if not per_session or session_root is None:
        return bound
    with bound:
        return bound.narrowed(session_root)
