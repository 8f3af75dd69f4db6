"""Every ready-made monoid against pandas or a naive oracle; laws, numerics, ties, NaN, and users'
own monoids.
"""

from __future__ import annotations

import math
import subprocess
import sys
import warnings
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mta import (
    AbstractMonoid,
    AmortizedMTA,
    ArgMax,
    ArgMin,
    Collect,
    ColumnarMonoid,
    Count,
    CountWindow,
    First,
    GeometricMean,
    Last,
    LogMTA,
    Max,
    MaxCount,
    Mean,
    Min,
    MinCount,
    Monoid,
    PopulationStdDev,
    Product,
    SampleStdDev,
    Sum,
    Window,
)
from mta.columns import codec
from mta.errors import InvalidValue, NotPageable
from tests.support.naive import AGGREGATORS

SIMPLE: dict[str, tuple[type[AbstractMonoid], Callable[[list[float]], float]]] = {
    "Count": (Count, len),
    "Sum": (Sum, math.fsum),
    "Min": (Min, min),
    "Max": (Max, max),
    "Mean": (Mean, lambda v: math.fsum(v) / len(v)),
    "GeometricMean": (GeometricMean, lambda v: math.exp(math.fsum(map(math.log, v)) / len(v))),
    "SampleStdDev": (SampleStdDev, lambda v: deviation(v, 1)),
    "PopulationStdDev": (PopulationStdDev, lambda v: deviation(v, 0)),
    "MinCount": (MinCount, lambda v: v.count(min(v))),
    "MaxCount": (MaxCount, lambda v: v.count(max(v))),
    "First": (First, lambda v: v[0]),
    "Last": (Last, lambda v: v[-1]),
}
PAIRED: dict[str, tuple[type[AbstractMonoid], Callable[[list[tuple[float, float]]], float]]] = {
    "ArgMin": (ArgMin, lambda pairs: min(pairs, key=lambda pair: pair[0])[1]),
    "ArgMax": (ArgMax, lambda pairs: max(pairs, key=lambda pair: pair[0])[1]),
}
EACH = pytest.mark.parametrize("name", SIMPLE)
EVERY = [*SIMPLE, *PAIRED, "Collect"]
EXACT = {"Count", "Min", "Max", "MinCount", "MaxCount", "First", "Last", "ArgMin", "ArgMax"}


def deviation(values: list[float], lost: int) -> float:
    """Exact up to the last square root."""
    if len(values) <= lost:
        return math.nan
    exact = [Fraction(value) for value in values]
    mean = sum(exact) / len(exact)
    return math.sqrt(sum((value - mean) ** 2 for value in exact) / (len(exact) - lost))


def made(name: str) -> AbstractMonoid:
    if name == "Collect":
        return Collect()
    return (SIMPLE.get(name) or PAIRED[name])[0]()


def paths(
    monoid: Callable[[], AbstractMonoid], events: list[Any], size: int, batch: Callable[..., Any]
) -> dict[str, Any]:
    """The results of every way to bring the events in, over small groups in a store."""
    results: dict[str, Any] = {}
    for aggregator in (AmortizedMTA, LogMTA):
        for arity in (2, 5):

            def window(aggregator: type = aggregator, arity: int = arity) -> Window:
                return Window(monoid(), CountWindow(size), arity=arity, aggregator=aggregator)

            label = f"{aggregator.__name__} {arity}"
            one = window()
            each = []
            for event in events:
                one.insert(event)
                each.append(one.query())
            results[f"{label} insert"] = each
            results[f"{label} all"] = list(window().extend(batch(events)))
            pieces, parts = window(), []
            for start in range(0, len(events), 7):
                parts.extend(pieces.extend(batch(events[start : start + 7])))
            results[f"{label} pieces"] = parts
            last = window()
            results[f"{label} last"] = [
                last.extend(batch(events[i : i + 3]), results="last")[0]
                for i in range(0, len(events), 3)
            ]
            one.check()
            last.check()
    return results


def wanted(label: str, expected: list[Any]) -> list[Any]:
    """What a path must give: all results, or that after each batch of three."""
    if not label.endswith("last"):
        return expected
    return [expected[min(i + 2, len(expected) - 1)] for i in range(0, len(expected), 3)]


def agree(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(
        np.array(found, dtype=float), np.array(expected, dtype=float), rtol=1e-12, atol=1e-12
    )


# --- results ------------------------------------------------------------------------------------


@EACH
@pytest.mark.parametrize("size", [1, 2, 5, 40])
def test_every_way_in_gives_the_naive_result(name: str, size: int) -> None:
    monoid, naive = SIMPLE[name]
    rng = np.random.default_rng(size)
    events = rng.choice([0.5, 1.0, 2.5, 3.0, 7.25, 11.0], 90).tolist()
    expected = [naive(events[max(0, i + 1 - size) : i + 1]) for i in range(len(events))]
    for label, found in paths(monoid, events, size, list).items():
        want = wanted(label, expected)
        if name in EXACT:
            assert list(found) == want, label
        else:
            agree(found, want)


@pytest.mark.parametrize("name", PAIRED)
@pytest.mark.parametrize("size", [1, 2, 5, 40])
def test_the_first_one_wins_a_tie(name: str, size: int) -> None:
    monoid, naive = PAIRED[name]
    keys = np.random.default_rng(size).choice([-1.0, 0.0, 2.0], 90).tolist()
    events = list(zip(keys, map(float, range(90)), strict=True))
    expected = [naive(events[max(0, i + 1 - size) : i + 1]) for i in range(len(events))]

    def columns(some: list[tuple[float, float]]) -> tuple[list[float], list[float]]:
        return [key for key, _ in some], [argument for _, argument in some]

    for label, found in paths(monoid, events, size, columns).items():
        assert list(found) == wanted(label, expected), label


PANDAS: dict[str, Callable[[Any], pd.Series]] = {
    "Count": lambda rolling: rolling.count(),
    "Sum": lambda rolling: rolling.sum(),
    "Min": lambda rolling: rolling.min(),
    "Max": lambda rolling: rolling.max(),
    "Mean": lambda rolling: rolling.mean(),
    "SampleStdDev": lambda rolling: rolling.std(),
    "PopulationStdDev": lambda rolling: rolling.std(ddof=0),
    "First": lambda rolling: rolling.apply(lambda v: v[0], raw=True),
    "Last": lambda rolling: rolling.apply(lambda v: v[-1], raw=True),
}


@pytest.mark.parametrize("name", PANDAS)
@pytest.mark.parametrize("size", [3, 12_000])
def test_large_windows_at_the_default_settings_equal_pandas(name: str, size: int) -> None:
    data = np.random.default_rng(1).normal(50, 10, 30_000)
    expected = PANDAS[name](pd.Series(data).rolling(size, min_periods=1)).to_numpy()
    window = Window(made(name), CountWindow(size))
    found = np.concatenate([window.extend(part) for part in np.array_split(data, 5)])
    # pandas adds and removes, so that its own deviations carry old errors along.
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=2e-9, equal_nan=True)


@pytest.mark.parametrize("form", [list, tuple, np.array, pd.Series, pa.array, pa.chunked_array])
def test_batches_in_every_form(form: Callable[[Any], Any]) -> None:
    data = [3.0, 1.0, 2.0, 5.0]
    given = pa.chunked_array([data[:1], data[1:]]) if form is pa.chunked_array else form(data)
    assert Window(Sum(), CountWindow(2)).extend(given).tolist() == [3.0, 4.0, 3.0, 7.0]
    collected = Window(Collect(), CountWindow(2)).extend(given)
    assert list(collected) == [[3.0], [3.0, 1.0], [1.0, 2.0], [2.0, 5.0]]


def test_collect_keeps_any_values_in_order() -> None:
    events = ["a", 1, None, (2, "b"), [3], b"c", 2**70]
    for aggregator in (AmortizedMTA, LogMTA):
        window = Window(Collect(), CountWindow(3), arity=2, aggregator=aggregator, invalid="accept")
        for i, event in enumerate(events):
            window.insert(event)
            assert window.query() == events[max(0, i - 2) : i + 1]


def test_empty_windows() -> None:
    nan = {"Min", "Max", "Mean", "GeometricMean", "SampleStdDev", "PopulationStdDev"}
    nan |= {"First", "Last", "ArgMin", "ArgMax"}
    for name in EVERY:
        window = Window(made(name), CountWindow(3))
        for _ in range(2):
            result = window.query()
            if name == "Collect":
                assert result == []
            elif name in nan:
                assert isinstance(result, float) and math.isnan(result)
            else:
                assert result == 0
            window.insert((1.0, 2.0) if name in PAIRED else 1.0)
            assert not (name != "SampleStdDev" and result == window.query())
            window.evict()
        assert len(window.extend(((), ()) if name in PAIRED else [])) == 0


@pytest.mark.parametrize(
    ("monoid", "empty"),
    [
        (Sum("int64"), 0),
        (Min("int64"), 2**63 - 1),
        (Max("int64"), -(2**63)),
        (First("int64"), 0),
        (Last("int64"), 0),
    ],
)
def test_integers_stay_exact(monoid: AbstractMonoid, empty: int) -> None:
    big = 2**60
    window = Window(monoid, CountWindow(3), arity=2)
    assert window.query() == empty
    events = [big + 1, big + 3, -(big + 7), big + 5, 2, 1]
    naive = {"Sum": sum, "Min": min, "Max": max, "First": lambda v: v[0], "Last": lambda v: v[-1]}
    oracle = naive[monoid.name.split("[")[0]]
    expected = [oracle(events[max(0, i - 2) : i + 1]) for i in range(len(events))]
    results = window.extend(np.array(events))
    assert results.dtype == np.int64 and results.tolist() == expected
    single = Window(monoid, CountWindow(3), arity=2)
    for event, result in zip(events, expected, strict=True):
        single.insert(event)
        assert single.query() == result and type(single.query()) is int


def test_arguments_of_other_types() -> None:
    days = np.array(["2024-01-03", "2024-01-01", "2024-01-02"], dtype="M8[us]")
    window = Window(ArgMax("M8[us]"), CountWindow(2), arity=2)
    assert window.extend(([1.0, 1.0, 0.5], days)).tolist() == days[[0, 0, 1]].tolist()
    exact = Window(ArgMin("int64"), CountWindow(2), arity=2)
    assert exact.extend(([2.0, 1.0, 1.0], [2**60 + 1, 2**60 + 3, 7])).tolist() == [
        2**60 + 1, 2**60 + 3, 2**60 + 3,
    ]  # fmt: skip


# --- numerics -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["SampleStdDev", "PopulationStdDev"])
@pytest.mark.parametrize("shift", [0.0, 1e9, -1e12])
def test_deviations_do_not_cancel(name: str, shift: float) -> None:
    monoid, naive = SIMPLE[name]
    events = (np.random.default_rng(3).integers(0, 16, 150) / 4 + shift).tolist()
    expected = np.array([naive(events[max(0, i - 49) : i + 1]) for i in range(len(events))])
    for aggregator in (AmortizedMTA, LogMTA):
        for arity in (2, 8):
            window = Window(monoid(), CountWindow(50), arity=arity, aggregator=aggregator)
            found = window.extend(events)
            # Rounding the mean costs eps * shift, far below a sum of squares' eps * shift ** 2.
            np.testing.assert_allclose(found, expected, rtol=1e-6 if shift else 1e-12, atol=1e-3)
            single = Window(monoid(), CountWindow(50), arity=arity, aggregator=aggregator)
            for event in events:
                single.insert(event)
            np.testing.assert_allclose(single.query(), expected[-1], rtol=1e-6, atol=1e-3)


@pytest.mark.parametrize("constant", [1e9, 0.1, -3e15, 1e-300])
def test_the_deviation_of_a_constant_is_zero(constant: float) -> None:
    window = Window(PopulationStdDev(), CountWindow(100), arity=4)
    found = window.extend([constant] * 500)
    assert (found <= abs(constant) * 1e-13).all() and (found >= 0).all()


def test_a_deviation_near_1e9_to_nine_digits() -> None:
    data = np.random.default_rng(5).normal(1e9, 1.0, 20_000)
    expected = pd.Series(data - 1e9).rolling(5000).std().to_numpy()[4999:]
    for results in (Window(SampleStdDev(), CountWindow(5000)).extend(data)[4999:],):
        np.testing.assert_allclose(results, expected, rtol=1e-6)


def test_geometric_mean_neither_overflows_nor_underflows() -> None:
    for value in (1e300, 1e-300):
        window = Window(GeometricMean(), CountWindow(1000))
        np.testing.assert_allclose(window.extend([value] * 3000), value, rtol=1e-10)
    window = Window(GeometricMean(), CountWindow(2))
    np.testing.assert_allclose(window.extend([1e300, 1e-300, 4.0, 0.0]), [1e300, 1, 2e-150, 0])


def test_no_error_survives_the_event_that_caused_it() -> None:
    for name in ("Sum", "Mean", "SampleStdDev", "PopulationStdDev"):
        window = Window(made(name), CountWindow(4), arity=2)
        found = window.extend([1e300, 1.0, 2.0, 3.0, 4.0])
        agree(found[-1], SIMPLE[name][1]([1.0, 2.0, 3.0, 4.0]))


def test_means_of_large_values() -> None:
    window = Window(Mean(), CountWindow(3), arity=2)
    agree(window.extend([1e15 + 1, 1e15 + 3, 1e15 + 5, 1e15 + 7])[2:], [1e15 + 3, 1e15 + 5])


def test_infinities_leave_no_trace() -> None:
    inf, nan = math.inf, math.nan
    events = [1.0, inf, 2.0, 3.0, -inf, inf, 4.0, 5.0, 6.0]
    expected = {
        "Sum": [1, inf, inf, 5, -inf, nan, inf, 9, 11],
        "Mean": [1, inf, inf, 2.5, -inf, nan, inf, 4.5, 5.5],
        "Min": [1, 1, 2, 2, -inf, -inf, 4, 4, 5],
        "Max": [1, inf, inf, 3, 3, inf, inf, 5, 6],
        "PopulationStdDev": [0, nan, nan, 0.5, nan, nan, nan, 0.5, 0.5],
        "MinCount": [1] * 9,
        "MaxCount": [1] * 9,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name, results_after in expected.items():
            found = paths(lambda name=name: made(name), events, 2, list)
            for label, results in found.items():
                want = wanted(label, results_after)
                np.testing.assert_array_equal(np.array(results, float), want, f"{name} {label}")


def test_extremes_at_infinity_count_and_have_arguments() -> None:
    assert Window(MaxCount(), CountWindow(3)).extend([-math.inf] * 2).tolist() == [1, 2]
    assert Window(MinCount(), CountWindow(3)).extend([math.inf] * 2).tolist() == [1, 2]
    worst = ([-math.inf, -math.inf], [7.0, 8.0])
    assert Window(ArgMax(), CountWindow(3)).extend(worst).tolist() == [7.0, 7.0]


# --- NaN and null -------------------------------------------------------------------------------


def with_nan(name: str) -> tuple[list[Any], Any]:
    events = [1.0, math.nan, 2.0, 3.0]
    if name in PAIRED:
        return [(event, 5.0) for event in events], (events, [5.0] * 4)
    return events, events


@pytest.mark.parametrize("name", [name for name in EVERY if name != "Count"])
def test_nan_is_refused_and_nothing_changes(name: str) -> None:
    events, batch = with_nan(name)
    window = Window(made(name), CountWindow(3), arity=2)
    window.insert(events[0])
    before = window.query()
    with pytest.raises(InvalidValue, match="invalid="):
        window.insert(events[1])
    with pytest.raises(InvalidValue, match="index 1"):
        window.extend(batch)
    assert window.query() == before or (before != before and window.query() != window.query())
    assert len(window) == window.stats().inserted == 1
    window.check()


@pytest.mark.parametrize("name", [name for name in EVERY if name != "Count"])
def test_nan_is_dropped_and_counted(name: str) -> None:
    events, batch = with_nan(name)
    one = Window(made(name), CountWindow(3), arity=2, invalid="drop")
    for event in events:
        one.insert(event)
    many = Window(made(name), CountWindow(3), arity=2, invalid="drop")
    results = many.extend(batch)
    assert many.last_accepted is not None
    assert many.last_accepted.tolist() == [True, False, True, True]
    assert len(results) == len(one) == len(many) == 3
    assert one.stats().invalid == many.stats().invalid == many.stats().dropped == 1
    assert one.query() == many.query() == results[-1]
    many.extend(results[:0] if name not in PAIRED else ((), ()))
    assert many.last_accepted is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        *[(n, [1, None, None, 2.5]) for n in ("Mean",)],
        ("Sum", [1, None, None, 5]),
        ("Min", [1, None, None, 2]),
        ("Max", [1, None, None, 3]),
        ("GeometricMean", [1, None, None, math.sqrt(6)]),
        ("SampleStdDev", [None, None, None, math.sqrt(0.5)]),
        ("PopulationStdDev", [0, None, None, 0.5]),
        ("First", [1, 1, None, 2]),
        ("Last", [1, None, 2, 3]),
        ("Count", [1, 2, 2, 2]),
        ("MinCount", [1, 1, 1, 1]),  # the NaN is the extreme
        ("MaxCount", [1, 1, 1, 1]),
    ],
)
def test_nan_that_is_accepted_stays_no_longer_than_its_event(
    name: str, expected: list[float | None]
) -> None:
    for arity in (2, 8):
        one = Window(made(name), CountWindow(2), arity=arity, invalid="accept")
        many = Window(made(name), CountWindow(2), arity=arity, invalid="accept")
        each = []
        for event in (1.0, math.nan, 2.0, 3.0):
            one.insert(event)
            each.append(one.query())
        want = [math.nan if value is None else value for value in expected]
        agree(each, want)
        agree(many.extend([1.0, math.nan, 2.0, 3.0]), want)
        many.check()


def test_nulls_in_every_form_are_nan() -> None:
    forms = [
        [1.0, None, 2.0],
        pd.Series([1, None, 2], dtype="Int64"),
        pd.Series([1.0, None, 2.0]),
        pd.array([1.0, None, 2.0], dtype="Float64"),
        pa.array([1, None, 2]),
        pa.chunked_array([[1.0, None], [2.0]]),
        np.array([1.0, None, 2.0], dtype=object),
    ]
    for form in forms:
        window = Window(Sum(), CountWindow(5), invalid="drop")
        assert window.extend(form).tolist() == [1.0, 3.0]
        assert window.stats().invalid == 1
    for nothing in (None, pd.NA, math.nan, np.float64("nan"), np.float32("nan")):
        window.insert(nothing)
    assert window.stats().invalid == 6


def test_geometric_mean_refuses_negative_values() -> None:
    window = Window(GeometricMean(), CountWindow(2))
    with pytest.raises(InvalidValue):
        window.insert(-1.0)
    with pytest.raises(InvalidValue, match="index 2"):
        window.extend([1.0, 0.0, -1.0])
    dropping = Window(GeometricMean(), CountWindow(2), invalid="drop")
    agree(dropping.extend([2.0, -1.0, 8.0]), [2.0, 4.0])


# --- products -----------------------------------------------------------------------------------


def power() -> Product:
    return Product(
        {
            "peak": ("watts", Max()),
            "when": (("watts", "at"), ArgMax("int64")),
            "mean": ("watts", Mean()),
            "calls": ("calls", Sum("int64")),
            "n": Count(),
        }
    )


@pytest.mark.parametrize("aggregator", AGGREGATORS)
def test_products_over_several_columns(aggregator: type) -> None:
    frame = pd.DataFrame(
        {
            "watts": np.random.default_rng(2).integers(0, 9, 50).astype(float),
            "at": np.arange(50) + 2**60,
            "calls": np.arange(50) % 5,
            "unused": ["text"] * 50,
        }
    )
    forms: list[Any] = [
        frame,
        {name: frame[name].to_numpy() for name in frame},
        {name: frame[name].tolist() for name in frame},
        pa.Table.from_pandas(frame),
    ]
    rolling = frame.rolling(4, min_periods=1)
    best = [
        2**60 + i for i in (
            max(range(max(0, i - 3), i + 1), key=lambda j: (frame.watts[j], -j))
            for i in range(50)
        )
    ]  # fmt: skip

    def window() -> Window:
        return Window(power(), CountWindow(4), arity=3, aggregator=aggregator)

    for form in forms:
        found = window().extend(form)
        assert list(found) == ["peak", "when", "mean", "calls", "n"]
        agree(found["peak"], rolling["watts"].max())
        agree(found["mean"], rolling["watts"].mean())
        assert found["calls"].tolist() == rolling["calls"].sum().tolist()
        assert found["calls"].dtype == np.int64
        assert found["when"].tolist() == best
        assert found["n"].tolist() == [1, 2, 3] + [4] * 47
        last = window().extend(form, results="last")
        assert {k: v.tolist() for k, v in last.items()} == {
            k: v[-1:].tolist() for k, v in found.items()
        }
    one = window()
    for i, row in enumerate(frame.to_dict("records")):
        one.insert(row)
        assert one.query() == {alias: column[i] for alias, column in found.items()}
        assert {type(value) for value in one.query().values()} == {int, float}


def test_an_empty_product_window() -> None:
    empty = Window(power(), CountWindow(4)).query()
    assert math.isnan(empty["peak"]) and math.isnan(empty["mean"])
    assert (empty["when"], empty["calls"], empty["n"]) == (0, 0, 0)


def test_a_product_that_reads_no_column_counts_rows() -> None:
    window = Window(Product({"n": Count()}), CountWindow(9))
    assert window.extend({"x": [1, 2, 3], "y": [4, 5, 6]})["n"].tolist() == [1, 2, 3]
    assert window.extend(pd.DataFrame({"x": [1, 2]}))["n"].tolist() == [4, 5]


def test_a_product_stores_a_column_once() -> None:
    product = power()
    assert product.columns == ("watts", "at", "calls")
    rows, count = product.rows({"watts": [1.0], "at": [1], "calls": [2]})
    assert (len(rows), count) == (3, 1)


def test_a_product_of_plain_and_columnar_parts() -> None:
    text = Monoid(identity="", combine=lambda a, b: a + b, lift=str, name="text")
    product = Product({"sum": ("x", Sum()), "text": ("y", text), "all": ("y", Collect())})
    window = Window(product, CountWindow(2), arity=2)
    found = window.extend({"x": [1, 2, 3, 4], "y": [7, "a", "c", "b"]})
    assert found["sum"].tolist() == [1, 3, 5, 7]
    assert list(found["text"]) == ["7", "7a", "ac", "cb"]
    assert list(found["all"]) == [[7], [7, "a"], ["a", "c"], ["c", "b"]]


def test_products_that_make_no_sense() -> None:
    with pytest.raises(ValueError, match="at least one"):
        Product({})
    with pytest.raises(ValueError, match="reads 2 column"):
        Product({"a": ("x", ArgMax())})
    with pytest.raises(ValueError, match="reads 1 column"):
        Product({"a": Max()})


# --- laws ---------------------------------------------------------------------------------------

NUMBERS = st.one_of(
    st.integers(-20, 20).map(float),
    st.floats(-1e6, 1e6, allow_subnormal=False),
    st.sampled_from([0.0, -0.0]),
)
ROWS = st.lists(st.tuples(NUMBERS, st.integers(0, 9).map(float)), min_size=1, max_size=17)


def partials_of(name: str, events: list[tuple[float, float]]) -> tuple[AbstractMonoid, Any]:
    monoid = made(name)
    values: Any = [abs(v) if name == "GeometricMean" else v for v, _ in events]
    if name in PAIRED:
        values = (values, [argument for _, argument in events])
    rows, count = monoid.rows(values)
    with np.errstate(divide="ignore"):  # as inside a window
        return monoid, monoid.lift_rows(rows, count)


def lowered(monoid: AbstractMonoid, partial: Any) -> Any:
    schema = monoid.partials
    with np.errstate(all="ignore"):
        return monoid.lower(schema.at(schema.one(partial), 0))


def equal(name: str, one: Any, other: Any, size: float = 1.0) -> None:
    if name in EXACT or name == "Collect":
        assert np.array_equal(one, other, equal_nan=name != "Collect"), (one, other)
    else:
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9 * size)


@pytest.mark.parametrize("name", EVERY)
@given(events=ROWS, cuts=st.tuples(st.floats(0, 1), st.floats(0, 1)))
@settings(max_examples=8, deadline=None)
def test_laws(name: str, events: list[Any], cuts: tuple[float, float]) -> None:
    """Associativity and identity on folds of arbitrary parts, and every scan against the fold."""
    monoid, partials = partials_of(name, events)
    n, schema = len(events), monoid.partials
    size = max(abs(value) for value, _ in events) + 1
    first, second = sorted(round(cut * n) for cut in cuts)
    with np.errstate(all="ignore"):
        a, b, c = (
            monoid.fold(schema.cut(partials, start, stop), stop - start)
            for start, stop in [(0, first), (first, second), (second, n)]
        )
        combine = monoid.combine
        whole = lowered(monoid, combine(combine(a, b), c))
        equal(name, lowered(monoid, combine(a, combine(b, c))), whole, size)
        equal(name, lowered(monoid, monoid.fold(partials, n)), whole, size)
        for partial in (a, b, c):
            for side in (combine(partial, monoid.identity), combine(monoid.identity, partial)):
                if schema.at(schema.one(partial), 0) is not None:
                    assert codec_equal(schema, side, partial)

        prefixes = monoid.prefixes(partials, n, a)
        suffixes = monoid.suffixes(partials, n, c)
        equal(name, lowered(monoid, schema.at(suffixes, n)), lowered(monoid, c), size)
        for i in range(n):
            upto = combine(a, monoid.fold(schema.cut(partials, 0, i + 1), i + 1))
            after = combine(monoid.fold(schema.cut(partials, i, n), n - i), c)
            equal(name, lowered(monoid, schema.at(prefixes, i)), lowered(monoid, upto), size)
            equal(name, lowered(monoid, schema.at(suffixes, i)), lowered(monoid, after), size)
        rows = monoid.combine_rows(partials, schema.one(c), n)
        for i in range(n):
            one = combine(schema.at(partials, i), c)
            equal(name, lowered(monoid, schema.at(rows, i)), lowered(monoid, one), size)


def codec_equal(schema: Any, one: Any, other: Any) -> bool:
    """The same bytes in a page; -0.0 and 0.0 count as the same."""
    if isinstance(other, tuple) and hasattr(schema, "schemas"):
        return all(map(codec_equal, schema.schemas, one, other))
    return bool(one == other)


@pytest.mark.parametrize("name", [name for name in EVERY if made(name).commutative])
@given(events=ROWS)
@settings(max_examples=15, deadline=None)
def test_those_declared_commutative_are(name: str, events: list[Any]) -> None:
    monoid, partials = partials_of(name, events)
    half, n = len(events) // 2, len(events)
    cut = monoid.partials.cut
    a = monoid.fold(cut(partials, 0, half), half)
    b = monoid.fold(cut(partials, half, n), n - half)
    size = max(abs(value) for value, _ in events) + 1
    one, other = monoid.combine(a, b), monoid.combine(b, a)
    equal(name, lowered(monoid, one), lowered(monoid, other), size)


def test_what_is_declared_commutative_and_invertible() -> None:
    ordered = {"First", "Last", "Collect", "ArgMin", "ArgMax"}
    assert {name for name in EVERY if not made(name).commutative} == ordered
    assert {name for name in EVERY if made(name).invertible} == {"Count", "Sum", "Mean"}
    for name in ("Count", "Sum", "Mean"):
        monoid, partials = partials_of(name, [(1.0, 0.0), (2.0, 0.0), (5.0, 0.0)])
        at = monoid.partials.at
        both = monoid.combine(at(partials, 0), at(partials, 2))
        assert monoid.inverse is not None
        undone = monoid.inverse(both, at(partials, 0))
        assert lowered(monoid, undone) == lowered(monoid, at(partials, 2))


@pytest.mark.parametrize("name", EVERY)
def test_inputs_are_never_changed(name: str) -> None:
    data = np.array([2.0, 1.0, 3.0, 3.0, 0.5])
    data.flags.writeable = False  # writing to it would raise
    listed = data.tolist()
    window = Window(made(name), CountWindow(2), arity=2)
    results = window.extend((data, data) if name in PAIRED else data)
    assert data.tolist() == listed
    if isinstance(results, np.ndarray) and results.dtype != object:
        before = window.query()
        results[:] = -1  # what was handed out is no part of the window
        assert window.query() == before
        window.check()


# --- fingerprints -------------------------------------------------------------------------------


#: Handles hold these: a change makes every handle of before unreadable.
FINGERPRINTS = {
    "Max": "6d16958ef667cf150d2f107ec06b6a94",
    "Mean": "8f8ad6afb48be2e777e6c052269b3510",
    "Collect": "0424657366ecc958731978e2b1a485c9",
    "Sum[int64]": "20cd4f62779924d090985880f9220f8f",
    "Product": "397a6c46816c2d64291906c8ccd39415",
    "user": "9bcdceb2605b29be8ad417cae21d9fba",
}


def test_fingerprints_are_pinned() -> None:
    pinned = {
        "Max": Max(),
        "Mean": Mean(),
        "Collect": Collect(),
        "Sum[int64]": Sum("int64"),
        "Product": power(),
        "user": Monoid(identity=(0, "a"), combine=max, name="user"),
    }
    assert {name: monoid.fingerprint.hex() for name, monoid in pinned.items()} == FINGERPRINTS


def test_fingerprints_are_the_same_in_another_process() -> None:
    script = (
        "from mta import *; print(Max().fingerprint.hex(), ArgMin('int64').fingerprint.hex(),"
        "TimeWindow('1 hour').fingerprint.hex())"
    )
    runs = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(runs) == 1
    assert Max().fingerprint.hex() in runs.pop()


def test_fingerprints_tell_monoids_apart() -> None:
    different = [
        *[made(name) for name in EVERY],
        Max("int64"),
        Max("f4"),
        Sum("int32"),
        ArgMax("int64"),
        Monoid(identity=0, combine=max, name="m"),
        Monoid(identity=1, combine=max, name="m"),
        Monoid(identity=0, combine=max, name="n"),
        Product({"a": ("x", Max())}),
        Product({"b": ("x", Max())}),
        Product({"a": ("y", Max())}),
        Product({"a": ("x", Min())}),
        Product({"a": ("x", Max("int64"))}),
    ]
    assert len({monoid.fingerprint for monoid in different}) == len(different)
    assert all(len(monoid.fingerprint) == 16 for monoid in different)
    assert Max().fingerprint == Max("float64").fingerprint


# --- users' own ---------------------------------------------------------------------------------


def span_by_ufuncs() -> ColumnarMonoid:
    return ColumnarMonoid(
        "Span",
        partials=("f8", "f8"),
        identity=(np.inf, -np.inf),
        lift=lambda value: (value, value),
        ufuncs=(np.minimum, np.maximum),
        lower=lambda partial: partial[1] - partial[0],
    )


def span_by_combine() -> ColumnarMonoid:
    return ColumnarMonoid(
        "Span",
        partials=("f8", "f8"),
        identity=(np.inf, -np.inf),
        lift=lambda value: (value, value),
        combine=lambda a, b: (np.minimum(a[0], b[0]), np.maximum(a[1], b[1])),
        lower=lambda partial: partial[1] - partial[0],
    )


@pytest.mark.parametrize("monoid", [span_by_ufuncs, span_by_combine])
@pytest.mark.parametrize("size", [1, 2, 7, 33])
def test_a_columnar_monoid_of_ones_own(monoid: Callable[[], ColumnarMonoid], size: int) -> None:
    events = np.random.default_rng(size).integers(0, 100, 80).astype(float).tolist()
    expected = [
        max(events[max(0, i + 1 - size) : i + 1]) - min(events[max(0, i + 1 - size) : i + 1])
        for i in range(80)
    ]
    for label, found in paths(monoid, events, size, list).items():
        assert list(found) == wanted(label, expected), label


def affine(dtype: str = "f8") -> ColumnarMonoid:
    """Composition of x -> a x + b, older first: columnar, and order matters."""
    return ColumnarMonoid(
        "Affine",
        inputs=(dtype, dtype),
        partials=(dtype, dtype),
        output=dtype,
        identity=(1, 0),
        combine=lambda f, g: (f[0] * g[0], f[1] * g[0] + g[1]),
        lower=lambda f: f[0] * 3 + f[1],
    )


def test_a_columnar_monoid_whose_order_matters() -> None:
    rng = np.random.default_rng(0)
    events = list(zip(rng.integers(-2, 3, 80).tolist(), rng.integers(0, 5, 80).tolist(), strict=1))

    def applied(some: list[tuple[int, int]]) -> int:
        x = 3
        for a, b in some:
            x = a * x + b
        return x

    for size in (1, 3, 10):
        expected = [applied(events[max(0, i + 1 - size) : i + 1]) for i in range(80)]
        found = paths(
            lambda: affine("int64"), events, size, lambda some: tuple(zip(*some, strict=True))
        )
        for label, results in found.items():
            assert list(results) == wanted(label, expected), label


def test_combine_and_ufuncs_exclude_each_other() -> None:
    with pytest.raises(TypeError, match="either"):
        ColumnarMonoid("x", partials="f8", identity=0)
    with pytest.raises(TypeError, match="either"):
        ColumnarMonoid("x", partials="f8", identity=0, combine=max, ufuncs=(np.maximum,))


def through_pages(partial_of: Callable[[int], Any], aggregator: type) -> None:
    """Partials of any type go through pages and a handle and come back as they were."""
    monoid = Monoid(
        identity=None,
        combine=lambda a, b: b if a is None else a if b is None else (a, b),
        lift=partial_of,
        name="pairs",
    )
    # Not associative, but every sealed group of two is the same in whatever order it is asked for.
    window = Window(monoid, CountWindow(4), arity=2, aggregator=aggregator)
    for i in range(4):
        window.insert(i)
    again = Window.restore(
        window.checkpoint(), monoid, CountWindow(4), store=window.store, aggregator=aggregator
    )
    assert again.query() == window.query()
    assert repr(again.query()) == repr(window.query())


@pytest.mark.parametrize("aggregator", AGGREGATORS)
@pytest.mark.parametrize(
    "partial_of",
    [
        lambda i: (i, "text"),
        lambda i: 2**80 + i,
        lambda i: -(2**200) - i,
        lambda i: bytes([i]),
        lambda i: {"a": (i, [i, (i,)]), (1, 2): None},
        lambda i: [True, False, 1.5, float(i), ()],
        lambda i: ((((i,),),), {"deep": [{"er": (2**64,)}]}),
    ],
)
def test_partials_keep_their_types_in_pages(
    partial_of: Callable[[int], Any], aggregator: type
) -> None:
    through_pages(partial_of, aggregator)


JSON_LIKE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
    | st.binary(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text() | st.integers() | st.tuples(st.text()), inner, max_size=3)
    ),
    max_leaves=12,
)  # fmt: skip


@given(JSON_LIKE)
@settings(max_examples=50, deadline=None)
def test_plain_data_comes_back_as_it_was(data: Any) -> None:
    assert repr(codec.unpack(codec.pack(data))) == repr(data)


def nested(depth: int) -> Any:
    data: Any = ()
    for _ in range(depth):
        data = (data,)
    return data


def test_what_cannot_come_back_is_refused() -> None:
    class Special(dict[str, int]):
        pass

    for data in (object(), {1, 2}, Special(a=1), 1j, nested(70), nested(2000), lambda: 0):
        with pytest.raises(NotPageable):
            codec.pack(data)
    deepest = nested(60)
    assert codec.unpack(codec.pack(deepest)) == deepest


@pytest.mark.parametrize("aggregator", AGGREGATORS)
@pytest.mark.parametrize("store", [None, "memory://"])
def test_partials_that_are_lists(aggregator: type, store: str | None) -> None:
    """A list as a partial is one partial, not rows of partials."""
    lists = Monoid(
        identity=[], combine=lambda a, b: a + b, lift=lambda value: [value], name="lists"
    )
    for size in (1, 2, 5, 9):
        window = Window(lists, CountWindow(size), store=store, arity=2, aggregator=aggregator)
        found = window.extend(range(30))
        assert list(found) == [list(range(max(0, i + 1 - size), i + 1)) for i in range(30)]
        window.check()


def test_results_of_plain_monoids() -> None:
    total = Monoid(identity=0, combine=lambda a, b: a + b, name="total")
    assert Window(total, CountWindow(2)).extend([1, 2, 3]).tolist() == [1, 3, 5]
    exact = Window(total, CountWindow(2)).extend([2**70, 1]).tolist()
    assert exact == [2**70, 2**70 + 1]
    described = Monoid(
        identity=0, combine=lambda a, b: a + b, lower=lambda s: {"sum": s}, name="d", empty="none"
    )
    window = Window(described, CountWindow(2))
    assert window.query() == "none"
    assert list(window.extend([1, 2])) == [{"sum": 1}, {"sum": 3}]


@pytest.mark.parametrize("aggregator", AGGREGATORS)
def test_a_function_that_raises_leaves_the_window_as_it_was(aggregator: type) -> None:
    lengths = Monoid(identity=0, combine=lambda a, b: a + b, lift=len, name="lengths")
    window = Window(lengths, CountWindow(5), arity=2, aggregator=aggregator)
    expected = []
    for i in range(20):
        with pytest.raises(TypeError):
            window.insert(i)
        with pytest.raises(TypeError):
            window.extend([i])
        window.insert("x" * i)
        expected = [*expected, i][-5:]
        assert (window.query(), len(window)) == (sum(expected), len(expected))
        window.check()
