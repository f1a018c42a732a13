"""Where a person's lines come from: an editor on a terminal, bare lines everywhere else.

Reading can be taken back, since somebody may have to be asked something meanwhile; what was typed by then
comes with the exception and can be put in again. Nothing is asked of the terminal: an answer that does not
come, as over some connections, would be waited for.
"""

import contextlib
import errno
import os
import sys
import termios
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, TextIO

import anyio

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import CompleteEvent, Completer, Completion
    from prompt_toolkit.document import Document
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

MAX_LINE_BYTES: Final = 1 << 20  # as much as a request may hold
MAX_HISTORY_BYTES: Final = 1 << 20
_CONTROL_C: Final = "c-c"


class Withdrawn(Exception):  # noqa: N818 - what became of the reading
    """Reading was taken back; `text` is what was typed by then."""

    def __init__(self, text: str = "") -> None:
        super().__init__("reading was taken back")
        self.text = text


class Interrupted(Exception):  # noqa: N818 - as `Withdrawn`
    """The person pressed Ctrl-C."""

    def __init__(self, text: str = "") -> None:
        super().__init__("interrupted")
        self.text = text


class Input(Protocol):
    """Reads what a person types."""

    async def read(self, prompt: str, draft: str = "") -> str:
        """Return the next text.

        Raises:
            EOFError: there is none any more.
            Interrupted, Withdrawn: as they say.
        """

    async def ask(self, prompt: str) -> str:
        """Return an answer, one line that the history does not keep; raises as `read`."""

    def withdraw(self) -> None:
        """End the reading that goes on."""

    def interrupt(self) -> None:
        """End it as Ctrl-C does."""

    def end(self) -> None:
        """End it, and all that follows."""


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Let the terminal show nothing of what is typed meanwhile; it is read afterwards."""
    try:
        before = termios.tcgetattr(sys.stdin.fileno())
    except (termios.error, OSError, ValueError):
        yield
        return
    silent = list(before)
    silent[3] &= ~(termios.ECHO | termios.ECHONL)
    termios.tcsetattr(sys.stdin.fileno(), termios.TCSANOW, silent)
    try:
        yield
    finally:
        with contextlib.suppress(termios.error, OSError):  # the terminal may have gone away
            termios.tcsetattr(sys.stdin.fileno(), termios.TCSANOW, before)


class LineInput:
    """Reads lines as they are, from stdin; one that ends with a backslash goes on."""

    def __init__(self, prompts: TextIO | None = None) -> None:
        """Write prompts to `prompts`, by default to stdout, where a terminal is at both ends."""
        self._to = prompts or sys.stdout
        self._prompts = sys.stdin is not None and sys.stdin.isatty() and self._to.isatty()
        self._lines: deque[bytes] = deque()
        self._part = b""
        self._ended = False
        self._scope: anyio.CancelScope | None = None
        self._interrupted = False

    async def read(self, prompt: str, draft: str = "") -> str:
        """Return the next line, or lines."""
        text = draft
        while True:
            line = await self._line(prompt, text)
            if not line.endswith("\\"):
                return text + line
            text += f"{line[:-1]}\n"
            prompt = "… "

    async def ask(self, prompt: str) -> str:
        """Return the next line."""
        return await self._line(prompt, "")

    def withdraw(self) -> None:
        """End the reading."""
        if self._scope is not None:
            self._scope.cancel()

    def interrupt(self) -> None:
        """End it, as interrupted."""
        if self._scope is not None:
            self._interrupted = True
            self._scope.cancel()

    def end(self) -> None:
        """End it, as if there were no more."""
        self._ended = True
        self.withdraw()

    async def _line(self, prompt: str, text: str) -> str:
        if self._prompts:
            self._to.write(prompt)
            self._to.flush()
        self._interrupted = False
        with anyio.CancelScope() as self._scope:
            while not self._lines and not self._ended:
                await self._receive()
        self._scope = None
        if self._lines:
            return self._lines.popleft().decode(errors="replace")
        if self._prompts:
            self._to.write("\n")
        if self._ended:
            raise EOFError
        raise (Interrupted if self._interrupted else Withdrawn)(text)

    async def _receive(self) -> None:
        """Read what there is; it may be a file, for which nobody can wait."""
        with contextlib.suppress(PermissionError):
            await anyio.wait_readable(sys.stdin.fileno())
        data = b""
        with contextlib.suppress(OSError):  # of a terminal that has gone away
            data = os.read(sys.stdin.fileno(), 1 << 16)
        *lines, self._part = (self._part + data).split(b"\n")
        if not data or len(self._part) > MAX_LINE_BYTES:
            lines += [self._part] if self._part else []
            self._part = b""
            self._ended = not data
        self._lines.extend(lines)


class EditorInput:
    """An editor of several lines, with a history and completion of commands."""

    def __init__(self, history: Path, words: "Iterable[tuple[str, str]]") -> None:
        """Keep the history in a file that nobody else may read; complete `words`, with what they mean."""
        from prompt_toolkit import PromptSession
        from prompt_toolkit.history import FileHistory, InMemoryHistory
        from prompt_toolkit.output import ColorDepth
        from prompt_toolkit.output.vt100 import Vt100_Output

        term = os.environ.get("TERM", "")
        # A VT100 takes the parts of a colour's number for styles of their own, and blinks.
        depth = ColorDepth.DEPTH_1_BIT if term.startswith("vt") else None
        output = Vt100_Output.from_pty(sys.stdout, term=term, default_color_depth=depth)
        output.enable_cpr = False  # nothing is asked of the terminal
        kept = FileHistory(str(history)) if _prepared(history) else InMemoryHistory()
        self._editor: PromptSession[str] = PromptSession(
            history=kept,
            output=output,
            multiline=True,
            key_bindings=_keys(),
            completer=_completer(words),
            complete_while_typing=True,
            reserve_space_for_menu=4,
            prompt_continuation="… ",
        )
        self._asker: PromptSession[str] = PromptSession(output=output, key_bindings=_keys())
        self._reading: PromptSession[str] | None = None

    async def read(self, prompt: str, draft: str = "") -> str:
        """Return the next text."""
        return await self._read(self._editor, prompt, draft)

    async def ask(self, prompt: str) -> str:
        """Return one line."""
        return await self._read(self._asker, prompt, "")

    def withdraw(self) -> None:
        """End the reading, and wipe it off the screen."""
        if self._reading is not None:
            self._reading.app.erase_when_done = True
            self._stop(Withdrawn(self._reading.default_buffer.text))

    def interrupt(self) -> None:
        """End the reading, as Ctrl-C."""
        if self._reading is not None:
            self._stop(Interrupted(self._reading.default_buffer.text))

    def end(self) -> None:
        """End the reading, as Ctrl-D."""
        self._stop(EOFError())

    def _stop(self, why: Exception) -> None:
        """End the reading, unless it has ended and nobody has taken note yet."""
        reading, self._reading = self._reading, None
        if reading is None:
            return
        future = reading.app.future
        if future is not None and not future.done():
            reading.app.exit(exception=why)

    async def _read(self, editor: "PromptSession[str]", prompt: str, draft: str) -> str:
        def begun() -> None:
            self._reading = editor

        editor.app.erase_when_done = False
        try:
            return await editor.prompt_async(
                prompt, default=draft, pre_run=begun, set_exception_handler=False, handle_sigint=False
            )
        finally:
            self._reading = None


def _prepared(history: Path) -> bool:
    """Make the file of the history what it has to be; say whether it can be used."""
    try:
        descriptor = os.open(history, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno in {errno.ELOOP, errno.EACCES, errno.EROFS, errno.ENOENT, errno.EISDIR}:
            return False
        raise
    with os.fdopen(descriptor, "r+b") as file:
        os.fchmod(descriptor, 0o600)
        size = file.seek(0, os.SEEK_END)
        if size > MAX_HISTORY_BYTES:
            file.seek(size - MAX_HISTORY_BYTES // 2)
            kept = file.read().partition(b"\n\n")[2]  # an entry begins after an empty line
            file.seek(0)
            file.write(b"\n" + kept)
            file.truncate()
    return True


def _keys() -> "KeyBindings":
    from prompt_toolkit.key_binding import KeyBindings

    keys = KeyBindings()

    @keys.add("enter")
    def send(event: "KeyPressEvent") -> None:
        buffer = event.current_buffer
        if buffer.document.char_before_cursor == "\\":
            buffer.delete_before_cursor()
            buffer.newline(copy_margin=False)
        else:
            buffer.validate_and_handle()

    @keys.add("c-j")
    @keys.add("escape", "enter")
    def new_line(event: "KeyPressEvent") -> None:
        event.current_buffer.newline(copy_margin=False)

    @keys.add(_CONTROL_C)
    def interrupt(event: "KeyPressEvent") -> None:
        event.app.exit(exception=Interrupted(event.current_buffer.text))

    return keys


def _completer(words: "Iterable[tuple[str, str]]") -> "Completer":
    from prompt_toolkit.completion import Completer, Completion

    class Commands(Completer):
        """Completes the first word, where it begins with a slash."""

        def get_completions(
            self,
            document: "Document",
            complete_event: "CompleteEvent",  # noqa: ARG002 - as it is called
        ) -> "Iterator[Completion]":
            typed = document.text_before_cursor
            if not typed.startswith("/") or any(one.isspace() for one in typed):
                return
            for word, meaning in words:
                if word.startswith(typed):
                    yield Completion(word, start_position=-len(typed), display_meta=meaning)

    return Commands()
