"""Ask how fast a guest computes, against other engines on the same kernels.

Five kernels that no fused pair was chosen from. Each engine runs each kernel in turn, in rounds; a kernel's
figure is the median. Guest-equivalent MIPS are a kernel's RISC-V instructions by an engine's time for it.
Checksums must agree everywhere, and unicorn must count the instructions that we count.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from build_guests import kernels
from engines import KernelEngine, Rvcore, installed, kernel_engines, missing_note
from reporting import Report, main
from timing import geometric_mean, in_turns, seconds

PROMISES = {"pywasm3": 1.5, "unicorn": 1.5}


class DisagreementError(Exception):
    """Two engines computed different things: no figure of such a run means anything."""


def measure(*, quick: bool) -> Report:
    """Run all kernels on all engines.

    Raises:
        DisagreementError: checksums or instruction counts differ.
    """
    target_s, rounds = (0.02, 3) if quick else (0.4, 7)
    mips: dict[str, list[float]] = {name: [] for name in kernel_engines()}
    report = Report("How fast does a guest compute?", "")
    counts = []
    for kernel in kernels("quoted"):
        n, found = _measure_kernel(kernel, target_s, rounds)
        counts.append(f"{kernel.partition('/')[2]}({n})")
        for name, value in found.items():
            mips[name].append(value)
            report.figure(f"{kernel.partition('/')[2]}, {name}", value, "MIPS")
    report.workload = f"{', '.join(counts)}; median of {rounds} rounds, engines in turn"
    _compare(report, {name: geometric_mean(values) for name, values in mips.items()})
    return report


def _measure_kernel(kernel: str, target_s: float, rounds: int) -> tuple[int, dict[str, float]]:
    engines = {name: engine(kernel) for name, engine in kernel_engines().items()}
    ours = engines["rvcore"]
    assert isinstance(ours, Rvcore)
    n = _calibrate(ours, target_s)
    check(kernel, engines, ours, n)
    instructions = ours.instructions
    times = in_turns({name: partial(engine.call, n) for name, engine in engines.items()}, rounds)
    return n, {name: instructions / time / 1e6 for name, time in times.items()}


def _calibrate(engine: KernelEngine, target_s: float) -> int:
    """Find a count that keeps our machine busy for about `target_s`."""
    n = 2
    while seconds(partial(engine.call, n)) < target_s / 4:
        n *= 2
    return max(1, round(n * target_s / seconds(partial(engine.call, n))))


def check(kernel: str, engines: Mapping[str, KernelEngine], ours: Rvcore, n: int) -> None:
    """Compare checksums at `n`, and instruction counts with unicorn at a small count.

    Raises:
        DisagreementError: they differ.
    """
    sums = {name: engine.call(n) for name, engine in engines.items()}
    if len(set(sums.values())) != 1:
        raise DisagreementError(f"{kernel}({n}): checksums differ: {sums}")
    if installed("unicorn"):
        small = min(n, 3)
        counted = _counted_by_unicorn(kernel, small)
        ours.call(small)
        if counted != ours.instructions:
            raise DisagreementError(f"{kernel}({small}): {ours.instructions}, unicorn counts {counted}")
        ours.call(n)


def _counted_by_unicorn(kernel: str, n: int) -> int:
    from build_guests import Target, build
    from unicorn_guest import InstructionCount, UnicornGuest

    guest = UnicornGuest(build(kernel, Target.RISCV))
    count = InstructionCount(guest)
    guest.call(n)
    return count.instructions


def _compare(report: Report, means: dict[str, float]) -> None:
    for name, value in means.items():
        report.figure(f"geometric mean, {name}", value, "MIPS")
    for name, value in means.items():
        if name == "rvcore":
            continue
        report.ratio(f"rvcore / {name}", means["rvcore"] / value, PROMISES.get(name))
    if (note := missing_note()) is not None:
        report.notes.append(note)


if __name__ == "__main__":
    main(measure, __doc__)
