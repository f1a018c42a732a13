"""One answer of a model, put together from its stream: pure.

A model is not believed: names of tools are made such that they can be sent back, ids such that they differ,
arguments are read only when the stream has finished, and an answer that was cut short calls no tool.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NoReturn

from crabtalk.conversation.messages import Message, ToolCall, Usage
from crabtalk.conversation.model import (
    Finished,
    FinishReason,
    ModelEvent,
    TextDelta,
    ThinkingDelta,
    ThinkingSignature,
    ToolCallDelta,
    ToolCallStarted,
    UsageReport,
)
from crabtalk.conversation.steps import (
    ContextUsed,
    Step,
    Text,
    TextEnded,
    TextStarted,
    Thinking,
    ThinkingEnded,
    ThinkingStarted,
)

MAX_CALLS: Final = 128  # of one answer; picked, not measured
MAX_ARGUMENTS: Final = 1 << 20  # characters of one call's
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]")
_NAME_CHARACTERS: Final = 64
_NO_ARGUMENTS: Final = "{}"


@dataclass(slots=True)
class _Call:
    """A call that is being received."""

    id: str
    name: str
    arguments: list[str] = field(default_factory=list)
    size: int = 0


@dataclass(frozen=True, slots=True)
class Wanted:
    """A call that is complete, and why it cannot be run as it is, if so."""

    call: ToolCall
    flaw: str = ""


class Answer:
    """Takes the events of one stream."""

    def __init__(self) -> None:
        self.reason: FinishReason | None = None
        self.usage: Usage | None = None
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._signature = ""
        self._calls: dict[int, _Call] = {}
        self._open: type[Text | Thinking] | None = None  # which of them was started and has not ended

    @property
    def text(self) -> str:
        """What it says."""
        return "".join(self._text)

    def take(self, event: ModelEvent) -> Iterator[Step]:
        """Take the next event, and yield the steps that whoever watches is told."""
        if isinstance(event, TextDelta):
            yield from self._said(Text, event.text, self._text)
        elif isinstance(event, ThinkingDelta):
            yield from self._said(Thinking, event.text, self._thinking)
        elif isinstance(event, ThinkingSignature):
            self._signature = event.data
        elif isinstance(event, ToolCallStarted):
            self._calls.setdefault(event.index, _Call(event.id, event.name))
        elif isinstance(event, ToolCallDelta):
            self._take_arguments(event)
        elif isinstance(event, UsageReport):
            self.usage = event.usage
        else:
            yield from self._finish(event)

    def closing(self) -> Iterator[Step]:
        """Yield the step that ends what was begun, when the stream ended early."""
        if self._open is not None:
            yield TextEnded() if self._open is Text else ThinkingEnded()
            self._open = None

    def wanted(self) -> list[Wanted]:
        """Return the calls, each with an id of its own and a name that can be sent back."""
        found: list[Wanted] = []
        ids: set[str] = set()
        for index in sorted(self._calls):
            call = self._calls[index]
            call_id = call.id[:256] if call.id and call.id not in ids else f"call_{index}_{len(ids)}"
            ids.add(call.id)
            ids.add(call_id)
            found.append(_wanted(call_id, call, len(found)))
        return found

    def message(self, wanted: list[Wanted], *, guest: str, now_ms: int) -> Message:
        """Return the complete answer as it is stored."""
        return Message(
            "assistant",
            self.text,
            thinking="".join(self._thinking),
            signature=self._signature,
            tool_calls=tuple(one.call for one in wanted),
            guest=guest,
            created_ms=now_ms,
        )

    def cut_short(self, *, guest: str, now_ms: int) -> Message | None:
        """Return what is kept of an answer that did not come to its end, None if there is nothing.

        Only text: a call may lack its end, and thinking without its signature is refused by its makers.
        """
        if not self.text:
            return None
        return Message("assistant", self.text, guest=guest, is_error=True, created_ms=now_ms)

    def _said(self, kind: type[Text | Thinking], text: str, parts: list[str]) -> Iterator[Step]:
        if not text:
            return
        text = text.encode(errors="replace").decode()  # half of a character could not be sent to anybody
        parts.append(text)
        if self._open is not kind:
            yield from self.closing()
            yield TextStarted() if kind is Text else ThinkingStarted()
            self._open = kind
        yield kind(text)

    def _take_arguments(self, event: ToolCallDelta) -> None:
        call = self._calls.setdefault(event.index, _Call("", ""))
        call.size += len(event.arguments)
        if call.size <= MAX_ARGUMENTS:
            call.arguments.append(event.arguments)

    def _finish(self, event: Finished) -> Iterator[Step]:
        self.reason = event.reason
        yield from self.closing()
        if self.usage is not None:
            yield ContextUsed(self.usage)


def _wanted(call_id: str, call: _Call, place: int) -> Wanted:
    name = _NOT_IN_NAMES.sub("_", call.name)[:_NAME_CHARACTERS] or "unnamed"
    text = "".join(call.arguments).strip() or _NO_ARGUMENTS
    flaw = ""
    if place >= MAX_CALLS:
        flaw = f"not run: one answer may call {MAX_CALLS} tools at most"
    elif call.size > MAX_ARGUMENTS:
        flaw = f"not run: its arguments have {call.size} characters, at most {MAX_ARGUMENTS} are taken"
    elif why := _why_no_object(text):
        flaw = f"not run: its arguments are no JSON object: {why}"
    elif name != call.name:
        flaw = "not run: no tool has such a name"
    # What cannot be read is not stored either: some endpoints refuse a history that has it in it.
    return Wanted(ToolCall(call_id, name, text if not flaw else _NO_ARGUMENTS), flaw)


def _why_no_object(text: str) -> str:
    """Return what is wrong with a call's arguments, "" if nothing is."""
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
        text.encode()
    except RecursionError:
        return "it is nested too deeply"
    except ValueError as error:
        return str(error)[:200]
    return "" if isinstance(value, dict) else f"it is {'null' if value is None else type(value).__name__}"


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number of JSON")
