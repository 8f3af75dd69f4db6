"""Publish a query's windows: the driver's side.

A task writes its bucket's snapshot with its pages (``mta.publishing.batches``). The driver writes
the head once Spark has committed the batch, as reported by ``QueryProgressEvent``, which Spark
sends after writing its log of commits; for a trigger without a batch, the event has no duration
``addBatch``. The event arrives on a thread of Spark a few milliseconds later. It may be lost with
the driver: then the event of the next batch publishes both.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from mta.publishing.batches import BatchPublisher
from mta.publishing.records import what_of
from spark_integration.plan import Plan
from spark_integration.runners.workers import store_of
from spark_integration.step.starts import PREFIX
from stores.address import without_credentials
from stores.errors import WindowStoreError

_log = logging.getLogger(__name__)


def publisher_of(plan: Plan) -> BatchPublisher:
    """Return the publisher of the head for the windows of a plan."""
    options = plan.options
    assert plan.part is not None
    on_duplicate = options.on_duplicate if plan.by_time else "append"
    what = replace(
        what_of("keys", plan.monoid, options.windows, on_duplicate),
        keys=list(zip(options.keys, plan.key_types, strict=True)),
        on=(options.on, str(plan.row_schema.field(options.on).type)),
    )
    start = None if plan.start is None else PREFIX + plan.start.name
    return BatchPublisher(plan.part.name, what, plan.buckets, plan.part.retain, start)


def follow(spark: SparkSession, plan: Plan) -> None:
    """Publish each batch that a query of this plan commits, while the session lives."""
    with _lock:
        listener = _listeners.get(spark)
        if listener is None:
            listener = _listeners[spark] = _Committed()
            spark.streams.addListener(listener)
    assert plan.part is not None
    listener.plans[plan.part.name] = plan


class _Committed(StreamingQueryListener):
    """Publishes committed batches; one for each session."""

    def __init__(self) -> None:
        #: By the name under which each is published.
        self.plans: dict[str, Plan] = {}

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        progress = event.progress
        if "addBatch" not in progress.durationMs:
            return  # no batch ran
        partitions = max((each.numShufflePartitions for each in progress.stateOperators), default=1)
        for name, plan in list(self.plans.items()):
            publisher = publisher_of(replace(plan, buckets=plan.buckets or partitions))
            try:
                with store_of(plan.store) as store:
                    publisher.committed(store, str(progress.id), progress.batchId)
            except WindowStoreError as error:
                _log.warning(
                    "batch %d is not published as %r in %s, the next one publishes it too: %s",
                    progress.batchId, name, without_credentials(plan.store), error,
                )  # fmt: skip

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Do nothing: no batch is committed yet."""

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Do nothing: no batch was committed."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Do nothing: everything is published."""


_lock = threading.Lock()
_listeners: WeakKeyDictionary[Any, _Committed] = WeakKeyDictionary()
