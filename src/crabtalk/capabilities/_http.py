"""One request over one connection: resolved once, to an address that was vetted, bounded while reading.

The name goes into `Host` and TLS, the address into the connection, and no name is looked up a second time.
Nothing is followed: a redirect is an answer like any other. Bodies are passed on as they were sent, never
decompressed, so that the bound on what is read is the bound on what is kept. h11 does the protocol, anyio the
bytes; this file is imported with the first request, since TLS is slow to load.
"""

import functools
import os
import ssl
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from ipaddress import ip_address
from socket import SOCK_STREAM, gaierror
from typing import Final

import anyio
import anyio.lowlevel
import certifi
import h11
from anyio.abc import ByteStream
from anyio.streams.tls import TLSStream

from crabtalk.capabilities._failure import Failure
from crabtalk.capabilities._hosts import LOCALHOST, LOOPBACK, Address, Hosts, Origin
from crabtalk.capabilities._request import MAX_BODY_BYTES, MAX_HEADER_BYTES, Request, Response

_MAX_ADDRESSES: Final = 4  # tried one after the other
_CONNECT_S: Final = 10.0  # for one of them
_READ_BYTES: Final = 1 << 16
_EVENTS_PER_PAUSE: Final = 64  # a body of tiny chunks is parsed without ever waiting; picked, not measured

Event = h11.Event | type[h11.PAUSED] | type[h11.NEED_DATA]  # the last is never returned


@functools.cache
def default_tls() -> ssl.SSLContext:
    """Trust the authorities of the system and of certifi."""
    context = ssl.create_default_context()
    context.load_verify_locations(certifi.where())
    return context


async def send(request: Request, hosts: Hosts, tls: ssl.SSLContext | None, limit_s: float) -> Response:
    """Send a request and read the whole answer.

    Raises:
        Refused: if the host has no address that may be connected to.
        Failure: in the guest's terms.
    """
    origin = request.url.origin
    try:
        with anyio.fail_after(limit_s):
            addresses = hosts.vetted(origin, await resolve(origin))
            async with _connected(origin, addresses, tls) as stream:
                with _explained(origin):
                    return await _exchange(stream, request)
    except TimeoutError:
        raise Failure(f"no complete answer from `{origin.host}` within {limit_s:.3g} s") from None


async def resolve(origin: Origin) -> list[Address]:
    """Look a host up, once.

    Raises:
        Failure: if there is no such host.
    """
    if origin.address is not None:
        return [origin.address]
    if origin.host == LOCALHOST:
        return list(LOOPBACK)
    try:
        found = await anyio.getaddrinfo(origin.host, origin.port, type=SOCK_STREAM)
    except OSError as error:
        raise Failure(f"cannot resolve `{origin.host}`: {_reason(error)}") from error
    return [ip_address(str(entry[4][0])) for entry in found]


@asynccontextmanager
async def _connected(
    origin: Origin, addresses: Sequence[Address], tls: ssl.SSLContext | None
) -> AsyncIterator[ByteStream]:
    stream = await _connect(origin, addresses[:_MAX_ADDRESSES])
    try:
        if origin.scheme == "https":
            stream = await _secured(stream, origin, tls or default_tls())
        yield stream
    finally:
        # At once and without a goodbye: a server that does not listen could hold us up.
        await anyio.aclose_forcefully(stream)


async def _connect(origin: Origin, addresses: Sequence[Address]) -> ByteStream:
    failure: OSError = TimeoutError("no answer")
    for address in addresses:
        with anyio.move_on_after(_CONNECT_S):
            try:
                return await anyio.connect_tcp(str(address), origin.port)
            except OSError as error:
                failure = error
    raise Failure(f"cannot connect to `{origin.authority}`: {_reason(failure)}") from failure


async def _secured(stream: ByteStream, origin: Origin, context: ssl.SSLContext) -> ByteStream:
    try:
        return await TLSStream.wrap(
            stream, hostname=origin.host, ssl_context=context, standard_compatible=False
        )
    except (ssl.SSLError, ssl.CertificateError, OSError) as error:
        raise Failure(f"TLS with `{origin.host}` failed: {_reason(error)}") from error
    except (anyio.BrokenResourceError, anyio.EndOfStream) as error:
        raise Failure(f"TLS with `{origin.host}` failed: connection closed") from error


async def _exchange(stream: ByteStream, request: Request) -> Response:
    # A header block that is not complete within the bound ends the reading of it.
    connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEADER_BYTES)
    await _send(stream, connection, request)
    head = await _read_head(stream, connection)
    lines = [name + b": " + value for name, value in head.headers.raw_items()]
    if sum(len(line) + 2 for line in lines) > MAX_HEADER_BYTES:
        raise Failure(f"headers are larger than {MAX_HEADER_BYTES} bytes")
    body = await _read_body(stream, connection)
    return Response(head.status_code, "".join(map(_shown, lines)), body)


async def _send(stream: ByteStream, connection: h11.Connection, request: Request) -> None:
    events = (
        h11.Request(method=request.method, target=request.url.target, headers=list(request.headers)),
        h11.Data(request.body),
        h11.EndOfMessage(),
    )
    data = b"".join(connection.send(event) or b"" for event in events)
    # Who answers before it has read all may have closed already; its answer is waiting.
    with suppress(anyio.BrokenResourceError):
        await stream.send(data)


async def _read_head(stream: ByteStream, connection: h11.Connection) -> h11.Response:
    while True:
        event = await _next(stream, connection)
        if isinstance(event, h11.Response):
            return event
        if isinstance(event, h11.InformationalResponse) and event.status_code == 101:  # noqa: PLR2004
            raise Failure("server wants another protocol")
        await anyio.lowlevel.checkpoint()


async def _read_body(stream: ByteStream, connection: h11.Connection) -> bytes:
    body = bytearray()
    events = 0
    while isinstance(event := await _next(stream, connection), h11.Data):
        body += event.data
        if len(body) > MAX_BODY_BYTES:
            raise Failure(f"body is larger than {MAX_BODY_BYTES} bytes")
        events += 1
        if events % _EVENTS_PER_PAUSE == 0:
            await anyio.lowlevel.checkpoint()
    return bytes(body)


async def _next(stream: ByteStream, connection: h11.Connection) -> Event:
    while (event := connection.next_event()) is h11.NEED_DATA:
        try:
            data = await stream.receive(_READ_BYTES)
        except anyio.EndOfStream:
            data = b""
            if connection.their_state is h11.SEND_RESPONSE and not connection.trailing_data[0]:
                raise Failure("server closed the connection without an answer") from None
        connection.receive_data(data)
    return event


@contextmanager
def _explained(origin: Origin) -> Iterator[None]:
    try:
        yield
    except h11.RemoteProtocolError as error:
        raise Failure(f"`{origin.host}` broke the HTTP protocol: {error}") from error
    except (anyio.BrokenResourceError, OSError) as error:
        raise Failure(f"connection to `{origin.host}` broke: {_reason(error)}") from error


def _reason(error: BaseException) -> str:
    """Say why, in the words of the innermost error, which are the kernel's or OpenSSL's."""
    while error.__cause__ is not None:
        error = error.__cause__
    # Event loops put words of their own beside the number; resolvers and OpenSSL have numbers of their own.
    if isinstance(error, OSError) and not isinstance(error, ssl.SSLError | gaierror) and error.errno:
        return os.strerror(error.errno).lower()
    return (getattr(error, "strerror", None) or str(error) or type(error).__name__)[:200]


def _shown(line: bytes) -> str:
    """Show a header; old servers write latin-1, new ones UTF-8."""
    try:
        return line.decode() + "\n"
    except UnicodeDecodeError:
        return line.decode("latin-1") + "\n"
