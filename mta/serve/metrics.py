"""Metrics for Prometheus: counts of requests, and the state of the published windows.

If there are several workers, each writes its counts into files in the folder
``PROMETHEUS_MULTIPROC_DIR``, and any of them can report the sums.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

#: The variable with the folder of several workers, which prometheus_client reads.
FOLDER = "PROMETHEUS_MULTIPROC_DIR"
_BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0, 5.0)
GAUGES = {
    "batch": "The number of the committed batch that is served",
    "lag_seconds": "Seconds since the served batch was committed",
    "read_age_seconds": "Seconds since the store was last checked for a newer snapshot",
    "cached_bytes": "Bytes of pages in memory",
    "keys": "Number of keys of the served windows",
    "events": "Number of events accepted since the beginning",
    "waiting_events": "Number of events that wait for a commit in this process",
    "own_shards": "Number of shards that this process owns",
}
Numbers = Callable[[], Mapping[str, float]]


class Metrics:
    """The metrics of a worker.

    ``gauges`` and ``more`` return values of the gauges in ``GAUGES``, and ``counts`` how many
    events had which outcome in this process.
    """

    def __init__(
        self, gauges: Numbers, more: Numbers | None = None, counts: Numbers | None = None
    ) -> None:
        registry = CollectorRegistry()
        self._requests = Counter(
            "mta_serve_requests", "Requests by path and status", ["path", "status"],
            registry=registry,
        )  # fmt: skip
        self._seconds = Histogram(
            "mta_serve_request_seconds", "Seconds from a request to its answer", ["path"],
            buckets=_BUCKETS, registry=registry,
        )  # fmt: skip
        #: The counters of each path and status, of which there are only a few.
        self._request_of = lru_cache(256)(self._requests.labels)
        self._seconds_of = lru_cache(64)(self._seconds.labels)
        self._keys = Counter(
            "mta_serve_requested_keys", "Number of requested keys", registry=registry
        )
        if FOLDER in os.environ:
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        registry.register(_Windows([each for each in (gauges, more) if each], counts))
        self._registry = registry

    def count(self, path: str, status: int, seconds: float) -> None:
        """Count a request that was answered; ``path`` is the path of its route."""
        self._request_of(path, status).inc()
        self._seconds_of(path).observe(seconds)

    def count_keys(self, keys: int) -> None:
        self._keys.inc(keys)

    def text(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        return generate_latest(self._registry)


class _Windows(Collector):
    def __init__(self, gauges: Sequence[Numbers], counts: Numbers | None) -> None:
        self._gauges, self._counts = gauges, counts

    def collect(self) -> Iterable[Metric]:
        for gauges in self._gauges:
            for name, value in gauges().items():
                yield GaugeMetricFamily(f"mta_serve_{name}", GAUGES[name], value)
        if self._counts is not None:
            found = CounterMetricFamily(
                "mta_serve_outcomes", "Events by outcome, in this process", labels=["outcome"]
            )
            for outcome, value in self._counts().items():
                found.add_metric([outcome], value)
            yield found
