"""The directory that holds all of one daemon: where each file is, who may read it, and whose it is now.

Two homes share nothing. Whoever opens the store of a home holds its lock for as long: the daemon all its
life, a maintenance command while it works. Nothing here reads what the files say.
"""

import contextlib
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from crabtalk.errors import CrabtalkError

VARIABLE: Final = "CRABTALK_HOME"
_WRITABLE_BY_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH
_MAX_PID_BYTES: Final = 20
_ATTEMPTS: Final = 5
_BETWEEN_ATTEMPTS_S: Final = 0.02


class HomeError(CrabtalkError):
    """The home cannot be used; says why and what to do."""


class HomeInUse(HomeError):  # noqa: N818 - reads as what it says
    """Somebody else holds the home's lock."""


@dataclass(frozen=True, slots=True)
class Home:
    """The paths of one daemon, absolute."""

    root: Path

    @property
    def config_file(self) -> Path:
        """What the operator writes; may be missing."""
        return self.root / "config.toml"

    @property
    def store_file(self) -> Path:
        """The store, one file and SQLite's two beside it."""
        return self.root / "store.db"

    @property
    def search_file(self) -> Path:
        """The index of what was said: made from the store, and made again when it is not there."""
        return self.root / "search.db"

    @property
    def lock_file(self) -> Path:
        """Held while the store is open; names the holder's process."""
        return self.root / "lock"

    @property
    def harnesses(self) -> Path:
        """Where `NAME.elf` may be put by hand: as `put_harness`, it changes what the name means."""
        return self.root / "harnesses"

    @property
    def skills(self) -> Path:
        """Where `NAME/SKILL.md` may be put by hand."""
        return self.root / "skills"

    @property
    def run(self) -> Path:
        """What exists only while the daemon runs, and the token."""
        return self.root / "run"

    @property
    def socket(self) -> Path:
        """Where clients connect."""
        return self.run / "crabtalk.sock"

    @property
    def port_file(self) -> Path:
        """The TCP port, where TCP is on."""
        return self.run / "crabtalk.port"

    @property
    def token_file(self) -> Path:
        """What a TCP client has to show."""
        return self.run / "crabtalk.token"

    @property
    def metrics_socket(self) -> Path:
        """Where metrics and `/healthz` are served, unless a port was configured."""
        return self.run / "metrics.sock"

    def prepare(self) -> None:
        """Make the directories that are missing, for their owner only.

        Raises:
            HomeError: if that cannot be, or if others could change what is there.
        """
        for directory in (self.root, self.run, self.harnesses, self.skills):
            _make_private(directory)
        self.run.chmod(0o700)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the home's lock.

        Raises:
            HomeInUse: if another process does.
            HomeError: if the file cannot be opened.
        """
        try:
            handle = os.open(self.lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise HomeError(f"{self.lock_file}: {(error.strerror or 'cannot open').lower()}") from error
        try:
            _take(handle, self.root)
            try:
                os.ftruncate(handle, 0)
                os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
                yield
            finally:
                with contextlib.suppress(OSError):  # the name is for people; the lock goes with the handle
                    os.ftruncate(handle, 0)
        finally:
            os.close(handle)

    def holder(self) -> int | None:
        """Return the process id of who holds the lock, 0 if it is not known, None if nobody does."""
        try:
            handle = os.open(self.lock_file, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            return None
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _pid(handle)
        finally:
            os.close(handle)
        return None


def find_home(given: str | os.PathLike[str] | None = None) -> Home:
    """Return the home at `given`, else at `$CRABTALK_HOME`, else at `~/.crabtalk`; it need not exist.

    Raises:
        HomeError: if there is no home directory to put it in.
    """
    path = Path(given if given is not None else os.environ.get(VARIABLE) or "~/.crabtalk")
    try:
        return Home(Path(os.path.abspath(path.expanduser())))  # noqa: PTH100 - symbolic links stay as written
    except (RuntimeError, ValueError) as error:
        raise HomeError(f"home `{path}`: {error}; set {VARIABLE}") from error


def _make_private(directory: Path) -> None:
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = directory.stat()
    except OSError as error:
        raise HomeError(f"{directory}: {(error.strerror or 'cannot make it').lower()}") from error
    if status.st_uid not in {os.geteuid(), 0}:
        raise HomeError(f"{directory} belongs to user {status.st_uid}, not to user {os.geteuid()}")
    if status.st_mode & _WRITABLE_BY_OTHERS:
        raise HomeError(f"{directory} can be written by others; run: chmod go-w {directory}")


def _take(handle: int, root: Path) -> None:
    for _ in range(_ATTEMPTS):
        # Somebody who asks for the holder holds the lock for a moment too.
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        time.sleep(_BETWEEN_ATTEMPTS_S)
    pid = _pid(handle)
    who = f"process {pid}" if pid else "another process"
    raise HomeInUse(f"{root} is in use by {who}")


def _pid(handle: int) -> int:
    text = os.pread(handle, _MAX_PID_BYTES, 0).strip()
    return int(text) if text.isdigit() else 0
