"""Rows to blobs and back, so that Spark moves a few large values instead of many small rows.

Spark pays about 2.4 us for each row that it hands to a grouped Python function and a millisecond
for each group, but only tens of nanoseconds for a row inside an Arrow batch. So the rows of one
bucket of keys travel as one blob (an Arrow IPC stream), and the grouped function sees one or a few
rows per bucket, which it knows by its label (``labels``).

    rows (hash, key, ...)  --pack-->  (label, blob)  --step-->  (blob, ...)  --unpack-->  rows

Spark wakes a bucket by event time only if its input has a column under a watermark. Such packed
rows get one, that is always null: Spark knows the watermark from the rows before packing, and has
no rows to take for late here, which is the step's to judge.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from spark_integration.runners.labels import label_of
from spark_integration.runners.metrics import NO_PAGES, PageCounts
from spark_integration.runners.workers import settle, state_partitions
from spark_integration.step.results import Counts

# Of packed rows alone: a user's columns, which may be called the same, are inside the blobs.
LABEL, BLOB, TIME = "__label", "__blob", "__time"
# Of packed results: what is counted is one column, as each costs Python a conversion per bucket.
NUMBERS = "__counts"

#: What is counted, as the query's ``observedMetrics`` name it, in the order of ``NUMBERS``.
COUNTS = (*Counts._fields, *PageCounts._fields)
RESULT_SCHEMA = f"{BLOB} binary, {NUMBERS} array<long>"

# A cut makes one blob per bucket: large enough that a blob holds thousands of rows at 64 buckets,
# small enough that a task holds tens of megabytes whatever its partition weighs.
CUT_ROWS = 1 << 18
CUT_BYTES = 64 << 20
# Blobs of results stay far below Spark's limit of 2 GiB for one value and for one Arrow batch.
BLOB_ROWS = 1 << 18


def to_blobs(parts: Iterable[pa.Table]) -> pa.Array:
    """Each table as one Arrow IPC stream, all in one binary array; one copy of the columns."""
    sink = pa.BufferOutputStream()
    offsets = [0]
    for part in parts:
        with pa.ipc.new_stream(sink, part.schema) as writer:
            writer.write_table(part)
        offsets.append(sink.tell())
    buffers = [None, pa.py_buffer(np.array(offsets, np.int32)), sink.getvalue()]
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)


def from_blobs(blobs: Iterable[bytes | pa.Buffer]) -> pa.Table:
    """The rows of at least one blob as one table; the columns are views of the blobs."""
    return pa.concat_tables(pa.ipc.open_stream(blob).read_all() for blob in blobs)


def pack_results(rows: pa.Table, counts: Counts, pages: PageCounts = NO_PAGES) -> pa.Table:
    """A step's results as rows (blob, counts) of at most ``BLOB_ROWS`` results.

    The counts stand in the first row, whose blob is null if there are no results.
    """
    parts = [rows.slice(at, BLOB_ROWS) for at in range(0, rows.num_rows, BLOB_ROWS)]
    blobs = to_blobs(parts) if parts else pa.nulls(1, pa.binary())
    numbers = [[*counts, *pages], *[None] * (len(blobs) - 1)]
    return pa.table({BLOB: blobs, NUMBERS: pa.array(numbers, pa.list_(pa.int64()))})


def pack(
    batches: Iterable[pa.RecordBatch], names: Sequence[str], buckets: int, timed: bool = False
) -> Iterator[pa.RecordBatch]:
    """Rows of a key's hash and columns become rows (label, blob), for mapInArrow.

    A key's bucket is its hash modulo ``buckets``, or where that is 0 the query's state partitions.
    ``names`` are the columns' names in the blobs: PySpark's mapInArrow takes no name with a dot.
    ``timed`` adds the column of nulls that stands under the watermark.

    Holds at most ``CUT_ROWS`` rows or ``CUT_BYTES`` bytes, and one incoming batch more.
    """
    settle()
    buckets = buckets or state_partitions()
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if batch.num_rows == 0:
            continue
        held.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= CUT_ROWS or size >= CUT_BYTES:
            yield _packed(pa.Table.from_batches(held), names, buckets, timed)
            held, rows, size = [], 0, 0
    if held:
        yield _packed(pa.Table.from_batches(held), names, buckets, timed)


def _packed(rows: pa.Table, names: Sequence[str], buckets: int, timed: bool) -> pa.RecordBatch:
    # A stable sort of 16-bit numbers is a radix sort: linear, and rows keep their order.
    numbers = (rows.column(0).to_numpy() % buckets).astype(np.uint16)
    order = np.argsort(numbers, kind="stable")
    content = rows.select(range(1, rows.num_columns)).combine_chunks().take(pa.array(order))
    content = content.rename_columns(list(names))
    numbers = numbers[order]
    starts = np.flatnonzero(np.diff(numbers, prepend=-1))
    ends = np.append(starts[1:], len(numbers))
    blobs = to_blobs(content.slice(lo, hi - lo) for lo, hi in zip(starts, ends, strict=True))
    labels = list(map(label_of, numbers[starts].tolist()))
    columns = {LABEL: pa.array(labels, pa.int64()), BLOB: blobs}
    if timed:
        columns[TIME] = pa.nulls(len(blobs), pa.timestamp("us", "UTC"))
    return pa.RecordBatch.from_pydict(columns)


def unpack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows inside a column ``__blob``, for mapInArrow; one blob at a time is in memory."""
    settle()
    for batch in batches:
        for blob in batch.column(BLOB):
            if not blob.is_valid:
                continue
            with pa.ipc.open_stream(blob.as_buffer()) as reader:
                yield from reader
