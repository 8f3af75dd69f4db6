"""Sketches, filters and runs as aggregations of a query: what they answer, and as which type."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from pyspark.sql import SparkSession

pytest.importorskip("datasketches")

from mta import CountWindow
from mta.aggregations import (
    BloomFilter,
    CountMin,
    DistinctCount,
    Frequencies,
    FrequentItems,
    KLLQuantiles,
    LongestIncreasingRun,
    Members,
    MomentSketch,
)
from spark_integration import sliding_aggregate

SIZE = 40
SCHEMA = "device string, ts timestamp, user string, code int, x double"
START = dt.datetime(2024, 5, 1)
TYPES = {
    "users": "double",
    "quartiles": "array<double>",
    "half": "double",
    "top": "array<struct<item:string,estimate:bigint>>",
    "codes": "array<struct<item:bigint,estimate:bigint>>",
    "seen": "binary",
    "often": "binary",
    "middle": "double",
    "spread": "array<double>",
    "run": "struct<start:timestamp,end:timestamp,interval:interval day to second,length:bigint,"
    "before:bigint,events:bigint>",
}


def rows() -> list[tuple[str, dt.datetime, str, int, float]]:
    return [
        (
            "ab"[i % 2],
            START + dt.timedelta(seconds=i),
            f"u{i * i % 17}",
            i % 3,
            float(i * 7 % 23),
        )
        for i in range(300)
    ]


def test_sketches_over_spark(spark: SparkSession, store: str) -> None:
    df = spark.createDataFrame(rows(), SCHEMA)
    done = sliding_aggregate(
        df,
        by="device",
        on="ts",
        aggregations={
            "users": ("user", DistinctCount()),
            "quartiles": ("x", KLLQuantiles([0.25, 0.5, 0.75])),
            "half": ("code", KLLQuantiles(0.5)),
            "top": ("user", FrequentItems(0.1)),
            "codes": ("code", FrequentItems(0.1, of=int)),
            "seen": ("user", BloomFilter(100)),
            "often": ("user", CountMin()),
            "middle": ("x", MomentSketch(0.5)),
            "spread": ("x", MomentSketch([0.1, 0.9])),
            "run": (("x", "ts"), LongestIncreasingRun("M8[us]")),
        },
        window=CountWindow(SIZE),
        store=store,
        buckets=2,
        arity=4,
        leaf_arity=8,
    )
    assert {f.name: f.dataType.simpleString() for f in done.schema.fields[5:]} == TYPES
    found = sorted(done.collect(), key=lambda row: row.ts)
    assert len(found) == 300
    for index in (0, 1, 50, 299):
        answers_of(found[index], [row for row in rows()[: index + 1] if row[0] == found[index][0]])


def answers_of(row: Any, past: list[tuple[str, dt.datetime, str, int, float]]) -> None:
    window = past[-SIZE:]
    users, codes, values = ([event[i] for event in window] for i in (2, 3, 4))
    ordered = sorted(values)
    assert round(row.users) == len(set(users))
    assert row.quartiles == [ordered[-(-len(ordered) * q // 4) - 1] for q in (1, 2, 3)]
    assert row.half == sorted(codes)[-(-len(codes) // 2) - 1]
    counted = sorted((-users.count(user), user) for user in set(users))
    often = [(user, -n) for n, user in counted if -n >= 0.1 * len(users)]
    assert often == [tuple(item) for item in row.top]
    assert {code: codes.count(code) for code in set(codes)} == dict(map(tuple, row.codes))
    seen = Members(row.seen)
    assert all(seen.might_contain(user) for user in users)
    assert not seen.might_contain("nobody")
    often = Frequencies(row.often)
    assert often.estimates(users) == [users.count(user) for user in users]
    assert ordered[0] <= row.spread[0] <= row.middle <= row.spread[1] <= ordered[-1]
    best, start, length = 0, 0, 0
    for i, value in enumerate(values):
        length = length + 1 if i and values[i - 1] < value else 1
        if length > best:
            best, start = length, i - length + 1
    end = window[start + best - 1][1]
    assert (row.run.start, row.run.end) == (window[start][1], end)
    assert (row.run.length, row.run.before, row.run.events) == (best, start, len(window))
    assert row.run.interval == end - window[start][1]
