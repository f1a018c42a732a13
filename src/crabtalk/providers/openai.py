"""The dialect of OpenAI's chat completions, which most gateways and local servers speak.

An answer is complete when the model has said why it stopped (`finish_reason`): what comes after it is the
usage and `[DONE]`, and not every endpoint sends those. What an endpoint wants to have back with its
thinking is kept in the signature, as JSON that names this dialect.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

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
from crabtalk.providers.json_values import Joiner, count, items, loads, table, text
from crabtalk.providers.sse import SseEvent
from crabtalk.providers.tool_calls import ToolCalls, arguments_of, sendable_id, sendable_name

_DONE: Final = "[DONE]"
_SIGNATURE: Final = "openai"
_THINKING_FIELDS: Final = ("reasoning_content", "reasoning")
_FINISH: Final[Mapping[str, FinishReason]] = {
    "length": "length",
    "max_tokens": "length",
    "content_filter": "refused",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
}
_FAILED: Final = "error"  # a `finish_reason` of gateways whose own endpoint failed
# Who wants the newer name of `max_tokens`, and refuses the older one for some models.
_NEWER: Final = ("api.openai.com", ".openai.azure.com")
_EFFORTS: Final = ((2048, "low"), (8192, "medium"))


class OpenAI:
    """The dialect."""

    def __init__(self, base_url: str) -> None:
        """Write for the endpoint at `base_url`."""
        host = urlsplit(base_url).hostname or ""
        self._limit = "max_completion_tokens" if host.endswith(_NEWER) else "max_tokens"

    def headers(self, api_key: Secret | None) -> dict[str, str]:
        """Return the headers of every request."""
        return {"authorization": f"Bearer {api_key.reveal()}"} if api_key is not None else {}

    def url(self, base: str, path: str) -> str:
        """Return where a request goes."""
        return joined(base, {"chat": "chat/completions"}.get(path, path))

    def body(self, request: ModelRequest) -> dict[str, Any]:
        """Write a request."""
        system = [{"role": "system", "content": request.system}] if request.system else []
        body: dict[str, Any] = {
            "model": request.model,
            "messages": [*system, *map(_message, request.messages)],
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if request.max_tokens is not None:
            body[self._limit] = request.max_tokens
        if request.thinking:
            body["reasoning_effort"] = _effort(request.thinking_budget)
        if request.tools:
            body["tools"] = [
                {
                    "type": "function",
                    "function": {
                        "name": tool.wire_name,
                        "description": tool.description,
                        "parameters": tool.parameters,
                    },
                }
                for tool in request.tools
            ]
            if request.tool_choice:
                body["tool_choice"] = _choice(request.tool_choice)
        return body

    def decoder(self, failures: Failures) -> "OpenAIDecoder":
        """Begin to read an answer."""
        return OpenAIDecoder(failures)


class OpenAIDecoder:
    """Makes events of one answer."""

    def __init__(self, failures: Failures) -> None:
        self._failures = failures
        self._calls = ToolCalls()
        self._text = Joiner()
        self._thinking = Joiner()
        self._reason: FinishReason | None = None
        self._refused = False
        self._thought_in = ""  # the field that thinking came in
        self._details: list[Any] = []  # opaque, of gateways
        self._extras: dict[int, Any] = {}  # opaque, by call
        self.ended = False

    @property
    def complete(self) -> bool:
        """Whether the model has said why it stopped."""
        return self._reason is not None

    def feed(self, event: SseEvent) -> Iterator[ModelEvent]:
        """Make events of one more."""
        data = event.data.strip()
        if not data:
            return
        if data == _DONE:
            self.ended = True
            return
        try:
            chunk = table(loads(data))
        except ValueError as error:
            if event.name == "error":
                raise self._failures.of_error(data) from error
            raise self._failures.make(
                ErrorKind.INTERRUPTED, "the stream has an event that is not JSON"
            ) from error
        yield from self.feed_whole(chunk)

    def feed_whole(self, answer: Mapping[str, Any]) -> Iterator[ModelEvent]:
        """Make events of a chunk, or of an answer that came in one piece."""
        if answer.get("error"):
            raise self._failures.of_error(answer["error"])
        if answer.get("object") == "error":  # an endpoint's own form
            raise self._failures.of_error(answer)
        for choice in map(table, items(answer.get("choices"))):
            if not choice.get("index"):  # there is one, whatever its number is
                yield from self._choice(choice)
        if usage := _usage(answer.get("usage")):
            yield UsageReport(usage)

    def end(self) -> Iterator[ModelEvent]:
        """Make the last events of a complete answer."""
        if rest := self._thinking.end():
            yield ThinkingDelta(rest)
        if rest := self._text.end():
            yield TextDelta(rest)
        yield from self._calls.end()
        if signature := self._signature():
            yield ThinkingSignature(signature)
        reason = "refused" if self._refused else self._reason or "stop"
        yield finish_reason(reason, calls=len(self._calls))

    def _choice(self, choice: Mapping[str, Any]) -> Iterator[ModelEvent]:
        delta = table(choice.get("delta")) or table(choice.get("message"))
        yield from self._think(delta)
        yield from self._say(delta.get("content"))
        if refusal := text(delta.get("refusal")):
            self._refused = True
            yield from self._say(refusal)
        for position, piece in enumerate(items(delta.get("tool_calls"))):
            index = self._calls.find(piece, position)
            yield from self._calls.take(index, piece)
            if extra := table(piece).get("extra_content"):
                self._extras[index] = extra
        reason = text(choice.get("finish_reason"))
        if reason == _FAILED:
            raise self._failures.of_error(choice.get("error") or "the endpoint failed while it answered")
        if reason:
            self._reason = _FINISH.get(reason, "stop")

    def _think(self, delta: Mapping[str, Any]) -> Iterator[ModelEvent]:
        self._details += items(delta.get("reasoning_details"))
        for name in _THINKING_FIELDS:  # some send both, with the same text
            if piece := text(delta.get(name)):
                self._thought_in = name
                if certain := self._thinking.feed(piece):
                    yield ThinkingDelta(certain)
                return

    def _say(self, content: object) -> Iterator[ModelEvent]:
        """Take text, or a list of parts of which some are thinking."""
        if isinstance(content, str):
            if certain := self._text.feed(content):
                yield TextDelta(certain)
            return
        for part in map(table, items(content)):
            if part.get("type") == "thinking":
                thought = part.get("thinking")
                for piece in [thought] if isinstance(thought, str) else map(table, items(thought)):
                    said = piece if isinstance(piece, str) else text(piece.get("text"))
                    if certain := self._thinking.feed(said):
                        yield ThinkingDelta(certain)
            elif said := text(part.get("text")):
                yield from self._say(said)

    def _signature(self) -> str:
        kept: dict[str, Any] = {}
        if self._thought_in == "reasoning_content":
            kept["field"] = self._thought_in
        if self._details:
            kept["details"] = self._details
        if self._extras:
            kept["extras"] = {self._calls.id_of(index): extra for index, extra in self._extras.items()}
        return json.dumps({_SIGNATURE: kept}) if kept else ""


def _message(message: Message) -> dict[str, Any]:
    if message.role == "tool":
        return {
            "role": "tool",
            "tool_call_id": sendable_id(message.tool_call_id),
            "content": message.content,
        }
    if message.role != "assistant":
        return {"role": message.role, "content": message.content}
    kept = _kept(message.signature)
    written: dict[str, Any] = {"role": "assistant", "content": message.content or None}
    if message.tool_calls:
        extras = table(kept.get("extras"))
        written["tool_calls"] = [_call(call, extras.get(call.id)) for call in message.tool_calls]
    elif not message.content:
        written["content"] = ""
    if kept.get("field") == "reasoning_content" and message.thinking:
        written["reasoning_content"] = message.thinking
    if details := items(kept.get("details")):
        written["reasoning_details"] = details
    return written


def _call(call: ToolCall, extra: object) -> dict[str, Any]:
    written = {
        "id": sendable_id(call.id),
        "type": "function",
        "function": {
            "name": sendable_name(call.name),
            "arguments": json.dumps(arguments_of(call), ensure_ascii=False),
        },
    }
    return {**written, "extra_content": extra} if extra else written


def _kept(signature: str) -> dict[str, Any]:
    """Return what this dialect put into a signature; nothing of another's."""
    try:
        return table(table(loads(signature or "{}")).get(_SIGNATURE))
    except ValueError:
        return {}


def _choice(choice: str) -> Any:  # noqa: ANN401 - it is JSON
    if choice in {"auto", "none", "required"}:
        return choice
    return {"type": "function", "function": {"name": choice}}


def _effort(budget: int | None) -> str:
    if budget is None:
        return "medium"
    return next((effort for most, effort in _EFFORTS if budget <= most), "high")


def _usage(value: object) -> Usage | None:
    fields = table(value)
    prompt, completion = count(fields.get("prompt_tokens")), count(fields.get("completion_tokens"))
    if prompt is None and completion is None:
        return None
    hit = count(table(fields.get("prompt_tokens_details")).get("cached_tokens"))
    hit = count(fields.get("prompt_cache_hit_tokens")) if hit is None else hit
    miss = count(fields.get("prompt_cache_miss_tokens"))
    if miss is None and hit is not None:
        miss = max(0, (prompt or 0) - hit)
    return Usage(
        prompt=prompt or 0,
        completion=completion or 0,
        total=count(fields.get("total_tokens")) or (prompt or 0) + (completion or 0),
        cache_hit=hit,
        cache_miss=miss,
        reasoning=count(table(fields.get("completion_tokens_details")).get("reasoning_tokens")),
    )
