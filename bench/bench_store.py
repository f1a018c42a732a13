"""Ask what the store costs whoever is in a hurry: a read on the loop, a row of the audit, a commit.

Reads and deferred rows are what a tool call pays, so they are in microseconds. A commit waits for the disk,
so it stands beside a bare write and fsync of the same disk, and tasks that commit at once share that wait.
"""

from __future__ import annotations

import os
import statistics
import tempfile
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import trio
from reporting import Report, main
from timing import in_turns, seconds

from crabtalk.store.engine import Write, put
from crabtalk.store.interfaces.audit import Audit, AuditRow
from crabtalk.store.sqlite import SqliteEngine

if TYPE_CHECKING:
    from collections.abc import Callable

STORED = 100_000
TASKS = 200
ROW = AuditRow(
    id="01JDXW4M6Y7Q8R9S0T1V2W3X4Y",
    trigger="tool",
    agent_id="01JDXW4M6Y7Q8R9S0T1V2W3X4Z",
    agent_name="me",
    harness="os",
    tool="read",
    digest="ab" * 32,
    started_ms=1_790_000_000_000,
    duration_us=31,
    instructions=1200,
    outcome="done",
    message="",
    depth=0,
    chain="01JDXW4M6Y7Q8R9S0T1V2W3X50",
    args_size=20,
    args_digest="cd" * 32,
    result_size=120,
    result_digest="ef" * 32,
    client="unix:1000",
)


def fill(engine: SqliteEngine, count: int) -> None:
    for start in range(0, count, 1000):
        engine.apply([put("wake", b"%08d" % n, b"v" * 200) for n in range(start, min(start + 1000, count))])


def repeat(work: Callable[[], object], count: int) -> Callable[[], None]:
    def all_of_them() -> None:
        for _ in range(count):
            work()

    return all_of_them


class Rows:
    """Defers rows as they come from tool calls: each with an id of its own."""

    def __init__(self, engine: SqliteEngine) -> None:
        self.engine = engine
        self.audit = Audit(engine)
        self.count = 0

    def make(self) -> list[Write]:
        """Return what stores the next row."""
        self.count += 1
        return self.audit.row(ROW._replace(id=f"01JDXW4M6Y{self.count:016}", started_ms=self.count))

    def defer(self) -> None:
        """Store the next row with the next commit."""
        self.engine.defer(self.make())


def write_and_sync(path: Path, count: int) -> float:
    """Return the median seconds of appending a page and waiting for it."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT)
    times = []
    for number in range(count):
        os.pwrite(handle, bytes(4096), number * 4096)
        times.append(seconds(partial(os.fdatasync, handle)))
    os.close(handle)
    return statistics.median(times)


def commit_together(engine: SqliteEngine, count: int) -> float:
    """Return the seconds until `count` tasks that commit at once have committed."""

    async def all_at_once() -> None:
        async with trio.open_nursery() as nursery:
            for number in range(count):
                nursery.start_soon(engine.commit, [put("kv", b"%d" % number, b"v")])

    start = perf_counter()
    trio.run(all_at_once)
    return perf_counter() - start


def add_calls(report: Report, engine: SqliteEngine, rounds: int, calls: int) -> None:
    """Time what runs on the loop, each while the writer rests."""
    rows = Rows(engine)
    found = in_turns(
        {
            "a value, by key": repeat(lambda: engine.get("wake", b"00001234"), calls),
            "the next 10 keys": repeat(lambda: engine.scan_keys("wake", limit=10), calls),
            "a row of the audit, made": repeat(rows.make, calls),
        },
        rounds,
    )
    found["a row of the audit, made and deferred"] = statistics.median(
        seconds_to_defer(rows, calls) for _ in range(rounds)
    )
    for name, took in found.items():
        report.figure(name, took / calls * 1e6, "us")
    report.ratio("a value, by key", found["a value, by key"] / calls * 1e6, 20, at_least=False, unit="us")


def seconds_to_defer(rows: Rows, count: int) -> float:
    """Return how long it takes to defer so many rows; that they are written then is not counted."""
    took = seconds(repeat(rows.defer, count))
    rows.engine.flush()
    return took


def add_commits(report: Report, engine: SqliteEngine, place: Path, count: int) -> None:
    """Time what waits for the disk."""
    bare = write_and_sync(place / "bare", count)
    alone = statistics.median(
        seconds(partial(engine.apply, [put("kv", b"%d" % number, b"v")])) for number in range(count)
    )
    together = commit_together(engine, TASKS)
    report.figure("a bare write and fsync", bare * 1e6, "us")
    report.figure("a commit, alone", alone * 1e6, "us")
    report.figure(f"{TASKS} commits at once", together * 1e6, "us")
    report.ratio(f"{TASKS} commits one by one / at once", TASKS * alone / together)


def measure(*, quick: bool) -> Report:
    """Fill a store and use it."""
    with tempfile.TemporaryDirectory() as folder, SqliteEngine(Path(folder) / "store.db") as engine:
        stored = STORED // 50 if quick else STORED
        row_bytes = len(Audit(engine).row(ROW)[0].value or b"")
        report = Report(
            "What does the store cost a tool call, and what does a commit?",
            f"{stored:,} entries of 200 bytes; rows of the audit of {row_bytes} bytes",
        )
        fill(engine, stored)
        add_calls(report, engine, rounds=3 if quick else 9, calls=100 if quick else 2000)
        add_commits(report, engine, Path(folder), count=10 if quick else 300)
        return report


if __name__ == "__main__":
    main(measure, __doc__)
