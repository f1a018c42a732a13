"""Skills: folders with a SKILL.md, as agentskills.io describes them, and texts that the store holds.

A file is read again when it is another one or has changed; whoever asks looks at most once a second, so that
an idle daemon does nothing and no watcher is needed. A skill that cannot be read is not there, and the log
says why, once. What a name means is decided in order: the home, the configured folders, the store.
"""

import logging
import os
import re
import stat
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from crabtalk.declarations import SKILL_NAME
from crabtalk.errors import NotFound
from crabtalk.frontmatter import FrontmatterError, Value, split_frontmatter
from crabtalk.store.engine import Engine
from crabtalk.store.interfaces.skills import Skills

logger = logging.getLogger(__name__)

FILE: Final = "SKILL.md"
MAX_FILE_BYTES: Final = 1 << 20
MAX_DESCRIPTION: Final = 1024  # characters
MAX_SKILLS: Final = 1000  # of one folder
FRESH_MS: Final = 1000

_NAME: Final = re.compile(rf"{SKILL_NAME}\Z")


@dataclass(frozen=True, slots=True)
class Skill:
    """One skill."""

    name: str
    description: str  # says when to read the body
    body: str
    folder: Path | None = None  # with whatever else belongs to it; None of one from the store


@dataclass(frozen=True, slots=True)
class _Read:
    """What was made of one file, as it was."""

    stamp: tuple[int, int, int, int]  # device, inode, size, time of change
    skill: Skill | None


class _Unusable(Exception):  # noqa: N818 - what a folder is
    """There is no skill in it, and somebody should know why."""


class SkillService:
    """The skills that there are; for any thread."""

    def __init__(
        self, store: Engine, now_ms: Callable[[], int], folders: Callable[[], Sequence[Path]]
    ) -> None:
        """Look into `folders`, which are asked for each time, the first of which wins."""
        self._stored = Skills(store)
        self._now_ms = now_ms
        self._folders = folders
        self._lock = threading.Lock()
        self._known: dict[Path, _Read] = {}  # by file
        self._found: dict[str, Skill] = {}
        self._looked: tuple[int, Sequence[Path]] | None = None  # when, and where
        self._said: set[str] = set()  # what the log has been told

    def all(self) -> list[Skill]:
        """Return every skill, by name.

        Raises:
            StoreError: if the store does not work.
        """
        stored = {one.name: Skill(one.name, one.description, one.body) for one in self._stored.all()}
        found = stored | self._look()
        return [found[name] for name in sorted(found)]

    def visible(self, *allowed: Sequence[str]) -> list[Skill]:
        """Return those skills that are in every list of `allowed`; `*`, or an empty list, allows all."""
        limits = [frozenset(names) for names in allowed if names and "*" not in names]
        return [one for one in self.all() if all(one.name in names for names in limits)]

    def get(self, name: str) -> Skill:
        """Return one skill.

        Raises:
            NotFound: if there is none of this name.
            StoreError: as `all`.
        """
        for one in self.all():
            if one.name == name:
                return one
        raise NotFound(f"there is no skill `{name[:80]}`")

    def _look(self) -> dict[str, Skill]:
        with self._lock:
            folders, now_ms = tuple(self._folders()), self._now_ms()
            if not self._is_fresh(folders, now_ms):
                self._found = self._read_all(folders)
                self._looked = now_ms, folders
            return self._found

    def _is_fresh(self, folders: Sequence[Path], now_ms: int) -> bool:
        if self._looked is None:
            return False
        then_ms, there = self._looked
        # The wall clock may have been set back.
        return there == folders and then_ms <= now_ms < then_ms + FRESH_MS

    def _read_all(self, folders: Sequence[Path]) -> dict[str, Skill]:
        found: dict[str, Skill] = {}
        files: dict[Path, _Read] = {}
        for folder in folders:
            for place in self._places(folder):
                read = self._read(place / FILE)
                if read is None:
                    continue
                files[place / FILE] = read
                skill = read.skill
                if skill is not None and found.setdefault(skill.name, skill) is not skill:
                    self._say(f"skill `{skill.name}` of {place} is hidden by {found[skill.name].folder}")
        self._known = files
        return found

    def _places(self, folder: Path) -> Iterator[Path]:
        try:
            with os.scandir(folder) as entries:
                inside = (one for one in entries if not one.name.startswith("."))
                names = sorted(one.name for one in inside if one.is_dir())
        except FileNotFoundError:
            return
        except OSError as error:
            self._say(f"skills of {folder} cannot be read: {(error.strerror or str(error)).lower()}")
            return
        if len(names) > MAX_SKILLS:
            self._say(f"{folder} has {len(names)} folders, of which the first {MAX_SKILLS} are read")
        yield from (folder / name for name in names[:MAX_SKILLS])

    def _read(self, file: Path) -> _Read | None:
        """Return what is in a file, from before if it has not changed; None if it is not there."""
        try:
            status = file.stat()
            stamp = status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
            known = self._known.get(file)
            if known is not None and known.stamp == stamp:
                return known
            return _Read(stamp, _parsed(file))
        except FileNotFoundError:
            return None
        except OSError as error:
            self._say(f"{file}: {(error.strerror or str(error)).lower()}")
            return None
        except _Unusable as error:
            self._say(f"{file}: {error}")
            return _Read(stamp, None)

    def _say(self, sentence: str) -> None:
        """Tell the log, unless it was told."""
        if sentence not in self._said:
            if len(self._said) >= MAX_SKILLS:
                self._said.clear()
            self._said.add(sentence)
            logger.warning("%s", sentence)


def _parsed(file: Path) -> Skill:
    """Read a skill.

    Raises:
        OSError: if the file cannot be read.
        _Unusable: if it is no skill.
    """
    # Opened without waiting for anybody, since it may be a pipe; what it is, is asked of what was opened.
    with open(os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as opened:  # noqa: PTH123
        if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
            raise _Unusable("is no regular file")
        raw = opened.read(MAX_FILE_BYTES + 1)
    if len(raw) > MAX_FILE_BYTES:
        raise _Unusable(f"is larger than {MAX_FILE_BYTES} bytes")
    try:
        keys, body = split_frontmatter(raw.decode())
    except UnicodeDecodeError:
        raise _Unusable("is not UTF-8") from None
    except FrontmatterError as error:
        raise _Unusable(str(error)) from error
    name, description = _named(keys, file.parent.name), _described(keys)
    return Skill(name, description, body, file.parent)


def _named(keys: dict[str, Value], folder: str) -> str:
    name = keys.get("name")
    if not isinstance(name, str) or not _NAME.match(name):
        raise _Unusable("`name` must be 1 to 64 of a-z, 0-9 and single hyphens")
    if name != folder:
        raise _Unusable(f"`name` is `{name}`, and the folder is called `{folder[:80]}`: they must agree")
    return name


def _described(keys: dict[str, Value]) -> str:
    description = keys.get("description")
    if not isinstance(description, str) or not description.strip():
        raise _Unusable("`description` must say when to use the skill")
    if len(description) > MAX_DESCRIPTION:
        raise _Unusable(f"`description` is longer than {MAX_DESCRIPTION} characters")
    return " ".join(description.split())
