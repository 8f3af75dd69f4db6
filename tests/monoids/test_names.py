"""Aggregations by name, wherever a monoid may stand beside its columns."""

from __future__ import annotations

import pandas as pd
import pytest

from mta import (
    ArgMax,
    Count,
    CountWindow,
    KeyedWindows,
    Max,
    Product,
    Quantile,
    SampleStdDev,
    SharedWindows,
    Window,
    aggregations,
    rolling,
)
from mta.aggregations import AbstractMonoid
from mta.monoids.catalogue import NAMES

#: By name there are the kinds for numbers, which become those for text with their column.
FOR_TEXT = {"FirstText", "LastText", "MinText", "MaxText", "LagText", "NthText"}
#: So do these, for integers and decimals.
FOR_EXACT = {"CheckedSum", "LongSum", "DecimalMean"}


def test_every_ready_made_aggregation_has_a_name() -> None:
    named_ones = {getattr(factory, "func", factory) for factory in NAMES.values()}
    for name in set(aggregations.__all__) - FOR_TEXT - FOR_EXACT - {"Product"}:
        kind = getattr(aggregations, name)
        if issubclass(kind, AbstractMonoid) and "Monoid" not in name:
            assert kind in named_ones, name


def test_a_name_stands_for_a_monoid_wherever_columns_are_named() -> None:
    by_name = {"peak": ("x", "max"), "dev": ("x", "std"), "p": ("x", "quantile(0.9)"), "n": "count"}
    spelled = {
        "peak": ("x", Max()), "dev": ("x", SampleStdDev()), "p": ("x", Quantile(0.9)), "n": Count(),
    }  # fmt: skip
    one, other = Product(by_name), Product(spelled)  # type: ignore[arg-type]
    assert one.fingerprint == other.fingerprint
    frame, batch = pd.DataFrame({"x": [3.0, 1.0, 4.0]}), {"x": [3.0, 1.0, 4.0]}
    wanted = rolling(frame, window=2, aggregations=by_name)
    pd.testing.assert_frame_equal(wanted, rolling(frame, window=2, aggregations=spelled))
    shared = SharedWindows(one, {"w": CountWindow(2)}).extend(batch)
    for found in (
        Window(one, CountWindow(2)).extend(batch),
        {name.removesuffix("_w"): column for name, column in shared.items()},
        KeyedWindows(one, CountWindow(2)).extend(["k"] * 3, batch),
    ):
        pd.testing.assert_frame_equal(frame.assign(**found), wanted)


def test_arguments_of_extremes_are_in_the_order_of_sql() -> None:
    by_name = Product({"at": (("when", "x"), "max_by")})
    assert by_name.fingerprint == Product({"at": (("x", "when"), ArgMax())}).fingerprint


def test_a_count_of_a_column_counts_its_values_and_one_of_none_counts_rows() -> None:
    asked = {"values": ("x", "count"), "rows": (None, "count")}
    assert Product(asked).columns == ("x",)
    found = rolling(pd.DataFrame({"x": [3.0, None, 4.0]}), window=2, aggregations=asked)
    assert found[["values", "rows"]].to_numpy().T.tolist() == [[1, 1, 1], [1, 2, 2]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("medain", "'peak': there is no aggregation 'medain'; did you mean 'median'"),
        ("stdev", "no aggregation 'stdev'; did you mean 'stddev'"),
        ("??", "neither a name, such as 'max', nor a name with arguments"),
        ("max(open('f'))", "neither a name"),
        ("quantile(2)", r"aggregation 'quantile\(2\)': quantiles are numbers from 0 to 1"),
        ("top_k", "missing 1 required positional argument: 'k'"),
        ("xyzzy", "no aggregation 'xyzzy'; try 'max', 'mean'"),
    ],
)
def test_what_is_no_name_says_what_is(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rolling(pd.DataFrame({"x": [1.0]}), window=2, aggregations={"peak": ("x", text)})
