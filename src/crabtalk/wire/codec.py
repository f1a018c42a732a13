"""Payloads to messages and back, for both sides; and errors to replies and back."""

from typing import Any, Final, NamedTuple

from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from crabtalk.errors import BY_CODE, BadRequest, Internal, RemoteProtocolError, RequestError, TooLarge
from crabtalk.wire.framing import MAX_PLAIN_BYTES, frame
from crabtalk.wire.pb import crabtalk_pb2 as pb

MAX_MESSAGE_CHARS: Final = 4096  # of an error's sentence


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


def decode_request(payload: bytes) -> Decoded:
    """Read a request.

    Raises:
        Rejected: if it is none.
    """
    try:
        message = pb.ClientMessage.FromString(payload)
    except DecodeError as error:
        raise Rejected(BadRequest("not a message of the protocol"), None) from error
    request_id = message.request_id if message.HasField("request_id") else None
    field = message.WhichOneof("msg")
    if field is None:
        raise Rejected(BadRequest(_why_nothing(message)), request_id)
    if len(payload) > MAX_PLAIN_BYTES and field != "put_harness":
        raise Rejected(_too_large(field, len(payload)), request_id)
    return Decoded(field, getattr(message, field), request_id)


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
    try:
        return frame(message.SerializeToString())
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
