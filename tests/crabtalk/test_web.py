"""`berm.http.*`: real requests over loopback, to servers that behave and servers that do not."""

import gzip
import itertools
import socket
import ssl
import subprocess
import sys
import threading
import time

import anyio
import anyio.lowlevel
import pytest
import trustme

from berm import Refused
from crabtalk.capabilities import _http
from crabtalk.capabilities import web as module
from crabtalk.capabilities._failure import Failure
from crabtalk.capabilities.web import web
from descriptors import open_descriptors
from servers import Server, reply

pytestmark = pytest.mark.anyio


@pytest.fixture
def serve():
    """Start servers that stop with the test."""
    started = []

    def serve(*args, **kwargs):
        started.append(Server(*args, **kwargs).__enter__())
        return started[-1]

    yield serve
    for server in started:
        server.__exit__()


@pytest.fixture
def get(bind, wire):
    """Fetch as a guest does, with an entry for just that server."""

    async def get(server, path="/", *headers, method="GET", body=b"", entries=None, call=None):
        bound = bind(web(entries or [f"http://127.0.0.1:{server.port}"]))
        url = f"http://127.0.0.1:{server.port}{path}"
        fields = await bound.wait("berm.http.fetch", method, url, body, *headers, call=call)
        status, lines, content = wire.unpack(fields)
        return int(status), lines.decode(), content

    return get


def names_lead_to(monkeypatch, table):
    """Answer DNS from a table, and count the questions; all else is the real thing."""
    asked = []

    async def getaddrinfo(host, port, **_):
        asked.append(host)
        addresses = table[host]
        address = addresses.pop(0) if isinstance(addresses, list) else addresses
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        return [(family, socket.SOCK_STREAM, 6, "", (address, port))]

    monkeypatch.setattr(anyio, "getaddrinfo", getaddrinfo)
    return asked


# A request and its answer


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


# Whom it may reach


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:{port}/",
        "http://127.1:{port}/",
        "http://2130706433:{port}/",
        "http://0x7f.1:{port}/",
        "http://017700000001:{port}/",
        "http://127.0.0.1.:{port}/",
        "http://localhost:{port}/",
        "http://localtest.example:{port}/",
        "http://[::ffff:127.0.0.1]:{port}/",
    ],
)
async def test_what_no_entry_covers_is_never_connected_to(bind, serve, url):
    server = serve()
    bound = bind(web(["api.x.org", "http://api.x.org", f"http://*.x.org:{server.port}"]))
    with pytest.raises(Refused, match="host is not granted"):
        await bound.wait("berm.http.fetch", "GET", url.format(port=server.port), b"")
    assert server.connections == 0


@pytest.mark.parametrize("host", ["127.1", "2130706433", "0x7f000001", "127.0.0.1."])
async def test_numeric_forms_reach_what_the_address_is_granted(bind, serve, host):
    server = serve()
    bound = bind(web([f"http://127.0.0.1:{server.port}"]))
    await bound.wait("berm.http.fetch", "GET", f"http://{host}:{server.port}/", b"")
    assert server.requests[0].all("host") == [f"127.0.0.1:{server.port}"]


@pytest.mark.parametrize("trick", ["user@", "127.0.0.1:{port}@", "x%40", "127.0.0.1:{port}\\@"])
async def test_a_user_name_in_a_url_is_refused(bind, serve, trick):
    server = serve()
    bound = bind(web([f"http://127.0.0.1:{server.port}"]))
    url = f"http://{trick.format(port=server.port)}127.0.0.1:{server.port}/"
    with pytest.raises(Failure, match="before its path"):
        await bound.wait("berm.http.fetch", "GET", url, b"")
    assert server.connections == 0


async def test_a_granted_name_with_a_private_address_is_refused(bind, serve, monkeypatch):
    server = serve()
    for address in (
        "127.0.0.1",
        "169.254.169.254",
        "10.0.0.1",
        "::1",
        "::ffff:127.0.0.1",
        "64:ff9b::7f00:1",
        "fe80::1%lo",
    ):
        names_lead_to(monkeypatch, {"evil.x.org": address})
        bound = bind(web([f"http://*.x.org:{server.port}"]))
        with pytest.raises(Refused, match=r"`evil.x.org` has no public address"):
            await bound.wait("berm.http.fetch", "GET", f"http://evil.x.org:{server.port}/", b"")
    assert server.connections == 0


async def test_a_private_address_with_an_entry_of_its_own_is_reached_by_name(bind, serve, monkeypatch):
    server = serve()
    names_lead_to(monkeypatch, {"intranet.corp": "127.0.0.1"})
    bound = bind(web([f"http://intranet.corp:{server.port}", f"http://127.0.0.1:{server.port}"]))
    await bound.wait("berm.http.fetch", "GET", f"http://intranet.corp:{server.port}/", b"")
    assert server.requests[0].all("host") == [f"intranet.corp:{server.port}"]


async def test_a_name_is_looked_up_once_and_the_vetted_address_connected_to(bind, serve, monkeypatch):
    """The second answer would be another server: DNS rebinding."""
    vetted, other = serve(), serve(host="127.0.0.2")
    port = vetted.port
    asked = names_lead_to(monkeypatch, {"rebind.x.org": ["127.0.0.1", "127.0.0.2", "127.0.0.2"]})
    connected = []
    connect = anyio.connect_tcp

    async def record(host, port):
        connected.append(host)
        return await connect(host, port)

    monkeypatch.setattr(anyio, "connect_tcp", record)
    bound = bind(web([f"http://rebind.x.org:{port}", f"http://127.0.0.1:{port}"]))
    await bound.wait("berm.http.fetch", "GET", f"http://rebind.x.org:{port}/", b"")
    assert (asked, connected, other.connections) == (["rebind.x.org"], ["127.0.0.1"], 0)
    with pytest.raises(Refused):
        await bound.wait("berm.http.fetch", "GET", f"http://rebind.x.org:{port}/", b"")
    assert other.connections == 0


async def test_localhost_asks_no_resolver(bind, serve, monkeypatch):
    server = serve()
    asked = names_lead_to(monkeypatch, {})
    bound = bind(web([f"http://localhost:{server.port}"]))
    await bound.wait("berm.http.fetch", "GET", f"http://LocalHost.:{server.port}/", b"")
    assert (asked, server.requests[0].all("host")) == ([], [f"localhost:{server.port}"])


async def test_a_name_that_does_not_exist_is_an_error(bind):
    bound = bind(web(["nonexistent.invalid"]))
    with pytest.raises(Failure, match=r"cannot resolve `nonexistent.invalid`"):
        await bound.wait("berm.http.fetch", "GET", "https://nonexistent.invalid/", b"")


async def test_the_next_address_is_tried_when_one_does_not_answer(serve, monkeypatch, bind):
    server = serve()
    bound = bind(
        web(
            [
                f"http://two.x.org:{server.port}",
                f"http://127.0.0.2:{server.port}",
                f"http://127.0.0.1:{server.port}",
            ]
        )
    )

    async def getaddrinfo(_host, port, **_):
        return [
            (socket.AF_INET, 1, 6, "", (address, port)) for address in ("10.0.0.1", "127.0.0.2", "127.0.0.1")
        ]

    monkeypatch.setattr(anyio, "getaddrinfo", getaddrinfo)
    await bound.wait("berm.http.fetch", "GET", f"http://two.x.org:{server.port}/", b"")
    assert len(server.requests) == 1


async def test_ipv6_is_reached(bind, serve):
    if not socket.has_ipv6:
        pytest.skip("this Python has no IPv6")
    try:
        server = serve(host="::1")
    except OSError as error:
        pytest.skip(f"no IPv6 loopback: {error}")
    bound = bind(web([f"http://[::1]:{server.port}"]))
    await bound.wait("berm.http.fetch", "GET", f"http://[0:0:0:0:0:0:0:1]:{server.port}/", b"")
    assert server.requests[0].all("host") == [f"[::1]:{server.port}"]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_an_answer_and_each_hop_is_checked(get, serve, bind, status):
    target = serve()
    server = serve(reply(b"", f"Location: http://127.0.0.2:{target.port}/", status=f"{status} Moved"))
    answered, headers, _ = await get(server)
    assert answered == status
    location = dict(line.split(": ", 1) for line in headers.splitlines())["Location"]
    assert target.connections == 0
    with pytest.raises(Refused, match="host is not granted"):
        await bind(web([f"http://127.0.0.1:{server.port}"])).wait("berm.http.fetch", "GET", location, b"")
    assert target.connections == 0


async def test_nothing_listening_is_an_error(get, serve):
    server = serve()
    server.__exit__()
    with pytest.raises(Failure, match=r"cannot connect to `127.0.0.1:[0-9]+`: .*refused"):
        await get(server)


# What a guest may not say


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


# Bounds while reading


def chunks(*parts):
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts)


BIG = {
    "length": lambda size: b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + b"x" * size,
    "chunked": lambda size: (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        + chunks(
            *[b"x" * (1 << 16)] * (size >> 16), *([b"x" * (size % (1 << 16))] if size % (1 << 16) else [])
        )
        + b"0\r\n\r\n"
    ),
    "to the end": lambda size: b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * size,
}


@pytest.mark.parametrize("framing", BIG)
async def test_the_bound_of_a_body_is_exact(get, serve, framing):
    assert len((await get(serve(BIG[framing](10 << 20))))[2]) == 10 << 20
    with pytest.raises(Failure, match="body is larger than 10485760 bytes"):
        await get(serve(BIG[framing]((10 << 20) + 1)))


async def test_an_endless_body_is_cut_off_and_hung_up_on(get, serve):
    def pour(connection, _request):
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        try:
            while True:
                connection.sendall(b"x" * 65536)
        except OSError:
            server.hung_up.put(True)

    server = serve(pour)
    with pytest.raises(Failure, match="body is larger"):
        await get(server)
    assert server.hung_up.get(timeout=10)


async def test_the_bound_of_headers_is_exact(get, serve):
    fixed = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n"
    room = (64 << 10) - len("Content-Length: 0\r\n") - len("A: \r\n")
    fits = fixed + b"A: " + b"x" * room + b"\r\n\r\n"
    assert (await get(serve(fits)))[0] == 200
    with pytest.raises(Failure, match=r"headers are larger than 65536 bytes|Receive buffer too long"):
        await get(serve(fixed + b"A: " + b"x" * (room + 1) + b"\r\n\r\n"))


@pytest.mark.parametrize("line", [b"A: b\r\n", b"x" * 1000, b" folded\r\n"])
async def test_endless_headers_are_cut_off(get, serve, line):
    def pour(connection, _request):
        connection.sendall(b"HTTP/1.1 200 OK\r\n")
        try:
            while True:
                connection.sendall(line * 100)
        except OSError:
            server.hung_up.put(True)

    server = serve(pour)
    with pytest.raises(Failure, match="broke the HTTP protocol"):
        await get(server)
    assert server.hung_up.get(timeout=10)


def dripping(head, drop):
    def drip(connection, _request):
        connection.sendall(head)
        try:
            while True:
                connection.sendall(drop)
                time.sleep(0.02)
        except OSError:
            return

    return drip


@pytest.mark.parametrize(
    ("head", "drop"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n", b"x"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
        (b"HTTP/1.1 200 OK\r\n\r\n", b"x"),
        (b"HTTP/1.1 200 OK\r\n", b"A: b\r\n"),
        (b"HTTP/1.1 200 OK\r\nA: ", b"x"),
        (b"HTT", b""),
        (b"", b"HTTP/1.1 102 Processing\r\n\r\n"),
    ],
)
async def test_a_dripping_answer_ends_with_the_time(get, serve, new_call, head, drop):
    started = time.monotonic()
    with pytest.raises(Failure, match=r"no complete answer from `127.0.0.1` within 0.3 s"):
        await get(serve(dripping(head, drop)), call=new_call(deadline_left=0.3))
    assert time.monotonic() - started < 3


async def test_a_server_that_reads_nothing_ends_with_the_time(bind, new_call):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        bound = bind(web([f"http://127.0.0.1:{port}"]), new_call(deadline_left=0.3))
        with pytest.raises(Failure, match=r"within 0.3 s"):
            await bound.wait("berm.http.fetch", "POST", f"http://127.0.0.1:{port}/", b"x" * (10 << 20))


async def test_the_limit_is_half_a_minute():
    assert (module.LIMIT_S, module.Web(None).limit_s) == (30, 30)


async def test_a_body_of_tiny_chunks_leaves_the_loop_to_others(get, serve):
    answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 30_000 + b"0\r\n\r\n"
    ticks = 0

    async def tick():
        nonlocal ticks
        while True:
            await anyio.lowlevel.checkpoint()
            ticks += 1

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(tick)
        assert len((await get(serve(answer)))[2]) == 30_000
        tasks.cancel_scope.cancel()
    assert ticks > 400  # reading alone would wait a few times only


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"", "without an answer"),
        (b"SSH-2.0-OpenSSH_9.6\r\n\r\n", "illegal status line"),
        (b"\0\1\2\3" * 100, "illegal"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc", "closed connection"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc", "closed connection"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "chunk"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef", "onflicting"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nabcdef", "Content-Length"),
        (b"HTTP/1.1 200 OK\r\nA\0: b\r\n\r\n", "illegal header"),
        (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", "another protocol|broke"),
    ],
)
async def test_a_broken_answer_is_an_error_that_says_so(get, serve, answer, why):
    with pytest.raises(Failure, match=why):
        await get(serve(answer))


async def test_a_connection_that_is_reset_is_an_error(get, serve):
    def reset(connection, _request):
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        connection.close()

    with pytest.raises(Failure, match="broke"):
        await get(serve(reset))


async def test_a_cancelled_fetch_hangs_up(get, serve):
    server = serve(lambda connection, _request: server.until_hung_up(connection))
    with anyio.move_on_after(0.2) as scope:
        await get(server)
    assert scope.cancelled_caught
    assert server.hung_up.get(timeout=5)


async def test_no_descriptor_is_leaked(get, serve):
    good, bad = serve(reply(b"x")), serve(b"garbage\r\n\r\n")

    async def settled():
        """Look when the server's threads have closed their ends, which are ours too."""
        with anyio.fail_after(10):
            while any(end.fileno() >= 0 for end in good.sockets + bad.sockets):  # noqa: ASYNC110 - threads
                await anyio.sleep(0.01)
        return open_descriptors()

    await get(good)
    before = await settled()
    for _ in range(5):
        await get(good)
        with pytest.raises(Failure):
            await get(bad)
    with anyio.fail_after(10):  # other tests' threads close theirs when they come to it
        while await settled() != before:  # noqa: ASYNC110 - threads
            await anyio.sleep(0.05)


# TLS


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


@pytest.fixture
def tls(authority):
    """A client that trusts the test's authority, and a function that makes servers' contexts."""
    client = ssl.create_default_context()
    authority.configure_trust(client)

    def server(*names):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert(*names).configure_cert(context)
        return context

    return client, server


async def test_tls_says_the_original_name_and_verifies_it(bind, serve, tls, monkeypatch, wire):
    client, context_for = tls
    context = context_for("api.x.org")
    said = []
    context.sni_callback = lambda _socket, name, _context: said.append(name)
    server = serve(reply(b"secure"), tls=context)
    names_lead_to(monkeypatch, {"api.x.org": "127.0.0.1"})
    bound = bind(web([f"api.x.org:{server.port}", f"127.0.0.1:{server.port}"], tls=client))
    fields = await bound.wait("berm.http.fetch", "GET", f"https://API.x.org.:{server.port}/", b"")
    assert wire.unpack(fields)[2] == b"secure"
    assert (said, server.requests[0].all("host")) == (["api.x.org"], [f"api.x.org:{server.port}"])


async def test_a_certificate_of_another_name_is_an_error(bind, serve, tls, monkeypatch):
    client, context_for = tls
    server = serve(tls=context_for("other.x.org"))
    names_lead_to(monkeypatch, {"api.x.org": "127.0.0.1"})
    bound = bind(web([f"api.x.org:{server.port}", f"127.0.0.1:{server.port}"], tls=client))
    with pytest.raises(Failure, match=r"TLS with `api.x.org` failed: .*Hostname mismatch"):
        await bound.wait("berm.http.fetch", "GET", f"https://api.x.org:{server.port}/", b"")
    assert server.requests == []


async def test_an_authority_that_nobody_trusts_is_an_error(bind, serve, tls):
    _, context_for = tls
    server = serve(tls=context_for("127.0.0.1"))
    bound = bind(web([f"127.0.0.1:{server.port}"]))
    with pytest.raises(Failure, match=r"TLS with `127.0.0.1` failed: .*certificate verify failed"):
        await bound.wait("berm.http.fetch", "GET", f"https://127.0.0.1:{server.port}/", b"")


async def test_a_certificate_for_an_address_is_verified(bind, serve, tls, wire):
    client, context_for = tls
    server = serve(reply(b"ok"), tls=context_for("127.0.0.1"))
    bound = bind(web([f"127.0.0.1:{server.port}"], tls=client))
    fields = await bound.wait("berm.http.fetch", "GET", f"https://127.0.0.1:{server.port}/", b"")
    assert wire.unpack(fields)[2] == b"ok"


async def test_a_server_that_speaks_no_tls_is_an_error(bind, serve):
    server = serve(answers_at_once=reply(b"plain"))
    bound = bind(web([f"127.0.0.1:{server.port}"]))
    with pytest.raises(Failure, match=r"TLS with `127.0.0.1` failed: .*wrong version number"):
        await bound.wait("berm.http.fetch", "GET", f"https://127.0.0.1:{server.port}/", b"")


async def test_a_handshake_that_never_comes_ends_with_the_time(bind, new_call):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        bound = bind(web([f"127.0.0.1:{port}"]), new_call(deadline_left=0.3))
        with pytest.raises(Failure, match=r"within 0.3 s"):
            await bound.wait("berm.http.fetch", "GET", f"https://127.0.0.1:{port}/", b"")


def test_the_usual_authorities_are_trusted():
    assert len(_http.default_tls().get_ca_certs()) > 50
    assert _http.default_tls().verify_mode is ssl.CERT_REQUIRED
    assert _http.default_tls().check_hostname


# Requests in flight


class Gate:
    """A server whose answers wait until the test lets them go, by path."""

    def __init__(self, serve):
        self.open = {}
        self.server = serve(self.answer)

    def of(self, path):
        return self.open.setdefault(path, threading.Event())

    def answer(self, connection, request):
        path = request.line.split()[1]
        if self.of(path).wait(10):
            connection.sendall(reply(path.encode()))


@pytest.fixture
def gate(serve):
    return Gate(serve)


class Invocation:
    """An invocation's view: its own call, with the task group that its driver holds for it."""

    def __init__(self, bound, call, port, wire):
        self.bound, self.call, self.port, self.wire = bound, call, port, wire

    async def start(self, path):
        url = f"http://127.0.0.1:{self.port}{path}"
        return int(await self.bound.wait("berm.http.start", "GET", url, b"", call=self.call))

    async def collect(self, flight=""):
        flight, status, _, body = self.wire.unpack(
            await self.bound.wait("berm.http.collect", flight, call=self.call)
        )
        return int(flight), int(status), body


@pytest.fixture
def invocation(bind, new_call, wire):
    bound = None

    def invocation(tasks, port, **kwargs):
        nonlocal bound
        bound = bound or bind(web([f"http://127.0.0.1:{port}"]))
        return Invocation(bound, new_call(tasks=tasks, **kwargs), port, wire)

    return invocation


async def test_the_first_to_land_is_collected_first(gate, invocation):
    async with anyio.create_task_group() as tasks:
        guest = invocation(tasks, gate.server.port)
        flights = [await guest.start(f"/{name}") for name in "abc"]
        assert flights == [1, 2, 3]
        gate.of("/b").set()
        assert await guest.collect() == (2, 200, b"/b")
        gate.of("/c").set()
        assert await guest.collect() == (3, 200, b"/c")
        gate.of("/a").set()
        assert await guest.collect("1") == (1, 200, b"/a")
        with pytest.raises(Failure, match="no request is in flight"):
            await guest.collect()
        with pytest.raises(Failure, match="no such request: 1"):
            await guest.collect("1")
        tasks.cancel_scope.cancel()


async def test_one_is_waited_for_by_its_id_while_others_land(gate, invocation):
    async with anyio.create_task_group() as tasks:
        guest = invocation(tasks, gate.server.port)
        first, second = await guest.start("/a"), await guest.start("/b")
        gate.of("/b").set()
        with anyio.move_on_after(0.2) as scope:
            await guest.collect(first)
        assert scope.cancelled_caught
        gate.of("/a").set()
        assert await guest.collect(first) == (first, 200, b"/a")
        assert await guest.collect() == (second, 200, b"/b")
        tasks.cancel_scope.cancel()


async def test_sixteen_are_in_flight_until_they_are_collected(gate, invocation):
    async with anyio.create_task_group() as tasks:
        guest = invocation(tasks, gate.server.port)
        for i in range(16):
            await guest.start(f"/{i}")
            gate.of(f"/{i}").set()
        with pytest.raises(Failure, match="16 requests are in flight"):
            await guest.start("/more")
        first_done = (await guest.collect())[0]
        gate.of("/17").set()
        assert await guest.start("/17") == 17
        # Which of them is done first is the network's business; each is collected once.
        assert {(await guest.collect())[0] for _ in range(16)} == set(range(1, 18)) - {first_done}
        tasks.cancel_scope.cancel()


async def test_a_failure_is_collected_with_status_0(serve, invocation):
    server = serve(b"garbage\r\n\r\n")
    async with anyio.create_task_group() as tasks:
        guest = invocation(tasks, server.port)
        await guest.start("/")
        flight, status, message = await guest.collect()
        assert (flight, status) == (1, 0)
        assert b"broke the HTTP protocol" in message
        tasks.cancel_scope.cancel()


async def test_what_is_not_granted_does_not_even_start(serve, invocation):
    server = serve()
    async with anyio.create_task_group() as tasks:
        guest = invocation(tasks, server.port)
        with pytest.raises(Refused, match="host is not granted"):
            await guest.bound.wait("berm.http.start", "GET", "http://127.0.0.2/", b"", call=guest.call)
        with pytest.raises(Failure, match="no request is in flight"):
            await guest.collect()
        tasks.cancel_scope.cancel()


async def test_invocations_do_not_see_each_others_requests(gate, invocation):
    async with anyio.create_task_group() as tasks:
        mine, other = invocation(tasks, gate.server.port), invocation(tasks, gate.server.port)
        flight = await mine.start("/a")
        gate.of("/a").set()
        with pytest.raises(Failure, match="no such request"):
            await other.collect(flight)
        with pytest.raises(Failure, match="no request is in flight"):
            await other.collect()
        assert await other.start("/a") == 1
        assert (await mine.collect())[0] == flight
        tasks.cancel_scope.cancel()


async def test_the_end_of_an_invocation_hangs_up_and_forgets(serve, new_call, bind):
    server = serve(lambda connection, _request: server.until_hung_up(connection))
    bound = web([f"http://127.0.0.1:{server.port}"])
    async with anyio.create_task_group() as tasks:
        call = new_call(tasks=tasks)
        guest = bind(bound, call)
        for _ in range(3):
            await guest.wait("berm.http.start", "GET", f"http://127.0.0.1:{server.port}/", b"")
        with anyio.fail_after(10):
            while len(server.requests) < 3:  # noqa: ASYNC110 - another thread's list
                await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()
    assert [server.hung_up.get(timeout=5) for _ in range(3)] == [True] * 3
    with anyio.fail_after(10), pytest.raises(Failure, match="no request is in flight"):
        await guest.wait("berm.http.collect", "")


async def test_an_error_of_ours_is_an_answer_and_does_not_end_the_invocation(serve, invocation, monkeypatch):
    async def fail(*_):
        raise RuntimeError("bug")

    server = serve()
    monkeypatch.setattr(_http, "send", fail)
    async with anyio.create_task_group() as tasks:
        guest = invocation(tasks, server.port)
        await guest.start("/")
        assert await guest.collect() == (1, 0, b"RuntimeError: bug")
        tasks.cancel_scope.cancel()


async def test_without_a_task_group_nothing_is_started(serve, invocation):
    guest = invocation(None, serve().port)
    with pytest.raises(Failure, match="holds no requests open"):
        await guest.start("/")


@pytest.mark.parametrize("flight", ["x", "-1", "1.0", " 1", "\u0661", "9" * 30])
async def test_an_id_is_a_number(serve, invocation, flight):
    async with anyio.create_task_group() as tasks:
        guest = invocation(tasks, serve().port)
        with pytest.raises(Failure, match="no such request"):
            await guest.collect(flight)
        tasks.cancel_scope.cancel()
