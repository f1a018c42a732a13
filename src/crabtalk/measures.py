"""What of the parts is shown as metrics: names and where the values come from."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from crabtalk.runtime import Runtime


def measure(runtime: "Runtime") -> None:
    """Have the parts asked at each scrape."""
    metrics = runtime.metrics
    metrics.gauges(lambda: _executor(runtime), "guests of the executor")
    metrics.counters(lambda: _executor_counts(runtime), "work of the executor")
    metrics.gauges(lambda: _images(runtime), "linked images and memory for guests")
    metrics.gauges(lambda: _wakes(runtime), "wakes")
    metrics.counters(lambda: _wake_counts(runtime), "wakes")
    metrics.gauges(lambda: _bus(runtime), "events")
    metrics.counters(lambda: _bus_counts(runtime), "events")
    metrics.gauges(lambda: {"agents": len(runtime.agents.all())}, "declared agents")
    metrics.gauges(
        lambda: {"store_trouble": runtime.store.trouble() is not None}, "1 while nothing can be written"
    )
    metrics.gauges(lambda: {"turns": len(runtime.conversations.turns())}, "turns that have not ended")


def _executor(runtime: "Runtime") -> Mapping[str, float]:
    counted = runtime.executor.statistics()
    queue = counted.queue
    return {
        "queue_depth": queue.queued,
        "running": queue.running,
        "suspended": queue.suspended,
        "suspended_bytes": queue.suspended_bytes,
        "computing": counted.computing,
        "waiting_to_compute": counted.waiting_to_compute,
        "blocking": counted.blocking,
    }


def _executor_counts(runtime: "Runtime") -> Mapping[str, float]:
    counted = runtime.executor.statistics()
    return {"started": counted.started, "refused": counted.refused}


def _images(runtime: "Runtime") -> Mapping[str, float]:
    counted = runtime.images.statistics()
    return {
        "images_linked": counted.linked,
        "images_bytes": counted.bytes,
        "arenas_live": counted.arenas_live,
        "arenas_free": counted.arenas_free,
    }


def _wakes(runtime: "Runtime") -> Mapping[str, float]:
    loop = runtime.loop.statistics()
    return {
        "wakes_stored": runtime.wakes.statistics().stored,
        "wakes_running": loop.running,
        "wakes_spilled": loop.spilled,
        "wakes_blocked": loop.blocked,
    }


def _wake_counts(runtime: "Runtime") -> Mapping[str, float]:
    loop = runtime.loop.statistics()
    return {
        "wakes_started": loop.started,
        "wakes_late": loop.late,
        "wakes_missed": loop.missed,
        "clock_steps": loop.clock_steps,
    }


def _bus(runtime: "Runtime") -> Mapping[str, float]:
    counted = runtime.bus.statistics()
    return {"subscriptions": counted.subscriptions, "events_waiting": counted.waiting}


def _bus_counts(runtime: "Runtime") -> Mapping[str, float]:
    counted = runtime.bus.statistics()
    return {
        "events_published": counted.published,
        "events_delivered": counted.delivered,
        "events_missed": counted.missed,
        "events_lost": counted.lost,
        "events_dropped": counted.dropped,
    }
