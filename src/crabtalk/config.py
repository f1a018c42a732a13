"""What `config.toml` may say: every key, its default, what a value must be, and a sentence about it.

A file that is missing means the defaults. An unknown key is an error that names the nearest known one, and
nothing is read here that nothing obeys. `${NAME}` stands for an environment variable in `[secrets]`, and in
the keys and headers of `[models.*]`, nowhere else. This module knows no other part of the daemon and is
cheap to import.
"""

import dataclasses
import ipaddress
import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from crabtalk.config_values import (
    SECRET,
    Secret,
    boolean,
    expanded,
    folders,
    one_of,
    rate_or_none,
    seconds_between,
    setting,
    size_between,
    whole_between,
)
from crabtalk.errors import ConfigError
from crabtalk.model_config import ModelsConfig, parse_models
from crabtalk.units import nearest, shown

MAX_FILE_BYTES: Final = 1 << 20
_SECRET_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")


class Key(NamedTuple):
    """One key as the documentation lists it."""

    section: str  # empty for the top
    name: str
    default: object
    written: str  # the default as it is written in the file
    help: str
    live: bool  # obeyed after SIGHUP, without a restart


def _address(value: object) -> str:
    try:
        return str(ipaddress.ip_address(value)) if isinstance(value, str) else _no_address(value)
    except ValueError:
        return _no_address(value)


def _no_address(value: object) -> str:
    raise ValueError(f"expected an IP address such as `127.0.0.1`, got {shown(value)}")


def _place(example: str, *words: str) -> Callable[[object], str]:
    """Return what reads one of some words, or a loopback address with a port."""

    def read(value: object) -> str:
        if isinstance(value, str) and value in words:
            return str(value)
        host, colon, port = value.rpartition(":") if isinstance(value, str) else ("", "", "")
        try:
            if colon and port.isascii() and ipaddress.ip_address(host.strip("[]")).is_loopback:
                whole_between(1, 65535)(int(port))
                return str(value)
        except ValueError:
            pass
        expected = ", ".join(f"`{word}`" for word in words)
        raise ValueError(f"expected {expected} or a loopback address such as `{example}`, got {shown(value)}")

    return read


@dataclass(frozen=True, kw_only=True, slots=True)
class TcpConfig:
    """Serving clients over TCP, besides the unix socket."""

    enabled: bool = setting(boolean, "serve TCP; `tcp = true` is the same", default=False)
    host: str = setting(_address, "the address to listen on", default="127.0.0.1")
    port: int = setting(
        whole_between(0, 65535), "if it is taken, the next free one is: see `run/crabtalk.port`", default=6688
    )
    off_loopback: bool = setting(
        boolean, "allow a `host` that other machines reach; the token is all that guards it", default=False
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class LogConfig:
    """What is written to stderr."""

    level: str = setting(
        one_of("debug", "info", "warning", "error"), "the least that is written", default="info", live=True
    )
    format: str = setting(
        one_of("text", "json"),
        "one line of text or one JSON object for each event",
        default="text",
        live=True,
    )
    keep_lines: int = setting(
        whole_between(1, 100_000), "lines kept in memory for `crabtalk logs`", default=1000
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class MetricsConfig:
    """Serving `/metrics` and `/healthz`."""

    listen: str = setting(
        _place("127.0.0.1:9464", "unix", "off"),
        "`unix` is `run/metrics.sock`; or `off`, or a loopback address and port",
        default="unix",
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class ExecutorConfig:
    """How much runs at once."""

    workers: int = setting(
        whole_between(0, 256),
        "threads for guests that compute for long; 0: one for each processor",
        default=0,
    )
    concurrency: int = setting(whole_between(1, 10_000), "guests that are runnable at once", default=256)
    concurrency_per_agent: int = setting(
        whole_between(1, 10_000), "of those, one agent's at most", default=64
    )
    background: int = setting(
        whole_between(1, 10_000),
        "of `concurrency`, for wakes and events; the rest is for who waits",
        default=192,
    )
    rate: str = setting(
        rate_or_none, "invocations that are taken on, such as `600/min`; empty: as many as come", default=""
    )
    queue: int = setting(whole_between(1, 1_000_000), "invocations that wait at most", default=1024)
    queue_per_agent: int = setting(whole_between(1, 1_000_000), "of those, one agent's at most", default=256)
    suspended: int = setting(
        whole_between(1, 100_000), "guests that wait for something at most", default=1000
    )
    suspended_per_harness: int = setting(
        whole_between(1, 100_000), "of those, one harness's of an agent at most", default=64
    )
    suspended_memory: int = setting(
        size_between(1 << 20, 1 << 44),
        "memory that suspended guests have touched at most",
        default=1 << 30,
        written='"1GiB"',
    )
    chain_tokens: int = setting(
        whole_between(1, 1_000_000_000_000),
        "tokens of models that the turns of one chain may use together; one more question is never asked",
        default=2_000_000,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class ImagesConfig:
    """Loaded harnesses."""

    budget: int = setting(
        size_between(1 << 20, 1 << 40),
        "memory for loaded images that nothing runs at the moment",
        default=256 << 20,
        written='"256MiB"',
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class WakesConfig:
    """Firing wakes."""

    concurrency: int = setting(
        whole_between(1, 10_000), "wakes that run at once; what is due beyond waits its turn", default=64
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditConfig:
    """How long rows of the audit are kept."""

    keep_rows: int = setting(
        whole_between(1000, 100_000_000), "the newest rows to keep", default=1_000_000, live=True
    )
    keep: float = setting(
        seconds_between(3600, 10 * 366 * 86400),
        "how long to keep a row",
        default=90 * 86400.0,
        written='"90d"',
        live=True,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class SkillsConfig:
    """Where skills are, besides the home's own folder `skills`, which comes first."""

    folders: tuple[str, ...] = setting(
        folders,
        "folders of skills; of two skills of one name the one that is found first counts",
        default=(),
        written="[]",
        live=True,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class McpConfig:
    """MCP servers that agents declare, and MCP clients that use tools of agents."""

    listen: str = setting(
        _place("127.0.0.1:6689", "off"),
        "where MCP clients with a token are served over HTTP; `off`, or a loopback address and port",
        default="off",
    )
    servers: int = setting(
        whole_between(1, 10_000), "servers that are connected at once, of all agents", default=128, live=True
    )
    idle: float = setting(
        seconds_between(1, 30 * 86400),
        "how long a server that nobody calls is kept; the next call starts it again",
        default=600.0,
        written='"10min"',
        live=True,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class ShutdownConfig:
    """Stopping."""

    drain: float = setting(
        seconds_between(0, 3600),
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
    skills: SkillsConfig = SkillsConfig()
    mcp: McpConfig = McpConfig()
    shutdown: ShutdownConfig = ShutdownConfig()
    models: ModelsConfig = dataclasses.field(default_factory=ModelsConfig)
    secrets: Mapping[str, Secret] = dataclasses.field(default_factory=lambda: MappingProxyType({}))

    def redacted(self) -> dict[str, Any]:
        """Return the configuration as JSON knows it, each secret as `{"$secret": "set"}`."""
        shown: dict[str, Any] = {name: dataclasses.asdict(getattr(self, name)) for name in _SECTIONS}
        shown["models"] = self.models.redacted()
        shown["secrets"] = {name: dict(SECRET) for name in self.secrets}
        return shown

    def known_secrets(self) -> list[Secret]:
        """Return every value that is never shown."""
        return [*self.secrets.values(), *self.models.secrets()]

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
        changed: dict[str, Any] = {"models": other.models, "secrets": other.secrets}
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
    "skills": SkillsConfig,
    "mcp": McpConfig,
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
    known = [*_SECTIONS, "models", "secrets"]
    mistakes += [f"unknown key `{name}`{nearest(name, known)}" for name in table if name not in known]
    sections = {name: _section(name, kind, table.get(name, {}), mistakes) for name, kind in _SECTIONS.items()}
    models = parse_models(table.get("models", {}), environment, mistakes)
    secrets = _secrets(table.get("secrets", {}), environment, mistakes)
    if not mistakes:
        _check_together(sections["tcp"], mistakes)
    if mistakes:
        raise ConfigError("\n".join(f"{source}: {mistake}" for mistake in mistakes))
    return Config(**sections, models=models, secrets=secrets)


def _keys_of(section: str) -> Iterator[Key]:
    for field in dataclasses.fields(_SECTIONS[section]):
        known = field.metadata
        yield Key(section, field.name, field.default, known["written"], known["help"], known["live"])


def _section(name: str, kind: Callable[..., Any], table: object, mistakes: list[str]) -> Any:  # noqa: ANN401 - one of the sections
    if name == "tcp" and isinstance(table, bool):
        table = {"enabled": table}
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
            try:
                found[name] = expanded(value, environment)
            except ValueError as error:
                mistakes.append(f"secrets.{name}: {error}")
    return MappingProxyType(found)


def _check_together(tcp: TcpConfig, mistakes: list[str]) -> None:
    if not tcp.off_loopback and not ipaddress.ip_address(tcp.host).is_loopback:
        mistakes.append(
            f"tcp.host: other machines reach `{tcp.host}`; say `tcp.off_loopback = true` if that is meant"
        )
