"""Server-sent events: bytes in, events out, as the HTML standard parses them; no I/O.

A cut may be anywhere, also inside a character or between CR and LF. What has no data is no event: comments
that keep a connection alive, and names or ids alone. An event that is cut off by the end is not one either.
"""

from typing import Final, NamedTuple

_BOM: Final = b"\xef\xbb\xbf"


class SseEvent(NamedTuple):
    """One event."""

    name: str  # `message` where the stream gives none
    data: str


class SseParser:
    """Parses one stream.

    What is buffered is what of the current event has come: whoever feeds bounds the stream, and so the event.
    """

    def __init__(self) -> None:
        self._tail: list[bytes] = []  # of the line that has not ended
        self._after_cr = False  # a LF that comes next belongs to the line before
        self._started = False
        self._name = ""
        self._data: list[str] = []

    def feed(self, data: bytes) -> list[SseEvent]:
        """Take more bytes; return the events that they end."""
        if self._after_cr and data.startswith(b"\n"):
            data = data[1:]
            self._after_cr = False
        if not data:
            return []
        self._after_cr = data.endswith(b"\r")
        found = []
        for line in data.splitlines(keepends=True):
            content = line.rstrip(b"\r\n")
            self._tail.append(content)
            if len(content) == len(line):
                break  # it has no end yet, and so it is the last one
            event = self._line(b"".join(self._tail))
            self._tail.clear()
            if event is not None:
                found.append(event)
        return found

    def _line(self, line: bytes) -> SseEvent | None:
        if not self._started:
            self._started = True
            line = line.removeprefix(_BOM)
        if not line:
            return self._dispatch()
        field, _, value = line.partition(b":")
        text = value.removeprefix(b" ").decode(errors="replace")
        if field == b"data":
            self._data.append(text)
        elif field == b"event":
            self._name = text
        return None  # ids and reconnection times mean nothing to an answer that cannot be resumed

    def _dispatch(self) -> SseEvent | None:
        event = SseEvent(self._name or "message", "\n".join(self._data)) if self._data else None
        self._name = ""
        self._data.clear()
        return event
