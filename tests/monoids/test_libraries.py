"""Aggregations by name over random keyed tables: pandas, polars and DuckDB answer the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from mta import rolling

WINDOW = 9


def table(seed: int, rows: int = 400) -> pd.DataFrame:
    """Readings of three keys in order of time, with ties among the values and none among times."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame({
        "key": rng.choice(["a", "b", "c"], rows),
        "ts": pd.date_range("2024-01-01", periods=rows, freq="7s"),
        "x": rng.choice([1e6, 1e6 + 1, -3.5, 0.25, 0.0, 7.0], rows) + rng.choice([0.0, 0.5], rows),
        "y": rng.normal(5, 2, rows),
        "n": rng.integers(-5, 6, rows),
        "flag": rng.integers(0, 3, rows) > 0,
        "word": rng.choice(["p", "q", "r", "s"], rows),
    })  # fmt: skip


def ours(frame: Any, name: str, columns: Any = "x", window: Any = WINDOW) -> list[Any]:
    on = None if isinstance(window, int) else "ts"
    asked = {"found": (columns, name)}
    found = rolling(frame, by="key", on=on, window=window, aggregations=asked)["found"]
    return list(found.to_list() if isinstance(frame, pl.DataFrame) else found)


def agree(found: list[Any], wanted: Any) -> None:
    try:
        one, other = (np.array(list(side), "f8") for side in (found, wanted))
    except (TypeError, ValueError):
        assert found == list(wanted)
        return
    np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


#: The methods of pandas' ``rolling``; their names are ours.
PANDAS = [
    "count", "sum", "mean", "median", "var", "std", "min", "max", "skew", "kurt", "rank",
]  # fmt: skip


@pytest.mark.parametrize("window", [WINDOW, "1min"])
@pytest.mark.parametrize("name", PANDAS)
def test_pandas(name: str, window: Any) -> None:
    frame = table(1).set_index("ts", drop=False).rename_axis(None)
    # pandas adds up and takes away, so that a deviation of small values keeps what large ones left.
    column = "y" if name in ("skew", "kurt", "var", "std") else "x"
    groups = frame.groupby("key")[column].rolling(window, min_periods=1)
    wanted = getattr(groups, name)().droplevel(0).sort_index()
    agree(ours(frame, name, column, window), wanted)


@pytest.mark.parametrize("method", ["average", "min", "max"])
@pytest.mark.parametrize("descending", [True, False])
def test_ranks_of_pandas(method: Any, descending: bool) -> None:
    frame = table(2)
    groups = frame.groupby("key").x.rolling(WINDOW, min_periods=1)
    wanted = groups.rank(method, ascending=not descending, pct=True).droplevel(0).sort_index()
    agree(ours(frame, f"rank('{method}', descending={descending}, pct=True)"), wanted)


@pytest.mark.parametrize("method", ["linear", "lower", "higher", "nearest", "midpoint"])
@pytest.mark.parametrize("q", [0.0, 0.3, 0.5, 1.0])
def test_quantiles_of_pandas(method: Any, q: float) -> None:
    frame = table(3)
    groups = frame.groupby("key").x.rolling(WINDOW, min_periods=1)
    wanted = groups.quantile(q, method).droplevel(0).sort_index()
    agree(ours(frame, f"quantile({q}, '{method}')"), wanted)


@pytest.mark.parametrize("name", ["cov", "corr"])
def test_pairs_of_pandas(name: str) -> None:
    frame = table(4)
    for key, rows in frame.groupby("key"):
        wanted = getattr(rows.n.astype(float).rolling(WINDOW, min_periods=1), name)(rows.y)
        found = pd.Series(ours(frame, name, ("n", "y")))[frame.key == key]
        agree(list(found), wanted)


def test_decayed_means_of_pandas() -> None:
    frame = table(5)
    for key, rows in frame.groupby("key"):
        wanted = rows.x.ewm(halflife="30s", times=rows.ts).mean()
        found = pd.Series(ours(frame, "decayed_mean('30s')", ("ts", "x"), len(frame)))
        agree(list(found[frame.key == key]), wanted)


POLARS: dict[str, Callable[[pl.Expr], pl.Expr]] = {
    "sum": lambda x: x.rolling_sum(WINDOW, min_samples=1),
    "mean": lambda x: x.rolling_mean(WINDOW, min_samples=1),
    "min": lambda x: x.rolling_min(WINDOW, min_samples=1),
    "max": lambda x: x.rolling_max(WINDOW, min_samples=1),
    "std": lambda x: x.rolling_std(WINDOW, min_samples=1),
    "var": lambda x: x.rolling_var(WINDOW, min_samples=1),
    "median": lambda x: x.rolling_median(WINDOW, min_samples=1),
    "quantile(0.3, 'lower')": lambda x: x.rolling_quantile(0.3, "lower", WINDOW, min_samples=1),
    "skewness": lambda x: x.rolling_skew(WINDOW, min_samples=1),
    "skew": lambda x: x.rolling_skew(WINDOW, bias=False, min_samples=1),
    "kurtosis": lambda x: x.rolling_kurtosis(WINDOW, min_samples=1),
    "rank('min')": lambda x: x.rolling_rank(WINDOW, "min", min_samples=1),
}


@pytest.mark.parametrize("name", POLARS)
def test_polars(name: str) -> None:
    frame = pl.from_pandas(table(6))
    wanted = frame.select(POLARS[name](pl.col("y")).over("key")).to_series()
    agree(ours(frame, name, "y"), wanted.fill_null(float("nan")))


#: What DuckDB's windows say, and the same by our name and columns.
DUCKDB: dict[str, tuple[str, Any]] = {
    "var_samp(y)": ("var_samp", "y"),
    "var_pop(y)": ("var_pop", "y"),
    "stddev_pop(y)": ("stddev_pop", "y"),
    "skewness(y)": ("skew", "y"),
    "kurtosis(y)": ("kurt", "y"),
    "kurtosis_pop(y)": ("kurtosis", "y"),
    "covar_samp(y, n)": ("covar_samp", ("y", "n")),
    "covar_pop(y, n)": ("covar_pop", ("y", "n")),
    "corr(y, n)": ("corr", ("y", "n")),
    **{
        f"regr_{each}(y, n)": (f"regr_{each}", ("y", "n"))
        for each in ("slope", "intercept", "r2", "avgx", "avgy", "count", "sxx", "sxy", "syy")
    },
    "median(x)": ("median", "x"),
    "quantile_cont(x, 0.3)": ("quantile(0.3)", "x"),
    "quantile_disc(x, 0.3)": ("quantile_disc(0.3)", "x"),
    "count(DISTINCT x)": ("nunique", "x"),
    "count(DISTINCT word)": ("nunique", "word"),
    "sum(DISTINCT x)": ("sum_distinct", "x"),
    "sum(DISTINCT n)": ("sum_distinct", "n"),
    "entropy(word)": ("entropy", "word"),
    "entropy(n)": ("entropy", "n"),
    "count_if(flag)": ("count_if", "flag"),
    "bool_and(flag)": ("bool_and", "flag"),
    "bool_or(flag)": ("bool_or", "flag"),
    "bit_and(n)": ("bit_and", "n"),
    "bit_or(n)": ("bit_or", "n"),
    "bit_xor(n)": ("bit_xor", "n"),
    "product(y)": ("product", "y"),
    "arg_max(n, y)": ("arg_max", ("n", "y")),
    "arg_min(n, y)": ("arg_min", ("n", "y")),
    "first(word)": ("first", "word"),
    "last(n)": ("last", "n"),
    "nth_value(n, 3)": ("nth_value(3)", "n"),
    "max(y, 2)": ("top_k(2)", "y"),
    "min(y, 3)": ("bottom_k(3)", "y"),
    "string_agg(word, '-')": ("string_agg('-')", "word"),
    "list(n)": ("list", "n"),
}


@pytest.mark.parametrize("sql", DUCKDB)
def test_duckdb(sql: str) -> None:
    duckdb = pytest.importorskip("duckdb", reason="the oracle DuckDB is not installed")
    frame = table(7)
    rows = f"ROWS BETWEEN {WINDOW - 1} PRECEDING AND CURRENT ROW"
    query = f"SELECT {sql} OVER (PARTITION BY key ORDER BY ts {rows}) FROM frame ORDER BY ts"
    wanted = [row[0] for row in duckdb.sql(query).fetchall()]
    name, columns = DUCKDB[sql]
    found = [None if value is pd.NA else value for value in ours(frame, name, columns)]
    if any(isinstance(value, (list, np.ndarray)) for value in wanted):
        for one, other in zip(found, wanted, strict=True):
            agree(list(one), other)
    else:
        agree(found, wanted)


def test_what_pandas_has_beside_rolling() -> None:
    """Its ``rolling.sem`` divides by the root of n - 1, unlike its ``Series.sem`` and scipy."""
    frame = table(8)
    agree(ours(frame, "lag(2)"), frame.groupby("key").x.shift(2))
    groups = frame.groupby("key").n.rolling(WINDOW, min_periods=1)
    wanted = groups.apply(lambda v: v.mode().min()).droplevel(0).sort_index()
    agree(ours(frame, "mode", "n"), wanted)
    agree(ours(frame, "sem", "n"), groups.apply(lambda v: v.sem()).droplevel(0).sort_index())
