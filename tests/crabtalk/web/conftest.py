"""Servers on loopback, and a guest that fetches from them."""

import pytest

from crabtalk.capabilities.web import web
from servers import Server


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
