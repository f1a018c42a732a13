"""The unix socket: found by its path, guarded by the file system and by what the kernel says of the peer.

The lock beside the socket says whose it is. Its holder, and nobody else, removes a socket that was left
behind; at the end only the socket that we made is removed. The lock file stays: removing it would let two
daemons hold locks on two files of one name.
"""

import contextlib
import fcntl
import os
import socket
import stat
from pathlib import Path
from typing import Final

from crabtalk.dispatch import Peer
from crabtalk.errors import ConfigError
from crabtalk.transports.credentials import Lineage, credentials_of, refusal
from crabtalk.transports.stream import Accepted, SocketStream, accept_socket, close_listening

SOCKET_NAME: Final = "crabtalk.sock"
MAX_PATH_BYTES: Final = 107  # sockaddr_un without its final zero
_BACKLOG: Final = 1024


class UnixListener:
    """Listens on a path; made by `open_unix`."""

    needs_token = False

    def __init__(self, sock: socket.socket, path: Path, lock_fd: int) -> None:
        self.path = path
        self._sock = sock
        self._lock_fd = lock_fd
        self._lineage = Lineage(os.getpid())
        made = path.stat()
        self._made = (made.st_dev, made.st_ino)

    async def accept(self) -> Accepted:
        """Wait for a client.

        Raises:
            trio.ClosedResourceError: if it was closed.
        """
        while True:
            sock, _ = await accept_socket(self._sock)
            try:
                who = credentials_of(sock)
            except OSError:  # gone before it was looked at
                sock.close()
                continue
            name = f"unix:pid {who.pid}" if who.pid is not None else f"unix:uid {who.uid}"
            return Accepted(SocketStream(sock), Peer(name, "unix", who.uid), refusal(who, self._lineage))

    def close(self) -> None:
        """Let nobody in any more, and remove the socket if it is still ours; may be called twice."""
        if self._lock_fd == -1:
            return
        with contextlib.suppress(OSError):
            found = self.path.lstat()
            if (found.st_dev, found.st_ino) == self._made:
                self.path.unlink()
        close_listening(self._sock)
        os.close(self._lock_fd)
        self._lock_fd = -1


def open_unix(path: Path) -> UnixListener:
    """Listen on `path`, in a directory that only its owner can enter.

    Raises:
        ConfigError: if the path cannot be used, or another daemon serves it.
    """
    if len(os.fsencode(path)) > MAX_PATH_BYTES:
        raise ConfigError(
            f"{path} is longer than the {MAX_PATH_BYTES} bytes that the path of a socket may have; "
            "choose a shorter CRABTALK_HOME"
        )
    try:
        make_private_directory(path.parent)
        lock_fd = _lock(path.with_name(path.name + ".lock"))
    except OSError as error:
        raise ConfigError(f"cannot listen on {path}: {(error.strerror or str(error)).lower()}") from error
    try:
        _remove_stale(path)
        return UnixListener(_bind(path), path, lock_fd)
    except OSError as error:
        os.close(lock_fd)
        raise ConfigError(f"cannot listen on {path}: {(error.strerror or str(error)).lower()}") from error
    except BaseException:
        os.close(lock_fd)
        raise


def make_private_directory(path: Path) -> None:
    """Make a directory that only its owner can enter, or make one that is there so.

    Raises:
        ConfigError: if it belongs to somebody else.
        OSError: if it cannot be made.
    """
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = path.stat()
    if found.st_uid != os.geteuid():
        raise ConfigError(f"{path} belongs to uid {found.st_uid}, not to the user of this daemon")
    if stat.S_IMODE(found.st_mode) & 0o077:
        path.chmod(0o700)


def _lock(path: Path) -> int:
    """Take the lock for as long as the descriptor is open.

    Raises:
        ConfigError: if another process has it.
        OSError: if it cannot be taken.
    """
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(fd)
        raise ConfigError(f"another daemon is running here: it holds {path}") from error
    except BaseException:
        os.close(fd)
        raise
    return fd


def _remove_stale(path: Path) -> None:
    """Remove a socket that its daemon left behind; the lock is ours, so it is dead.

    Raises:
        ConfigError: if something else has that name.
    """
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise ConfigError(f"{path} is there and is no socket; move it away")
    path.unlink()


def _bind(path: Path) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        before = os.umask(0o177)
        try:
            sock.bind(os.fspath(path))
        finally:
            os.umask(before)
        sock.setblocking(False)  # noqa: FBT003 - takes no keyword
        sock.listen(_BACKLOG)
    except BaseException:
        sock.close()
        raise
    return sock
