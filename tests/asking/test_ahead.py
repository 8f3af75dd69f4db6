"""Events ahead of the clock: refused, or dropped and counted, before they make others late."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from mta import CountWindow, KeyedWindows, SharedWindows, Sum, TimeWindow, Window
from mta.errors import AheadEvent

NOW = 1000.0
GIVEN: dict[str, Any] = {"max_ahead": "5 minutes", "clock": lambda: NOW}


def opened(kind: str, **given: Any) -> Any:
    """Windows of a kind, and how a batch and a question go there."""
    if kind == "Window":
        one = Window(Sum(), TimeWindow("1 hour"), name="one", **GIVEN, **given)
        return one, one.extend, one.query
    if kind == "SharedWindows":
        several = SharedWindows(Sum(), {"w": TimeWindow("1 hour")}, name="w", **GIVEN, **given)
        return several, lambda *events: several.extend(*events)["w"], lambda: several.query("w")
    keyed = KeyedWindows(Sum(), TimeWindow("1 hour"), name="keyed", **GIVEN, **given)
    return keyed, lambda v, t: keyed.extend(["a"] * len(v), v, t), lambda: keyed.query("a")


@pytest.mark.parametrize("kind", ["Window", "SharedWindows", "KeyedWindows"])
def test_events_ahead_of_the_clock_are_refused(kind: str) -> None:
    windows, extend, query = opened(kind)
    assert extend([1.0, 2.0], [NOW, NOW + 300]).tolist() == [1.0, 3.0]
    with pytest.raises(AheadEvent, match="1 of 2 events are ahead of the clock by more than 5 min"):
        extend([1.0, 2.0], [NOW + 300, NOW + 301])
    assert query() == 3.0
    assert windows.stats().ahead == 0


@pytest.mark.parametrize("kind", ["Window", "SharedWindows", "KeyedWindows"])
@pytest.mark.proves("asking", "`max_ahead=`", "Window", "SharedWindows", "KeyedWindows")
def test_events_ahead_of_the_clock_are_dropped_and_counted(kind: str) -> None:
    windows, extend, query = opened(kind, on_ahead="drop", nulls="drop_row")
    found = extend([1.0, 9.0, 2.0, float("nan")], [NOW, 1e9, NOW + 1, NOW + 1])
    assert found.tolist() == [1.0, 3.0]
    assert windows.last_accepted.tolist() == [True, False, True, False]
    assert (query(), windows.stats().ahead, windows.stats().invalid) == (3.0, 1, 1)
    assert (windows.stats().late, windows.stats().dropped if kind != "SharedWindows" else 2) == (
        0,
        2,
    )


@pytest.mark.parametrize("kind", ["Window", "SharedWindows", "KeyedWindows"])
def test_the_counts_go_on_after_a_restore(kind: str) -> None:
    windows, extend, _ = opened(kind, on_ahead="drop", nulls="drop_row", on_late="drop")
    extend([1.0, float("nan"), 2.0, 3.0, 4.0], [NOW, NOW, 1e9, 1e9, NOW - 1])
    again = windows.restore_like(windows.checkpoint())
    stats = again.stats()
    assert (stats.ahead, stats.invalid, stats.late) == (2, 1, 1)


@pytest.mark.parametrize("kind", ["Window", "SharedWindows"])
def test_single_events_are_compared_with_the_clock(kind: str) -> None:
    windows, _, query = opened(kind, on_ahead="drop")
    for value, time in ((1.0, NOW), (5.0, 1e9), (2.0, NOW + 1), (3.0, NOW + 2)):
        windows.insert(value, time)
    assert (query(), windows.stats().ahead) == (6.0, 1)
    with pytest.raises(AheadEvent, match="nothing was inserted"):
        opened(kind)[0].insert(1.0, NOW + 301)


def test_the_clock_is_that_of_the_machine() -> None:
    window = Window(Sum(), TimeWindow("1 hour"), name="now", max_ahead=60)
    window.insert(1.0, 1.7e9)
    with pytest.raises(AheadEvent):
        window.insert(1.0, 9e10)


def test_what_does_not_go_together_is_named() -> None:
    with pytest.raises(ValueError, match="max_ahead is not given"):
        Window(Sum(), TimeWindow(5), on_ahead="drop")
    with pytest.raises(ValueError, match="max_ahead= needs events with times"):
        Window(Sum(), CountWindow(5), max_ahead=5)
    with pytest.raises(ValueError, match="on_ahead is "):
        Window(Sum(), TimeWindow(5), max_ahead=5, on_ahead="side")  # type: ignore[arg-type]


def plan_of(**changes: Any) -> Any:
    pytest.importorskip("pyspark")
    from tests.support.spark.states import make_plan

    return make_plan(window=TimeWindow(60), max_ahead="5 minutes", **changes)


def rows_of(seconds: list[float]) -> pa.Table:
    """Rows of one device in a micro-batch at NOW."""
    times = pa.array([round(s * 1e6) for s in seconds], pa.timestamp("us", "UTC"))
    count = len(seconds)
    return pa.table({
        "device": ["a"] * count, "ts": times, "watts": np.ones(count),
        "__now": np.full(count, round(NOW * 1e6)),
    })  # fmt: skip


def test_a_stream_refuses_drops_or_sets_aside() -> None:
    from spark_integration.step.step import step
    from stores.memory import MemoryStore

    rows = rows_of([NOW, 1e9, NOW + 300, NOW + 301])
    with pytest.raises(AheadEvent, match=r"2 of 4 events .* by more than 5 minutes.*on_ahead"):
        step(None, rows, plan_of(), MemoryStore())
    done = step(None, rows, plan_of(on_ahead="drop"), MemoryStore())
    assert done.rows.column("sum").to_pylist() == [1.0, 1.0]
    counts = done.counts
    assert (counts.rows_read, counts.rows_ahead, counts.rows_dropped) == (4, 2, 2)
    assert counts.rows_invalid == counts.rows_late == 0
    done = step(None, rows, plan_of(on_ahead="side", on_late="side"), MemoryStore())
    assert done.rows.column("ahead").to_pylist() == [False, False, True, True]
    assert done.rows.column("late").to_pylist() == [False] * 4
    assert done.rows.column("sum").to_pylist() == [1.0, 1.0, None, None]
    assert (done.counts.rows_ahead, done.counts.rows_dropped) == (2, 0)


class SinkFailed(Exception):
    """What the sink of a micro-batch raises, after it has seen the rows."""


class AheadQuery:
    """A query of sums over 9 days that sets rows aside that are an hour ahead, and its input."""

    def __init__(self, spark: Any, folder: Path) -> None:
        from pyspark.sql import functions as F

        self.spark, self.folder = spark, folder
        (folder / "input").mkdir()
        self.now = spark.range(1).select(F.current_timestamp().alias("t")).first().t.timestamp()

    def write(self, name: str, *ahead: int) -> None:
        """Add a file of rows that are so many seconds ahead of the clock."""
        lines = [f'{{"k": "a", "t": {self.now + each}, "v": 1.0}}' for each in ahead]
        (self.folder / "input" / name).write_text("\n".join(lines))

    def results(self, reader: Any, **options: Any) -> Any:
        """The results of what a reader of Spark reads."""
        from spark_integration import sliding_aggregate

        rows = reader.schema("k string, t double, v double").json(f"{self.folder}/input")
        return sliding_aggregate(
            rows, by="k", on="t", aggregations={"n": ("v", Sum())}, window=TimeWindow("9 days"),
            max_ahead="1 hour", **options,
        )  # fmt: skip

    def run(self, fail: bool = False) -> tuple[list[Any], Any]:
        """What the sink sees of the next micro-batch, and how many rows were ahead."""
        from pyspark.errors import StreamingQueryException

        from tests.support.spark.jobs import run_to_end

        store = f"file://{self.folder}/pages"
        results = self.results(self.spark.readStream, on_ahead="side", store=store, buckets=1)
        found: list[Any] = []

        def sink(frame: Any, _: int) -> None:
            found.extend((row.n, row.ahead) for row in frame.collect())
            if fail:
                raise SinkFailed

        if fail:
            with pytest.raises(StreamingQueryException, match="SinkFailed"):
                run_to_end(results, self.folder / "checkpoint", sink)
            return found, None
        query = run_to_end(results, self.folder / "checkpoint", sink)
        return found, query.lastProgress["observedMetrics"]["sliding_aggregate"]["rows_ahead"]


@pytest.mark.proves("asking", "`max_ahead=`", "a stream")
def test_a_query_compares_with_the_time_of_its_micro_batch(spark: Any, tmp_path: Path) -> None:
    query = AheadQuery(spark, tmp_path)
    query.write("one.json", -60, 0, 86400)
    assert query.run() == ([(1.0, False), (2.0, False), (None, True)], 1)
    batch = query.results(spark.read, on_ahead="drop").collect()
    assert [row.n for row in batch] == [1.0, 2.0]


def test_a_micro_batch_that_failed_is_decided_again_by_the_time_in_its_log(
    spark: Any, tmp_path: Path
) -> None:
    query, day = AheadQuery(spark, tmp_path), 86400
    query.write("one.json", -60, 0, day)
    first, _ = query.run(fail=True)
    assert first == [(1.0, False), (2.0, False), (None, True)]
    assert query.run(fail=False) == (first, 1)
    query.write("two.json", 1, day)
    assert query.run(fail=True)[0] == [(3.0, False), (None, True)]
    log = tmp_path / "checkpoint" / "offsets" / "1"
    version, noted, *offsets = log.read_text().split("\n")
    later = json.loads(noted)
    later["batchTimestampMs"] += 2 * day * 1000
    log.write_text("\n".join([version, json.dumps(later), *offsets]))
    log.with_name(".1.crc").unlink(missing_ok=True)
    assert query.run(fail=False) == ([(3.0, False), (4.0, False)], 0)
