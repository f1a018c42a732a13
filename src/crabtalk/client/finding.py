"""Where the daemon of a home listens, and what it means when it does not."""

import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from crabtalk.errors import CrabtalkError
from crabtalk.home import find_home

MAX_UNIX_PATH_BYTES: Final = 107
HOST: Final = "127.0.0.1"
_MAX_FILE_BYTES: Final = 4096


class NotRunning(CrabtalkError):  # noqa: N818 - reads as what it says
    """No daemon answers for this home."""


class ConnectionLost(CrabtalkError):  # noqa: N818 - as NotRunning
    """The connection ended before a request was answered; whether it was served is not known."""


@dataclass(frozen=True)
class Address:
    """Where to connect: a unix socket, or a port of this machine and the token for it."""

    path: Path | None
    port: int = 0
    token: str = ""

    def __str__(self) -> str:
        return str(self.path) if self.path is not None else f"{HOST}:{self.port}"


def find_daemon(home: str | os.PathLike[str] | None = None) -> Address:
    """Return where the daemon of `home` listens, by what lies in its `run`.

    Raises:
        NotRunning: if there is nothing.
    """
    where = find_home(Path(home) if home is not None else None)
    if where.socket.is_socket():
        if len(os.fsencode(where.socket)) > MAX_UNIX_PATH_BYTES:
            raise NotRunning(f"{where.socket} is longer than the path of a socket may be")
        return Address(where.socket)
    port, token = _first_line(where.port_file), _first_line(where.token_file)
    if port.isdecimal() and token:
        return Address(None, int(port), token)
    raise NotRunning(f"no daemon is running: there is no socket {where.socket}")


def connect_socket(address: Address, timeout_s: float | None = None) -> socket.socket:
    """Return a connected socket, on which nothing was sent.

    Raises:
        NotRunning: if nobody listens there.
    """
    family = socket.AF_UNIX if address.path is not None else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.settimeout(timeout_s)
        if address.path is not None:
            sock.connect(os.fspath(address.path))
        else:
            sock.connect((HOST, address.port))
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except OSError as error:
        sock.close()
        raise no_answer(address, error) from error
    return sock


def no_answer(address: Address, error: OSError) -> NotRunning:
    """Return what to raise when connecting failed."""
    return NotRunning(f"no daemon answers at {address}: {(error.strerror or str(error)).lower()}")


def _first_line(path: Path) -> str:
    try:
        with path.open(encoding="ascii") as file:
            return file.readline(_MAX_FILE_BYTES).strip()
    except (OSError, ValueError):
        return ""
