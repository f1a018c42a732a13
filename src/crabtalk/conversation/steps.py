"""The steps of a turn, as whoever watches it is told: values only.

A turn is a `TurnStarted`, any steps, and exactly one `TurnEnded`. Text and thinking come in pieces between
their start and their end; the calls of one answer between `ToolsStarted` and `ToolsEnded`.
"""

from dataclasses import dataclass

from crabtalk.conversation.messages import ToolCall, Usage


@dataclass(frozen=True, slots=True)
class TurnStarted:
    """The turn was accepted."""

    agent_id: str  # who answers


@dataclass(frozen=True, slots=True)
class TextStarted:
    """Text follows."""


@dataclass(frozen=True, slots=True)
class Text:
    """More of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class TextEnded:
    """The text is complete, or cut short."""


@dataclass(frozen=True, slots=True)
class ThinkingStarted:
    """Thinking follows."""


@dataclass(frozen=True, slots=True)
class Thinking:
    """More of it."""

    text: str


@dataclass(frozen=True, slots=True)
class ThinkingEnded:
    """The thinking is complete, or cut short."""


@dataclass(frozen=True, slots=True)
class ToolsStarted:
    """The calls of one answer are run from now on, side by side."""

    calls: tuple[ToolCall, ...]


@dataclass(frozen=True, slots=True)
class ToolEnded:
    """One of them has a result, which is stored."""

    call_id: str
    output: str
    duration_ms: int
    is_error: bool


@dataclass(frozen=True, slots=True)
class ToolsEnded:
    """All of them have."""


@dataclass(frozen=True, slots=True)
class ContextUsed:
    """What the last request to the model used."""

    usage: Usage


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """The end, also of a turn that was cut short: `error` says why then, and is empty for success."""

    agent_id: str
    model: str
    error: str
    usage: Usage | None


Step = (
    TurnStarted
    | TextStarted
    | Text
    | TextEnded
    | ThinkingStarted
    | Thinking
    | ThinkingEnded
    | ToolsStarted
    | ToolEnded
    | ToolsEnded
    | ContextUsed
    | TurnEnded
)
