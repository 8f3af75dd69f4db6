"""Boundaries with multiple windows, idle keys and only the last result, beside plain lists."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from mta import Collect, Count, CountWindow, EveryPeriod, TimeWindow
from mta.frames.base import Frame
from spark_integration.plan import Plan
from spark_integration.step.step import step
from stores.memory import MemoryStore
from tests.spark.test_counted import last_of_keys, ordered
from tests.spark.test_every import (
    Event,
    Result,
    every_period,
    every_plan,
    last,
    of_keys,
    stream,
    within,
)
from tests.spark.test_idle_stream import IdleJob
from tests.support.sampling import some
from tests.support.spark.events import SECOND, START
from tests.support.spark.idle_cases import Stream, rows_of
from tests.support.spark.states import changed

WINDOWS: dict[str, tuple[Frame, Any, int | None]] = {
    "short": (TimeWindow(9), within(9), 9 * SECOND),
    "long": (TimeWindow(30), within(30), 30 * SECOND),
    "few": (CountWindow(5), last(5), None),
    "pair": (CountWindow(2), last(2), None),
}
SETS = [("short", "long"), ("few", "pair"), ("pair", "short"), ("long",)]


def several(names: tuple[str, ...], every: EveryPeriod, **changes: Any) -> Plan:
    results = {f"all_{name}": pa.list_(pa.float64()) for name in names}
    results |= {f"n_{name}": pa.int64() for name in names}
    frames = {name: WINDOWS[name][0] for name in names}
    return changed(every_plan(every, TimeWindow(1), results=results, **changes), window=frames)


def results_of(tables: list[pa.Table], name: str) -> list[Result]:
    """One window's results, in the form of the oracle."""
    return sorted(
        (row["device"], time, row[f"all_{name}"], row[f"n_{name}"])
        for table in tables
        for row, time in zip(
            table.to_pylist(), table["ts"].cast(pa.int64()).to_pylist(), strict=True
        )
    )


def longest(names: tuple[str, ...]) -> int | None:
    return max((size for name in names if (size := WINDOWS[name][2])), default=None)


def run(plan: Plan, events: list[Event], batches: int) -> list[pa.Table]:
    store, state, size = MemoryStore(), None, -(-len(events) // batches)
    tables: list[pa.Table] = []
    for i in range(0, len(events), size):
        rows = rows_of(*events[i : i + size])
        done = step(state, rows, plan, store)
        again = step(state, rows.take(pa.array(range(rows.num_rows))[::-1]), plan, store)
        assert (again.state, ordered(again.rows)) == (done.state, ordered(done.rows))
        state = done.state
        tables.append(done.rows)
    return tables


@pytest.mark.sample(1)
@pytest.mark.parametrize(("temporary", "batches"), [(False, 1), (False, 12), (True, 1)])
@pytest.mark.parametrize("names", SETS)
@pytest.mark.parametrize("period", [2, 11])
def test_several_windows(
    period: int, names: tuple[str, ...], temporary: bool, batches: int
) -> None:
    """Each as it is at the boundary; boundaries go on while time empties one of them."""
    events, every = stream(120, 4, seed=batches), EveryPeriod(period)
    tables = run(several(names, every, temporary=temporary), events, batches)
    for name in names:
        held, size = WINDOWS[name][1], longest(names)
        expected = every_period(events, every.period, held, size, temporary)
        assert expected
        assert results_of(tables, name) == expected
    assert all(value is None for table in tables for value in table["watts"].to_pylist())


def test_rows_that_no_window_takes_make_nothing_due() -> None:
    plan = several(("short", "pair"), EveryPeriod(2), on_invalid="drop", nulls="drop_row")
    rows = rows_of(("a", 1, 1.0), ("a", 3, float("nan")), ("a", 3.5, 2.0), ("a", 4.5, 3.0))
    done = step(None, rows, plan, MemoryStore())
    assert done.counts.rows_invalid == 1
    assert done.rows["all_pair"].to_pylist() == [[1.0], [1.0, 2.0]]


@pytest.mark.parametrize("names", [None, ("short", "pair")])
def test_last_gives_the_last_boundary_of_a_key_and_batch(names: tuple[str, ...] | None) -> None:
    every = EveryPeriod(2)
    for batches, temporary in ((1, False), (12, False), (1, True)):
        changes: dict[str, Any] = {"temporary": temporary}
        plan = several(names, every) if names else every_plan(every, TimeWindow(9))
        plan = changed(plan, **changes)
        events = stream(200, 4, seed=batches)
        whole = run(plan, events, batches)
        newest = run(changed(plan, emit="last"), events, batches)
        assert [ordered(table) for table in newest] == [
            sorted(last_of_keys(ordered(table)), key=lambda row: row["device"]) for table in whole
        ]


def to_the_end(events: list[Event], period: int, name: str, names: tuple[str, ...]) -> list[Result]:
    """What is due where each key has an event after all, that none of the results has."""
    after = [(key, 1e5, -1.0) for key in of_keys(events)]
    return every_period([*events, *after], period, WINDOWS[name][1], longest(names), False)


@pytest.mark.sample(1)
@pytest.mark.parametrize("names", [("short",), ("short", "long")])
@pytest.mark.parametrize("delay", [0.0, 12.0])
@pytest.mark.parametrize("batches", [1, 30])
@pytest.mark.parametrize("period", [2, 40])
def test_a_key_that_is_expired_gives_all_that_is_due(
    period: int, batches: int, delay: float, names: tuple[str, ...]
) -> None:
    """However the stream is cut, and whether or not the key speaks again, nothing comes twice."""
    events, every = stream(120, 6, seed=batches), EveryPeriod(period)
    plan, store = several(names, every, idle="expire"), MemoryStore()
    live, size, forgot = Stream(plan, store, delay), -(-len(events) // batches), 0
    for i in range(0, len(events), size):
        live.feed(rows_of(*events[i : i + size]))
        before = len(live.keys)
        if live.idle() is not None:
            forgot += before - len(live.keys)
            again, done = live.replay(len(live.calls) - 1, seed=i), live.done[-1]
            assert (again.state, ordered(again.rows)) == (done.state, ordered(done.rows))
    live.others(9e4)
    for later in (1, 2):  # pages go once no retained state needs them
        live.others(9e4 + later)
    assert forgot or batches < 120
    assert (live.keys, live.pending, list(store.keys())) == (set(), 0, [])
    tables = [done.rows for done in live.done]
    for name in names:
        assert results_of(tables, name) == to_the_end(events, every.period, name, names)


def test_a_key_is_kept_until_the_boundary_at_which_its_window_is_empty() -> None:
    plan = every_plan(EveryPeriod(20), TimeWindow(9), idle="expire", on_late="drop")
    start = -(-START // (20 * SECOND)) * 20 - START // SECOND  # a boundary, in seconds
    live = Stream(plan, MemoryStore())
    live.feed(rows_of(("a", start + 3, 1.0)))
    assert live.timer == START + (start + 20) * SECOND
    assert live.others(start + 20) is None  # empty since 12, but an event at 13 to 20 may come
    done = live.others(start + 20.001)
    assert done is not None
    assert done.rows["all"].to_pylist() == [[]]
    late = live.feed(rows_of(("a", start + 20, 2.0)))
    assert (late.counts.rows_late, late.rows.num_rows) == (1, 0)
    assert live.feed(rows_of(("a", start + 20.001, 3.0))).counts.rows_late == 0
    assert live.feed(rows_of(("a", start + 41, 4.0))).rows["all"].to_pylist() == [[]]


class BoundaryJob(IdleJob):
    """Two windows, a result every 2 seconds, and keys that are expired."""

    options: ClassVar = {
        "window": {name: WINDOWS[name][0] for name in ("short", "long")},
        "aggregations": {"all": ("watts", Collect()), "n": (None, Count())},
        "emit_every": "2 seconds",
        "idle": "expire",
    }


@pytest.mark.parametrize("kind", some(["file", "state"], by_default=1))
def test_a_stream_with_a_restart(kind: str, spark: SparkSession, tmp_path: Path) -> None:
    """The last event, of a key of its own, brings the watermark past all that the others have."""
    job, events = BoundaryJob(spark, tmp_path), [*stream(120, 4, seed=9), ("end", 9e3, 0.0)]
    job.store = "spark://state" if kind == "state" else job.store
    for part in (events[:60], events[60:]):
        job.write(rows_of(*part))
        job.run()
    rows = [row for _, batch in sorted(job.batches.items()) for row in batch]
    for name in ("short", "long"):
        found = sorted(
            (r.device, round(r.ts.timestamp() * SECOND), r[f"all_{name}"], r[f"n_{name}"])
            for r in rows
        )
        expected = to_the_end(events[:-1], 2 * SECOND, name, ("short", "long"))
        assert found == expected
    assert job.keys() == {"end"}
