"""What `berm` exits with, and the errors that end a command.

0 the tool is done; 2 the tool failed (its message is on stderr); 1 the host could not run it, a trap
included; 64 the command line makes no sense; 130 Ctrl-C.
"""

DONE = 0
HOST_ERROR = 1
FAILED = 2
USAGE = 64
INTERRUPTED = 130


class CommandError(Exception):
    """End a command with one sentence on stderr and `status`."""

    def __init__(self, message: str, *, status: int = HOST_ERROR) -> None:
        super().__init__(message)
        self.status = status
