"""Sketches and runs as aggregations of a query: of which type, and what ``rolling`` answers too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

pytest.importorskip("datasketches")

from mta import CountWindow, rolling
from mta.aggregations import (
    BloomFilter,
    CountMin,
    DistinctCount,
    FrequentItems,
    KLLQuantiles,
    LongestIncreasingRun,
    MomentSketch,
)
from spark_integration import sliding_aggregate

ASKED: dict[str, tuple[Any, str]] = {
    "users": (("user", DistinctCount()), "double"),
    "quartiles": (("x", KLLQuantiles([0.25, 0.5, 0.75])), "array<double>"),
    "half": (("code", KLLQuantiles(0.5)), "double"),
    "top": (("user", FrequentItems(0.1)), "array<struct<item:string,estimate:bigint>>"),
    "codes": (("code", FrequentItems(0.1, of=int)), "array<struct<item:bigint,estimate:bigint>>"),
    "seen": (("user", BloomFilter(100)), "binary"),
    "often": (("user", CountMin()), "binary"),
    "middle": (("x", MomentSketch(0.5)), "double"),
    "spread": (("x", MomentSketch([0.1, 0.9])), "array<double>"),
    "run": (
        (("x", "ts"), LongestIncreasingRun("M8[us]")),
        "struct<start:timestamp,end:timestamp,interval:interval day to second,length:bigint,"
        "before:bigint,events:bigint>",
    ),
}


def plain(value: Any) -> Any:
    """Times without a zone, and numbers as near as sketches come."""
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, float | list) and np.array(value).dtype == float:
        return pytest.approx(value, rel=1e-3)
    return value.replace(tzinfo=None) if hasattr(value, "tzinfo") else value


def test_sketches_over_spark(spark: SparkSession, store: str) -> None:
    at = np.arange(300)
    rows = pa.table({
        "device": np.array(["a", "b"])[at % 2], "ts": (at + 1_700_000_000).astype("M8[s]"),
        "user": [f"u{i * i % 17}" for i in range(300)], "code": at % 3, "x": at * 7 % 23 / 1.0,
    })  # fmt: skip
    rows = rows.set_column(1, "ts", rows["ts"].cast(pa.timestamp("us", "UTC")))
    asked = {alias: pair for alias, (pair, _) in ASKED.items()}
    settings: dict[str, Any] = {"by": "device", "on": "ts", "aggregations": asked}
    done = sliding_aggregate(
        spark.createDataFrame(rows), **settings, window=CountWindow(40), store=store, buckets=2,
        arity=4, leaf_arity=8,
    )  # fmt: skip
    types = {f.name: f.dataType.simpleString() for f in done.schema.fields[5:]}
    assert types == {alias: kind for alias, (_, kind) in ASKED.items()}
    found = done.toArrow().sort_by("ts").to_pylist()
    wanted = rolling(rows, **settings, window=CountWindow(40)).to_pylist()
    assert len(found) == 300
    for one, other in zip(found, wanted, strict=True):
        for alias in ASKED:
            assert plain(one[alias]) == plain(other[alias]), (alias, one["ts"])
