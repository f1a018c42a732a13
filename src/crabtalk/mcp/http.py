"""Reaching a server by its URL; imports the SDK.

The SDK speaks, over a client of ours: it has our bounds, sends our token to that server alone, and takes no
answer that is packed, since a small one could unpack to all of the memory.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import httpx2
from mcp.client.streamable_http import streamable_http_client

from crabtalk.mcp.framing import Streams
from crabtalk.mcp.lines import MAX_LINE_BYTES
from crabtalk.mcp.servers import ServerConfig

_CONNECT_S: Final = 10.0
_SILENT_S: Final = 3600.0  # a stream may be silent this long; calls have deadlines of their own
_NOT_ALLOWED: Final = frozenset({401, 403})
_EVENTS: Final = "text/event-stream"


class NotAllowed(httpx2.TransportError):
    """The server does not let us in, so there is no use in asking it anything else."""


class TooMuch(httpx2.StreamError):
    """An answer is larger than the bound, or packed."""


@asynccontextmanager
async def connected(config: ServerConfig) -> AsyncGenerator[Streams]:
    """Speak to the server of a URL until the block ends."""
    headers = {"Accept-Encoding": "identity", "User-Agent": "crabtalk"}
    if config.auth is not None:
        token = config.auth.reveal()
        headers["Authorization"] = token if " " in token else f"Bearer {token}"
    timeout = httpx2.Timeout(_CONNECT_S, read=_SILENT_S)
    async with (
        httpx2.AsyncClient(headers=headers, timeout=timeout, transport=_Bounded()) as client,
        streamable_http_client(config.url, http_client=client, max_sse_event_size=MAX_LINE_BYTES) as streams,
    ):
        yield streams  # type: ignore[misc]  # two streams of the same kind, by another name


class _Bounded(httpx2.AsyncBaseTransport):
    """A transport whose answers have an end."""

    def __init__(self) -> None:
        self._inner = httpx2.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await self._inner.handle_async_request(request)
        if response.status_code in _NOT_ALLOWED:
            await response.aclose()
            raise NotAllowed(f"the server answered {response.status_code}: it wants a token, or another one")
        if response.headers.get("content-encoding", "identity").strip().lower() != "identity":
            await response.aclose()
            raise TooMuch("the answer is packed, which was not asked for")
        # Events are bounded one by one, and a stream of them need not end.
        if not response.headers.get("content-type", "").strip().lower().startswith(_EVENTS):
            assert isinstance(response.stream, httpx2.AsyncByteStream)  # noqa: S101 - an async transport made it
            response.stream = _BoundedStream(response.stream)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


class _BoundedStream(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        seen = 0
        try:
            async for chunk in self._inner:
                seen += len(chunk)
                if seen <= MAX_LINE_BYTES:
                    yield chunk
                else:
                    # Read on from what is closed: that ends the generators below in order.
                    await self._inner.aclose()
        finally:
            if seen > MAX_LINE_BYTES:
                raise TooMuch(f"the answer is larger than {MAX_LINE_BYTES} bytes")

    async def aclose(self) -> None:
        await self._inner.aclose()
