"""A person at a terminal: types, and reads what is shown, waiting for it and for nothing else."""

import fcntl
import os
import pty
import re
import select
import struct
import sys
import termios
import time

WITHIN_S = 30
# CSI and two-byte sequences, as terminals understand them.
SEQUENCE = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|[@-Z\\-_=>])")
# What a terminal answers: device status, attributes, colours, the answerback.
QUERY = re.compile(r"\x1b\[[0-9;?>]*[nc]|\x1b\]\d+;\?|\x05|\x1bZ")


class Terminal:
    """Runs a program whose stdin, stdout and stderr are one terminal."""

    def __init__(self, *command, columns=80, lines=24, **environment):
        self.shown = ""  # everything, as it was sent
        self._read_to = 0
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            # The size is the terminal's, before the program can ask for it. Readline, which pytest imports,
            # sets COLUMNS behind the back of `os.environ`; pytest's workers have inherited it.
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
            for name in ("NO_COLOR", "COLUMNS", "LINES"):
                os.environ.pop(name, None)
            os.environ.update({"LC_ALL": "C.UTF-8", "TERM": "xterm-256color", **environment})
            os.execve(command[0], command, os.environ)
        os.set_inheritable(self.master, False)  # else the next terminal's program keeps this one open

    @property
    def text(self):
        """What was shown, without the sequences that a terminal acts on."""
        return SEQUENCE.sub("", self.shown).replace("\r", "")

    def wait_for(self, wanted):
        """Wait until something is shown after what was waited for before."""
        self.wait_for_one(wanted)
        return self

    def wait_for_one(self, *wanted):
        """Wait until one of several things is shown, and return which."""
        deadline = time.monotonic() + WITHIN_S
        while not (found := self._first_of(wanted)):
            assert time.monotonic() < deadline, self._complaint(wanted)
            assert self._receive(), self._complaint(wanted)
        place, which = found
        self._read_to = place + len(which)
        return which

    def _first_of(self, wanted):
        places = [(self.text.find(one, self._read_to), one) for one in wanted]
        return min((found for found in places if found[0] >= 0), default=None)

    def type(self, keys):
        os.write(self.master, keys.encode())
        return self

    def say(self, text):
        """Type a line and send it."""
        return self.type(f"{text}\r")

    def ended(self):
        """Wait for the program's end; return its exit code."""
        while self._receive():
            pass
        self.close()
        return os.waitstatus_to_exitcode(self.status)

    def close(self):
        """Let the terminal go away, and the program with it."""
        if self.master is not None:
            os.close(self.master)
            self.master = None
            self.status = os.waitpid(self.pid, 0)[1]

    def echoes(self):
        """Say whether the terminal shows what is typed."""
        return bool(termios.tcgetattr(self.master)[3] & termios.ECHO)

    def _complaint(self, wanted):
        before, after = self.text[: self._read_to], self.text[self._read_to :]
        return f"{wanted!r} was not shown after:\n{before}\n--- then\n{after}"

    def _receive(self):
        if not select.select([self.master], [], [], WITHIN_S)[0]:
            return False
        try:
            data = os.read(self.master, 65536)
        except OSError:  # Linux says EIO at the end
            return False
        self.shown += data.decode(errors="replace")
        return bool(data)


def screen(shown, columns, lines):
    """Return the lines that a terminal shows, those that scrolled away first.

    It knows what moves the cursor and what erases; everything else that begins as a sequence does nothing.
    """
    rows, row, column = [""], 0, 0
    for part in re.findall(rf"{SEQUENCE.pattern}|.", shown, re.DOTALL):
        number, what = int(re.sub(r"\D", "", part) or 1), part[-1] if part[:2] == "\x1b[" else part
        if what == "\n" or (column == columns and part.isprintable()):
            row, column = row + 1, 0 if part != "\n" else column
            rows += [""] * (row + 1 - len(rows))
        if what == "\r":
            column = 0
        elif what == "\b":
            column = max(0, column - 1)
        elif part.isprintable():
            rows[row] = rows[row].ljust(column)[:column] + part + rows[row][column + 1 :]
            column += 1
        elif what == "A" and len(part) > 1:
            row = max(row - number, len(rows) - lines, 0)
        elif what == "C" and len(part) > 1:
            column = min(column + number, columns - 1)
        elif what == "D" and len(part) > 1:
            column = max(0, column - number)
        elif part == "\x1b[J":
            rows[row:] = [rows[row][:column]]
    return [one.rstrip() for one in rows]


def crabtalk(*arguments, **options):
    return Terminal(sys.executable, "-W", "error", "-m", "crabtalk", *arguments, **options)
