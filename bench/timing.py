"""Timing: candidates take turns in rounds, so that a drift of the machine meets all of them alike."""

from __future__ import annotations

import gc
import math
import statistics
from collections.abc import Callable, Iterable, Mapping
from time import perf_counter, perf_counter_ns

Work = Callable[[], object]


def seconds(work: Work) -> float:
    """Time one execution."""
    start = perf_counter()
    work()
    return perf_counter() - start


def in_turns(candidates: Mapping[str, Work], rounds: int) -> dict[str, float]:
    """Run each candidate once a round and return the median seconds of each."""
    times: dict[str, list[float]] = {name: [] for name in candidates}
    with _no_collector():
        for _ in range(rounds):
            for name, work in candidates.items():
                times[name].append(seconds(work))
    return {name: statistics.median(found) for name, found in times.items()}


def calls_in_turns(candidates: Mapping[str, tuple[Work, int]], rounds: int) -> dict[str, list[int]]:
    """Time single calls, `count` of each candidate a round; return all nanoseconds, sorted."""
    times: dict[str, list[int]] = {name: [] for name in candidates}
    with _no_collector():
        for _ in range(rounds):
            for name, (work, count) in candidates.items():
                times[name] += _call_times(work, count)
    return {name: sorted(found) for name, found in times.items()}


def _call_times(work: Work, count: int) -> list[int]:
    work()  # what the candidate before left in the caches is not this one's fault
    out = []
    for _ in range(count):
        start = perf_counter_ns()
        work()
        out.append(perf_counter_ns() - start)
    return out


class _no_collector:  # noqa: N801  # reads as a function
    def __enter__(self) -> None:
        gc.collect()
        gc.disable()

    def __exit__(self, *_: object) -> None:
        gc.enable()


def percentile(ordered: list[int], percent: float) -> float:
    """Return the value that `percent` of a sorted list do not exceed.

    Raises:
        ValueError: the list is empty.
    """
    if not ordered:
        raise ValueError("no measurements")
    return ordered[min(len(ordered) - 1, math.ceil(len(ordered) * percent / 100) - 1)]


def geometric_mean(values: Iterable[float]) -> float:
    """Return the geometric mean."""
    return statistics.geometric_mean(values)
