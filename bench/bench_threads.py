"""Ask whether two threads do twice the work of one.

Each thread has a machine of its own and runs the same kernels. One round times one thread alone and then two
together; the ratio is the work done per second. It cannot reach 2 on a machine without two free cores.
"""

from __future__ import annotations

import os
import statistics
import threading

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


def measure(*, quick: bool) -> Report:
    """Compare one thread with two."""
    target_s, rounds = (0.01, 2) if quick else (0.15, 9)
    names = kernels("quoted")
    sets = [[Rvcore(name) for name in names] for _ in range(2)]
    counts = calibrate(sets[0], target_s)
    ratios, alone, together = [], [], []
    for _ in range(rounds):
        alone.append(seconds(lambda: run_together(sets[:1], counts)))
        together.append(seconds(lambda: run_together(sets, counts)))
        ratios.append(2 * alone[-1] / together[-1])
    report = Report(
        "Do two threads do twice the work of one?",
        f"{len(names)} kernels a thread, about {target_s * len(names):.2g} s; median of {rounds} rounds",
    )
    report.figure("one thread", statistics.median(alone), "s")
    report.figure("two threads, twice the work", statistics.median(together), "s")
    report.ratio("work per second, two threads / one", statistics.median(ratios), 1.9)
    if len(os.sched_getaffinity(0)) < 2:
        report.notes.append("this process may use one CPU only")
    return report


if __name__ == "__main__":
    main(measure, __doc__)
