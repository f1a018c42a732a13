"""A reply follows the fsync of what it acknowledges: seen from outside, by strace.

For each request the trace must show, in this order: the request arrives, its words are written into the
store's log, that file is synced without an error, the reply is sent.
"""

import contextlib
import random
import re
import shutil
import subprocess
from typing import NamedTuple

import pytest

from daemons import running_daemon
from guest_images import image
from proving import HARNESS, HOUR_MS, call, declare, now_ms, put, until

STORED = ("schedule_wake", "put_harness", "subscribe", "kv_set", "publish", "create_agent", "session")
RECEIVES = {"recvfrom", "recvmsg", "read"}
SENDS = {"sendto", "sendmsg", "write", "writev"}
WRITES = {"pwrite64", "pwritev", "write"}
SYNCS = {"fdatasync", "fsync"}
BEGUN = re.compile(r"(\d+) +(\w+)\((\d+)<([^>]*)>(.*)")
RESUMED = re.compile(r"(\d+) +<\.\.\. (\w+) resumed>(.*)")
RESULT = re.compile(r".*\) += (-?\d+)", re.DOTALL)


class Call(NamedTuple):
    """One system call; instants are line numbers."""

    name: str
    descriptor: int
    what: str  # the file or socket
    text: str
    result: int
    begin: int
    end: int


class NotProven(Exception):  # noqa: N818 - what the trace says
    """The trace does not show the order that it should."""


def read_trace(lines):
    """Return the calls of a trace by `strace -f -y`, as they began; those that never ended are left out."""
    calls, waiting = [], {}
    for number, line in enumerate(lines):
        if begun := BEGUN.match(line):
            thread, name, descriptor, what, text = begun.groups()
            if text.endswith("<unfinished ...>"):
                waiting[thread] = Call(name, int(descriptor), what, text, 0, number, number)
            elif result := RESULT.match(text):
                calls.append(Call(name, int(descriptor), what, text, int(result[1]), number, number))
        elif resumed := RESUMED.match(line):
            thread, _, text = resumed.groups()
            if (one := waiting.pop(thread, None)) and (result := RESULT.match(text)):
                calls.append(one._replace(text=one.text + text, result=int(result[1]), end=number))
    return sorted(calls, key=lambda one: one.begin)


def of_store(one):
    return one.what.endswith(("/store.db-wal", "/store.db"))


def prove(calls, marker):
    """Check that what contains the marker was on the disk before its request was answered.

    Returns the bytes that were written for it.
    """
    received = next((c for c in calls if c.name in RECEIVES and marker in c.text), None)
    if received is None:
        raise NotProven("the request never arrived")
    reply = next(
        (
            c
            for c in calls
            if c.name in SENDS and c.descriptor == received.descriptor and c.begin > received.end
        ),
        None,
    )
    if reply is None:
        raise NotProven("it was never answered")
    written = [
        c
        for c in calls
        if c.name in WRITES and of_store(c) and marker in c.text and received.end < c.begin < reply.begin
    ]
    if not written:
        raise NotProven("it was answered before it was written")
    last = max(c.end for c in written)
    synced = [
        c
        for c in calls
        if c.name in SYNCS and c.what == written[-1].what and c.begin > last and c.end < reply.begin
    ]
    if not any(c.result == 0 for c in synced):
        raise NotProven("it was answered before it was synced")
    return sum(c.result for c in written)


def can_trace():
    """Say why the calls of a process cannot be seen here, None if they can."""
    if (strace := shutil.which("strace")) is None:
        return "strace is not installed"
    tried = subprocess.run(
        [strace, "-D", "-qq", "-o", "/dev/null", "true"], check=False, capture_output=True, text=True
    )
    return f"strace does not work: {tried.stderr}" if tried.returncode or tried.stderr else None


@contextlib.contextmanager
def traced_daemon(path):
    names = ",".join(sorted(RECEIVES | SENDS | WRITES | SYNCS))
    options = ["-D", "-f", "-y", "-q", "-s", "4200", "-e", f"trace={names}", "-e", "signal=none", "-o", path]
    with running_daemon(prefix=["strace", *map(str, options)]) as daemon:
        yield daemon


def marker():
    return f"m{random.getrandbits(64):016x}"


@pytest.fixture(scope="module")
def traced(tmp_path_factory):
    """Run every kind of request once beside others; return the trace, and the marker of each kind."""
    if why := can_trace():
        pytest.skip(why)
    path = tmp_path_factory.mktemp("trace") / "trace"
    markers = {kind: marker() for kind in (*STORED, "say")}
    with traced_daemon(path) as daemon:
        with daemon.client() as client:
            ask(client, markers)
        assert daemon.stop() == 0
    # strace ends after what it traces; it fills pids up to five columns.
    ended = re.compile(rf"^{daemon.process.pid} +\+\+\+ exited with 0", re.MULTILINE)
    until(lambda: ended.search(path.read_text()), timeout_s=30)
    return read_trace(path.read_text().splitlines()), markers


def ask(client, markers):
    agent = declare(client)
    target = f"{agent}/{HARNESS}"
    client.subscribe_event(source="load:news", target_harness=target)
    client.schedule_wake(agent=agent, harness=HARNESS, at_ms=now_ms() + HOUR_MS, key=markers["schedule_wake"])
    put(client, markers["put_harness"], image("ledger") + b"another")
    client.subscribe_event(source=f"proof:{markers['subscribe']}", target_harness=target)
    call(client, agent, "keep", key="key", value=markers["kv_set"])
    client.publish_event(source="load:news", payload=markers["publish"])
    client.create_agent(name=markers["create_agent"], config="{}")
    client.create_session(session_handle=markers["session"], agent=agent)
    call(client, agent, "say", text=markers["say"])


@pytest.mark.parametrize("kind", STORED)
def test_a_reply_follows_the_sync_of_what_it_acknowledges(traced, kind):
    calls, markers = traced
    assert prove(calls, markers[kind]) >= 4096


def test_the_proof_notices_when_nothing_was_stored(traced):
    """A tool's words are stored nowhere."""
    calls, markers = traced
    with pytest.raises(NotProven, match="answered before it was written"):
        prove(calls, markers["say"])


def test_the_proof_notices_a_sync_that_is_missing_fails_or_comes_too_late(traced):
    calls, markers = traced
    for kind in ("schedule_wake", "put_harness", "subscribe", "kv_set"):
        without = [c for c in calls if c.name not in SYNCS]
        failing = [c._replace(result=-1) if c.name in SYNCS else c for c in calls]
        late = [c._replace(end=c.end + 10_000) if c.name in SYNCS else c for c in calls]
        another = [c._replace(what="/tmp/else") if c.name in SYNCS else c for c in calls]
        for wrong in (without, failing, late, another):
            with pytest.raises(NotProven, match="answered before it was synced"):
                prove(wrong, markers[kind])


def test_a_trace_is_read_with_calls_that_were_interrupted():
    lines = [
        '7 recvfrom(5<socket:[1]>, "\\0\\0ask", 65536, 0, NULL, NULL) = 5',
        '9 pwrite64(4</h/store.db-wal>, "ask", 4096, 32 <unfinished ...>',
        '8 sendto(6<socket:[2]>, "other", 5, 0, NULL, 0) = 5',
        "9 <... pwrite64 resumed>) = 4096",
        "9 fdatasync(4</h/store.db-wal> <unfinished ...>",
        "9 <... fdatasync resumed>) = 0",
        '7 sendto(5<socket:[1]>, "yes", 3, 0, NULL, 0) = 3',
    ]
    assert prove(read_trace(lines), "ask") == 4096
    lines[5], lines[6] = lines[6], lines[5]
    with pytest.raises(NotProven, match="answered before it was synced"):
        prove(read_trace(lines), "ask")
