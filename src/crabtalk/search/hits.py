"""What a search returns: the message that matched, and what was said around it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
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
    records: Sequence[MessageRecord],
    hit: int,
    terms: Sequence[Term],
    earlier: Callable[[], list[MessageRecord]],
) -> tuple[WindowItem, ...]:
    """Return messages as they are shown; `earlier` gives those before, to find the names of tools in."""
    messages = {one.index: message for one in records if (message := message_of(one)) is not None}
    names = _tools(messages.values())
    if any(one.role == "tool" and one.tool_call_id not in names for one in messages.values()):
        before = filter(None, map(message_of, earlier()))
        names = _tools(before) | names
    return tuple(_item(at, one, names, terms if at == hit else ()) for at, one in messages.items())


def message_of(record: MessageRecord) -> Message | None:
    """Return the message of a record, None if it holds something else, which is not searched."""
    try:
        return Message.from_json(record.body)
    except ValueError:
        return None


def _tools(messages: Iterable[Message]) -> dict[str, str]:
    return {call.id: call.name for one in messages for call in one.tool_calls}


def _item(index: int, message: Message, names: Mapping[str, str], terms: Sequence[Term]) -> WindowItem:
    if message.role == "tool":
        return WindowItem("tool", index, "", bool(message.content), names.get(message.tool_call_id, ""))
    snippet, truncated = excerpt(message.content, terms)
    return WindowItem(
        message.role, index, snippet, truncated, ", ".join(call.name for call in message.tool_calls)
    )
