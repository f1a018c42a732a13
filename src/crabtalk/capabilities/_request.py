"""What a guest may ask a server for: method, headers and body, checked and completed.

What frames a message and says whom it is for is ours, whatever the guest writes: `Host`, `Content-Length`,
`Transfer-Encoding` and all that belongs to the connection are left out of what it gives, and written anew.
Nothing here sends anything.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from berm import Refused
from crabtalk.capabilities._failure import Failure
from crabtalk.capabilities._hosts import Origin, Url

MAX_BODY_BYTES: Final = 10 << 20
MAX_HEADER_BYTES: Final = 64 << 10

_TOKEN: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,256}\Z")
_FIELD: Final = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f]*\Z")
_REFUSED_METHODS: Final = frozenset({"CONNECT", "TRACE"})  # a tunnel, and an echo of our headers
_BODY_METHODS: Final = frozenset({"POST", "PUT", "PATCH"})  # that carry a length even when it is nothing

# Written by us or not at all.
_OURS: Final = frozenset(
    {
        "host",
        "content-length",
        "transfer-encoding",
        "connection",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "upgrade",
        "expect",
    }
)
_DEFAULTS: Final = (("Accept", "*/*"), ("Accept-Encoding", "identity"), ("User-Agent", "crabtalk"))

Pairs = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Request:
    """What to send; already checked."""

    method: bytes
    url: Url
    headers: Sequence[tuple[bytes, bytes]]
    body: bytes


@dataclass(frozen=True)
class Response:
    """What came back."""

    status: int
    headers: str  # a line `name: value` each
    body: bytes


def build(method: str, url: Url, body: bytes, headers: Pairs) -> Request:
    """Check what a guest gave and make a request of it.

    Raises:
        Refused: for a method that is not granted.
        Failure: if something is malformed or too large.
    """
    if not _TOKEN.match(method):
        raise Failure(f"not a method: `{method[:80]}`")
    if method.upper() in _REFUSED_METHODS:
        raise Refused(f"method is not granted: {method.upper()}")
    if len(body) > MAX_BODY_BYTES:
        raise Failure(f"body is larger than {MAX_BODY_BYTES} bytes")
    _check_headers(headers)
    encoded = [
        (name.encode(), value.encode())
        for name, value in (*_framing(url.origin, method, body), *_completed(headers))
    ]
    if sum(len(name) + len(value) + 4 for name, value in encoded) > MAX_HEADER_BYTES:
        raise Failure(f"headers are larger than {MAX_HEADER_BYTES} bytes")
    return Request(method.encode(), url, encoded, body)


def _check_headers(headers: Pairs) -> None:
    for name, value in headers:
        if not _TOKEN.match(name):
            raise Failure(f"not the name of a header: `{name[:80]}`")
        if not _FIELD.match(value):
            raise Failure(f"header `{name[:80]}` has a line break or a control character in its value")


def _framing(origin: Origin, method: str, body: bytes) -> Pairs:
    ours = [("Host", origin.authority), ("Connection", "close")]
    if body or method.upper() in _BODY_METHODS:
        ours.append(("Content-Length", str(len(body))))
    return ours


def _completed(headers: Pairs) -> Pairs:
    given = [(name, value.strip(" \t")) for name, value in headers if name.lower() not in _OURS]
    names = {name.lower() for name, _ in given}
    return given + [default for default in _DEFAULTS if default[0].lower() not in names]
