"""Users' own monoids and what their partials may be; ``aggregations.OWN`` are in every window."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mta import CountWindow, KeyedWindows, Monoid, SharedWindows, TimeWindow, Window
from mta.aggregations import ColumnarMonoid
from mta.columns import codec
from mta.errors import NotPageable
from tests.support.naive import AGGREGATORS


def test_combine_and_ufuncs_exclude_each_other() -> None:
    with pytest.raises(TypeError, match="either"):
        ColumnarMonoid("x", partials="f8", identity=0)
    with pytest.raises(TypeError, match="either"):
        ColumnarMonoid("x", partials="f8", identity=0, combine=max, ufuncs=(np.maximum,))


@pytest.mark.parametrize("output", ["i8", "u2", "?"])
def test_a_result_that_cannot_be_nan_needs_one_of_no_events(output: str) -> None:
    with pytest.raises(ValueError, match=f"no {np.dtype(output)} is NaN; give empty"):
        ColumnarMonoid("x", partials=output, identity=0, output=output, ufuncs=(np.maximum,))


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


class Metered(Monoid[float, float, float]):
    """A sum with attributes of its own, whose names mean something in monoids of this package."""

    def __init__(self) -> None:
        super().__init__(0.0, lambda a, b: a + b, name="metered")
        self.parts = self.units = self.columns = self.aggregations = self.places = "kW"


@pytest.mark.parametrize("promote_at", [1, 1024])
def test_attributes_of_ones_own_do_not_answer_for_those_of_ready_made_monoids(
    promote_at: int,
) -> None:
    sums = KeyedWindows(
        Metered(), {"two": CountWindow(2), "day": TimeWindow("1 day")}, promote_at=promote_at
    )
    found = sums.extend(["a"] * 3, [1.0, 2.0, 4.0], range(3))
    assert {name: column.tolist() for name, column in found.items()} == {
        "two": [1.0, 3.0, 6.0], "day": [1.0, 3.0, 7.0],
    }  # fmt: skip
    assert sums.coverage().complete and sums.query("a") == {"two": 6.0, "day": 7.0}
    windows = SharedWindows(Metered(), {"two": CountWindow(2)})
    for value in (1.0, 2.0, 4.0):
        windows.insert(value)
    assert windows.query("two") == 6.0
