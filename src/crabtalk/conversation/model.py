"""The seam of models: what a turn asks of one, what comes back, and how it fails.

A provider turns a `ModelRequest` into a stream of events; the loop knows nothing else of it. Rule 1: exactly
one `Finished` ends a good stream, and nothing comes after it. Rule 2: a stream that ends without one raises
`ModelError` of kind `interrupted`, whatever was said before. Rule 3: no message of an error holds a secret.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, Protocol

from crabtalk.conversation.messages import Message, Usage
from crabtalk.errors import CrabtalkError
from crabtalk.tools import Tool


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """One question to a model."""

    model: str  # the provider's own name of it
    system: str = ""
    messages: Sequence[Message] = ()  # none of role `system`; every tool call has its result
    tools: Sequence[Tool] = ()  # their `wire_name` matches `[A-Za-z0-9_-]{1,64}`, each once
    tool_choice: str | None = None  # `auto`, `none`, `required`, or the wire name of a tool
    thinking: bool = False
    thinking_budget: int | None = None  # tokens
    max_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class TextDelta:
    """More of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class ThinkingDelta:
    """More of what precedes the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class ThinkingSignature:
    """What has to be sent back with the thinking; opaque, and the last one of a stream is the valid one."""

    data: str


@dataclass(frozen=True, slots=True)
class ToolCallStarted:
    """A tool is going to be called; `index` counts the calls of this stream from 0."""

    index: int
    id: str  # the provider's, or one made here; unique within the stream
    name: str


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    """More of the JSON text of a call's arguments; complete only when the stream has finished."""

    index: int
    arguments: str


@dataclass(frozen=True, slots=True)
class UsageReport:
    """What was used so far; a later one takes an earlier one's place."""

    usage: Usage


FinishReason = Literal["stop", "tool_calls", "length", "refused"]


@dataclass(frozen=True, slots=True)
class Finished:
    """The end of a good stream."""

    reason: FinishReason


ModelEvent = (
    TextDelta | ThinkingDelta | ThinkingSignature | ToolCallStarted | ToolCallDelta | UsageReport | Finished
)


class ErrorKind(StrEnum):
    """Why a model did not answer."""

    AUTH = "auth"  # the key is missing, wrong, or not allowed this
    RATE = "rate"  # too many requests for now
    QUOTA = "quota"  # the account has nothing left
    OVERLOADED = "overloaded"  # the provider cannot at the moment
    CONTEXT = "context"  # the conversation is longer than the model takes
    BAD_REQUEST = "bad_request"  # asking again changes nothing
    NETWORK = "network"  # no connection, or it broke
    INTERRUPTED = "interrupted"  # the stream ended before its end
    TIMEOUT = "timeout"
    REFUSED = "refused"  # the provider does not want to answer this


class ModelError(CrabtalkError):
    """A model did not answer, or not to the end."""

    def __init__(
        self,
        kind: ErrorKind,
        message: str,
        *,
        status: int | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        """Say why; `status` is HTTP's, `retry_after_s` what the provider asked for."""
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.status = status
        self.retry_after_s = retry_after_s


class Provider(Protocol):
    """One endpoint, in one dialect."""

    @property
    def name(self) -> str:
        """What the configuration calls it."""

    async def models(self) -> list[str]:
        """Return the names of the models that it has; empty if it cannot tell.

        Raises:
            ModelError: if it does not answer.
        """

    def stream(self, request: ModelRequest) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        """Ask once, without trying again; the connection is closed with the block.

        **Cancellation:** the connection is dropped.

        Raises:
            ModelError: on entry, or from the iterator.
        """
