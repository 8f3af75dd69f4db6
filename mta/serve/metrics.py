"""Counts of requests, and what the published windows are, for Prometheus.

With several workers each writes its counts into files of the folder that
``PROMETHEUS_MULTIPROC_DIR`` names, and any of them can report the sums.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

#: The folder of several workers, as prometheus_client reads it.
FOLDER = "PROMETHEUS_MULTIPROC_DIR"
_BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0, 5.0)
GAUGES = {
    "batch": "The committed batch that is served",
    "lag_seconds": "Seconds since the served batch was committed",
    "read_age_seconds": "Seconds since the store was last asked for a newer snapshot",
    "cached_bytes": "Bytes of pages in memory",
    "keys": "Keys of the served windows",
    "events": "Events accepted since the beginning",
}


class Metrics:
    """The metrics of a worker; ``gauges`` gives those of the windows by the names of ``GAUGES``."""

    def __init__(self, gauges: Callable[[], Mapping[str, float]]) -> None:
        registry = CollectorRegistry()
        self._requests = Counter(
            "mta_serve_requests", "Requests by path and status", ["path", "status"],
            registry=registry,
        )  # fmt: skip
        self._seconds = Histogram(
            "mta_serve_request_seconds", "Seconds from a request to its answer", ["path"],
            buckets=_BUCKETS, registry=registry,
        )  # fmt: skip
        #: What belongs to a path and a status, of which there are few.
        self._request_of = lru_cache(256)(self._requests.labels)
        self._seconds_of = lru_cache(64)(self._seconds.labels)
        self._keys = Counter(
            "mta_serve_requested_keys", "Keys that were asked for", registry=registry
        )
        if FOLDER in os.environ:
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        registry.register(_Windows(gauges))
        self._registry = registry

    def count(self, path: str, status: int, seconds: float) -> None:
        """Note a request that was answered; ``path`` is that of the route."""
        self._request_of(path, status).inc()
        self._seconds_of(path).observe(seconds)

    def count_keys(self, keys: int) -> None:
        """Note how many keys a request asks for."""
        self._keys.inc(keys)

    def text(self) -> bytes:
        """All metrics in the text format of Prometheus."""
        return generate_latest(self._registry)


class _Windows(Collector):
    def __init__(self, gauges: Callable[[], Mapping[str, float]]) -> None:
        self._gauges = gauges

    def describe(self) -> Iterable[Metric]:
        """Nothing is read before it is asked for."""
        return []

    def collect(self) -> Iterable[Metric]:
        for name, value in self._gauges().items():
            yield GaugeMetricFamily(f"mta_serve_{name}", GAUGES[name], value)
