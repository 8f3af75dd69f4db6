"""Rows of another table with the aggregates as of their own times, against DuckDB's joins."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from mta import (  # fmt: skip
    CalendarWindow,
    Count,
    CountWindow,
    Last,
    Max,
    Monoid,
    Sum,
    TimeWindow,
    rolling,
)
from mta.errors import InvalidValue, UnsuitableKey, UnsupportedOperation
from mta.frames import BoundWindow

AGGREGATIONS = {"total": ("v", Sum()), "most": ("v", Max()), "n": Count(), "last": ("w", Last())}
SQL = "sum(v) total, max(v) most, count(v) n, max_by(w, (e.t, e.i)) last"


def tables(seed: int, events: int = 500, questions: int = 300) -> tuple[pa.Table, pa.Table]:
    """Events and questions in no order, with ties, and questions of keys without events."""
    random = np.random.default_rng(seed)
    start = "2024-03-29"

    def times(count: int) -> pa.Array:
        """Not in the hours from which a clock of Berlin may be turned."""
        days, steps = np.divmod(random.integers(0, 300, count), 60)
        found = days * np.timedelta64(1, "D") + (steps + 9) * np.timedelta64(20, "m")
        return pa.array(np.datetime64(start, "us") + found, pa.timestamp("us", "UTC"))

    words = pa.array([f"w{n}" for n in random.integers(0, 9, events).tolist()])
    columns = {
        "k": pa.array(random.integers(0, 12, events)), "name": words, "t": times(events),
        "v": pa.array(random.integers(0, 99, events).astype("f8")), "w": words,
    }  # fmt: skip
    names = pa.array([f"w{n}" for n in random.integers(0, 12, questions).tolist()])
    asked = {
        "id": pa.array(np.arange(questions)), "k": pa.array(random.integers(0, 15, questions)),
        "name": names, "t": times(questions),
    }  # fmt: skip
    return pa.table(columns), pa.table(asked)


def expected(events: pa.Table, asked: pa.Table, by: list[str], frame: str) -> list[dict[str, Any]]:
    con = duckdb.connect()
    con.register("e", events.append_column("i", pa.array(range(len(events)))))
    con.register("q", asked)
    same = " and ".join(f"q.{name} = e.{name}" for name in by) or "true"
    rows = con.sql(
        f"with held as (select q.id, e.* from q join e on {same} and e.t <= q.t where {frame}) "
        f"select q.id, {SQL} from q left join held e on e.id = q.id group by q.id order by q.id"
    )
    names = rows.columns
    return [dict(zip(names, row, strict=True)) for row in rows.fetchall()]


def plain(frame: Any) -> list[dict[str, Any]]:
    """Results as Python's values; what is of no events is null, or in pandas NaN."""
    if isinstance(frame, pd.DataFrame):
        frame = pa.Table.from_pandas(frame, preserve_index=False)
    rows = frame.to_dicts() if isinstance(frame, pl.DataFrame) else frame.to_pylist()
    names = ["id", *AGGREGATIONS]
    found = [{n: None if row[n] != row[n] else row[n] for n in names} for row in rows]
    return sorted(found, key=lambda row: row["id"])


LIBRARIES = {"arrow": lambda t: t, "polars": pl.from_arrow, "pandas": lambda t: t.to_pandas()}
FRAMES = {
    "time": (TimeWindow("1 day"), "e.t > q.t - interval 24 hour"),
    "count": (CountWindow(4), "true qualify row_number() over (partition by q.id order by e.t desc,"
              " e.i desc) <= 4"),
    "calendar": (CalendarWindow("1 day", zone="Europe/Berlin"),
                 "e.t > ((q.t at time zone 'Europe/Berlin') - interval 1 day) "
                 "at time zone 'Europe/Berlin'"),
}  # fmt: skip


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.proves("asking", "as of any moment (`at=`)", "rolling")
def test_questions_are_answered_as_duckdb_answers_them(library: str, frame: str) -> None:
    window, condition = FRAMES[frame]
    for seed, by in enumerate([["k"], ["name"], ["k", "name"], []]):
        events, asked = tables(seed)
        given: dict[str, Any] = {"by": by or None, "on": "t", "aggregations": AGGREGATIONS}
        make = LIBRARIES[library]
        found = rolling(make(events), at=make(asked), window=window, **given)
        assert plain(found) == expected(events, asked, by, condition)
        assert type(found) is type(make(asked))
        assert list(found["id"]) == list(make(asked)["id"])


@pytest.mark.sample(1)
@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("promote_at", [1024, 5])
def test_tables_larger_than_memory_are_answered_alike(
    frame: str, promote_at: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    module = sys.modules["mta.keyed.rolling"]
    monkeypatch.setattr(module, "_CHUNK", 100)
    made = partial(module.KeyedWindows, promote_at=promote_at)
    monkeypatch.setattr(module, "KeyedWindows", made)
    events, asked = tables(5)
    given: dict[str, Any] = {"on": "t", "aggregations": AGGREGATIONS, "window": FRAMES[frame][0]}
    for by in ("k", None):
        found = rolling(events, at=asked, by=by, store=f"file://{tmp_path}", **given)
        assert plain(found) == plain(rolling(events, at=asked, by=by, **given))


def test_several_windows_have_columns_of_their_own() -> None:
    events, asked = tables(9)
    windows = {"day": TimeWindow("1 day"), "four": CountWindow(4)}
    found = rolling(events, at=asked, by="k", on="t", window=windows,
                    aggregations={"total": ("v", Sum())})  # fmt: skip
    for name, window in windows.items():
        alone = rolling(events, at=asked, by="k", on="t", window=window,
                        aggregations={"total": ("v", Sum())})  # fmt: skip
        assert found[f"total_{name}"].equals(alone["total"])


def test_plain_functions_are_asked_too() -> None:
    events = pl.DataFrame({"t": [0, 5, 9], "w": ["a", "b", "c"]})
    joined = {"all": ("w", Monoid("", str.__add__))}
    found = rolling(events, at=pl.DataFrame({"t": [4, 9, 100]}), on="t", window=TimeWindow(9),
                    aggregations=joined)  # fmt: skip
    assert found["all"].to_list() == ["a", "bc", None]


def test_what_cannot_be_asked_is_named() -> None:
    events, asked = (pl.from_arrow(table) for table in tables(1, 20, 10))
    given: dict[str, Any] = {"window": "1 day", "aggregations": {"n": Count()}}
    with pytest.raises(ValueError, match="at= needs on="):
        rolling(events, at=asked, by="k", aggregations={"n": Count()}, window=CountWindow(2))
    with pytest.raises(InvalidValue, match="at=, the table of questions: there is no column 't'"):
        rolling(events, at=asked.drop("t"), by="k", on="t", **given)
    with pytest.raises(UnsuitableKey, match="column 'k': keys are int here and text there"):
        rolling(events, at=asked.cast({"k": pl.String}), by="k", on="t", **given)
    with pytest.raises(TypeError, match="another library"):
        rolling(events, at=asked.to_pandas(), by="k", on="t", **given)
    with pytest.raises(ValueError, match="two columns 'id'"):
        rolling(events, at=asked, by="k", on="t", window="1 day", aggregations={"id": Count()})
    with pytest.raises(UnsupportedOperation, match="looks at values"):
        rolling(events, at=asked, by="k", on="t", aggregations={"n": Count()},
                window=BoundWindow(("v", Sum()), at_most=9))  # fmt: skip
