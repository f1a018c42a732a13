"""The history of a conversation as a model may be shown it: pure, from stored messages to valid ones.

Rule 1, the pair rule: each tool call of an assistant message has exactly one result, directly behind it. A
crash between the two, or a result that came twice, is mended here, whenever a history is read. Rule 2: what
is added for a model (who spoke, in a session that several agents answer in) is never stored.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from crabtalk.conversation.messages import Message, ToolCall

# What stands for the result of a call during which the daemon ended. The tool is not run again by itself.
INTERRUPTED: Final = (
    "interrupted: the daemon ended before a result was stored. The tool may have run, wholly, in part or not "
    "at all, and was not run again."
)
TITLE_CHARACTERS: Final = 80
_CUT: Final = "… ({} characters were left out)"
_SPACE: Final = re.compile(r"\s+")


def unanswered(messages: Sequence[Message]) -> tuple[ToolCall, ...]:
    """Return the calls of the last assistant message that have no result, if it is still their turn."""
    answered: set[str] = set()
    for message in reversed(messages):
        if message.role != "tool":
            return tuple(call for call in message.tool_calls if call.id not in answered)
        answered.add(message.tool_call_id)
    return ()


def interrupted(call: ToolCall, now_ms: int = 0) -> Message:
    """Return the result of a call that a crash left without one."""
    return Message("tool", INTERRUPTED, tool_call_id=call.id, is_error=True, created_ms=now_ms)


def repaired(messages: Sequence[Message]) -> list[Message]:
    """Return a history that keeps the pair rule: results in the order of calls, none missing or alone."""
    found: list[Message] = []
    at = 0
    while at < len(messages):
        message = messages[at]
        at += 1
        if message.role == "tool":
            continue
        found.append(message)
        if not message.tool_calls:
            continue
        results: dict[str, Message] = {}
        while at < len(messages) and messages[at].role == "tool":
            results.setdefault(messages[at].tool_call_id, messages[at])
            at += 1
        found += [results.get(call.id) or interrupted(call) for call in message.tool_calls]
    return found


def as_heard(messages: Iterable[Message], *, speaker: str, host: str) -> Iterator[Message]:
    """Yield a history as the agent that is to answer hears it.

    `speaker` is the name of a guest, "" for the session's own agent, whose name is `host`. What another agent
    said comes as a user's message that names it; what tools were called is heard by nobody but the caller. A
    summary takes the place of what it sums up.
    """
    for message in messages:
        if message.role == "system":
            yield Message("user", message.content)
        elif message.role == "assistant" and message.guest != speaker:
            if message.content:
                yield Message("user", f"[{message.guest or host}] {message.content}")
        elif message.role == "tool" and speaker:
            continue
        else:
            yield message


def for_model(messages: Sequence[Message], *, speaker: str, host: str) -> list[Message]:
    """Return a stored history as the next request has it."""
    heard = list(as_heard(repaired(messages), speaker=speaker, host=host))
    while heard and heard[-1].role == "assistant" and heard[-1].is_error:
        heard.pop()  # it was cut short and nobody has spoken since: it is begun anew
    return heard


def with_short_results(messages: Iterable[Message], most: int) -> list[Message]:
    """Return a history in which no tool's result is longer than `most` characters."""
    return [
        replace(one, content=one.content[:most] + _CUT.format(len(one.content) - most))
        if one.role == "tool" and len(one.content) > most
        else one
        for one in messages
    ]


def title_of(content: str) -> str:
    """Return what a session is called that begins with `content`: its first words."""
    title = _SPACE.sub(" ", content[: 4 * TITLE_CHARACTERS]).strip()
    title = "".join(character for character in title if character.isprintable())
    if len(title) <= TITLE_CHARACTERS:
        return title
    words = title[:TITLE_CHARACTERS].rpartition(" ")[0]
    return f"{words or title[: TITLE_CHARACTERS - 1]}…"
