"""Report the counts of streaming queries, batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from spark_integration.sliding import METRICS

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
    listener = _Listener(report, metrics)
    spark.streams.addListener(listener)
    return listener


class _Listener(StreamingQueryListener):
    def __init__(self, report: Report, metrics: str) -> None:
        self._report, self._metrics = report, metrics

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        progress = event.progress
        row = progress.observedMetrics.get(self._metrics)
        if row is not None:
            self._report(progress.name or str(progress.id), row.asDict())

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Do nothing: nothing is counted yet."""

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Do nothing: nothing was counted."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Do nothing: everything is reported."""
