"""Canonical order, keys and times, whole columns at a time."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from mta.errors import InvalidTime, InvalidValue, ResultOutOfRange, UnsuitableKey
from spark_integration.errors import NullKey
from spark_integration.plan import Plan
from spark_integration.step.columns import (
    NO_TIME,
    as_input,
    from_micros,
    key_columns,
    to_arrow,
    to_micros,
    to_values,
)
from spark_integration.step.rows import Sorted, complete
from spark_integration.step.rows import sort_rows as sort_complete
from tests.support.spark.states import changed, make_plan

UTC = dt.UTC


def table(**columns: Any) -> pa.Table:
    size = len(next(iter(columns.values()), []))
    given = {"device": ["d"] * size, "ts": list(range(size)), "watts": [0.0] * size, **columns}
    return pa.table(given)


def sort_rows(rows: pa.Table, plan: Plan) -> Sorted:
    return sort_complete(complete(rows, plan), plan)


def keys(group: Sorted) -> list[Any]:
    return [group.keys.at(place) for place in range(len(group.keys))]


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
        for i, key in enumerate(keys(group)):
            mine = group.rows.slice(group.bounds[i], group.bounds[i + 1] - group.bounds[i])
            assert [tuple(r.values()) for r in mine.to_pylist()] == [
                row for row in expected if row[0] == key
            ]


def test_times_too_far_distant_for_one_number_are_sorted_as_well() -> None:
    big = 4_000_000_000_000
    rows = table(device=["a", "b", "a", "b"], ts=[big, 0, -big, big], watts=[1.0, 2.0, 3.0, 4.0])
    group = sort_rows(rows, make_plan(time_unit="s"))
    by_key = sorted(group.rows.to_pylist(), key=lambda row: row["device"])
    assert [row["watts"] for row in by_key] == [3.0, 1.0, 2.0, 4.0]


def test_no_rows() -> None:
    group = sort_rows(table(), make_plan())
    assert (keys(group), group.bounds.tolist(), group.rows.num_rows) == ([], [0], 0)


def test_nested_columns_to_keep_do_not_disturb_the_order() -> None:
    rows = table(ts=[1, 1, 0], watts=[2.0, 1.0, 0.0], more=[[1], [2], [3]])
    assert sort_rows(rows, make_plan()).rows.column("more").to_pylist() == [[3], [2], [1]]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["a b", "ok-1", "", "ü", "x" * 33], pa.string()),
        ([-5, 7], pa.int32()),
        ([True, False], pa.bool_()),
        ([b"\x00", b"\xff"], pa.binary()),
        ([dt.date(2024, 1, 2), dt.date(1960, 1, 1)], pa.date32()),
        ([Decimal("1.50"), Decimal("-2.00")], pa.decimal128(9, 2)),
        ([dt.datetime(1970, 1, 1, 0, 0, 1)], pa.timestamp("us")),
        ([0.5, float("inf")], pa.float64()),
    ],
)
def test_keys_of_any_atomic_type(values: list[Any], kind: pa.DataType) -> None:
    group = sort_rows(table(device=pa.array(values, kind)), make_plan())
    assert len(set(keys(group))) == len(values)
    found = key_columns(keys(group), [kind])[0].to_pylist()
    assert sorted(found) == sorted(values)
    assert [
        found[i] for i in np.searchsorted(group.bounds, range(len(values)), side="right") - 1
    ] == group.rows.column("device").to_pylist()


def test_a_key_that_is_too_long_is_named() -> None:
    with pytest.raises(UnsuitableKey, match="has 1028 bytes; a key has at most 1024"):
        sort_rows(table(device=["a", "x" * 1028]), make_plan())


def test_a_key_of_nan_is_null() -> None:
    rows = table(device=[0.5, float("nan")])
    with pytest.raises(NullKey, match="1 of 2 rows"):
        complete(rows, make_plan())
    assert keys(sort_rows(rows, make_plan(on_invalid="drop"))) == [0.5]


def test_both_zeros_are_one_key() -> None:
    assert len(sort_rows(table(device=[0.0, -0.0]), make_plan()).keys) == 1


def test_keys_of_several_columns_do_not_run_together() -> None:
    rows = table(device=["a", "ab", "a", "ab"], site=["bc", "c", "bc", "c"])
    group = sort_rows(rows, make_plan(by=("device", "site")))
    assert len(set(keys(group))) == 2
    assert group.bounds.tolist() == [0, 2, 4]


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
    assert to_micros(pa.chunked_array([column])).tolist() == micros
    assert from_micros(np.array(micros, "i8"), column.type).equals(column)


#: The first time that is one, in microseconds.
FIRST = 1 - (1 << 62)


@pytest.mark.parametrize(
    ("kind", "values", "good"),
    [
        (pa.timestamp("us", "UTC"), [-(2**63), -(2**62), FIRST, -FIRST, 2**62, 2**63 - 1], [2, 3]),
        (pa.timestamp("us"), [-(2**63), FIRST, 2**63 - 1], [1]),
        (pa.date32(), [-(2**31), -53_375_995, 0, 53_375_995, 2**31 - 1], [1, 2, 3]),
        (pa.int64(), [-(2**63), -(2**62 // 10**6), 2**62 // 10**6, 2**63 - 1, 10**16], [1, 2]),
        (pa.int32(), [-(2**31), 2**31 - 1], [0, 1]),
        (pa.float64(), [-(2.0**63), -4.6e12, 4.6e12, 4.7e12, 1e300, -1e16], [1, 2]),
        (pa.float64(), [float("nan"), float("inf"), -float("inf"), -0.0], [3]),
        (pa.float32(), [3e38, 4.5e12], [1]),
        (pa.decimal128(38, 0), [-(2**63), -(2**62 // 10**6), 0, 10**37, 2**64 + 5], [1, 2]),
    ],
)
def test_what_is_no_time_is_named_or_dropped_and_never_taken_for_1970(
    kind: pa.DataType, values: list[Any], good: list[int]
) -> None:
    """At both ends of each type; the lowest number is how NaT looks as a number."""
    whole = pa.types.is_temporal(kind)
    column = pa.array(
        values, pa.int32() if pa.types.is_date(kind) else pa.int64() if whole else kind
    )
    rows = table(ts=column.cast(kind), watts=[float(i) for i in range(len(values))])
    plan = make_plan(on_invalid="drop", time_unit="s")
    left = complete(rows, plan).rows
    assert left.column("watts").to_pylist() == good
    times = to_micros(left.column("ts")).tolist()
    unit = 86_400_000_000 if pa.types.is_date(kind) else 1 if whole else 1_000_000
    assert times == pytest.approx([values[i] * unit for i in good], rel=1e-6)
    if len(good) < len(values):
        bad = len(values) - len(good)
        with pytest.raises(InvalidTime, match=f"{bad} of {len(values)} rows.*146,000 years"):
            complete(rows, changed(plan, on_invalid="raise"))


@pytest.mark.parametrize(("unit", "micros"), [("s", 10**6), ("ms", 1000), ("us", 1), ("ns", 0.001)])
@pytest.mark.parametrize(
    "kind", [pa.int64(), pa.float64(), pa.decimal128(20, 0), pa.decimal128(38, 9)]
)
def test_numbers_of_a_stated_unit_are_times_and_come_back(
    kind: pa.DataType, unit: Any, micros: float
) -> None:
    moments = [0, -86_400_000_000, 1_700_000_000_000_000]
    column = pa.array([Decimal(int(moment / micros)) for moment in moments]).cast(kind)
    rows = table(ts=column, watts=[0.0, 1.0, 2.0])
    assert len(complete(rows, make_plan(time_unit=unit)).times) == 3
    found = to_micros(rows.column("ts"), unit)
    assert found.tolist() == moments
    assert from_micros(found, kind, unit).to_pylist() == column.to_pylist()


@pytest.mark.parametrize(("unit", "ticks"), [("ms", 10**3), ("us", 10**6), ("ns", 10**9)])
@pytest.mark.parametrize("kind", [pa.int64(), pa.float64(), pa.decimal128(20, 0)])
def test_numbers_that_count_no_seconds_are_refused_with_their_likely_unit(
    kind: pa.DataType, unit: str, ticks: int
) -> None:
    column = pa.array([0, 1_700_000_000 * ticks]).cast(pa.decimal128(20, 0)).cast(kind)
    rows = table(ts=column, watts=[0.0, 1.0])
    with pytest.raises(InvalidTime, match=f"1 of 2 rows.*2023-11-14T22:13:20.*'{unit}'"):
        complete(rows, make_plan())
    assert complete(rows, make_plan(on_invalid="drop")).rows.column("watts").to_pylist() == [0.0]


def decimals(kind: pa.DataType, values: Iterable[Decimal]) -> pa.ChunkedArray:
    """In two chunks, of which one does not begin where its buffer does."""
    whole = pa.array(values, kind)
    return pa.chunked_array([whole.slice(0, 3), whole.slice(3)])


def doubles_of(column: pa.ChunkedArray) -> Any:
    """The values that windows take."""
    return to_values(column, "watts", "skip", "propagate").values


@pytest.mark.parametrize("precision", range(1, 39))
def test_decimals_of_any_length_are_read_as_the_nearest_double(precision: int) -> None:
    draw = random.Random(precision)
    for scale in {0, min(precision, 6), precision // 2, precision}:
        ends = [10**precision - 1, 1 - 10**precision, 0, *(d * (2**53 + 1) for d in (1, -1))]
        digits = [d for d in ends if abs(d) < 10**precision]
        digits += [
            draw.randrange(10 ** draw.randint(1, precision)) * draw.choice([1, -1])
            for _ in range(200)
        ]
        values = [Decimal((d < 0, tuple(map(int, str(abs(d)))), -scale)) for d in digits]
        column = decimals(pa.decimal128(precision, scale), values)
        doubles = doubles_of(column)
        assert doubles.tolist() == [float(v) for v in values]
        # They come back as decimals of their type, the same ones where a double tells them apart.
        back = as_input(np.asarray(doubles), column.type).to_pylist()
        assert precision > 15 or back == values
        # As seconds they are exact to the microsecond.
        exact = [round(Fraction(v) * 1_000_000) for v in values]
        expected = [m if abs(m) < 2**62 else NO_TIME for m in exact]
        assert to_micros(column).tolist() == expected


def test_values_given_again_fit_their_type() -> None:
    """The double nearest to the largest number may be larger than any of its type."""
    for kind in (pa.int64(), pa.int32()):
        most = 2 ** (kind.bit_width - 1)
        back = as_input(np.array([float(most - 1), -float(most)]), kind).to_pylist()
        assert back[1] == -most
        assert 0 <= most - 1 - back[0] < 1024


def test_a_column_may_be_called_anything() -> None:
    """Also what rows with equal times were once sorted by."""
    for name in ("__run", "0", "1", "a.b", "`", " ", "__bucket"):
        rows = table(ts=[1, 1, 0], watts=[2.0, 1.0, 0.0]).append_column(name, [[3, 4, 5]])
        assert sort_rows(rows, make_plan()).rows.column(name).to_pylist() == [5, 4, 3]


@pytest.mark.parametrize(
    ("column", "error"), [("device", NullKey), ("ts", InvalidTime), ("watts", InvalidValue)]
)
def test_nulls_are_named_or_dropped(column: str, error: type[Exception]) -> None:
    rows = table(device=["a", "b", "c"], ts=[1, 2, 3], watts=[1.0, 2.0, 3.0])
    values = rows.column(column).to_pylist()
    rows = rows.set_column(rows.column_names.index(column), column, [[values[0], None, values[2]]])
    with pytest.raises(error, match=f"1 of 3 rows.*{column!r}"):
        complete(rows, make_plan(nulls="raise"))
    assert len(complete(rows, make_plan(on_invalid="drop", nulls="drop_row")).times) == 2


@pytest.mark.parametrize(
    ("results", "kind", "expected"),
    [
        (np.array([2**53 + 1]), pa.int64(), [2**53 + 1]),
        (np.array([2**53 + 1, 1.5, np.nan], object), pa.int64(), [2**53 + 1, 1, None]),
        (np.array([2**63 - 1], "u8"), pa.int64(), [2**63 - 1]),
        (np.array([-(2**63), 7], object), pa.int64(), [-(2**63), 7]),
        (np.array([1, -1]), pa.int8(), [1, -1]),
        (np.array([True, False]), pa.int64(), [1, 0]),
        (np.array([0, 2]), pa.bool_(), [False, True]),
        (np.array([2**60 + 1, 0.5], object), pa.float64(), [2.0**60, 0.5]),
        (np.array([1e300, -1e300, 1.0]), pa.float32(), [np.inf, -np.inf, 1.0]),
        (np.array([1.5, np.nan, -np.inf]), pa.float64(), [1.5, None, -np.inf]),
        (np.array([1.5, np.nan], object), pa.float64(), [1.5, None]),
        (np.array([[1.5, np.nan], None], object), pa.list_(pa.float64()), [[1.5, None], None]),
        (
            np.array(["NaT", "1970-01-02"], "M8[us]"),
            pa.timestamp("us"),
            [None, dt.datetime(1970, 1, 2)],
        ),
        (np.array([None, 5, "x"], object), pa.string(), [None, "5", "x"]),
        (np.array([], object), pa.int64(), []),
    ],
)
def test_results_as_columns(results: Any, kind: pa.DataType, expected: list[Any]) -> None:
    column = to_arrow(results, kind, "total")
    assert (column.type, column.to_pylist()) == (kind, expected)


@pytest.mark.parametrize(
    ("result", "kind"),
    [
        (np.array([2**63], "u8"), pa.int64()),
        (np.array([2**63], object), pa.int64()),
        (np.array([-(2**63) - 1], object), pa.int64()),
        (np.array([2.0**63]), pa.int64()),
        (np.array([1e300]), pa.int64()),
        (np.array([np.inf]), pa.int64()),
        (np.array([2**31]), pa.int32()),
        (np.array([128]), pa.int8()),
        (np.array([10**400], object), pa.float64()),
    ],
)
def test_a_result_that_its_column_cannot_hold_is_named(result: Any, kind: pa.DataType) -> None:
    with pytest.raises(ResultOutOfRange, match=r"a result of aggregation 'total' .*larger type"):
        to_arrow(result, kind, "total")
