"""What a guest may not say over `berm.http.*`: what frames the message is ours."""

import itertools

import pytest

from berm import Refused
from crabtalk.capabilities._failure import Failure
from servers import reply

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    "header",
    [
        ("Host", "evil.com"),
        ("hOsT", "evil.com"),
        ("Content-Length", "100"),
        ("Transfer-Encoding", "chunked"),
        ("Connection", "keep-alive, X-Token"),
        ("Upgrade", "websocket"),
        ("Expect", "100-continue"),
        ("TE", "trailers"),
        ("Trailer", "X"),
        ("Proxy-Connection", "keep-alive"),
        ("Keep-Alive", "timeout=5"),
    ],
)
async def test_what_frames_the_message_is_ours(get, serve, header):
    server = serve()
    await get(server, "/", *header, method="POST", body=b"body")
    (request,) = server.requests
    assert request.all("host") == [f"127.0.0.1:{server.port}"]
    assert request.all("content-length") == ["4"]
    assert request.all("connection") == ["close"]
    assert not {
        "transfer-encoding",
        "upgrade",
        "expect",
        "te",
        "trailer",
        "proxy-connection",
        "keep-alive",
    } & {name.lower() for name, _ in request.headers}
    assert request.body == b"body"


@pytest.mark.parametrize(
    "header",
    [
        ("X", "a\r\nHost: evil.com"),
        ("X", "a\nb"),
        ("X", "a\rb"),
        ("X", "a\0b"),
        ("X", "\x0b"),
        ("X", "a\x7f"),
        ("X\r\nHost", "evil.com"),
        ("X:", "a"),
        ("X y", "a"),
        ("", "a"),
        ("Host ", "evil.com"),
        (" Host", "evil.com"),
        ("Höst", "evil.com"),
        ("X" * 257, "a"),
    ],
)
async def test_header_injection_is_refused_and_nothing_is_sent(get, serve, header):
    server = serve()
    with pytest.raises(Failure, match="header"):
        await get(server, "/", *header)
    assert server.connections == 0


@pytest.mark.parametrize(
    "method", ["", "GET /x HTTP/1.1\r\nA: b\r\n\r\nGET", "GE T", "G\0", "GÉT", "A" * 257]
)
async def test_a_method_is_one_word(get, serve, method):
    server = serve()
    with pytest.raises(Failure, match="not a method"):
        await get(server, method=method)
    assert server.connections == 0


@pytest.mark.parametrize("method", ["CONNECT", "connect", "TRACE"])
async def test_tunnels_and_echoes_are_refused(get, serve, method):
    server = serve()
    with pytest.raises(Refused, match="method is not granted"):
        await get(server, method=method)
    assert server.connections == 0


async def test_values_keep_what_is_allowed_in_them(get, serve):
    server = serve()
    await get(server, "/", "X", " \ta\tb ü ", "Y", "")
    assert [value.encode("latin-1").decode() for value in server.requests[0].all("x")] == ["a\tb ü"]
    assert server.requests[0].all("y") == [""]


async def test_too_much_to_send_is_an_error(get, serve):
    server = serve()
    with pytest.raises(Failure, match="body is larger than 10485760 bytes"):
        await get(server, method="POST", body=b"x" * ((10 << 20) + 1))
    with pytest.raises(Failure, match="headers are larger than 65536 bytes"):
        await get(server, "/", *itertools.chain.from_iterable((f"X{i}", "x" * 1000) for i in range(66)))
    assert server.connections == 0


async def test_the_largest_body_is_sent(get, serve):
    server = serve()
    await get(server, method="POST", body=b"x" * (10 << 20))
    assert len(server.requests[0].body) == 10 << 20


async def test_an_answer_that_comes_before_the_body_was_read_is_taken(get, serve):
    def refuse(connection, _request):
        connection.sendall(reply(b"no", status="413 Too Large"))

    server = serve(refuse)
    assert (await get(server, method="POST", body=b"x" * 100_000))[0] == 413
