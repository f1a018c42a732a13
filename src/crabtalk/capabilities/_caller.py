"""Who calls: capabilities of the daemon belong to whoever the executor runs, never to what a guest says."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from berm import Refused
from crabtalk.capabilities._failure import Failure
from crabtalk.errors import RequestError, StoreError
from crabtalk.tools import Context


class Call(Protocol):
    """The facts of one capability call that say who calls."""

    @property
    def context(self) -> object:
        """What the daemon gave when it started the invocation."""


def caller_of(call: Call) -> Context:
    """Return who calls.

    Raises:
        Failure: if the invocation was not started by the daemon.
    """
    if not isinstance(call.context, Context):
        raise Failure("there is no daemon here")
    return call.context


@contextmanager
def explained() -> Iterator[None]:
    """Turn what the daemon says into the guest's terms.

    Raises:
        Refused: for what was not done as asked; Failure: if the store does not work.
    """
    try:
        yield
    except RequestError as error:
        raise Refused(error.message) from error
    except StoreError as error:
        raise Failure(f"the store does not work: {error}") from error
