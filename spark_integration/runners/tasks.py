"""What a task knows of the streaming query that runs it, by the properties that Spark gives it.

The number of state partitions is the one that the query started with: Spark keeps it in the
checkpoint, whatever the session's settings are when the query restarts.
"""

from __future__ import annotations

from pyspark import TaskContext

PARTITIONS = "spark.sql.shuffle.partitions"
#: The query's own settings of the number of state partitions, the first of which counts. From
#: Spark 4.1 on, a query that restarts has it by the first name.
_STATE_PARTITIONS = "spark.sql.streaming.internal.stateStore.partitions", PARTITIONS
#: Spark's own default.
_UNSET = 200
_QUERY_ID, _BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"


def running_batch() -> tuple[str, int]:
    """The id of the running query, which Spark keeps in the checkpoint, and its batch.

    Only inside a task.
    """
    query, batch = _property(_QUERY_ID), _property(_BATCH_ID)
    if query is None or batch is None:
        raise RuntimeError("no streaming query runs in this task; report this as a bug")
    return query, int(batch)


def state_partitions() -> int:
    """How many partitions the state of the running query has; only inside a task."""
    return int(next(filter(None, map(_property, _STATE_PARTITIONS)), _UNSET))


def _property(name: str) -> str | None:
    context = TaskContext.get()
    return context.getLocalProperty(name) if context else None
