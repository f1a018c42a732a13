"""What a dialect is: how a request is written, and what is made of the events of its answer. No I/O."""

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from crabtalk.config_values import Secret
from crabtalk.conversation.model import Finished, FinishReason, ModelEvent, ModelRequest
from crabtalk.providers.failures import Failures
from crabtalk.providers.sse import SseEvent


class Decoder(Protocol):
    """Makes events of one answer."""

    @property
    def complete(self) -> bool:
        """Whether the answer is all there; what may still come is about it, and need not."""

    @property
    def ended(self) -> bool:
        """Whether the endpoint said that nothing more comes."""

    def feed(self, event: SseEvent) -> Iterator[ModelEvent]:
        """Make events of one more.

        Raises:
            ModelError: if it says that the endpoint failed.
            TooManyCalls: if the model calls more tools than anybody could mean.
        """

    def feed_whole(self, answer: Mapping[str, Any]) -> Iterator[ModelEvent]:
        """Make events of an answer that did not come as a stream, though it was asked for one.

        Raises:
            ModelError: if it cannot be.
        """

    def end(self) -> Iterator[ModelEvent]:
        """Make the last events of a complete answer; the last one is `Finished`."""


class Dialect(Protocol):
    """One way to ask."""

    def headers(self, api_key: Secret | None) -> dict[str, str]:
        """Return the headers of every request."""

    def url(self, base: str, path: str) -> str:
        """Return where a request goes; `path` is `chat` or `models`."""

    def body(self, request: ModelRequest) -> dict[str, Any]:
        """Write a request."""

    def decoder(self, failures: Failures) -> Decoder:
        """Begin to read an answer."""


def finish_reason(reason: FinishReason, *, calls: int) -> Finished:
    """Return the end, where some endpoints say `stop` though the model wants tools, or the reverse."""
    if reason in {"stop", "tool_calls"}:
        return Finished("tool_calls" if calls else "stop")
    return Finished(reason)


def joined(base: str, path: str) -> str:
    """Return `base` with more path, its query at the end."""
    start, _, query = base.partition("?")
    url = f"{start.rstrip('/')}/{path}"
    return f"{url}{'&' if '?' in path else '?'}{query}" if query else url
