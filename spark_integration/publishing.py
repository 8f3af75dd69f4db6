"""What the driver does after each batch: it publishes a query's windows, and reports its counts.

A task writes the snapshot of its bucket together with the pages (``mta.publishing.batches``). The
driver writes the head once Spark has committed the batch. Spark reports this by a
``QueryProgressEvent`` on one of its threads. If the driver dies before that, the event of the next
batch publishes both.

Each plan is published on a separate thread, so that a store that is down delays neither other
queries of the session nor Spark's events. When a query ends, it waits until its batches are
published, but not for a store that is down.

Spark reports a batch a moment after it has committed it, and a program may end before that. So the
batches that were not reported are published when the interpreter exits.
"""

from __future__ import annotations

import atexit
import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cache
from time import monotonic
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)
from pyspark.sql.streaming.query import StreamingQuery

from mta.publishing.batches import BatchPublisher
from mta.publishing.records import what_of
from spark_integration.plan import Plan
from spark_integration.runners.packing import METRICS
from spark_integration.runners.workers import store_of
from spark_integration.starting import on_start
from spark_integration.step.starts import PREFIX
from stores.address import without_credentials
from stores.errors import StoreUnavailable, WindowStoreError

_log = logging.getLogger(__name__)

#: How many seconds a query that ends waits until its batches are published.
AT_THE_END = 3.0


def publisher_of(plan: Plan) -> BatchPublisher:
    """Return the publisher of the head for the windows of a plan."""
    options = plan.options
    assert plan.part is not None
    what = replace(
        what_of("keys", plan.monoid, options.windows),
        keys=list(zip(options.keys, plan.key_types, strict=True)),
        on=(options.on, str(plan.schema.field(options.on).type)),
    )
    start = None if plan.start is None else PREFIX + plan.start.name
    return BatchPublisher(plan.part.name, what, plan.buckets, plan.part.retain, start)


def follow(spark: SparkSession, plan: Plan) -> None:
    """Publish each batch that a query of this plan commits, while the session exists.

    Raises PublishConflict if a service publishes under the name.
    """
    with suppress(StoreUnavailable), store_of(plan.store) as store:
        publisher_of(plan).head(store)
    _publish_at_exit()
    with _lock:
        listener = _listeners.get(spark)
        if listener is None:
            listener = _listeners[spark] = _Committed()
            spark.streams.addListener(listener)
    assert plan.part is not None
    listener.plans[plan.part.name, plan.store] = _Publishing(plan)


class _Publishing:
    """Publishes a plan's batches on a thread, which ends when there is nothing to publish."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        #: The newest unpublished batch of each query: its run, number and number of partitions.
        self._waiting: dict[str, tuple[str, int, int]] = {}
        #: The last batch of each run of a query that was published. Publishing it again would
        #: remove it, because its records are gone.
        self._published: dict[str, int] = {}
        self._publishes = threading.Lock()
        #: The queries of which batches have been published.
        self._queries: set[str] = set()
        self._is_down = False
        self._changed = threading.Condition()
        self._runs = False

    def committed(self, query: str, run: str, batch: int, partitions: int) -> None:
        """Publish a batch soon, together with earlier batches of its query that still wait."""
        with self._changed:
            self._waiting[query] = run, batch, partitions
            if not self._runs:
                self._runs = True
                threading.Thread(target=self._run, name="mta-publishing", daemon=True).start()

    def wait(self, query: str, seconds: float) -> None:
        """Wait until all batches are published, for at most ``seconds``.

        Do not wait if only other queries are known to publish here, or if the store is down.
        """
        if query in self._queries or not (self._queries or self._is_down):
            with self._changed:
                self._changed.wait_for(lambda: not self._runs, seconds)

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._waiting:
                    self._runs = False
                    self._changed.notify_all()
                    return
                query = next(iter(self._waiting))
                of_batch = self._waiting.pop(query)
            with self._publishes:
                self._publish_once(query, *of_batch)

    def publish_last(self, query: str, run: str, batch: int, partitions: int) -> None:
        """Publish the last batch of a query now, but do not wait for a store that is down."""
        if not self._is_down and self._publishes.acquire(timeout=AT_THE_END):
            try:
                self._publish_once(query, run, batch, partitions)
            finally:
                self._publishes.release()

    def _publish_once(self, query: str, run: str, batch: int, partitions: int) -> None:
        if batch > self._published.get(run, -1):
            try:
                self._publish(query, run, batch, partitions)
            except Exception:
                _log.exception("batch %d of query %s is not published", batch, query)

    def _publish(self, query: str, run: str, batch: int, partitions: int) -> None:
        plan = self._plan
        publisher = publisher_of(replace(plan, buckets=plan.buckets or partitions))
        try:
            with store_of(plan.store) as store:
                if publisher.committed(store, query, batch) is not None:
                    self._queries.add(query)
                    self._published[run] = batch
            self._is_down = False
        except WindowStoreError as error:
            self._is_down = True
            _log.warning(
                "batch %d is not published as %r in %s; the next batch publishes it too: %s",
                batch, publisher.name, without_credentials(plan.store), error,
            )  # fmt: skip


class _Listener(StreamingQueryListener):
    """Does nothing when a query starts or ends."""

    def onQueryStarted(self, event: QueryStartedEvent) -> None: ...

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None: ...


class _Committed(_Listener):
    """Publishes committed batches; each session has one."""

    def __init__(self) -> None:
        #: The publishers, by the name under which they publish and the store.
        self.plans: dict[tuple[str, str], _Publishing] = {}

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        progress = event.progress
        if "addBatch" not in progress.durationMs:
            return  # no batch ran
        partitions = max((each.numShufflePartitions for each in progress.stateOperators), default=1)
        for plan in list(self.plans.values()):
            plan.committed(str(progress.id), str(progress.runId), progress.batchId, partitions)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Wait until the last batches are published, because the driver may end next."""
        until = monotonic() + AT_THE_END
        for plan in list(self.plans.values()):
            plan.wait(str(event.id), max(0.0, until - monotonic()))
        _queries.pop(str(event.runId), None)


_lock = threading.Lock()
_listeners: WeakKeyDictionary[Any, _Committed] = WeakKeyDictionary()
#: The runs of queries that have not been reported as ended.
_queries: dict[str, StreamingQuery] = {}


@cache
def _publish_at_exit() -> None:
    on_start.append(_remember)
    atexit.register(publish_last)


def _remember(query: StreamingQuery) -> None:
    _queries[str(query.runId)] = query


def publish_last() -> None:
    """Publish the last committed batch of each query, if Spark has not reported it yet."""
    publishings = [each for listener in _listeners.values() for each in listener.plans.values()]
    for run, query in list(_queries.items()):
        try:
            found = [each for each in query.recentProgress if "addBatch" in each["durationMs"]]
        except Exception:  # the session is gone, and reported its last batches when it stopped
            _log.debug("the progress of query %s is not known", query.id, exc_info=True)
            continue
        if found:
            operators = found[-1]["stateOperators"]
            partitions = max((each["numShufflePartitions"] for each in operators), default=1)
            for each in publishings:
                each.publish_last(str(query.id), run, found[-1]["batchId"], partitions)


#: Receives a query's name, or its id if it has none, and the counts of one batch.
Report = Callable[[str, Mapping[str, int]], None]


def report_counts(
    spark: SparkSession, report: Report, metrics: str = METRICS
) -> StreamingQueryListener:
    """Call ``report(query, counts)`` after each micro-batch of any query that counts ``metrics``.

    The calls run in the driver, on a thread of Spark. ``counts`` is a dictionary with the counts of
    ``observedMetrics``. Returns the listener, for ``spark.streams.removeListener``.

    Args:
        spark: The session.
        report: A function of the query's name and its counts.
        metrics: The name of the counts, as in ``sliding_aggregate``.
    """
    listener = _Reporting(report, metrics)
    spark.streams.addListener(listener)
    return listener


class _Reporting(_Listener):
    """Passes the counts of batches to a function."""

    def __init__(self, report: Report, metrics: str) -> None:
        self._report, self._metrics = report, metrics

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        progress = event.progress
        row = progress.observedMetrics.get(self._metrics)
        if row is not None:
            self._report(progress.name or str(progress.id), row.asDict())
