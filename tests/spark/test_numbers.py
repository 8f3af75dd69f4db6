"""Numbers at their limits come out of Spark as they do in Python, to the bit or to the bound."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from mta import CountWindow, KeyedWindows, Product, Window
from spark_integration import sliding_aggregate
from tests.monoids.test_numbers import BUILT_INS, HOSTILE, SIZE, held_after, require

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
        spark.createDataFrame(events), by="device", on="ts", aggregations=aggregations,
        window=CountWindow(SIZE), store=store, arity=4, leaf_arity=4,
    ).toArrow().sort_by("ts")  # fmt: skip
    # By the same sweep, as sums depend on the order of adding.
    windows = KeyedWindows(Product(aggregations), CountWindow(SIZE))
    vectorized = windows.extend(["a"] * count, columns, np.arange(count))
    window = Window(Product(aggregations), CountWindow(SIZE), arity=4, leaf_arity=4)
    alone = window.extend(columns, np.arange(count))
    for name in BUILT_INS:
        found = done[name].to_numpy()
        assert bits(found) == bits(vectorized[name].astype(found.dtype)), name
        column = columns["size" if name == "GeometricMean" else "w"]
        held = held_after(name, column.tolist())
        starts = np.maximum(0, np.arange(count) - SIZE + 1)
        offsets = starts if name.startswith("Arg") else np.zeros(count)
        for each, result, offset in zip(held, found, offsets, strict=True):
            require(name, each, result - offset, "Spark")
        # Both are within the bound of the exact result, and alike where there is none.
        one, bounds = alone[name].astype(found.dtype), np.array([slack for _, _, slack in held])
        rounded = np.isfinite(found) & (bounds > 0)
        assert bits(found[~rounded]) == bits(one[~rounded]), name
        with np.errstate(over="ignore", invalid="ignore"):
            assert (abs(found - one)[rounded] <= 2 * bounds[rounded]).all(), name


def bits(results: Any) -> bytes:
    """All NaN are alike."""
    return bytes(np.where(np.isnan(results), np.nan, results).astype(results.dtype).tobytes())
