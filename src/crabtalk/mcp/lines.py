"""Bytes to lines, sans-I/O: MCP over a pipe or a socket is one JSON text a line."""

from typing import Final

MAX_LINE_BYTES: Final = 8 << 20  # of one message; picked, not measured: pictures are sent as text


class LineTooLong(ValueError):  # noqa: N818 - reads as what it says
    """A line has no end within the bound."""


class LineReader:
    """Cuts a stream into lines; what is left of a line waits for the rest of it."""

    def __init__(self, limit: int = MAX_LINE_BYTES) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._held = 0

    def feed(self, data: bytes) -> list[bytes]:
        """Return the lines that `data` ends, without their ends; empty ones are left out.

        Raises:
            LineTooLong: if a line is longer than the limit.
        """
        *ended, rest = data.split(b"\n")
        lines = []
        for part in ended:
            self._take(part)
            lines.append(b"".join(self._parts))
            self._parts.clear()
            self._held = 0
        self._take(rest)
        return [line for line in (one.strip() for one in lines) if line]

    def rest(self) -> bytes:
        """Return what came after the last end of a line."""
        return b"".join(self._parts)

    def _take(self, part: bytes) -> None:
        self._held += len(part)
        if self._held > self._limit:
            raise LineTooLong(f"a line is longer than {self._limit} bytes")
        if part:
            self._parts.append(part)
