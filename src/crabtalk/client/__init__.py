"""Talking to a daemon from Python: `SyncClient` over a blocking socket, `connect` and `Client` under anyio.

Both have a method for each request of the protocol. What only one of them needs is imported when it is asked
for, so that a command starts quickly.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crabtalk.client.asynchronous import Client, connect
    from crabtalk.client.finding import ConnectionLost, NotRunning
    from crabtalk.client.sync import SyncClient

__all__ = ["Client", "ConnectionLost", "NotRunning", "SyncClient", "connect"]

_HOMES = {
    "Client": "crabtalk.client.asynchronous",
    "ConnectionLost": "crabtalk.client.finding",
    "NotRunning": "crabtalk.client.finding",
    "SyncClient": "crabtalk.client.sync",
    "connect": "crabtalk.client.asynchronous",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any of them
    """Import what is asked for."""
    import importlib  # noqa: PLC0415 - as everything here

    if name not in _HOMES:
        raise AttributeError(f"module `crabtalk.client` has no attribute `{name}`")
    return getattr(importlib.import_module(_HOMES[name]), name)
