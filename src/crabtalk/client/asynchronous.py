"""The client for programs under trio or asyncio: one connection, any number of requests in flight."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import anyio.abc

from crabtalk.client.asynchronous_methods import AsyncMethods
from crabtalk.client.finding import HOST, Address, find_daemon, no_answer
from crabtalk.wire.pb import crabtalk_pb2 as pb


class Client(AsyncMethods):
    """A connection to a daemon, for any number of tasks; made by `connect`."""


@asynccontextmanager
async def connect(home: str | os.PathLike[str] | None = None) -> AsyncIterator[Client]:
    """Connect to the daemon of `home`, by default that of `$CRABTALK_HOME`.

    Raises:
        NotRunning: if no daemon answers there.
        Unauthorized: if it does not accept the token.
    """
    address = find_daemon(home)
    client = Client(await _open(address))
    failure: Exception | None = None
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.run)
            try:
                if address.path is None:
                    await _authenticate(client, address.token)
                yield client
            except Exception as error:  # noqa: BLE001 - raised again below, outside the group
                failure = error
            tasks.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await client.aclose()
    if failure is not None:
        raise failure


async def _authenticate(client: Client, token: str) -> None:
    message = pb.ClientMessage(auth=pb.AuthMsg(token=token))
    await client._request(message, "pong", pb.Pong)  # noqa: SLF001 - `auth` is no method for others


async def _open(address: Address) -> anyio.abc.ByteStream:
    try:
        if address.path is not None:
            return await anyio.connect_unix(address.path)
        return await anyio.connect_tcp(HOST, address.port)
    except OSError as error:
        raise no_answer(address, error) from error
