"""Messages and errors, there and back."""

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from crabtalk import errors
from crabtalk.errors import BadRequest, Busy, Internal, RequestError, TooLarge
from crabtalk.wire.codec import (
    MAX_MESSAGE_CHARS,
    Rejected,
    decode_request,
    encode_reply,
    encode_request,
    error_of,
    error_reply,
)
from crabtalk.wire.framing import MAX_FRAME_BYTES, MAX_PLAIN_BYTES
from crabtalk.wire.pb import crabtalk_pb2 as pb


def rejected(payload):
    with pytest.raises(Rejected) as caught:
        decode_request(payload)
    return caught.value


def test_a_request_is_its_field_its_body_and_its_id():
    message = pb.ClientMessage(request_id=5, call_tool=pb.CallToolMsg(tool="read"))
    field, body, request_id = decode_request(message.SerializeToString())
    assert (field, body.tool, request_id) == ("call_tool", "read", 5)


LARGE = bytes(range(256)) * (MAX_PLAIN_BYTES // 256 + 1)


@pytest.mark.parametrize("request_id", [None, 0, 300, (1 << 64) - 1])
@pytest.mark.parametrize("kind", [bytes, memoryview])
def test_a_large_image_is_not_copied(request_id, kind):
    message = pb.ClientMessage(
        put_harness=pb.PutHarnessMsg(name="grüße", elf=LARGE, sha256="a" * 64), request_id=request_id
    )
    payload = message.SerializeToString()
    field, body, found_id = decode_request(kind(payload))
    assert (field, body.name, body.sha256, found_id) == ("put_harness", "grüße", "a" * 64, request_id)
    assert isinstance(body.elf, memoryview)
    assert body.elf.obj is payload
    assert body.elf == LARGE


@pytest.mark.parametrize(
    "change",
    [
        lambda payload: payload + b"\xf2\x06\x00",  # a field that nobody knows
        lambda payload: payload + pb.ClientMessage(request_id=8).SerializeToString(),  # the id once more
        lambda payload: payload + payload,
    ],
)
def test_a_large_image_in_an_unusual_message_is_read_all_the_same(change):
    message = pb.ClientMessage(put_harness=pb.PutHarnessMsg(name="x", elf=LARGE), request_id=7)
    payload = change(message.SerializeToString())
    expected = pb.ClientMessage.FromString(payload)
    field, body, request_id = decode_request(memoryview(payload))
    assert (field, body, request_id) == ("put_harness", expected.put_harness, expected.request_id)


@given(st.binary(max_size=40), st.integers(0, 60), st.integers(0, 60))
def test_a_damaged_message_with_a_large_image_is_read_as_protobuf_reads_it(noise, start, stop):
    message = pb.ClientMessage(put_harness=pb.PutHarnessMsg(name="x", elf=LARGE, sha256="y"), request_id=7)
    payload = bytearray(message.SerializeToString())
    payload[start:stop] = noise
    try:
        expected = pb.ClientMessage.FromString(bytes(payload))
    except DecodeError:
        expected = None
    try:
        field, body, request_id = decode_request(memoryview(payload))
    except Rejected:
        assert expected is None or expected.WhichOneof("msg") != "put_harness"
        return
    assert field == "put_harness"
    assert (body.name, bytes(body.elf), body.sha256) == (
        expected.put_harness.name,
        expected.put_harness.elf,
        expected.put_harness.sha256,
    )
    assert request_id == (expected.request_id if expected.HasField("request_id") else None)


def test_an_id_of_0_is_an_id():
    message = pb.ClientMessage(request_id=0, ping=pb.PingMsg())
    assert decode_request(message.SerializeToString()).request_id == 0
    assert decode_request(pb.ClientMessage(ping=pb.PingMsg()).SerializeToString()).request_id is None


def test_an_extension_is_its_bytes():
    assert decode_request(pb.ClientMessage(extension=b"xyz").SerializeToString()).body == b"xyz"


def test_an_empty_message_is_rejected():
    error = rejected(b"")
    assert (error.error.code, error.request_id) == (400, None)
    assert error.error.message == "empty message: no request is set in it"


def test_an_unknown_request_is_rejected_with_its_number_and_its_id():
    # Field 3 was in use once; field 110 may be some day.
    for number, tag in ((3, b"\x1a"), (110, b"\xf2\x06")):
        error = rejected(tag + b"\x00" + pb.ClientMessage(request_id=9).SerializeToString())
        assert (error.error.code, error.request_id) == (400, 9)
        assert f"no field {number} of ClientMessage" in error.error.message


def test_a_payload_that_does_not_decode_is_rejected():
    error = rejected(b"\x0a\xff")
    assert (error.error.code, error.error.message) == (400, "not a message of the protocol")


def test_a_large_request_that_only_began_as_put_harness_is_rejected():
    """Of two requests in one message the last one counts."""
    payload = (
        pb.ClientMessage(put_harness=pb.PutHarnessMsg()).SerializeToString()
        + pb.ClientMessage(
            request_id=3, call_tool=pb.CallToolMsg(args=bytes(MAX_PLAIN_BYTES))
        ).SerializeToString()
    )
    error = rejected(payload)
    assert (error.error.code, error.request_id) == (413, 3)


@given(st.binary(max_size=200))
def test_any_payload_is_a_request_or_rejected(payload):
    try:
        field, _, _ = decode_request(payload)
    except Rejected:
        return
    assert field in pb.ClientMessage.DESCRIPTOR.fields_by_name


def test_a_reply_carries_the_id_of_its_request():
    data = encode_reply(pb.ServerMessage(pong=pb.Pong()), 77)
    reply = pb.ServerMessage.FromString(data[4:])
    assert (reply.request_id, reply.WhichOneof("msg")) == (77, "pong")
    assert not pb.ServerMessage.FromString(encode_reply(pb.ServerMessage(pong=pb.Pong()), None)[4:]).HasField(
        "request_id"
    )


def test_a_reply_that_does_not_fit_becomes_an_error():
    large = pb.ServerMessage(tool_outcome=pb.ToolOutcome(done=bytes(MAX_FRAME_BYTES)))
    reply = pb.ServerMessage.FromString(encode_reply(large, 4)[4:])
    assert (reply.request_id, reply.error.code) == (4, 413)


def test_a_large_request_is_not_sent():
    message = pb.ClientMessage(call_tool=pb.CallToolMsg(args=bytes(MAX_PLAIN_BYTES)))
    with pytest.raises(TooLarge, match=r"a call_tool of \d+ bytes, at most 1048576 are allowed"):
        encode_request(message)
    assert encode_request(pb.ClientMessage(put_harness=pb.PutHarnessMsg(elf=bytes(2 << 20))))


@pytest.mark.parametrize("kind", sorted(errors.BY_CODE.values(), key=lambda one: one.code))
def test_each_error_survives_the_wire(kind):
    again = error_of(error_reply(kind("what went wrong")).error)
    assert (type(again), again.code, again.message) == (kind, kind.code, "what went wrong")


def test_every_error_of_the_wire_has_a_code_of_its_own():
    kinds = {
        kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, RequestError)
    }
    assert set(errors.BY_CODE.values()) == kinds - {RequestError}


def test_an_error_that_is_not_known_is_kept_as_the_daemon_said_it():
    error = error_of(pb.ErrorMsg(code=418, message="a teapot"))
    assert (type(error), error.message) == (Internal, "a teapot")


def test_an_error_is_cut_and_always_encodes():
    reply = error_reply(Busy("x" * 10_000))
    assert len(reply.error.message) == MAX_MESSAGE_CHARS
    assert error_reply(BadRequest("a \udcff b")).error.message == "a ? b"
