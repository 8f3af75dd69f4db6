"""The catalogue in a query: each aggregation of its type, as in pandas, and to the last bit."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import SparkSession

from mta import CountWindow, KeyedWindows, Product, Window, rolling
from spark_integration import sliding_aggregate
from tests.monoids.test_numbers import BUILT_INS, HOSTILE, SIZE, held_after, require

WINDOW = 6
#: By type of result: aggregations of a column of doubles, "x", unless they say otherwise.
ASKED: dict[str, list[tuple[Any, str]]] = {
    "double": [
        *[("x", name) for name in (
            "mean", "std", "stddev_pop", "var", "var_pop", "sem", "skew", "skewness", "kurt",
            "kurtosis", "median", "quantile(0.3)", "quantile_disc(0.5)", "rank", "mode", "product",
            "sum_distinct", "lag", "nth_value(2)", "entropy", "increase", "geomean", "first",
        )],
        *[(("x", "n"), name) for name in (
            "cov", "covar_pop", "corr", "regr_slope", "regr_intercept", "regr_r2", "regr_avgx",
            "regr_avgy", "regr_sxx", "regr_sxy", "regr_syy", "max_by", "min_by",
        )],
        *[(("ts", "x"), name) for name in (
            "decayed_sum('5s')", "decayed_mean('5s')", "time_weighted_mean", "rate_of_change",
            "integral('linear')", "increase_rate",
        )],
    ],
    "bigint": [
        ("x", "count"), ("x", "nunique"), ("word", "count_distinct"), ("flag", "count_if"),
        ("n", "bit_and"), ("n", "bit_or"), ("n", "bit_xor"), ("n", "sum_distinct"), ("n", "mode"),
        ("n", "lag(2)"), ("n", "nth_value(2)"), (("x", "n"), "regr_count"), ("n", "max"),
        ("x", "max_count"),
    ],
    "boolean": [("flag", "any"), ("flag", "all"), ("n", "bool_or")],
    "string": [
        ("word", "mode"), ("word", "lag"), ("word", "nth_value(3)"), ("word", "string_agg('-')"),
        ("word", "listagg_distinct"), ("word", "max"),
    ],
    "array<double>": [
        ("x", "top_k(2)"), ("x", "bottom_k(3)"), ("x", "quantile([0.1, 0.9])"), ("x", "list"),
    ],
    "array<struct<value:string,count:bigint>>": [("word", "most_frequent(2)")],
    "array<struct<value:bigint,count:bigint>>": [("n", "most_frequent(2)")],
}  # fmt: skip


def frame() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    rows = 60
    return pd.DataFrame({
        "key": rng.choice(["a", "b"], rows),
        "ts": pd.date_range("2024-01-01", periods=rows, freq="2s").as_unit("us"),
        "x": rng.choice([0.5, 1.0, 2.0, 7.25], rows),
        "n": rng.integers(-3, 4, rows),
        "flag": rng.integers(0, 3, rows) > 0,
        "word": rng.choice(["p", "q", "r"], rows),
    })  # fmt: skip


def plain(value: Any) -> Any:
    """A result as plain Python: structs as lists, and None for a NaN."""
    value = list(value.values()) if isinstance(value, dict) else value
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain(item) for item in value]
    value = value.item() if isinstance(value, np.generic) else value
    return None if value is pd.NA or value != value else value


def test_every_aggregation_at_once(spark: SparkSession, store: str) -> None:
    rows = frame()
    pairs = [(kind, pair) for kind, some in ASKED.items() for pair in some]
    asked = {f"c{at}": pair for at, (_, pair) in enumerate(pairs)}
    settings: dict[str, Any] = {"by": "key", "on": "ts", "aggregations": asked}
    df = sliding_aggregate(
        spark.createDataFrame(rows), **settings, window=CountWindow(WINDOW), store=store, buckets=2
    )
    for at, (kind, pair) in enumerate(pairs):
        assert df.schema[f"c{at}"].dataType.simpleString() == kind, pair
    found = df.toPandas().sort_values("ts", ignore_index=True)
    wanted = rolling(rows, **settings, window=WINDOW)
    for alias, pair in asked.items():
        one, other = ([plain(value) for value in side[alias]] for side in (found, wanted))
        try:
            sides = [np.array(side, "f8") for side in (one, other)]
        except (TypeError, ValueError):
            assert one == other, pair
        else:
            np.testing.assert_allclose(*sides, rtol=1e-9, atol=1e-12, err_msg=str(pair))


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
