"""Results of plain Python objects come back as they are, and values go in as they are."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from mta import (
    ArgMin,
    Collect,
    CountWindow,
    First,
    Last,
    Max,
    Mean,
    Min,
    Monoid,
    Product,
    Sum,
    Window,
)
from mta.aggregations import (
    CheckedSum,
    CollectDistinct,
    Decimals,
    FirstText,
    LastText,
    MaxText,
    MinText,
)
from mta.algorithms import AmortizedMTA, FiBA
from mta.columns.reading import is_missing, missing, read_column, read_value
from mta.columns.schemas import Array
from mta.errors import InvalidValue
from mta.logs.base import Aggregator

NEWEST = Monoid(identity=None, combine=lambda a, b: a if b is None else b, name="newest")
TOTAL = Monoid(identity=0, combine=lambda a, b: a + b, name="total")
BEYOND = 2**53 + 1


def one_by_one(monoid: Any, values: list[Any], size: int) -> list[Any]:
    window = Window(monoid, CountWindow(size), store=None)
    results = []
    for value in values:
        window.insert(value)
        results.append(window.query())
    return results


def alike(one: Any, other: Any) -> bool:
    return type(one) is type(other) and repr(one) == repr(other)


MIXED: dict[str, list[Any]] = {
    "on both sides of 2^63": [BEYOND, 2**63, -1, 2**64 - 1, BEYOND],
    "beyond 2^63": [2**63, 2**63 + 1, 2**64 - 1], "beyond 2^64": [2**64 + 1, 5, -(2**70)],
    "the ends of int64": [2**63 - 1, -(2**63), 0, BEYOND], "int and float": [BEYOND, 0.5, 2],
    "bool and int": [True, 2, False], "bool": [True, False], "float and -0.0": [-0.0, 0.0, 1e300],
    "decimals": [Decimal("0.1"), Decimal("1e40"), Decimal("-0")], "fractions": [Fraction(1, 3), 2],
    "texts": ["", "a", "abc" * 50], "bytes": [b"", b"\0", b"ab\0"], "tuples": [(1, 2), (3, 4)],
    "ragged": [[1], [2, 3], []], "lists alike": [[1, 2], [3, 4]], "dictionaries": [{"a": 1}, {}],
    "dates": [datetime.date(2024, 1, 1), datetime.datetime(2024, 1, 1, 12)],
    "complex": [1j, 2 + 0j],
}  # fmt: skip


@pytest.mark.parametrize("name", MIXED)
@pytest.mark.parametrize("step", [1, 2, 100])
def test_a_batch_gives_what_single_events_give(name: str, step: int) -> None:
    values = MIXED[name]
    window = Window(NEWEST, CountWindow(2), store=None)
    found: list[Any] = []
    for at in range(0, len(values), step):
        found += window.extend(values[at : at + step]).tolist()
    expected = one_by_one(NEWEST, values, 2)
    assert all(map(alike, found, expected)) and len(found) == len(expected), (found, expected)
    assert all(map(alike, found, values))


@pytest.mark.parametrize("size", [1, 2, 4])
def test_sums_of_integers_are_exact_whatever_they_are_beside(size: int) -> None:
    values = [BEYOND, 2**63, -(2**63), -BEYOND, 2**64, BEYOND, -(2**64)]
    found = Window(TOTAL, CountWindow(size)).extend(values).tolist()
    expected = [sum(values[max(0, i - size + 1) : i + 1]) for i in range(len(values))]
    assert found == expected and all(map(alike, found, one_by_one(TOTAL, values, size)))


def test_numbers_of_one_kind_are_an_array_of_numbers() -> None:
    def dtype(values: list[Any]) -> str:
        found: np.ndarray = Window(NEWEST, CountWindow(1)).extend(values)
        return found.dtype.str

    assert dtype([1, 2**63 - 1, -(2**63)]) == "<i8"
    assert dtype([1.5, 2.0]) == "<f8"
    assert dtype([True, False]) == "|b1"
    assert dtype([1, 2**63]) == dtype([1, 2.0]) == dtype([True, 1]) == dtype(["a"]) == "|O"


SCALARS = [np.float64(0.5), np.int64(2**62), np.uint64(2**63 + 1), np.bool_(True), np.str_("ab"),
           np.float32(0.1), np.array(7), pa.scalar(5), pa.scalar("x")]  # fmt: skip


@pytest.mark.parametrize("value", SCALARS, ids=repr)
def test_scalars_go_in_as_python_values(value: Any) -> None:
    """So that sums neither wrap nor warn, and are the same after a restore."""
    python = value.as_py() if hasattr(value, "as_py") else value.item()
    for monoid in (NEWEST, Collect()):
        assert alike(monoid.row(value), python)
        rows, _ = monoid.rows([value, "beside", value])
        assert alike(rows[0], python) and alike(rows[2], python)
    window = Window(Collect(), CountWindow(4), name="w")
    window.extend([value, value])
    assert alike(window.restore_like(window.checkpoint()).query(), [python, python])


def test_numpys_results_come_as_python_values() -> None:
    """What a combine makes with numpy is the same from a batch as from a query."""
    roots = Monoid(identity=0.0, combine=lambda a, b: np.float64(a) + b, name="numpy's")
    batch = Window(roots, CountWindow(2), store=None).extend([0.5, 1.5, 2.0])
    assert batch.dtype == np.float64
    assert all(map(alike, batch.tolist(), [0.5, 2.0, 3.5]))
    pairs = roots.results([np.int64(1), 2**63, np.str_("a")])
    assert all(map(alike, pairs, [1, 2**63, "a"]))


@pytest.mark.parametrize(
    ("batch", "found"),
    [
        ([BEYOND, 1.0], [BEYOND, 1]),
        ([BEYOND, True], [BEYOND, 1]),
        ([BEYOND, Decimal(2)], [BEYOND, 2]),
        ([np.uint64(BEYOND), np.int64(-1)], [BEYOND, -1]),
        (pd.Series([BEYOND, 1], dtype="Int64"), [BEYOND, 1]),
        (np.array([2.0**62]), [2**62]),
        ([2**63 - 1, -(2**63)], [2**63 - 1, -(2**63)]),
    ],
)
def test_integers_are_read_one_by_one(batch: Any, found: list[int]) -> None:
    assert read_column(batch, Array("i8")).tolist() == found


@pytest.mark.parametrize(
    "batch",
    [[BEYOND, 0.5], [1, None], [2**63, -1], [2**63], np.array([2.0**63]), np.array([2**63], "u8"),
     [1.0, float("nan")], [1, Decimal("0.5")], [1.0, float("inf")], ["1", 2], [1j, 1]],
)  # fmt: skip
def test_what_is_no_integer_is_refused(batch: Any) -> None:
    with pytest.raises(InvalidValue):
        read_column(batch, Array("i8"))
    window = Window(Sum("int64"), CountWindow(3))
    with pytest.raises(InvalidValue):
        window.extend(batch)
    assert len(window) == 0


# --- nulls and NaNs -------------------------------------------------------------------------------

MISSING = [None, float("nan"), np.float64("nan"), np.float32("nan"), Decimal("NaN"),
           Decimal("sNaN"), pd.NA, pd.NaT]  # fmt: skip
TIMES = [np.datetime64("NaT"), np.timedelta64("NaT")]
OTHER_NANS = [complex("nan"), np.complex128(complex(0, float("nan"))), pa.scalar(None, pa.int64())]


@pytest.mark.parametrize("value", [*MISSING, *TIMES, *OTHER_NANS], ids=repr)
@pytest.mark.parametrize("monoid", [NEWEST, Collect(), CollectDistinct()], ids=repr)
def test_what_is_missing_among_objects(value: Any, monoid: Monoid) -> None:
    one, batch = monoid.row(value), monoid.rows(["a", value, 5])[0]
    assert is_missing(one) and not monoid.is_valid(one)
    mask = monoid.invalid(batch, 3)
    assert mask is not None and mask.tolist() == [False, True, False]
    window = Window(monoid, CountWindow(3), store=None, nulls="drop_row")
    window.extend(["a", value, 5])
    assert len(window) == 2 and window.stats().invalid == 1


def test_what_is_missing_among_times() -> None:
    for value in (None, pd.NaT, np.datetime64("NaT"), pd.NA):
        assert np.isnat(read_value(value, Array("M8[us]")))
    column = read_column([None, np.datetime64("2024-01-01", "us")], Array("M8[us]"))
    assert np.isnat(column).tolist() == [True, False]


def test_times_are_not_changed() -> None:
    last = Window(Last("M8[us]"), CountWindow(1))
    for bad in (np.array(["2024-01-01T00:00:00.000000001"], "M8[ns]"),
                np.array([300000 - 1970], "M8[Y]"), [1, 2], [1.5]):  # fmt: skip
        with pytest.raises(InvalidValue):
            last.extend(bad)
    assert last.extend(np.array(["2024-01-01"], "M8[ns]")).tolist() == [
        datetime.datetime(2024, 1, 1)
    ]
    times = np.array(["2024-01-01"], "M8[ns]")
    kept = Window(Collect(), CountWindow(1), store=None).extend(times)
    assert kept[0] == [times[0]], "not the number of nanoseconds"


@pytest.mark.parametrize("value", ["nan", "", b"", 0, 0.0, False, (), [], {}, float("inf"), "NaT"])
def test_what_is_not_missing(value: Any) -> None:
    assert not is_missing(value) and missing([value, value]) is None


# --- what can go into a page ----------------------------------------------------------------------


def test_only_what_is_smaller_than_the_type_overflows_and_nothing_warns(
    recwarn: pytest.WarningsRecorder,
) -> None:
    window = Window(Sum("f4"), CountWindow(2))
    window.insert(1e300)
    assert window.query() == float("inf")
    assert window.extend([1e300, -1e300])[0] == float("inf")
    assert not recwarn.list


# --- types ----------------------------------------------------------------------------------------

EXACT_KINDS: dict[str, tuple[Any, list[Any]]] = {
    "int64": ("int64", [BEYOND, BEYOND - 1, BEYOND + 1, -BEYOND, 3]),
    "decimals": (Decimals(2), [Decimal(d) for d in ("0.10", "0.2", "-90071992547409.93", "7")]),
}


@pytest.mark.parametrize("kind", EXACT_KINDS)
@pytest.mark.parametrize("nulls", ["raise", "skip"])
@pytest.mark.parametrize("aggregator", [AmortizedMTA, FiBA])
def test_results_of_a_type_are_exact_on_every_way(
    kind: str, nulls: Any, aggregator: type[Aggregator]
) -> None:
    dtype, values = EXACT_KINDS[kind]
    makes: dict[str, tuple[Any, Callable[[list[Any]], Any]]] = {
        "sum": (CheckedSum(dtype), sum),
        "least": (Min(dtype), min),
        "most": (Max(dtype), max),
        "first": (First(dtype), lambda window: window[0]),
        "last": (Last(dtype), lambda window: window[-1]),
    }
    for monoid, right in makes.values():
        expected = [right(values[max(0, at - 2) : at + 1]) for at in range(len(values))]
        window = Window(monoid, CountWindow(3), name="w", aggregator=aggregator, leaf_arity=2,
                        arity=2, nulls=nulls)  # fmt: skip
        batch = window.extend(values, range(len(values)))
        assert batch.tolist() == expected
        window = window.restore_like(window.checkpoint())
        assert window.query() == expected[-1] and type(window.query()) is type(expected[-1])
        single = Window(monoid, CountWindow(3), aggregator=aggregator, nulls=nulls)
        for at, value in enumerate(values):
            single.insert(value, at)
            assert single.query() == expected[at]


def test_an_empty_window_of_a_type() -> None:
    for make in (Min, Max, First, Last, ArgMin):
        assert Window(make("int64"), CountWindow(1), nulls="skip").query() is None
        assert Window(make(Decimals(1)), CountWindow(1)).query() is None
    assert Window(CheckedSum(Decimals(1)), CountWindow(1)).query() == Decimal(0)


@pytest.mark.parametrize("make", [Sum, Min, Max, First, Last])
@pytest.mark.parametrize("value", [BEYOND, 2**63 + 1, -(2**64) - 1, Decimal("0.1"), 10**400])
def test_doubles_that_nobody_asked_for_round_nothing(make: Any, value: Any) -> None:
    refused = "is (not a double|a decimal): pass the type"
    window = Window(make(), CountWindow(2), store=None)
    if isinstance(value, Decimal) and make is not Sum:  # the first decimals give the type
        window.insert(value)
        assert window.query() == value
        window = Window(make(), CountWindow(2), store=None)
        window.insert(0.5)
        for call in (lambda: window.insert(value), lambda: window.extend([1, value])):
            with pytest.raises(InvalidValue, match=refused):
                call()
        return
    arrays = [np.array([1, value], "u8")] if value in (BEYOND, 2**63 + 1) else []
    for batch in ([value], [0.5, value], [1, value], np.array([value], object), *arrays):
        with pytest.raises(InvalidValue, match=refused):
            window.extend(batch)
    with pytest.raises(InvalidValue, match=refused):
        window.insert(value)
    assert len(window) == 0
    with pytest.raises(InvalidValue, match="is a decimal: pass the type"):
        window.extend([0.5, Decimal("0.5")])
    window.extend([BEYOND - 1, 2**60])
    if value != 10**400:
        Window(make("float64"), CountWindow(2), store=None).insert(value)


def test_a_product_refuses_what_one_of_its_parts_would_round() -> None:
    mean, top = ("v", Mean()), ("v", Max())
    for both in ({"mean": mean, "top": top}, {"top": top, "mean": mean}):
        with pytest.raises(InvalidValue, match="is not a double"):
            Window(Product(both), CountWindow(2)).insert({"v": BEYOND})
    Window(Product({"mean": mean}), CountWindow(2)).insert({"v": BEYOND})


def test_decimals_take_no_more_places_and_no_floats() -> None:
    window = Window(Max(Decimals(2)), CountWindow(2))
    for bad in (Decimal("0.125"), 0.5, None, Decimal("NaN"), Decimal("Infinity"), 10**17, "1"):
        with pytest.raises(InvalidValue, match=r"Decimals\(2\)"):
            window.insert(bad)
    window.extend([Decimal("0.50"), 7, np.int32(3)])
    assert window.query() == Decimal(7)


@pytest.mark.parametrize("values", [["b", "a", "é", "a"], [b"x", b"", b"y"], [2**70, 1, -5]])
def test_text_is_chosen_from(values: list[Any]) -> None:
    choices: list[tuple[Monoid, Callable[[list[Any]], Any]]] = [
        (MinText(), min), (MaxText(), max),
        (FirstText(), lambda window: window[0]), (LastText(), lambda window: window[-1]),
    ]  # fmt: skip
    for monoid, right in choices:
        window = Window(monoid, CountWindow(2), name="w")
        assert window.query() is None
        expected = [right(values[max(0, at - 1) : at + 1]) for at in range(len(values))]
        assert window.extend(values).tolist() == expected
        assert window.restore_like(window.checkpoint()).query() == expected[-1]
