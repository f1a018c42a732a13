"""A table of handlers for tests of the wire: each shows one way to answer. Run as a program, it serves it.

    python wire_tables.py RUN_DIR [--tcp]

Real handlers need a store and images; these need nothing, so that what fails is the connection's.
"""

import sys
from pathlib import Path

import trio

from crabtalk.dispatch import CONNECTION_FIELDS, REQUEST_FIELDS, Table
from crabtalk.errors import BadRequest, NotFound, RequestError
from crabtalk.wire.pb import crabtalk_pb2 as pb


class Record:
    """The runtime of the table: counts what became of its slow requests."""

    def __init__(self):
        self.running = 0
        self.cancelled = 0
        self.release = trio.Event()


def pong(_record, _request):
    return pb.ServerMessage(pong=pb.Pong())


def call_tool(record, request):
    """Do what the tool's name says."""
    return TOOLS[request.body.tool](record, request)


def call_tools(record, requests):
    """Answer the first ones: up to one that fails in an unforeseen way, or whose answer is large."""
    answers = []
    for request in requests:
        try:
            answers.append(call_tool(record, request))
        except RequestError as error:
            answers.append(error)
        except ZeroDivisionError:
            if not answers:
                raise
            break
        if request.body.tool == "large":
            break
    return answers


def echo(_record, request):
    return pb.ServerMessage(tool_outcome=pb.ToolOutcome(done=request.body.args))


def who(_record, request):
    return pb.ServerMessage(tool_outcome=pb.ToolOutcome(done=request.connection.name.encode()))


def large(_record, request):
    return pb.ServerMessage(tool_outcome=pb.ToolOutcome(done=bytes(int(request.body.harness))))


def missing(_record, _request):
    raise NotFound("no such tool: `missing`")


def broken(_record, _request):
    raise ZeroDivisionError("a mistake with a secret in it")


async def soon(_record, request):
    await trio.lowlevel.checkpoint()
    return pb.ServerMessage(tool_outcome=pb.ToolOutcome(done=request.body.args))


async def after(_record, request):
    await trio.sleep(float(request.body.harness))
    return pb.ServerMessage(tool_outcome=pb.ToolOutcome(done=request.body.args))


async def late_missing(_record, _request):
    await trio.lowlevel.checkpoint()
    raise NotFound("no such tool: `late_missing`")


async def late_broken(_record, _request):
    await trio.lowlevel.checkpoint()
    raise ZeroDivisionError("a mistake with a secret in it")


async def forever(record, _request):
    return await held(record)


async def held(record):
    """Wait until the record lets go."""
    record.running += 1
    try:
        await record.release.wait()
    except trio.Cancelled:
        record.cancelled += 1
        raise
    finally:
        record.running -= 1
    return pb.ServerMessage(pong=pb.Pong())


async def publish_event(record, _request):
    """Take its time; not to be cancelled."""
    return await held(record)


def put_harness(_record, request):
    return pb.ServerMessage(harness_info=pb.HarnessInfo(size=len(request.body.elf)))


async def remove_harness(record, _request):
    return await held(record)


def get_stats(record, _request):
    return pb.ServerMessage(stats=pb.Stats(running=record.running, spilled=record.cancelled))


async def tail_events(record, request, send):
    """Send events: `flood` without end, a number of them, or one and then nothing more."""
    kind = request.body.source
    if kind == "bad":
        raise BadRequest("not a source: `bad`")
    count = 0
    record.running += 1
    try:
        while kind == "flood" or count < int(kind or 1):
            await send(pb.ServerMessage(bus_event=pb.BusEvent(id=str(count), payload="x" * 500)))
            count += 1
        if not kind:
            await trio.sleep_forever()
    finally:
        record.running -= 1


async def stream(record, request, send):
    """A turn that says its content a thousand times."""
    record.running += 1
    try:
        for _ in range(1000):
            chunk = pb.StreamChunk(content=request.body.content)
            await send(pb.ServerMessage(stream=pb.StreamEvent(chunk=chunk)))
        await send(pb.ServerMessage(stream=pb.StreamEvent(end=pb.StreamEnd(agent="a"))))
    finally:
        record.running -= 1


# `harness` tells how much, where that matters.
TOOLS = {
    function.__name__: function
    for function in (echo, who, large, missing, broken, soon, after, late_missing, late_broken, forever)
}
HANDLERS = {
    "ping": pong,
    "call_tool": call_tool,
    "put_harness": put_harness,
    "remove_harness": remove_harness,
    "publish_event": publish_event,
    "get_stats": get_stats,
}
STREAMS = {"tail_events": tail_events, "stream": stream}


def table():
    built = {*HANDLERS, *STREAMS, *CONNECTION_FIELDS}
    return Table(HANDLERS, STREAMS, frozenset(REQUEST_FIELDS) - built, {"call_tool": call_tools})


async def serve(run_dir, *, tcp):
    from crabtalk.server import Server
    from crabtalk.transports.tcp import load_token, open_tcp
    from crabtalk.transports.unix import SOCKET_NAME, open_unix

    listener = open_tcp(run_dir, port=0) if tcp else open_unix(run_dir / SOCKET_NAME)
    server = Server(table(), Record(), token=load_token(run_dir) if tcp else None)
    async with trio.open_nursery() as nursery:
        await nursery.start(server.serve, listener)
        print("ready", flush=True)
        await trio.to_thread.run_sync(sys.stdin.read)
        server.stop()
        await server.close()
        print(server.statistics().connections, flush=True)


if __name__ == "__main__":
    from functools import partial

    from crabtalk.lifecycle import allow_descriptors

    allow_descriptors()
    trio.run(partial(serve, Path(sys.argv[1]), tcp="--tcp" in sys.argv))
