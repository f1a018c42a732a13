"""Servers behind a URL: the public SDK's, and some that answer as none should."""

import gzip
import http.server
import json
import threading

import pytest
import trio

from crabtalk.wire.pb import crabtalk_pb2 as pb
from mcp_servers import served as served_server

pytestmark = [
    pytest.mark.trio,
    # The SDK leaves generators of its HTTP client to the collector where a stream ends early.
    pytest.mark.filterwarnings(
        "ignore:Exception ignored in. <async_generator:pytest.PytestUnraisableExceptionWarning"
    ),
]


@pytest.fixture(scope="module", params=["sessions", "stateless"])
def url(request):
    with served_server(request.param) as (place, _):
        yield place


async def test_a_server_is_reached_by_its_url(agent, url):
    ann = await agent()
    info = await ann.upsert({"name": "web", "url": url})
    assert (info.status, info.error, info.tool_count, info.source_kind) == (pb.CONNECTED, "", 8, pb.EXTERNAL)
    assert await ann.call("web", "add", a=2, b=3) == ("done", "5")
    assert await ann.call("web", "fail") == ("failed", "Error executing tool fail: this one never works")


async def test_a_call_that_is_taken_back_is_cancelled_at_the_server(agent, client, url, tmp_path):
    ann = await agent()
    await ann.upsert({"name": "web", "url": url})
    mark = tmp_path / "mark"
    args = json.dumps({"mark": str(mark)}).encode()
    request = await client.send(call_tool={"agent": ann.id, "harness": "web", "tool": "wait", "args": args})
    await trio.sleep(0.5)
    await client.ask(cancel={"request_id": request})
    with trio.fail_after(5):
        while not mark.exists():  # noqa: ASYNC110 - another process writes it
            await trio.sleep(0.02)


async def test_a_server_that_was_away_is_connected_again(agent, client):
    ann = await agent()
    with served_server() as (url, process):
        await ann.upsert({"name": "web", "url": url})
        process.kill()
        process.wait()
        kind, _ = await ann.call("web", "add", a=1, b=1)
        assert kind == "trap"
        [info] = await ann.until(lambda listed: listed[0].status == pb.FAILED)
        assert info.error
    info = await client.ask(reconnect_mcp={"agent": ann.id, "name": "web"})
    assert info.status == pb.FAILED


class Odd(http.server.BaseHTTPRequestHandler):
    """Answers everything in one way."""

    seen = ()

    def do_POST(self):
        type(self).seen = [*self.seen, dict(self.headers)]
        self.rfile.read(int(self.headers["Content-Length"]))
        self.answer()

    do_GET = do_DELETE = do_POST  # noqa: N815 - as above

    def log_message(self, *_):
        pass

    def say(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def wants_a_token(handler):
    handler.say(401)


def packs(handler):
    handler.say(200, gzip.compress(b"x" * 1000), Content_Type="application/json", Content_Encoding="gzip")


def floods(handler):
    handler.send_response(200)
    handler.send_header("Content-Type", "application/json")
    handler.end_headers()
    try:
        for _ in range(1000):
            handler.wfile.write(b"[" * 65536)
    except OSError:
        pass


def redirects(handler):
    handler.say(307, Location="http://127.0.0.2:9/elsewhere")


def talks_of_the_weather(handler):
    handler.say(200, b"<p>Sunny", Content_Type="text/html")


def drips(handler):
    handler.send_response(200)
    handler.send_header("Content-Type", "text/event-stream")
    handler.end_headers()
    try:
        for _ in range(1000):
            handler.wfile.write(b"data: " + b"x" * 65536)
    except OSError:
        pass


@pytest.fixture
def odd(request):
    kind = type("Kind", (Odd,), {"answer": request.param, "seen": []})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), kind)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/mcp", kind
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(
    "odd", [wants_a_token, packs, floods, redirects, talks_of_the_weather, drips], indirect=True
)
async def test_a_server_that_answers_oddly_is_failed_and_the_daemon_goes_on(agent, client, odd):
    url, kind = odd
    ann = await agent()
    info = await ann.upsert({"name": "web", "url": url, "auth": "hush-hush", "auto_restart": False})
    assert info.status == pb.FAILED
    assert info.error
    assert "hush" not in info.error
    assert info.auth == '{"$secret": "set"}'
    assert kind.seen[0]["Authorization"] == "Bearer hush-hush"
    await client.ask(ping={})


@pytest.mark.parametrize("odd", [wants_a_token], indirect=True)
async def test_a_token_that_is_wrong_is_said_to_be(agent, odd):
    ann = await agent()
    info = await ann.upsert({"name": "web", "url": odd[0], "auth": "Basic abc", "auto_restart": False})
    assert "the server answered 401: it wants a token, or another one" in info.error
    assert odd[1].seen[0]["Authorization"] == "Basic abc"
