"""Windows over data frames, beside pandas' own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from mta import Count, Last, Max, Mean, Sum, rolling
from mta.aggregations import GeometricMean
from mta.errors import InvalidTime, InvalidValue, UnsuitableKey
from mta.keyed import rolling as module
from stores import MemoryStore

AGGREGATIONS = {"top": ("v", Max()), "n": Count(), "mean": ("w", Mean())}


def frame(rows: int = 2000, zone: str | None = None) -> pd.DataFrame:
    """Rows in no order of time, many of one time, and keys of two columns."""
    rng = np.random.default_rng(1)
    times = pd.to_datetime(rng.integers(0, 50_000, rows), unit="s", utc=True)
    return pd.DataFrame({
        "k": rng.integers(0, 30, rows),
        "s": rng.choice(["x", "y", "z"], rows),
        "t": times.tz_convert(zone) if zone else times.tz_localize(None),
        "v": rng.integers(0, 1000, rows) / 8,
        "w": rng.integers(0, 1000, rows) / 8,
    }, index=np.arange(rows) * 3 + 5)  # fmt: skip


def by_pandas(table: pd.DataFrame, by: list[str], size: Any) -> dict[str, np.ndarray]:
    """What pandas says; of rows of one time those that stand behind do not count."""
    line = table.reset_index(drop=True)
    line = line.sort_values("t", kind="stable") if isinstance(size, str) else line
    found = {name: np.zeros(len(table)) for name in AGGREGATIONS}
    for _, part in line.groupby(by):
        if isinstance(size, str):
            times, width = part["t"].to_numpy().astype("i8"), pd.Timedelta(size)
            unit = np.datetime_data(part["t"].dt.tz_localize(None).to_numpy().dtype)[0]
            span = int(width / pd.Timedelta(1, unit=unit))
            starts = np.searchsorted(times, times - span, side="right")
        else:
            starts = np.maximum(np.arange(len(part)) + 1 - size, 0)
        for at, (row, start) in enumerate(zip(part.index, starts, strict=True)):
            found["top"][row] = part["v"].to_numpy()[start : at + 1].max()
            found["n"][row] = at + 1 - start
            found["mean"][row] = part["w"].to_numpy()[start : at + 1].mean()
    return found


FRAMES: dict[str, Callable[[pd.DataFrame], Any]] = {
    "pandas": lambda table: table,
    "pandas categories": lambda table: table.astype({"s": "category"}),
    "polars": pl.from_pandas,
    "polars categories": lambda table: pl.from_pandas(table.astype({"s": "category"})),
    "Arrow": lambda table: pa.Table.from_pandas(table, preserve_index=False),
    "Arrow chunks": lambda table: pa.concat_tables(
        [
            pa.Table.from_pandas(table[at : at + 700], preserve_index=False)
            for at in range(0, max(1, len(table)), 700)
        ]
    ),
}


@pytest.mark.sample(1)
@pytest.mark.parametrize("stored", [False, True], ids=["memory", "store"])
@pytest.mark.parametrize("name", FRAMES)
def test_frames_of_every_library(name: str, stored: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CHUNK", 330)
    table = frame()
    given = FRAMES[name](table)
    store = MemoryStore() if stored else None
    for by, size in ((["k"], "1 hour"), (["k", "s"], "90 min"), (["s"], 7)):
        found = rolling(
            given, by=by if len(by) > 1 else by[0], on="t" if isinstance(size, str) else None,
            window=size, aggregations=AGGREGATIONS, store=store,
        )  # fmt: skip
        assert type(found) is type(given)
        expected = by_pandas(table, by, size)
        for alias, column in expected.items():
            assert np.allclose(np.asarray(found[alias]), column, rtol=1e-12), (by, size, alias)
        if isinstance(given, pd.DataFrame):
            assert found.index.equals(table.index)
            assert list(found.columns) == [*table.columns, *AGGREGATIONS]
            assert list(given.columns) == list(table.columns)  # as it was
    if store is not None:
        assert list(store.keys()) == []


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "UTC"])
def test_time_zones_change_nothing(zone: str) -> None:
    expected = by_pandas(frame(500), ["k"], "2 hours")
    table = frame(500, zone)
    for make in (FRAMES["pandas"], FRAMES["polars"], FRAMES["Arrow"]):
        found = rolling(make(table), by="k", on="t", window="2 hours", aggregations=AGGREGATIONS)
        assert np.array_equal(np.asarray(found["top"]), expected["top"])


@pytest.mark.parametrize("name", FRAMES)
def test_empty_frames_and_frames_of_one_row(name: str) -> None:
    for rows in (0, 1):
        given = FRAMES[name](frame(2000)[:rows])
        settings: dict[str, Any] = {"by": ["k", "s"], "on": "t", "window": "1 hour"}
        for store in (None, MemoryStore()):
            found = rolling(given, aggregations=AGGREGATIONS, store=store, **settings)
            assert np.asarray(found["n"]).tolist() == [1] * rows


BAD: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "no such key": ({"by": "q"}, InvalidValue, "there is no column 'q'; there are "),
    "no such value": ({"aggregations": {"a": ("q", Max())}}, InvalidValue, "no column 'q'"),
    "no such time": ({"on": "q"}, InvalidValue, "there is no column 'q'"),
    "no time": ({"on": None}, ValueError, "a window by time needs on=, the column of the time"),
    "no keys": ({"by": []}, ValueError, "by= is empty: name the columns of the key"),
    "no windows": ({"window": {}}, ValueError, "window= needs a frame, or a mapping"),
    "no aggregations": ({"aggregations": {}}, ValueError, "aggregations is empty"),
    "an aggregation without a column": (
        {"aggregations": {"m": "max"}}, ValueError,
        r"aggregation 'm' names 0 column\(s\), but Max reads 1; write \(column, aggregation\)",
    ),
    "an aggregation without its second column": (
        {"aggregations": {"m": ("v", "corr")}}, ValueError, "names 1 .* but Correlation reads 2",
    ),
    "a name for aggregations": (
        {"aggregations": "max"}, ValueError, "reads 1; write .column, aggregation.",
    ),
    "an aggregation for aggregations": (
        {"aggregations": Max()}, ValueError, "reads 1; write .column, aggregation.",
    ),
    "a column twice": ({"aggregations": {"v": ("v", Max())}}, ValueError, "two columns 'v'"),
    "names that meet": (
        {"window": {"b_c": 2, "c": 3}, "aggregations": {"a": Count(), "a_b": Count()}},
        ValueError, "there would be two columns 'a_b_c'",
    ),
    "text for numbers": (
        {"aggregations": {"a": ("s", Sum())}}, InvalidValue,
        "aggregation 'a': Sum reads numbers, and column 's' is ",
    ),
    "a key by its place": ({"by": 0}, TypeError, "by= takes names .*, such as .*, not int 0: "),
    "a key by an expression": ({"by": pl.col("k")}, TypeError, "by= takes names .*, not Expr "),
    "a column as key": ({"by": pd.Series([1])}, TypeError, "by= takes names .*not Series"),
    "one of two keys by its place": ({"by": ["k", 1]}, TypeError, "by= takes names .* not int 1: "),
    "a time by an expression": ({"on": pl.col("t")}, TypeError, "on= takes names of columns"),
    "a value by an expression": (
        {"aggregations": {"a": (pl.col("v"), Max())}}, TypeError,
        r"aggregation 'a' takes names of columns, such as \(\"kw\", Max\(\)\), not Expr col",
    ),
    "a value by its place": (
        {"aggregations": {"a": (0, Max())}}, TypeError, "aggregation 'a' takes names of columns",
    ),
    "a key with a slip": ({"by": "kk"}, InvalidValue, "no column 'kk'; did you mean 'k'.; there"),
    "negatives": (
        {"aggregations": {"a": ("neg", GeometricMean())}}, InvalidValue,
        "aggregation 'a' of column 'neg': 20 of 20 values are null, NaN or outside what GeometricMe"
        "an takes, the first in row 0: change these values, or drop these rows, before the call",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("kind", ["pandas", "polars", "Arrow"])
def test_bad_input_is_named(name: str, kind: str) -> None:
    changed, error, message = BAD[name]
    settings: dict[str, Any] = {
        "by": "k", "on": "t", "window": "1 hour", "aggregations": {"a": ("v", Last())}, **changed,
    }  # fmt: skip
    with pytest.raises(error, match=message):
        rolling(FRAMES[kind](frame(20).assign(neg=-1.0)), **settings)


@pytest.mark.parametrize("kind", ["pandas", "polars", "Arrow", "pandas of Arrow"])
@pytest.mark.parametrize("zoned", ["frame", "at="])
def test_questions_and_events_both_have_a_time_zone_or_none(kind: str, zoned: str) -> None:
    times = pa.array([0, 3_600_000_000], pa.timestamp("us"))
    make = {"pandas of Arrow": lambda table: table.to_pandas(types_mapper=pd.ArrowDtype)}.get(
        kind, lambda table: FRAMES[kind](table.to_pandas())
    )
    naive, aware = (
        make(pa.table({"t": times.cast(pa.timestamp("us", zone)), "v": [1.0, 2.0]}))
        for zone in (None, "Asia/Tokyo")
    )
    settings: dict[str, Any] = {"on": "t", "window": "1 day", "aggregations": {"m": ("v", "max")}}
    events, questions = (aware, naive) if zoned == "frame" else (naive, aware)
    with pytest.raises(InvalidTime, match=f"has the time zone Asia/Tokyo in {zoned}, and none in"):
        rolling(events, at=questions, **settings)
    for same in (naive, aware):
        assert np.asarray(rolling(same, at=same, **settings)["m"]).tolist() == [1.0, 2.0]


def test_nulls_are_named() -> None:
    settings: dict[str, Any] = {"by": "k", "on": "t", "window": "1 hour"}
    for column, error in (("k", UnsuitableKey), ("v", InvalidValue), ("t", InvalidTime)):
        table = frame(20).astype({"k": "Int64"})
        table.iloc[3, list(table.columns).index(column)] = None
        of_values = "column 'v' has 1 nulls or NaN in 20 rows, the first in row 3: fill them, drop"
        message = of_values if column == "v" else f"column '{column}': "
        for make in (FRAMES["pandas"], FRAMES["polars"], FRAMES["Arrow"]):
            store = MemoryStore()
            with pytest.raises(error, match=message):
                rolling(
                    make(table), aggregations={"a": ("v", Max())}, store=store, nulls="raise",
                    **settings,
                )  # fmt: skip
            assert list(store.keys()) == []


@pytest.mark.usefixtures("tiny")
def test_two_at_once_in_one_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one leaves behind is not the other's."""
    monkeypatch.setattr(module, "_CHUNK", 100)
    store, table = MemoryStore(), frame(400)
    seen: list[str] = []
    write = MemoryStore.put_many

    def meddling(self: MemoryStore, pages: Any) -> None:
        write(self, pages)
        if not seen:
            seen.append("")
            rolling(table, by="k", on="t", window="1 hour", aggregations=AGGREGATIONS, store=store)

    monkeypatch.setattr(MemoryStore, "put_many", meddling)
    found = rolling(table, by="k", on="t", window="1 hour", aggregations=AGGREGATIONS, store=store)
    assert seen
    assert np.array_equal(found["top"], by_pandas(table, ["k"], "1 hour")["top"])
    assert list(store.keys()) == []
