"""A client over memory that sees every reply, and what the tests of connections say to it."""

from contextlib import asynccontextmanager

import trio

from crabtalk.connection import Budget, Connection, ConnectionLimits
from crabtalk.dispatch import Peer
from crabtalk.transports.memory import memory_pair
from crabtalk.wire.framing import FrameReader, frame
from crabtalk.wire.pb import crabtalk_pb2 as pb
from wire_tables import Record, table


class Wire:
    """A client that sends bytes and sees every reply."""

    def __init__(self, stream):
        self.stream = stream
        self.reader = FrameReader()
        self.replies = []
        self.closed = False

    async def send(self, *messages):
        await self.stream.send_all(b"".join(frame(one.SerializeToString()) for one in messages))

    async def next(self):
        while not self.replies:
            data = await self.stream.receive()
            if not data:
                self.closed = True
                return None
            self.replies += map(pb.ServerMessage.FromString, self.reader.feed(data))
        return self.replies.pop(0)

    async def rest(self):
        """Return all replies until the end of the connection."""
        found = []
        while (reply := await self.next()) is not None:
            found.append(reply)
        return found

    async def ask(self, **request):
        await self.send(pb.ClientMessage(**request))
        return await self.next()


def call(tool, args=b"", request_id=None, harness=""):
    body = pb.CallToolMsg(tool=tool, args=args, harness=harness)
    return pb.ClientMessage(request_id=request_id, call_tool=body)


def cancel(request_id, own_id):
    return pb.ClientMessage(request_id=own_id, cancel=pb.CancelMsg(request_id=request_id))


PING = pb.ClientMessage(ping=pb.PingMsg())


@asynccontextmanager
async def connected(record=None, *, token=None, budget=None, **limits):
    ours, theirs = memory_pair()
    connection = Connection(
        ours,
        table(),
        record or Record(),
        Peer("test", "memory", None),
        limits=ConnectionLimits(**limits),
        budget=budget or Budget(),
        token=token,
    )
    wire = Wire(theirs)
    wire.connection = connection
    # Under a clock that jumps, what would hang fails.
    with trio.fail_after(1000):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(connection.serve)
            yield wire
            theirs.close()


def ids(replies):
    return [reply.request_id for reply in replies]
