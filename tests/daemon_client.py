"""A daemon within the test, served over memory, and a client for it that shows every message as it is."""

import contextlib
import hashlib
import json
import logging
from types import SimpleNamespace

import trio

from crabtalk.clock import SystemClock
from crabtalk.config import Config
from crabtalk.handlers.table import request_table
from crabtalk.logs import Logs
from crabtalk.runtime import open_runtime
from crabtalk.server import Server
from crabtalk.transports.memory import MemoryListener
from crabtalk.wire.codec import encode_request
from crabtalk.wire.framing import FrameReader
from crabtalk.wire.pb import crabtalk_pb2 as pb
from daemons import temporary_home


class Refused(Exception):  # noqa: N818 - what happened
    """The daemon answered with an `error`."""

    def __init__(self, error):
        super().__init__(f"{error.code}: {error.message}")
        self.code = error.code
        self.message = error.message


class Client:
    """One connection; requests are told apart by their ids."""

    def __init__(self, stream):
        self.stream = stream
        self.reader = FrameReader()
        self.last_id = 0
        self.replies = {}

    async def send(self, **field):
        """Send a request and return its id."""
        self.last_id += 1
        await self.stream.send_all(encode_request(pb.ClientMessage(request_id=self.last_id, **field)))
        return self.last_id

    async def receive(self, request_id):
        """Return the next reply to a request; `Refused` if it is an error."""
        waiting = self.replies.setdefault(request_id, [])
        while not waiting:
            data = await self.stream.receive()
            assert data, "the daemon closed the connection"
            for payload in self.reader.feed(data):
                reply = pb.ServerMessage.FromString(payload)
                self.replies.setdefault(reply.request_id, []).append(reply)
        reply = waiting.pop(0)
        kind = reply.WhichOneof("msg")
        if kind == "error":
            raise Refused(reply.error)
        return getattr(reply, kind)

    async def code(self, request_id):
        """Return the code of the next reply, 0 if it is no error."""
        try:
            await self.receive(request_id)
        except Refused as error:
            return error.code
        return 0

    async def ask(self, **field):
        return await self.receive(await self.send(**field))

    async def put(self, name, path):
        elf = path.read_bytes()
        return await self.ask(
            put_harness=pb.PutHarnessMsg(name=name, elf=elf, sha256=hashlib.sha256(elf).hexdigest())
        )

    async def declare(self, name, *harnesses, **config):
        declared = [{"name": one} if isinstance(one, str) else one for one in harnesses]
        made = await self.ask(
            create_agent=pb.CreateAgentMsg(name=name, config=json.dumps({"harnesses": declared, **config}))
        )
        return made.id

    async def call(self, agent, harness, tool, args="{}", **options):
        return await self.ask(
            call_tool=pb.CallToolMsg(agent=agent, harness=harness, tool=tool, args=args.encode(), **options)
        )


@contextlib.asynccontextmanager
async def serving(store, config=None, clock=None, **options):
    """Serve a store over memory; another daemon may follow on the same one.

    `options` are those of `open_runtime`.
    """
    config = config or Config()
    logs = Logs(config.log, config.secrets.values(), lambda _line: None)
    logging.getLogger("crabtalk").addHandler(logs)
    listener = MemoryListener()
    try:
        with temporary_home() as home:
            async with (
                open_runtime(config, home, clock or SystemClock(), logs, store=store, **options) as runtime,
                trio.open_nursery() as nursery,
            ):
                server = Server(request_table(), runtime)
                await nursery.start(server.serve, listener)
                stream = await listener.connect()
                yield SimpleNamespace(
                    runtime=runtime, server=server, listener=listener, client=Client(stream), home=home
                )
                stream.close()
                nursery.cancel_scope.cancel()
    finally:
        logging.getLogger("crabtalk").removeHandler(logs)
