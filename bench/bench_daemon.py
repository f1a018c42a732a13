"""Ask what a tool call through the daemon's socket costs, against the same tool behind a stdio MCP server.

The tool is `echo` with 64 characters: harness/echo in a daemon of its own home, and the function of one line
in a server written with the public MCP SDK. Both are driven by this process over plain sockets and pipes with
messages made beforehand, so that what is compared is the servers. Idle clients show what a crowd costs.
"""

# mypy: disable-error-code="import-not-found, import-untyped"
from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from engines import installed
from reporting import Report, main
from timing import percentile

from crabtalk.client import SyncClient
from crabtalk.wire.pb import crabtalk_pb2 as pb

ROOT = Path(__file__).resolve().parent.parent
IMAGE = ROOT / "harness" / "echo" / "echo.elf"
TEXT = "x" * 64
IN_FLIGHT = 16
IDLE = 1000
START_S = 30.0

MCP_SERVER = """
from mcp.server import MCPServer

server = MCPServer("echo")


@server.tool()
def echo(text: str) -> str:
    return text


server.run("stdio")
"""


class Peer(Protocol):
    """A server that answers calls in whatever order; `calls` sends that many more."""

    def send(self, count: int) -> None:
        """Ask for `count` more calls."""

    def receive(self) -> int:
        """Wait for answers, and return how many came."""


class Daemon:
    """A crabtalkd with one agent, and one connection to it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.process = subprocess.Popen(
            [sys.executable, "-m", "crabtalk", "up"],
            env={**os.environ, "CRABTALK_HOME": str(home)},
            stderr=subprocess.DEVNULL,
        )
        self.path = home / "run" / "crabtalk.sock"
        agent = self._prepare()
        self.stream = self.connect()
        self.agent = agent
        self.last = 0
        self.rest = b""

    def _prepare(self) -> str:
        """Wait until it serves, give it the image, and make the agent."""
        until = time.monotonic() + START_S
        while not self.path.exists():
            if time.monotonic() > until or self.process.poll() is not None:
                raise RuntimeError("the daemon did not start")
            time.sleep(0.01)
        elf = IMAGE.read_bytes()
        with SyncClient.connect(self.home) as client:
            client.put_harness(name="echo", elf=elf, sha256=hashlib.sha256(elf).hexdigest())
            declared = {"description": "", "harnesses": [{"name": "echo"}]}
            return client.create_agent(name="bench", config=json.dumps(declared)).id

    def connect(self) -> socket.socket:
        """Open one more connection."""
        stream = socket.socket(socket.AF_UNIX)
        stream.connect(str(self.path))
        return stream

    def send(self, count: int) -> None:
        """Ask for `count` more calls in one write."""
        frames = []
        for _ in range(count):
            self.last += 1
            args = json.dumps({"text": TEXT}).encode()
            call = pb.CallToolMsg(agent=self.agent, harness="echo", tool="echo", args=args)
            raw = pb.ClientMessage(request_id=self.last, call_tool=call).SerializeToString()
            frames.append(struct.pack(">I", len(raw)) + raw)
        self.stream.sendall(b"".join(frames))

    def receive(self) -> int:
        """Read what there is, and count the replies in it."""
        self.rest += self.stream.recv(1 << 16)
        count = 0
        while len(self.rest) >= 4 and len(self.rest) >= 4 + (size := int.from_bytes(self.rest[:4])):
            reply = pb.ServerMessage.FromString(self.rest[4 : 4 + size])
            if reply.tool_outcome.done != TEXT.encode():
                raise RuntimeError(f"an answer is wrong: {reply}")
            self.rest = self.rest[4 + size :]
            count += 1
        return count

    def close(self) -> None:
        """Stop it."""
        self.stream.close()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(START_S)


class McpServer:
    """The SDK's server in a process, spoken to over its pipes."""

    def __init__(self, directory: Path) -> None:
        script = directory / "server.py"
        script.write_text(MCP_SERVER)
        self.process = subprocess.Popen(
            [sys.executable, str(script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.input, self.output = self.process.stdin, self.process.stdout.fileno()
        self.last = 0
        self.rest = b""
        about = {"name": "bench", "version": "0"}
        self._write("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=about)
        while b"\n" not in self.rest:
            self.rest += os.read(self.output, 1 << 16)
        self.rest = b""
        self.input.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        self.input.flush()

    def _write(self, method: str, **params: object) -> None:
        self.last += 1
        message = {"jsonrpc": "2.0", "id": self.last, "method": method, "params": params}
        self.input.write(json.dumps(message).encode() + b"\n")
        self.input.flush()

    def send(self, count: int) -> None:
        """Ask for `count` more calls."""
        for _ in range(count):
            self._write("tools/call", name="echo", arguments={"text": TEXT})

    def receive(self) -> int:
        """Read what there is, and count the replies in it."""
        self.rest += os.read(self.output, 1 << 16)
        *lines, self.rest = self.rest.split(b"\n")
        for line in lines:
            if json.loads(line)["result"]["content"][0]["text"] != TEXT:
                raise RuntimeError(f"an answer is wrong: {line!r}")
        return len(lines)

    def close(self) -> None:
        """Stop it."""
        self.input.close()
        self.process.terminate()
        self.process.wait(START_S)


def rate(peer: Peer, in_flight: int, calls: int) -> float:
    """Keep `in_flight` calls going until `calls` were answered; return calls a second."""
    start = time.perf_counter()
    peer.send(in_flight)
    asked = in_flight
    answered = 0
    while answered < calls:
        came = peer.receive()
        answered += came
        more = min(came, calls - asked)
        if more:
            peer.send(more)
            asked += more
    return calls / (time.perf_counter() - start)


def latencies(peer: Peer, calls: int) -> list[int]:
    """Time single calls, one after the other; nanoseconds, sorted."""
    times = []
    for _ in range(calls):
        start = time.perf_counter_ns()
        peer.send(1)
        while not peer.receive():
            pass
        times.append(time.perf_counter_ns() - start)
    return sorted(times)


@contextlib.contextmanager
def crowd(daemon: Daemon, size: int) -> Iterator[None]:
    """Hold `size` idle connections."""
    with contextlib.ExitStack() as stack:
        for _ in range(size):
            stack.enter_context(contextlib.closing(daemon.connect()))
        time.sleep(0.5)
        yield


@contextlib.contextmanager
def servers(report: Report) -> Iterator[dict[str, Daemon | McpServer]]:
    """Start the daemon, and the SDK's server where the SDK is installed."""
    directory = Path(tempfile.mkdtemp(prefix="ctb-", dir="/tmp"))  # a socket's path must be short
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, directory)
        daemon = Daemon(directory)
        stack.callback(daemon.close)
        found: dict[str, Daemon | McpServer] = {"crabtalk": daemon}
        if installed("mcp"):
            peer = McpServer(directory)
            stack.callback(peer.close)
            found["mcp"] = peer
        else:
            report.notes.append("not installed, so not measured: mcp")
        yield found


def median(values: list[float]) -> float:
    """Return the middle one."""
    return sorted(values)[len(values) // 2]


def measure(*, quick: bool) -> Report:
    """Compare calls a second, alone and with others in flight, and look at a crowd of idle clients."""
    rounds, ours, theirs = (1, 200, 50) if quick else (5, 5000, 500)
    report = Report(
        "What does a tool call through the socket cost?",
        f"echo of {len(TEXT)} characters; median of {rounds} rounds of {ours} calls (mcp: {theirs}), in turn",
    )
    with servers(report) as found:
        counts = {"crabtalk": ours, "mcp": theirs}
        rates: dict[tuple[str, int], list[float]] = {}
        for _ in range(rounds):
            for name, peer in found.items():
                for in_flight in (1, IN_FLIGHT):
                    done = rate(peer, in_flight, counts[name])
                    rates.setdefault((name, in_flight), []).append(done)
        middle = {which: median(values) for which, values in rates.items()}
        for (name, in_flight), value in middle.items():
            report.figure(f"{name}, {in_flight} in flight", value, "calls/s")
        if "mcp" in found:
            report.ratio("crabtalk / mcp, one client", middle["crabtalk", 1] / middle["mcp", 1], 5)
            many = middle["crabtalk", IN_FLIGHT] / middle["mcp", IN_FLIGHT]
            report.ratio(f"crabtalk / mcp, {IN_FLIGHT} in flight", many, 20)
        add_crowd(report, found["crabtalk"], quick=quick)
    return report


def add_crowd(report: Report, daemon: Daemon | McpServer, *, quick: bool) -> None:
    """Measure a client's latency alone and beside idle ones."""
    assert isinstance(daemon, Daemon)
    calls, size = (100, 50) if quick else (5000, IDLE - 10)
    alone = latencies(daemon, calls)
    with crowd(daemon, size):
        crowded = latencies(daemon, calls)
    report.figure("latency, p50", percentile(alone, 50) / 1000, "us")
    report.figure("latency, p99", percentile(alone, 99) / 1000, "us")
    report.figure(f"beside {size} idle clients, p99", percentile(crowded, 99) / 1000, "us")
    report.ratio("p99 beside idle clients / alone", percentile(crowded, 99) / percentile(alone, 99))


if __name__ == "__main__":
    main(measure, __doc__)
