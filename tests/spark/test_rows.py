"""Canonical order, keys and times, whole columns at a time."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from mta.errors import InvalidTime, InvalidValue
from spark_integration.errors import NullKey
from spark_integration.step.rows import complete, sort_rows, to_micros
from tests.support.spark.plans import make_plan

UTC = dt.UTC


def table(**columns: Any) -> pa.Table:
    size = len(next(iter(columns.values()), []))
    given = {"device": ["d"] * size, "ts": list(range(size)), "watts": [0.0] * size, **columns}
    return pa.table(given)


def test_any_order_of_the_rows_gives_the_same_order() -> None:
    rng = np.random.default_rng(3)
    rows = table(
        device=[f"d{i}" for i in rng.integers(0, 5, 300)],
        ts=rng.integers(0, 20, 300),
        watts=rng.integers(0, 4, 300).astype(float),
        site=[f"s{i}" for i in rng.integers(0, 2, 300)],
    )
    plan = make_plan()
    expected = sorted(map(tuple, (r.values() for r in rows.to_pylist())))
    for seed in range(5):
        shuffled = rows.take(np.random.default_rng(seed).permutation(300))
        group = sort_rows(shuffled, plan)
        assert sorted(map(tuple, (r.values() for r in group.rows.to_pylist()))) == expected
        for i, name in enumerate(group.names):
            mine = group.rows.slice(group.bounds[i], group.bounds[i + 1] - group.bounds[i])
            assert [tuple(r.values()) for r in mine.to_pylist()] == [
                row for row in expected if row[0] == name[2:]
            ]


def test_times_too_far_apart_for_one_number_are_sorted_as_well() -> None:
    big = 9_000_000_000_000
    rows = table(device=["a", "b", "a", "b"], ts=[big, 0, -big, big], watts=[1.0, 2.0, 3.0, 4.0])
    group = sort_rows(rows, make_plan())
    assert group.rows.column("watts").to_pylist() == [3.0, 1.0, 2.0, 4.0]


def test_no_rows() -> None:
    group = sort_rows(table(), make_plan())
    assert (group.keys, group.bounds, group.rows.num_rows) == ([], [0], 0)


def test_nested_columns_to_keep_do_not_disturb_the_order() -> None:
    rows = table(ts=[1, 1, 0], watts=[2.0, 1.0, 0.0], more=[[1], [2], [3]])
    assert sort_rows(rows, make_plan()).rows.column("more").to_pylist() == [[3], [2], [1]]


@pytest.mark.parametrize(
    ("values", "kind", "names"),
    [
        (["a b", "ok-1"], pa.string(), ["x:", "k:ok-1"]),
        ([-5, 7], pa.int32(), ["k:-5", "k:7"]),
        ([True, False], pa.bool_(), ["k:True", "k:False"]),
        ([b"\x00", b"\xff"], pa.binary(), ["x:", "x:"]),
        ([dt.date(2024, 1, 2), dt.date(1960, 1, 1)], pa.date32(), ["k:19724", "k:-3653"]),
        ([Decimal("1.50"), Decimal("-2.00")], pa.decimal128(9, 2), ["k:1.50", "k:-2.00"]),
        ([dt.datetime(1970, 1, 1, 0, 0, 1)], pa.timestamp("us"), ["k:1000000"]),
        ([0.5, float("inf")], pa.float64(), ["k:0.5", "k:inf"]),
        (["x" * 33], pa.string(), ["x:"]),
        (["", "ü"], pa.string(), ["x:", "x:"]),
    ],
)
def test_keys_of_any_atomic_type(values: list[Any], kind: pa.DataType, names: list[str]) -> None:
    group = sort_rows(table(device=pa.array(values, kind)), make_plan())
    assert len(set(group.keys)) == len(set(group.names)) == len(values)
    for name, expected in zip(group.names, names, strict=True):
        assert name == expected if expected != "x:" else name.startswith("x:")


def test_both_zeros_are_one_key() -> None:
    assert len(sort_rows(table(device=[0.0, -0.0]), make_plan()).keys) == 1


def test_keys_of_several_columns_do_not_run_together() -> None:
    rows = table(device=["a", "ab", "a", "ab"], site=["bc", "c", "bc", "c"])
    group = sort_rows(rows, make_plan(keys=("device", "site")))
    assert len(set(group.keys)) == len(set(group.names)) == 2
    assert group.bounds == [0, 2, 4]


@pytest.mark.parametrize(
    ("column", "micros"),
    [
        (pa.array([1, -2], pa.int64()), [1_000_000, -2_000_000]),
        (pa.array([1.5, -0.25]), [1_500_000, -250_000]),
        (pa.array([dt.date(1970, 1, 2)]), [86_400_000_000]),
        (pa.array([dt.datetime(1970, 1, 1, 0, 0, 1)]), [1_000_000]),
        (pa.array([5], pa.timestamp("us", "Europe/Berlin")), [5]),
        (pa.array([Decimal("1.25")], pa.decimal128(9, 2)), [1_250_000]),
        (pa.array([], pa.int64()), []),
    ],
)
def test_times(column: pa.Array, micros: list[int]) -> None:
    assert to_micros(pa.chunked_array([column]), "ts").tolist() == micros


@pytest.mark.parametrize("value", [10**16, 1e16, -(10**16)])
def test_times_beyond_the_range_are_named(value: float) -> None:
    with pytest.raises(InvalidTime, match="divide it down to seconds"):
        to_micros(pa.chunked_array([[value]]), "ts")


@pytest.mark.parametrize(
    ("column", "error"), [("device", NullKey), ("ts", InvalidTime), ("watts", InvalidValue)]
)
def test_nulls_are_named_or_dropped(column: str, error: type[Exception]) -> None:
    rows = table(device=["a", "b", "c"], ts=[1, 2, 3], watts=[1.0, 2.0, 3.0])
    values = rows.column(column).to_pylist()
    rows = rows.set_column(rows.column_names.index(column), column, [[values[0], None, values[2]]])
    with pytest.raises(error, match=f"1 of 3 rows.*{column!r}"):
        complete(rows, make_plan())
    assert complete(rows, make_plan(invalid="drop")).num_rows == 2


def test_a_time_of_nan_is_no_time() -> None:
    rows = table(ts=[0.5, float("nan"), float("inf")])
    with pytest.raises(InvalidTime, match="2 of 3 rows"):
        complete(rows, make_plan())
    assert complete(rows, make_plan(invalid="drop")).num_rows == 1
