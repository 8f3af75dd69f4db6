"""Columns of text, dates, decimals and nulls in keyed windows, whatever comes first."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import suppress
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest

from mta import Collect, CountWindow, KeyedWindows, SessionWindow, TimeWindow, Window
from mta.columns.schemas import Datetimes, LongDecimals
from mta.errors import StoreUnavailable
from stores import MemoryStore
from stores.testing import FaultyStore
from tests.support.naive import window_of
from tests.support.sampling import some

#: Values of a column of each type, and what aggregates them.
VALUES: dict[str, list[Any]] = {
    "text": [None, "", "a", "é", "zz\x00", "b ", "a" * 30],
    "int": [None, 1, 2, -5, 2**60],
    "float": [None, 1.5, -3.25, 1e300],
    "bool": [None, True, False],
    "date": [None, date(1999, 12, 31), date(2024, 2, 29)],
    "decimal": [None, Decimal("3.00"), Decimal("0.10"), Decimal("-1234567.89")],
    "bytes": [None, b"", b"x", b"xyz"],
    "datetime": [None, datetime(1969, 12, 31, 23, 59), datetime(2024, 2, 29, 1, 5)],
    "duration": [None, timedelta(0), timedelta(seconds=-7), timedelta(days=400)],
}
PLAIN: dict[str, Any] = {
    "first": lambda held: held[0] if held else None,
    "last": lambda held: held[-1] if held else None,
    "min": lambda held: min(held, default=None),
    "max": lambda held: max(held, default=None),
    "nth(2)": lambda held: held[1] if len(held) > 1 else None,
    "count": len,
    "nunique": lambda held: len({*held}),
    "collect": list,
    "mode": lambda held: min(held, key=lambda v: (-Counter(held)[v], v), default=None),
}
FRAMES = [CountWindow(3), TimeWindow(20), SessionWindow(5), CountWindow(3) | TimeWindow(10)]


def _plain(result: Any) -> Any:
    if isinstance(result, np.ndarray | list):
        return list(result)
    result = result.item() if isinstance(result, np.generic) else result
    return None if result is np.ma.masked or result != result else result


@pytest.mark.parametrize("seed", some(range(60), by_default=15))
@pytest.mark.usefixtures("tiny")
def test_columns_of_every_type_beside_plain_lists(seed: int) -> None:
    """Of nulls first, over restores, in promoted keys, for late events."""
    rng = random.Random(seed)
    types = {f"c{at}": rng.choice(list(VALUES)) for at in range(rng.choice([1, 2, 3]))}
    wanted = {}
    for column, kind in types.items():
        few = ["first", "last", "nth(2)", "count"] + ["min", "max"] * (kind != "bool")
        whole = kind in ("text", "int", "float", "bool")
        names = [*few, "nunique", "collect", "mode"] if whole else few
        wanted |= {f"{name[:3]}_{column}": (column, name) for name in rng.sample(names, 2)}
    frame = rng.choice(FRAMES)
    late = rng.choice([None, 30])
    sizes: dict[str, Any] = {
        "promote_at": rng.choice([3, 1000]),
        "page_bytes": rng.choice([1, 999]),
    }
    sizes |= {} if late is None else {"allowed_lateness": late}
    store = MemoryStore()
    windows = KeyedWindows(wanted, frame, store, timed=True, nulls="skip", **sizes)
    events: dict[str, list[Any]] = {}
    now = 1000
    for step in range(8):
        keys, times, rows = [], [], []
        for _ in range(rng.choice([1, 3, 12])):
            now += rng.choice([0, 1, 4])
            keys.append(rng.choice("xyü"))
            times.append(now - rng.choice([0, 0, 3, 25]) * (late is not None))
            are_null = step < 2 and rng.random() < 0.6
            rows.append({c: None if are_null else rng.choice(VALUES[t]) for c, t in types.items()})
        windows.extend(keys, {c: [row[c] for row in rows] for c in types}, times)
        for key, time, row in zip(keys, times, rows, strict=True):
            events.setdefault(key, []).append((time, row))
        if rng.random() < 0.5:
            windows = KeyedWindows.restore(windows.checkpoint(), store)
            windows.check()
        for key, line in events.items():
            line.sort(key=lambda event: event[0])
            inside = line[window_of(frame, [time for time, _ in line], line[-1][0])]
            found = windows.query(key)
            for alias, (column, name) in wanted.items():
                held = [row[column] for _, row in inside if row[column] is not None]
                assert _plain(found[alias]) == PLAIN[name](held), (seed, step, key, alias, types)


def _windows(promote_at: int = 1000, **aggregations: tuple[str, str]) -> KeyedWindows:
    settings: dict[str, Any] = {"nulls": "skip", "promote_at": promote_at}
    return KeyedWindows(aggregations, TimeWindow(50), MemoryStore(), **settings)


def test_a_count_of_text_beside_its_last_value_is_restored() -> None:
    windows = _windows(n=("t", "count"), last=("t", "last"))
    windows.extend(["x"], {"t": ["a"]}, [1])
    windows = KeyedWindows.restore(windows.checkpoint(), windows.store)
    windows.extend(["x"], {"t": ["b"]}, [2])
    assert windows.query("x") == {"n": 2, "last": "b"}


def test_a_column_becomes_text_beside_distinct_integers() -> None:
    windows = _windows(n=("i", "nunique"), last=("t", "last"))
    windows.extend(["x"], {"i": [5], "t": [None]}, [1])
    windows.extend(["x"], {"i": [6], "t": ["a"]}, [2])
    assert windows.query("x") == {"n": 2, "last": "a"}


@pytest.mark.parametrize("promote_at", [2, 1000])
def test_columns_become_text_one_after_the_other(promote_at: int) -> None:
    windows = _windows(promote_at, t=("t", "last"), u=("u", "first"))
    windows.extend(["x"] * 3, {"t": [None] * 3, "u": [None] * 3}, [1, 2, 3])
    windows.extend(["x"], {"t": ["a"], "u": [None]}, [4])
    windows.extend(["x"], {"t": [None], "u": ["b"]}, [5])
    assert windows.query("x") == {"t": "a", "u": "b"}
    assert windows.coverage().complete


def test_decimals_stay_decimals_if_the_first_is_a_double_too() -> None:
    window, windows = Window("max", 9), _windows(m=("c", "max"))
    for moment, price in enumerate((Decimal("12.50"), Decimal("0.10"))):
        window.insert(price)
        windows.extend(["x"], {"c": [price]}, [moment])
    assert str(window.query()) == str(windows.query("x")["m"]) == "12.50"


@pytest.mark.parametrize("promote_at", [2, 1000])
@pytest.mark.parametrize("nulls", ["raise", "skip"])
def test_a_column_of_text_that_a_restore_adds_takes_its_type(promote_at: int, nulls: Any) -> None:
    few, store = {"n": ("i", "max")}, MemoryStore()
    windows = KeyedWindows(few, TimeWindow(9), store, nulls=nulls, promote_at=promote_at)
    windows.extend(["x"] * 3, {"i": [5, 6, 7]}, [1, 2, 3])
    more = {**few, "last": ("t", "last")}
    windows = KeyedWindows.restore(windows.checkpoint(), store, aggregations=more)
    windows.extend(["x"], {"i": [1], "t": ["a"]}, [4])
    assert windows.query("x") == {"n": 7, "last": "a"}
    assert [each.aggregation for each in windows.coverage().incomplete] == ["last"]
    windows.extend(["x"], {"i": [2], "t": ["b"]}, [13])
    assert windows.query("x") == {"n": 2, "last": "b"}


@pytest.mark.parametrize(
    ("monoid", "values"),
    [
        (Collect(LongDecimals(2)), [Decimal("1.00"), None, Decimal("1234567890123456789.00")]),
        (Collect(Datetimes("M8[us]")), [datetime(1970, 1, 1), None, datetime(2024, 2, 29)]),
    ],
)
@pytest.mark.usefixtures("tiny")
def test_pages_of_small_and_large_integers_are_read_together(monoid: Any, values: Any) -> None:
    store = MemoryStore()
    windows = KeyedWindows({"v": ("v", monoid)}, 9, store, nulls="skip", page_bytes=1)
    for value in values:
        windows.extend(["x", "y"], {"v": [value] * 2})
        windows = KeyedWindows.restore(windows.checkpoint(), store)
        windows.check()
    held = [value for value in values if value is not None]
    found = windows.query(["x", "y"])["v"]
    assert [pd.Series(each).tolist() for each in found] == [held] * 2


@pytest.mark.parametrize("promote_at", [2, 1000])
@pytest.mark.parametrize("nth", range(1, 7))
def test_a_store_that_fails_while_a_column_takes_its_type_loses_no_event(
    promote_at: int, nth: int
) -> None:
    """Whichever call fails: either the batch is added, or nothing has changed."""
    store = FaultyStore(MemoryStore())
    windows = KeyedWindows(
        {"n": ("i", "sum"), "t": ("t", "last")}, CountWindow(9), store, nulls="skip",
        promote_at=promote_at, page_bytes=1, cache_bytes=1,
    )  # fmt: skip
    windows.extend(list("abc") * 3, {"i": [1] * 9, "t": [None] * 9})
    windows.checkpoint()
    store.fail(nth)
    count = 3
    with suppress(StoreUnavailable):
        windows.extend(["a"], {"i": [1], "t": ["x"]})
        count = 4
    store.heal()
    assert windows.query(["a", "b"])["n"].tolist() == [count, 3]
    if count == 3:
        windows.extend(["a"], {"i": [1], "t": ["x"]})
    windows = KeyedWindows.restore(windows.checkpoint(), store)
    windows.check()
    assert windows.query("a") == {"n": 4, "t": "x"}
    assert len(windows) == 3 and windows.coverage().complete
