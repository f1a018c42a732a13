"""Ask whether two threads do twice the work of one.

Each thread has a machine of its own and runs the same kernels. One round times one thread alone and then two
together; the ratio is the work done per second. It cannot reach 2 on a machine without two free cores.
"""

from __future__ import annotations

import multiprocessing
import os
import statistics
import threading
from contextlib import ExitStack
from multiprocessing.connection import Connection

from build_guests import kernels
from engines import Rvcore
from reporting import Report, main
from timing import seconds


def calibrate(machines: list[Rvcore], target_s: float) -> list[int]:
    """Find a count for each kernel that takes about `target_s` each."""
    counts = []
    for machine in machines:
        n = 2
        while (took := seconds(lambda m=machine, n=n: m.call(n))) < target_s / 4:  # type: ignore[misc]
            n *= 2
        counts.append(max(1, round(n * target_s / took)))
    return counts


def run(machines: list[Rvcore], counts: list[int]) -> None:
    """Run every kernel once."""
    for machine, n in zip(machines, counts, strict=True):
        machine.call(n)


def run_together(sets: list[list[Rvcore]], counts: list[int]) -> None:
    """Run every kernel once in each of several threads, from a common start."""
    barrier = threading.Barrier(len(sets))

    def work(machines: list[Rvcore]) -> None:
        barrier.wait()
        run(machines, counts)

    threads = [threading.Thread(target=work, args=(machines,)) for machines in sets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def serve_rounds(counts: list[int], begin: Connection, done: Connection) -> None:
    """Be a process: run every kernel once each time the parent says so, until it hangs up."""
    machines = [Rvcore(name) for name in kernels("quoted")]
    run(machines, [1] * len(machines))
    done.send(None)
    while begin.recv():
        run(machines, counts)
        done.send(None)


class Processes:
    """Two processes with machines of their own."""

    def __init__(self, counts: list[int], stack: ExitStack) -> None:
        context = multiprocessing.get_context("spawn")
        self.ends = []
        for _ in range(2):
            (their_begin, begin), (done, their_done) = context.Pipe(duplex=False), context.Pipe(duplex=False)
            process = context.Process(target=serve_rounds, args=(counts, their_begin, their_done))
            process.start()
            stack.callback(process.join)
            stack.callback(begin.send, False)  # noqa: FBT003 - the answer to "another round?"
            self.ends.append((begin, done))
        for _, done in self.ends:
            done.recv()

    def run(self) -> None:
        """Run every kernel once in both."""
        for begin, _ in self.ends:
            begin.send(True)  # noqa: FBT003 - as above
        for _, done in self.ends:
            done.recv()


def measure(*, quick: bool) -> Report:
    """Compare one thread with two."""
    target_s, rounds = (0.01, 2) if quick else (0.15, 9)
    names = kernels("quoted")
    sets = [[Rvcore(name) for name in names] for _ in range(2)]
    counts = calibrate(sets[0], target_s)
    ratios, ceilings, alone, together = [], [], [], []
    with ExitStack() as stack:
        processes = Processes(counts, stack)
        for _ in range(rounds):
            alone.append(seconds(lambda: run_together(sets[:1], counts)))
            together.append(seconds(lambda: run_together(sets, counts)))
            ratios.append(2 * alone[-1] / together[-1])
            ceilings.append(2 * alone[-1] / seconds(processes.run))
    report = Report(
        "Do two threads do twice the work of one?",
        f"{len(names)} kernels a thread, about {target_s * len(names):.2g} s; median of {rounds} rounds",
    )
    report.figure("one thread", statistics.median(alone), "s")
    report.figure("two threads, twice the work", statistics.median(together), "s")
    report.ratio("work per second, two threads / one", statistics.median(ratios), 1.9)
    report.ratio("what the machine allows: two processes / one thread", statistics.median(ceilings))
    if len(os.sched_getaffinity(0)) < 2:
        report.notes.append("this process may use one CPU only")
    return report


if __name__ == "__main__":
    main(measure, __doc__)
