"""What `[models]` and `[models.NAME]` of `config.toml` may say.

A name is what agents and people call a model; what is in its table says who answers, where, and within which
bounds. Nothing here is opened or asked. A secret is wherever a credential may be: the key and the headers.
"""

import dataclasses
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

from crabtalk.config_values import (
    SECRET,
    Reader,
    Secret,
    boolean,
    expanded,
    one_of,
    seconds_between,
    setting,
    whole_between,
)
from crabtalk.units import nearest, shown

MODEL_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
SCRIPTED: Final = "scripted"  # the provider that needs no endpoint, and the model when none is configured
BASE_URLS: Final = MappingProxyType(
    {"openai": "https://api.openai.com/v1", "anthropic": "https://api.anthropic.com"}
)
_RESERVED: Final = "default"  # `[models] default = …` is where a model of that name would be
_MAX_ENDPOINTS: Final = 100
_MAX_HEADERS: Final = 32
_HEADER: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_PRINTABLE: Final = re.compile(r"[\x21-\x7e]+(?: [\x21-\x7e]+)*")  # what a header's value may be
_OURS: Final = frozenset({"content-type", "content-length", "host", "transfer-encoding", "connection"})


def _text(most: int) -> Reader:
    def read(value: object) -> str:
        if not isinstance(value, str) or not 0 < len(value) <= most or not value.isprintable():
            raise ValueError(f"expected text of 1 to {most} printable characters, got {shown(value)}")
        return value

    return read


def _url(value: object) -> str:
    try:
        parts = urlsplit(value) if isinstance(value, str) and value.isprintable() else SplitResult(*[""] * 5)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or " " in str(value):
        raise ValueError(f"expected a URL such as `https://api.x.org/v1`, got {shown(value)}")
    if "@" in parts.netloc:
        raise ValueError("expected a URL without a user or password; a key belongs into `api_key`")
    if parts.fragment:
        raise ValueError(f"expected a URL without `#`, got {shown(value)}")
    return str(value)


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelConfig:
    """One `[models.NAME]`."""

    provider: str = setting(
        one_of("openai", "anthropic", SCRIPTED),
        "who answers: a dialect of HTTP, or a script",
        default="",
    )
    model: str = setting(_text(200), "what the endpoint calls the model", default="")
    base_url: str = setting(
        _url,
        "where the dialect's paths begin; left out, the dialect's own vendor",
        default="",
    )
    script: str = setting(
        _text(1024), "of `scripted`: the file of turns, from the home; left out, the built-in one", default=""
    )
    context_window: int = setting(
        whole_between(0, 1_000_000_000), "tokens that the model takes; 0: not known", default=0
    )
    max_tokens: int = setting(
        whole_between(1, 10_000_000),
        "tokens of an answer where the agent sets no limit; only `anthropic` has to send one",
        default=8192,
    )
    cache: bool = setting(
        boolean,
        "let `anthropic` cache the conversation so far, which makes the next request cheaper",
        default=True,
    )
    connect_timeout: float = setting(
        seconds_between(0.1, 600),
        "for a connection, and for sending the request",
        default=15.0,
        written='"15s"',
    )
    idle_timeout: float = setting(
        seconds_between(0.1, 86400), "without a byte of the answer", default=300.0, written='"5min"'
    )
    timeout: float = setting(
        seconds_between(0.1, 86400), "for one answer in all", default=1800.0, written='"30min"'
    )
    api_key: Secret | None = None
    headers: Mapping[str, Secret] = dataclasses.field(default_factory=lambda: MappingProxyType({}))

    def secrets(self) -> Iterator[Secret]:
        """List what is never shown."""
        if self.api_key is not None:
            yield self.api_key
        yield from self.headers.values()

    def redacted(self) -> dict[str, Any]:
        """Return it as JSON knows it, without secrets."""
        shown = {field.name: getattr(self, field.name) for field in _fields()}
        shown["api_key"] = dict(SECRET) if self.api_key is not None else ""
        return {**shown, "headers": {name: dict(SECRET) for name in self.headers}}


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelsConfig:
    """All of `[models]`."""

    default: str = ""  # empty: the only one there is, else the built-in script
    endpoints: Mapping[str, ModelConfig] = dataclasses.field(default_factory=lambda: MappingProxyType({}))

    def secrets(self) -> list[Secret]:
        """Return what is never shown."""
        return [secret for endpoint in self.endpoints.values() for secret in endpoint.secrets()]

    def redacted(self) -> dict[str, Any]:
        """Return it as JSON knows it, without secrets."""
        return {"default": self.default, **{name: one.redacted() for name, one in self.endpoints.items()}}


def helps() -> dict[str, str]:
    """Return a sentence about each key of a `[models.NAME]`."""
    secrets = {
        "api_key": "what the endpoint wants to be shown",
        "headers": "more headers, such as a gateway wants",
    }
    return {field.name: field.metadata["help"] for field in _fields()} | secrets


def parse_models(table: object, environment: Mapping[str, str], mistakes: list[str]) -> ModelsConfig:
    """Check what `[models]` says; add what is wrong with it to `mistakes`."""
    if not isinstance(table, dict):
        mistakes.append(f"models: expected a table, got {shown(table)}")
        return ModelsConfig()
    found: dict[str, ModelConfig] = {}
    for name, value in table.items():
        if name == _RESERVED:
            continue
        if not MODEL_NAME.fullmatch(name):
            mistakes.append(
                f"models: {shown(name)} is no name: letters, digits, `_`, `.` and `-`, at most 63"
            )
        elif not isinstance(value, dict):
            mistakes.append(f"models.{name}: expected a table, got {shown(value)}")
        else:
            found[name] = _endpoint(f"models.{name}", value, environment, mistakes)
    if len(found) > _MAX_ENDPOINTS:
        mistakes.append(f"models: at most {_MAX_ENDPOINTS}, got {len(found)}")
    return ModelsConfig(default=_default(table, found, mistakes), endpoints=MappingProxyType(found))


def _default(table: Mapping[str, Any], found: Mapping[str, ModelConfig], mistakes: list[str]) -> str:
    given = table.get(_RESERVED, "")
    name = given.partition("/")[0] if isinstance(given, str) else ""
    if given and name not in found:
        meant = nearest(name, found)
        mistakes.append(f"models.default: expected the name of one of [models.*], got {shown(given)}{meant}")
    elif not given and len(found) > 1:
        mistakes.append(f"models.default: say which one is meant: {', '.join(found)}")
    return str(given) or next(iter(found), "")


def _endpoint(
    place: str, table: Mapping[str, Any], environment: Mapping[str, str], mistakes: list[str]
) -> ModelConfig:
    fields = {field.name: field for field in _fields()}
    known = [*fields, "api_key", "headers"]
    values: dict[str, Any] = {}
    for key, value in table.items():
        if key not in known:
            mistakes.append(f"unknown key `{place}.{key}`{nearest(key, known)}")
            continue
        try:
            if key == "api_key":
                values[key] = _credential(value, environment)
            elif key == "headers":
                values[key] = _headers(value, environment)
            else:
                values[key] = fields[key].metadata["read"](value)
        except ValueError as error:
            mistakes.append(f"{place}.{key}: {error}")
    mistakes += [f"{place}.{mistake}" for mistake in _inconsistent(table)]
    return ModelConfig(**values)


def _inconsistent(table: Mapping[str, Any]) -> Iterator[str]:
    """Say which keys are missing, and which ones nothing would obey."""
    provider = table.get("provider")
    if provider is None:
        yield f"provider: say which one: {', '.join([*BASE_URLS, SCRIPTED])}"
    elif provider == SCRIPTED:
        obeyed = {"provider", "script", "model", "context_window"}
        yield from (f"{key}: a script has none" for key in table if key not in obeyed and key in _known())
    elif provider in BASE_URLS:
        if "model" not in table:
            yield "model: say what the endpoint calls the model"
        if "script" in table:
            yield f"script: only of the provider `{SCRIPTED}`"


def _credential(value: object, environment: Mapping[str, str]) -> Secret:
    if not isinstance(value, str):
        raise ValueError('expected text such as `"${NAME}"`')  # noqa: TRY004 - for the operator
    secret = expanded(value, environment)
    if not _PRINTABLE.fullmatch(secret.reveal()):
        raise ValueError("expected printable ASCII without spaces at its ends")
    return secret


def _headers(value: object, environment: Mapping[str, str]) -> Mapping[str, Secret]:
    if not isinstance(value, dict) or len(value) > _MAX_HEADERS:
        raise ValueError(f"expected a table of at most {_MAX_HEADERS} headers")
    found: dict[str, Secret] = {}
    for name, text in value.items():
        if not _HEADER.fullmatch(name) or name.lower() in _OURS:
            raise ValueError(f"{shown(name)} is no header that can be set")
        try:
            found[name] = _credential(text, environment)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error
    return MappingProxyType(found)


def _fields() -> list[dataclasses.Field[Any]]:
    """Return the keys that are no secrets."""
    return [field for field in dataclasses.fields(ModelConfig) if "read" in field.metadata]


def _known() -> set[str]:
    return {field.name for field in dataclasses.fields(ModelConfig)}
