"""How many files one micro-batch may read.

Spark reads files in the order of their modification times, and inside a micro-batch the rows are
sorted by event time. So where the files' times follow each other in the order in which Spark reads
them, a few files at a time are right; where they do not (unpacked archives, the parts of one Spark
job), only one batch of all files puts the events in order.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq

from spark_integration.cli.job import Job
from spark_integration.cli.sources import Source

ROWS_PER_BATCH = 500_000
TAIL_BYTES = 1 << 16


@dataclass(frozen=True)
class Batching:
    """How many files a micro-batch reads, and whether that is all of them for the order's sake."""

    files: int
    out_of_order: bool = False


def plan_batches(job: Job, source: Source) -> Batching:
    """About half a million rows to a batch, or everything in one where the order needs it."""
    if job.files_per_batch is not None:
        return Batching(job.files_per_batch)
    rows = sum(path.stat().st_size for path in source.files) / _bytes_per_row(source)
    fitting = max(1, round(ROWS_PER_BATCH * len(source.files) / max(rows, 1)))
    # A key that is a file of its own has no other file to be out of order with.
    if fitting >= len(source.files) or job.key_from_file_name or _in_order(job, source):
        return Batching(fitting)
    return Batching(len(source.files), out_of_order=True)


def _in_order(job: Job, source: Source) -> bool:
    span = _parquet_span if source.format == "parquet" else _text_span
    written = (path for path in source.files if path.stat().st_size)
    spans = [span(path, source, str(job.time)) for path in written]
    try:
        return all(
            before is not None and after is not None and before[1] <= after[0]
            for before, after in pairwise(spans)
        )
    except TypeError:  # times of different kinds cannot be compared
        return False


def _parquet_span(path: Path, source: Source, time: str) -> tuple[Any, Any] | None:
    """The least and the greatest time in a Parquet file, from its footer."""
    metadata = pq.read_metadata(path)
    column = source.columns.index(time)
    groups = [metadata.row_group(at).column(column) for at in range(metadata.num_row_groups)]
    if not all(group.is_stats_set and group.statistics.has_min_max for group in groups):
        return None
    return (
        min((group.statistics.min for group in groups), default=None),
        max((group.statistics.max for group in groups), default=None),
    )


def _text_span(path: Path, source: Source, time: str) -> tuple[Any, Any] | None:
    """The times in the first and the last line; a file that is sorted by time lies between them."""
    if path.suffix == ".gz":
        return None
    with path.open("rb") as file:
        head = file.readline() + (file.readline() if source.format == "csv" else b"")
        file.seek(max(0, path.stat().st_size - TAIL_BYTES))
        tail = file.read().splitlines()[-1]
    parse = _csv_time if source.format == "csv" else _json_time
    try:
        return parse(head, source, time), parse(tail, source, time)
    except (ValueError, KeyError, IndexError):
        return None


def _csv_time(line: bytes, source: Source, time: str) -> Any:
    row = pd.read_csv(io.BytesIO(line.splitlines()[-1]), names=source.columns)
    return _comparable(row[time].iloc[0])


def _json_time(line: bytes, source: Source, time: str) -> Any:
    return _comparable(json.loads(line)[time])


def _comparable(value: Any) -> Any:
    return pd.to_datetime(value, utc=True) if isinstance(value, str) else value


def _bytes_per_row(source: Source) -> float:
    first = next(path for path in source.files if path.stat().st_size)
    if source.format == "parquet":
        return first.stat().st_size / max(1, int(pq.read_metadata(first).num_rows))
    sample = source.sample
    to_text: Callable[[], str] = (
        (lambda: sample.to_csv(index=False))
        if source.format == "csv"
        else (lambda: sample.to_json(orient="records", lines=True))
    )
    packed = 8 if first.suffix == ".gz" else 1
    return float(len(to_text())) / max(1, len(sample)) / packed
