"""A running query is given other windows and aggregations, and goes on from what is kept."""

from __future__ import annotations

from datetime import UTC, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from mta import Count, CountWindow, Max, Min, Product, Sum, TimeWindow
from mta.cli import main
from spark_integration import inspect_query, sliding_aggregate
from spark_integration.errors import StateMismatch
from spark_integration.step.step import step
from stores import MemoryStore
from tests.support.sampling import some
from tests.support.spark.events import (
    in_form,
    last_seconds,
    make_events,
    oracle,
    rows_of,
    spread,
    write_files,
)
from tests.support.spark.jobs import ALIASES, FOLDS, Job
from tests.support.spark.states import make_plan


def totals(frame: Any, **aggregations: Any) -> Any:
    """A plan with columns of doubles."""
    product = Product(aggregations or {"sum": ("watts", Sum())})
    windows = frame if isinstance(frame, dict) else {"": frame}
    names = [f"{a}_{w}" if w else a for a in product.aliases for w in windows]
    return make_plan(window=frame, monoid=product, results=dict.fromkeys(names, pa.float64()))


def test_windows_and_aggregations_of_a_checkpoint_are_changed() -> None:
    store = MemoryStore()
    rows = rows_of(*(("a", float(i), 1.0) for i in range(100)))
    state = step(None, rows, totals(TimeWindow(30)), store).state
    windows = {"short": TimeWindow(10), "long": TimeWindow(60)}
    other = totals(windows, total=("watts", Sum()), low=("watts", Min()))
    done = step(state, rows_of(("a", 100.0, 5.0)), other, store)
    found = done.rows.to_pylist()[0]
    # Of the long one 70 to 100 are kept: as many as the previous window held.
    assert (found["total_short"], found["total_long"], found["low_long"]) == (14.0, 35.0, 1.0)
    assert done.counts.rows_incomplete == 1
    again = step(state, rows_of(("a", 100.0, 5.0)), other, store)
    assert again.state == done.state
    both = step(done.state, rows_of(("a", 128.0, 1.0), ("a", 129.0, 1.0)), other, store)
    # From here on it is complete: what left came at 69 or before.
    assert both.rows.to_pylist()[-1]["total_long"] == 37.0
    assert both.counts.rows_incomplete == 1


def test_what_cannot_be_changed_is_shown_side_by_side() -> None:
    store, plan = MemoryStore(), totals(TimeWindow(30))
    state = step(None, rows_of(("a", 1.0, 1.0)), plan, store).state
    other = make_plan(window=TimeWindow(30), by=("site",), key_types=("bigint",))
    with pytest.raises(StateMismatch, match=r"\* by .* device string +site bigint\n  on .* ts"):
        step(state, rows_of(), other, store)


@pytest.mark.proves("PySpark", "changes of a running query")
@pytest.mark.proves("options", "changes of a running query", "vectorized")
def test_a_query_is_restarted_with_other_windows(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = Job(spark, tmp_path)
    events = spread(make_events(600, 3))
    write_files(events.slice(0, 400), job.input, files=1)
    job.run(window=CountWindow(50))
    write_files(events.slice(400), job.input, files=1, first=1)
    wanted = {"low": ("watts", Min()), "peak": ("watts", Max()), "n": (None, Count())}
    job.run(window={"few": CountWindow(20), "many": CountWindow(80)}, aggregations=wanted)
    held: dict[str, list[float]] = {}
    expected = {}
    for row, event in enumerate(events.sort_by("ts").to_pylist()):
        line = held.setdefault(event["device"], [])
        if row == 400:
            held = {key: values[-50:] for key, values in held.items()}
            line = held[event["device"]]
        line.append(event["watts"])
        few, many = line[-20:], line[-80:]
        expected[event["device"], event["ts"]] = (
            min(few), min(many), max(few), max(many), len(few), len(many)
        )  # fmt: skip
    incomplete = inspect_query(job.checkpoint, job.store).attrs["incomplete"]
    assert [(each.window, each.aggregation) for each in incomplete] == [("many", "")]
    after = incomplete[0].complete_after_events
    assert incomplete[0].complete_from is None and after is not None and 0 < after <= 80
    assert main(["inspect", str(job.checkpoint), "--store", job.store]) == 0
    complete = f"complete after {after} events of a key"
    assert f"incomplete window many since a change: {complete}" in capsys.readouterr().out
    assert len(job.batches[1]) == 200
    for found in job.batches[1]:
        results = tuple(found[name] for name in found.asDict() if "_" in name)
        assert results == expected[found.device, found.ts.astimezone(UTC)]


@pytest.mark.parametrize("pages", some(["state", "file"], by_default=1))
@pytest.mark.proves("stores", "changes of `idle` in a running query", "file", "spark://state")
def test_idle_keys_are_expired_from_now_on_and_kept_again(
    spark: SparkSession, tmp_path: Path, pages: str
) -> None:
    """On one checkpoint: it begins without a watermark, and keys of then fall silent later."""
    job = Job(spark, tmp_path)
    if pages == "state":
        job.store = "spark://state"
    events = spread(make_events(900, 3))
    names = events.column("device").to_pylist()
    names[:300] = [f"old-{name}" for name in names[:300]]
    events = events.set_column(events.column_names.index("device"), "device", pa.array(names))
    write_files(events.slice(0, 300), job.input, files=1)
    job.run(window=TimeWindow(60))
    assert len(keys_of(job)) == 3
    timed = job.source().withWatermark("ts", "0 seconds")
    write_files(events.slice(300, 300), job.input, files=2, first=1)
    given = job.settings(window=TimeWindow(60), idle="emit")
    job.run_frame(sliding_aggregate(timed, **given))
    assert keys_of(job) == {*names[300:]}
    rows = [row for batch in job.batches.values() for row in batch]
    emptied = {(row.device, row.ts.astimezone(UTC)) for row in rows if row.watts is None}
    last = dict(zip(names[:300], events.column("ts").to_pylist()[:300], strict=True))
    assert emptied == {(name, at + timedelta(seconds=60)) for name, at in last.items()}
    write_files(events.slice(600), job.input, files=1, first=3)
    job.run(window=TimeWindow(30))
    expected = oracle(events.slice(0, 600), last_seconds(60), FOLDS)
    begin = events.column("ts")[600].value
    rest = [row for row in oracle(events, last_seconds(30), FOLDS) if row[1] >= begin]
    found = (row for batch in job.batches.values() for row in batch if row.watts is not None)
    assert in_form(found, *ALIASES) == sorted([*expected, *rest])


def keys_of(job: Job) -> set[str]:
    """The keys that have a window."""
    return set(inspect_query(job.checkpoint, job.store)["key"])
