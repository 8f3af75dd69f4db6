"""A streaming query over a folder of files, run to its end as often as a test wants."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from mta import Count, CountWindow, Max, Sum, TimeWindow
from spark_integration import sliding_aggregate
from spark_integration.checkpoint import has_commits, open_pages, read_pages, saved_snapshots
from spark_integration.cli.checkpoints import list_windows
from spark_integration.options import Options
from spark_integration.request import make_request
from spark_integration.runners.state_pages import is_state_url
from spark_integration.sliding import run_request
from spark_integration.step.step import Step
from stores import open_store
from tests.support.spark.checkpoints import remove_commit
from tests.support.spark.events import (
    SCHEMA,
    Event,
    Expected,
    Fold,
    in_form,
    shuffled,
    write_files,
)
from tests.support.spark.idle_cases import SIZE, WHOLE
from tests.support.spark.states import check_places

FOLDS: list[Fold] = [max, sum, len]
ALIASES = ("peak", "sum", "n")
#: Events in a window: so many that what is known of two keys is too much for a snapshot.
WINDOW = 150


class Job:
    """A stream over a folder of files, whose results survive in ``batches`` by batch number."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.input, self.checkpoint = folder / "input", folder / "checkpoint"
        self.store = f"file://{folder}/pages"
        self.batches: dict[int, list[Row]] = {}
        self.input.mkdir()

    #: What is asked of the query.
    options: ClassVar[dict[str, Any]] = {
        "aggregations": {"peak": ("watts", Max()), "sum": ("watts", Sum()), "n": (None, Count())},
        "window": CountWindow(WINDOW),
    }

    def settings(self, **changes: Any) -> dict[str, Any]:
        where = {"by": "device", "on": "ts", "store": self.store}
        return {**where, "buckets": 2, "arity": 4, "leaf_arity": 4, **self.options, **changes}

    def source(self, files: int = 1) -> DataFrame:
        reader = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", files)
        return reader.parquet(str(self.input))

    def run(
        self, sink: Callable[[int], None] = lambda batch: None, **changes: Any
    ) -> StreamingQuery:
        """Run to the end of the input. ``sink`` may fail after a batch's results are out."""
        return self.run_frame(sliding_aggregate(self.source(), **self.settings(**changes)), sink)

    def run_frame(
        self, frame: DataFrame, sink: Callable[[int], None] = lambda batch: None
    ) -> StreamingQuery:
        def collect(results: DataFrame, batch: int) -> None:
            self.batches[batch] = results.collect()
            sink(batch)

        return run_to_end(frame, self.checkpoint, collect)

    def run_step(self, step: Step, **changes: Any) -> StreamingQuery:
        """Run to the end of the input with another step than the usual one."""
        request = make_request(self.source(), Options.of(**self.settings(**changes)))
        return self.run_frame(run_request(self.source(), request, step))

    def remove_commit(self, batch: int) -> None:
        """As if the driver had died after the batch's work and before its commit."""
        remove_commit(self.checkpoint, batch)

    def results(self) -> list[tuple[Any, ...]]:
        return in_form((row for rows in self.batches.values() for row in rows), *ALIASES)

    def pages(self) -> set[str]:
        """Every page in the store; in Spark's state, those of committed batches."""
        if is_state_url(self.store):
            if not has_commits(self.checkpoint):
                return set()
            rows = read_pages(self.spark, self.checkpoint).select("key").collect()
            return {row.key for row in rows}
        with open_store(self.store) as store:
            return set(store.keys())

    def check_places(self, events: pa.Table, orphans: int = 0) -> int:
        """As ``check_places``, after the last committed batch, which came up to these events."""
        snapshots = saved_snapshots(self.spark, self.checkpoint, self.store)
        with open_pages(self.spark, self.checkpoint, self.store) as store:
            return check_places(snapshots, store, events, WINDOW, orphans)


class WatermarkJob(Job):
    """A job whose source has a watermark that waits for no event."""

    def source(self, files: int = 1) -> DataFrame:
        return super().source(files).withWatermark("ts", "0 seconds")

    def write(self, rows: pa.Table, files: int = 1) -> None:
        """More files of input, with the columns that the source has."""
        rows = rows.append_column("site", pa.nulls(rows.num_rows, pa.string()))
        write_files(rows, self.input, files, first=len(list(self.input.glob("*.parquet"))))


class IdleJob(WatermarkJob):
    """Windows of a minute, and the moments at which they are empty."""

    options: ClassVar = {"aggregations": WHOLE, "window": TimeWindow(SIZE), "idle": "emit"}

    def found(self, marked: bool | None = None) -> list[tuple[Any, ...]]:
        """All results in the oracle's form; ``marked`` only those that are late or are not."""
        rows = [row for batch in self.batches.values() for row in batch]
        return in_form(row for row in rows if marked is None or row.late is marked)

    def keys(self) -> set[str]:
        """The keys that have a window in Spark's state."""
        listing = list_windows(self.spark, self.checkpoint, self.store, limit=1000)
        return {name for name, _ in listing.windows}

    def delete_offsets(self, batch: int) -> None:
        """As if a batch that is not committed had never been planned."""
        for name in (str(batch), f".{batch}.crc"):
            (self.checkpoint / "offsets" / name).unlink(missing_ok=True)


class LateJob(WatermarkJob):
    """Windows of a minute whose events may come 30 seconds late; each file is a batch."""

    options: ClassVar = {
        "aggregations": WHOLE,
        "window": TimeWindow(SIZE),
        "allowed_lateness": "30 seconds",
        "on_late": "drop",
    }

    def write_batches(self, parts: Sequence[Sequence[Event]]) -> None:
        """A file for each part."""
        for part in parts:
            self.write(shuffled(part, 0))

    def found(self, *names: str) -> list[list[tuple[bool, Any]]]:
        """The results of each batch that has any, in the oracle's form, and which are corrected."""
        return [
            [
                (again, found)
                for again in (False, True)
                for found in in_form(
                    (row for row in rows if row.asDict().get("corrected", False) is again), *names
                )
            ]
            for _, rows in sorted(self.batches.items())
            if rows
        ]


def as_found(expected: Iterable[Expected]) -> list[list[tuple[bool, Any]]]:
    """What ``LateJob.found`` must give."""
    return [
        [*((False, row) for row in batch.new), *((True, row) for row in batch.again)]
        for batch in expected
    ]


def run_to_end(
    results: DataFrame, checkpoint: Path | str, sink: Any = None, path: Path | str | None = None
) -> StreamingQuery:
    """Run a stream to the end of its input: into a function, a folder of Parquet, or nowhere."""
    writer = results.writeStream.trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(checkpoint))
    if sink is None:
        writer = writer.format("noop" if path is None else "parquet")
    else:
        writer = writer.foreachBatch(sink)
    query = writer.start(path and str(path))
    query.awaitTermination()
    return query


def counts_of(query: StreamingQuery) -> dict[str, int]:
    """What the query's last batch has read and dropped, of rows."""
    progress = query.lastProgress
    assert progress is not None
    counts = progress["observedMetrics"]["sliding_aggregate"]
    # A Row; with PySpark 3.5 a dictionary already.
    return of_rows(counts if isinstance(counts, dict) else counts.asDict())


def of_rows(counts: dict[str, int]) -> dict[str, int]:
    """The counts that are of rows, not of pages."""
    return {name: count for name, count in counts.items() if name.startswith("rows_")}
