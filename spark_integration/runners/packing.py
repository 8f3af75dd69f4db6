"""Rows to blobs and back, so that Spark moves a few large values instead of many small rows.

Spark takes about 2.4 us for each row that it passes to a grouped Python function, and a millisecond
for each group, but only tens of nanoseconds for a row in an Arrow batch. So the rows of one bucket
of keys are sent as one blob (an Arrow IPC stream), and the grouped function gets one or a few rows
per bucket, which are grouped by the bucket's label.

    rows (hash, key, ...)  --pack-->  (label, blob)  --step-->  (blob, ...)  --unpack-->  rows

Spark calls a bucket by event time only if its input has a column with a watermark. So packed rows
get such a column, which is always null: Spark knows the watermark from the rows before packing, and
cannot drop packed rows as late. The step decides which rows are late.

Labels spread the buckets evenly over Spark's partitions. Spark puts a group into the partition
``pmod(hash(key), partitions)``: of 64 buckets in 8 partitions, one partition would have 12, and the
batch would wait for it. So Spark does not group by the number of a bucket but by its label, the
whole number whose hash is the bucket's number. Then the partition is ``bucket % partitions``. The
hash is Murmur3 (32 bits, seed 42) of the label's two words. Every step of the hash can be inverted,
so each number has exactly one label whose upper word is 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache

import numpy as np
import pyarrow as pa

from spark_integration.runners.workers import PageCounts, freeze_objects, state_partitions
from spark_integration.step.step import RowCounts

# Columns of packed rows. A user's columns may have the same names, because they are in the blobs.
LABEL, BLOB, TIME = "__label", "__blob", "__time"
# The column of packed results with all counts: each column costs a conversion per bucket.
NUMBERS = "__counts"

#: The usual name of the counts in a query's ``observedMetrics``.
METRICS = "sliding_aggregate"
#: The names of the counts, in the order of ``NUMBERS``.
COUNTS = (*RowCounts._fields, *PageCounts._fields)
RESULT_SCHEMA = f"{BLOB} binary, {NUMBERS} array<long>"

# After this many rows or bytes, a task writes one blob per bucket. The limits are large enough for
# thousands of rows per blob with 64 buckets, and small enough that a task needs only tens of
# megabytes, whatever the size of its partition.
CUT_ROWS = 1 << 18
CUT_BYTES = 64 << 20
# Blobs of results stay far below Spark's limit of 2 GiB for one value and for one Arrow batch.
BLOB_ROWS = 1 << 18

#: The type of labels, as Spark writes it.
LABEL_TYPE = "bigint"
_SEED, _BYTES, _WORD = 42, 8, 0xFFFFFFFF
#: The factors of a word, of the hash, and of the final mix; the number added to the hash.
_INTO, _ON, _STEP, _ONE, _OTHER, _ADDED = (
    0xCC9E2D51, 0x1B873593, 5, 0x85EBCA6B, 0xC2B2AE35, 0xE6546B64
)  # fmt: skip


def to_blobs(parts: Iterable[pa.Table]) -> pa.Array:
    """Return each table as an Arrow IPC stream, all in one binary array; copies columns once."""
    sink = pa.BufferOutputStream()
    offsets = [0]
    for part in parts:
        with pa.ipc.new_stream(sink, part.schema) as writer:
            writer.write_table(part)
        offsets.append(sink.tell())
    buffers = [None, pa.py_buffer(np.array(offsets, np.int32)), sink.getvalue()]
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)


def from_blobs(blobs: Iterable[bytes | pa.Buffer]) -> pa.Table:
    """Return the rows of at least one blob as one table; its columns are views of the blobs."""
    return pa.concat_tables(pa.ipc.open_stream(blob).read_all() for blob in blobs)


def pack_results(rows: pa.Table, counts: RowCounts, pages: PageCounts) -> pa.Table:
    """Return a step's results as rows (blob, counts), with at most ``BLOB_ROWS`` results each.

    The counts are in the first row, whose blob is null if there are no results.
    """
    parts = [rows.slice(at, BLOB_ROWS) for at in range(0, rows.num_rows, BLOB_ROWS)]
    blobs = to_blobs(parts) if parts else pa.nulls(1, pa.binary())
    numbers = [[*counts, *pages], *[None] * (len(blobs) - 1)]
    return pa.table({BLOB: blobs, NUMBERS: pa.array(numbers, pa.list_(pa.int64()))})


def pack(
    batches: Iterable[pa.RecordBatch], names: Sequence[str], buckets: int, timed: bool = False
) -> Iterator[pa.RecordBatch]:
    """Turn rows with a key's hash and columns into rows (label, blob), for mapInArrow.

    A key's bucket is its hash modulo ``buckets``, or if that is 0, modulo the number of the query's
    state partitions. ``names`` are the columns' names in the blobs: PySpark's mapInArrow accepts no
    names with dots. ``timed`` adds the column of nulls that has the watermark.
    """
    freeze_objects()
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
    # A stable sort of 16-bit numbers is a radix sort: it is linear, and rows keep their order.
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
    """Yield the rows in a column ``__blob``, for mapInArrow; one blob at a time is in memory."""
    freeze_objects()
    for batch in batches:
        for blob in batch.column(BLOB):
            if not blob.is_valid:
                continue
            with pa.ipc.open_stream(blob.as_buffer()) as reader:
                yield from reader


# --- labels ---------------------------------------------------------------------------------------


@cache
def label_of(bucket: int) -> int:
    """Return the label of a bucket, from 0 to 2 ** 32 - 1.

    >>> label_of(0), label_of(1)
    (958104307, 3029212710)
    """
    found = bucket ^ bucket >> 16
    found = _divided(found, _OTHER)
    found ^= found >> 13 ^ found >> 26
    found = _divided(found, _ONE)
    found ^= found >> 16 ^ _BYTES
    for _ in range(2):  # the upper word, 0, adds nothing
        found = _turned(_divided(found - _ADDED, _STEP), -13)
    found = _turned(_divided(found ^ _SEED, _ON), -15)
    return _divided(found, _INTO)


def bucket_of(label: int) -> int:
    """Return the bucket of a label, which is the label's hash; the label may be a numpy integer.

    >>> bucket_of(label_of(63))
    63
    """
    found, label = _SEED, int(label)
    for word in (label & _WORD, label >> 32):
        found ^= _turned(word * _INTO & _WORD, 15) * _ON & _WORD
        found = (_turned(found, 13) * _STEP + _ADDED) & _WORD
    found ^= _BYTES
    found = (found ^ found >> 16) * _ONE & _WORD
    found = (found ^ found >> 13) * _OTHER & _WORD
    return found ^ found >> 16


def _turned(word: int, bits: int) -> int:
    """Rotate a word to the left, or to the right by a negative number of bits."""
    bits %= 32
    return (word << bits | word >> 32 - bits) & _WORD


def _divided(word: int, factor: int) -> int:
    """Return the word that gives ``word`` when it is multiplied by an odd factor."""
    return word * pow(factor, -1, _WORD + 1) & _WORD
