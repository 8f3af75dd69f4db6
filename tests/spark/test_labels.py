"""A bucket's label is the number whose hash in Spark is that of the bucket: partitions are even."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark_integration.options import MAX_BUCKETS
from spark_integration.runners.packing import bucket_of, label_of


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
