"""Frames in pieces of any size, their bounds, and whatever is no frame."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crabtalk.errors import TooLarge
from crabtalk.wire.framing import (
    MAX_FRAME_BYTES,
    MAX_PLAIN_BYTES,
    FrameReader,
    frame,
    starts_with_put_harness,
)
from crabtalk.wire.pb import crabtalk_pb2 as pb


def server_reader():
    return FrameReader(MAX_FRAME_BYTES, MAX_PLAIN_BYTES)


def header(size):
    return size.to_bytes(4, "big")


def put_harness(size, **fields):
    return pb.ClientMessage(put_harness=pb.PutHarnessMsg(elf=bytes(size)), **fields).SerializeToString()


def test_a_frame_is_the_length_and_then_the_payload():
    assert frame(b"abc") == b"\x00\x00\x00\x03abc"


def test_a_payload_that_does_not_fit_is_refused():
    assert len(frame(bytes(MAX_FRAME_BYTES))) == MAX_FRAME_BYTES + 4
    with pytest.raises(TooLarge, match="a message of 16777217 bytes does not fit a frame of 16777216"):
        frame(bytes(MAX_FRAME_BYTES + 1))


def test_large_frames_come_out_as_they_went_in_with_what_is_around_them():
    large = put_harness(MAX_PLAIN_BYTES + 5, request_id=7)
    stream = frame(b"before") + frame(large) + frame(large) + frame(b"after") + b"\x00\x00"
    for piece in (1 << 16, 3_000_000, len(stream), 999_983):
        reader = server_reader()
        received = []
        for start in range(0, len(stream), piece):
            received += reader.feed(stream[start : start + piece])
        assert received == [b"before", large, large, b"after"]
        assert reader.partial
        assert reader.feed(b"\x00\x01x") == [b"x"]


@given(st.lists(st.binary(max_size=40), max_size=8), st.data())
def test_frames_come_out_as_they_went_in_however_they_are_cut(payloads, data):
    stream = b"".join(map(frame, payloads))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    reader = server_reader()
    received = []
    for start, stop in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        received += reader.feed(stream[start:stop])
    assert received == payloads
    assert not reader.partial
    assert reader.error is None


@given(st.lists(st.binary(max_size=64), max_size=20))
def test_any_bytes_are_frames_or_an_error_and_are_never_held_beyond_one_frame(chunks):
    reader = FrameReader(1000, 100)
    for chunk in chunks:
        for payload in reader.feed(chunk):
            assert len(payload) <= 1000
        assert len(reader._partial) <= 1004 + 64


def test_a_frame_that_has_begun_says_how_long_it_will_be():
    reader = server_reader()
    assert reader.expected_bytes == 0
    reader.feed(header(500)[:3])
    assert (reader.partial, reader.expected_bytes) == (True, 0)
    reader.feed(header(500)[3:] + b"x")
    assert (reader.partial, reader.expected_bytes) == (True, 504)
    reader.feed(bytes(499))
    assert (reader.partial, reader.expected_bytes) == (False, 0)


@pytest.mark.parametrize(
    ("size", "limit"), [(MAX_FRAME_BYTES + 1, MAX_FRAME_BYTES), (0x47455420, MAX_FRAME_BYTES)]
)
def test_a_length_beyond_the_bound_is_an_error_at_once(size, limit):
    reader = server_reader()
    assert reader.feed(frame(b"first") + header(size)) == [b"first"]
    assert (reader.error.size_bytes, reader.error.limit_bytes) == (size, limit)
    assert str(reader.error) == f"a frame of {size} bytes came, at most {limit} are allowed"


def test_nothing_is_read_after_an_error():
    reader = server_reader()
    reader.feed(header(MAX_FRAME_BYTES + 1))
    assert reader.feed(frame(b"more")) == []
    assert not reader.partial


def test_a_plain_request_may_have_a_mebibyte_and_not_a_byte_more():
    reader = server_reader()
    assert len(reader.feed(frame(bytes(MAX_PLAIN_BYTES)))[0]) == MAX_PLAIN_BYTES
    reader.feed(frame(bytes(MAX_PLAIN_BYTES + 1)))
    assert reader.error.limit_bytes == MAX_PLAIN_BYTES


@pytest.mark.parametrize("fields", [{}, {"request_id": 7}, {"request_id": 2**64 - 1}])
def test_put_harness_may_have_sixteen_mebibytes(fields):
    payload = put_harness(MAX_FRAME_BYTES - 100, **fields)
    reader = server_reader()
    assert reader.feed(frame(payload)) == [payload]


def encoded_first(request_id):
    """Return a `put_harness` whose encoder wrote the request id first, as is its right."""
    return pb.ClientMessage(request_id=request_id).SerializeToString() + put_harness(2 << 20)


@pytest.mark.parametrize("payload", [put_harness(2 << 20), encoded_first(0), encoded_first(2**64 - 1)])
def test_put_harness_is_known_by_its_first_bytes_one_at_a_time(payload):
    reader = server_reader()
    data = frame(payload)
    for at in range(20):
        assert reader.feed(data[at : at + 1]) == []
        assert reader.error is None
    assert reader.feed(data[20:]) == [payload]


@pytest.mark.parametrize("seen", range(1, 20))
def test_another_large_request_is_an_error_as_soon_as_it_is_known(seen):
    reader = server_reader()
    call = pb.ClientMessage(call_tool=pb.CallToolMsg(args=bytes(2 << 20))).SerializeToString()
    reader.feed(header(len(call)) + call[:seen])
    assert (reader.error is not None) == (seen >= 2)  # bytes of a tag


@pytest.mark.parametrize(
    ("head", "answer"),
    [
        (b"", None),
        (b"\x9a", None),
        (b"\x9a\x04", True),
        (b"\x9b\x04" + bytes(12), False),
        (b"\xa8\x06\x07\x9a\x04", True),
        (b"\xa8\x06\xff\xff\x03\x9a\x04", True),
        (b"\xa8\x06" + b"\xff" * 12, False),  # no number is that long
        (b"\xa8\x06\x07\xa8\x06\x07\x9a\x04" + bytes(6), False),  # one id is enough
    ],
)
def test_the_first_field_is_found_behind_a_request_id(head, answer):
    assert starts_with_put_harness(head) is answer


def test_the_tags_are_those_of_the_schema():
    assert put_harness(0).startswith(b"\x9a\x04")
    assert pb.ClientMessage(request_id=0).SerializeToString().startswith(b"\xa8\x06")
