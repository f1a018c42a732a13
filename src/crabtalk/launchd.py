"""The daemon as a launchd agent, on macOS. Untested: no such machine was at hand.

What only macOS has about services is in this module. launchd knows no readiness and no watchdog; it restarts
a daemon that fails, and its log is a file in the home.
"""

import os
import plistlib
from pathlib import Path
from typing import Any

from crabtalk.service import STOP_S, Service


class Launchd:
    """A user's launchd."""

    def file(self, service: Service) -> Path:
        """Say where the property list belongs."""
        return Path("~/Library/LaunchAgents").expanduser() / f"{_label(service)}.plist"

    def text(self, service: Service) -> str:
        """Return the property list."""
        log = str(service.home / "daemon.log")
        entries: dict[str, Any] = {
            "Label": _label(service),
            "ProgramArguments": service.command,
            "EnvironmentVariables": {"CRABTALK_HOME": str(service.home)},
            "RunAtLoad": True,
            "KeepAlive": {"SuccessfulExit": False},
            "ThrottleInterval": 2,
            "ExitTimeOut": STOP_S,
            "ProcessType": "Adaptive",
            "Umask": 0o077,
            "StandardOutPath": log,
            "StandardErrorPath": log,
            "HardResourceLimits": {"Core": 0},
            "SoftResourceLimits": {"NumberOfFiles": 65536},
        }
        return plistlib.dumps(entries, sort_keys=False).decode()

    def start(self, service: Service) -> list[list[str]]:
        """Return the command that takes the written property list into use."""
        return [["launchctl", "bootstrap", _domain(), str(self.file(service))]]

    def stop(self, service: Service) -> list[list[str]]:
        """Return the command that stops the service for good."""
        return [["launchctl", "bootout", f"{_domain()}/{_label(service)}"]]

    def forget(self, service: Service) -> list[list[str]]:  # noqa: ARG002 - other managers need it
        """Return nothing: launchd keeps nothing once it was told to stop."""
        return []

    def probe(self) -> list[str]:
        """Return a command that fails where nobody answers for the user's session."""
        return ["launchctl", "print", _domain()]

    def links(self, service: Service) -> list[Path]:  # noqa: ARG002 - other managers need it
        """Return nothing: launchd looks into the folder."""
        return []

    def status(self, service: Service) -> list[str]:
        """Return the command that says how the service is."""
        return ["launchctl", "print", f"{_domain()}/{_label(service)}"]

    def logs(self, service: Service, lines: int, *, follow: bool) -> list[str]:
        """Return the command that shows what the daemon logged."""
        command = ["tail", "-n", str(lines), str(service.home / "daemon.log")]
        return [*command[:1], "-F", *command[1:]] if follow else command


def _label(service: Service) -> str:
    return f"crabtalk.{service.name}"


def _domain() -> str:
    return f"gui/{os.getuid()}"
