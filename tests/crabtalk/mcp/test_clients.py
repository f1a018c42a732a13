"""MCP clients of a daemon: the public SDK's client, through the bridge and over HTTP, with a real daemon."""

import contextlib
import hashlib
import json
import socket
import sys
import time

import httpx2
import pytest
import trio
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from crabtalk.mcp import tokens
from daemons import running_daemon
from guest_images import image_path
from mcp_servers import cpu_seconds, raw

pytestmark = [
    pytest.mark.trio,
    # The SDK leaves generators of its HTTP client to the collector where a stream ends early.
    pytest.mark.filterwarnings(
        "ignore:Exception ignored in. <async_generator:pytest.PytestUnraisableExceptionWarning"
    ),
]

TOOLS = ["say", "binary", "refuse", "crash", "spin"]


@pytest.fixture(scope="module")
def port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@pytest.fixture(scope="module")
def daemon(port):
    with running_daemon(f'[mcp]\nlisten = "127.0.0.1:{port}"\n') as running:
        with running.client() as client:
            elf = image_path("alarm").read_bytes()
            client.put_harness(name="alarm", elf=elf, sha256=hashlib.sha256(elf).hexdigest())
        running.url = f"http://127.0.0.1:{port}/mcp"
        yield running


@pytest.fixture
def ann(daemon):
    """An agent with two harnesses: its id."""
    long = {"deadline": 3000, "fuel": 10**15}
    harnesses = [{"name": "alarm", **long}, {"name": "other", "sha256": "", "prefix": "b", **long}]
    del harnesses[1]["sha256"]
    with daemon.client() as client:
        elf = image_path("alarm").read_bytes()
        client.put_harness(name="other", elf=elf, sha256=hashlib.sha256(elf).hexdigest())
        made = client.create_agent(name="ann", config=json.dumps({"harnesses": harnesses}))
        yield made.id
        if any(one.id == made.id for one in client.list_agents().agents):
            client.delete_agent(agent=made.id)


def bridged(daemon, *words):
    home = str(daemon.home.root)
    return StdioServerParameters(
        command=sys.executable, args=["-m", "crabtalk", "mcp", "serve", "--home", home, *words]
    )


@contextlib.asynccontextmanager
async def over_http(daemon, token):
    """Be a transport that shows a token."""
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=60) as client,
        streamable_http_client(daemon.url, http_client=client) as streams,
    ):
        yield streams


@pytest.fixture(params=["bridge", "http"])
def way(request, daemon, ann):
    """Return what makes a transport for tools of `ann`."""

    def make(harness=""):
        if request.param == "bridge":
            return bridged(daemon, "--agent", "ann", *(("--harness", harness) if harness else ()))
        token, _ = tokens.add(daemon.home.root, ann, harness)
        return over_http(daemon, token)

    return make


@pytest.fixture(params=["auto", "legacy"])
def mode(request):
    return request.param


def said(result):
    return result.is_error, result.content[0].text


async def names(client):
    return [tool.name for tool in (await client.list_tools(cache_mode="bypass")).tools]


async def test_the_tools_of_an_agent_can_be_listed_and_called(way, mode):
    async with Client(way(), mode=mode) as client:
        assert await names(client) == [*TOOLS, *(f"b__{name}" for name in TOOLS)]
        assert said(await client.call_tool("say", {"text": "grüß dich"})) == (False, "grüß dich")
        assert said(await client.call_tool("b__refuse", {"message": "not today"})) == (True, "not today")
        assert said(await client.call_tool("crash", {}))[0] is True
        with pytest.raises(MCPError, match="there is no tool"):
            await client.call_tool("nothing", {})
        resources = (await client.list_resources()).resources
        assert [str(one.uri) for one in resources] == ["harness://alarm/usage", "harness://other/usage"]
        [content] = (await client.read_resource("harness://other/usage")).contents
        assert content.text == "Rings."


async def test_one_harness_is_all_that_can_be_reached_where_one_was_named(way, mode):
    async with Client(way("other"), mode=mode) as client:
        assert await names(client) == [f"b__{name}" for name in TOOLS]
        assert len((await client.list_resources()).resources) == 1
        for name in ("say", "alarm", "other"):
            with pytest.raises(MCPError):
                await client.call_tool(name, {"text": "x"})
        with pytest.raises(MCPError):
            await client.read_resource("harness://alarm/usage")


async def test_calls_go_through_the_executor(way, daemon):
    async with Client(way()) as client:
        await client.call_tool("say", {"text": "x"})
    with daemon.client() as asked:
        [row] = asked.list_invocations(limit=1).invocations
    assert (row.trigger, row.harness, row.tool, row.outcome) == ("tool", "alarm", "say", "done")


async def test_a_call_that_is_taken_back_stops_the_guest(way, mode, daemon):
    async with Client(way(), mode=mode) as client:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.call_tool, "spin", {})
            await until(lambda: running(daemon) == 1)
            nursery.cancel_scope.cancel()
        await until(lambda: running(daemon) == 0)
        before = cpu_seconds(daemon.process.pid)
        await trio.sleep(0.5)
        assert cpu_seconds(daemon.process.pid) - before < 0.3


async def test_a_client_that_goes_away_stops_its_guests(way, mode, daemon):
    async with trio.open_nursery() as nursery, Client(way(), mode=mode) as client:
        nursery.start_soon(call_and_be_cut, client)
        await until(lambda: running(daemon) == 1)
    await until(lambda: running(daemon) == 0)


async def call_and_be_cut(client):
    with pytest.raises((MCPError, trio.Cancelled)):
        await client.call_tool("spin", {})


def running(daemon):
    with daemon.client() as client:
        return len(client.list_running().invocations)


async def until(test, timeout_s=15):
    with trio.fail_after(timeout_s):
        while not await trio.to_thread.run_sync(test):  # noqa: ASYNC110 - another process
            await trio.sleep(0.05)


async def test_clients_of_the_newer_era_hear_of_changed_tools(way, daemon, ann):
    async with Client(way(), mode="auto") as client, client.listen(tools_list_changed=True) as news:
        await trio.to_thread.run_sync(change, daemon, ann)
        with trio.fail_after(10):
            await anext(news)
        assert await names(client) == TOOLS


async def test_clients_of_the_older_era_hear_of_changed_tools(way, daemon, ann):
    heard = trio.Event()

    async def hear(message):
        if type(message).__name__ == "ToolListChangedNotification":
            heard.set()

    async with Client(way(), mode="legacy", message_handler=hear) as client:
        assert len(await names(client)) == 10
        await trio.sleep(0.5)  # for its stream of news to be open
        await trio.to_thread.run_sync(change, daemon, ann)
        with trio.fail_after(10):
            await heard.wait()
        assert await names(client) == TOOLS


async def test_clients_of_the_newer_era_hear_of_another_image(way, daemon, ann):
    async with (
        Client(way(), mode="auto") as client,
        client.listen(tools_list_changed=True, resources_list_changed=True) as news,
    ):
        await trio.to_thread.run_sync(swap, daemon, ann)
        with trio.fail_after(10):
            heard = {type(await anext(news)).__name__ for _ in range(2)}
        assert heard == {"ToolsListChanged", "ResourcesListChanged"}
        await check_swapped(client)


async def test_clients_of_the_older_era_hear_of_another_image(way, daemon, ann):
    heard = {"ToolListChangedNotification": trio.Event(), "ResourceListChangedNotification": trio.Event()}

    async def hear(message):
        if (name := type(message).__name__) in heard:
            heard[name].set()

    async with Client(way(), mode="legacy", message_handler=hear) as client:
        assert len(await names(client)) == 10
        await trio.sleep(0.5)  # for its stream of news to be open
        await trio.to_thread.run_sync(swap, daemon, ann)
        with trio.fail_after(10):
            for event in heard.values():
                await event.wait()
        await check_swapped(client)


def swap(daemon, agent):
    """Let the second harness run another image, with other tools and another usage."""
    elf = image_path("echo").read_bytes()
    sha256 = hashlib.sha256(elf).hexdigest()
    with daemon.client() as client:
        client.put_harness(name="other", elf=elf, sha256=sha256)
        client.upgrade_harness(agent=agent, name="other", sha256=sha256, confirm=True)


async def check_swapped(client):
    """Check that the first harness is as it was and the second what `swap` made of it."""
    assert await names(client) == [*TOOLS, "b__echo"]
    assert said(await client.call_tool("b__echo", {"text": "it is I"})) == (False, "it is I")
    with pytest.raises(MCPError, match="there is no tool"):
        await client.call_tool("b__say", {"text": "still here?"})
    resources = (await client.list_resources(cache_mode="bypass")).resources
    assert [str(one.uri) for one in resources] == ["harness://alarm/usage", "harness://other/usage"]
    for resource, usage in zip(resources, ("Rings.", "`echo` says back what it is told."), strict=True):
        read = await client.read_resource(str(resource.uri), cache_mode="bypass")
        assert [one.text for one in read.contents] == [usage]
        assert resource.size == len(usage)


def change(daemon, agent):
    """Take the second harness away."""
    with daemon.client() as client:
        client.update_agent(agent=agent, config=json.dumps({"harnesses": [{"name": "alarm"}]}))


async def test_tools_of_mcp_servers_are_passed_on(way, daemon, ann):
    with daemon.client() as asked:
        await trio.to_thread.run_sync(lambda: asked.upsert_mcp(agent=ann, config=json.dumps(raw("plain"))))
    async with Client(way("raw")) as client:
        assert await names(client) == ["raw__echo"]
        assert said(await client.call_tool("raw__echo", {"n": 1})) == (False, '{"n": 1}')


async def test_when_the_agent_is_gone_so_is_the_server(way, mode, daemon, ann):
    async with Client(way(), mode=mode) as client:
        await names(client)
        with daemon.client() as asked:
            asked.delete_agent(agent=ann)
        with trio.fail_after(15), pytest.raises(MCPError):  # noqa: PT012 - soon, not at once
            while True:
                assert await names(client) == []


# The bridge


@pytest.mark.usefixtures("ann")
async def test_a_bridge_to_nobody_says_so(daemon):
    for words, complaint in (
        (["--agent", "nobody"], "no agent named `nobody`"),
        (["--agent", "ann", "--harness", "none"], "declares no harness `none`"),
    ):
        parameters = bridged(daemon, *words)
        ended = await trio.run_process(
            [parameters.command, *parameters.args], capture_stdout=True, capture_stderr=True, check=False
        )
        assert (ended.returncode, ended.stdout) == (1, b"")
        assert complaint in ended.stderr.decode()


@pytest.mark.parametrize(
    ("greeting", "complaint"),
    [
        (b"[" * 4000 + b"\n", b"recursion"),
        (b"x" * 5000, b"expected a line"),
        (b"null\n", b"expected a JSON object"),
        (b'{"agent": "none"}\n' + b"{}\n" * 5000, b"no agent named `none`"),
    ],
)
async def test_a_greeting_that_names_nobody_is_answered(daemon, greeting, complaint):
    async with await trio.open_unix_socket(daemon.home.run / "mcp.sock") as stream:
        with trio.fail_after(10):
            await stream.send_all(greeting)
            answer = await stream.receive_some()
    assert complaint in answer


# HTTP


def post(daemon, **headers):
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    accept = "application/json, text/event-stream"
    return httpx2.post(daemon.url, json=body, headers={"Accept": accept, **headers}, timeout=30)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": "Bearer ctm_guess"}, 401),
        ({"Authorization": "Basic Og=="}, 401),
        ({"Host": "evil.example:80"}, 421),
        ({"Host": "127.0.0.1.evil.example"}, 421),
        ({"Origin": "https://evil.example"}, 403),
        ({"Host": "evil.example@127.0.0.1"}, 421),
        ({"Host": "127.0.0.1/evil.example"}, 421),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://[::1"}, 403),
        ({"Origin": "http://localhost@evil.example"}, 403),
        ({"Origin": "http://localhost.evil.example"}, 403),
    ],
)
async def test_who_has_no_token_or_comes_from_elsewhere_is_not_let_in(daemon, headers, status):
    answer = await trio.to_thread.run_sync(lambda: post(daemon, **headers))
    assert answer.status_code == status


async def test_a_head_is_refused_with_a_head(daemon):
    answer = await trio.to_thread.run_sync(lambda: httpx2.head(daemon.url, timeout=30))
    assert (answer.status_code, answer.content) == (401, b"")


async def test_a_token_of_the_protocol_opens_nothing_here(daemon):
    token = daemon.home.token_file
    text = token.read_text() if token.exists() else "x"
    answer = await trio.to_thread.run_sync(lambda: post(daemon, Authorization=f"Bearer {text.strip()}"))
    assert answer.status_code == 401


async def test_a_token_that_was_taken_away_opens_nothing_any_more(daemon, ann, mode):
    text, token = tokens.add(daemon.home.root, ann)
    async with Client(over_http(daemon, text), mode=mode) as client:
        assert len(await names(client)) == 10
        tokens.remove(daemon.home.root, token.id)
        with pytest.raises(MCPError):
            await names(client)
    assert (
        await trio.to_thread.run_sync(lambda: post(daemon, Authorization=f"Bearer {text}"))
    ).status_code == 401


async def test_a_session_is_of_no_use_with_another_token(daemon, ann):
    first, _ = tokens.add(daemon.home.root, ann)
    second, _ = tokens.add(daemon.home.root, ann, "other")
    body = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "x", "version": "0"},
        },
    }
    headers = {"Accept": "application/json, text/event-stream", "Authorization": f"Bearer {first}"}
    opened = await trio.to_thread.run_sync(
        lambda: httpx2.post(daemon.url, json=body, headers=headers, timeout=30)
    )
    assert opened.status_code == 200
    session = opened.headers["mcp-session-id"]
    for text, status in ((first, 200), (second, 404)):
        headers = {"Authorization": f"Bearer {text}", "Mcp-Session-Id": session}
        answer = await trio.to_thread.run_sync(lambda: post(daemon, **headers))  # noqa: B023 - called at once
        assert answer.status_code == status


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/1.1\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -1\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\nHost: ::1\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n",
        b"GET /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"x" * 100_000,
        b"GET /../../etc/passwd HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    ],
)
@pytest.mark.usefixtures("daemon")
async def test_what_is_no_request_is_answered_or_hung_up_on(port, sent):
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    with trio.fail_after(10):
        await stream.send_all(sent)
        await stream.send_eof()
        answer = b""
        try:
            while data := await stream.receive_some(65536):
                answer += data
        except trio.BrokenResourceError:
            pass
    assert not answer or answer.split()[1] in {b"400", b"404", b"421", b"431", b"401"}
    await stream.aclose()


async def test_many_requests_on_one_connection_are_answered_in_order(daemon, ann):
    text, _ = tokens.add(daemon.home.root, ann)
    async with Client(over_http(daemon, text)) as client:
        began = time.monotonic()
        for number in range(50):
            assert said(await client.call_tool("say", {"text": str(number)})) == (False, str(number))
        assert time.monotonic() - began < 20


async def test_a_body_that_is_too_large_is_refused(daemon, ann):
    text, _ = tokens.add(daemon.home.root, ann)
    headers = {"Authorization": f"Bearer {text}", "Content-Type": "application/json"}
    large = b" " * (5 << 20)
    answer = await trio.to_thread.run_sync(
        lambda: httpx2.post(daemon.url, content=large, headers=headers, timeout=30)
    )
    assert answer.status_code == 413
