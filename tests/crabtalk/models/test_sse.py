"""Server-sent events: every way in which a line ends, every cut, whatever is no event."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crabtalk.providers.sse import SseEvent, SseParser


def parse(*pieces):
    parser = SseParser()
    return [event for piece in pieces for event in parser.feed(piece)]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_a_line_ends_in_three_ways(end):
    text = b"event: a" + end + b"data: 1" + end + b"data: 2" + end + end + b"data: 3" + end + end
    assert parse(text) == [SseEvent("a", "1\n2"), SseEvent("message", "3")]


@pytest.mark.parametrize(
    ("text", "data"),
    [
        (b"data: a\n\n", "a"),
        (b"data:a\n\n", "a"),
        (b"data:  a\n\n", " a"),
        (b"data\n\n", ""),
        (b"data:\n\n", ""),
        (b"data: a: b\n\n", "a: b"),
        (b"\xef\xbb\xbfdata: a\n\n", "a"),
        (b"data: \xef\xbb\xbfa\n\n", "\ufeffa"),
        (b"data: \xff\n\n", "\ufffd"),
        (b"data: \xe2\x80\xa8\x0b\x0c\xc2\x85x\n\n", "\u2028\x0b\x0c\x85x"),
        (b": a comment\ndata: a\nid: 7\nretry: 10\nother: x\n\n", "a"),
    ],
)
def test_the_data_of_an_event(text, data):
    assert parse(text) == [SseEvent("message", data)]


@pytest.mark.parametrize(
    "text",
    [b"", b"\n\n\n", b": keep-alive\n\n", b"event: ping\n\n", b"id: 1\n\n", b"data: cut", b"data: cut\n"],
)
def test_what_has_no_data_or_no_end_is_no_event(text):
    assert parse(text) == []


def test_the_name_of_an_event_without_data_is_not_that_of_the_next_one():
    assert parse(b"event: ping\n\ndata: a\n\n") == [SseEvent("message", "a")]


STREAM = "\ufeff: hi\r\nevent: a\rdata: 1\r\n\r\ndata: \u00fc\U0001f600\n\ndata:\r\rdata: x\n\n".encode()


def test_a_cut_may_be_at_every_byte():
    whole = parse(STREAM)
    assert [event.data for event in whole] == ["1", "\u00fc\U0001f600", "", "x"]
    for at in range(len(STREAM) + 1):
        assert parse(STREAM[:at], STREAM[at:]) == whole
    assert parse(*(STREAM[n : n + 1] for n in range(len(STREAM)))) == whole


@given(st.lists(st.binary(max_size=30), max_size=20))
def test_any_bytes_parse_and_cuts_change_nothing(pieces):
    assert parse(*pieces) == parse(b"".join(pieces))


def test_a_long_line_in_small_pieces_takes_time_in_proportion():
    parser = SseParser()
    parser.feed(b"data: ")
    started = time.process_time()
    for _ in range(200_000):
        parser.feed(b"0123456789")
    assert [len(event.data) for event in parser.feed(b"\n\n")] == [2_000_000]
    assert time.process_time() - started < 5
