"""Whom `berm.http.*` may reach: entries, addresses, names and redirects."""

import socket

import anyio
import anyio.lowlevel
import pytest

from berm import Refused
from crabtalk.capabilities._failure import Failure
from crabtalk.capabilities.web import web
from servers import names_lead_to, reply

pytestmark = pytest.mark.anyio


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
