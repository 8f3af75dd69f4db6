"""Numbers at their limits come out of Spark with the bits that they have in Python."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from mta import CountWindow, KeyedWindows, Product
from spark_integration import sliding_aggregate
from tests.monoids.test_numbers import BUILT_INS, HOSTILE

#: As it may be asked for in Spark: the arguments of extremes are a second column.
COLUMNS = {"Count": None, "GeometricMean": "size", "ArgMin": ("w", "at"), "ArgMax": ("w", "at")}


def test_every_built_in_gives_the_same_bits(spark: SparkSession, store: str) -> None:
    random, count = Random(4), 400
    values = np.array([random.choice([*HOSTILE, random.uniform(-9, 9)]) for _ in range(count)])
    columns = {"at": np.arange(float(count)), "size": np.abs(values), "w": values}
    aggregations: dict[str, Any] = {
        name: (COLUMNS.get(name, "w"), make()) for name, (make, _) in BUILT_INS.items()
    }
    events = pa.table({"device": ["a"] * count, "ts": np.arange(count), **columns})
    done = sliding_aggregate(
        spark.createDataFrame(events), key="device", time="ts", aggregations=aggregations,
        policy=CountWindow(7), store=store, arity=4, leaf_arity=4,
    ).toArrow().sort_by("ts")  # fmt: skip
    # By the same sweep, as sums depend on the order of adding.
    windows = KeyedWindows(Product(aggregations), CountWindow(7))
    right = windows.extend(["a"] * count, columns, np.arange(count))
    for name, expected in right.items():
        found, nan = done[name].to_numpy(), np.isnan(expected)
        assert np.isnan(found[nan]).all(), name
        assert found[~nan].tobytes() == expected[~nan].astype(found.dtype).tobytes(), name
