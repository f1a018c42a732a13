"""What the daemon counts, in the text that Prometheus reads.

Counting is a dictionary and an addition on the loop's thread, since it happens on the way of every call; the
families of prometheus-client are made when somebody asks. Gauges are not kept here: `sources` are asked at
each scrape. Serving the text is `metrics_server`.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    GCCollector,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
# A call that ends in its first slice takes tens of µs, a deadline is an hour at most.
_BUCKETS_S: Final = (
    5e-5,
    1e-4,
    2.5e-4,
    5e-4,
    1e-3,
    2.5e-3,
    0.01,
    0.05,
    0.25,
    1.0,
    5.0,
    30.0,
    120.0,
    900.0,
    3600.0,
)

# Asked at each scrape: name without prefix → value, or value of a label → count.
Source = Callable[[], Mapping[str, float]]


class Histogram:
    """Durations by bucket."""

    __slots__ = ("counts", "total_s")

    def __init__(self) -> None:
        self.counts = [0] * (len(_BUCKETS_S) + 1)
        self.total_s = 0.0

    def count(self, seconds: float) -> None:
        """Count one duration."""
        self.counts[bisect_left(_BUCKETS_S, seconds)] += 1
        self.total_s += seconds

    def cumulative(self) -> list[tuple[str, float]]:
        """Return (upper bound, how many are not above it), as Prometheus wants them."""
        bounds = [*(f"{bound:g}" for bound in _BUCKETS_S), "+Inf"]
        rising = 0
        found = []
        for bound, count in zip(bounds, self.counts, strict=True):
            rising += count
            found.append((bound, float(rising)))
        return found


class Metrics:
    """All counts of one daemon; only its loop's thread counts."""

    def __init__(self, version: str) -> None:
        """Start at zero."""
        self.invocations: Counter[tuple[str, str]] = Counter()  # by trigger and outcome
        self.durations: defaultdict[str, Histogram] = defaultdict(Histogram)  # by trigger
        self.waits: defaultdict[str, Histogram] = defaultdict(Histogram)  # likewise
        self.instructions = 0
        self._version = version
        self._gauges: list[tuple[Source, str]] = []
        self._counters: list[tuple[Source, str]] = []
        self._labelled: list[tuple[str, str, Source, str]] = []
        self._registry = CollectorRegistry(auto_describe=False)
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        GCCollector(registry=self._registry)
        self._registry.register(self)

    def count_outcome(self, trigger: str, outcome: str, duration_us: int, instructions: int) -> None:
        """Count one invocation that ended."""
        self.invocations[trigger, outcome] += 1
        durations = self.durations[trigger]
        seconds = duration_us / 1e6
        durations.counts[bisect_left(_BUCKETS_S, seconds)] += 1
        durations.total_s += seconds
        self.instructions += instructions

    def count_wait(self, trigger: str, seconds: float) -> None:
        """Count one invocation that had to wait before it began."""
        self.waits[trigger].count(seconds)

    def gauges(self, source: Source, text: str) -> None:
        """Ask `source` at each scrape for values that rise and fall."""
        self._gauges.append((source, text))

    def counters(self, source: Source, text: str) -> None:
        """Ask `source` at each scrape for values that only grow, named without `_total`."""
        self._counters.append((source, text))

    def labelled(self, name: str, label: str, source: Source, text: str) -> None:
        """Ask `source` at each scrape for counts by the value of a label."""
        self._labelled.append((name, label, source, text))

    def text(self) -> bytes:
        """Return everything, as Prometheus reads it."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """Yield one family after another; called by `generate_latest`."""
        build = GaugeMetricFamily("crabtalk_build_info", "which daemon this is", labels=["version"])
        build.add_metric([self._version], 1)
        yield build
        yield self._outcomes()
        yield _histogram("invocation_seconds", "from when it began to when it ended", self.durations)
        yield _histogram(
            "queue_wait_seconds", "of those that could not begin at once, until they did", self.waits
        )
        yield CounterMetricFamily("crabtalk_instructions", "of guests that ended", value=self.instructions)
        for name, label, source, text in self._labelled:
            family = CounterMetricFamily(f"crabtalk_{name}", text, labels=[label])
            for value, count in sorted(source().items()):
                family.add_metric([value], count)
            yield family
        yield from _families(GaugeMetricFamily, self._gauges)
        yield from _families(CounterMetricFamily, self._counters)

    def _outcomes(self) -> Metric:
        family = CounterMetricFamily(
            "crabtalk_invocations", "that ended, by what started them and how", labels=["trigger", "outcome"]
        )
        for (trigger, outcome), count in sorted(self.invocations.items()):
            family.add_metric([trigger, outcome], count)
        return family


def _histogram(name: str, text: str, by_trigger: Mapping[str, Histogram]) -> Metric:
    family = HistogramMetricFamily(f"crabtalk_{name}", text, labels=["trigger"])
    for trigger, histogram in sorted(by_trigger.items()):
        family.add_metric([trigger], histogram.cumulative(), histogram.total_s)
    return family


def _families(
    kind: type[GaugeMetricFamily] | type[CounterMetricFamily], sources: Iterable[tuple[Source, str]]
) -> Iterator[Metric]:
    for source, text in sources:
        for name, value in source().items():
            yield kind(f"crabtalk_{name}", text, value=value)
