"""Both dialects against real servers on loopback: every cut, every way to fail, every bound."""

import gzip
import json
import logging
import socket
import ssl
from functools import partial

import pytest
import trio
import trustme

from crabtalk.clock import SystemClock
from crabtalk.config_values import Secret
from crabtalk.conversation.messages import Message
from crabtalk.conversation.model import ModelRequest
from crabtalk.model_config import ModelConfig
from crabtalk.providers import http
from crabtalk.providers.http import HttpProvider
from model_endpoints import (
    HELLO,
    answering,
    chunk,
    collect,
    cut_off,
    data,
    head,
    heard,
    named,
    refusal,
    response,
)

pytestmark = pytest.mark.trio

KEY = "sk-very-secret-0123456789"
OPENAI = data(
    chunk("Hé"),
    chunk(tool_calls=[{"index": 0, "id": "a", "function": {"name": "f", "arguments": '{"p":'}}]),
    chunk(tool_calls=[{"index": 0, "function": {"arguments": "1}"}}]),
    chunk(finish="tool_calls"),
    {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}},
    "[DONE]",
)
ANTHROPIC = named(
    {"type": "message_start", "message": {"usage": {"input_tokens": 3}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hé"}},
    {"type": "content_block_stop", "index": 0},
    {
        "type": "content_block_start",
        "index": 1,
        "content_block": {"type": "tool_use", "id": "a", "name": "f"},
    },
    {
        "type": "content_block_delta",
        "index": 1,
        "delta": {"type": "input_json_delta", "partial_json": '{"p":1}'},
    },
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 4}},
    {"type": "message_stop"},
)
STREAMS = {"openai": OPENAI, "anthropic": ANTHROPIC}
# Where the model has said why it stopped, and the answer is complete.
COMPLETE = {
    "openai": OPENAI.index(b'"tool_calls"}') + len(b'"tool_calls"}]}\n\n'),
    "anthropic": len(ANTHROPIC),
}


def provider(endpoint, kind="openai", **config):
    base = endpoint.url + ("/v1" if kind == "openai" else "")
    given = {"provider": kind, "model": "m", "base_url": base, "api_key": Secret(KEY), **config}
    return HttpProvider("main", ModelConfig(**given), SystemClock())


@pytest.fixture(params=["openai", "anthropic"])
def kind(request):
    return request.param


def assert_whole(events, error):
    answer = heard(events)
    assert error is None
    assert (answer.text, answer.calls, answer.finished) == ("Hé", [("a", "f", '{"p":1}')], "tool_calls")
    assert (answer.usage.prompt, answer.usage.completion, answer.usage.total) == (3, 4, 7)


async def test_an_answer(kind):
    async with answering(response(STREAMS[kind])) as endpoint:
        asked = provider(endpoint, kind)
        assert_whole(*await collect(asked))
        await asked.close()
    (request,) = endpoint.asked
    assert request.method == "POST"
    assert request.headers["content-type"] == "application/json"
    if kind == "openai":
        assert request.target == "/v1/chat/completions"
        assert request.headers["authorization"] == f"Bearer {KEY}"
    else:
        assert request.target == "/v1/messages"
        assert request.headers["x-api-key"] == KEY
        assert request.headers["anthropic-version"] == "2023-06-01"


async def one_by_one(stream, *, body):
    """Send a body byte by byte, each in a chunk of HTTP's own."""
    await stream.send_all(head(transfer_encoding="chunked"))
    for n in range(len(body)):
        await stream.send_all(b"1\r\n" + body[n : n + 1] + b"\r\n")
        await trio.lowlevel.checkpoint()
    return b"0\r\n\r\n"


async def test_an_answer_that_comes_byte_by_byte(kind):
    async with answering(partial(one_by_one, body=STREAMS[kind])) as endpoint:
        asked = provider(endpoint, kind)
        assert_whole(*await collect(asked))
        await asked.close()


async def test_an_answer_in_two_pieces_cut_at_every_byte(kind):
    body = STREAMS[kind]
    cuts = iter(range(len(body) + 1))

    async def two(stream):
        at = next(cuts)
        await stream.send_all(head(content_length=len(body)) + body[:at])
        await trio.lowlevel.checkpoint()
        return body[at:]

    async with answering(two) as endpoint:
        asked = provider(endpoint, kind)
        for _ in range(len(body) + 1):
            assert_whole(*await collect(asked))
        await asked.close()
    assert endpoint.connections == 1


@pytest.mark.parametrize("framing", ["close", "length", "chunked"])
async def test_a_stream_that_is_cut_off_anywhere_is_never_a_success_unless_the_answer_is_complete(
    kind, framing
):
    body = STREAMS[kind]
    step = 1 if framing == "close" else 7  # what is cut is the same; only how the end looks differs
    cuts = iter(range(0, len(body), step))

    async def cut(stream):
        part = body[: next(cuts)]
        if framing == "close":
            return cut_off(part)
        if framing == "length":
            await stream.send_all(head(content_length=len(body)) + part)
        else:
            await stream.send_all(
                head(transfer_encoding="chunked") + (b"%x\r\n%s\r\n" % (len(part), part) if part else b"")
            )
        return None

    async with answering(cut) as endpoint:
        asked = provider(endpoint, kind)
        for at in range(0, len(body), step):
            events, error = await collect(asked)
            if at >= COMPLETE[kind]:
                assert (error, heard(events).finished) == (None, "tool_calls")
            else:
                assert (error.kind, heard(events).finished) == ("interrupted", None), at
        await asked.close()


async def test_a_done_without_a_reason_is_no_end():
    async with answering(response(data(chunk("Hal"), "[DONE]"))) as endpoint:
        asked = provider(endpoint)
        events, error = await collect(asked)
        await asked.close()
    assert (heard(events).text, error.kind) == ("Hal", "interrupted")


async def test_signs_of_life_and_empty_events_are_no_events(kind):
    noise = b": OPENROUTER PROCESSING\n\nevent: ping\n\n\r\n\r\ndata:\n\nretry: 3\n\n"
    frames = STREAMS[kind].split(b"\n\n")
    body = noise + b"".join(frame + b"\n\n" + noise for frame in frames)
    async with answering(response(body)) as endpoint:
        asked = provider(endpoint, kind)
        assert_whole(*await collect(asked))
        await asked.close()


async def test_what_comes_before_a_failure_is_given_first(kind):
    failure = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    body = STREAMS[kind][:400].rpartition(b"\n\n")[0] + b"\n\n" + data(failure) + STREAMS[kind]
    async with answering(response(body)) as endpoint:
        asked = provider(endpoint, kind)
        events, error = await collect(asked)
        await asked.close()
    assert (heard(events).text, heard(events).finished, error.kind) == ("Hé", None, "overloaded")
    assert str(error) == "model `main`: Overloaded"


async def test_a_refusal_says_what_why_and_for_how_long(kind):
    error = {"type": "rate_limit_error", "message": f"slow down, {KEY}"}
    async with answering(refusal(429, error, retry_after="172800")) as endpoint:
        asked = provider(endpoint, kind)
        _, refused = await collect(asked)
        await asked.close()
    assert (refused.kind, refused.status, refused.retry_after_s) == ("rate", 429, 172800.0)
    assert str(refused) == "model `main`: HTTP 429: slow down, [redacted]"


async def test_no_redirect_is_followed():
    async with answering(refusal(307, "", location="http://127.0.0.1:1/v1")) as endpoint:
        asked = provider(endpoint)
        _, error = await collect(asked)
        await asked.close()
    assert (error.kind, error.status) == ("bad_request", 307)
    assert "set `base_url` to http://127.0.0.1:1/v1" in str(error)
    assert len(endpoint.asked) == 1


async def test_a_base_without_a_version_is_pointed_at():
    async with answering(refusal(404, "page not found")) as endpoint:
        asked = provider(endpoint, base_url=endpoint.url)
        _, error = await collect(asked)
        await asked.close()
    assert "most endpoints want it to end with `/v1`" in str(error)


async def test_a_web_page_is_no_answer(kind):
    async with answering(response(b"<html>Sign in</html>", kind="text/html; charset=utf-8")) as endpoint:
        asked = provider(endpoint, kind)
        _, error = await collect(asked)
        await asked.close()
    assert error.kind == "bad_request"


@pytest.mark.parametrize(
    ("body", "kind_of_error"),
    [
        ({"error": {"message": "no", "code": "insufficient_quota"}}, "quota"),
        ({}, "interrupted"),
        (None, "interrupted"),
    ],
)
async def test_json_instead_of_a_stream_is_an_error_if_it_is_no_answer(body, kind_of_error):
    text = json.dumps(body).encode() if body is not None else b"{"
    async with answering(response(text, kind="application/json")) as endpoint:
        asked = provider(endpoint)
        _, error = await collect(asked)
        await asked.close()
    assert error.kind == kind_of_error


async def test_json_instead_of_a_stream_is_read_if_it_is_an_answer():
    answer = {"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]}
    async with answering(response(json.dumps(answer).encode(), kind="application/json")) as endpoint:
        asked = provider(endpoint)
        events, error = await collect(asked)
        await asked.close()
    assert (heard(events).text, heard(events).finished, error) == ("Hi", "stop", None)


async def test_nobody_there(kind):
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    asked = HttpProvider(
        "main", ModelConfig(provider=kind, model="m", base_url=f"http://127.0.0.1:{port}"), SystemClock()
    )
    _, error = await collect(asked)
    await asked.close()
    assert error.kind == "network"
    assert f"cannot connect to 127.0.0.1:{port}: Connection refused" in str(error)


async def test_a_connection_that_ends_without_an_answer(kind):
    async def nothing(_stream):
        return None

    async with answering(nothing) as endpoint:
        asked = provider(endpoint, kind)
        _, error = await collect(asked)
        await asked.close()
    assert error.kind == "network"


async def silent(stream, *, first=b""):
    await stream.send_all(first)
    assert await stream.receive_some() == b""  # until the client goes


@pytest.mark.parametrize("first", [b"", head(), head() + OPENAI[:100]])
async def test_silence_ends_after_its_bound(first):
    async with answering(partial(silent, first=first)) as endpoint:
        asked = provider(endpoint, idle_timeout=0.2)
        with trio.fail_after(5):
            _, error = await collect(asked)
        await asked.close()
    assert error.kind == "timeout"
    assert "nothing came for 0.2 s" in str(error)


async def test_signs_of_life_for_ever_end_after_the_bound_of_an_answer():
    async def dripping(stream):
        await stream.send_all(head())
        while True:
            await stream.send_all(b": still here\n\n")
            await trio.sleep(0.02)

    async with answering(dripping) as endpoint:
        asked = provider(endpoint, timeout=0.5)
        with trio.fail_after(5):
            _, error = await collect(asked)
        await asked.close()
    assert error.kind == "timeout"
    assert "no complete answer within 0.5 s" in str(error)


async def test_an_answer_that_is_complete_is_not_lost_when_the_endpoint_says_no_more(monkeypatch):
    monkeypatch.setattr("crabtalk.providers.answer._LATE_S", 0.1)
    body = data(chunk("Hi"), chunk(finish="stop"))
    async with answering(partial(silent, first=head() + body)) as endpoint:
        asked = provider(endpoint)
        with trio.fail_after(5):
            events, error = await collect(asked)
        await asked.close()
    assert (heard(events).finished, error) == ("stop", None)


async def test_an_answer_is_not_larger_than_its_bound():
    async def endless(stream):
        await stream.send_all(head())
        piece = data(chunk("x" * 10_000)) * 10
        while True:
            await stream.send_all(piece)

    async with answering(endless) as endpoint:
        asked = provider(endpoint)
        events, error = await collect(asked)
        with trio.fail_after(5):
            await endpoint.gone.wait()
        await asked.close()
    assert error.kind == "interrupted"
    assert f"larger than {http.MAX_ANSWER_BYTES} bytes" in str(error)
    assert 15_000_000 < len(heard(events).text) < http.MAX_ANSWER_BYTES


async def test_a_line_without_an_end_is_not_larger_than_the_bound_either():
    async def endless(stream):
        await stream.send_all(head() + b"data: ")
        while True:
            await stream.send_all(b"x" * 100_000)

    async with answering(endless) as endpoint:
        asked = provider(endpoint)
        with trio.fail_after(20):
            _, error = await collect(asked)
        await asked.close()
    assert error.kind == "interrupted"


async def test_what_was_compressed_counts_as_what_it_becomes():
    bomb = gzip.compress(data(chunk("x")) + b":" * (64 << 20))
    async with answering(response(bomb, content_encoding="gzip")) as endpoint:
        asked = provider(endpoint)
        events, error = await collect(asked)
        await asked.close()
    assert heard(events).text == "x"
    assert error.kind == "interrupted"


async def test_a_large_refusal_is_read_only_at_its_beginning():
    async def endless(stream):
        await stream.send_all(head(500, "text/plain"))
        while True:
            await stream.send_all(b"x" * 100_000)

    async with answering(endless) as endpoint:
        asked = provider(endpoint)
        with trio.fail_after(5):
            _, error = await collect(asked)
        await asked.close()
    assert error.kind == "overloaded"


async def test_a_conversation_that_is_too_large_is_not_sent(monkeypatch):
    monkeypatch.setattr(http, "MAX_REQUEST_BYTES", 1000)
    async with answering(response(OPENAI)) as endpoint:
        asked = provider(endpoint)
        _, error = await collect(asked, ModelRequest(model="m", messages=[Message("user", "x" * 1000)]))
        await asked.close()
    assert (error.kind, endpoint.asked) == ("context", [])


async def test_text_that_nothing_can_encode_is_sent_all_the_same():
    async with answering(response(OPENAI)) as endpoint:
        asked = provider(endpoint)
        _, error = await collect(asked, ModelRequest(model="m", messages=[Message("user", "a\ud800b")]))
        await asked.close()
    assert error is None


async def test_connections_are_used_again_also_after_a_stream(kind):
    async with answering(response(STREAMS[kind])) as endpoint:
        asked = provider(endpoint, kind)
        for _ in range(5):
            await collect(asked)
        await asked.close()
    assert (endpoint.connections, len(endpoint.asked)) == (1, 5)


async def test_cancelling_drops_the_connection_at_once(kind):
    async with answering(partial(silent, first=head() + STREAMS[kind][:50])) as endpoint:
        asked = provider(endpoint, kind)
        with trio.fail_after(5):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(collect, asked)
                await endpoint.reached.wait()
                nursery.cancel_scope.cancel()
            await endpoint.gone.wait()
        await asked.close()


async def test_leaving_early_drops_the_connection(kind):
    async with answering(partial(silent, first=head() + STREAMS[kind][:300])) as endpoint:
        asked = provider(endpoint, kind)
        with trio.fail_after(5):
            async with asked.stream(HELLO) as events:
                await anext(events)
            await endpoint.gone.wait()
        await asked.close()


async def test_retiring_waits_for_answers_that_are_being_read():
    async with answering(partial(one_by_one, body=OPENAI)) as endpoint:
        asked = provider(endpoint)
        async with asked.stream(HELLO) as events:
            await anext(events)
            await asked.retire()
            rest = [event async for event in events]
            assert heard(rest).finished == "tool_calls"
        with trio.fail_after(5):
            await endpoint.gone.wait()


@pytest.mark.parametrize(
    ("kind", "listed"),
    [
        ("openai", {"object": "list", "data": [{"id": "b"}, {"id": "a"}, {"id": "a"}, None, {"x": 1}]}),
        ("anthropic", {"data": [{"type": "model", "id": "b"}, {"type": "model", "id": "a"}]}),
        ("openai", {"models": [{"name": "a"}, {"name": "b"}]}),
    ],
)
async def test_the_models_of_an_endpoint(kind, listed):
    async with answering(response(json.dumps(listed).encode(), kind="application/json")) as endpoint:
        asked = provider(endpoint, kind)
        assert await asked.models() == ["a", "b"]
        await asked.close()
    assert endpoint.asked[0].method == "GET"
    assert endpoint.asked[0].target.partition("?")[0] == "/v1/models"


async def test_a_proxy_of_the_environment_is_not_asked_for_this_machine(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.delenv("NO_PROXY", raising=False)
    async with answering(response(OPENAI)) as endpoint:
        asked = provider(endpoint)
        assert_whole(*await collect(asked))
        await asked.close()


async def test_headers_of_the_configuration_are_sent():
    async with answering(response(OPENAI)) as endpoint:
        asked = provider(endpoint, headers={"X-Gateway": Secret("g")})
        await collect(asked)
        await asked.close()
    assert endpoint.asked[0].headers["x-gateway"] == "g"


async def test_no_key_is_in_the_log_whatever_the_level(caplog, kind):
    caplog.set_level(logging.DEBUG)
    async with answering(refusal(401, {"message": "wrong"})) as endpoint:
        asked = provider(endpoint, kind)
        await collect(asked)
        await asked.close()
    assert KEY not in caplog.text


async def test_two_hundred_streams_are_open_at_once_and_do_not_wait_for_each_other(kind):
    everybody, waiting = trio.Event(), 0

    async def slow(stream):
        nonlocal waiting
        await stream.send_all(head(content_length=len(STREAMS[kind])) + STREAMS[kind][:100])
        waiting += 1
        if waiting == 200:
            everybody.set()
        await everybody.wait()
        return STREAMS[kind][100:]

    results = []

    async def one(asked):
        results.append(await collect(asked))

    async with answering(slow) as endpoint:
        asked = provider(endpoint, kind)
        with trio.fail_after(20):
            async with trio.open_nursery() as nursery:
                for _ in range(200):
                    nursery.start_soon(one, asked)
        await asked.close()
    assert (len(results), endpoint.connections) == (200, 200)
    for events, error in results:
        assert_whole(events, error)


@pytest.fixture
def authority(tmp_path):
    """A certificate authority of our own, and the file that says so."""
    made = trustme.CA()
    made.cert_pem.write_to_path(tmp_path / "ca.pem")
    return made, tmp_path / "ca.pem"


@pytest.mark.parametrize("trusted", [True, False])
async def test_over_tls_only_an_endpoint_that_is_trusted_gets_the_key(kind, authority, trusted, monkeypatch):
    made, file = authority
    monkeypatch.setattr(http, "_is_loopback", lambda _base: False)  # so that the environment counts
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "https_proxy", "http_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(file))
    else:
        monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    made.issue_cert("127.0.0.1").configure_cert(context)
    async with answering(response(STREAMS[kind]), tls=context) as endpoint:
        asked = provider(endpoint, kind, base_url=f"https://127.0.0.1:{endpoint.port}/v1")
        events, error = await collect(asked)
        await asked.close()
    if trusted:
        assert_whole(events, error)
    else:
        assert (error.kind, endpoint.asked) == ("network", [])
        assert "certificate verify failed" in str(error).lower()
