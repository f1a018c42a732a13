"""An argument with `ask = true`: what it binds asks a person before it does anything.

The capability stays what it was; in front of it stands the question whether this harness may use it. Owns
what a person reads of a request: field by field, with nothing in it that could make it look like another.
What was approved, and by whom, is the business of `Approvals`.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from berm import Capability
from berm.wire import unpack_fields
from crabtalk.capabilities._caller import caller_of
from crabtalk.store.interfaces.approvals import Subject
from crabtalk.tools import Context, attended

MAX_SHOWN: Final = 8192  # characters of a field
_LINES: Final = 64  # of a request: further fields are counted

# C0, DEL, C1, and what reorders, hides or splits text for whoever reads it.
_UNSEEN: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
)

# What hands over only what was approved when it was started.
_UNASKED: Final = frozenset({"berm.http.collect"})

# Names of the fields of each request; `#` is shown by its size, `*` by pairs, to the end.
_FIELDS: Final[dict[str, tuple[str, ...]]] = {
    "berm.fs.read": ("path",),
    "berm.fs.write": ("path", "#content"),
    "berm.fs.list": ("path",),
    "berm.fs.stat": ("path",),
    "berm.fs.remove": ("path",),
    "berm.exec.run": ("command", "cwd", "*env"),
    "berm.http.fetch": ("method", "url", "body", "*header"),
    "berm.http.start": ("method", "url", "body", "*header"),
    "berm.clock.offset": ("zone", "at_ms"),
    "berm.get": ("key",),
    "berm.set": ("key", "value"),
    "berm.kv.delete": ("key",),
    "berm.kv.keys": ("prefix", "cursor"),
    "berm.call": ("harness", "tool", "args"),
    "crabtalk.wake.schedule": ("at_ms", "payload", "key"),
    "crabtalk.wake.cancel": ("id",),
    "crabtalk.event.publish": ("source", "payload"),
    "crabtalk.event.subscribe": ("source", "once"),
    "crabtalk.event.unsubscribe": ("id",),
    "crabtalk.agent.send": ("agent", "content"),
    "crabtalk.sessions.search": ("query", "limit", "before", "after"),
    "crabtalk.skills.get": ("name",),
}


class Approvals(Protocol):
    """What knows what is approved."""

    async def require(self, context: Context, subject: Subject, text: Callable[[], str]) -> None:
        """Return if it is; see `crabtalk.approvals.Approvals`."""


@dataclass(frozen=True, slots=True)
class Grant:
    """What is bound, as a person sees it."""

    sha256: str  # of the ELF that it is bound to
    argument: str  # `root = /home/me/code`


def asking(approvals: Approvals, grant: Grant, capability: Capability) -> Capability:
    """Put the question before a capability."""
    name, function = capability.name, capability.function
    if name in _UNASKED:
        return capability

    async def ask_first(call: Any, request: bytes) -> Any:  # noqa: ANN401 - as the function
        context = caller_of(call)
        subject = Subject(context.agent.id, context.harness, grant.sha256, name, grant.argument)
        await approvals.require(context, subject, lambda: in_words(name, request))
        if capability.blocking:
            return await _in_thread(context, lambda: function(call, request))
        result = function(call, request)
        return await result if isinstance(result, Awaitable) else result

    return Capability(name, ask_first, aliases=capability.aliases)


async def _in_thread(context: Context, work: Callable[[], Any]) -> Any:  # noqa: ANN401 - as the function
    turns = context.gate.threads.blocking
    await turns.acquire(context.agent.id, attended=attended(context.client))
    try:
        return await turns.run(work)
    finally:
        turns.release()


def in_words(name: str, request: bytes) -> str:
    """Return what a guest asks of a capability, a line for each field.

    Raises:
        WireError: if it is no request.
    """
    fields = unpack_fields(request) if request else ()
    names = _FIELDS.get(name, ())
    fixed = [one for one in names if not one.startswith("*")]
    lines = [_line(label, field) for label, field in zip(fixed, fields, strict=False)]
    rest = fields[len(fixed) :]
    if len(fixed) < len(names):
        lines += _pairs(names[-1].removeprefix("*"), rest[:_LINES])
    else:
        lines += [_line("field", field) for field in rest[:_LINES]]
    if len(rest) > _LINES:
        lines.append(f"… and {len(rest) - _LINES} more fields")
    return "\n".join(line for line in lines if line)


def _pairs(label: str, fields: Sequence[bytes]) -> list[str]:
    texts = [_shown(field) for field in fields]
    return [f"{label}: {' = '.join(texts[at : at + 2])}" for at in range(0, len(texts), 2)]


def _line(label: str, field: bytes) -> str:
    if not field:
        return ""
    if label.startswith("#"):
        return f"{label[1:]}: {len(field)} bytes"
    return f"{label}: {_shown(field)}"


def _shown(field: bytes) -> str:
    try:
        text = field.decode()
    except UnicodeDecodeError:
        return f"{len(field)} bytes that are no text"
    more = len(text) - MAX_SHOWN
    shown = readable(text[:MAX_SHOWN])
    return f"{shown}… ({more} more characters)" if more > 0 else shown


def readable(text: str) -> str:
    """Return text with everything that nobody would see as an escape that shows it."""
    return _UNSEEN.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    known = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}
    return known.get(match[0]) or f"\\u{ord(match[0]):04x}"
