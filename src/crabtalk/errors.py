"""What the daemon says when it does not do what was asked: one root, and a class for each code of the wire.

A code is an HTTP status (protocol.md); the message is for the person who asked, says what was wrong and
where, and never holds a secret.
"""

from typing import ClassVar, Final


class CrabtalkError(Exception):
    """Anything that the daemon or its client raises on purpose."""


class RequestError(CrabtalkError):
    """A request that was not served; becomes an `error` reply."""

    code: ClassVar[int] = 500

    @property
    def message(self) -> str:
        """The sentence that the client gets."""
        return str(self)


class BadRequest(RequestError):  # noqa: N818 - the words of HTTP, as those below
    """400: malformed or not allowed as asked; asking again changes nothing."""

    code = 400


class Unauthorized(RequestError):  # noqa: N818
    """401: the token is missing or wrong."""

    code = 401


class NotFound(RequestError):  # noqa: N818
    """404: no such agent, session, harness, tool, wake or subscription."""

    code = 404


class Conflict(RequestError):  # noqa: N818
    """409: it exists already, or is in use."""

    code = 409


class TooLarge(RequestError):  # noqa: N818
    """413: larger than a bound, which the message names."""

    code = 413


class Busy(RequestError):  # noqa: N818
    """429: a queue is full or a rate is used up; asking later may do."""

    code = 429


class Cancelled(RequestError):  # noqa: N818
    """499: the client took it back."""

    code = 499


class Internal(RequestError):  # noqa: N818
    """500: ours; the operator's log has the details."""

    code = 500


class NotBuilt(RequestError):  # noqa: N818
    """501: a message of the protocol that this daemon does not serve yet."""

    code = 501


class ShuttingDown(RequestError):  # noqa: N818
    """503: the daemon is stopping."""

    code = 503


class DeadlinePassed(RequestError):  # noqa: N818
    """504: it was not done in time."""

    code = 504


# What a client makes of a code.
BY_CODE: Final[dict[int, type[RequestError]]] = {
    kind.code: kind
    for kind in (
        BadRequest,
        Unauthorized,
        NotFound,
        Conflict,
        TooLarge,
        Busy,
        Cancelled,
        Internal,
        NotBuilt,
        ShuttingDown,
        DeadlinePassed,
    )
}


class ConfigError(CrabtalkError):
    """`config.toml` or a declaration says something that cannot be; names the key and what would do."""


class StoreError(CrabtalkError):
    """The store cannot be opened, read or written; names the file and what to do."""


class LocalProtocolError(CrabtalkError):
    """We were about to send what the protocol does not allow."""


class RemoteProtocolError(CrabtalkError):
    """The peer sent what the protocol does not allow; raised only where bytes are received."""
