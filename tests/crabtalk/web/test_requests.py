"""What is asked and answered over `berm.http.fetch`: real requests over loopback."""

import gzip
import subprocess
import sys

import pytest

from crabtalk.capabilities.web import web
from servers import reply

pytestmark = pytest.mark.anyio


async def test_status_headers_and_body_come_back_as_they_were_sent(get, serve):
    server = serve(reply(b"a\0\xff", "X-One: 1", "x-two: b", "X-One: 3", status="418 I'm a teapot"))
    assert await get(server) == (418, "Content-Length: 3\nX-One: 1\nx-two: b\nX-One: 3\n", b"a\0\xff")


async def test_the_server_sees_the_request_of_the_guest(get, serve):
    server = serve()
    await get(server, "/p?q=1", "X-Token", "t", "Accept", "text/html", method="POST", body=b"body")
    (request,) = server.requests
    assert (request.line, request.body) == ("POST /p?q=1 HTTP/1.1", b"body")
    assert request.headers == [
        ("Host", f"127.0.0.1:{server.port}"),
        ("Connection", "close"),
        ("Content-Length", "4"),
        ("X-Token", "t"),
        ("Accept", "text/html"),
        ("Accept-Encoding", "identity"),
        ("User-Agent", "crabtalk"),
    ]


@pytest.mark.parametrize(("method", "length"), [("GET", []), ("DELETE", []), ("POST", ["0"]), ("put", ["0"])])
async def test_an_empty_body_has_a_length_where_one_is_expected(get, serve, method, length):
    server = serve()
    await get(server, method=method)
    assert server.requests[0].all("content-length") == length


@pytest.mark.parametrize(
    ("answer", "method"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "HEAD"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", "GET"),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", "GET"),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", "GET"),
        (b"HTTP/1.0 200 OK\r\n\r\n", "GET"),
    ],
)
async def test_answers_without_a_body(get, serve, answer, method):
    status, _, body = await get(serve(answer), method=method)
    assert (status in {200, 204, 304}, body) == (True, b"")


async def test_bodies_in_chunks_and_bodies_to_the_end(get, serve):
    chunked = (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nT: x\r\n\r\n"
    )
    assert (await get(serve(chunked)))[2] == b"abcde"
    assert (await get(serve(b"HTTP/1.1 200 OK\r\n\r\nto the end")))[2] == b"to the end"


async def test_header_values_that_are_not_utf8_are_read_as_latin1(get, serve):
    answer = b"HTTP/1.1 200 OK\r\nA: caf\xe9\r\nB: caf\xc3\xa9\r\nContent-Length: 0\r\n\r\n"
    assert (await get(serve(answer)))[1].startswith("A: café\nB: café\n")


async def test_compressed_bodies_are_passed_on_compressed(get, serve):
    bomb = gzip.compress(bytes(100 << 20), compresslevel=9)
    _, headers, body = await get(serve(reply(bomb, "Content-Encoding: gzip")), "/", "Accept-Encoding", "gzip")
    assert ("gzip" in headers, body) == (True, bomb)


async def test_the_alias_is_the_same_capability():
    made = web(["x.org"])
    assert [(one.name, one.aliases, one.is_async) for one in made] == [
        ("berm.http.fetch", ("crabtalk.http.fetch",), True),
        ("berm.http.start", (), True),
        ("berm.http.collect", (), True),
    ]


def test_binding_hosts_loads_neither_tls_nor_http():
    program = (
        "import sys, crabtalk.capabilities.web as w; w.web(['x.org']);"
        "print({'h11', 'certifi', 'anyio.streams.tls'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
