"""Every ready-made monoid against pandas or a naive oracle: numerics, ties, NaN, laws."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mta import ArgMax, ArgMin, CountWindow, SampleStdDev, Window
from mta.aggregations import GeometricMean, PopulationStdDev
from mta.errors import InvalidValue
from mta.testing import check_monoid
from tests.support.aggregations import BASIC

agree = partial(np.testing.assert_allclose, rtol=1e-12, atol=1e-12)
PAIRED = {"ArgMin", "ArgMax"}
EXACT = {"Count", "Min", "Max", "MinCount", "MaxCount", "First", "Last", "Collect", *PAIRED}
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
    window = Window(BASIC[name].make(), CountWindow(size))
    found = np.concatenate([window.extend(part) for part in np.array_split(data, 5)])
    # pandas adds and removes, so that its own deviations carry old errors along.
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=2e-9, equal_nan=True)


def test_empty_windows() -> None:
    nan = {"Min", "Max", "Mean", "GeometricMean", "SampleStdDev", "PopulationStdDev"}
    nan |= {"First", "Last", "ArgMin", "ArgMax"}
    for name in BASIC:
        window = Window(BASIC[name].make(), CountWindow(3))
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


def test_arguments_of_other_types() -> None:
    days = np.array(["2024-01-03", "2024-01-01", "2024-01-02"], dtype="M8[us]")
    window = Window(ArgMax("M8[us]"), CountWindow(2), arity=2)
    assert window.extend(([1.0, 1.0, 0.5], days)).tolist() == days[[0, 0, 1]].tolist()
    exact = Window(ArgMin("int64"), CountWindow(2), arity=2)
    assert exact.extend(([2.0, 1.0, 1.0], [2**60 + 1, 2**60 + 3, 7])).tolist() == [
        2**60 + 1, 2**60 + 3, 2**60 + 3,
    ]  # fmt: skip


# --- numerics -------------------------------------------------------------------------------------


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


# --- NaN and null ---------------------------------------------------------------------------------


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
        one = Window(BASIC[name].make(), CountWindow(2), arity=arity, nulls="accept")
        many = Window(BASIC[name].make(), CountWindow(2), arity=arity, nulls="accept")
        each = []
        for event in (1.0, math.nan, 2.0, 3.0):
            one.insert(event)
            each.append(one.query())
        want = [math.nan if value is None else value for value in expected]
        agree(each, want)
        agree(many.extend([1.0, math.nan, 2.0, 3.0]), want)
        many.check()


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


@pytest.mark.parametrize("name", BASIC)
@given(events=ROWS)
@settings(max_examples=5, deadline=None)
def test_laws_on_any_events(name: str, events: list[tuple[float, float]]) -> None:
    """Those that choose or count keep them to the last bit."""
    values: list[Any] = events if name in PAIRED else [value for value, _ in events]
    if name == "GeometricMean":
        values = [abs(value) for value in values]
    exact = operator.eq if name in EXACT else None
    check_monoid(BASIC[name].make(), values, equal=exact, rounds=60)


def test_what_is_declared_commutative_and_invertible() -> None:
    ordered = {"First", "Last", "Collect", "ArgMin", "ArgMax"}
    assert {name for name in BASIC if not BASIC[name].make().commutative} == ordered
    assert {name for name in BASIC if BASIC[name].make().invertible} == {"Count", "Sum", "Mean"}


@pytest.mark.parametrize("name", BASIC)
def test_inputs_are_never_changed(name: str) -> None:
    data = np.array([2.0, 1.0, 3.0, 3.0, 0.5])
    data.flags.writeable = False  # writing to it would raise
    listed = data.tolist()
    window = Window(BASIC[name].make(), CountWindow(2), arity=2)
    results = window.extend((data, data) if name in PAIRED else data)
    assert data.tolist() == listed
    if isinstance(results, np.ndarray) and results.dtype != object:
        before = window.query()
        results[:] = -1  # what was handed out is no part of the window
        assert window.query() == before
        window.check()
