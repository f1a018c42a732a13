"""Between an MCP client's pipes and the daemon: bytes are carried, and nothing of them is understood.

Starts fast, since it needs neither the SDK nor a loop. Nothing but the daemon's answers goes to stdout.
"""

import json
import os
import socket
import sys
import threading

from berm.cli.exits import DONE, HOST_ERROR, CommandError
from crabtalk.home import Home

_SOCKET = "mcp.sock"  # as `crabtalk.mcp.doors` names it
_CHUNK = 1 << 16
_GREETING_S = 60.0  # the first client waits for the daemon to load the SDK


def bridge(home: Home, agent: str, harness: str) -> int:
    """Carry until one side ends.

    Raises:
        CommandError: no daemon answers, or it does not serve those tools.
    """
    daemon = _connected(home)
    with daemon:
        early = _greet(daemon, agent, harness)
        threading.Thread(target=_carry_in, args=(daemon,), daemon=True).start()
        _write(early)
        while data := daemon.recv(_CHUNK):
            _write(data)
    return DONE if _stdin_ended.is_set() else HOST_ERROR


_stdin_ended = threading.Event()


def _connected(home: Home) -> socket.socket:
    daemon = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        daemon.connect(os.fspath(home.run / _SOCKET))
    except OSError as error:
        daemon.close()
        raise CommandError(f"no daemon serves {home.root}; start it with `crabtalk up`") from error
    return daemon


def _greet(daemon: socket.socket, agent: str, harness: str) -> bytes:
    """Say whose tools are wanted; return what came after the daemon's word that it is ready."""
    daemon.sendall(json.dumps({"agent": agent, "harness": harness}).encode() + b"\n")
    daemon.settimeout(_GREETING_S)
    said = b""
    while b"\n" not in said:
        data = daemon.recv(_CHUNK)
        if not data:
            raise CommandError("the daemon closed the connection; it does not serve descendants of its own")
        said += data
    daemon.settimeout(None)
    line, _, rest = said.partition(b"\n")
    answer = json.loads(line)
    if "error" in answer:
        raise CommandError(str(answer["error"]))
    return rest


def _carry_in(daemon: socket.socket) -> None:
    try:
        while data := os.read(0, _CHUNK):
            daemon.sendall(data)
    except OSError:
        pass
    _stdin_ended.set()
    try:
        daemon.shutdown(socket.SHUT_WR)
    except OSError:
        return


def _write(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
