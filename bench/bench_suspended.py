"""Ask how much memory a suspended invocation takes.

Many invocations of one image are started and left standing at a capability call, as guests do that wait for
the network. What this process then has more of, divided by their number, is set beside the pages that the
guest itself wrote (counted by the machine), the permission table's pages, and page tables; the rest is our
own book-keeping. Linux only: it reads /proc.
"""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

from build_guests import Target, build
from reporting import Report, main

PAGE = 4096
TOUCHED = 4
# One byte of the permission table stands for a page, so a page of it stands for 16 MiB.
TABLE_PAGE_COVERS = PAGE * PAGE


class Memory:
    """What this process holds: its own pages, and the page tables for them."""

    def __init__(self) -> None:
        gc.collect()
        rollup = Path("/proc/self/smaps_rollup").read_text().splitlines()
        status = Path("/proc/self/status").read_text().splitlines()
        self.private = _kilobytes(rollup, "Private_Dirty:") + _kilobytes(rollup, "Private_Clean:")
        self.tables = _kilobytes(status, "VmPTE:")


def _kilobytes(lines: list[str], name: str) -> int:
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) * 1024


def arguments() -> bytes:
    """Tell the guest how many pages to touch."""
    return TOUCHED.to_bytes(8, "little")


def touched_pages() -> set[int]:
    """Ask the bare machine which pages the guest has written when it stands at the capability call."""
    import rvcore
    from berm.fnv import call_number

    def args_read(caller: Any, address: int, room: int, *_: int) -> int:
        caller.write(address, arguments()[:room])
        return len(arguments())

    engine = rvcore.Engine()
    linker = rvcore.Linker(engine)
    linker.define_func(call_number("berm.args.read"), args_read)
    linker.define_deferred(call_number("berm.clock.now"))
    with rvcore.Store(engine) as store:
        module = rvcore.Module(engine, build("calls/tools", Target.RISCV).read_bytes())
        tool = linker.instantiate(store, module).exports(store)["berm_tool_wait"]
        if tool.start(store).run().reason is not rvcore.ExitReason.HOST_CALL:
            raise RuntimeError("the guest does not wait")
        return {page for start, stop in store.dirty_ranges() for page in range(start // PAGE, stop // PAGE)}


def table_pages(written: set[int], memory_size: int) -> int:
    """Count an arena's pages of permission table: for null page and image, guard, and what was written."""
    places = {0, memory_size - 1, *(page * PAGE for page in written)}
    return len({place // TABLE_PAGE_COVERS for place in places})


def suspend(harness: Any, count: int) -> list[Any]:
    """Start invocations and run each to its capability call."""
    waiting = []
    for _ in range(count):
        invocation = harness.start("wait", arguments())
        while invocation.advance() is None:
            pass
        waiting.append(invocation)
    return waiting


def measure(*, quick: bool) -> Report:
    """Suspend many invocations and look at what they hold."""
    import berm

    count = 200 if quick else 5000
    clock = berm.Capability("berm.clock.now", lambda _call, _request: b"0", blocking=True)
    engine = berm.Engine(berm.Config())
    harness = berm.Harness.load(engine, build("calls/tools", Target.RISCV).read_bytes(), [clock])
    first = suspend(harness, 10)  # what is made once is made now
    before = Memory()
    waiting = suspend(harness, count)
    after = Memory()
    report = Report(
        "How much memory does a suspended invocation take?",
        f"{count} invocations at a capability call, {engine.config.memory_size >> 20} MiB of memory each",
    )
    _explain(report, before, after, count, engine.config.memory_size)
    for invocation in [*first, *waiting]:
        invocation.close()
    return report


def _explain(report: Report, before: Memory, after: Memory, count: int, memory_size: int) -> None:
    written = touched_pages()
    private = (after.private - before.private) / count
    guest, table = len(written) * PAGE, table_pages(written, memory_size) * PAGE
    report.figure("all private memory", private, "bytes")
    report.figure(f"the guest's {len(written)} touched pages", guest, "bytes")
    report.figure("permission table", table, "bytes")
    report.figure("page tables (beside)", (after.tables - before.tables) / count, "bytes")
    report.ratio("ours", private - guest - table, PAGE, at_least=False, unit="bytes")


if __name__ == "__main__":
    main(measure, __doc__)
