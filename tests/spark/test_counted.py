"""Every k-th event with multiple windows, idle keys and late events: what all rows would give."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from mta import CountWindow, Sum
from mta.frames import BoundWindow
from spark_integration import sliding_aggregate
from spark_integration.errors import InvalidRequest
from spark_integration.plan import Plan
from spark_integration.step.step import step
from stores.memory import MemoryStore
from tests.spark.test_several_windows import several_plan
from tests.support.spark.idle_cases import SIZE, Stream, idle_plan, rows_of
from tests.support.spark.late_streams import (
    LateJob,
    late_plan,
    out_of_order,
    shuffled,
)
from tests.support.spark.states import changed


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
def test_several_windows(batches: int, k: int, emit: Any) -> None:
    parts = [shuffled(part, 1) for part in out_of_order(300, 3, 0.0, batches, batches)]
    assert compare(several_plan(emit=emit), parts, k)


@pytest.mark.sample
@pytest.mark.parametrize("k", [4, 50])
@pytest.mark.parametrize("batches", [1, 30])
@pytest.mark.parametrize("several", [False, True])
@pytest.mark.proves("options", "`emit_every`", "late events")
def test_late_events(several: bool, batches: int, k: int) -> None:
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
