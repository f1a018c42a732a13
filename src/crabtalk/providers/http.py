"""Asking over HTTP: one request, one answer, no second try.

The client is imported and made when it is first needed, in a thread, since that takes longer than a daemon
may stand still. Every wait has a bound that is ours, so that a byte now and then does not prolong it for
ever. No redirect is followed: it would carry the credentials elsewhere. What the client says of an error is
not shown where it may hold a header.
"""

import contextlib
import ipaddress
import json
import logging
import os
import ssl
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Final, Self
from urllib.parse import urlsplit

import trio

from crabtalk.clock import Clock
from crabtalk.conversation.model import ErrorKind, ModelError, ModelEvent, ModelRequest
from crabtalk.model_config import BASE_URLS, ModelConfig
from crabtalk.providers.answer import Answer
from crabtalk.providers.anthropic import Anthropic
from crabtalk.providers.dialect import Dialect
from crabtalk.providers.failures import Failures
from crabtalk.providers.json_values import clean, items, loads, table
from crabtalk.providers.openai import OpenAI

if TYPE_CHECKING:
    import httpx2

MAX_ANSWER_BYTES: Final = 16 << 20
MAX_REQUEST_BYTES: Final = 32 << 20
_MAX_ERROR_BYTES: Final = 64 << 10
_MAX_LIST_BYTES: Final = 4 << 20
_MAX_MODELS: Final = 1000
_MAX_CONNECTIONS: Final = 1024
_KEPT_CONNECTIONS: Final = 32
_KEPT_S: Final = 30.0  # so that the next request of a turn needs no handshake
_CLOSE_S: Final = 2.0
_OK: Final = 200
_NOT_FOUND: Final = 404
_REDIRECTS: Final = range(300, 400)


class HttpProvider:
    """One endpoint."""

    def __init__(self, name: str, config: ModelConfig, clock: Clock) -> None:
        """Ask as `config` says; nothing is opened yet."""
        self.name = name
        self.config = config
        self._base = config.base_url or BASE_URLS[config.provider]
        self._clock = clock
        self._failures = Failures(name, config.secrets())
        self._dialect = _dialect(config, self._base)
        self._client: httpx2.AsyncClient | None = None
        self._making = trio.Lock()
        self._users = 0
        self._retired = False

    async def models(self) -> list[str]:
        """Return the names of the models that the endpoint lists.

        Raises:
            ModelError: if it does not answer.
        """
        deadline = trio.current_time() + self.config.connect_timeout
        async with (
            self._asked("GET", "models", None, deadline) as response,
            _Body(response, deadline, self) as body,
        ):
            data = await body.read(_MAX_LIST_BYTES)
        try:
            listed = table(loads(data))
        except ValueError as error:
            raise self._failures.make(ErrorKind.BAD_REQUEST, "its list of models is not JSON") from error
        entries = items(listed.get("data")) or items(listed.get("models"))
        names = [clean(table(entry).get("id")) or clean(table(entry).get("name")) for entry in entries]
        return sorted(dict.fromkeys(filter(None, names)))[:_MAX_MODELS]

    def stream(self, request: ModelRequest) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        """Ask once; the connection is closed with the block, unless all of the answer was read.

        **Cancellation:** the connection is dropped.

        Raises:
            ModelError: on entry, or from the iterator.
        """
        return self._stream(request)

    async def retire(self) -> None:
        """Close the connections, as soon as nobody reads from one."""
        self._retired = True
        await self._maybe_close()

    async def close(self) -> None:
        """Close the connections now."""
        client, self._client = self._client, None
        if client is not None:
            with trio.move_on_after(_CLOSE_S, shield=True):
                await client.aclose()

    @asynccontextmanager
    async def _stream(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[ModelEvent]]:
        content = json.dumps(self._dialect.body(request), ensure_ascii=False).encode(errors="replace")
        if len(content) > MAX_REQUEST_BYTES:
            raise self._failures.make(
                ErrorKind.CONTEXT, f"the conversation is larger than {MAX_REQUEST_BYTES} bytes"
            )
        deadline = trio.current_time() + self.config.timeout
        async with (
            self._asked("POST", "chat", content, deadline) as response,
            _Body(response, deadline, self) as body,
        ):
            decoder = self._dialect.decoder(self._failures)
            kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind == "application/json":
                yield Answer(body, decoder, self._failures, await body.read(MAX_ANSWER_BYTES))
            elif kind == "text/html":
                raise self._failures.make(
                    ErrorKind.BAD_REQUEST, f"a web page answered; is `base_url` right?{self._hint()}"
                )
            else:
                yield Answer(body, decoder, self._failures)

    @asynccontextmanager
    async def _asked(
        self, method: str, path: str, content: bytes | None, deadline: float
    ) -> AsyncGenerator["httpx2.Response"]:
        """Send a request; give the response if it is a good one."""
        client = await self._opened()
        self._users += 1
        try:
            request = client.build_request(
                method, self._dialect.url(self._base, path), content=content, headers=self._headers(content)
            )
            response = await self._send(client, request, deadline)
            try:
                if response.status_code != _OK:
                    raise await self._refusal(response, deadline)
                yield response
            finally:
                with trio.move_on_after(_CLOSE_S, shield=True):
                    await response.aclose()
        finally:
            self._users -= 1
            if self._retired:
                await self._maybe_close()

    async def _send(
        self, client: "httpx2.AsyncClient", request: "httpx2.Request", deadline: float
    ) -> "httpx2.Response":
        with self.converted(ErrorKind.NETWORK), trio.move_on_at(self.until(deadline)):
            return await client.send(request, stream=True)
        raise self.timed_out(deadline)

    async def _refusal(self, response: "httpx2.Response", deadline: float) -> ModelError:
        """Make an error of a response that is no answer."""
        status = response.status_code
        if status in _REDIRECTS:
            where = response.headers.get("location", "")
            return self._failures.make(
                ErrorKind.BAD_REQUEST,
                f"HTTP {status}: it is elsewhere; set `base_url` to {where}",
                status=status,
            )
        async with _Body(response, deadline, self) as body:
            data = await body.read(_MAX_ERROR_BYTES, cut=True)
        hint = self._hint() if status == _NOT_FOUND else ""
        return self._failures.of_response(status, response.headers, data, self._clock.now_ms(), hint=hint)

    def _hint(self) -> str:
        if self.config.provider == "openai" and not urlsplit(self._base).path.strip("/"):
            return f" (`base_url` is {self._base}; most endpoints want it to end with `/v1`)"
        return ""

    def _headers(self, content: bytes | None) -> dict[str, str]:
        own = {
            "accept": "text/event-stream, application/json",
            "accept-encoding": "identity",
            "user-agent": "crabtalk",
        }
        if content is not None:
            own["content-type"] = "application/json"
        given = {name: value.reveal() for name, value in self.config.headers.items()}
        return {**own, **self._dialect.headers(self.config.api_key), **given}

    async def _opened(self) -> "httpx2.AsyncClient":
        async with self._making:
            if self._client is None:
                self._client = await trio.to_thread.run_sync(_client, self._base, self.config.connect_timeout)
            return self._client

    async def _maybe_close(self) -> None:
        if not self._users:
            await self.close()

    def until(self, deadline: float) -> float:
        """Return until when to wait for the next bytes."""
        return min(deadline, trio.current_time() + self.config.idle_timeout)

    def timed_out(self, deadline: float) -> ModelError:
        """Say which of the bounds has passed."""
        config = self.config
        if trio.current_time() >= deadline:
            return self._failures.make(ErrorKind.TIMEOUT, f"no complete answer within {config.timeout:g} s")
        return self._failures.make(ErrorKind.TIMEOUT, f"nothing came for {config.idle_timeout:g} s")

    def too_large(self, limit: int) -> ModelError:
        """Say that the answer is cut, since it is larger than any could be."""
        return self._failures.make(ErrorKind.INTERRUPTED, f"the answer is larger than {limit} bytes")

    def converted(self, broken: ErrorKind) -> "_Converted":
        """Make errors of the client ours; `broken` is what a connection that broke means now."""
        return _Converted(self._failures, urlsplit(self._base).netloc, broken)


class _Converted:
    """A block in which errors of the client become ours."""

    def __init__(self, failures: Failures, where: str, broken: ErrorKind) -> None:
        self._failures = failures
        self._where = where
        self._broken = broken

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if error is None or not isinstance(error, Exception) or isinstance(error, ModelError):
            return
        import httpx2  # noqa: PLC0415 - it was imported when the client was made

        if isinstance(error, httpx2.TimeoutException):
            raise self._failures.make(ErrorKind.TIMEOUT, f"no connection to {self._where} in time") from error
        if isinstance(error, httpx2.ConnectError):
            raise self._failures.make(
                ErrorKind.NETWORK, f"cannot connect to {self._where}: {_reason(error)}"
            ) from error
        if isinstance(error, httpx2.ProxyError):
            raise self._failures.make(
                ErrorKind.NETWORK, f"the proxy does not connect to {self._where}"
            ) from error
        if isinstance(error, httpx2.DecodingError):
            raise self._failures.make(
                ErrorKind.INTERRUPTED, "the answer is compressed, and damaged"
            ) from error
        if isinstance(error, httpx2.NetworkError | httpx2.RemoteProtocolError):
            raise self._failures.make(self._broken, f"{self._where} broke the connection off") from error
        if isinstance(error, httpx2.HTTPError | httpx2.InvalidURL | httpx2.StreamError):
            raise self._failures.make(
                ErrorKind.BAD_REQUEST, f"the request to {self._where} cannot be sent"
            ) from error


class _Body:
    """What comes of a response, within its bounds."""

    def __init__(self, response: "httpx2.Response", deadline: float, owner: HttpProvider) -> None:
        self._response = response
        self._chunks = response.aiter_bytes()
        self._deadline = deadline
        self._owner = owner
        self._read = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        with trio.move_on_after(_CLOSE_S, shield=True):
            await self._response.aclose()
            # The client's generators do not close those within them, so they are let run into the closed
            # connection; at most what was received already comes before that.
            with contextlib.suppress(Exception):
                while await anext(self._chunks, b""):
                    pass
            await self._chunks.aclose()

    async def next(self, within_s: float | None = None) -> bytes | None:
        """Return the next bytes, empty ones at the end; None if nothing came `within_s`.

        Raises:
            ModelError: if the connection broke, a bound has passed, or the answer is too large.
        """
        until = self._owner.until(self._deadline)
        if within_s is not None:
            until = min(until, trio.current_time() + within_s)
        with self._owner.converted(ErrorKind.INTERRUPTED), trio.move_on_at(until):
            data = await anext(self._chunks, b"")
            self._read += len(data)
            if self._read > MAX_ANSWER_BYTES:
                raise self._owner.too_large(MAX_ANSWER_BYTES)
            return data
        if within_s is not None:
            return None
        raise self._owner.timed_out(self._deadline)

    async def read(self, limit: int, *, cut: bool = False) -> bytes:
        """Return all that comes, or the beginning of it if `cut`."""
        found = bytearray()
        while data := await self.next():
            found += data
            if len(found) > limit:
                if cut:
                    break
                raise self._owner.too_large(limit)
        return bytes(found[:limit])


def _reason(error: BaseException | None) -> str:
    """Return what the system said of a connection; the client may leave it away."""
    said = ""
    while error is not None:
        if isinstance(error, BaseExceptionGroup):  # one for each address
            error = error.exceptions[0]
        if isinstance(error, ssl.SSLCertVerificationError):
            return f"certificate verify failed: {error.verify_message}"
        if isinstance(error, OSError) and error.errno is not None:
            said = os.strerror(error.errno) if error.errno > 0 else error.strerror or ""
        said = said or str(error)
        error = error.__cause__ or error.__context__
    return said


def _dialect(config: ModelConfig, base: str) -> Dialect:
    if config.provider == "anthropic":
        return Anthropic(max_tokens=config.max_tokens, cache=config.cache)
    return OpenAI(base)


def _client(base: str, timeout_s: float) -> "httpx2.AsyncClient":
    """Make a client; takes a tenth of a second the first time."""
    import httpx2  # noqa: PLC0415 - nothing else in the daemon needs it

    for name in ("httpx2", "httpcore2"):
        logging.getLogger(name).setLevel(logging.WARNING)  # a line for each request is ours to write, or not
    return httpx2.AsyncClient(
        timeout=httpx2.Timeout(timeout_s, read=None),
        limits=httpx2.Limits(
            max_connections=_MAX_CONNECTIONS,
            max_keepalive_connections=_KEPT_CONNECTIONS,
            keepalive_expiry=_KEPT_S,
        ),
        follow_redirects=False,
        trust_env=not _is_loopback(base),  # a proxy of the environment does not reach this machine
    )


def _is_loopback(base: str) -> bool:
    host = urlsplit(base).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
