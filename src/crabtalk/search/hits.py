"""What a search returns: the message that matched, and what was said around it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from crabtalk.conversation.messages import Message
from crabtalk.search.excerpts import excerpt
from crabtalk.search.words import Term
from crabtalk.store.interfaces.sessions import MessageRecord, SessionRecord

# How far back the call is looked for that a tool's result answers; picked, not measured.
LOOK_BACK: Final = 16


@dataclass(frozen=True, slots=True)
class WindowItem:
    """One message of a window."""

    role: str
    index: int
    snippet: str  # nothing of a tool's result
    truncated: bool
    tool_name: str  # of a tool's result, or of the calls of an assistant


@dataclass(frozen=True, slots=True)
class Hit:
    """One message that matched, in its session."""

    session: SessionRecord
    index: int
    score: float
    window: tuple[WindowItem, ...]


def window_of(
    records: Sequence[MessageRecord], first: int, last: int, hit: int, terms: Sequence[Term]
) -> tuple[WindowItem, ...]:
    """Return the messages from `first` to `last`; those before are only asked for the names of tools."""
    names: dict[str, str] = {}
    window = []
    for record in records:
        message = message_of(record)
        if message is None:
            continue
        names.update((call.id, call.name) for call in message.tool_calls)
        if first <= record.index <= last:
            window.append(_item(record.index, message, names, terms if record.index == hit else ()))
    return tuple(window)


def message_of(record: MessageRecord) -> Message | None:
    """Return the message of a record, None if it holds something else, which is not searched."""
    try:
        return Message.from_json(record.body)
    except ValueError:
        return None


def _item(index: int, message: Message, names: Mapping[str, str], terms: Sequence[Term]) -> WindowItem:
    if message.role == "tool":
        return WindowItem("tool", index, "", bool(message.content), names.get(message.tool_call_id, ""))
    snippet, truncated = excerpt(message.content, terms)
    return WindowItem(
        message.role, index, snippet, truncated, ", ".join(call.name for call in message.tool_calls)
    )
