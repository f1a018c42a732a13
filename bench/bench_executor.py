"""Ask what the executor adds to a call: acceptance, chain, queue, digests, audit row.

berm alone (`start`, `advance`) and the executor over a store's file take turns with the same image and bytes.
Then the same for a guest that waits for one capability, against berm's own driver, and for short calls of one
agent while guests of another one loop on every worker thread.
"""

from __future__ import annotations

import tempfile
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import trio
from build_guests import Target, build
from reporting import Report, main
from timing import percentile

import berm
import berm.aio
from crabtalk.clock import SystemClock
from crabtalk.declarations import Bounds
from crabtalk.executor import Executor
from crabtalk.invocation import drive_inline
from crabtalk.store.interfaces.agents import AgentRecord
from crabtalk.store.opening import open_store
from crabtalk.tools import Context, Done, Outcome, Trigger
from crabtalk.work import ExecutorLimits, Work

BLOB = b"".join(b"%04d " % i for i in range(52))[:256]
PROMISED_US = 25.0
Call = Callable[[], Awaitable[object] | object]


class Images:
    """One image behind the seam, without declarations: what is measured is the executor."""

    def __init__(self, harness: berm.Harness) -> None:
        self.harness = harness

    def harnesses(self, _agent: AgentRecord) -> tuple[str, ...]:
        """Return the one name."""
        return ("tools",)

    def call_inline(self, context: Context, tool: str, args: bytes) -> Outcome | Awaitable[Outcome]:
        """Run a tool as the daemon's own provider does."""
        limits = berm.Limits(deadline=context.deadline - trio.current_time())
        invocation = self.harness.start(
            tool, args, limits=limits, context=context, chain=context.chain.berm, depth=context.depth
        )
        ended = drive_inline(invocation, context)
        return Done(ended.data) if isinstance(ended, berm.Done) else self.finish(ended)

    async def finish(self, ended: Any) -> Outcome:
        """Wait for a guest that goes on."""
        return Done((await ended).data)

    async def call(self, context: Context, tool: str, args: bytes) -> Outcome:
        """Run a tool in a task."""
        outcome = self.call_inline(context, tool, args)
        return await outcome if isinstance(outcome, Awaitable) else outcome


async def now(_call: berm.Call, _request: bytes) -> bytes:
    """Answer the guest after one trip through the loop."""
    await trio.lowlevel.checkpoint()
    return b"0"


def plain_call(harness: berm.Harness) -> Call:
    """Make berm's own call: started, one slice, closed by its end."""
    limits = berm.Limits()
    return lambda: harness.start("echo", BLOB, limits=limits).advance(50_000)


def executor_call(executor: Executor, agent: AgentRecord, tool: str, args: bytes) -> Call:
    """Make the executor's call of the same tool."""

    def call() -> Awaitable[object] | object:
        work = Work(trigger=Trigger.TOOL, agent=agent, harness="tools", entry=tool, args=args, client="bench")
        return executor.start(work)

    return call


async def times_in_turns(candidates: dict[str, Call], rounds: int, count: int) -> dict[str, list[int]]:
    """Time single calls, `count` of each a round, with a pause in which the store writes its rows."""
    times: dict[str, list[int]] = {name: [] for name in candidates}
    for _ in range(rounds):
        for name, call in candidates.items():
            for _ in range(count):
                start = perf_counter_ns()
                ended = call()
                if isinstance(ended, Awaitable):
                    await ended
                times[name].append(perf_counter_ns() - start)
            await trio.sleep(0.01)
    return {name: sorted(found) for name, found in times.items()}


async def beside_loops(executor: Executor, call: Call, loop: Call, count: int) -> list[int]:
    """Time short calls while guests of another agent compute on every worker and stand in line for more."""
    found: list[int] = []
    async with trio.open_nursery() as nursery:
        for _ in range(4 * executor.threads.computing.threads):
            nursery.start_soon(partial(awaited, loop))
        while not executor.statistics().waiting_to_compute:  # noqa: ASYNC110 - a fact of threads
            await trio.sleep(0.001)
        for _ in range(count):
            start = perf_counter_ns()
            await awaited(call)
            found.append(perf_counter_ns() - start)
            await trio.sleep(0.001)
        nursery.cancel_scope.cancel()
    return sorted(found)


async def awaited(call: Call) -> None:
    ended = call()
    if isinstance(ended, Awaitable):
        await ended


async def measured(report: Report, *, quick: bool, store_file: Path) -> None:
    rounds, count = (3, 20) if quick else (100, 100)
    engine = berm.Engine(berm.Config())
    elf = build("calls/tools", Target.RISCV).read_bytes()
    harness = berm.Harness.load(engine, elf, [berm.Capability("berm.clock.now", now)])
    one, other = (AgentRecord(name, name, {}, 0, 0, 1) for name in ("one", "other"))
    store = open_store(store_file)
    limits = ExecutorLimits()
    bounds = Bounds(concurrency=1000, digest="0" * 64)
    executor = Executor(store, SystemClock(), limits, [Images(harness)], lambda _agent, _harness: bounds)
    async with executor.open():
        short = executor_call(executor, one, "echo", BLOB)
        wait = (0).to_bytes(8, "little")
        times = await times_in_turns(
            {
                "berm": plain_call(harness),
                "executor": short,
                "berm.aio, one wait": lambda: berm.aio.call(harness, "wait", wait, raw=True),
                "executor, one wait": executor_call(executor, one, "wait", wait),
            },
            rounds,
            count,
        )
        loop = executor_call(executor, other, "no_calls", (1 << 60).to_bytes(8, "little"))
        beside = await beside_loops(executor, short, loop, 20 if quick else 1000)
    store.close()
    shown(report, times, beside)


def shown(report: Report, times: dict[str, list[int]], beside: list[int]) -> None:
    us = {name: percentile(found, 50) / 1000 for name, found in times.items()}
    for name, found in times.items():
        report.figure(f"{name}, p50", us[name], "us")
        report.figure(f"{name}, p99", percentile(found, 99) / 1000, "us")
    report.ratio(
        "added to a call that ends at once, p50",
        us["executor"] - us["berm"],
        PROMISED_US,
        at_least=False,
        unit="us",
    )
    report.ratio(
        "a call that waits once, executor / berm.aio", us["executor, one wait"] / us["berm.aio, one wait"]
    )
    report.figure("short call beside loops on all workers, p50", percentile(beside, 50) / 1000, "us")
    report.figure("short call beside loops on all workers, p99", percentile(beside, 99) / 1000, "us")


def measure(*, quick: bool) -> Report:
    """Measure what the executor adds."""
    report = Report(
        question="What does the executor add to a call?",
        workload="echo of 256 bytes, an audit row each; one wait of a checkpoint; loops on every worker",
    )
    with tempfile.TemporaryDirectory() as directory:
        run = partial(measured, report, quick=quick, store_file=Path(directory) / "store.db")
        trio.run(run)
    return report


if __name__ == "__main__":
    main(measure, __doc__)
