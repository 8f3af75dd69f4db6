"""Aggregations without a type take that of the first values, in every kind of window."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from mta import CountWindow, KeyedWindows, Product, SharedWindows, Window
from mta.errors import InvalidValue
from mta.frames import DeltaWindow
from stores import MemoryStore

DAY = dt.date(2024, 2, 29)
#: Some values of each type; the next ones may be equal to earlier ones.
VALUES: dict[str, Callable[[int], Any]] = {
    "text": lambda n: "abcdé"[n % 5] * (n % 3),
    "bytes": lambda n: b"xyz"[n % 3 :],
    "dates": lambda n: DAY + dt.timedelta(days=n % 7),
    "datetimes": lambda n: dt.datetime(2024, 2, 29, 1, n % 60),
    "durations": lambda n: dt.timedelta(seconds=n % 11),
    "decimals": lambda n: Decimal(n % 9 + 1) / 10,
    "integers": lambda n: n % 7 - 3,
    "doubles": lambda n: n % 7 / 2,
}
#: By name, what a list says of the values of a window, of which there is at least one.
NAMED: dict[str, Callable[[list[Any]], Any]] = {
    "max": max, "min": min, "first": lambda v: v[0], "last": lambda v: v[-1],
    "lag": lambda v: v[-2] if len(v) > 1 else None,
    "nth(2)": lambda v: v[1] if len(v) > 1 else None,
}  # fmt: skip
SIZE = 3


def product() -> Product:
    return Product({name: ("v", name) for name in NAMED})


def values_of(kind: str, count: int) -> list[Any]:
    draw = random.Random(kind)
    return [VALUES[kind](draw.randrange(100)) for _ in range(count)]


def plainly(found: Any) -> Any:
    """A result as the value that it stands for."""
    if found is None or found is np.ma.masked or found is pd.NaT or found != found:
        return None
    if isinstance(found, (np.datetime64, np.timedelta64)):
        if np.datetime_data(found.dtype)[0] == "ns":
            found = found.astype(f"{found.dtype.kind}8[us]")
        return None if np.isnat(found) else found.item()
    return found.item() if isinstance(found, np.generic) else found


def expected(values: list[Any]) -> dict[str, list[Any]]:
    held = [values[max(0, at - SIZE + 1) : at + 1] for at in range(len(values))]
    return {name: [of(each) for each in held] for name, of in NAMED.items()}


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("single", [False, True])
def test_windows_one_by_one_or_in_batches_and_restored(
    kind: str, shared: bool, single: bool
) -> None:
    values, store = values_of(kind, 20), MemoryStore()
    frame: Any = {"w": CountWindow(SIZE)} if shared else CountWindow(SIZE)
    of: Any = SharedWindows if shared else Window
    window = of(product(), frame, store)
    found: dict[str, list[Any]] = {name: [] for name in NAMED}
    for at in range(0, 20, 4):
        part = values[at : at + 4]
        for value in part if single else ():
            window.insert({"v": value})
            result = window.query()["w"] if shared else window.query()
            for name in NAMED:
                found[name].append(plainly(result[name]))
        if not single:
            done = window.extend({"v": part})
            for name in NAMED:
                found[name] += map(plainly, done[f"{name}_w" if shared else name])
        given = {"aggregations": product()} if at % 8 else {}
        window = of.restore(window.checkpoint(), store, **given)
    assert found == expected(values)


@pytest.mark.parametrize("make", [pa.array, pd.Series, pl.Series, np.array, list])
@pytest.mark.parametrize("kind", ["text", "dates", "datetimes"])
def test_columns_of_every_library_give_their_type(kind: str, make: Any) -> None:
    values = values_of(kind, 9)
    windows = KeyedWindows(product(), CountWindow(SIZE), None)
    done = windows.extend([1] * 9, {"v": make(values)})
    assert [plainly(each) for each in done["last"]] == values


@pytest.mark.parametrize("kind", [kind for kind in VALUES if kind not in ("integers", "doubles")])
@pytest.mark.parametrize("nulls", ["raise", "skip"])
def test_another_type_later_is_refused_and_nothing_lost(kind: str, nulls: Any) -> None:
    """Also by windows that were restored from a snapshot of restored ones."""
    values, store = values_of(kind, 6), MemoryStore()
    keyed = KeyedWindows(product(), CountWindow(SIZE), store, nulls=nulls)
    windows: list[Any] = [
        Window(product(), CountWindow(SIZE), store, "one", nulls=nulls),
        SharedWindows(product(), {"w": CountWindow(SIZE)}, store, "many", nulls=nulls),
    ]
    for other in [values_of("text" if kind != "text" else "bytes", 2), [object(), 3.5]] * 2:
        keyed.extend([1] * 6, {"v": values})
        before = keyed.query(1), keyed.stats()
        with pytest.raises(InvalidValue):
            keyed.extend([1, 1], {"v": other})
        assert (keyed.query(1), keyed.stats()) == before
        keyed = KeyedWindows.restore(keyed.checkpoint(), store)
        for window in windows:
            window.extend({"v": values})
            before = window.query(), window.stats()
            with pytest.raises(InvalidValue):
                window.extend({"v": other})
            with pytest.raises(InvalidValue):
                window.insert({"v": other[0]})
            assert (window.query(), window.stats()) == before
        windows = [type(each).restore(each.checkpoint(), store) for each in windows]


def test_mixed_first_values_leave_the_type_open() -> None:
    windows, window = KeyedWindows(product(), CountWindow(2)), Window(product(), CountWindow(2))
    with pytest.raises(InvalidValue, match="column 'v' has values of several types: int, str"):
        windows.extend([1, 1], {"v": ["a", 1]})
    with pytest.raises(InvalidValue, match="of several types"):
        window.extend({"v": ["a", 1]})
    both = Product({"last": ("v", "last"), "sum": ("v", "sum")})
    summed = Window(both, CountWindow(2), name="summed")
    with pytest.raises(InvalidValue):
        summed.insert({"v": "a"})
    summed.insert({"v": 2})
    assert summed.query() == {"last": 2.0, "sum": 2.0}
    window.insert({"v": 7})
    assert windows.extend([1], {"v": [5]})["max"].tolist() == [5.0]
    assert window.query()["max"] == 7.0


def test_a_frame_that_reads_the_value_leaves_it_a_number() -> None:
    window = Window(Product({"top": ("v", "max")}).aggregations["top"][1], DeltaWindow(2.0))
    with pytest.raises(InvalidValue, match="not a number"):
        window.insert("a")
    window.insert(3.0)
    assert window.query() == 3.0


def test_other_aggregations_share_the_column_of_text() -> None:
    both = Product({"top": ("m", "max"), "kinds": ("m", "nunique"), "all": ("m", "collect_list")})
    windows = KeyedWindows(both, CountWindow(3), store := MemoryStore())
    windows.extend([1, 1], {"m": ["a", "b"]})
    wider = Product({"mode": ("m", "mode"), "first": ("m", "first")})
    found = KeyedWindows.restore(windows.checkpoint(), store, aggregations=wider)
    assert found.coverage().complete and found.query(1) == {"mode": "a", "first": "a"}
    with pytest.raises(InvalidValue, match="1 at index 1 is int"):
        found.extend([1, 1], {"m": ["c", 1]})
