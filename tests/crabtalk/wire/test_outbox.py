"""What waits to be sent keeps its order and its count."""

from hypothesis import given
from hypothesis import strategies as st

from crabtalk.wire.outbox import Outbox


def drain(outbox, limit):
    taken = []
    while outbox:
        taken.append(bytes(outbox.take(limit)))
    return taken


@given(st.lists(st.binary(min_size=1, max_size=30), max_size=20), st.integers(1, 100))
def test_bytes_leave_in_the_order_they_came(frames, limit):
    outbox = Outbox(1000, 1000)
    for frame in frames:
        outbox.put(frame)
    assert outbox.size_bytes == sum(map(len, frames))
    pieces = drain(outbox, limit)
    assert b"".join(pieces) == b"".join(frames)
    assert all(len(piece) <= limit or piece in frames for piece in pieces)
    assert outbox.size_bytes == 0


def test_what_could_not_be_sent_goes_first():
    outbox = Outbox(1000, 1000)
    outbox.put(b"abcdef")
    outbox.put(b"ghi")
    taken = outbox.take(6)
    outbox.put_back(memoryview(taken)[2:])
    assert (outbox.size_bytes, bytes(outbox.take())) == (7, b"cdefghi")


def test_it_is_full_by_bytes_or_by_frames_and_low_below_half():
    outbox = Outbox(10, 4)
    outbox.put(b"12345678")
    assert (outbox.full, outbox.low) == (False, False)
    outbox.put(b"90")
    assert outbox.full
    outbox.clear()
    assert (bool(outbox), outbox.full, outbox.low) == (False, False, True)
    for _ in range(4):
        outbox.put(b"x")
    assert outbox.full
