"""Every ready-made monoid against pandas or a naive oracle: numerics, ties, NaN, laws."""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Callable
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
    PopulationStdDev,
    SampleStdDev,
    Sum,
    Window,
)
from mta.errors import InvalidValue
from mta.laws import check_monoid
from tests.support.ready_made import EACH, EVERY, EXACT, PAIRED, SIMPLE, agree, made, paths, wanted


@pytest.mark.sample(1)
@EACH
@pytest.mark.parametrize("size", [1, 2, 5, 40])
def test_every_way_in_gives_the_naive_result(name: str, size: int) -> None:
    monoid, naive = SIMPLE[name]
    rng = np.random.default_rng(size)
    events = rng.choice([0.5, 1.0, 2.5, 3.0, 7.25, 11.0], max(45, 2 * size + 10)).tolist()
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
    count = max(45, 2 * size + 10)
    keys = np.random.default_rng(size).choice([-1.0, 0.0, 2.0], count).tolist()
    events = list(zip(keys, map(float, range(count)), strict=True))
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
        window = Window(Collect(), CountWindow(3), arity=2, aggregator=aggregator, nulls="accept")
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


# --- numerics -------------------------------------------------------------------------------------


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


# --- NaN and null ---------------------------------------------------------------------------------


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
    with pytest.raises(InvalidValue, match="nulls="):
        window.insert(events[1])
    with pytest.raises(InvalidValue, match="index 1"):
        window.extend(batch)
    assert window.query() == before or (before != before and window.query() != window.query())
    assert len(window) == window.stats().inserted == 1
    window.check()


@pytest.mark.parametrize("name", [name for name in EVERY if name != "Count"])
def test_nan_is_dropped_and_counted(name: str) -> None:
    events, batch = with_nan(name)
    one = Window(made(name), CountWindow(3), arity=2, nulls="drop_row")
    for event in events:
        one.insert(event)
    many = Window(made(name), CountWindow(3), arity=2, nulls="drop_row")
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
        one = Window(made(name), CountWindow(2), arity=arity, nulls="accept")
        many = Window(made(name), CountWindow(2), arity=arity, nulls="accept")
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
        window = Window(Sum(), CountWindow(5), nulls="drop_row")
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
    dropping = Window(GeometricMean(), CountWindow(2), nulls="drop_row")
    agree(dropping.extend([2.0, -1.0, 8.0]), [2.0, 4.0])


# --- laws -----------------------------------------------------------------------------------------

NUMBERS = st.one_of(
    st.integers(-20, 20).map(float),
    st.floats(-1e6, 1e6, allow_subnormal=False),
    st.sampled_from([0.0, -0.0]),
)


ROWS = st.lists(st.tuples(NUMBERS, st.integers(0, 9).map(float)), min_size=2, max_size=17)


@pytest.mark.parametrize("name", EVERY)
@given(events=ROWS)
@settings(max_examples=5, deadline=None)
def test_laws_on_any_events(name: str, events: list[tuple[float, float]]) -> None:
    """Those that choose or count keep them to the last bit."""
    values: list[Any] = events if name in PAIRED else [value for value, _ in events]
    if name == "GeometricMean":
        values = [abs(value) for value in values]
    exact = operator.eq if name in EXACT or name == "Collect" else None
    check_monoid(made(name), values, equal=exact, rounds=60)


def test_what_is_declared_commutative_and_invertible() -> None:
    ordered = {"First", "Last", "Collect", "ArgMin", "ArgMax"}
    assert {name for name in EVERY if not made(name).commutative} == ordered
    assert {name for name in EVERY if made(name).invertible} == {"Count", "Sum", "Mean"}


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
