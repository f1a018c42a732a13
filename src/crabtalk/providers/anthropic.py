"""The dialect of Anthropic's messages.

An answer is complete with `message_stop`. Thinking comes in blocks, each with a signature, and has to go
back as it came, each block at its place; a message holds its thinking as one text. So the signature that
events and messages have is JSON that names this dialect and says where each block was, and what its own
signature is.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from crabtalk.config_values import Secret
from crabtalk.conversation.messages import Message, ToolCall, Usage
from crabtalk.conversation.model import (
    ErrorKind,
    FinishReason,
    ModelEvent,
    ModelRequest,
    TextDelta,
    ThinkingDelta,
    ThinkingSignature,
    UsageReport,
)
from crabtalk.providers.dialect import finish_reason, joined
from crabtalk.providers.failures import Failures
from crabtalk.providers.json_values import Joiner, clean, count, items, loads, number, table, text
from crabtalk.providers.sse import SseEvent
from crabtalk.providers.tool_calls import ToolCalls, arguments_of, sendable_id, sendable_name

VERSION: Final = "2023-06-01"
_SIGNATURE: Final = "anthropic"
_PATHS: Final = {"chat": "messages", "models": "models?limit=1000"}
_EMPTY: Final = "(empty)"  # the endpoint refuses a message without text
_CACHE: Final = {"cache_control": {"type": "ephemeral"}}
_CHOICES: Final = {"auto": "auto", "none": "none", "required": "any"}
_FINISH: Final[Mapping[str, FinishReason]] = {
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refused",
}
_THINKING: Final = frozenset({"thinking", "redacted_thinking"})


class Anthropic:
    """The dialect."""

    def __init__(self, *, max_tokens: int, cache: bool) -> None:
        """Send `max_tokens` where the request has none; mark what may be cached, if `cache`."""
        self._max_tokens = max_tokens
        self._cache = _CACHE if cache else {}

    def headers(self, api_key: Secret | None) -> dict[str, str]:
        """Return the headers of every request."""
        key = {"x-api-key": api_key.reveal()} if api_key is not None else {}
        return {"anthropic-version": VERSION, **key}

    def url(self, base: str, path: str) -> str:
        """Return where a request goes; a base may end with the version or not."""
        start = base.partition("?")[0].rstrip("/")
        version = "" if start.endswith("/v1") else "v1/"
        return joined(base, version + _PATHS[path])

    def body(self, request: ModelRequest) -> dict[str, Any]:
        """Write a request."""
        messages = _messages(request.messages)
        if messages and self._cache:
            messages[-1]["content"][-1] |= self._cache
        body: dict[str, Any] = {
            "model": request.model,
            "max_tokens": self._limit(request),
            "messages": messages,
            "stream": True,
        }
        if request.system.strip():
            body["system"] = [{"type": "text", "text": request.system, **self._cache}]
        if request.thinking:
            body["thinking"] = _thinking(request.thinking_budget)
        return {**body, **_tools(request)}

    def decoder(self, failures: Failures) -> "AnthropicDecoder":
        """Begin to read an answer."""
        return AnthropicDecoder(failures)

    def _limit(self, request: ModelRequest) -> int:
        if request.max_tokens is not None:
            return request.max_tokens
        budget = request.thinking_budget if request.thinking else None
        return self._max_tokens + (budget or 0)  # thinking is counted as part of the answer


@dataclass(slots=True)
class _Block:
    kind: str
    call: int = -1  # of `tool_use`: its index among the calls
    input: Any = None  # of `tool_use`: what came with its beginning
    at: tuple[int, int] = (0, 0)  # of thinking: characters of text, and calls, before it
    length: int = 0  # of thinking: characters
    signature: str = ""
    redacted: str = ""


class AnthropicDecoder:
    """Makes events of one answer."""

    def __init__(self, failures: Failures) -> None:
        self._failures = failures
        self._calls = ToolCalls()
        self._text = Joiner()
        self._thinking = Joiner()
        self._blocks: dict[int, _Block] = {}
        self._last: _Block | None = None
        self._written = 0  # characters of text
        self._reason: FinishReason = "stop"
        self._usage: dict[str, Any] = {}
        self.complete = False

    @property
    def ended(self) -> bool:
        """Whether the endpoint said that nothing more comes."""
        return self.complete

    def feed(self, event: SseEvent) -> Iterator[ModelEvent]:
        """Make events of one more; of a kind that is not known, none."""
        if not event.data.strip():
            return
        try:
            data = table(loads(event.data))
        except ValueError as error:
            if event.name == "error":
                raise self._failures.of_error(event.data) from error
            raise self._failures.make(
                ErrorKind.INTERRUPTED, "the stream has an event that is not JSON"
            ) from error
        yield from self._event(text(data.get("type")) or event.name, data)

    def _event(self, kind: str, data: Mapping[str, Any]) -> Iterator[ModelEvent]:
        if kind == "error":
            raise self._failures.of_error(data.get("error") or data)
        if kind == "message_start":
            yield from self._count(table(data.get("message")).get("usage"))
        elif kind == "content_block_start":
            yield from self._start(data)
        elif kind == "content_block_delta":
            yield from self._delta(self._block(data), table(data.get("delta")))
        elif kind == "content_block_stop":
            yield from self._stop(self._block(data))
        elif kind == "message_delta":
            self._reason = _FINISH.get(text(table(data.get("delta")).get("stop_reason")), "stop")
            yield from self._count(data.get("usage"))
        elif kind == "message_stop":
            self.complete = True

    def feed_whole(self, answer: Mapping[str, Any]) -> Iterator[ModelEvent]:
        """Make events of an answer that came in one piece."""
        if answer.get("type") == "error" or answer.get("error"):
            raise self._failures.of_error(answer.get("error") or answer)
        if answer.get("type") != "message":
            raise self._failures.make(
                ErrorKind.BAD_REQUEST, "the endpoint answered with something that is no message"
            )
        for index, block in enumerate(map(table, items(answer.get("content")))):
            yield from self._start({"index": index, "content_block": block})
            if signature := text(block.get("signature")):
                self._blocks[index].signature = signature
            yield from self._stop(self._blocks[index])
        self._reason = _FINISH.get(text(answer.get("stop_reason")), "stop")
        yield from self._count(answer.get("usage"))
        self.complete = True

    def end(self) -> Iterator[ModelEvent]:
        """Make the last events of a complete answer."""
        if rest := self._thinking.end():
            yield ThinkingDelta(rest)
        if rest := self._text.end():
            yield TextDelta(rest)
        yield from self._calls.end()
        if signature := self._signature():
            yield ThinkingSignature(signature)
        yield finish_reason(self._reason, calls=len(self._calls))

    def _block(self, data: Mapping[str, Any]) -> _Block | None:
        index = number(data.get("index"))
        return self._last if index is None else self._blocks.get(index)

    def _start(self, data: Mapping[str, Any]) -> Iterator[ModelEvent]:
        begun = table(data.get("content_block"))
        block = _Block(text(begun.get("type")), at=(self._written, len(self._calls)))
        index = number(data.get("index"))
        self._blocks[len(self._blocks) if index is None else index] = block
        self._last = block
        if block.kind == "tool_use":
            block.call, block.input = len(self._calls), begun.get("input")
            yield from self._calls.begin(clean(begun.get("id")), clean(begun.get("name")))
        elif block.kind == "redacted_thinking":
            block.redacted = clean(begun.get("data"))
        elif block.kind == "thinking":
            yield from self._think(block, text(begun.get("thinking")))
        elif block.kind == "text":
            yield from self._say(text(begun.get("text")))

    def _delta(self, block: _Block | None, delta: Mapping[str, Any]) -> Iterator[ModelEvent]:
        kind = delta.get("type")
        if kind == "text_delta":
            yield from self._say(text(delta.get("text")))
        elif kind == "thinking_delta":
            yield from self._think(block, text(delta.get("thinking")))
        elif kind == "signature_delta" and block is not None:
            block.signature += clean(delta.get("signature"))
        elif kind == "input_json_delta" and block is not None and block.call >= 0:
            yield from self._calls.more(block.call, text(delta.get("partial_json")))

    def _stop(self, block: _Block | None) -> Iterator[ModelEvent]:
        if block is None or block.call < 0 or self._calls.has_arguments(block.call):
            return
        if isinstance(block.input, dict) and block.input:  # it came whole, with the beginning
            yield from self._calls.more(block.call, json.dumps(block.input, ensure_ascii=False))

    def _say(self, piece: str) -> Iterator[ModelEvent]:
        if certain := self._text.feed(piece):
            self._written += len(certain)
            yield TextDelta(certain)

    def _think(self, block: _Block | None, piece: str) -> Iterator[ModelEvent]:
        if certain := self._thinking.feed(piece):
            if block is not None:
                block.length += len(certain)
            yield ThinkingDelta(certain)

    def _count(self, usage: object) -> Iterator[ModelEvent]:
        """Take counts; later ones are of the whole answer, and some are given only once."""
        self._usage |= {key: value for key, value in table(usage).items() if value is not None}
        if self._usage:
            yield UsageReport(_usage(self._usage))

    def _signature(self) -> str:
        """Write down where the thinking was."""
        blocks = [
            one for one in self._blocks.values() if one.kind in _THINKING and (one.signature or one.redacted)
        ]
        written = [
            {"at": block.at, "redacted": block.redacted}
            if block.redacted
            else {"at": block.at, "length": block.length, "signature": block.signature}
            for block in blocks
        ]
        return json.dumps({_SIGNATURE: written}) if written else ""


def _usage(counts: Mapping[str, Any]) -> Usage:
    hit = count(counts.get("cache_read_input_tokens"))
    made = count(counts.get("cache_creation_input_tokens"))
    fresh = count(counts.get("input_tokens")) or 0
    prompt = fresh + (hit or 0) + (made or 0)
    completion = count(counts.get("output_tokens")) or 0
    known = hit is not None or made is not None
    return Usage(
        prompt=prompt,
        completion=completion,
        total=prompt + completion,
        cache_hit=(hit or 0) if known else None,
        cache_miss=fresh + (made or 0) if known else None,
        reasoning=count(table(counts.get("output_tokens_details")).get("thinking_tokens")),
    )


def _thinking(budget: int | None) -> dict[str, Any]:
    """Ask for thinking: as much as the model finds right, or with the budget that older models want."""
    if budget is None:
        return {"type": "adaptive", "display": "summarized"}
    return {"type": "enabled", "budget_tokens": budget}


def _tools(request: ModelRequest) -> dict[str, Any]:
    """Describe the tools; of a conversation that has calls in it, the endpoint wants some in any case."""
    if request.tools:
        described = [
            {"name": tool.wire_name, "description": tool.description, "input_schema": tool.parameters}
            for tool in request.tools
        ]
        if not request.tool_choice:
            return {"tools": described}
        kind = _CHOICES.get(request.tool_choice)
        choice = {"type": kind} if kind else {"type": "tool", "name": request.tool_choice}
        return {"tools": described, "tool_choice": choice}
    called = {sendable_name(call.name) for message in request.messages for call in message.tool_calls}
    if not called:
        return {}
    known = [{"name": name, "input_schema": {"type": "object"}} for name in sorted(called)]
    return {"tools": known, "tool_choice": {"type": "none"}}


def _messages(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """Write messages as turns that alternate: results of tools are what the user says next."""
    turns: list[dict[str, Any]] = []
    for message in messages:
        role = "assistant" if message.role == "assistant" else "user"
        blocks = _assistant(message) if role == "assistant" else _user(message)
        if not blocks:
            continue
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        else:
            turns.append({"role": role, "content": blocks})
    return turns


def _user(message: Message) -> list[dict[str, Any]]:
    if message.role != "tool":
        return [_said(message.content if message.content.strip() else _EMPTY)]
    result: dict[str, Any] = {"type": "tool_result", "tool_use_id": sendable_id(message.tool_call_id)}
    if message.content.strip():
        result["content"] = message.content
    if message.is_error:
        result["is_error"] = True
        result.setdefault("content", _EMPTY)
    return [result]


def _said(content: str) -> dict[str, Any]:
    return {"type": "text", "text": content}


def _assistant(message: Message) -> list[dict[str, Any]]:
    """Write an answer as it came: thinking where it was, between text and calls."""
    blocks: list[dict[str, Any]] = []
    written = called = 0
    for (at_text, at_call), thought in _thoughts(message):
        blocks += _text_blocks(message.content[written:at_text])
        blocks += map(_call, message.tool_calls[called:at_call])
        blocks.append(thought)
        written, called = max(written, at_text), max(called, at_call)
    blocks += _text_blocks(message.content[written:])
    return [*blocks, *map(_call, message.tool_calls[called:])]


def _text_blocks(content: str) -> list[dict[str, Any]]:
    return [_said(content)] if content.strip() else []


def _call(call: ToolCall) -> dict[str, Any]:
    return {
        "type": "tool_use",
        "id": sendable_id(call.id),
        "name": sendable_name(call.name),
        "input": arguments_of(call),
    }


def _thoughts(message: Message) -> list[tuple[tuple[int, int], dict[str, Any]]]:
    """Return the blocks of thinking and where they were; none if they are another's, or were changed."""
    try:
        kept = items(table(loads(message.signature or "{}")).get(_SIGNATURE))
    except ValueError:
        return []
    found: list[tuple[tuple[int, int], dict[str, Any]]] = []
    start = 0
    for block in map(table, kept):
        at_text, at_call = (*map(number, items(block.get("at"))), None, None)[:2]
        if at_text is None or at_call is None:
            return []
        if redacted := text(block.get("redacted")):
            found.append(((at_text, at_call), {"type": "redacted_thinking", "data": redacted}))
            continue
        length = number(block.get("length")) or 0
        thought = message.thinking[start : start + length]
        signed = {"type": "thinking", "thinking": thought, "signature": text(block.get("signature"))}
        found.append(((at_text, at_call), signed))
        start += length
    return found if start == len(message.thinking) else []
