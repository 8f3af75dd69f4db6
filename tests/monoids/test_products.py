"""Several aggregations in one structure."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from mta import ArgMax, Collect, Count, CountWindow, Max, Monoid, Product, Sum, Window
from mta.algorithms import AmortizedMTA, FiBA, LogMTA
from mta.evaluators.flatfat import PagedFlatFAT
from tests.support.aggregations import power
from tests.support.naive import AGGREGATORS


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
        assert found["peak"].tolist() == rolling["watts"].max().tolist()
        np.testing.assert_allclose(found["mean"], rolling["watts"].mean(), rtol=1e-12, atol=1e-12)
        assert found["calls"].tolist() == rolling["calls"].sum().tolist()
        assert found["calls"].dtype == np.int64
        assert found["when"].tolist() == best
        assert found["n"].tolist() == [1, 2, 3] + [4] * 47
        last = window().extend(form, emit="last")
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


def test_leaf_pages_have_as_many_rows_of_many_columns_as_of_few() -> None:
    def rows(columns: int, aggregator: type[Any] = AmortizedMTA) -> int:
        sums = Product({f"sum {i}": (f"column {i}", Sum()) for i in range(columns)})
        return Window(sums, CountWindow(9), aggregator=aggregator).structure().setting.leaf_arity

    assert rows(1) == rows(2) == rows(10) == 32512
    assert all((1 << 21) < 8 * columns * rows(columns) <= 1 << 22 for columns in (50, 2000))
    assert rows(50, LogMTA) == rows(50)
    # Leaves of FiBA have up to twice their arity; FlatFAT's snapshots hold all of an open block.
    assert (rows(10, FiBA), rows(50, PagedFlatFAT)) == (8128, 896)


def test_products_that_make_no_sense() -> None:
    with pytest.raises(ValueError, match="at least one"):
        Product({})
    with pytest.raises(ValueError, match="reads 2; write"):
        Product({"a": ("x", ArgMax())})
    with pytest.raises(ValueError, match="reads 1; write"):
        Product({"a": Max()})
