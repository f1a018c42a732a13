"""Which MCP clients may use which tools: tokens, kept as digests in one file of the home.

The command writes the file, the daemon reads it anew when it has changed. A token is for one agent, or for
one harness of one, and opens nothing else: not the socket of the protocol, not another agent.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import secrets
import stat
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, get_type_hints

from crabtalk.errors import CrabtalkError, NotFound

FILE_NAME: Final = "mcp-tokens.json"
_PREFIX: Final = "ctm_"
_RANDOM_BYTES: Final = 32
_ID_BYTES: Final = 4
_MAX_FILE_BYTES: Final = 1 << 20


class TokensBroken(CrabtalkError):  # noqa: N818 - reads as what it says
    """The file of tokens is not what this program wrote."""


@dataclass(frozen=True, slots=True)
class Token:
    """What one token opens."""

    id: str  # for people
    digest: str  # sha256 of the token, in hexadecimal
    agent: str  # an id
    harness: str  # as the agent declares it; empty: all of the agent's tools
    created_ms: int


class Tokens:
    """The tokens of a home, as they are in its file now."""

    def __init__(self, home: Path) -> None:
        self._file = home / FILE_NAME
        self._seen: tuple[int, int, int] | None = None
        self._by_digest: dict[str, Token] = {}

    def find(self, text: str) -> Token | None:
        """Return what a token opens, None if it is no token.

        Raises:
            TokensBroken: if the file cannot be read.
        """
        self._refresh()
        # Looked up by its digest, so that the time it takes says nothing of the token.
        return self._by_digest.get(digest_of(text))

    def all(self) -> list[Token]:
        """Return every token, oldest first.

        Raises:
            TokensBroken: if the file cannot be read.
        """
        self._refresh()
        return list(self._by_digest.values())

    def _refresh(self) -> None:
        try:
            status = self._file.stat()
        except FileNotFoundError:
            self._seen, self._by_digest = None, {}
            return
        except OSError as error:
            raise TokensBroken(f"{self._file} cannot be read: {error}") from error
        if not stat.S_ISREG(status.st_mode):
            raise TokensBroken(f"{self._file} is no regular file")
        seen = status.st_mtime_ns, status.st_ino, status.st_size
        if seen != self._seen:
            self._by_digest = {one.digest: one for one in _read(self._file)}
            self._seen = seen


def digest_of(text: str) -> str:
    """Return what is kept of a token."""
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()


def add(home: Path, agent: str, harness: str = "") -> tuple[str, Token]:
    """Make a token; its text is returned and nowhere kept.

    Raises:
        TokensBroken: if the file cannot be read.
    """
    text = _PREFIX + secrets.token_urlsafe(_RANDOM_BYTES)
    token = Token(secrets.token_hex(_ID_BYTES), digest_of(text), agent, harness, time.time_ns() // 1_000_000)
    with _changing(home) as file:
        _write(file, [*_read(file), token])
    return text, token


def remove(home: Path, token_id: str) -> None:
    """Let a token open nothing any more.

    Raises:
        NotFound: if there is none of this id.
        TokensBroken: if the file cannot be read.
    """
    with _changing(home) as file:
        before = _read(file)
        kept = [one for one in before if one.id != token_id]
        if len(kept) == len(before):
            raise NotFound(f"there is no token {token_id[:80]}")
        _write(file, kept)


@contextlib.contextmanager
def _changing(home: Path) -> Iterator[Path]:
    """Keep others from changing the file meanwhile."""
    lock = os.open(home / f"{FILE_NAME}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield home / FILE_NAME
    finally:
        os.close(lock)


def _read(file: Path) -> list[Token]:
    try:
        with file.open("rb") as stream:
            listed = json.loads(stream.read(_MAX_FILE_BYTES))
        return [_token(one) for one in listed]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise TokensBroken(f"{file} cannot be read: {error}") from error


def _token(fields: dict[str, Any]) -> Token:
    """Return a token as the file has it.

    Raises:
        TypeError: if it is none.
    """
    token = Token(**fields)
    for name, kind in get_type_hints(Token).items():
        if type(getattr(token, name)) is not kind:
            raise TypeError(f"`{name}` of a token: expected {kind.__name__}")
    return token


def _write(file: Path, tokens: list[Token]) -> None:
    new = file.with_suffix(".new")
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        json.dump([asdict(one) for one in tokens], stream, indent=1)
        stream.flush()
        os.fsync(stream.fileno())
    new.replace(file)
