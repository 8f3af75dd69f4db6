"""Packing loses no row and bounds what a task holds; and what a worker retains."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark_integration import executor_store
from spark_integration.options import MAX_BUCKETS
from spark_integration.runners import packing, workers
from spark_integration.runners.packing import (
    BLOB,
    LABEL,
    NUMBERS,
    RowCounts,
    bucket_of,
    from_blobs,
    label_of,
    pack_results,
    unpack,
)
from spark_integration.runners.workers import PageCounts
from stores import open_store

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


NAMES = ["text", "number", "nested"]


def batches(rows: int, size: int) -> list[pa.RecordBatch]:
    rng = np.random.default_rng(rows)
    table = pa.table(
        {
            "hash": pa.array(rng.integers(-(1 << 63), (1 << 63) - 1, rows)),
            "c0": [f"row {i}" if i % 7 else None for i in range(rows)],
            "c1": np.arange(rows),
            "c2": [[i, i + 1] for i in range(rows)],
        }
    )
    found: list[pa.RecordBatch] = table.to_batches(max_chunksize=size)
    return found


def pack(given: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    return list(packing.pack(iter(given), NAMES, 5))


@pytest.mark.parametrize("rows", [0, 1, 9, 1000])
def test_every_row_comes_back_in_order(rows: int) -> None:
    given = batches(rows, 64)
    packed = pack(given)
    expected = [r for b in given for r in b.to_pylist()]
    for batch in packed:
        for row in batch.to_pylist():
            mine = from_blobs([row[BLOB]]).to_pylist()
            assert mine == [
                dict(zip(NAMES, list(r.values())[1:], strict=True))
                for r in expected
                if r["hash"] % 5 == bucket_of(row[LABEL])
            ]
    back = [r["number"] for b in unpack(packed) for r in b.to_pylist()]
    assert sorted(back) == list(range(rows))


def test_cuts_bound_the_rows_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "CUT_ROWS", 100)
    packed = pack(batches(1000, 64))
    assert len(packed) == 8  # a cut after every second batch of 64
    monkeypatch.setattr(packing, "CUT_ROWS", 1 << 18)
    monkeypatch.setattr(packing, "CUT_BYTES", 1)
    assert len(pack(batches(1000, 64))) == 16


def test_an_empty_batch_is_skipped() -> None:
    empty = batches(5, 5)[0].slice(0, 0)
    assert pack([empty]) == []


def test_results_without_rows_still_carry_their_counts() -> None:
    packed = pack_results(
        pa.table({"a": pa.array([], pa.int64())}), RowCounts(3, 3, 2, 1), PageCounts()
    )
    assert packed.to_pylist() == [{BLOB: None, NUMBERS: [3, 3, 2, 1, 0, 0, 0, *PageCounts()]}]
    assert list(unpack(packed.to_batches())) == []


def test_many_results_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "BLOB_ROWS", 10)
    packed = pack_results(pa.table({"a": list(range(25))}), RowCounts(25), PageCounts())
    assert packed.column(NUMBERS).to_pylist() == [[25, *[0] * 6, *PageCounts()], None, None]
    assert from_blobs(packed.column(BLOB).to_pylist()).column("a").to_pylist() == list(range(25))


def test_every_bucket_has_a_label_of_its_own_that_leads_back() -> None:
    labels = list(map(label_of, range(MAX_BUCKETS)))
    assert len(set(labels)) == MAX_BUCKETS
    assert min(labels) >= 0 and max(labels) < 1 << 32
    assert list(map(bucket_of, labels)) == list(range(MAX_BUCKETS))


def test_the_hash_is_that_of_spark(spark: SparkSession) -> None:
    buckets = [*range(64), 255, 256, 4711, MAX_BUCKETS - 1]
    others = [0, 1, -1, 1 << 33, -(1 << 63)]  # with an upper word, as no label has it
    numbers = [*map(label_of, buckets), *others]
    df = spark.createDataFrame(pa.table({"number": pa.array(numbers, pa.int64())}))
    found = [row[0] for row in df.select(F.hash("number")).collect()]
    assert found[: len(buckets)] == buckets
    assert [each & 0xFFFFFFFF for each in found[len(buckets) :]] == list(map(bucket_of, others))


@pytest.mark.parametrize("partitions", [2, 3, 8, 13])
def test_partitions_have_as_many_buckets_as_each_other(
    spark: SparkSession, partitions: int
) -> None:
    labels = pa.table({"label": pa.array(map(label_of, range(64)), pa.int64())})
    df = spark.createDataFrame(labels).repartition(partitions, "label")
    places = df.select(F.spark_partition_id()).collect()
    counts = Counter(row[0] for row in places)
    assert len(counts) == partitions
    assert max(counts.values()) - min(counts.values()) <= 1


def test_pages_are_durable_behind_the_block_and_the_store_stays_open(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/pages"
    with executor_store(url) as store:
        store.put_many({"a": b"1"})
    with open_store(url) as other:
        assert other.get_many(["a"]) == [b"1"]
    with executor_store(url) as again:
        assert again is store
        again.put_many({"b": b"2"})


def test_an_error_waits_for_no_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"file://{tmp_path}/pages"
    flushed = []
    with executor_store(url) as store:
        monkeypatch.setattr(type(store), "flush", lambda self: flushed.append(self))
    assert sum(each is store for each in flushed) == 1
    with pytest.raises(KeyError), executor_store(url):
        raise KeyError("the function of a user")
    assert sum(each is store for each in flushed) == 1


def test_a_worker_s_modules_are_no_garbage(spark: SparkSession) -> None:
    def frozen(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import gc

        import pyarrow as pa

        for _ in batches:
            list(unpack(iter(())))
            yield pa.record_batch({"frozen": [gc.get_freeze_count()]})

    assert spark.range(1).mapInArrow(frozen, "frozen long").collect()[0].frozen > 10_000


def test_what_is_there_to_stay_is_set_aside_ever_more_seldom() -> None:
    code = (
        "import gc\n"
        "from spark_integration.runners.workers import freeze_objects\n"
        "found, kept = [], []\n"
        "for _ in range(17):\n"
        "    freeze_objects()\n"
        "    found.append(gc.get_freeze_count())\n"
        "    kept.append([[] for _ in range(1000)])\n"
        "grown = [a > 1000 and b - a >= 1000 for a, b in zip(found, found[1:])]\n"
        "at = [call for call, more in enumerate(grown, 2) if more]\n"
        "assert at == [2, 4, 8, 16], (at, found)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_workers_of_an_executor_share_pages_in_a_folder_of_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder, is_shared in (("", False), ("relative", False), (f"{tmp_path},/b", True)):
        monkeypatch.setattr(workers, "_shared", {})
        monkeypatch.setenv("SPARK_LOCAL_DIRS", folder)
        found = workers.state_pages_shared()
        assert (found is not None) == is_shared
        assert workers.state_pages_shared() is found
    assert found is not None
    found.put_many({"w/0/1": b"one"})
    assert found.get_many(["w/0/1"]) == [b"one"] and list(tmp_path.glob("mta-state/*"))
    found.close()
