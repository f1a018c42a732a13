"""The values of a conversation: messages, the tool calls in them, and what a turn used.

`to_json` is what the store holds as the body of a message, and leaves out what is empty; `from_json` reads
nothing else. Nothing here knows a dialect, the store or the wire.
"""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, Final, Literal

Role = Literal["system", "user", "assistant", "tool"]
_ROLES: Final[Mapping[str, Role]] = {
    "system": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
}
_TEXTS: Final = ("content", "thinking", "signature", "tool_call_id", "sender", "guest")


@dataclass(frozen=True, slots=True)
class ToolCall:
    """What a model wants to be run."""

    id: str
    name: str  # as it is on the wire
    arguments: str  # JSON text as the model sent it; may be broken

    def to_json(self) -> dict[str, Any]:
        """Return what the store holds."""
        return {"id": self.id, "name": self.name, "arguments": self.arguments}

    @classmethod
    def from_json(cls, data: object) -> "ToolCall":
        """Read it back.

        Raises:
            ValueError: if it is something else.
        """
        table = _table(data, "a tool call")
        return cls(_text(table, "id"), _text(table, "name"), _text(table, "arguments"))


@dataclass(frozen=True, slots=True)
class Message:
    """One message, of whatever role."""

    role: Role
    content: str
    _: KW_ONLY
    thinking: str = ""  # of an assistant, before it answered
    signature: str = ""  # opaque: what the provider wants to get back with `thinking`
    tool_calls: tuple[ToolCall, ...] = ()  # of an assistant
    tool_call_id: str = ""  # of a tool: which call this answers
    is_error: bool = False  # of a tool: the result is why there is none
    sender: str = ""
    guest: str = ""  # of an assistant: which agent spoke, where it was not the session's own
    created_ms: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return what the store holds as the body of a message."""
        body: dict[str, Any] = {"role": self.role}
        body |= {name: text for name in _TEXTS if (text := getattr(self, name))}
        if self.tool_calls:
            body["tool_calls"] = [call.to_json() for call in self.tool_calls]
        if self.is_error:
            body["is_error"] = True
        if self.created_ms:
            body["created_ms"] = self.created_ms
        return body

    @classmethod
    def from_json(cls, data: object) -> "Message":
        """Read it back.

        Raises:
            ValueError: if it is something else; says which part.
        """
        body = _table(data, "a message")
        role = _ROLES.get(_text(body, "role"))
        if role is None:
            raise ValueError(f"role: expected one of {', '.join(_ROLES)}")
        calls = body.get("tool_calls", [])
        if not isinstance(calls, list):
            raise ValueError("tool_calls: expected a list")  # noqa: TRY004 - what is stored is wrong
        created_ms = body.get("created_ms", 0)
        if not isinstance(created_ms, int) or isinstance(created_ms, bool):
            raise ValueError("created_ms: expected a number")  # noqa: TRY004 - what is stored is wrong
        return cls(
            role,
            is_error=body.get("is_error") is True,
            tool_calls=tuple(ToolCall.from_json(call) for call in calls),
            created_ms=created_ms,
            **{name: _text(body, name) for name in _TEXTS},
        )


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens, as the provider counts them; None where it does not say."""

    prompt: int = 0
    completion: int = 0
    total: int = 0
    cache_hit: int | None = None
    cache_miss: int | None = None
    reasoning: int | None = None

    def __add__(self, other: "Usage") -> "Usage":
        """Return what both used together."""
        return Usage(
            self.prompt + other.prompt,
            self.completion + other.completion,
            self.total + other.total,
            _sum(self.cache_hit, other.cache_hit),
            _sum(self.cache_miss, other.cache_miss),
            _sum(self.reasoning, other.reasoning),
        )


def _sum(one: int | None, other: int | None) -> int | None:
    return (one or 0) + (other or 0) if one is not None or other is not None else None


def _table(data: object, what: str) -> Mapping[str, Any]:
    if not isinstance(data, Mapping):
        raise ValueError(f"expected {what}")  # noqa: TRY004 - what is stored is wrong
    return data


def _text(table: Mapping[str, Any], name: str) -> str:
    value = table.get(name, "")
    if not isinstance(value, str):
        raise ValueError(f"{name}: expected text")  # noqa: TRY004 - what is stored is wrong
    return value
