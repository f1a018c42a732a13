"""A server that we started: its pipes, and the certainty that nothing of it stays.

The program runs under the supervisor that commands of harnesses have: in a session of its own, apart from the
daemon's home and processes where the kernel allows that, and killed with all that came of it when it ends, is
stopped, or when the daemon dies in whatever way. Knows nothing of MCP.
"""

import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import trio

from crabtalk.capabilities import _supervisor
from crabtalk.capabilities._process import SCRIPT
from crabtalk.capabilities.commands import isolation_level
from crabtalk.mcp.servers import ServerConfig

# What a server gets of our environment: nothing that may be a secret.
_INHERITED: Final = (
    *("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"),
    *("LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "XDG_RUNTIME_DIR"),
)
_START_UP: Final = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")  # for a Python outside of its usual place
_SHELL: Final = b"/bin/sh"
END_S: Final = 2.0  # for a server to end by itself when its stdin is closed
GRACE_S: Final = 1.0  # between TERM and KILL
_GONE_S: Final = 4.0  # after KILL, until we stop believing that the supervisor works
_CHUNK: Final = 1 << 16
_STDERR_LINE: Final = 4096  # bytes; the rest of a longer line is another line


@dataclass(slots=True)
class ServerProcess:
    """A running server."""

    stdin: trio.lowlevel.FdStream
    stdout: trio.lowlevel.FdStream
    ended: trio.Event  # everything of it is dead
    said: dict[str, str]  # by the supervisor: `started`, `failed`, `exit`

    def end(self) -> str:
        """Say how it ended, as far as that is known."""
        if "failed" in self.said:
            return f"it cannot be started: {self.said['failed']}"
        if "exit" not in self.said:
            return "it closed its output"
        code = self.said["exit"]
        return "it was ended by a signal" if code == "-1" else f"it ended with exit status {code}"


@asynccontextmanager
async def running(
    config: ServerConfig, home: Path, note: Callable[[str], None]
) -> AsyncGenerator[ServerProcess]:
    """Start a server, hand the lines of its stderr to `note`, and end it with the block.

    **Cancellation:** it is ended: its stdin is closed, then TERM, then KILL, all of it in seconds.

    Raises:
        OSError: if no process can be started.
    """
    control, theirs = socket.socketpair()
    with theirs:
        try:
            # Starting takes a fork and file system calls, which are not for the loop.
            task, supervisor = await trio.to_thread.run_sync(_start, config, home, theirs.fileno())
        except BaseException:
            control.close()
            raise
    stdin, stdout, stderr = (
        _detached(pipe) for pipe in (supervisor.stdin, supervisor.stdout, supervisor.stderr)
    )
    process = ServerProcess(stdin, stdout, trio.Event(), {})
    talk = trio.socket.from_stdlib_socket(control)
    async with stdin, stdout, stderr, trio.open_nursery() as nursery:
        nursery.start_soon(_listen, talk, task, process)
        nursery.start_soon(_read_stderr, stderr, note)
        try:
            yield process
        finally:
            with trio.CancelScope(shield=True):
                await _stop(process, talk, supervisor)
            nursery.cancel_scope.cancel()


def _start(config: ServerConfig, home: Path, control: int) -> tuple[bytes, subprocess.Popen[bytes]]:
    if not sys.executable:
        raise OSError("this Python does not know its own executable")
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    environment = inherited | {name: value.reveal() for name, value in config.env.items()}
    if shutil.which(config.command, path=environment.get("PATH")) is None:
        raise OSError(f"there is no program `{config.command}`")
    here = os.environ.get("HOME", "/")
    cwd = os.open(here if os.path.isdir(here) else "/", os.O_RDONLY | os.O_DIRECTORY)  # noqa: PTH112 - text
    try:
        task = _supervisor.Task(
            level=isolation_level(),
            shell=_SHELL,
            command=f"exec {shlex.join([config.command, *config.args])}".encode(),
            environment={key.encode(): value.encode() for key, value in environment.items()},
            cwd_fd=cwd,
            home=os.fsencode(os.path.realpath(home)),
            grace_s=GRACE_S,
            limits=(),
        )
        process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-I", "-S", SCRIPT, str(control)],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=(control, cwd),
            cwd="/",
            env={name: os.environ[name] for name in _START_UP if name in os.environ},
            start_new_session=True,
        )
        return _supervisor.pack(task), process
    finally:
        os.close(cwd)


def _detached(pipe: object) -> trio.lowlevel.FdStream:
    with pipe:  # type: ignore[attr-defined]
        return trio.lowlevel.FdStream(os.dup(pipe.fileno()))  # type: ignore[attr-defined]


async def _listen(talk: trio.socket.SocketType, task: bytes, process: ServerProcess) -> None:
    """Give the supervisor its task and hear what it says, to its end."""
    with trio.CancelScope(shield=True):
        with suppress(OSError):
            rest = memoryview(task)
            while rest:
                rest = rest[await talk.send(rest) :]
        text = b""
        with suppress(OSError):
            while data := await talk.recv(4096):
                text += data
                _note_said(text, process.said)
        talk.close()
        process.ended.set()


def _note_said(text: bytes, said: dict[str, str]) -> None:
    for line in text.decode(errors="replace").splitlines():
        what, _, value = line.partition(" ")
        said.setdefault(what, value)


async def _read_stderr(stderr: trio.lowlevel.FdStream, note: Callable[[str], None]) -> None:
    held = b""
    with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
        while data := await stderr.receive_some(_CHUNK):
            *lines, held = (held + data).split(b"\n")
            while len(held) > _STDERR_LINE:
                lines, held = [*lines, held[:_STDERR_LINE]], held[_STDERR_LINE:]
            for line in lines:
                note(line.rstrip(b"\r").decode(errors="replace"))
    if held:
        note(held.decode(errors="replace"))


async def _stop(
    process: ServerProcess, talk: trio.socket.SocketType, supervisor: subprocess.Popen[bytes]
) -> None:
    await process.stdin.aclose()
    with trio.move_on_after(END_S):
        await process.ended.wait()
    if not process.ended.is_set():
        with suppress(OSError):
            talk.shutdown(socket.SHUT_WR)
        with trio.move_on_after(GRACE_S + _GONE_S):
            await process.ended.wait()
    if not process.ended.is_set():
        # The kernel kills what it started along with it, or what is in its group at least.
        supervisor.kill()
        if process.said.get("started", "").isdigit():
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(int(process.said["started"]), signal.SIGKILL)
        await process.ended.wait()
    await trio.to_thread.run_sync(supervisor.wait)
