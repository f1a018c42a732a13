"""TLS of `berm.http.*`: the name that was asked for is said and verified."""

import socket
import ssl

import pytest
import trustme

from crabtalk.capabilities import _http
from crabtalk.capabilities._failure import Failure
from crabtalk.capabilities.web import web
from servers import names_lead_to, reply

pytestmark = pytest.mark.anyio


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
