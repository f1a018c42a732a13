"""What the proofs about the daemon share: an agent with the harness `ledger`, and questions to a daemon.

The guest notes each run of a wake and each event under `WHAT/ID/ATTEMPT/UNIX-MS`; see guests/ledger.c.
"""

import contextlib
import hashlib
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from crabtalk.errors import RequestError
from crabtalk.wire.framing import frame
from crabtalk.wire.pb import crabtalk_pb2 as pb
from guest_images import image

HARNESS = "ledger"
HOUR_MS = 3_600_000
PROGRAM = "import sys; from crabtalk.cli import main; sys.exit(main())"


def now_ms():
    return time.time_ns() // 1_000_000


def put(client, name, elf):
    return client.put_harness(name=name, elf=elf, sha256=hashlib.sha256(elf).hexdigest())


def declare(client, name="ann", **more):
    """Declare an agent with the harness and all that it asks for; return the agent's id."""
    put(client, HARNESS, image("ledger"))
    declared = {
        "name": HARNESS,
        "storage": "256MiB",
        "zone": "UTC",
        "schedule": 100_000,
        "topics": ["load:*"],
        "deadline": 600,
        **more,
    }
    return client.create_agent(name=name, config=json.dumps({"harnesses": [declared]})).id


def encoded(request_id=None, **request):
    """Return a request as its bytes on the wire."""
    return frame(pb.ClientMessage(request_id=request_id, **request).SerializeToString())


def tool_request(agent, tool, request_id=None, **args):
    arguments = json.dumps(args).encode()
    called = pb.CallToolMsg(agent=agent, harness=HARNESS, tool=tool, args=arguments)
    return encoded(request_id, call_tool=called)


def connect(home):
    """Return a bare connection to the daemon of a directory."""
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(2)
    sock.connect(str(home / "run/crabtalk.sock"))
    return sock


class ToolError(Exception):
    """A tool did not say `done`."""


def call(client, agent, tool, **args):
    """Call a tool of the harness and return its text."""
    outcome = client.call_tool(agent=agent, harness=HARNESS, tool=tool, args=json.dumps(args).encode())
    if outcome.WhichOneof("outcome") != "done":
        raise ToolError(str(outcome))
    return outcome.done.decode()


class Run(NamedTuple):
    """One time that a wake or an event began to run, as its guest saw it."""

    subject: str
    attempt: int
    at_ms: int


def runs(client, agent, what):
    """Return what the guest noted of wakes (`ran`) or events (`heard`), in order."""
    found = []
    for line in call(client, agent, "list", prefix=f"{what}/").splitlines():
        key, marks = line.split(" ")
        _, subject, attempt, at_ms = key.split("/")
        found += [Run(subject, int(attempt), int(at_ms))] * len(marks)
    return sorted(found, key=lambda run: run.at_ms)


def until(condition, timeout_s=60.0):
    """Wait for something to be so, and return it."""
    ends = time.monotonic() + timeout_s
    while not (found := condition()):
        assert time.monotonic() < ends, "it did not come to that"
        time.sleep(0.02)
    return found


def settle(client, timeout_s=120.0):
    """Wait until all that was due has run, and all that was published has arrived."""

    def quiet():
        due = [one for one in client.list_wakes().wakes if one.at_ms <= now_ms()]
        return not due and not client.list_running().invocations

    def still_quiet():
        return quiet() and (time.sleep(0.3) or quiet())

    until(still_quiet, timeout_s)


def crabtalk(home, *arguments):
    """Run the command, as a person would."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM, *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "CRABTALK_HOME": str(home.root)},
    )


def resident_bytes(daemon):
    pages = int(Path(f"/proc/{daemon.process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def percentile(values, percent):
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, len(ranked) * percent // 100)]


@contextlib.contextmanager
def refused(*codes):
    """Let the daemon refuse with one of these."""
    try:
        yield
    except RequestError as error:
        if error.code not in codes:
            raise
