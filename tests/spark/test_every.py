"""Results every k events and every period: the step against plain lists, and through Spark."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from mta import (
    Collect,
    Count,
    CountWindow,
    EveryCount,
    EveryPeriod,
    Max,
    Product,
    Sum,
    TimeWindow,
    Trigger,
)
from mta.frames import BoundWindow
from mta.frames.base import Frame
from spark_integration import sliding_aggregate
from spark_integration.errors import InvalidRequest
from spark_integration.options import EmitEvery
from spark_integration.plan import Plan
from spark_integration.step.step import step
from stores.memory import MemoryStore
from tests.spark.test_several_windows import several_plan
from tests.support.key_by_key import lists
from tests.support.naive import window_of
from tests.support.sampling import some
from tests.support.spark.events import ROWS, SECOND, START, Event, rows_of, shuffled
from tests.support.spark.idle_cases import SIZE, Stream, idle_plan, late_plan, out_of_order
from tests.support.spark.jobs import IdleJob, LateJob, run_to_end
from tests.support.spark.states import changed, keys_of, make_plan

Result = tuple[str, int, list[float], int]


def every_plan(every: Trigger | None, frame: Frame, **changes: Any) -> Plan:
    """All events in order, and their number, in pages of four."""
    settings: dict[str, Any] = {
        "monoid": Product({"all": ("watts", lists()), "n": Count()}),
        "results": {"all": pa.list_(pa.float64()), "n": pa.int64()},
        "window": frame,
        "emit_every": wanted(every),
        "schema": ROWS,
    }
    return make_plan(**{**settings, **changes})


def wanted(trigger: Trigger | None) -> EmitEvery:
    """What makes a plan's trigger this one."""
    if isinstance(trigger, EveryPeriod):
        return dt.timedelta(microseconds=trigger.period)
    return trigger.count if isinstance(trigger, EveryCount) else None


def stream(count: int, keys: int, seed: int) -> list[Event]:
    """Events on and off whole seconds, with gaps longer than the windows."""
    rng = np.random.default_rng(seed)
    gaps = rng.choice([0.25, 0.5, 1, 1, 7, 100], count)
    at = np.cumsum(gaps)
    return [(f"d{rng.integers(keys)}", float(t), float(i)) for i, t in enumerate(at)]


def of_keys(events: list[Event]) -> dict[str, list[tuple[int, float]]]:
    found: dict[str, list[tuple[int, float]]] = {}
    for key, second, value in events:
        found.setdefault(key, []).append((START + round(second * SECOND), value))
    return found


def window(frame: Frame, rows: list[tuple[int, float]], now: int) -> list[float]:
    """The values that a frame holds when asked at a time."""
    held = window_of(frame, [time / SECOND for time, _ in rows], now / SECOND)
    return [value for _, value in rows[held]]


def every_k(events: list[Event], k: int, frame: Frame) -> list[Result]:
    """The row of each k-th event of a key."""
    out = []
    for key, rows in of_keys(events).items():
        for n in range(k, len(rows) + 1, k):
            values = window(frame, rows[:n], rows[n - 1][0])
            out.append((key, rows[n - 1][0], values, len(values)))
    return sorted(out)


def every_period(
    events: list[Event], period: int, frame: Frame, size: int | None, ends: bool
) -> list[Result]:
    """Each boundary between two events of a key; where data end, also the one after the last."""
    out = []
    for key, rows in of_keys(events).items():
        for i, (time, _) in enumerate(rows):
            at = -(-time // period) * period
            stop = rows[i + 1][0] if i + 1 < len(rows) else at + ends
            while at < stop:
                values = window(frame, rows[: i + 1], at)
                out.append((key, at, values, len(values)))
                if size is None or at - size >= time:
                    break
                at += period
    return sorted(out)


def results_of(tables: Iterable[pa.Table], window: str = "") -> list[Result]:
    return in_results((row for table in tables for row in table.to_pylist()), window)


def in_results(rows: Iterable[Any], window: str = "") -> list[Result]:
    """Rows of a step or of Spark in the form of the oracle, of one window."""
    names = [f"{name}_{window}" if window else name for name in ("all", "n")]
    found = [(row["device"], round(row["ts"].timestamp() * SECOND), row) for row in rows]
    return sorted((device, time, *(row[name] for name in names)) for device, time, row in found)


def test_the_trigger_may_change_and_leaves_the_state_as_it_is() -> None:
    events, store = stream(60, 1, seed=1), MemoryStore()
    plans = [every_plan(t, TimeWindow(9)) for t in (None, EveryCount(4), EveryPeriod(3))]
    assert len({plan.fingerprint() for plan in plans}) == 1
    state, counted = b"", []
    for i in range(0, 60, 10):
        done = step(state or None, rows_of(*events[i : i + 10]), plans[i // 10 % 3], store)
        state = done.state
        if i // 10 % 3 == 1:
            counted += results_of([done.rows])
    rows = every_k(events, 4, TimeWindow(9))
    assert counted == [row for n, row in enumerate(rows, 1) if (4 * n - 1) // 10 % 3 == 1]
    assert len(keys_of(state, store)) == 1


AGGREGATIONS = {"all": ("watts", lists()), "n": (None, Count()), "peak": ("watts", Max())}


def run(df: Any, store: str, **changes: Any) -> Any:
    settings: dict[str, Any] = {
        "by": "device",
        "on": "ts",
        "window": TimeWindow(9),
        "buckets": 2,
    }
    settings |= {"aggregations": AGGREGATIONS, "store": store, **changes}
    return sliding_aggregate(df, **settings)


@pytest.mark.parametrize("every", some([3, "2 seconds"], by_default=1))
def test_through_spark(spark: SparkSession, store: str, tmp_path: Path, every: Any) -> None:
    """A batch query, and a stream of two micro-batches."""
    events = stream(300, 4, seed=5)
    frame, size = TimeWindow(9), 9 * SECOND

    def expected(ends: bool) -> list[Result]:
        if every == 3:
            return every_k(events, 3, frame)
        return every_period(events, 2 * SECOND, frame, size, ends)

    found = run(spark.createDataFrame(rows_of(*events)), store, emit_every=every).toArrow()
    assert results_of([found]) == expected(ends=True)
    source, out = tmp_path / "in", str(tmp_path / "out")
    for i in range(2):
        part = spark.createDataFrame(rows_of(*events[150 * i : 150 * i + 150]))
        part.coalesce(1).write.mode("append").parquet(str(source))
        df = spark.readStream.schema(part.schema).parquet(str(source))
        run_to_end(run(df, store, emit_every=every), tmp_path / "check", path=out)
    assert results_of([spark.read.parquet(out).toArrow()]) == expected(ends=False)


def picked(rows: Iterable[dict[str, Any]], k: int, counts: dict[str, int]) -> list[dict[str, Any]]:
    """Each k-th row of a device; ``counts`` goes on from batch to batch."""
    found = []
    for row in rows:
        counts[row["device"]] = number = counts.get(row["device"], 0) + 1
        if number % k == 0:
            found.append(row)
    return found


def ordered(rows: pa.Table) -> list[dict[str, Any]]:
    """Rows by key and time, NaN as None."""
    found = [{n: None if v != v else v for n, v in row.items()} for row in rows.to_pylist()]
    return sorted(found, key=lambda row: (row["device"], row["ts"]))


def last_of_keys(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return list({row["device"]: row for row in rows}.values())


def compare(plan: Plan, parts: Iterable[pa.Table], k: int) -> int:
    """Feed all parts with ``emit_every`` and without; how many rows came out."""
    plan, whole = (
        changed(plan, emit_every=k),
        changed(plan, emit_every=None, emit="all"),
    )
    stores = MemoryStore(), MemoryStore()
    state: bytes | None = None
    full: bytes | None = None
    counts: dict[str, int] = {}
    given = 0
    for rows in parts:
        done, all_rows = step(state, rows, plan, stores[0]), step(full, rows, whole, stores[1])
        again = step(state, rows.take(pa.array(range(rows.num_rows))[::-1]), plan, stores[0])
        assert (again.state, ordered(again.rows)) == (done.state, ordered(done.rows))
        expected = picked(all_rows.rows.to_pylist(), k, counts)
        if plan.options.emit == "last":
            expected = last_of_keys(expected)
        assert done.rows.to_pylist() == expected
        assert done.counts == all_rows.counts
        state, full = done.state, all_rows.state
        given += len(expected)
    return given


@pytest.mark.sample(1)
@pytest.mark.parametrize("emit", ["all", "last"])
@pytest.mark.parametrize(("batches", "k"), [(1, 4), (9, 1), (30, 4), (30, 50)])
def test_each_kth_row_of_several_windows(batches: int, k: int, emit: Any) -> None:
    parts = [shuffled(part, 1) for part in out_of_order(300, 3, 0.0, batches, batches)]
    assert compare(several_plan(emit=emit), parts, k)


@pytest.mark.sample
@pytest.mark.parametrize("k", [4, 50])
@pytest.mark.parametrize("batches", [1, 30])
@pytest.mark.parametrize("several", [False, True])
@pytest.mark.proves("options", "`emit_every`", "late events")
def test_each_kth_row_among_late_events(several: bool, batches: int, k: int) -> None:
    """Results are as of their events, of which each k-th to arrive is given."""
    plan = several_plan(allowed_lateness=25) if several else late_plan()
    parts = out_of_order(300, 2, 45.0, batches, batches)
    assert compare(plan, [shuffled(part, 1) for part in parts], k)


@pytest.mark.proves("options", "`emit_every`", "key by key")
def test_a_window_that_looks_at_values() -> None:
    frames = {"bound": BoundWindow(("watts", Sum()), at_most=500.0), "few": CountWindow(7)}
    parts = [shuffled(part, 1) for part in out_of_order(200, 2, 0.0, 1, 11)]
    assert compare(several_plan(frames), parts, 3)


def test_rows_that_are_dropped_do_not_count() -> None:
    """Late ones by the key's last row, and such as no window takes."""
    rows = [rows_of(*(("a", 10 * b + i % 12, float(i) if i % 5 else float("nan"))
                      for i in range(14))) for b in range(6)]  # fmt: skip
    for plan in (
        several_plan(on_invalid="drop", nulls="drop_row"),
        late_plan(on_invalid="drop", nulls="drop_row", allowed_lateness=2),
    ):
        assert compare(plan, rows, 3)
        marked = changed(plan, on_late="side", emit_every=1000)
        state = step(None, rows[1], marked, MemoryStore()).state
        assert step(state, rows_of(("a", 1, 7.0)), marked, MemoryStore()).rows["late"].to_pylist()


def test_a_batch_without_a_kth_event_is_not_scanned_for_results() -> None:
    """Eight batches of 32 bring none, and give no window a result after each event."""
    plan, combines = several_plan(emit_every=300), []
    events = [rows_of(*(("a", 32 * b + i, 1.0) for i in range(32))) for b in range(9)]
    for every in (None, 300):
        state, store = None, MemoryStore()
        counted, calls = _counting(changed(plan, emit_every=every))
        for rows in events:
            state = step(state, rows, counted, store).state
        combines.append(len(calls))
    assert combines[1] < combines[0] / 2


def _counting(plan: Plan) -> tuple[Plan, list[int]]:
    """A plan whose product notes how many rows it lowers to results."""
    monoid, calls = copy(plan.monoid), []
    lower = monoid.lower_rows

    def lower_rows(partials: Any) -> Any:
        found = lower(partials)
        calls.extend([1] * len(found[-1]))
        return found

    monoid.lower_rows = lower_rows  # type: ignore[method-assign]
    return replace(plan, monoid=monoid), calls


def test_with_late_events_a_key_counts_again_once_it_is_forgotten() -> None:
    plan = idle_plan(emit_every=2, allowed_lateness=10, idle="expire", on_late="drop")
    for expired in (False, True):
        stream = Stream(plan, MemoryStore())
        stream.feed(rows_of(("a", 0, 1.0)))
        stream.feed(rows_of(("a", 1, 2.0), ("a", 2, 3.0)))
        if expired:
            stream.others(2 + SIZE + 11)
        stream.feed(rows_of(("a", 200, 4.0)))
        stream.feed(rows_of(("a", 195, 5.0)))
        second = {False: [4.0], True: [5.0, 4.0]}[expired]
        found = [row for done in stream.done for row in done.rows.column("all").to_pylist()]
        assert found == [[1.0, 2.0], second if not expired else [5.0]]


@pytest.mark.parametrize("idle", ["emit", "expire"])
def test_idle_keys_count_only_where_events_may_be_late(
    idle: str, spark: SparkSession, tmp_path: Path
) -> None:
    job = LateJob(spark, tmp_path)
    for every, lateness in ((3, 0), (3, "1 minute"), (None, None)):
        settings = job.settings(idle=idle, emit_every=every, allowed_lateness=lateness)
        sliding_aggregate(job.source(), **settings)
    with pytest.raises(
        InvalidRequest, match="set allowed_lateness, such as '0 seconds', with which"
    ):
        sliding_aggregate(job.source(), **{**settings, "emit_every": 3})


#: Frames, and after how many microseconds time empties them.
NAMED: dict[str, tuple[Frame, int | None]] = {
    "short": (TimeWindow(9), 9 * SECOND), "long": (TimeWindow(30), 30 * SECOND),
    "few": (CountWindow(5), None), "pair": (CountWindow(2), None),
}  # fmt: skip
SETS = [("short", "long"), ("few", "pair"), ("pair", "short"), ("long",)]


def several(names: tuple[str, ...], every: EveryPeriod, **changes: Any) -> Plan:
    results = {f"all_{name}": pa.list_(pa.float64()) for name in names}
    results |= {f"n_{name}": pa.int64() for name in names}
    frames = {name: NAMED[name][0] for name in names}
    return changed(every_plan(every, TimeWindow(1), results=results, **changes), window=frames)


def longest(names: tuple[str, ...]) -> int | None:
    return max((size for name in names if (size := NAMED[name][1])), default=None)


def run_twice(plan: Plan, events: list[Event], batches: int) -> list[pa.Table]:
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
def test_boundaries_of_several_windows(
    period: int, names: tuple[str, ...], temporary: bool, batches: int
) -> None:
    """Each as it is at the boundary; boundaries go on while time empties one of them."""
    events, every = stream(120, 4, seed=batches), EveryPeriod(period)
    tables = run_twice(several(names, every, temporary=temporary), events, batches)
    for name in names:
        frame, size = NAMED[name][0], longest(names)
        expected = every_period(events, every.period, frame, size, temporary)
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
        whole = run_twice(plan, events, batches)
        newest = run_twice(changed(plan, emit="last"), events, batches)
        assert [ordered(table) for table in newest] == [
            sorted(last_of_keys(ordered(table)), key=lambda row: row["device"]) for table in whole
        ]


def to_the_end(events: list[Event], period: int, name: str, names: tuple[str, ...]) -> list[Result]:
    """What is due where each key has an event after all, that none of the results has."""
    after = [(key, 1e5, -1.0) for key in of_keys(events)]
    return every_period([*events, *after], period, NAMED[name][0], longest(names), False)


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
        "window": {name: NAMED[name][0] for name in ("short", "long")},
        "aggregations": {"all": ("watts", Collect()), "n": (None, Count())},
        "emit_every": "2 seconds",
        "idle": "expire",
    }


@pytest.mark.parametrize("kind", some(["file", "state"], by_default=1))
def test_boundaries_of_a_stream_with_a_restart(
    kind: str, spark: SparkSession, tmp_path: Path
) -> None:
    """The last event, of a key of its own, brings the watermark past all that the others have."""
    job, events = BoundaryJob(spark, tmp_path), [*stream(120, 4, seed=9), ("end", 9e3, 0.0)]
    job.store = "spark://state" if kind == "state" else job.store
    for part in (events[:60], events[60:]):
        job.write(rows_of(*part))
        job.run()
    rows = [row for _, batch in sorted(job.batches.items()) for row in batch]
    for name in ("short", "long"):
        expected = to_the_end(events[:-1], 2 * SECOND, name, ("short", "long"))
        assert in_results(rows, name) == expected
    assert job.keys() == {"end"}
