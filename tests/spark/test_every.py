"""Results every k events and every period: the step against plain lists, and through Spark."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from mta import (
    Count,
    CountWindow,
    EveryCount,
    EveryPeriod,
    Max,
    Product,
    TimeWindow,
    Trigger,
)
from mta.frames.base import Frame
from spark_integration import sliding_aggregate
from spark_integration.options import EmitEvery
from spark_integration.plan import Plan
from spark_integration.step.step import step
from stores.memory import MemoryStore
from tests.support.key_by_key import lists
from tests.support.sampling import some
from tests.support.spark.events import SECOND, START
from tests.support.spark.idle_cases import SCHEMA, rows_of
from tests.support.spark.jobs import run_to_end
from tests.support.spark.states import keys_of, make_plan

Event = tuple[str, float, float]
Result = tuple[str, int, list[float], int]


def every_plan(every: Trigger | None, frame: Frame, **changes: Any) -> Plan:
    """All events in order, and their number, in pages of four."""
    settings: dict[str, Any] = {
        "monoid": Product({"all": ("watts", lists()), "n": Count()}),
        "results": {"all": pa.list_(pa.float64()), "n": pa.int64()},
        "window": frame,
        "emit_every": wanted(every),
        "schema": SCHEMA,
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


def every_k(events: list[Event], k: int, held: Callable[[Any, int], Any]) -> list[Result]:
    """The row of each k-th event of a key."""
    out = []
    for key, rows in of_keys(events).items():
        for n in range(k, len(rows) + 1, k):
            window = held(rows[:n], rows[n - 1][0])
            out.append((key, rows[n - 1][0], [v for _, v in window], len(window)))
    return sorted(out)


def every_period(
    events: list[Event], period: int, held: Callable[[Any, int], Any], size: int | None, ends: bool
) -> list[Result]:
    """Each boundary between two events of a key; where data end, also the one after the last."""
    out = []
    for key, rows in of_keys(events).items():
        for i, (time, _) in enumerate(rows):
            at = -(-time // period) * period
            stop = rows[i + 1][0] if i + 1 < len(rows) else at + ends
            while at < stop:
                window = held(rows[: i + 1], at)
                out.append((key, at, [v for _, v in window], len(window)))
                if size is None or at - size >= time:
                    break
                at += period
    return sorted(out)


def results_of(tables: list[pa.Table]) -> list[Result]:
    rows = [row for table in tables for row in table.to_pylist()]
    return sorted((r["device"], _micros(r["ts"]), r["all"], r["n"]) for r in rows)


def _micros(time: dt.datetime) -> int:
    return (time - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(microseconds=1)


def last(count: int) -> Callable[[Any, int], Any]:
    return lambda rows, now: rows[-count:]


def within(seconds: int) -> Callable[[Any, int], Any]:
    return lambda rows, now: [row for row in rows if row[0] > now - seconds * SECOND]


WINDOWS = [(CountWindow(5), last(5), None), (TimeWindow(9), within(9), 9 * SECOND)]


@pytest.mark.sample
@pytest.mark.parametrize(("temporary", "batches"), [(False, 1), (False, 12), (True, 1)])
@pytest.mark.parametrize(("frame", "held", "size"), WINDOWS)
@pytest.mark.parametrize("every", [EveryCount(3), EveryCount(1), EveryPeriod(2), EveryPeriod(11)])
@pytest.mark.proves("options", "`emit_every`", "vectorized", "a batch")
def test_equals_the_oracle(
    every: Trigger, frame: Any, held: Any, size: int | None, temporary: bool, batches: int
) -> None:
    events, store = stream(200, 4, seed=batches), MemoryStore()
    plan = every_plan(every, frame, temporary=temporary)
    state: bytes | None = None
    tables, step_size = [], -(-len(events) // batches)
    for i in range(0, len(events), step_size):
        rows = rows_of(*events[i : i + step_size])
        rows = rows.take(np.random.default_rng(i).permutation(rows.num_rows))
        before = state
        done = step(state, rows, plan, store)
        again = step(before, rows, plan, store)  # a batch that is replayed
        assert (again.state, again.rows) == (done.state, done.rows)
        state = done.state
        tables.append(done.rows)
        assert done.counts.rows_dropped == 0
    if isinstance(every, EveryPeriod):
        expected = every_period(events, every.period, held, size, temporary)
        assert all(value is None for table in tables for value in table["watts"].to_pylist())
    else:
        assert isinstance(every, EveryCount)
        expected = every_k(events, every.count, held)
        assert sum(table["watts"].null_count for table in tables) == 0
    assert results_of(tables) == expected
    assert expected


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
    window = every_k(events, 4, within(9))
    assert counted == [row for n, row in enumerate(window, 1) if (4 * n - 1) // 10 % 3 == 1]
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
    held, size = within(9), 9 * SECOND

    def expected(ends: bool) -> list[Result]:
        if every == 3:
            return every_k(events, 3, held)
        return every_period(events, 2 * SECOND, held, size, ends)

    found = run(spark.createDataFrame(rows_of(*events)), store, emit_every=every).toArrow()
    assert results_of([found]) == expected(ends=True)
    source, out = tmp_path / "in", str(tmp_path / "out")
    for i in range(2):
        part = spark.createDataFrame(rows_of(*events[150 * i : 150 * i + 150]))
        part.coalesce(1).write.mode("append").parquet(str(source))
        df = spark.readStream.schema(part.schema).parquet(str(source))
        run_to_end(run(df, store, emit_every=every), tmp_path / "check", path=out)
    assert results_of([spark.read.parquet(out).toArrow()]) == expected(ends=False)
