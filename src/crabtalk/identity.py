"""The identity of an image: the digest of its bytes and of everything that was bound to them.

Equal declarations of different agents have one digest and share one loaded image, unless something is bound
that belongs to its owner. What only the executor enforces (deadline, fuel, rate, concurrency) and what only
people and models see (source, prefix) is no part of it, and neither is any agent's name.
"""

import hashlib
import json
import os
from typing import Any, Final

from berm.manifest import ABI_VERSION
from crabtalk.declarations import HarnessDeclaration

# With one of these the bound functions know whose they are.
OWNED: Final = ("storage", "schedule", "topics", "peers", "calls", "send", "sessions", "skills")


def image_digest(declaration: HarnessDeclaration, agent_id: str, session_root: str | None = None) -> str:
    """Return the sha256 of the canonical description of an image."""
    facts: dict[str, Any] = {
        "abi": ABI_VERSION,
        "sha256": declaration.sha256,
        "memory": declaration.memory,
        "arguments": arguments(declaration),
    }
    if is_owned(declaration):
        # Two declarations of one agent can agree in all else, and still have storage of their own.
        facts |= {"agent": agent_id, "harness": declaration.name}
    if session_root is not None and depends_on_session(declaration):
        facts["session_root"] = session_root
    return hashlib.sha256(canonical_json(facts)).hexdigest()


def arguments(declaration: HarnessDeclaration) -> dict[str, Any]:
    """Return what is bound, in one form for all ways to write it; directories by their real paths."""
    found: dict[str, Any] = {
        "hosts": sorted(declaration.hosts),
        "zone": list(declaration.zone),  # in order: the first is that of now
        "storage": declaration.storage,
        "calls": sorted(declaration.calls),
        "schedule": declaration.schedule,
        "topics": sorted(declaration.topics),
        "peers": sorted(declaration.peers),
        "send": sorted(declaration.send),
        "sessions": declaration.sessions,
        "skills": sorted(declaration.skills),
        "ask": list(declaration.ask),
    }
    if declaration.files is not None:
        found["files"] = os.path.realpath(declaration.files)
    if declaration.root is not None:
        key = "session" if declaration.root.per_session else "path"
        found["root"] = {key: os.path.realpath(declaration.root.path)}
    return {key: value for key, value in found.items() if value not in (None, [], "")}


def is_owned(declaration: HarnessDeclaration) -> bool:
    """Report whether an image of this declaration serves one harness of one agent only."""
    return any(getattr(declaration, key) for key in OWNED)


def depends_on_session(declaration: HarnessDeclaration) -> bool:
    """Report whether a session's root changes what is bound."""
    per_session = declaration.root is not None and declaration.root.per_session
    return per_session or bool(declaration.calls)


def canonical_json(value: object) -> bytes:
    """Return the one JSON text of a value: sorted keys, no spaces, UTF-8."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
