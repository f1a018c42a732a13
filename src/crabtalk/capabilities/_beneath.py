"""Paths beneath one directory: the text of a request in, a directory handle and the name of a leaf out.

Owns how a path is confined, and every difference between kernels in that. Directories on the way are resolved
by `openat2(RESOLVE_BENEATH)` where the kernel has it, else step by step with `O_NOFOLLOW`; a symbolic link in
the last place is read here and resolved again in the same manner, so that callers only ever open a leaf with
`O_NOFOLLOW`. No path is compared as a string with another, but for the prefix of an absolute one, and that
only to make it relative. The home of the daemon is never entered: the way from the directory that was opened
up to the root is climbed by handle, and each step's device and inode are compared. Nothing here knows what is
done with a file.
"""

import ctypes
import errno
import os
import sys
import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple, Self

from berm import Refused
from crabtalk.capabilities._failure import Failure

MAX_PATH_BYTES: Final = 4095  # PATH_MAX of Linux without its NUL
MAX_LINKS: Final = 40  # as the kernel follows
_MAX_RETRIES: Final = 64  # openat2 gives up a `..` when something was renamed meanwhile; picked, not measured
_SHOWN_CHARACTERS: Final = 200

# A handle that can only be walked from, where the kernel has such a thing.
# macOS has no O_PATH (untested).
_HANDLE: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC

_OPENAT2: Final = 437  # the same on every architecture that Python runs on
_RESOLVE_NO_MAGICLINKS: Final = 0x02
_RESOLVE_BENEATH: Final = 0x08


class Identity(NamedTuple):
    """What a directory is, whatever it is called."""

    device: int
    inode: int


class Place(NamedTuple):
    """Where a path leads: a leaf in a directory, past all symbolic links."""

    dir_fd: int  # valid inside the `with` that made it
    leaf: bytes  # one name, or `.` for the directory itself

    def status(self) -> os.stat_result:
        """Return what is known of the leaf, not following it."""
        return os.stat(self.leaf, dir_fd=self.dir_fd, follow_symlinks=False)

    def open_directory(self) -> int:
        """Open the leaf as a handle to walk from; it needs no more than the right to enter."""
        return os.open(self.leaf, _HANDLE | os.O_NOFOLLOW, dir_fd=self.dir_fd)


class Root:
    """A directory held open: the bound of everything that is located through it."""

    def __init__(self, path: str | os.PathLike[str], *, home: str | os.PathLike[str] | None = None) -> None:
        """Open `path`; `home` is the daemon's own directory (by default that of the environment).

        Raises:
            ValueError: if `path` is no directory, or is the home or inside it.
        """
        written = _absolute(path)
        try:
            fd = os.open(written, _HANDLE)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise ValueError(f"root `{path}`: {str(reason).lower()}") from error
        spellings = [_names(os.fsencode(name)) for name in (written, os.path.realpath(written))]
        self._hold(fd, Path(_absolute(home if home is not None else default_home())), spellings)
        if _climb_meets(self.fd, None, self._home_identity()):
            self.close()
            raise ValueError(f"root `{path}` is inside `{self.home}`, which no tool may enter")

    def _hold(self, fd: int, home: Path, spellings: Sequence[list[bytes]]) -> None:
        self.fd = fd
        self.home = home
        self._close = weakref.finalize(self, os.close, fd)
        self._identity = _identity(fd)
        self._spellings = tuple(spellings)  # how absolute paths to it may begin

    def narrowed(self, path: str) -> "Root":
        """Hold a directory beneath this one open: a bound of its own, found through this one's handle.

        Raises:
            ValueError: if `path` is no directory beneath this one, or enters the home.
        """
        try:
            with explained(path), self.locate(path) as place:
                fd = place.open_directory()
                names = self._relative(path)
        except (Refused, Failure) as error:
            raise ValueError(f"root `{_shown(path)}`: {error}") from error
        written = [] if b".." in names else [[*spelling, *names] for spelling in self._spellings]
        resolved = [b"/" + b"/".join(spelling) for spelling in written]
        inner = Root.__new__(Root)
        spellings = [*written, *(_names(os.path.realpath(one)) for one in resolved)]
        inner._hold(fd, self.home, spellings)  # noqa: SLF001 - our own
        return inner

    def close(self) -> None:
        """Give the handle back; nothing can be located afterwards."""
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def locate(self, path: str, *, follow: bool = True) -> Iterator[Place]:
        """Resolve `path`, holding its directory open; `follow=False` keeps a link in the last place.

        Raises:
            Refused: if the path leaves the root or enters the home.
            Failure: if the path is no path.
            OSError: what the kernel says.
        """
        names = self._relative(path)
        for _ in range(MAX_LINKS):
            parent, leaf = (names[:-1], names[-1]) if names and names[-1] != b".." else (names, b".")
            dir_fd = _open_directory(self.fd, parent)
            try:
                place = Place(dir_fd, leaf)
                self._refuse_home(place)
                target = _link_target(leaf, dir_fd) if follow and leaf != b"." else None
                if target is None:
                    yield place
                    return
            finally:
                os.close(dir_fd)
            names = [*parent, *_link_names(target)]
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))

    def _relative(self, path: str) -> list[bytes]:
        raw = path.encode(errors="surrogatepass")
        if b"\0" in raw:
            raise Failure("path contains a NUL byte")
        if len(raw) > MAX_PATH_BYTES:
            raise Failure(f"path is {len(raw)} bytes long, at most {MAX_PATH_BYTES} are taken")
        names = _names(raw)
        if not raw.startswith(b"/"):
            return names
        for spelling in self._spellings:
            if names[: len(spelling)] == spelling:
                return names[len(spelling) :]
        raise OSError(errno.EXDEV, "outside the root")

    def _home_identity(self) -> Identity | None:
        # Looked up anew each time, since the home may be made while a root is held. One that cannot be looked
        # up cannot be entered by this process either.
        try:
            status = self.home.stat()
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            return None
        return Identity(status.st_dev, status.st_ino)

    def _refuse_home(self, place: Place) -> None:
        home = self._home_identity()
        if home is None:
            return
        if _climb_meets(place.dir_fd, self._identity, home):
            raise Refused("path enters the daemon's own directory")
        try:
            status = place.status()
        except OSError:
            return  # nothing there that could be the home; whoever opens it meets the same error
        if (status.st_dev, status.st_ino) == home:
            raise Refused("path enters the daemon's own directory")


def default_home() -> Path:
    """Return the daemon's directory as the environment names it."""
    return Path(os.environ.get("CRABTALK_HOME") or Path("~/.crabtalk").expanduser())


def _absolute(path: str | os.PathLike[str]) -> str:
    return os.path.abspath(os.fspath(path))  # noqa: PTH100 - Path.resolve would follow links


@contextmanager
def explained(path: str) -> Iterator[None]:
    """Turn what the kernel says of `path` into what the guest reads.

    Raises:
        Refused: for a path that leaves the root.
        Failure: for any other error of the operating system.
    """
    try:
        yield
    except OSError as error:
        if error.errno == errno.EXDEV:
            raise Refused(f"path leaves the root: `{_shown(path)}`") from error
        reason = os.strerror(error.errno).lower() if error.errno else str(error)
        raise Failure(f"{reason}: `{_shown(path)}`") from error


def _shown(path: str) -> str:
    return path if len(path) <= _SHOWN_CHARACTERS else f"{path[:_SHOWN_CHARACTERS]}…"


def _names(path: bytes) -> list[bytes]:
    return [name for name in path.split(b"/") if name not in (b"", b".")]


def _link_names(target: bytes) -> list[bytes]:
    if target.startswith(b"/"):
        raise OSError(errno.EXDEV, "absolute symbolic link")
    return _names(target)


def _identity(fd: int) -> Identity:
    status = os.fstat(fd)
    return Identity(status.st_dev, status.st_ino)


def _link_target(name: bytes, dir_fd: int) -> bytes | None:
    """Return where a symbolic link points, None for anything else."""
    try:
        return os.readlink(name, dir_fd=dir_fd)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENOENT):
            return None
        raise


def _climb_meets(fd: int, top: Identity | None, home: Identity | None) -> bool:
    """Report whether the way from `fd` up to `top` (None: as far as there is) meets `home`.

    Raises:
        OSError: EXDEV, if `top` is not above `fd` (any more).
    """
    if home is None:
        return False
    here = os.dup(fd)
    try:
        place = _identity(here)
        while place != home:
            if place == top:
                return False
            above = os.open(b"..", _HANDLE, dir_fd=here)
            os.close(here)
            here = above
            if (higher := _identity(here)) == place:
                if top is None:
                    return False
                raise OSError(errno.EXDEV, "moved out of the root")
            place = higher
        return True
    finally:
        os.close(here)


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


_libc = ctypes.CDLL(None, use_errno=True)


def _open_by_kernel(root_fd: int, names: Sequence[bytes]) -> int:
    """Open a directory with `openat2`, which lets no `..`, link or mount lead out of `root_fd`."""
    how = _OpenHow(_HANDLE, 0, _RESOLVE_BENEATH | _RESOLVE_NO_MAGICLINKS)
    path = b"/".join(names) or b"."
    for _ in range(_MAX_RETRIES):
        fd = _libc.syscall(
            ctypes.c_long(_OPENAT2),
            ctypes.c_int(root_fd),
            ctypes.c_char_p(path),
            ctypes.byref(how),
            ctypes.c_size_t(ctypes.sizeof(how)),
        )
        if fd >= 0:
            return int(fd)
        if (code := ctypes.get_errno()) not in (errno.EAGAIN, errno.EINTR):
            raise OSError(code, os.strerror(code))
    raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))


def _open_by_steps(root_fd: int, names: Sequence[bytes]) -> int:
    """Open a directory one name at a time, reading symbolic links here.

    The identities of the directories above are kept, and a `..` has to arrive at the last of them: a
    directory that was moved meanwhile is an error and no way out.
    """
    pending = deque(names)
    here = os.dup(root_fd)
    trail = [_identity(here)]
    links = 0
    try:
        while pending:
            name = pending.popleft()
            there = _step_up(here, trail) if name == b".." else _step_down(here, name, trail)
            if there is None:
                links += 1
                pending.extendleft(reversed(_followed(here, name, links)))
                continue
            os.close(here)
            here = there
    except BaseException:
        os.close(here)
        raise
    return here


def _step_up(here: int, trail: list[Identity]) -> int:
    if len(trail) == 1:
        raise OSError(errno.EXDEV, "above the root")
    there = os.open(b"..", _HANDLE, dir_fd=here)
    trail.pop()
    if _identity(there) != trail[-1]:
        os.close(there)
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
    return there


def _step_down(here: int, name: bytes, trail: list[Identity]) -> int | None:
    """Open `name` below `here`, or return None where it is a symbolic link."""
    try:
        there = os.open(name, _HANDLE | os.O_NOFOLLOW, dir_fd=here)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENOTDIR) or _link_target(name, here) is None:
            raise
        return None
    trail.append(_identity(there))
    return there


def _followed(here: int, name: bytes, links: int) -> list[bytes]:
    target = _link_target(name, here)
    if target is None:
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))  # was a link a moment ago
    if links > MAX_LINKS:
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    return _link_names(target)


def _kernel_resolves() -> bool:
    if not sys.platform.startswith("linux"):
        return False
    probe = os.open("/", _HANDLE)
    try:
        os.close(_open_by_kernel(probe, ()))
    except OSError:  # ENOSYS before Linux 5.6, EPERM under an old seccomp filter
        return False
    finally:
        os.close(probe)
    return True


_open_directory = _open_by_kernel if _kernel_resolves() else _open_by_steps
