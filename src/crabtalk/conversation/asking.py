"""What the loop needs of models: one that is named, asked once, with retries out of sight."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Final, Protocol

from crabtalk.conversation.messages import Usage
from crabtalk.conversation.model import ErrorKind, ModelError, ModelEvent, ModelRequest
from crabtalk.errors import BadRequest, Busy, CrabtalkError, DeadlinePassed, Internal, RequestError


class ModelSource(Protocol):
    """The models of a daemon, by the names that its configuration gives them."""

    def resolve(self, name: str) -> str:
        """Return the full name of a model; "" is the one that is active.

        Raises:
            NotFound: if there is none of that name.
        """

    def stream(self, request: ModelRequest) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        """Ask the model that `request.model` names, in full.

        Raises:
            ModelError: on entry, or from the iterator.
        """


class TurnFailed(CrabtalkError):  # noqa: N818 - what happened to it
    """A turn that cannot go on, or ended before its end; says why, and which code a request gets."""

    def __init__(self, message: str, kind: type[RequestError] = Internal, *, halted: bool = False) -> None:
        super().__init__(message)
        self.kind = kind
        self.halted = halted  # what it was on has ended: the chain's depth or budget

    @property
    def error(self) -> RequestError:
        """What a request is answered with."""
        return self.kind(str(self))


_KINDS: Final = {
    ErrorKind.RATE: Busy,
    ErrorKind.QUOTA: Busy,
    ErrorKind.OVERLOADED: Busy,
    ErrorKind.TIMEOUT: DeadlinePassed,
    ErrorKind.CONTEXT: BadRequest,
}


def failure_of(error: ModelError) -> TurnFailed:
    """Return what a model's error is for a turn."""
    return TurnFailed(f"the model did not answer: {error.message}", _KINDS.get(error.kind, Internal))


def tokens_of(usage: Usage | None, characters: int) -> int:
    """Return how many tokens a request took, as the provider says, else about as many as that usually is."""
    if usage is not None and (total := usage.total or usage.prompt + usage.completion):
        return total
    return characters // 4
