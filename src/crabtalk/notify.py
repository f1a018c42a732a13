"""Telling the service manager how the daemon is: systemd's notification socket, where there is one.

A datagram for each change, as sd_notify(3) describes it; without `$NOTIFY_SOCKET` nothing is sent. A manager
that does not listen is no reason to stop, so nothing here raises once the socket is there.
"""

import contextlib
import logging
import os
import socket
import time
from collections.abc import Mapping
from typing import Final

logger = logging.getLogger(__name__)

_MICROSECONDS: Final = 1_000_000
_MAX_STATUS: Final = 200


class Notifier:
    """Sends the daemon's state; does nothing where nobody wants to know."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        """Read where to send to, and how often the manager wants a sign of life."""
        self._address = _address(environment.get("NOTIFY_SOCKET", ""))
        self.watchdog_s = _watchdog_s(environment) if self._address else None

    def ready(self, status: str = "") -> None:
        """Say that clients can connect; also ends a reload."""
        self._send("READY=1", _status(status))

    def reloading(self) -> None:
        """Say that the configuration is being read again; `ready` follows."""
        # What the manager compares it with is the clock since boot, in microseconds.
        self._send("RELOADING=1", f"MONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}")

    def stopping(self, within_s: float, status: str = "") -> None:
        """Say that the daemon is on its way out, and when it will be gone at the latest."""
        self._send("STOPPING=1", f"EXTEND_TIMEOUT_USEC={int(within_s * _MICROSECONDS)}", _status(status))

    def alive(self) -> None:
        """Give the sign of life."""
        self._send("WATCHDOG=1")

    def status(self, text: str) -> None:
        """Say in a few words what the daemon is doing."""
        self._send(_status(text))

    def _send(self, *assignments: str) -> None:
        if self._address is None:
            return
        data = "\n".join(part for part in assignments if part).encode()
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.settimeout(0)
            sender.sendto(data, self._address)
            return
        logger.debug("the service manager does not take notifications")


def forget_manager() -> None:
    """Take the manager's variables out of the environment: they are not for what harnesses start."""
    for name in ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"):
        os.environ.pop(name, None)


def _address(text: str) -> str | None:
    if text.startswith("@"):
        return f"\0{text[1:]}"  # the abstract namespace
    return text if text.startswith("/") else None


def _watchdog_s(environment: Mapping[str, str]) -> float | None:
    microseconds = environment.get("WATCHDOG_USEC", "")
    pid = environment.get("WATCHDOG_PID", str(os.getpid()))
    if not microseconds.isdigit() or int(microseconds) == 0 or pid != str(os.getpid()):
        return None
    return int(microseconds) / _MICROSECONDS


def _status(text: str) -> str:
    return f"STATUS={text[:_MAX_STATUS]}".replace("\n", " ") if text else ""
