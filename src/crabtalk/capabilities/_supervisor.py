"""The process between us and a command: it starts the command, waits for it, and leaves nothing of it behind.

Run as a program, `python -I -S _supervisor.py CONTROL`, with what to do on the socket CONTROL, and importing
nothing that start-up can do without. The other end of the socket speaks by closing its half: stop. Ours says
what happened, a line each, and that the socket is closed says that every process of the command is dead.

Three levels of isolation, chosen once by `probe` and never lowered by what a command does:

- PIDS: namespaces for users, mounts and processes. The home of the daemon is covered, no process outside can
  be seen or signalled, and the kernel kills all that is left when the first process of the namespace ends:
  there is no way out by `setsid`, a double fork or killing the supervisor.
- MOUNTS: the same without processes, where a container does not let us mount `/proc`.
- NONE: a session of its own, and a child subreaper, which finds all descendants that do not fight back.

The command runs in a second namespace for users and mounts inside of the first: mounts that came from a more
privileged namespace are locked, so that the cover cannot be taken off, not even by mapped root.
"""

from __future__ import annotations

import ctypes
import errno
import marshal
import os
import resource
import select
import signal
import sys
import time
from collections import namedtuple
from collections.abc import Callable, Iterator

TYPE_CHECKING = False  # typing costs a third of the start-up
if TYPE_CHECKING:
    from typing import Any, NoReturn

PIDS = "pids"
MOUNTS = "mounts"
NONE = "none"
LEVELS = (PIDS, MOUNTS, NONE)

_CLONE_NEWNS = 0x0002_0000
_CLONE_NEWUSER = 0x1000_0000
_CLONE_NEWPID = 0x2000_0000
_MS_RDONLY_NOSUID_NODEV_NOEXEC = 1 | 2 | 4 | 8
_MS_PRIVATE_REC = 0x4_0000 | 0x4000
_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36

_KILL_S = 2.0  # for what was killed to be gone; only a process stuck in the kernel takes longer
_LENGTH_BYTES = 4

_libc = ctypes.CDLL(None, use_errno=True)


# What to run; travels as a marshalled tuple, between two processes of one Python.
#   level        one of LEVELS
#   shell        bytes, a path
#   command      bytes
#   environment  dict of bytes
#   cwd_fd       int, inherited
#   home         bytes, to be covered; may be missing
#   grace_s      float, between TERM and KILL
#   limits       tuple of (rlimit as numbered in `resource`, value)
Task = namedtuple("Task", "level shell command environment cwd_fd home grace_s limits")  # noqa: PYI024


def main(control: int) -> None:
    """Do what the socket says, once."""
    os.set_inheritable(control, False)  # noqa: FBT003 - takes no keyword
    task = receive(control)
    if task is None:
        return
    os.set_inheritable(task.cwd_fd, False)  # noqa: FBT003 - takes no keyword
    os.fchdir(task.cwd_fd)
    os.close(task.cwd_fd)
    try:
        isolate(task.level, task.home, lambda: _supervise(task, control))
    except OSError as error:
        tell(control, f"failed cannot isolate the command: {error.strerror or error}".lower())


def _supervise(task: Task, control: int) -> None:
    try:
        Supervisor(task, control).run()
    except OSError as error:
        tell(control, f"failed {error.strerror or error}".lower())


def isolate(level: str, home: bytes, inside: Callable[[], None]) -> None:
    """Enter the level's namespaces and run `inside` there.

    Raises:
        OSError: if the kernel does not let us.
    """
    if level == PIDS:
        _enter(_CLONE_NEWUSER | _CLONE_NEWNS | _CLONE_NEWPID)
        _cover(home)
        _as_first_process(inside)
    elif level == MOUNTS:
        _enter(_CLONE_NEWUSER | _CLONE_NEWNS)
        _cover(home)
        _enter(_CLONE_NEWUSER | _CLONE_NEWNS)
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)
        inside()
    else:
        if sys.platform == "linux":
            _prctl(_PR_SET_CHILD_SUBREAPER, 1)
        inside()


def _as_first_process(inside: Callable[[], None]) -> None:
    """Run `inside` as the first process of the new namespace and wait until the namespace is empty."""
    child = os.fork()
    if child:
        for fd in (1, 2):
            os.close(fd)  # what the command writes ends with the command, not with us
        _, status = os.waitpid(child, 0)
        if os.waitstatus_to_exitcode(status) == errno.EPERM:
            raise OSError(errno.EPERM, "no /proc of its own")
        return
    try:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        _mount(b"proc", b"/proc", b"proc", _MS_RDONLY_NOSUID_NODEV_NOEXEC & ~1)
        _enter(_CLONE_NEWUSER | _CLONE_NEWNS)
    except OSError:
        os._exit(errno.EPERM)
    try:
        inside()
    finally:
        os._exit(0)


def _enter(namespaces: int) -> None:
    """Unshare, keeping the ids of user and group, which are the only ones inside."""
    uid, gid = os.geteuid(), os.getegid()
    _check(_libc.unshare(ctypes.c_int(namespaces)), "unshare")
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        with open(f"/proc/self/{name}", "w") as file:  # noqa: PTH123 - pathlib costs start-up
            file.write(text)
    # Nothing that is mounted here reaches the outside.
    _mount(b"none", b"/", None, _MS_PRIVATE_REC)


def _cover(home: bytes) -> None:
    if os.path.isdir(home):  # noqa: PTH112 - pathlib costs start-up
        _mount(b"none", home, b"tmpfs", _MS_RDONLY_NOSUID_NODEV_NOEXEC, b"size=4k,nr_inodes=1,mode=000")


def _mount(source: bytes, target: bytes, kind: bytes | None, flags: int, data: bytes | None = None) -> None:
    _check(_libc.mount(source, target, kind, ctypes.c_ulong(flags), data), "mount")


def _prctl(option: int, value: int) -> None:
    _check(_libc.prctl(ctypes.c_int(option), *map(ctypes.c_ulong, (value, 0, 0, 0))), "prctl")


def _check(result: int, what: str) -> None:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


class Supervisor:
    """Runs one command and everything that comes of it."""

    def __init__(self, task: Task, control: int) -> None:
        self.task = task
        self.control = control
        self.alone = task.level == PIDS  # every other process of our namespace is the command's
        # A SIGCHLD makes this readable; the handler has to exist for that, and has nothing to do.
        # macOS has no pipe2 (untested).
        self.woken, self.waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC) if hasattr(os, "pipe2") else _pipe()
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self.waker, warn_on_full_buffer=False)
        self.status: int | None = None
        self.leader = 0

    def run(self) -> None:
        """Run the command to its end or until told to stop, and kill what is left."""
        self.leader = os.fork()
        if not self.leader:
            self._become_command()
        for fd in (1, 2):
            os.close(fd)
        if sys.platform == "linux":
            _prctl(_PR_SET_DUMPABLE, 0)  # nothing that we run may trace us
        tell(self.control, f"started {self.leader}")
        if not self._wait(self._ended, None):
            self._signal(signal.SIGTERM)
            self._wait(self._nothing_left, self.task.grace_s)
        self._kill()
        code = -1 if self.status is None else os.waitstatus_to_exitcode(self.status)
        tell(self.control, f"exit {max(code, -1)}")

    def _become_command(self) -> NoReturn:
        try:
            os.setsid()
            # Python ignores these two, and what is ignored stays so in a new program.
            for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD):
                signal.signal(number, signal.SIG_DFL)
            for which, value in self.task.limits:
                _limit(which, value)
            shell = self.task.shell
            argv = [shell.rpartition(b"/")[2], b"-c", self.task.command]
            os.execve(shell, argv, self.task.environment)  # noqa: S606 - the shell is the capability
        except OSError as error:
            tell(self.control, f"failed {os.strerror(error.errno or 0)}".lower())
        finally:
            os._exit(127)

    def _wait(self, over: Callable[[], bool], timeout_s: float | None) -> bool:
        """Reap until `over`; report False when told to stop first, or when the time is up."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        watched = [self.woken] if deadline else [self.woken, self.control]
        while True:
            self._reap()
            if over():
                return True
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return False
            ready, _, _ = select.select(watched, [], [], left)
            if self.woken in ready:
                _drain(self.woken)
            if self.control in ready and not os.read(self.control, 1):
                return False

    def _ended(self) -> bool:
        return self.status is not None

    def _nothing_left(self) -> bool:
        try:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return True
        except AttributeError:  # not on macOS (untested), where there is nothing to reap but the shell
            return self._ended()
        return False

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            if pid == self.leader:
                self.status = status

    def _kill(self) -> None:
        """Kill until nothing is left: what a dying process had just started is found in the next round."""
        deadline = time.monotonic() + _KILL_S
        pause_s = 0.001
        while True:
            self._signal(signal.SIGKILL)
            if self._wait(self._nothing_left, pause_s) or time.monotonic() > deadline:
                return
            pause_s = min(pause_s * 2, 0.05)

    def _signal(self, number: int) -> None:
        for target in self._targets():
            try:
                os.kill(target, number)
            except (ProcessLookupError, PermissionError):
                continue  # gone by now, or (a program that changed its user) not ours to signal

    def _targets(self) -> list[int]:
        if self.alone:
            return [-1]
        found = list(descendants(os.getpid()))
        if self.status is None:
            # The group at once, so that nobody is told twice, and whoever left it one by one.
            return [-self.leader, *(pid for pid in found if not self._leads(pid))]
        # Its number may be another's once the leader is reaped; where descendants are not listed it must do.
        return found if sys.platform == "linux" else [-self.leader]

    def _leads(self, pid: int) -> bool:
        try:
            return os.getpgid(pid) == self.leader
        except ProcessLookupError:
            return False


def descendants(ancestor: int) -> Iterator[int]:
    """List the processes that come of `ancestor`, parents before children; none where there is no `/proc`."""
    children: dict[int, list[int]] = {}
    try:
        names = os.listdir("/proc")  # noqa: PTH208 - pathlib costs start-up
    except FileNotFoundError:
        return
    for name in names:
        if name.isdigit():
            children.setdefault(_parent(name), []).append(int(name))
    pending = [ancestor]
    while pending:
        for child in children.get(pending.pop(), ()):
            pending.append(child)
            yield child


def _parent(pid: str) -> int:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - pathlib costs start-up
            # The program's name, in parentheses, may hold anything; state and parent follow the last one.
            return int(file.read().rpartition(b")")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return -1


def _limit(which: int, value: int) -> None:
    hard = resource.getrlimit(which)[1]
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(which, (value, value))


def _pipe() -> tuple[int, int]:
    read, write = os.pipe()
    for fd in (read, write):
        os.set_blocking(fd, False)
    return read, write


def _drain(fd: int) -> None:
    try:
        while os.read(fd, 512):
            pass
    except BlockingIOError:
        return


def pack(task: Task) -> bytes:
    """Write a task for `receive`."""
    data = marshal.dumps(tuple(task))
    return len(data).to_bytes(_LENGTH_BYTES, "little") + data


def receive(control: int) -> Task | None:
    """Read the task; None if whoever started us is gone already."""
    size = _read_exactly(control, _LENGTH_BYTES)
    data = _read_exactly(control, int.from_bytes(size or b"", "little")) if size else None
    if data is None:
        return None
    values: Any = marshal.loads(data)  # noqa: S302 - from the process that started us, and no other
    return Task(*values)


def _read_exactly(fd: int, size: int) -> bytes | None:
    data = b""
    while len(data) < size:
        chunk = os.read(fd, size - len(data))
        if not chunk:
            return None
        data += chunk
    return data


def tell(control: int, line: str) -> None:
    """Say one line to whoever started us, if it is still there."""
    try:
        os.write(control, line.encode() + b"\n")
    except BrokenPipeError:
        return


def probe() -> str:
    """Return the best level that this machine allows, tried out in processes of its own."""
    if sys.platform != "linux":
        return NONE
    for level in LEVELS:
        child = os.fork()
        if not child:
            try:
                isolate(level, b"", lambda: None)
            except OSError:
                os._exit(1)
            os._exit(0)
        if os.waitpid(child, 0)[1] == 0:
            return level
    return NONE


if __name__ == "__main__":
    if sys.argv[1] == "probe":
        sys.stdout.write(probe())
    else:
        main(int(sys.argv[1]))
