"""Bytes to lines."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crabtalk.mcp.lines import LineReader, LineTooLong


@given(st.lists(st.binary(max_size=20).filter(lambda line: b"\n" not in line)), st.data())
def test_lines_are_the_same_however_the_stream_is_cut(lines, data):
    stream = b"".join(line + b"\n" for line in lines)
    reader, found, at = LineReader(), [], 0
    while at < len(stream):
        size = data.draw(st.integers(1, len(stream)))
        found += reader.feed(stream[at : at + size])
        at += size
    assert found == [line.strip() for line in lines if line.strip()]


def test_a_line_that_does_not_end_is_refused_at_the_bound():
    reader = LineReader(10)
    assert reader.feed(b"0123456789\n0123456789") == [b"0123456789"]
    with pytest.raises(LineTooLong):
        reader.feed(b"0")
