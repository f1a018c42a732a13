"""Who is at the other end of a unix socket, as the kernel says it.

Linux tells process and user, macOS the user only (written from its headers, untested). What a harness starts
is a descendant of the daemon and may run as its user, so the user alone does not tell it from a client.
"""

import os
import socket
import struct
import sys
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

_UCRED: Final = struct.Struct("iII")  # pid, uid, gid
_XUCRED: Final = struct.Struct("IIh16I")  # version, uid, number of groups, groups; <sys/ucred.h>
_SOL_LOCAL: Final = 0
_LOCAL_PEERCRED: Final = 1
_MAX_DEPTH: Final = 4096  # of processes; only a table that changes while it is read could be deeper
_STRANGERS: Final = 4096  # processes that are remembered
_STAT_BYTES: Final = 4096


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
    if sys.platform == "darwin":  # untested
        raw = sock.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, _XUCRED.size)
        return Credentials(None, _XUCRED.unpack(raw)[1])
    raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
    pid, uid, _ = _UCRED.unpack(raw)
    return Credentials(pid or None, uid)


def refusal(credentials: Credentials, lineage: "Lineage | None" = None) -> str:
    """Say why this peer may not connect; empty if it may. `lineage` remembers, for who asks often."""
    if credentials.uid not in {0, os.geteuid()}:
        return f"this daemon serves its own user, not uid {credentials.uid}"
    if credentials.pid is None or credentials.pid == os.getpid() or sys.platform != "linux":
        return ""
    if (lineage or Lineage(os.getpid())).includes(credentials.pid):
        return "what the daemon started may not connect to it"
    return ""


@dataclass(frozen=True, slots=True)
class Process:
    """A process and the one that it descends from at the moment."""

    pid: int
    began: bytes  # tells it from a later one of the same id
    parent: int  # 0: from none


class Lineage:
    """Tells what descends from one process.

    Who does not never will: an orphan goes to one that it descends from already. So strangers are remembered,
    and mostly one look at `/proc`, which is slow, tells.
    """

    def __init__(self, ancestor: int, look: Callable[[int], Process | None] | None = None) -> None:
        """`look` finds a process, None if it is gone."""
        self._ancestor = ancestor
        self._look = look or process
        self._strangers: OrderedDict[tuple[int, bytes], None] = OrderedDict()

    def includes(self, pid: int) -> bool:
        """Say whether a process descends from ours; also if it is gone, so that nobody can tell any more."""
        seen = []
        for _ in range(_MAX_DEPTH):
            found = self._look(pid)
            if found is None or found.parent == self._ancestor:
                return True
            seen.append((found.pid, found.began))
            if found.parent == 0 or seen[-1] in self._strangers:
                self._remember(seen)
                return False
            pid = found.parent
        return True

    def _remember(self, seen: list[tuple[int, bytes]]) -> None:
        for stranger in reversed(seen):  # those that come and go are forgotten before their ancestors
            self._strangers[stranger] = None
        self._strangers.move_to_end(seen[-1])
        while len(self._strangers) > _STRANGERS:
            self._strangers.popitem(last=False)


def process(pid: int) -> Process | None:
    """Look at a process; None if it is gone."""
    try:
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        text = os.read(fd, _STAT_BYTES)
    except OSError:
        return None
    finally:
        os.close(fd)
    # The name may hold anything, parentheses included; the last one ends it. See proc_pid_stat(5).
    fields = text[text.rindex(b")") + 2 :].split()
    return Process(pid, fields[19], int(fields[1]))
