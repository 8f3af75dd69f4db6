"""The public window of keyed windows: settings, bad input, and what each method says."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from mta import (
    CalendarWindow,
    Collect,
    Count,
    CountWindow,
    KeyedWindows,
    Max,
    Monoid,
    Product,
    SessionWindow,
    SharedWindows,
    Sum,
    TimeWindow,
    Window,
)
from mta.aggregations import DistinctCount, ExactDistinctCount, LastText
from mta.errors import InvalidTime, InvalidValue, LateEvent, NotPageable, UnsuitableKey, WindowBusy
from mta.frames import BoundWindow
from mta.results import KeyedStats, Latest
from stores import MemoryStore
from tests.support.key_by_key import lists

#: Lists whose windows go key by key.
LISTS = lists()
DAY = TimeWindow("1 day")


# --- settings -------------------------------------------------------------------------------------


def test_names_of_the_longest_length_promote() -> None:
    with pytest.raises(ValueError, match="a name is 1 to 60 of"):
        KeyedWindows(Max(), DAY, name="x" * 61)
    windows = KeyedWindows(Max(), CountWindow(9), "memory://", "x" * 60, promote_at=1, leaf_arity=2)
    windows.extend(["a"] * 9, np.arange(9.0))
    assert windows.stats().standalone == 1
    assert windows.restore_like(windows.checkpoint()).query("a") == 8.0


# --- batches --------------------------------------------------------------------------------------

EMPTY: list[Any] = [[], np.zeros(0, "i8"), pd.Series([], dtype=str), pl.Series([]), pa.array([])]


@pytest.mark.parametrize("keys", EMPTY, ids=lambda keys: type(keys).__module__.partition(".")[0])
def test_an_empty_batch(keys: Any) -> None:
    windows = KeyedWindows(Max(), DAY)
    for _ in range(2):
        assert windows.extend(keys, [], []).tolist() == []
        found = windows.extend(keys, [], [], emit="last")
        assert isinstance(found, Latest)
        assert (found.keys.tolist(), found.results.tolist()) == ([], [])
        assert windows.last_accepted is None
        windows.extend(["a"], [1.0], [5])
    named = KeyedWindows(Product({"n": Count()}), {"d": DAY, "c": CountWindow(2)})
    found = named.extend([], range(0), [])
    assert {name: column.tolist() for name, column in found.items()} == {"n_d": [], "n_c": []}


def test_columns_that_do_not_fit_together() -> None:
    windows = KeyedWindows(Max(), DAY)
    with pytest.raises(
        InvalidTime, match="these windows need a time with every event: give times="
    ):
        windows.extend(["a"], [1.0])
    with pytest.raises(InvalidValue, match="2 values have 1 keys; pass one for each"):
        windows.extend(["a"], [1.0, 2.0], [1, 2])
    with pytest.raises(InvalidValue, match="1 values have 2 keys"):
        windows.extend(["a", "b"], [1.0], [1, 2])
    with pytest.raises(InvalidTime, match="1 values have 2 times; pass one for each"):
        windows.extend(["a"], [1.0], [1, 2])
    with pytest.raises(InvalidTime):
        windows.extend(["a"], [1.0], [None])
    with pytest.raises(InvalidTime):
        windows.extend(["a"], [1.0], ["soon"])
    with pytest.raises(InvalidValue):
        windows.extend(["a", "a"], ["text", 1.0], [1, 1])
    with pytest.raises(ValueError, match="emit must be 'all' or 'last', not 'first'"):
        windows.extend(["a"], [1.0], [1], emit="first")  # type: ignore[call-overload,arg-type]
    assert len(windows) == 0 and windows.stats().inserted == 0
    assert windows.extend([1], [1.0], [1]).tolist() == [1.0]  # of any kind of key still


def test_late_events_name_the_key() -> None:
    windows = KeyedWindows(Max(), DAY)
    windows.extend(["a", "b"], [1.0, 1.0], [100, 200])
    before = windows.stats()
    with pytest.raises(LateEvent) as raised:
        windows.extend(["b", "a", "a"], [1.0] * 3, [200, 99, 98])
    message = str(raised.value)
    for part in (
        "2 of 3 events are older than their key's last one, the first at index 1: key 'a', time",
        "1970-01-01T00:01:39", "last 1970-01-01T00:01:40", "nothing was inserted",
        "sort the events by time, set allowed_lateness, or choose",
    ):  # fmt: skip
        assert part in message, message
    assert windows.stats() == before
    # A first batch that is refused leaves nothing behind, not even a kind of key.
    fresh = KeyedWindows(Max(), DAY)
    with pytest.raises(LateEvent, match="key 1, time"):
        fresh.extend([1, 1], [1.0, 1.0], [5, 4])
    assert fresh.extend(["x"], [1.0], [1]).tolist() == [1.0]
    late = KeyedWindows(Max(), DAY, allowed_lateness="10 seconds")
    late.extend(["a"], [1.0], [100])
    with pytest.raises(
        LateEvent, match=r"by more than 10.0 s older .* set a larger allowed_lateness"
    ):
        late.extend(["a"], [1.0], [89])
    assert late.extend(["a"], [5.0], [90]).tolist() == [5.0]


def test_dropped_events_are_counted_and_reported() -> None:
    windows = KeyedWindows(Max(), DAY, on_late="drop", nulls="drop_row")
    values = [1.0, float("nan"), 3.0, 4.0]
    found = windows.extend(["a", "a", "b", "a"], values, [10, 11, 5, 9])
    assert found.tolist() == [1.0, 3.0]
    assert windows.last_accepted is not None
    assert windows.last_accepted.tolist() == [True, False, True, False]
    stats = windows.stats()
    assert (stats.inserted, stats.late, stats.invalid, stats.dropped) == (2, 1, 1, 2)
    assert windows.extend(["a"], [0.0], [12]).tolist() == [1.0]
    assert windows.last_accepted is None
    # A key of which all is dropped is not known.
    windows.extend(["c"], [float("nan")], [1])
    assert "c" not in windows and len(windows) == 2
    found = windows.extend(["c", "a"], [float("nan"), 2.0], [1, 13], emit="last")
    assert (found.keys.tolist(), found.results.tolist()) == (["a"], [2.0])
    with pytest.raises(
        InvalidValue, match=r"1 of 2 values are null, NaN .* at index 1; nothing was"
    ):
        KeyedWindows(Max(), CountWindow(1)).extend(["a", "b"], [1.0, float("nan")])


# --- results --------------------------------------------------------------------------------------


def test_queries_of_keys_known_and_unknown() -> None:
    windows = KeyedWindows(Sum("int64"), CountWindow(2))
    assert windows.query("a") == 0
    assert windows.query(["a", "b"]).tolist() == [0, 0]
    windows.extend(["a", "b", "a", "a"], [1, 2, 3, 4])
    assert windows.query("a") == 7
    assert type(windows.query("a")) is int
    some = ["b", "z", "a", "b"]
    for many in (some, np.array(some), pl.Series(some), pd.Series(some), pa.array(some)):
        assert windows.query(many).tolist() == [2, 0, 7, 2]
    assert windows.query([]).tolist() == []
    for bad in (None, 1.5, 1, ["a", None], [1]):
        with pytest.raises(UnsuitableKey):
            windows.query(bad)
    assert ("a" in windows, "z" in windows, 1 in windows, None in windows) == (
        True, False, False, False,
    )  # fmt: skip
    tuples = KeyedWindows(Sum("int64"), CountWindow(2))
    tuples.extend((["a", "a"], [1, 2]), [5, 6])
    assert tuples.query(("a", 2)) == 6
    assert tuples.query([("a", 1), ("a", 3)]).tolist() == [5, 0]


@pytest.mark.parametrize("new", [1, 4, 40])
def test_a_few_new_events_of_long_windows(new: int) -> None:
    """Results for few rows of each key are folded in another way than those for most rows."""
    keys, before, size = 20, 150, 100
    values = np.random.default_rng(new).integers(-50, 50, (keys, before + new)).astype(float)
    monoid = Product({"peak": ("v", Max()), "sum": ("v", Sum())})
    windows = KeyedWindows(monoid, CountWindow(size))
    windows.extend(np.repeat(np.arange(keys), before), {"v": values[:, :before].reshape(-1)})

    found = windows.extend(np.repeat(np.arange(keys), new), {"v": values[:, before:].reshape(-1)})

    ends = range(before + 1, before + new + 1)
    frames = [row[end - size : end] for row in values for end in ends]
    assert found["peak"].tolist() == [frame.max() for frame in frames]
    assert found["sum"].tolist() == [frame.sum() for frame in frames]


@pytest.mark.parametrize("store", [None, "memory://"])
@pytest.mark.parametrize(
    "monoid", [Max(), Collect(), LISTS], ids=["vectorized", "lists", "key by key"]
)
@pytest.mark.parametrize("promote_at", [2, 1000])
@pytest.mark.parametrize("named", [False, True])
def test_a_window_alone_is_a_copy(
    store: str | None, monoid: Any, promote_at: int, named: bool
) -> None:
    frame: Any = {"w": TimeWindow(50)} if named else TimeWindow(50)
    windows = KeyedWindows(monoid, frame, store, promote_at=promote_at, leaf_arity=2, arity=2)
    windows.extend(["a"] * 9 + ["b"], np.arange(10.0), np.arange(10))
    for checkpointed in (False, True):
        if checkpointed and store:
            windows.checkpoint()
        before = repr(windows.query("a"))
        alone = windows.window("a")
        assert isinstance(alone, SharedWindows if named else Window)
        result = alone.query("w") if isinstance(alone, SharedWindows) else alone.query()
        assert repr({"w": result} if named else result) == before
        held = alone.range(2, 8)
        assert held == (8.0 if isinstance(monoid, Max) else [3.0, 4.0, 5.0, 6.0, 7.0, 8.0])
        alone.extend([100.0], [20])
        assert repr(windows.query("a")) == before
    windows.check()
    windows.extend(["a"], [-1.0], [30])
    with pytest.raises(KeyError, match="there is no window of the key 'z'"):
        windows.window("z")
    with pytest.raises(UnsuitableKey):
        windows.window(5)


# --- one at a time --------------------------------------------------------------------------------


def test_a_call_in_the_middle_of_another_is_refused() -> None:
    windows = KeyedWindows(Max(), CountWindow(2), "memory://")
    windows.extend(["a"], [1.0])
    snapshot = windows.checkpoint()
    caught: list[str] = []

    def combine(left: Any, right: Any) -> Any:
        for call in (
            lambda: busy.extend(["b"], ["1"]), lambda: busy.query("a"), lambda: busy.window("a"),
            busy.checkpoint, busy.check, busy.delete_pages, lambda: busy.expire(5),
        ):  # fmt: skip
            with pytest.raises(WindowBusy):
                call()
            caught.append("")
        return left + right

    busy = KeyedWindows(Monoid("", combine, name="nosy"), CountWindow(2), "memory://")
    busy.extend(["a", "a"], ["x", "y"])
    assert caught
    assert busy.query("a") == "xy"
    # In other threads, too; and others of one snapshot are windows of their own.
    windows.busy = True
    errors: list[Exception] = []

    def other() -> None:
        try:
            windows.query("a")
        except WindowBusy as error:
            errors.append(error)

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert errors
    assert windows.restore_like(snapshot).query("a") == 1.0
    windows.busy = False


# --- snapshots ------------------------------------------------------------------------------------


def test_in_memory_there_are_no_snapshots() -> None:
    windows = KeyedWindows(Max(), CountWindow(2), None)
    windows.extend(["a"], [1.0])
    with pytest.raises(NotPageable, match="these windows are only in memory"):
        windows.checkpoint()
    windows.delete_pages()
    assert windows.extend(["a"], [0.5]).tolist() == [1.0]


def test_restore_like_has_the_name_of_its_snapshot() -> None:
    store = MemoryStore()
    settings: dict[str, Any] = {"promote_at": 1, "leaf_arity": 2, "arity": 2}
    one = KeyedWindows(Max(), CountWindow(9), store, "one", **settings)
    two = KeyedWindows(Max(), CountWindow(9), store, "two", **settings)
    two.extend(["a"] * 9, np.arange(9.0))
    found = one.restore_like(two.checkpoint())
    assert (found.name, found.query("a")) == ("two", 8.0)
    found.extend(["b"] * 9, np.arange(9.0))
    found.checkpoint()
    assert all(key.startswith("two") for key in list(store.keys()))
    assert one.name == "one" and len(one) == 0
    found.delete_pages()
    assert list(store.keys()) == []


# --- expiring -------------------------------------------------------------------------------------


def test_expiring_needs_windows_that_time_empties() -> None:
    for frame in (CountWindow(3), CountWindow(3) & DAY, {"a": DAY, "b": CountWindow(2)}):
        windows = KeyedWindows(Max(), frame)
        with pytest.raises(ValueError, match="time alone never empties the windows of"):
            windows.expire(before=5)
    windows = KeyedWindows(Max(), TimeWindow(10))
    assert windows.expire(before=5).tolist() == []
    assert windows.earliest() is None
    for bad in (None, "soon"):
        with pytest.raises(InvalidTime):
            windows.expire(before=bad)


# --- looking at it --------------------------------------------------------------------------------


def test_what_windows_tell_of_themselves() -> None:
    windows = KeyedWindows(Max(), CountWindow(9), "memory://", "meters", promote_at=4)
    assert windows.stats() == KeyedStats(0, 0, True, 0, 0, 0, 0, 0, 0, 0)
    assert repr(windows) == "<KeyedWindows 'meters': Max over CountWindow(9), 0 keys in memory://>"
    windows.extend(["a"] * 9 + ["b"], np.arange(10.0))
    stats = windows.stats()
    assert (stats.keys, stats.standalone, stats.vectorized, stats.inserted) == (2, 1, True, 10)
    assert stats.resident_bytes > 0 == stats.runs == stats.run_bytes
    assert "2 keys in memory" in repr(windows)
    plain = KeyedWindows(LISTS, CountWindow(9), None)
    plain.extend(["a"], [1])
    assert (plain.stats().vectorized, plain.stats().standalone) == (False, 1)
    assert "1 keys in memory>" in repr(plain)


def test_what_is_vectorized_and_what_is_not() -> None:
    for monoid, frame, vectorized in (
        (Max(), CountWindow(2), True),
        (Max(), DAY & CountWindow(2), True),
        (Product({"n": Count(), "m": ("v", Max())}), DAY, True),
        (Product({"n": Count(), "c": ("v", ExactDistinctCount())}), SessionWindow(60), True),
        (LastText(), CalendarWindow("1 day"), True),
        (Collect(), DAY, True),
        (Product({"n": Count(), "c": ("v", Collect())}), DAY, True),
        (Monoid("", lambda a, b: a + b, name="joined"), DAY, True),
        (DistinctCount(), DAY, False),
        (Product({"n": Count(), "c": ("v", DistinctCount())}), DAY, False),
        (Max(), BoundWindow(Sum(), at_most=9.0), False),
    ):
        assert KeyedWindows(monoid, frame).stats().vectorized is vectorized
