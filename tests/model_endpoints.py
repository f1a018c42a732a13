"""Endpoints of models on loopback: a test says what is answered, byte for byte, however wrong that is."""

import contextlib
import json
from dataclasses import dataclass, field
from functools import partial

import trio

from crabtalk.conversation.messages import Message
from crabtalk.conversation.model import (
    Finished,
    ModelError,
    ModelRequest,
    TextDelta,
    ThinkingDelta,
    ThinkingSignature,
    ToolCallDelta,
    ToolCallStarted,
    UsageReport,
)
from crabtalk.tools import Tool

HELLO = ModelRequest(model="m", messages=(Message("user", "hello"),))


def tool(name, **properties):
    return Tool("h", name, name, f"{name}s", {"type": "object", "properties": properties})


def data(*objects):
    """Write events without names, as OpenAI's dialect has them; text is sent as it is."""
    return b"".join(
        b"data: " + (one.encode() if isinstance(one, str) else json.dumps(one).encode()) + b"\n\n"
        for one in objects
    )


def named(*objects):
    """Write events with the names of their types, as Anthropic's dialect has them."""
    return b"".join(f"event: {one['type']}\n".encode() + data(one) for one in objects)


def chunk(content=None, *, finish=None, **delta):
    """Return a chunk of OpenAI's dialect."""
    if content is not None:
        delta["content"] = content
    return {"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def head(status=200, kind="text/event-stream", **headers):
    lines = [f"HTTP/1.1 {status} X", *([f"content-type: {kind}"] if kind else [])]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode()


def response(body, status=200, kind="text/event-stream", **headers):
    """Write a response with a length, after which the connection can be used again."""
    return head(status, kind, content_length=len(body), **headers) + body


def refusal(status, error, **headers):
    return response(json.dumps({"error": error}).encode(), status, "application/json", **headers)


def cut_off(body, **headers):
    """Write a response that ends with the connection."""
    return head(connection="close", **headers) + body


@dataclass
class Asked:
    """A request that came."""

    method: str
    target: str
    headers: dict
    body: dict


@dataclass
class Endpoint:
    """What was asked, and where."""

    answers: list
    port: int = 0
    asked: list = field(default_factory=list)
    connections: int = 0
    reached: trio.Event = field(default_factory=trio.Event)  # a request came
    gone: trio.Event = field(default_factory=trio.Event)  # a client closed a connection

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    async def __call__(self, stream):
        self.connections += 1
        if isinstance(stream, trio.SocketStream):
            stream.setsockopt(trio.socket.IPPROTO_TCP, trio.socket.TCP_NODELAY, 1)
        with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            while (asked := await read_request(stream)) is not None:
                self.asked.append(asked)
                self.reached.set()
                answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
                if callable(answer):
                    answer = await answer(stream)
                if answer is None:
                    break
                await stream.send_all(answer)
                if b"connection: close" in answer[:200]:
                    break
        self.gone.set()
        await stream.aclose()


async def read_request(stream):
    found = b""
    while b"\r\n\r\n" not in found:
        more = await stream.receive_some()
        if not more:
            return None
        found += more
    top, _, body = found.partition(b"\r\n\r\n")
    line, *lines = top.decode().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (one.partition(":") for one in lines)}
    while len(body) < int(headers.get("content-length", 0)):
        body += await stream.receive_some()
    method, target, _ = line.split(" ")
    return Asked(method, target, headers, json.loads(body) if body else None)


@contextlib.asynccontextmanager
async def answering(*answers, tls=None):
    """Serve on a free port; each request gets the next answer, and the last one again and again.

    An answer is bytes, or an async function over the stream that returns the rest; None ends the connection.
    """
    endpoint = Endpoint(list(answers))
    async with trio.open_nursery() as nursery:
        serve = partial(trio.serve_tcp, endpoint, 0, host="127.0.0.1")
        if tls is not None:
            serve = partial(
                trio.serve_ssl_over_tcp, endpoint, 0, tls, host="127.0.0.1", https_compatible=True
            )
        listeners = await nursery.start(serve)
        endpoint.port = _socket(listeners[0]).getsockname()[1]
        yield endpoint
        nursery.cancel_scope.cancel()


def _socket(listener):
    return getattr(listener, "transport_listener", listener).socket


async def collect(provider, request=HELLO, **more):
    """Return every event, and the error that ended them."""
    events = []
    try:
        async with provider.stream(request, **more) as stream:
            async for event in stream:
                events.append(event)  # noqa: PERF401 - an error must not take them along
    except ModelError as error:
        return events, error
    return events, None


@dataclass
class Heard:
    """What an answer amounts to."""

    text: str
    thinking: str
    calls: list  # (id, name, arguments)
    usage: object
    signature: str
    finished: object  # a reason; None if there was none


def heard(events):
    """Add events up; checks the rules that every stream keeps."""
    calls, ends = {}, [event for event in events if isinstance(event, Finished)]
    assert len(ends) <= 1
    assert not ends or events[-1] is ends[0]
    for event in events:
        if isinstance(event, ToolCallStarted):
            assert event.index == len(calls)
            assert event.id
            assert event.id not in {call[0] for call in calls.values()}
            calls[event.index] = [event.id, event.name, ""]
        elif isinstance(event, ToolCallDelta):
            calls[event.index][2] += event.arguments
    usages = [event.usage for event in events if isinstance(event, UsageReport)]
    signatures = [event.data for event in events if isinstance(event, ThinkingSignature)]
    return Heard(
        text="".join(event.text for event in events if isinstance(event, TextDelta)),
        thinking="".join(event.text for event in events if isinstance(event, ThinkingDelta)),
        calls=[tuple(call) for call in calls.values()],
        usage=usages[-1] if usages else None,
        signature=signatures[-1] if signatures else "",
        finished=ends[0].reason if ends else None,
    )
