"""The daemon as a service of its user: what the unit says, and which commands install it. Runs nothing.

A service's sandbox is inherited by every command that a harness with `root` runs, and the daemon itself has
to reach whatever directories declarations name. So the unit takes away what neither needs (privileges, core
dumps with secrets in them, odd socket families) and hides no part of the file system: what a harness reaches
is what its declaration binds.
"""

import hashlib
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from crabtalk.errors import ConfigError

STOP_S: Final = 90  # longer than the daemon drains by default; then whatever is left is killed
WATCHDOG_S: Final = 30
_DEFAULT_HOME: Final = "~/.crabtalk"
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLAIN: Final = re.compile(r"[A-Za-z0-9_./-]+")

_UNIT: Final = """\
[Unit]
Description=crabtalk daemon ({home_text})

[Service]
Type=notify
NotifyAccess=main
ExecStart={command}
ExecReload=/bin/kill -HUP $MAINPID
Environment={environment}
# NAME=value lines for the ${{NAME}} of config.toml; may be missing.
EnvironmentFile=-{environment_file}
WatchdogSec={watchdog_s}
Restart=on-failure
RestartSec=2
TimeoutStartSec=300
TimeoutStopSec={stop_s}
# The daemon stops what it started; what is left after that is killed.
KillMode=mixed
# A command of a harness that uses up the memory does not take the daemon along.
OOMPolicy=continue
UMask=0077
LimitCORE=0
LimitNOFILE=65536
NoNewPrivileges=yes
RestrictSUIDSGID=yes
RestrictRealtime=yes
LockPersonality=yes
SystemCallArchitectures=native
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK

[Install]
WantedBy=default.target
"""


@dataclass(frozen=True, slots=True)
class Service:
    """The daemon of one home, run by one interpreter.

    Raises:
        ConfigError: if a path cannot be written into a unit.
    """

    home: Path  # absolute
    python: Path = Path(sys.executable)

    def __post_init__(self) -> None:
        for path in (self.home, self.python):
            if not str(path).isprintable():
                raise ConfigError(
                    f"a service cannot be given the path {str(path)!r}: it has control characters"
                )

    @property
    def name(self) -> str:
        """Say how the service is called: two homes are two services."""
        if self.home == Path(_DEFAULT_HOME).expanduser():
            return "crabtalk"
        return f"crabtalk-{hashlib.sha256(os.fsencode(self.home)).hexdigest()[:8]}"

    @property
    def command(self) -> list[str]:
        """Say what is run. `-P` keeps the files of the working directory from being taken for modules."""
        return [str(self.python), "-P", "-m", "crabtalk", "up"]


class Manager(Protocol):
    """What looks after services on one kind of machine. Commands are argument lists, to be run in order."""

    def file(self, service: Service) -> Path:
        """Say where the unit belongs."""

    def text(self, service: Service) -> str:
        """Return the unit."""

    def start(self, service: Service) -> list[list[str]]:
        """Return the commands that take the written unit into use, and wait until the daemon is ready."""

    def stop(self, service: Service) -> list[list[str]]:
        """Return the commands that stop the service for good, before its file is removed."""

    def forget(self, service: Service) -> list[list[str]]:
        """Return the commands to run after the file was removed."""

    def probe(self) -> list[str]:
        """Return a command that fails where no service manager answers, and changes nothing."""

    def links(self, service: Service) -> list[Path]:
        """Say which links to the unit make it start, where the manager cannot be asked to remove them."""

    def status(self, service: Service) -> list[str]:
        """Return the command that says how the service is."""

    def logs(self, service: Service, lines: int, *, follow: bool) -> list[str]:
        """Return the command that shows what the daemon logged."""


class Systemd:
    """A user's systemd, on Linux."""

    def file(self, service: Service) -> Path:
        """Say where the unit belongs."""
        configuration = Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser()
        return configuration / "systemd" / "user" / f"{service.name}.service"

    def text(self, service: Service) -> str:
        """Return the unit."""
        return _UNIT.format(
            home_text=_specifiers(str(service.home)),
            command=" ".join(_word(word) for word in service.command),
            environment=_quoted(f"CRABTALK_HOME={service.home}"),
            environment_file=_specifiers(str(service.home / "environment")),
            watchdog_s=WATCHDOG_S,
            stop_s=STOP_S,
        )

    def start(self, service: Service) -> list[list[str]]:
        """Return the commands that take the written unit into use; the last one waits for READY."""
        return [
            ["systemctl", "--user", "daemon-reload"],
            ["systemctl", "--user", "enable", "--quiet", f"{service.name}.service"],
            ["systemctl", "--user", "restart", f"{service.name}.service"],
        ]

    def stop(self, service: Service) -> list[list[str]]:
        """Return the command that stops the service and keeps it from starting again."""
        return [["systemctl", "--user", "disable", "--quiet", "--now", f"{service.name}.service"]]

    def forget(self, service: Service) -> list[list[str]]:
        """Return the commands to run after the file was removed."""
        return [
            ["systemctl", "--user", "daemon-reload"],
            ["systemctl", "--user", "reset-failed", "--quiet", f"{service.name}.service"],
        ]

    def probe(self) -> list[str]:
        """Return a command that fails where no service manager answers."""
        return ["systemctl", "--user", "show", "--property=Version", "--no-pager"]

    def links(self, service: Service) -> list[Path]:
        """Say what `enable` made."""
        file = self.file(service)
        return [file.parent / "default.target.wants" / file.name]

    def status(self, service: Service) -> list[str]:
        """Return the command that says how the service is."""
        return ["systemctl", "--user", "--no-pager", "status", f"{service.name}.service"]

    def logs(self, service: Service, lines: int, *, follow: bool) -> list[str]:
        """Return the command that shows what the daemon logged."""
        command = ["journalctl", "--user", "--no-pager", f"--lines={lines}", f"--unit={service.name}.service"]
        return [*command, "--follow"] if follow else command


def service_environment(home: Path) -> dict[str, str]:
    """Return what the unit of this home adds to the daemon's environment; nothing where the file is missing.

    Raises:
        ConfigError: if the file cannot be read, or a line of it is no NAME=value.
    """
    file = home / "environment"
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: cannot be read: {error}") from error
    found: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if not (text := line.strip()) or text[0] in "#;":
            continue
        name, equals, value = text.partition("=")
        if not equals or not _VARIABLE.fullmatch(name):
            raise ConfigError(f"{file}: line {number} is not NAME=value")
        quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
        found[name] = value[1:-1] if quoted else value
    return found


def _specifiers(text: str) -> str:
    """Keep systemd from expanding `%`."""
    return text.replace("%", "%%")


def _word(text: str) -> str:
    """Write one word of a command line, where `$` has a meaning too."""
    return text if _PLAIN.fullmatch(text) else _quoted(text).replace("$", "$$")


def _quoted(text: str) -> str:
    """Write one word of a setting, whatever it is made of."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{_specifiers(escaped)}"'
