"""Payloads to messages and back, for both sides; and errors to replies and back."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from crabtalk.errors import BY_CODE, BadRequest, Internal, RemoteProtocolError, RequestError, TooLarge
from crabtalk.wire.framing import HEADER_BYTES, MAX_FRAME_BYTES, MAX_PLAIN_BYTES, Payload, frame
from crabtalk.wire.pb import crabtalk_pb2 as pb

MAX_MESSAGE_CHARS: Final = 4096  # of an error's sentence
_PUT_HARNESS: Final = 67
_REQUEST_ID: Final = 101


class Decoded(NamedTuple):
    """One request."""

    field: str  # of the oneof
    body: Any
    request_id: int | None


class Rejected(RemoteProtocolError):  # noqa: N818 - as the errors it carries
    """A payload that is no request: the error to answer with, and the request id as far as it was read."""

    def __init__(self, error: RequestError, request_id: int | None) -> None:
        super().__init__(error.message)
        self.error = error
        self.request_id = request_id


class PutHarness(NamedTuple):
    """What a large `put_harness` is read as, with the image where it was received."""

    name: str
    elf: memoryview
    sha256: str


def decode_request(payload: Payload) -> Decoded:
    """Read a request.

    Raises:
        Rejected: if it is none.
    """
    if len(payload) > MAX_PLAIN_BYTES and (decoded := _put_harness(memoryview(payload))) is not None:
        return decoded
    try:
        message = pb.ClientMessage.FromString(bytes(payload))
    except DecodeError as error:
        raise Rejected(BadRequest("not a message of the protocol"), None) from error
    request_id = message.request_id if message.HasField("request_id") else None
    field = message.WhichOneof("msg")
    if field is None:
        raise Rejected(BadRequest(_why_nothing(message)), request_id)
    if len(payload) > MAX_PLAIN_BYTES and field != "put_harness":
        raise Rejected(_too_large(field, len(payload)), request_id)
    # Without the constructor: this is made for every request.
    return tuple.__new__(Decoded, (field, getattr(message, field), request_id))


def _put_harness(payload: memoryview) -> Decoded | None:
    """Read a `put_harness` without copying its image; None if it is none, or written unusually."""
    try:
        outer = dict(_fields(payload))
        inner = dict(_fields(outer.pop(_PUT_HARNESS, b"")))
        request_id = outer.pop(_REQUEST_ID, None)
        name, elf, sha256 = (inner.pop(number, b"") for number in (1, 2, 3))
        if outer or inner or not isinstance(elf, memoryview) or isinstance(request_id, memoryview):
            return None
        return Decoded("put_harness", PutHarness(str(name, "utf-8"), elf, str(sha256, "utf-8")), request_id)
    except (TypeError, ValueError):
        return None


def _fields(message: memoryview | bytes) -> Iterator[tuple[int, Any]]:
    """Yield the fields of a message that are varints, as numbers, or have a length.

    Raises:
        ValueError: if there are others, one is there twice, or it is no message.
    """
    at = 0
    seen = set()
    while at < len(message):
        tag, at = _varint(message, at)
        number, kind = tag >> 3, tag & 7
        value, at = _varint(message, at)
        if kind not in {0, 2} or number in seen:
            raise ValueError("not the usual fields")
        seen.add(number)
        if kind == 0:
            yield number, value
            continue
        if value > len(message) - at:
            raise ValueError("a field is longer than its message")
        yield number, message[at : at + value]
        at += value


def _varint(message: memoryview | bytes, at: int) -> tuple[int, int]:
    """Return a number and where it ends.

    Raises:
        ValueError: if it has no end, or more than 64 bits.
    """
    value = 0
    for shift, byte in zip(range(0, 64, 7), message[at : at + 10], strict=False):
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 - the mark of one that is not the last
            if value >> 64:
                break
            return value, at + shift // 7 + 1
    raise ValueError("not a varint")


def _too_large(field: str, size: int) -> TooLarge:
    return TooLarge(f"a {field} of {size} bytes, at most {MAX_PLAIN_BYTES} are allowed")


def _why_nothing(message: pb.ClientMessage) -> str:
    unknown = UnknownFieldSet(message)
    if len(unknown):
        return f"unknown request: this daemon knows no field {unknown[0].field_number} of ClientMessage"
    return "empty message: no request is set in it"


def encode_reply(message: pb.ServerMessage, request_id: int | None) -> bytes:
    """Return the frame of a reply; one that does not fit becomes an error that says so."""
    if request_id is not None:
        message.request_id = request_id
    payload = message.SerializeToString()
    if len(payload) <= MAX_FRAME_BYTES:
        return len(payload).to_bytes(HEADER_BYTES, "big") + payload  # as `frame`, on the way of every reply
    try:
        return frame(payload)
    except TooLarge as error:
        return encode_reply(error_reply(error), request_id)


def encode_request(message: pb.ClientMessage) -> bytes:
    """Return the frame of a request.

    Raises:
        TooLarge: if it does not fit, or is no `put_harness` and larger than others may be.
    """
    payload = message.SerializeToString()
    field = message.WhichOneof("msg")
    if len(payload) > MAX_PLAIN_BYTES and field != "put_harness":
        raise _too_large(str(field), len(payload))
    return frame(payload)


def error_reply(error: RequestError) -> pb.ServerMessage:
    """Return the reply that says why a request was not served."""
    message = error.message
    if len(message) > MAX_MESSAGE_CHARS:
        message = message[: MAX_MESSAGE_CHARS - 1] + "…"
    # A lone surrogate, as in names of files that are no UTF-8, has no encoding.
    message = message.encode(errors="replace").decode()
    return pb.ServerMessage(error=pb.ErrorMsg(code=error.code, message=message))


def error_of(reply: pb.ErrorMsg) -> RequestError:
    """Return what `error_reply` was made of, as the client raises it."""
    return BY_CODE.get(reply.code, Internal)(reply.message or f"error {reply.code}")
