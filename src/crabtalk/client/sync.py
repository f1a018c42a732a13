"""The client for scripts and commands: blocking, without an event loop, quick to start."""

import os
from types import TracebackType
from typing import Self

from crabtalk.client.finding import connect_socket, find_daemon
from crabtalk.client.sync_methods import SyncMethods
from crabtalk.wire.pb import crabtalk_pb2 as pb


class SyncClient(SyncMethods):
    """A connection to a daemon, for one thread at a time; a context manager."""

    @classmethod
    def connect(cls, home: str | os.PathLike[str] | None = None, *, timeout_s: float | None = None) -> Self:
        """Connect to the daemon of `home`, by default that of `$CRABTALK_HOME`.

        Args:
            home: its directory.
            timeout_s: how long to wait for a reply; forever if None.

        Raises:
            NotRunning: if no daemon answers there.
            Unauthorized: if it does not accept the token.
        """
        address = find_daemon(home)
        client = cls(connect_socket(address, timeout_s), timeout_s=timeout_s)
        if address.path is None:
            try:
                client._request(pb.ClientMessage(auth=pb.AuthMsg(token=address.token)), "pong", pb.Pong)
            except BaseException:
                client.close()
                raise
        return client

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
