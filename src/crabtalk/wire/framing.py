"""Bytes to frames and back: a big-endian `u32` length, then as many bytes.

Knows lengths and bounds, and of a payload only its first field, by which a large one is let through before it
is all there. Does no I/O and keeps at most one frame that is not complete.
"""

import mmap
from typing import Final

from crabtalk.errors import RemoteProtocolError, TooLarge

MAX_FRAME_BYTES: Final = 16 << 20
MAX_PLAIN_BYTES: Final = 1 << 20  # of every request but `put_harness`
HEADER_BYTES: Final = 4

_REQUEST_ID_TAG: Final = b"\xa8\x06"  # field 101, varint
_PUT_HARNESS_TAG: Final = b"\x9a\x04"  # field 67, length-delimited
_PEEK_BYTES: Final = len(_REQUEST_ID_TAG) + 10 + len(_PUT_HARNESS_TAG)  # a varint has at most 10 bytes


Payload = bytes | memoryview


class FrameTooLarge(RemoteProtocolError):  # noqa: N818 - a word of the protocol, as 413
    """A frame is longer than it may be; what follows on the connection cannot be read any more."""

    def __init__(self, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(f"a frame of {size_bytes} bytes came, at most {limit_bytes} are allowed")
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes


def frame(payload: bytes) -> bytes:
    """Return `payload` with its length before it.

    Raises:
        TooLarge: if it is longer than a frame may be.
    """
    size = len(payload)
    if size > MAX_FRAME_BYTES:
        raise TooLarge(f"a message of {size} bytes does not fit a frame of {MAX_FRAME_BYTES}")
    return size.to_bytes(HEADER_BYTES, "big") + payload


def starts_with_put_harness(head: bytes) -> bool | None:
    """Say whether a payload that begins with `head` has `put_harness` first; None if more has to be seen.

    A request id may come before it: encoders choose the order of fields.
    """
    at = 0
    if head.startswith(_REQUEST_ID_TAG):
        at = len(_REQUEST_ID_TAG)
        while at < len(head) and head[at] & 0x80:
            at += 1
        at += 1
    tag = head[at : at + len(_PUT_HARNESS_TAG)]
    if len(tag) < len(_PUT_HARNESS_TAG):
        return None if len(head) < _PEEK_BYTES else False
    return tag == _PUT_HARNESS_TAG


class FrameReader:
    """Cuts what arrives into payloads.

    `error` is set when a frame was too large: all that came before it was returned, nothing after it will be.
    """

    def __init__(self, limit_bytes: int = MAX_FRAME_BYTES, plain_bytes: int = MAX_FRAME_BYTES) -> None:
        """Take frames up to `limit_bytes`, beyond `plain_bytes` only those of `put_harness`."""
        self.limit_bytes = limit_bytes
        self.plain_bytes = plain_bytes
        self.error: FrameTooLarge | None = None
        self._partial = bytearray()
        self._large: mmap.mmap | None = None  # the payload of a large frame, whose header is in `_partial`
        self._filled = 0  # bytes of it that are there
        self._needed = HEADER_BYTES  # bytes in `_partial` before it is worth looking again

    @property
    def partial(self) -> bool:
        """Whether a frame has begun that is not complete."""
        return bool(self._partial)

    @property
    def expected_bytes(self) -> int:
        """How long the frame is that is being received, as far as its header says; 0 if none is."""
        if len(self._partial) < HEADER_BYTES:
            return 0
        return HEADER_BYTES + int.from_bytes(self._partial[:HEADER_BYTES], "big")

    def feed(self, data: bytes) -> list[Payload]:
        """Take what arrived and return the payloads that are complete with it; large ones where they are."""
        if self.error is not None:
            return []
        if self._large is not None:
            return self._fill(self._large, data)
        if not self._partial:
            return self._cut(data)
        self._partial += data
        if len(self._partial) < self._needed:
            return []
        whole, self._partial = bytes(self._partial), bytearray()
        return self._cut(whole)

    def _fill(self, large: mmap.mmap, data: bytes) -> list[Payload]:
        """Take more of a large frame, and what comes after it."""
        end = min(self._filled + len(data), len(large))
        taken = end - self._filled
        large[self._filled : end] = data[:taken]
        self._filled = end
        if end < len(large):
            return []
        self._large, self._partial = None, bytearray()
        return [memoryview(large), *self._cut(data[taken:])]

    def _cut(self, data: bytes) -> list[Payload]:
        """Cut `data`, which begins with a header, and keep what is left of it."""
        payloads: list[Payload] = []
        at, end = 0, len(data)
        self._needed = HEADER_BYTES
        while end - at >= HEADER_BYTES:
            start = at + HEADER_BYTES
            stop = start + int.from_bytes(data[at:start], "big")
            if stop - start > self.plain_bytes and not self._lets_through(data[start:stop], stop - start):
                break
            if stop > end:
                if stop - start > self.plain_bytes:
                    self._begin_large(data[at:start], stop - start, data[start:])
                    return payloads
                self._needed = max(self._needed, stop - at)
                break
            payloads.append(data[start:stop])
            at = stop
        if at < end and self.error is None:
            self._partial += data[at:] if at else data
        return payloads

    def _begin_large(self, header: bytes, size: int, data: bytes) -> None:
        """Receive a large frame where it stays: each copy of megabytes would take milliseconds.

        Memory of its own costs nothing before it is filled, piece by piece.
        """
        self._partial += header
        self._large = mmap.mmap(-1, size)
        self._large[: len(data)] = data
        self._filled = len(data)

    def _lets_through(self, payload: bytes, size: int) -> bool:
        """Decide on a large frame by its beginning; if that is not there yet, say no without an error."""
        if size <= self.limit_bytes:
            known = starts_with_put_harness(payload[:_PEEK_BYTES])
            if known is None:
                self._needed = HEADER_BYTES + min(size, len(payload) + 1)
                return False
            if known:
                return True
        self.error = FrameTooLarge(size, self.limit_bytes if size > self.limit_bytes else self.plain_bytes)
        return False
