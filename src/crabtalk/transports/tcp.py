"""The TCP socket: on loopback unless that is said otherwise, and only for who shows the token.

The port that was found free stands in a file, which is where clients read it.
"""

import errno
import ipaddress
import os
import secrets
import socket
from pathlib import Path
from typing import Final

from crabtalk.dispatch import Peer
from crabtalk.errors import ConfigError
from crabtalk.transports.stream import Accepted, SocketStream, accept_socket, close_listening
from crabtalk.transports.unix import make_private_directory

PORT: Final = 6688
PORT_NAME: Final = "crabtalk.port"
TOKEN_NAME: Final = "crabtalk.token"  # noqa: S105 - the name of the file
_TRIES: Final = 100  # ports, from the first one on
_BACKLOG: Final = 1024
_TOKEN_BYTES: Final = 32


class TcpListener:
    """Listens on a port; made by `open_tcp`."""

    needs_token = True

    def __init__(self, sock: socket.socket, port_path: Path) -> None:
        self.port: int = sock.getsockname()[1]
        self._sock = sock
        self._port_path = port_path

    async def accept(self) -> Accepted:
        """Wait for a client.

        Raises:
            trio.ClosedResourceError: if it was closed.
        """
        sock, address = await accept_socket(self._sock)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        host, port = address[0], address[1]
        name = f"tcp:[{host}]:{port}" if ":" in host else f"tcp:{host}:{port}"
        return Accepted(SocketStream(sock), Peer(name, "tcp", None))

    def close(self) -> None:
        """Let nobody in any more, and remove the file with our port; may be called twice."""
        if self._sock.fileno() == -1:
            return
        close_listening(self._sock)
        try:
            if self._port_path.read_text(encoding="ascii") == f"{self.port}\n":
                self._port_path.unlink()
        except (OSError, ValueError):
            pass  # it is not ours, or gone


def open_tcp(
    run_dir: Path, *, host: str = "127.0.0.1", port: int = PORT, allow_remote: bool = False
) -> TcpListener:
    """Listen on `port`, or the next one that is free, and write which into `run_dir`.

    Raises:
        ConfigError: if the address cannot be used, or is no loopback one and `allow_remote` is not set.
    """
    try:
        address = ipaddress.ip_address(host)
    except ValueError as error:
        raise ConfigError(f"`{host}` is no IP address to listen on") from error
    if not address.is_loopback and not allow_remote:
        raise ConfigError(
            f"{host} can be reached from other machines, and what is sent is not encrypted; "
            "listening there has to be allowed explicitly"
        )
    try:
        make_private_directory(run_dir)
        family = socket.AF_INET if isinstance(address, ipaddress.IPv4Address) else socket.AF_INET6
        sock = _bind(host, port, family)
    except OSError as error:
        raise ConfigError(
            f"cannot listen on {host} port {port}: {(error.strerror or str(error)).lower()}"
        ) from error
    try:
        port_path = run_dir / PORT_NAME
        _write_private(port_path, f"{sock.getsockname()[1]}\n")
        return TcpListener(sock, port_path)
    except BaseException:
        sock.close()
        raise


def load_token(run_dir: Path) -> str:
    """Return the token of this home; make it if there is none.

    Raises:
        ConfigError: if the file cannot be read, is empty, or can be read by others.
    """
    path = run_dir / TOKEN_NAME
    try:
        make_private_directory(run_dir)
        if not path.exists():
            _write_private(path, secrets.token_urlsafe(_TOKEN_BYTES) + "\n")
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        with os.fdopen(fd, encoding="ascii") as file:
            mode = os.fstat(fd).st_mode
            token = file.read(1024).strip()
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read the token in {path}: {error}") from error
    if mode & 0o077:
        raise ConfigError(f"{path} can be read by others; remove it, and the next start makes a new one")
    if not token:
        raise ConfigError(f"{path} is empty; remove it, and the next start makes a new one")
    return token


def _bind(host: str, port: int, family: socket.AddressFamily) -> socket.socket:
    """Bind to `port` or one of those after it; 0 lets the system choose."""
    last = min(port + _TRIES, 1 << 16) if port else 1
    for candidate in range(port, last):
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            # Else a port stays taken for a minute after a daemon had it.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((host, candidate))
            sock.setblocking(False)  # noqa: FBT003 - takes no keyword
            sock.listen(_BACKLOG)
        except OSError as error:
            sock.close()
            if error.errno != errno.EADDRINUSE or candidate == last - 1:
                raise
        else:
            return sock
    raise OSError(errno.EADDRINUSE, f"no free port from {port} to {last - 1}")


def _write_private(path: Path, text: str) -> None:
    """Write a file of mode 0600, so that it is there completely or as it was."""
    new = path.with_name(f"{path.name}.{secrets.token_hex(4)}.new")
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(fd, "w", encoding="ascii") as file:
        file.write(text)
    new.replace(path)
