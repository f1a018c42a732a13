"""The user's cache of things built once: compiler-rt and the SDK's objects.

An entry is a directory named for everything it was built from. It is made aside and moved into place in
one step, so that two builds at once both find it whole, and the loser drops its own.
"""

import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from berm.build.errors import BuildError


def cache_directory() -> Path:
    """Name the cache: $BERM_CACHE_DIR, else the platform's place for caches."""
    named = os.environ.get("BERM_CACHE_DIR")
    if named:
        return Path(named)
    if sys.platform == "darwin":  # untested
        return Path.home() / "Library" / "Caches" / "berm"
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "berm"


def open_cache() -> Path:
    """Return the cache directory, made if need be.

    Raises: BuildError when it cannot be.
    """
    directory = cache_directory()
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(error) from error
    return directory


def _unwritable(error: OSError) -> BuildError:
    return BuildError(
        f"cannot write the cache {cache_directory()}: {(error.strerror or str(error)).lower()}; name another with $BERM_CACHE_DIR"
    )


def key_of(parts: Iterable[str | bytes]) -> str:
    """Digest what an entry is built from, each part fenced off from the next."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()[:32]


def cached(kind: str, key: str, make: Callable[[Path], None]) -> Path:
    """Return the entry `kind-key`, made by `make(directory)` when it is not there.

    Raises: whatever `make` raises, and nothing is kept then; BuildError when the cache cannot be written.
    """
    entry = cache_directory() / f"{kind}-{key}"
    if entry.is_dir():
        return entry
    try:
        aside = Path(tempfile.mkdtemp(prefix=f".{kind}-", dir=open_cache()))
    except OSError as error:
        raise _unwritable(error) from error
    try:
        make(aside)
        try:
            aside.rename(entry)
        except OSError:
            if not entry.is_dir():
                raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return entry
