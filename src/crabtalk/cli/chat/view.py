"""What a turn looks like while it runs: on a terminal that can go back in it, and on everything else.

A view is told of the steps of a turn, and draws. On a terminal the lines below the last final one are drawn
again as long as they may change: the end of the text, calls of tools that have no result. That takes no
answer from the terminal, only what every one since the VT100 does. Everything that comes from a model or a
tool is escaped here.
"""

import shutil
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TextIO

from berm.cli.output import DIM, RED, escape, escape_line, paint

if TYPE_CHECKING:
    from crabtalk.cli.chat.markdown import GrowingMarkdown

MAX_ARGUMENTS: Final = 200  # characters of a call's arguments that are shown
MAX_ERROR_LINES: Final = 5
_SPINNER: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_ASCII_SPINNER: Final = "-\\|/"
_FRAMES_A_SECOND: Final = 10
_LEAST_COLUMNS: Final = 20
_SHOWN_AFTER_S: Final = 0.3  # that something is waited for
_WORTH_TELLING_S: Final = 1.0  # of thinking


class Call(NamedTuple):
    """A call of a tool."""

    id: str
    name: str
    arguments: str


class View(Protocol):
    """Draws a turn."""

    def begin(self) -> None:
        """Show that an answer is waited for."""

    def text(self, text: str) -> None:
        """Show more of the answer."""

    def text_ended(self) -> None:
        """Show all of the text: it is complete."""

    def thinking(self, text: str) -> None:
        """Show that the model thinks."""

    def thinking_ended(self) -> None:
        """Show that it has thought."""

    def tools(self, calls: Sequence[Call]) -> None:
        """Show what is called."""

    def tool_ended(self, call_id: str, output: str, duration_ms: int, *, is_error: bool) -> None:
        """Show how a call ended."""

    def note(self, text: str) -> None:
        """Say something that is no part of the conversation."""

    def complain(self, text: str) -> None:
        """Say what went wrong."""

    def tick(self) -> None:
        """Draw anew what moves, ten times a second."""

    def end(self) -> None:
        """Make everything final that is shown."""

    def gap(self) -> None:
        """Set a turn apart from what follows."""

    def pause(self) -> None:
        """Let nothing move while the person is asked something."""

    def resume(self) -> None:
        """Go on."""


class Calls:
    """The calls of one answer that have no result, by what is known of their ids."""

    def __init__(self) -> None:
        self._open: list[tuple[Call, float]] = []

    def begin(self, calls: Sequence[Call]) -> None:
        """Take those that are run now."""
        self._open = [(call, time.monotonic()) for call in calls]

    def end(self, call_id: str) -> Call:
        """Take one away; where its id is not known, and there are several, it has no name."""
        for number, (call, _) in enumerate(self._open):
            if call.id == call_id or (not call.id and len(self._open) == 1):
                del self._open[number]
                return call
        return Call(call_id, "a tool", "")

    def running(self) -> list[tuple[Call, float]]:
        """Return those that run, and for how many seconds."""
        now = time.monotonic()
        return [(call, now - began) for call, began in self._open]

    def clear(self) -> None:
        """Forget all of them."""
        self._open = []


def call_line(call: Call) -> str:
    """Write a call in one line."""
    arguments = call.arguments[: MAX_ARGUMENTS + 1]
    if len(arguments) > MAX_ARGUMENTS:
        arguments = f"{arguments[:MAX_ARGUMENTS]}…"
    return escape_line(f"{call.name} {arguments}".rstrip())


def duration(ms: int) -> str:
    """Write how long something took."""
    if ms < 1000:  # noqa: PLR2004 - a second
        return f"{ms} ms"
    return f"{ms / 1000:.1f} s" if ms < 60_000 else f"{ms // 60_000} min {ms // 1000 % 60} s"  # noqa: PLR2004


def error_lines(output: str) -> list[str]:
    """Return the beginning of what a tool that failed has said."""
    lines = [line for line in output.splitlines() if line.strip()]
    shown = [escape_line(line[:MAX_ARGUMENTS]) for line in lines[:MAX_ERROR_LINES]]
    return [*shown, "…"] if len(lines) > len(shown) else shown


class PlainView:
    """Writes things one after the other, for pipes, and for terminals that cannot do more."""

    def __init__(self, out: TextIO | None = None, notes: TextIO | None = None) -> None:
        """Write the conversation to `out`, everything about it to `notes`; by default both to stdout."""
        self._out = out or sys.stdout
        self._notes = notes or self._out
        self._calls = Calls()
        self._in_line = False  # something stands in the last line

    def begin(self) -> None:
        """Nothing is shown for it."""

    def text(self, text: str) -> None:
        """Write it as it comes."""
        if text:
            self._out.write(escape(text))
            self._out.flush()
            self._in_line = not text.endswith("\n")

    def text_ended(self) -> None:
        """End the line."""
        if self._in_line:
            self._out.write("\n")
            self._out.flush()
            self._in_line = False

    def thinking(self, text: str) -> None:
        """Nothing is shown of it."""

    def thinking_ended(self) -> None:
        """As `thinking`."""

    def tools(self, calls: Sequence[Call]) -> None:
        """Write a line for each."""
        self._calls.begin(calls)
        for call in calls:
            self.note(f"> {call_line(call)}")

    def tool_ended(self, call_id: str, output: str, duration_ms: int, *, is_error: bool) -> None:
        """Write a line, and what went wrong."""
        call = self._calls.end(call_id)
        what = "failed after" if is_error else "took"
        self.note(f"< {escape_line(call.name)} {what} {duration(duration_ms)}")
        if is_error:
            self.note("\n".join(f"  {line}" for line in error_lines(output)))

    def note(self, text: str) -> None:
        """Write it in lines of its own."""
        self.text_ended()
        print(escape(text), file=self._notes, flush=True)

    def complain(self, text: str) -> None:
        """As `note`."""
        self.note(f"error: {text}")

    def tick(self) -> None:
        """Nothing moves."""

    def end(self) -> None:
        """End the line."""
        self.text_ended()
        self._calls.clear()

    def gap(self) -> None:
        """Leave none: what is read line by line has no need of it."""

    def pause(self) -> None:
        """End the line."""
        self.text_ended()

    def resume(self) -> None:
        """Nothing moves."""


class TerminalView:
    """Draws on a terminal: Markdown, and what runs."""

    def __init__(self) -> None:
        self._size: Callable[[], tuple[int, int]] = shutil.get_terminal_size
        self._colour = paint("x", DIM, sys.stdout) != "x"
        self._calls = Calls()
        self._text: GrowingMarkdown | None = None
        self._thinking_since: float | None = None
        self._waiting_since: float | None = None
        self._live = 0  # lines below the last final one
        self._shown: list[str] = []
        self._changed = False
        self._paused = False
        fancy = "utf" in (sys.stdout.encoding or "").lower()
        self._done, self._failed, self._spinner = (
            ("✓", "✗", _SPINNER) if fancy else ("+", "x", _ASCII_SPINNER)
        )

    def begin(self) -> None:
        """Show that something is waited for."""
        self._waiting_since = time.monotonic()

    def text(self, text: str) -> None:
        """Take it; it is drawn with the next tick."""
        self._waiting_since = None
        if self._text is None:
            from crabtalk.cli.chat.markdown import GrowingMarkdown

            self._text = GrowingMarkdown(self._columns(), colour=self._colour)
            self._draw([""])
        self._text.feed(text)
        self._changed = True

    def text_ended(self) -> None:
        """Draw all of it for good."""
        if self._text is not None:
            text, self._text = self._text, None
            self._waiting_since = time.monotonic()
            self._draw([*text.take(), *text.finish()])

    def thinking(self, text: str) -> None:  # noqa: ARG002 - that it thinks is shown, not what
        """Show for how long."""
        self._waiting_since = None
        if self._thinking_since is None:
            self._thinking_since = time.monotonic()
            self._changed = True

    def thinking_ended(self) -> None:
        """Leave a line that says how long it was."""
        if self._thinking_since is not None:
            seconds = time.monotonic() - self._thinking_since
            self._thinking_since = None
            self._waiting_since = time.monotonic()
            told = self._dim(f"  thought for {duration(round(seconds * 1000))}")
            self._draw([told] if seconds >= _WORTH_TELLING_S else [])

    def tools(self, calls: Sequence[Call]) -> None:
        """Show them, running."""
        self._waiting_since = None
        self._calls.begin(calls)
        self._draw([""])

    def tool_ended(self, call_id: str, output: str, duration_ms: int, *, is_error: bool) -> None:
        """Leave its line, and what went wrong."""
        call = self._calls.end(call_id)
        mark = self._painted(self._failed, RED) if is_error else self._done
        took = duration(duration_ms)
        lines = [f"  {mark} {self._cut(call_line(call), 8 + len(took))}  {self._dim(took)}"]
        if is_error:
            lines += [self._painted(f"    {self._cut(line, 6)}", RED) for line in error_lines(output)]
        self._draw(lines)
        if not self._calls.running():
            self._waiting_since = time.monotonic()

    def note(self, text: str) -> None:
        """Write it dimly."""
        self._draw([self._dim(line) for line in escape(text).split("\n")])

    def complain(self, text: str) -> None:
        """Write it in red."""
        self._draw([self._painted(f"error: {line}", RED) for line in escape(text).split("\n")])

    def tick(self) -> None:
        """Draw what changed, and what moves."""
        moves = self._waiting_since or self._thinking_since or self._calls.running()
        if self._changed or moves:
            self._draw(self._text.take() if self._text is not None else [])

    def end(self) -> None:
        """Make everything final."""
        self.text_ended()
        self.thinking_ended()
        self._waiting_since = None
        self._calls.clear()
        self._draw([])

    def pause(self) -> None:
        """Wipe away what moves; it is there again afterwards."""
        self.text_ended()
        self._paused = True
        self._draw([])

    def resume(self) -> None:
        """Draw it again with the next tick."""
        self._paused = False

    def gap(self) -> None:
        """Leave an empty line."""
        self._draw([""])

    # Drawing

    def _draw(self, final: Sequence[str]) -> None:
        """Put lines above those that may change, and draw these anew."""
        self._changed = False
        live = self._moving()
        if not final and live == self._shown:
            return
        back = ""
        if self._live:
            up = f"\x1b[{self._live - 1}A" if self._live > 1 else ""
            back = f"\r{up}\x1b[J"
        sys.stdout.write(back + "".join(f"{line}\n" for line in final) + "\n".join(live))
        sys.stdout.flush()
        self._live, self._shown = len(live), live

    def _moving(self) -> list[str]:
        """Return the lines that may change."""
        if self._paused:
            return []
        if self._text is not None:
            return self._text.tail()[-max(1, self._size()[1] - 2) :]
        if running := self._calls.running():
            lines = [self._running(call, seconds) for call, seconds in running]
            return lines[: max(1, self._size()[1] - 2)]
        since, what = self._thinking_since, "thinking"
        if since is None:
            since, what = self._waiting_since, "waiting"
        seconds = time.monotonic() - since if since is not None else 0.0
        return [self._dim(f"  {self._frame()} {what} {int(seconds)} s")] if seconds > _SHOWN_AFTER_S else []

    def _running(self, call: Call, seconds: float) -> str:
        return f"  {self._frame()} {self._cut(call_line(call), 14)}  {self._dim(f'{int(seconds)} s')}"

    def _frame(self) -> str:
        return self._spinner[int(time.monotonic() * _FRAMES_A_SECOND) % len(self._spinner)]

    def _columns(self) -> int:
        return max(_LEAST_COLUMNS, self._size()[0] - 1)

    def _cut(self, line: str, taken: int) -> str:
        """Shorten a line to what fits beside `taken` columns; a wide character takes two."""
        from rich.cells import cell_len, set_cell_size

        room = max(_LEAST_COLUMNS - taken, self._columns() - taken)
        return line if cell_len(line) <= room else f"{set_cell_size(line, room - 1)}…"

    def _dim(self, text: str) -> str:
        return self._painted(text, DIM)

    def _painted(self, text: str, style: str) -> str:
        return paint(text, style, sys.stdout) if text else text
