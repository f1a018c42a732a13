"""Configurations on their way in and out: merge patches (RFC 7396), and secrets that are never shown.

A secret that was set is shown as `{"$secret": "set"}`, and a client that sends that marker back keeps what is
stored. Entries of a list are found again by their `name`, since a patch replaces a list as a whole.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from crabtalk.errors import BadRequest

MARKER: Final = {"$secret": "set"}

JsonObject = dict[str, Any]


def merge_patch(target: object, patch: object) -> Any:  # noqa: ANN401 - JSON is any value
    """Return `target` as a merge patch changes it; null removes a key."""
    if not isinstance(patch, Mapping):
        return patch
    merged = dict(target) if isinstance(target, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged


def masked(config: Mapping[str, Any]) -> JsonObject:
    """Return a configuration with a marker in place of each secret."""
    return _with_secrets(config, lambda _server, _path, _value: MARKER)


def with_kept_secrets(config: Mapping[str, Any], stored: Mapping[str, Any]) -> JsonObject:
    """Return a configuration with what is stored in place of each marker.

    Raises:
        BadRequest: for a marker where nothing is stored.
    """
    known = {
        (_name(server), path): value
        for server in _servers(stored)
        if isinstance(server, Mapping)
        for path, value in _secrets(server)
    }

    def restored(server: str, path: str, value: object) -> object:
        if value != MARKER:
            return value
        if (server, path) not in known:
            raise BadRequest(f"no secret is stored that could be kept - at `mcps.{server}.{path}`"[:400])
        return known[server, path]

    return _with_secrets(config, restored)


def _with_secrets(config: Mapping[str, Any], change: Callable[[str, str, object], object]) -> JsonObject:
    if not _servers(config):
        return dict(config)
    servers = [_server(one, change) if isinstance(one, Mapping) else one for one in _servers(config)]
    return {**config, "mcps": servers}


def _server(server: Mapping[str, Any], change: Callable[[str, str, object], object]) -> JsonObject:
    name = _name(server)
    changed = dict(server)
    if "auth" in server:
        changed["auth"] = change(name, "auth", server["auth"])
    if isinstance(server.get("env"), Mapping):
        changed["env"] = {key: change(name, f"env.{key}", value) for key, value in server["env"].items()}
    return changed


def _name(server: Mapping[str, Any]) -> str:
    return str(server.get("name", ""))


def _servers(config: Mapping[str, Any]) -> list[Any]:
    servers = config.get("mcps")
    return servers if isinstance(servers, list) else []


def _secrets(server: Mapping[str, Any]) -> list[tuple[str, object]]:
    found: list[tuple[str, object]] = [("auth", server["auth"])] if "auth" in server else []
    env = server.get("env")
    return (
        found + [(f"env.{key}", value) for key, value in env.items()] if isinstance(env, Mapping) else found
    )
