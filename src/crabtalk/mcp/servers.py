"""What an agent says about an MCP server, as values."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from types import MappingProxyType
from typing import Any

from crabtalk.config_values import Secret

DEADLINE_S = 60.0


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """One server of one agent: a program to start, or a URL."""

    name: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, Secret] = field(default_factory=lambda: MappingProxyType({}))
    url: str = ""
    auth: Secret | None = None
    auto_restart: bool = True
    deadline_s: float = DEADLINE_S  # of a call

    @classmethod
    def of(cls, declared: Mapping[str, Any]) -> "ServerConfig":
        """Return an entry of `mcps` that was checked."""
        auth = declared.get("auth")
        return cls(
            name=declared["name"],
            command=declared.get("command", ""),
            args=tuple(declared.get("args", ())),
            env={key: Secret(value) for key, value in declared.get("env", {}).items()},
            url=declared.get("url", ""),
            auth=Secret(auth) if auth is not None else None,
            auto_restart=declared.get("auto_restart", True),
            deadline_s=declared.get("deadline", DEADLINE_S),
        )

    def digest(self) -> str:
        """Return what two servers have in common that can be one: all but the name and the deadline.

        Made from secrets, so it is for memory only.
        """
        parts = {
            "command": self.command,
            "args": self.args,
            "env": {key: value.reveal() for key, value in self.env.items()},
            "url": self.url,
            "auth": self.auth.reveal() if self.auth is not None else None,
            "auto_restart": self.auto_restart,
        }
        return sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    def secrets(self) -> list[Secret]:
        """Return the values that are never shown."""
        return [*self.env.values(), *([self.auth] if self.auth is not None else [])]


@dataclass(frozen=True, slots=True)
class ServerTool:
    """One tool as its server lists it."""

    name: str
    description: str
    parameters: Mapping[str, Any]
