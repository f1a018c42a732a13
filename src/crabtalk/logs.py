"""The daemon's log: to stderr, never to stdout, and to whoever follows it.

Every module logs through `logging.getLogger(__name__)`, with `extra={"agent": …, "harness": …}` where there
is one; what guests log goes to `guest_line`. A line is rendered once, where it was logged, and written by a
thread, so that a stderr that nobody reads slows nothing down: what does not fit in its queue is counted, and
the count is written when there is room again.
"""

import contextlib
import logging
import os
import sys
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final

import trio

from crabtalk.config import LogConfig
from crabtalk.config_values import Secret
from crabtalk.log_text import GUEST, LogLine, Redactor, Render, as_json, as_text, line_of

LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
_TREES: Final = ("crabtalk", "berm", "rvcore")  # the roots of our loggers
_WAITING_LINES: Final = 10_000  # for stderr; picked, not measured
_FOLLOWED_LINES: Final = 1000  # for one who follows
_CLOSE_S: Final = 1.0

guest_logger = logging.getLogger(GUEST)


def guest_line(text: str, *, agent: str, harness: str, tool: str = "") -> None:
    """Log one line that a guest wrote."""
    guest_logger.info("%s", text, extra={"agent": agent, "harness": harness, "tool": tool})


class Lines:
    """The lines that one follower has not read yet; iterate over it."""

    def __init__(self, level: str, backlog: Iterable[LogLine]) -> None:
        """Take those of at least `level`."""
        self.lost = 0  # lines that were dropped because they were not read in time
        self._least = LEVELS[level]
        self._waiting = deque(line for line in backlog if LEVELS[line.level] >= self._least)
        self._arrived = trio.Event()
        self._token = trio.lowlevel.current_trio_token()

    def offer(self, line: LogLine) -> None:
        """Take a line, from any thread."""
        if LEVELS[line.level] < self._least:
            return
        if len(self._waiting) >= _FOLLOWED_LINES:
            self.lost += 1
            return
        self._waiting.append(line)
        with contextlib.suppress(trio.RunFinishedError):
            self._token.run_sync_soon(self._wake, idempotent=True)

    def _wake(self) -> None:
        self._arrived.set()

    def __aiter__(self) -> AsyncIterator[LogLine]:
        return self

    async def __anext__(self) -> LogLine:
        while not self._waiting:
            self._arrived = trio.Event()
            # A line that came between the test and the new event has its wake-up still to run.
            await self._arrived.wait()
        await trio.lowlevel.checkpoint()
        return self._waiting.popleft()


class Logs(logging.Handler):
    """Where all records go; one for a process."""

    def __init__(self, config: LogConfig, secrets: Iterable[Secret], write: Callable[[str], object]) -> None:
        """Render as `config` says and hand finished lines to `write`, which must not block."""
        super().__init__()
        self._write = write
        self._ring: deque[LogLine] = deque(maxlen=config.keep_lines)
        self._followers: list[Lines] = []
        self.configure(config, secrets)

    def configure(self, config: LogConfig, secrets: Iterable[Secret]) -> None:
        """Obey another configuration from the next record on."""
        render = _render(config.format)
        redactor = Redactor(secrets)
        with self._held():
            self._render, self._redactor, self._least = render, redactor, LEVELS[config.level]
        for tree in _TREES:
            logging.getLogger(tree).setLevel(LEVELS[config.level])

    def emit(self, record: logging.LogRecord) -> None:
        """Render and pass on; `logging` holds the lock."""
        try:
            line = line_of(record, self._redactor)
        except Exception:  # noqa: BLE001 - a field that cannot be shown must not end what it was about
            self.handleError(record)
            return
        self._ring.append(line)
        for follower in self._followers:
            follower.offer(line)
        if record.levelno >= self._least:
            self._write(self._render(line))

    def recent(self, level: str = "debug") -> list[LogLine]:
        """Return the newest lines, the oldest first."""
        with self._held():
            return [line for line in self._ring if LEVELS[line.level] >= LEVELS[level]]

    @contextmanager
    def followed(self, level: str) -> Iterator[Lines]:
        """Follow the log from its newest lines on."""
        with self._held():
            lines = Lines(level, self._ring)
            self._followers.append(lines)
        try:
            yield lines
        finally:
            with self._held():
                self._followers.remove(lines)

    @contextmanager
    def _held(self) -> Iterator[None]:
        self.acquire()
        try:
            yield
        finally:
            self.release()


class StderrWriter:
    """Writes lines to a file descriptor from a thread of its own."""

    def __init__(self, descriptor: int = 2) -> None:
        """Start the thread."""
        self._descriptor = descriptor
        self._waiting: deque[str] = deque()
        self._dropped = 0
        self._changed = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="crabtalk-log", daemon=True)
        self._thread.start()

    def __call__(self, text: str) -> None:
        """Take a line; from any thread, never blocking for long."""
        with self._changed:
            if len(self._waiting) >= _WAITING_LINES:
                self._dropped += 1
                return
            self._waiting.append(text)
            self._changed.notify()

    def close(self) -> None:
        """Write what waits, for a second at most."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(_CLOSE_S)

    def _run(self) -> None:
        while (lines := self._next()) is not None:
            data = "".join(f"{line}\n" for line in lines).encode(errors="backslashreplace")
            try:
                while data:
                    data = data[os.write(self._descriptor, data) :]
            except OSError:
                return  # nobody can be told

    def _next(self) -> list[str] | None:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closing)
            lines = list(self._waiting)
            self._waiting.clear()
            if self._dropped:
                lines.append(f"crabtalk.logs: {self._dropped} lines were dropped: stderr was not read")
                self._dropped = 0
            return lines or None


@contextmanager
def logging_to_stderr(config: LogConfig, secrets: Iterable[Secret] = ()) -> Iterator[Logs]:
    """Send every record of ours, and the warnings of others, to stderr."""
    writer = StderrWriter()
    logs = Logs(config, secrets, writer)
    root = logging.getLogger()
    root.addHandler(logs)
    try:
        yield logs
    finally:
        root.removeHandler(logs)
        for tree in _TREES:
            logging.getLogger(tree).setLevel(logging.NOTSET)
        writer.close()


def _render(form: str) -> Render:
    if form == "json":
        return as_json
    # Set by systemd to where stderr leads; the manager adds the time itself.
    journal = "JOURNAL_STREAM" in os.environ and not sys.stderr.isatty()
    return lambda line: as_text(line, journal=journal)
