"""Getting at the SDK: imported in a thread when it is first needed, since that takes a second and more."""

import importlib
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import trio

from crabtalk.errors import CrabtalkError
from crabtalk.mcp.ring import Ring
from crabtalk.mcp.servers import ServerConfig

if TYPE_CHECKING:
    from crabtalk.mcp.session import Session

EXTRA = "MCP needs the extra `mcp`; run: pip install 'crabtalk[mcp]'"
_importing = trio.Lock()


class NotInstalled(CrabtalkError):  # noqa: N818 - reads as what it says
    """The SDK is not there; says how to get it."""


def load(module: str) -> ModuleType:
    """Import a module of ours that imports the SDK; this may take seconds.

    Raises:
        NotInstalled: if the SDK is not there.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.startswith("crabtalk"):
            raise
        raise NotInstalled(EXTRA) from error


async def loaded(module: str) -> ModuleType:
    """As `load`, without holding up the loop.

    Raises:
        NotInstalled: as `load`.
    """
    async with _importing:
        return await trio.to_thread.run_sync(load, module)


@asynccontextmanager
async def opened(
    config: ServerConfig, home: Path, ring: Ring, changed: Callable[[], None]
) -> AsyncGenerator["Session"]:
    """Connect to a server until the block ends; see `session.opened`.

    Raises:
        NotInstalled: if the SDK is not there.
    """
    module = await loaded("crabtalk.mcp.session")
    async with module.opened(config, home, ring, changed) as session:
        yield session
