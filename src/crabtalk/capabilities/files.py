"""The capability over files: `berm.fs.*` beneath one directory.

Owns what is read, written, listed and removed, and the bounds of each; where a path leads is `_beneath`'s
business. Only regular files are read and replaced, and what was opened is asked again what it is, so that a
swap between the question and the opening is found. Caps hold while reading: no size that the file system
reports is believed.
"""

import contextlib
import errno
import os
import secrets
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, TypedDict

from berm import Capability, Refused, capability
from crabtalk.capabilities._beneath import Place, Root, explained
from crabtalk.capabilities._call import Call, deadline_of
from crabtalk.capabilities._failure import Failure

MAX_FILE_BYTES: Final = 50 << 20
MAX_ENTRIES: Final = 10_000
_CHUNK: Final = 1 << 20  # between two looks at the deadline; picked, not measured

# Without O_NONBLOCK opening a FIFO waits for its other end; without O_NOCTTY a terminal could become ours.
_OPEN: Final = os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC


class Status(TypedDict):
    """What a guest learns of a file."""

    kind: str  # file, directory, symlink or other
    size: int  # bytes
    mtime_ms: int  # Unix, UTC


class Entry(Status):
    """One line of a listing."""

    name: str


@dataclass(frozen=True)
class Files:
    """The bound: everything beneath `root`, but for the daemon's own directory."""

    root: Root
    max_file_bytes: int = MAX_FILE_BYTES
    max_entries: int = MAX_ENTRIES

    def read(self, path: str, deadline: float) -> bytes:
        """Read a regular file.

        Raises:
            Failure, Refused: in the guest's terms.
        """
        with explained(path), self.root.locate(path) as place, _opened(place, path) as fd:
            chunks = []
            room = self.max_file_bytes + 1
            while room and (chunk := os.read(fd, min(_CHUNK, room))):
                chunks.append(chunk)
                room -= len(chunk)
                _check_time(deadline)
            if not room:
                raise Failure(f"file is larger than {self.max_file_bytes} bytes: `{path}`")
            return b"".join(chunks)

    def write(self, path: str, content: bytes, deadline: float) -> None:
        """Replace a file, or make it: complete or not at all, also when the machine stops.

        Raises:
            Failure, Refused: in the guest's terms.
        """
        if len(content) > self.max_file_bytes:
            raise Failure(f"content is larger than {self.max_file_bytes} bytes: `{path}`")
        with explained(path), self.root.locate(path) as place:
            old = _replaceable(place, path)
            temporary = b".berm-%s.tmp" % secrets.token_hex(8).encode()
            try:
                _write_new(place.dir_fd, temporary, content, old, deadline)
                os.rename(temporary, place.leaf, src_dir_fd=place.dir_fd, dst_dir_fd=place.dir_fd)
            except BaseException:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(temporary, dir_fd=place.dir_fd)
                raise
            _sync_directory(place.dir_fd)

    def entries(self, path: str, deadline: float) -> list[Entry]:
        """List a directory, by name; links are shown as links.

        Raises:
            Failure, Refused: in the guest's terms.
        """
        found: list[Entry] = []
        with explained(path), self.root.locate(path) as place, _scanned(place) as entries:
            for entry in entries:
                if len(found) == self.max_entries:
                    raise Failure(f"directory has more than {self.max_entries} entries: `{path}`")
                # What is gone by now was removed while we looked.
                with contextlib.suppress(FileNotFoundError):
                    status = entry.stat(follow_symlinks=False)
                    found.append(Entry(name=_text(entry.name), **_status(status)))
                _check_time(deadline)
        return sorted(found, key=lambda entry: entry["name"])

    def stat(self, path: str) -> Status:
        """Say what a path leads to, following links inside the root.

        Raises:
            Failure, Refused: in the guest's terms.
        """
        with explained(path), self.root.locate(path) as place:
            return _status(place.status())

    def remove(self, path: str) -> None:
        """Remove a file, a link (not what it points to) or an empty directory.

        Raises:
            Failure, Refused: in the guest's terms.
        """
        with explained(path), self.root.locate(path, follow=False) as place:
            if place.leaf == b".":
                raise Refused(f"the last part of the path has to be a name: `{path}`")
            if stat.S_ISDIR(place.status().st_mode):
                os.rmdir(place.leaf, dir_fd=place.dir_fd)
            else:
                os.unlink(place.leaf, dir_fd=place.dir_fd)
            _sync_directory(place.dir_fd)


def files(root: str | os.PathLike[str] | Root) -> tuple[Capability, ...]:
    """Grant the files beneath `root`.

    Raises:
        ValueError: if it is no directory, or lies in the daemon's own one.
    """
    bound = Files(root if isinstance(root, Root) else Root(root))

    @capability("berm.fs.read", blocking=True, aliases=("crabtalk.fs.read",))
    def read(call: Call, path: str) -> bytes:
        return bound.read(path, deadline_of(call))

    @capability("berm.fs.write", blocking=True, aliases=("crabtalk.fs.write",))
    def write(call: Call, path: str, content: bytes) -> None:
        bound.write(path, content, deadline_of(call))

    @capability("berm.fs.list", blocking=True)
    def entries(call: Call, path: str) -> list[Entry]:
        return bound.entries(path, deadline_of(call))

    @capability("berm.fs.stat", blocking=True)
    def status(_call: Call, path: str) -> dict[str, object]:
        return {**bound.stat(path)}

    @capability("berm.fs.remove", blocking=True)
    def remove(_call: Call, path: str) -> None:
        bound.remove(path)

    return (read, write, entries, status, remove)


def _check_time(deadline: float) -> None:
    if time.monotonic() > deadline:
        raise Failure("deadline passed")


def _refuse_irregular(status: os.stat_result, path: str) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(status.st_mode):
        raise Failure(f"not a regular file: `{path}`")


@contextmanager
def _opened(place: Place, path: str) -> Iterator[int]:
    # Asked before, since opening a device can already do something; and after, since it may be another by
    # then.
    _refuse_irregular(place.status(), path)
    fd = os.open(place.leaf, os.O_RDONLY | _OPEN, dir_fd=place.dir_fd)
    try:
        _refuse_irregular(os.fstat(fd), path)
        yield fd
    finally:
        os.close(fd)


@contextmanager
def _scanned(place: Place) -> Iterator[Iterator[os.DirEntry[str]]]:
    fd = os.open(place.leaf, os.O_RDONLY | os.O_DIRECTORY | _OPEN, dir_fd=place.dir_fd)
    try:
        with os.scandir(fd) as entries:
            yield entries
    finally:
        os.close(fd)


def _replaceable(place: Place, path: str) -> os.stat_result | None:
    """Return what a write would replace, None for nothing; a file that this user cannot write stays."""
    try:
        old = place.status()
    except FileNotFoundError:
        return None
    _refuse_irregular(old, path)
    if not os.access(place.leaf, os.W_OK, dir_fd=place.dir_fd):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    return old


def _write_new(dir_fd: int, name: bytes, content: bytes, old: os.stat_result | None, deadline: float) -> None:
    # A new file gets what the umask leaves; the successor of an old one is private until it has the old one's
    # mode.
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _OPEN
    fd = os.open(name, flags, 0o600 if old else 0o666, dir_fd=dir_fd)
    try:
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(fd, rest[:_CHUNK]) :]
            _check_time(deadline)
        if old:
            _take_over(fd, old)
        _sync(fd)
    finally:
        os.close(fd)


def _take_over(fd: int, old: os.stat_result) -> None:
    new = os.fstat(fd)
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        # Only root can give a file away; for others the successor is their own, as with any editor.
        with contextlib.suppress(PermissionError):
            os.fchown(fd, old.st_uid, old.st_gid)
    os.fchmod(fd, stat.S_IMODE(old.st_mode) & 0o777)  # setuid and its kin do not survive new content


def _sync(fd: int) -> None:
    if sys.platform == "darwin":  # untested
        import fcntl  # noqa: PLC0415 - fsync leaves the data in the drive's cache there

        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
    else:
        os.fsync(fd)


def _sync_directory(dir_fd: int) -> None:
    """Make a rename or a removal last; a directory that may be written but not read is left to the kernel."""
    try:
        fd = os.open(b".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=dir_fd)
    except PermissionError:
        return
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _text(name: str) -> str:
    """Show a name that is not UTF-8 with replacement characters: a guest cannot name that file."""
    return name.encode(errors="surrogateescape").decode(errors="replace")


def _status(status: os.stat_result) -> Status:
    return Status(kind=_kind(status.st_mode), size=status.st_size, mtime_ms=status.st_mtime_ns // 1_000_000)


def _kind(mode: int) -> str:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "directory"
    if stat.S_ISLNK(mode):
        return "symlink"
    return "other"
