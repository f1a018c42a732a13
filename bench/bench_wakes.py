"""Ask what a million pending wakes cost: to add, to cancel, to read at a start, to wait with, to fire among.

Everything is the daemon's own (store, executor, service, loop) over a store in a file, each acknowledgement
after its fsync; only the harness is a Python function, since what a guest costs is another question. The
second half runs in a process of its own, as after a restart. Linux only: it reads /proc.
"""

from __future__ import annotations

import json
import random
import resource
import subprocess
import sys
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import trio
from reporting import Report, main
from timing import percentile

BENCH = Path(__file__).resolve().parent
IN_FLIGHT = 256  # requests at once, as many connections may have
FILL = 2000  # wakes in one batch while filling up
YEAR_MS = 365 * 24 * 3600 * 1000
LATE_MS = 3_000  # what fires comes this far ahead: enough to schedule it all


class Clockwork:
    """An agent with one harness, which notes when it is woken; the seams that images stand behind."""

    def __init__(self, agent: Any) -> None:
        self.record = agent
        self.woken: list[tuple[int, float]] = []  # scheduled, and when it came: Unix ms

    def harnesses(self, _agent):
        """Name the one."""
        return ("clockwork",)

    def tools(self, _agent):
        """There are none."""
        return ()

    usage = tools

    async def call(self, _context, _tool, args):
        """Note the time; what `on_wake` is here."""
        from crabtalk.tools import Done

        self.woken.append((json.loads(args)["scheduled_at_ms"], _now_ms()))
        return Done(b"")

    async def on_declare(self, _agent):
        """Nothing is prepared."""

    on_forget = on_declare

    def agent(self, agent_id):
        """Return the agent."""
        return self.record if agent_id == self.record.id else None

    async def require_entry(self, _agent, _harness, _entry):
        """Agree: it has what is asked for."""

    require_ready = require_entry


def _now_ms() -> float:
    import time

    return time.time() * 1000


def _agent() -> Any:
    from crabtalk.store.interfaces.agents import AgentRecord

    return AgentRecord("01J00000000000000000000000", "bench", {}, 0, 0, 1)


class Middle:
    """The part of the daemon that wakes, over a store in a file."""

    def __init__(self, path: Path, boot: int) -> None:
        from crabtalk.clock import SystemClock
        from crabtalk.declarations import Bounds
        from crabtalk.events.bus import Bus
        from crabtalk.executor import Executor
        from crabtalk.scheduling.backlog import Pace
        from crabtalk.scheduling.loop import WakeLoop
        from crabtalk.scheduling.wakes import WakeService
        from crabtalk.store.opening import open_store
        from crabtalk.work import ExecutorLimits

        self.engine = open_store(path)
        self.clockwork = clockwork = Clockwork(_agent())
        clock = SystemClock()
        bounds = Bounds()
        executor = Executor(self.engine, clock, ExecutorLimits(), [clockwork], lambda *_: bounds)
        self.wakes = WakeService(self.engine, clock, clockwork, boot_id=f"boot-{boot}")
        self.bus = Bus(self.engine, clock, clockwork, executor)
        self.loop = WakeLoop(
            self.wakes, self.bus, executor, clockwork, self.engine, clock, boot_number=boot, pace=Pace()
        )

    @asynccontextmanager
    async def running(self):
        """Wake until the end of the block."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self.bus.serve)
            await nursery.start(self.loop.serve)
            yield
            nursery.cancel_scope.cancel()

    async def schedule(self, at_ms: float) -> str:
        """Add a wake, and return its id."""
        record = await self.wakes.schedule(self.clockwork.record.id, "clockwork", int(at_ms), b"payload")
        return record.id


async def in_flight(work, items) -> float:
    """Do `work` for all items, some at once; return seconds."""
    left = iter(items)

    async def worker():
        for item in left:
            await work(item)

    start = perf_counter()
    async with trio.open_nursery() as nursery:
        for _ in range(IN_FLIGHT):
            nursery.start_soon(worker)
    return perf_counter() - start


def instants(count: int, seed: int) -> list[int]:
    """Choose instants in the coming year, none in the first day."""
    choose = random.Random(seed)
    now = int(_now_ms())
    return [now + choose.randrange(YEAR_MS // 365, YEAR_MS) for _ in range(count)]


async def fill(middle: Middle, count: int) -> None:
    """Put wakes into the store in large batches, as nobody may from outside."""
    from crabtalk.ids import new_id
    from crabtalk.store.interfaces.wakes import WakeRecord, Wakes

    wakes, agent_id = Wakes(middle.engine), middle.clockwork.record.id
    at = instants(count, seed=1)
    for start in range(0, count, FILL):
        records = [
            WakeRecord(new_id(), agent_id, "clockwork", one // 1000 * 1000, b"payload")
            for one in at[start : start + FILL]
        ]
        await middle.engine.commit([write for record in records for write in wakes.insert(record)])


async def before_the_restart(report: Report, path: Path, count: int, sample: int) -> None:
    """Measure adding and cancelling, with few wakes and with all of them."""
    middle = Middle(path, 1)
    await middle.wakes.load()
    empty = await in_flight(middle.schedule, instants(sample, seed=2))
    await fill(middle, count - 2 * sample)
    await middle.wakes.load()
    ids: list[str] = []

    async def add(at_ms):
        ids.append(await middle.schedule(at_ms))

    full = await in_flight(add, instants(2 * sample, seed=3))
    cancelled = await in_flight(middle.wakes.cancel, ids[:sample])
    one = perf_counter()
    for at_ms in instants(50, seed=4):
        await middle.schedule(at_ms)
    alone = (perf_counter() - one) / 50
    report.figure(f"adds a second, {IN_FLIGHT} in flight", 2 * sample / full, "/s")
    report.figure("one add alone, its fsync included", alone * 1e3, "ms")
    report.figure(f"cancels a second, {IN_FLIGHT} in flight", sample / cancelled, "/s")
    report.ratio("time of an add, among all of them / among few", full / 2 / empty)
    middle.engine.close()


async def after_the_restart(path: Path, *, quick: bool) -> dict[str, float]:
    """Measure reading, waiting and firing; in a process of its own."""
    middle = Middle(path, 2)
    before = _resident_bytes()
    start = perf_counter()
    await middle.wakes.load()
    found = {"load_s": perf_counter() - start, "resident": _resident_bytes() - before}
    found["wakes"] = middle.wakes.statistics().stored
    async with middle.running():
        await trio.sleep(1)
        idle_s = 1 if quick else 60
        cpu = process_time()
        await trio.sleep(idle_s)
        found["idle_percent"] = (process_time() - cpu) / idle_s * 100
        seconds, each = (2, 5) if quick else (60, 20)
        base = int(_now_ms()) + LATE_MS
        due = [base + second * 1000 for second in range(seconds) for _ in range(each)]
        await in_flight(middle.schedule, due)
        with trio.fail_after(seconds + 30):
            while len(middle.clockwork.woken) < len(due):  # noqa: ASYNC110 - not to disturb what is measured
                await trio.sleep(0.1)
    late = sorted(int((came - at_ms) * 1000) for at_ms, came in middle.clockwork.woken)
    found |= {"p50_us": percentile(late, 50), "p99_us": percentile(late, 99), "worst_us": late[-1]}
    found |= {"earliest_us": late[0], "fired": len(late), "each": each}
    middle.engine.close()
    return found


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def restarted(path: str, quick: str) -> None:
    """Be the second process."""
    print(json.dumps(trio.run(lambda: after_the_restart(Path(path), quick=quick == "quick"))))


def measure(*, quick: bool) -> Report:
    """Fill a store, then start again over it."""
    count, sample = (3_000, 500) if quick else (1_000_000, 10_000)
    report = Report(
        "What do a million pending wakes cost?",
        f"{count} wakes of one harness over the coming year, SQLite with synchronous=FULL, then a restart",
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.db"
        trio.run(before_the_restart, report, path, count, sample)
        report.figure("the store's size", path.stat().st_size / 1e6, "MB")
        program = f"import bench_wakes, sys; bench_wakes.restarted({str(path)!r}, sys.argv[1])"
        done = subprocess.run(
            [sys.executable, "-c", program, "quick" if quick else "full"],
            cwd=BENCH,
            stdout=subprocess.PIPE,
            check=True,
            timeout=3600,
        )
        _second_half(report, json.loads(done.stdout))
    return report


def _second_half(report: Report, found: dict[str, float]) -> None:
    wakes = found["wakes"]
    report.figure("reading them at a start", found["load_s"], "s")
    report.figure("memory of a pending wake", found["resident"] / wakes, "bytes")
    report.figure("CPU while none is due", found["idle_percent"], "%")
    report.figure("late by, p50", found["p50_us"] / 1000, "ms")
    report.figure("late by, p99", found["p99_us"] / 1000, "ms")
    report.figure("late by, the worst", found["worst_us"] / 1000, "ms")
    if found["earliest_us"] < 0:
        raise RuntimeError(f"a wake came {-found['earliest_us']} µs too early")
    report.notes.append(
        f"{found['fired']:.0f} wakes fired, {found['each']:.0f} at the same instant each second: lateness is "
        "from that instant to the harness's first line, with the claim's fsync between"
    )
    report.notes.append("the store is in the temporary directory: set TMPDIR to measure another disk")


if __name__ == "__main__":
    main(measure, __doc__)
