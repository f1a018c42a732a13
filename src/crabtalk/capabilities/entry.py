"""The capabilities as options of a command line: the entry points of the group `berm.capabilities`.

Each entry point is named for its option (`--root`, `--host`, `--zone`, `--storage`) and has the signature

    (values: Sequence[str]) -> tuple[Capability, ...]

`values` holds what the option was given, in order, at least one; an option that takes one value refuses more.
What is wrong with a value is a `ValueError` with a sentence for the user. Resources (the handle of a root,
the file of a storage) live as long as the capabilities that were returned. An option costs only its own
imports.
"""

from collections.abc import Sequence
from typing import Final

from berm import Capability

STORAGE_BYTES: Final = 16 << 20  # the quota of `--storage`


def root(values: Sequence[str]) -> tuple[Capability, ...]:
    """Grant the files beneath a directory, and a shell that starts there: `--root DIR`.

    Raises:
        ValueError: if it is no directory, lies in the daemon's own one, or is not the only one.
    """
    from crabtalk.capabilities.commands import commands  # noqa: PLC0415 - an option costs its own imports

    return commands(_single("root", values))


def host(values: Sequence[str]) -> tuple[Capability, ...]:
    """Grant requests to hosts: `--host api.x.org --host '*.y.org:8443' --host http://127.0.0.1:8000`.

    Raises:
        ValueError: for a value that is no host.
    """
    from crabtalk.capabilities.web import web  # noqa: PLC0415 - an option costs its own imports

    return web(values)


def zone(values: Sequence[str]) -> tuple[Capability, ...]:
    """Grant the time in zones, the first of which is that of `now`: `--zone Europe/Berlin`, `--zone local`.

    Raises:
        ValueError: for a value that is no time zone.
    """
    from crabtalk.capabilities.clock import clock  # noqa: PLC0415 - an option costs its own imports

    return clock(values)


def storage(values: Sequence[str]) -> tuple[Capability, ...]:
    """Grant up to 16 MiB of values kept in a file: `--storage FILE`.

    Raises:
        ValueError: if the file cannot be used, or is not the only one.
    """
    from crabtalk.capabilities import storage as module  # noqa: PLC0415 - an option costs its own imports

    file = module.KeyValueFile(_single("storage", values))
    return module.storage(file.namespace(""), STORAGE_BYTES)


def _single(option: str, values: Sequence[str]) -> str:
    if len(values) != 1:
        raise ValueError(f"{option}: expected one value, got {len(values)}")
    return values[0]
