"""One command seen from our side: started under its supervisor, read from, stopped, and gone without a trace.

Owns the pipes and the bounds of what is kept of them. What the command writes is read to its end whatever the
size, so that it never blocks on us; beyond the cap only the first and the last bytes are kept. That the
supervisor closed its socket means that the command and all that came of it are dead. Knows nothing of roots
or requests.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import anyio

from crabtalk.capabilities import _supervisor
from crabtalk.capabilities._failure import Failure

GRACE_S: Final = 1.0  # between TERM and KILL; picked, not measured
_GONE_S: Final = 4.0  # after KILL, until we stop believing that the supervisor works
_DRAIN_S: Final = 0.5  # for a pipe that somebody still holds when all processes of the command are dead
_CHUNK: Final = 1 << 16  # what a pipe holds
_MARK_BYTES: Final = 48  # the longest line that says how much was dropped

SCRIPT: Final = str(Path(__file__).with_name("_supervisor.py"))
# What a Python outside of its usual place needs to start; nothing of it reaches the command.
_START_UP: Final = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")


class Output(NamedTuple):
    """What a stream wrote."""

    kept: bytes
    dropped: int  # bytes of it that are not in `kept`


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    exit_code: int  # -1 for a signal
    stdout: Output
    stderr: Output
    stopped: bool  # by us, because its time was up


class HeadAndTail:
    """The first and the last bytes of a stream, half of the cap each."""

    def __init__(self, cap_bytes: int) -> None:
        self._head_room = cap_bytes // 2
        self._tail_cap = cap_bytes - self._head_room
        self._head = bytearray()
        self._tail = bytearray()
        self._dropped = 0

    def write(self, data: bytes) -> None:
        """Take what the stream wrote next."""
        head = data[: self._head_room]
        self._head += head
        self._head_room -= len(head)
        self._tail += data[len(head) :]
        # Cut when there is twice too much, so that each byte is moved once at most.
        if len(self._tail) > 2 * self._tail_cap:
            self._cut(len(self._tail) - self._tail_cap)

    def taken(self) -> Output:
        """Return what was kept; a line between head and tail says how much was not."""
        over = len(self._tail) - self._tail_cap
        if not self._dropped and over <= 0:
            return Output(bytes(self._head + self._tail), 0)
        # The line takes its room from the tail, so that the whole stays within the cap.
        self._cut(min(len(self._tail), max(over, 0) + _MARK_BYTES))
        mark = b"\n[%d bytes dropped]\n" % self._dropped
        return Output(bytes(self._head) + mark + bytes(self._tail), self._dropped)

    def _cut(self, count: int) -> None:
        del self._tail[:count]
        self._dropped += count


class Command:
    """A command that was started; `run` has to be awaited, and returns when everything of it is dead."""

    def __init__(self, task: _supervisor.Task, cap_bytes: int) -> None:
        """Start the supervisor; this may take milliseconds.

        Raises:
            Failure: if no process can be started.
        """
        self._task = task
        self._stdout, self._stderr = HeadAndTail(cap_bytes), HeadAndTail(cap_bytes)
        self._said: dict[str, str] = {}  # by the supervisor: `started`, `failed`, `exit`
        self._control, theirs = socket.socketpair()
        with theirs:
            try:
                self._supervisor = _start(theirs.fileno(), task.cwd_fd)
            except OSError as error:
                self._control.close()
                raise Failure(f"cannot start a process: {(error.strerror or str(error)).lower()}") from error
        self._control.setblocking(False)  # noqa: FBT003 - takes no keyword

    async def run(self, limit_s: float) -> Ended:
        """Wait for the end of the command, and bring it about after `limit_s`.

        **Cancellation:** the command is stopped as at the end of its time, and waited for: TERM, a second's
        grace, KILL.

        Raises:
            Failure: if it could not be started, or its supervisor was killed.
        """
        over = anyio.Event()
        stopped = False
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._follow, over)
                try:
                    with anyio.move_on_after(limit_s):
                        await over.wait()
                finally:
                    stopped = not over.is_set()
                    await self._stop(over)
            return self._ended(stopped)
        finally:
            self._close()

    async def _follow(self, over: anyio.Event) -> None:
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as pumps:
                for pipe, output in (
                    (self._supervisor.stdout, self._stdout),
                    (self._supervisor.stderr, self._stderr),
                ):
                    assert pipe is not None  # noqa: S101 - made by _start
                    pumps.start_soon(_pump, pipe.fileno(), output)
                await self._send()
                await self._listen()
                pumps.cancel_scope.deadline = anyio.current_time() + _DRAIN_S
            await _reap(self._supervisor)
            over.set()

    async def _send(self) -> None:
        rest = memoryview(_supervisor.pack(self._task))
        while rest:
            try:
                rest = rest[self._control.send(rest) :]
            except BlockingIOError:
                await anyio.wait_writable(self._control)
            except OSError:
                return  # the supervisor is dead, which `_listen` finds out too

    async def _listen(self) -> None:
        text = b""
        while True:
            await anyio.wait_readable(self._control)
            try:
                data = self._control.recv(4096)
            except BlockingIOError:
                continue
            except ConnectionResetError:
                data = b""
            if not data:
                break
            text += data
        for line in text.decode(errors="replace").splitlines():
            what, _, value = line.partition(" ")
            self._said.setdefault(what, value)

    async def _stop(self, over: anyio.Event) -> None:
        with contextlib.suppress(OSError):  # not connected any more: it has ended
            self._control.shutdown(socket.SHUT_WR)
        with anyio.CancelScope(shield=True):
            with anyio.move_on_after(self._task.grace_s + _GONE_S):
                await over.wait()
            if not over.is_set():
                # The kernel kills what it started along with it, or what is in its group at least.
                self._kill()
                await over.wait()

    def _kill(self) -> None:
        self._supervisor.kill()
        if self._task.level != _supervisor.PIDS and "started" in self._said:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(int(self._said["started"]), signal.SIGKILL)

    def _ended(self, stopped: bool) -> Ended:  # noqa: FBT001 - private
        if "failed" in self._said:
            raise Failure(self._said["failed"])
        if "exit" not in self._said and not stopped:
            self._kill()
            raise Failure("the supervisor of the command was killed")
        # One that was stopped before it began has no exit code of its own.
        exit_code = int(self._said.get("exit", -1))
        return Ended(exit_code, self._stdout.taken(), self._stderr.taken(), stopped)

    def _close(self) -> None:
        self._control.close()
        for pipe in (self._supervisor.stdout, self._supervisor.stderr):
            if pipe is not None:
                pipe.close()


def _start(control_fd: int, cwd_fd: int) -> subprocess.Popen[bytes]:
    if not sys.executable:
        raise OSError("this Python does not know its own executable")
    process = subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-I", "-S", SCRIPT, str(control_fd)],
        bufsize=0,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=(control_fd, cwd_fd),
        cwd="/",
        env={name: os.environ[name] for name in _START_UP if name in os.environ},
        start_new_session=True,
    )
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            os.set_blocking(pipe.fileno(), False)
    return process


async def _reap(process: subprocess.Popen[bytes]) -> None:
    """Wait for a process that has closed its files, and so is within microseconds of its end."""
    while process.poll() is None:  # noqa: ASYNC110 - no event tells; the loop is for a crowded machine
        await anyio.sleep(0.001)


async def _pump(fd: int, output: HeadAndTail) -> None:
    """Read a pipe to its end; what is beyond the cap is read too, and dropped."""
    while True:
        await anyio.wait_readable(fd)
        with contextlib.suppress(BlockingIOError):
            data = os.read(fd, _CHUNK)
            if not data:
                return
            output.write(data)
