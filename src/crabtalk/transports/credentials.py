"""Who is at the other end of a unix socket, as the kernel says it.

Linux tells process and user, macOS the user only (written from its headers, untested). What a harness starts
is a descendant of the daemon and may run as its user, so the user alone does not tell it from a client.
"""

import os
import socket
import struct
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_UCRED: Final = struct.Struct("iII")  # pid, uid, gid
_XUCRED: Final = struct.Struct("IIh16I")  # version, uid, number of groups, groups; <sys/ucred.h>
_SOL_LOCAL: Final = 0
_LOCAL_PEERCRED: Final = 1
_MAX_DEPTH: Final = 4096  # of processes; only a table that changes while it is read could be deeper


@dataclass(frozen=True, slots=True)
class Credentials:
    """As of when the peer connected."""

    pid: int | None  # None where the system does not tell, or the process is in no namespace of ours
    uid: int


def credentials_of(sock: socket.socket) -> Credentials:
    """Ask the kernel.

    Raises:
        OSError: if the peer is gone, or the system does not tell.
    """
    if sys.platform == "darwin":
        raw = sock.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, _XUCRED.size)
        return Credentials(None, _XUCRED.unpack(raw)[1])
    raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
    pid, uid, _ = _UCRED.unpack(raw)
    return Credentials(pid or None, uid)


def refusal(credentials: Credentials) -> str:
    """Say why this peer may not connect; empty if it may."""
    if credentials.uid not in {0, os.geteuid()}:
        return f"this daemon serves its own user, not uid {credentials.uid}"
    if credentials.pid is None or credentials.pid == os.getpid() or sys.platform != "linux":
        return ""
    if descends_from(credentials.pid, os.getpid()):
        return "what the daemon started may not connect to it"
    return ""


def descends_from(pid: int, ancestor: int) -> bool:
    """Say whether a process descends from another; also if it is gone, so that nobody can tell any more."""
    for _ in range(_MAX_DEPTH):
        parent = _parent(pid)
        if parent is None or parent == ancestor:
            return True
        if parent == 0:
            return False
        pid = parent
    return True


def _parent(pid: int) -> int | None:
    try:
        text = (_PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return None
    # The name may hold anything, parentheses included; the last one ends it.
    return int(text[text.rindex(b")") + 2 :].split()[1])
