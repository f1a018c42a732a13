"""What `config.toml` may say: every key, its default, what a value must be, and a sentence about it.

A file that is missing means the defaults. An unknown key is an error that names the nearest known one, and
nothing is read here that nothing obeys. `${NAME}` stands for an environment variable in `[secrets]` alone.
This module knows no other part of the daemon and is cheap to import.
"""

import dataclasses
import ipaddress
import json
import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar

from crabtalk.errors import ConfigError
from crabtalk.units import duration_s, nearest, shown, size_bytes

MAX_FILE_BYTES: Final = 1 << 20
SECRET: Final = MappingProxyType({"$secret": "set"})  # stands for a secret wherever one would be shown
_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_SECRET_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")

_T = TypeVar("_T")
_Reader = Callable[[object], Any]


@dataclass(frozen=True, slots=True, repr=False)
class Secret:
    """A value that is never shown; `reveal` where it is used."""

    _value: str

    def reveal(self) -> str:
        """Return the value itself."""
        return self._value

    def __repr__(self) -> str:
        return "Secret(set)"


class Key(NamedTuple):
    """One key as the documentation lists it."""

    section: str  # empty for the top
    name: str
    default: object
    written: str  # the default as it is written in the file
    help: str
    live: bool  # obeyed after SIGHUP, without a restart


def _key(read: _Reader, text: str, *, default: _T, written: str = "", live: bool = False) -> _T:
    metadata = {"read": read, "help": text, "live": live, "written": written or json.dumps(default)}
    field: _T = dataclasses.field(default=default, metadata=metadata)
    return field


def _boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"expected true or false, got {shown(value)}")  # noqa: TRY004 - for the operator
    return value


def _whole(low: int, high: int) -> _Reader:
    def read(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ValueError(f"expected a whole number from {low} to {high}, got {shown(value)}")
        return value

    return read


def _bytes(low: int, high: int) -> _Reader:
    def read(value: object) -> int:
        size = size_bytes(value)
        if not low <= size <= high:
            raise ValueError(f"expected a size from {low} to {high} bytes, got {shown(value)}")
        return size

    return read


def _seconds(low: float, high: float) -> _Reader:
    def read(value: object) -> float:
        seconds = duration_s(value)
        if not low <= seconds <= high:
            raise ValueError(f"expected {low:g} to {high:g} seconds, got {shown(value)}")
        return seconds

    return read


def _one_of(*known: str) -> _Reader:
    def read(value: object) -> str:
        if not isinstance(value, str) or value not in known:
            raise ValueError(
                f"expected one of {', '.join(known)}, got {shown(value)}{nearest(str(value), known)}"
            )
        return value

    return read


def _address(value: object) -> str:
    try:
        return str(ipaddress.ip_address(value)) if isinstance(value, str) else _no_address(value)
    except ValueError:
        return _no_address(value)


def _no_address(value: object) -> str:
    raise ValueError(f"expected an IP address such as `127.0.0.1`, got {shown(value)}")


def _metrics_listen(value: object) -> str:
    if isinstance(value, str) and value in {"unix", "off"}:
        return str(value)
    host, colon, port = value.rpartition(":") if isinstance(value, str) else ("", "", "")
    try:
        if colon and port.isascii() and ipaddress.ip_address(host.strip("[]")).is_loopback:
            _whole(1, 65535)(int(port))
            return str(value)
    except ValueError:
        pass
    raise ValueError(
        f"expected `unix`, `off` or a loopback address such as `127.0.0.1:9464`, got {shown(value)}"
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class TcpConfig:
    """Serving clients over TCP, besides the unix socket."""

    enabled: bool = _key(_boolean, "serve TCP; `tcp = true` is the same", default=False)
    host: str = _key(_address, "the address to listen on", default="127.0.0.1")
    port: int = _key(
        _whole(0, 65535), "if it is taken, the next free one is: see `run/crabtalk.port`", default=6688
    )
    off_loopback: bool = _key(
        _boolean, "allow a `host` that other machines reach; the token is all that guards it", default=False
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class LogConfig:
    """What is written to stderr."""

    level: str = _key(
        _one_of("debug", "info", "warning", "error"), "the least that is written", default="info", live=True
    )
    format: str = _key(
        _one_of("text", "json"),
        "one line of text or one JSON object for each event",
        default="text",
        live=True,
    )
    keep_lines: int = _key(_whole(1, 100_000), "lines kept in memory for `crabtalk logs`", default=1000)


@dataclass(frozen=True, kw_only=True, slots=True)
class MetricsConfig:
    """Serving `/metrics` and `/healthz`."""

    listen: str = _key(
        _metrics_listen,
        "`unix` is `run/metrics.sock`; or `off`, or a loopback address and port",
        default="unix",
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class ExecutorConfig:
    """How much runs at once."""

    workers: int = _key(
        _whole(0, 256), "threads for guests that compute for long; 0: one for each processor", default=0
    )
    concurrency: int = _key(_whole(1, 10_000), "guests that are runnable at once", default=256)
    concurrency_per_agent: int = _key(_whole(1, 10_000), "of those, one agent's at most", default=64)
    background: int = _key(
        _whole(1, 10_000), "of `concurrency`, for wakes and events; the rest is for who waits", default=192
    )
    queue: int = _key(_whole(1, 1_000_000), "invocations that wait at most", default=1024)
    queue_per_agent: int = _key(_whole(1, 1_000_000), "of those, one agent's at most", default=256)
    suspended: int = _key(_whole(1, 100_000), "guests that wait for something at most", default=1000)
    suspended_per_harness: int = _key(
        _whole(1, 100_000), "of those, one harness's of an agent at most", default=64
    )
    suspended_memory: int = _key(
        _bytes(1 << 20, 1 << 44),
        "memory that suspended guests have touched at most",
        default=1 << 30,
        written='"1GiB"',
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class ImagesConfig:
    """Loaded harnesses."""

    budget: int = _key(
        _bytes(1 << 20, 1 << 40),
        "memory for loaded images that nothing runs at the moment",
        default=256 << 20,
        written='"256MiB"',
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class WakesConfig:
    """Firing wakes."""

    concurrency: int = _key(
        _whole(1, 10_000), "wakes that run at once; what is due beyond waits its turn", default=64
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditConfig:
    """How long rows of the audit are kept."""

    keep_rows: int = _key(_whole(1000, 100_000_000), "the newest rows to keep", default=1_000_000, live=True)
    keep: float = _key(
        _seconds(3600, 10 * 366 * 86400),
        "how long to keep a row",
        default=90 * 86400.0,
        written='"90d"',
        live=True,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class ShutdownConfig:
    """Stopping."""

    drain: float = _key(
        _seconds(0, 3600),
        "how long a stop waits for what runs before it is interrupted",
        default=10.0,
        written='"10s"',
        live=True,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Config:
    """All of it."""

    tcp: TcpConfig = TcpConfig()
    log: LogConfig = LogConfig()
    metrics: MetricsConfig = MetricsConfig()
    executor: ExecutorConfig = ExecutorConfig()
    images: ImagesConfig = ImagesConfig()
    wakes: WakesConfig = WakesConfig()
    audit: AuditConfig = AuditConfig()
    shutdown: ShutdownConfig = ShutdownConfig()
    secrets: Mapping[str, Secret] = dataclasses.field(default_factory=lambda: MappingProxyType({}))

    def redacted(self) -> dict[str, Any]:
        """Return the configuration as JSON knows it, each secret as `{"$secret": "set"}`."""
        shown: dict[str, Any] = {name: dataclasses.asdict(getattr(self, name)) for name in _SECTIONS}
        shown["secrets"] = {name: dict(SECRET) for name in self.secrets}
        return shown

    def needing_restart(self, other: "Config") -> list[str]:
        """Return the keys, as `section.key`, in which `other` differs and that are read at the start only."""
        return [
            f"{key.section}.{key.name}"
            for key in keys()
            if not key.live
            and getattr(getattr(self, key.section), key.name)
            != getattr(getattr(other, key.section), key.name)
        ]

    def with_live(self, other: "Config") -> "Config":
        """Return this with everything of `other` that can change while the daemon runs."""
        changed: dict[str, Any] = {"secrets": other.secrets}
        for section in _SECTIONS:
            live = {
                key.name: getattr(getattr(other, section), key.name) for key in _keys_of(section) if key.live
            }
            changed[section] = dataclasses.replace(getattr(self, section), **live)
        return dataclasses.replace(self, **changed)


_SECTIONS: Final = {
    "tcp": TcpConfig,
    "log": LogConfig,
    "metrics": MetricsConfig,
    "executor": ExecutorConfig,
    "images": ImagesConfig,
    "wakes": WakesConfig,
    "audit": AuditConfig,
    "shutdown": ShutdownConfig,
}


def keys() -> Iterator[Key]:
    """List every key of every section, `[secrets]` aside, whose keys are the operator's."""
    for section in _SECTIONS:
        yield from _keys_of(section)


def load_config(path: Path, environment: Mapping[str, str] = os.environ) -> Config:
    """Read a configuration file; a missing one is the defaults.

    Raises:
        ConfigError: with every mistake of the file, one a line.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        return Config()
    except OSError as error:
        raise ConfigError(f"{path}: {(error.strerror or 'cannot read').lower()}") from error
    if len(data) > MAX_FILE_BYTES:
        raise ConfigError(f"{path} is larger than {MAX_FILE_BYTES} bytes")
    try:
        table = tomllib.loads(data.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"{path} is not TOML: {error}") from error
    return parse_config(table, environment, source=str(path))


def parse_config(
    table: Mapping[str, Any], environment: Mapping[str, str], *, source: str = "config.toml"
) -> Config:
    """Check what a file says.

    Raises:
        ConfigError: with every mistake, one a line.
    """
    mistakes: list[str] = []
    known = [*_SECTIONS, "secrets"]
    mistakes += [f"unknown key `{name}`{nearest(name, known)}" for name in table if name not in known]
    sections = {name: _section(name, kind, table.get(name, {}), mistakes) for name, kind in _SECTIONS.items()}
    secrets = _secrets(table.get("secrets", {}), environment, mistakes)
    if not mistakes:
        _check_together(sections["tcp"], mistakes)
    if mistakes:
        raise ConfigError("\n".join(f"{source}: {mistake}" for mistake in mistakes))
    return Config(**sections, secrets=secrets)


def _keys_of(section: str) -> Iterator[Key]:
    for field in dataclasses.fields(_SECTIONS[section]):
        known = field.metadata
        yield Key(section, field.name, field.default, known["written"], known["help"], known["live"])


def _section(name: str, kind: Callable[..., Any], table: object, mistakes: list[str]) -> Any:  # noqa: ANN401 - one of the sections
    if name == "tcp" and isinstance(table, bool):
        table = {"enabled": table}
    elif name == "tcp" and isinstance(table, dict) and table:
        table = {"enabled": True, **table}
    if not isinstance(table, dict):
        mistakes.append(f"{name}: expected a table, got {shown(table)}")
        return kind()
    fields = {field.name: field for field in dataclasses.fields(_SECTIONS[name])}
    values: dict[str, object] = {}
    for key, value in table.items():
        if key not in fields:
            mistakes.append(f"unknown key `{name}.{key}`{nearest(key, fields)}")
            continue
        try:
            values[key] = fields[key].metadata["read"](value)
        except ValueError as error:
            mistakes.append(f"{name}.{key}: {error}")
    return kind(**values)


def _secrets(table: object, environment: Mapping[str, str], mistakes: list[str]) -> Mapping[str, Secret]:
    found: dict[str, Secret] = {}
    if not isinstance(table, dict):
        mistakes.append(f"secrets: expected a table, got {shown(table)}")
        return found
    for name, value in table.items():
        if not _SECRET_NAME.fullmatch(name):
            mistakes.append(
                f"secrets: {shown(name)} is no name: letters, digits, `_`, `.` and `-`, at most 63"
            )
        elif not isinstance(value, str):
            mistakes.append(f"secrets.{name}: expected text")
        else:
            missing = [variable for variable in _VARIABLE.findall(value) if variable not in environment]
            mistakes += [f"secrets.{name}: ${{{variable}}} is not set" for variable in missing]
            if not missing:
                found[name] = Secret(_VARIABLE.sub(lambda match: environment[match[1]], value))
    return MappingProxyType(found)


def _check_together(tcp: TcpConfig, mistakes: list[str]) -> None:
    if not tcp.off_loopback and not ipaddress.ip_address(tcp.host).is_loopback:
        mistakes.append(
            f"tcp.host: other machines reach `{tcp.host}`; say `tcp.off_loopback = true` if that is meant"
        )
