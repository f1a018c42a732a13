"""The capability over commands: `berm.exec.run`, a shell beneath one directory, and the files there.

Whoever holds it holds a shell as this user: the directory is where commands start and not what they can
reach, and no command is filtered. What is promised: a command ends in time and with all that it started; its
output and its resources are bounded; it sees nothing of our environment; and where the kernel allows it, it
sees neither the daemon's home nor its processes. `_supervisor` says how, `_process` watches it; this file
turns a request into a task.
"""

import functools
import math
import os
import pwd
import resource
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import anyio.to_thread

from berm import Capability, capability
from crabtalk.capabilities import _supervisor
from crabtalk.capabilities._beneath import Root, explained
from crabtalk.capabilities._call import Call
from crabtalk.capabilities._failure import Failure
from crabtalk.capabilities._process import GRACE_S, SCRIPT, Command, Ended, Output
from crabtalk.capabilities.files import files

LIMIT_S: Final = 30.0
OUTPUT_BYTES: Final = 1 << 20  # of each stream
MAX_COMMAND_BYTES: Final = 131_071  # what Linux takes as one argument, without its NUL
MAX_ENVIRONMENT_BYTES: Final = 256 << 10
_LAST_WORDS: Final = 2000  # bytes of output that go into the message about a timeout

# Per command; picked, not measured.
_MAX_FILE_BYTES: Final = 16 << 30
_MAX_PROCESSES: Final = 2048  # beyond what is running when it starts

_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_SHELLS: Final = ("/bin/bash", "/bin/sh")

Pairs = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Commands:
    """The bound: a shell that starts beneath `root`, isolated as well as `level` says."""

    root: Root
    level: str
    limit_s: float = LIMIT_S
    output_bytes: int = OUTPUT_BYTES

    async def run(self, command: str, cwd: str, environment: Pairs, limit_s: float) -> Ended:
        """Run a command to its end.

        **Cancellation:** the command is stopped first: TERM, a second's grace, KILL.

        Raises:
            Failure, Refused: in the guest's terms.
        """
        _check_command(command)
        variables = base_environment() | _checked(environment)
        # Starting takes file system calls and a fork, which are not for an event loop.
        running = await anyio.to_thread.run_sync(self._start, command, cwd, variables)
        return await running.run(limit_s)

    def _start(self, command: str, cwd: str, variables: dict[str, str]) -> Command:
        with explained(cwd), self.root.locate(cwd) as place:
            cwd_fd = place.open_directory()
        try:
            task = _supervisor.Task(
                level=self.level,
                shell=os.fsencode(_shell()),
                command=command.encode(),
                environment={key.encode(): value.encode() for key, value in variables.items()},
                cwd_fd=cwd_fd,
                home=os.fsencode(os.path.realpath(self.root.home)),
                grace_s=GRACE_S,
                limits=_rlimits(self.limit_s),
            )
            return Command(task, self.output_bytes)
        finally:
            os.close(cwd_fd)


def commands(root: str | os.PathLike[str] | Root) -> tuple[Capability, ...]:
    """Grant the files beneath `root`, and a shell that starts there.

    Raises:
        ValueError: if it is no directory, or lies in the daemon's own one.
    """
    opened = root if isinstance(root, Root) else Root(root)
    bound = Commands(opened, isolation_level())

    @capability("berm.exec.run", aliases=("crabtalk.exec.run",))
    async def run(call: Call, command: str, cwd: str, env: list[tuple[str, str]]) -> dict[str, str | int]:
        limit_s = min(bound.limit_s, call.deadline_left)
        ended = await bound.run(command, cwd, env, limit_s)
        if ended.stopped:
            raise Failure(f"command ran past {limit_s:.3g} s and was killed{_last_words(ended)}")
        return _reply(ended)

    return (*files(opened), run)


_probing = threading.Lock()


def isolation_level() -> str:
    """Return the best level of isolation that this machine allows, tried out once.

    Once, and before any command ran: a command that uses up what isolation needs must not get less of it.
    """
    with _probing:
        return _probed_level()


@functools.cache
def _probed_level() -> str:
    if not sys.executable:
        return _supervisor.NONE
    probe = subprocess.run(
        [sys.executable, "-I", "-S", SCRIPT, "probe"],
        capture_output=True,
        check=False,
        text=True,
        timeout=60,
    )
    return probe.stdout if probe.stdout in _supervisor.LEVELS else _supervisor.NONE


def base_environment() -> dict[str, str]:
    """Build the environment of a command from nothing; of ours it has what names no secret."""
    user = pwd.getpwuid(os.geteuid())
    return {
        "PATH": os.environ.get("PATH") or _PATH,
        "HOME": os.environ.get("HOME") or user.pw_dir,
        "LANG": os.environ.get("LANG") or "C.UTF-8",
        "TMPDIR": tempfile.gettempdir(),
        "USER": user.pw_name,
    }


def _check_command(command: str) -> None:
    if "\0" in command:
        raise Failure("command contains a NUL byte")
    if len(command.encode()) > MAX_COMMAND_BYTES:
        raise Failure(f"command is longer than {MAX_COMMAND_BYTES} bytes")


def _checked(environment: Pairs) -> dict[str, str]:
    total = 0
    for key, value in environment:
        if not key or "=" in key or "\0" in key + value:
            raise Failure(f"not an environment variable: `{key[:64]}`")
        total += len(key.encode()) + len(value.encode()) + 2
        if total > MAX_ENVIRONMENT_BYTES:
            raise Failure(f"environment is larger than {MAX_ENVIRONMENT_BYTES} bytes")
    return dict(environment)


def _rlimits(limit_s: float) -> tuple[tuple[int, int], ...]:
    processors = os.cpu_count() or 1
    limits = [
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, _MAX_FILE_BYTES),
        (resource.RLIMIT_CPU, math.ceil(limit_s + 1) * processors),  # one process can keep them all busy
    ]
    running = _running_threads()
    if running is not None:
        limits.append((resource.RLIMIT_NPROC, running + _MAX_PROCESSES))
    return tuple(limits)


def _running_threads() -> int | None:
    """Return how many threads the machine runs; the limit counts those of the user elsewhere too."""
    try:
        return int(Path("/proc/loadavg").read_text("ascii").split()[3].partition("/")[2])
    except (OSError, ValueError, IndexError):
        return None


def _shell() -> str:
    for shell in _SHELLS:
        if os.access(shell, os.X_OK):
            return shell
    raise Failure("this machine has no shell")


def _reply(ended: Ended) -> dict[str, str | int]:
    reply: dict[str, str | int] = {
        "stdout": _text(ended.stdout),
        "stderr": _text(ended.stderr),
        "exit_code": ended.exit_code,
    }
    for name, output in (("stdout_dropped", ended.stdout), ("stderr_dropped", ended.stderr)):
        if output.dropped:
            reply[name] = output.dropped
    return reply


def _text(output: Output) -> str:
    return output.kept.decode(errors="replace")


def _last_words(ended: Ended) -> str:
    """Say what a command wrote last, for the message that is all that a guest gets of it."""
    last = (ended.stderr.kept or ended.stdout.kept)[-_LAST_WORDS:]
    return f"; it last wrote:\n{last.decode(errors='replace')}" if last else ""
