"""History first, then a stream: every event in the windows once, whichever side brings it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from mta import Max, Min, Product, Sum, TimeWindow
from mta.errors import MissingPage
from mta.frames import SinceMax
from spark_integration import History, delete_history, save_history, sliding_aggregate
from spark_integration.errors import InvalidRequest, StateMismatch
from spark_integration.plan import StartFrom
from spark_integration.step.starts import SavedStart, put_starts
from spark_integration.step.step import step
from stores import InvalidStoreURL, MemoryStore, open_store
from tests.support.spark.events import SECOND, START, make_events, rows_of
from tests.support.spark.jobs import Job
from tests.support.spark.states import make_plan, snapshot_in

CUTOVER = START + 100 * SECOND


def started(store: MemoryStore, until: int | None) -> Any:
    """The start of one bucket with the events of seconds 0 to 99, and the plan of its stream."""
    product = Product({"sum": ("watts", Sum())})
    plan = make_plan(window=TimeWindow(30), monoid=product, results={"sum": pa.float64()})
    rows = rows_of(*(("a", float(i), 1.0) for i in range(100)))
    snapshot = snapshot_in(step(None, rows, plan, store).state)
    put_starts(store, "h", {0: SavedStart(1, until, plan.fixed, snapshot)})
    return plan


def test_a_bucket_begins_with_what_is_kept_and_leaves_it_as_it_is() -> None:
    store = MemoryStore()
    plan = started(store, CUTOVER)
    before = {*store.keys()}
    start = StartFrom("h", "memory://", CUTOVER)
    changed = make_plan(
        window=TimeWindow(10), start=start,
        monoid=Product({"sum": ("watts", Sum()), "low": ("watts", Min())}),
        results={"sum": pa.float64(), "low": pa.float64()},
    )  # fmt: skip
    same = replace(plan, start=start)
    for other, sums in ((same, [30.0, 28.0]), (changed, [10.0, 8.0])):
        rows = rows_of(("a", 99.0, 7.0), ("a", 100.0, 1.0), ("a", 103.0, 1.0))
        done = step(None, rows, other, store)
        assert done.rows.column("sum").to_pylist() == sums
        assert (done.counts.rows_read, done.counts.rows_dropped, done.counts.rows_late) == (3, 1, 0)
        # A retry gives the same, and a later batch asks for the start no more.
        assert step(None, rows, other, store).state == done.state
        store.delete_many(["start.h/0"])
        later = step(done.state, rows_of(("a", 50.0, 9.0), ("b", 104.0, 2.0)), other, store)
        assert later.rows.column("sum").to_pylist() == [2.0]
        started(store, CUTOVER)
        assert before <= {*store.keys()}


def test_a_start_that_is_not_there_or_of_others_is_named() -> None:
    store = MemoryStore()
    plan = started(store, None)
    with pytest.raises(MissingPage, match="make it with save_history"):
        step(None, rows_of(), make_plan(start=StartFrom("g", "memory://", None)), store)
    other = make_plan(start=StartFrom("h", "memory://", None), by=("site",), key_types=("int",))
    with pytest.raises(StateMismatch, match=r"\* by +device string +site int"):
        step(None, rows_of().rename_columns(["site", "ts", "watts"]), other, store)
    assert plan.start is None


def test_a_history_is_deleted_and_others_are_not(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/pages"
    with open_store(url) as store:
        names = ["start.h/0", "start.h/whole", "start.h.0123abcd/0/1/x", "start.h.0123abcd:k/0/1/y"]
        others = ["start.h.two/0", "start.h.two.0123abcd/0/1/x", "start.hh/0", "h/0/0/x"]
        store.put_many(dict.fromkeys([*names, *others], b"page"))
        store.flush()
    assert delete_history(History("h", url)) == len(names)
    with open_store(url) as store:
        assert sorted(store.keys()) == sorted(others)
    with pytest.raises(MissingPage, match="no start 'h'"):
        delete_history(History("h", url))
    with pytest.raises(InvalidRequest, match="give the store that has it"):
        delete_history(History("h", "spark://state"))


@pytest.mark.refuses("options", "`start_from`", "key by key", "a batch")
def test_what_cannot_be_gone_on_from_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    job = Job(spark, tmp_path)
    frame = spark.createDataFrame(make_events(20, 2).to_pandas())
    aggregations = {"peak": ("watts", Max())}
    given = job.settings(aggregations=aggregations)
    with pytest.raises(InvalidStoreURL, match="there is no store here"):
        job.run(start_from="none")
    with open_store(job.store) as store:
        store.put_many({"another/0/0": b"page"})
    with pytest.raises(InvalidRequest, match="no complete start 'none'"):
        job.run(start_from="none")
    with pytest.raises(InvalidRequest, match="is for streams"):
        sliding_aggregate(frame, **given, start_from="none")
    with pytest.raises(InvalidRequest, match="which a batch does not have"):
        save_history(frame, "h", until=0, **job.settings(store="spark://state"))
    with pytest.raises(InvalidRequest, match="takes a batch DataFrame"):
        save_history(job.source(), "h", until=0, **given)
    save_history(frame, "h", until=0, **given)
    with pytest.raises(InvalidRequest, match=r"\* buckets +2 +4"):
        job.run(start_from="h", buckets=4)
    with pytest.raises(InvalidRequest, match="windows that are vectorized"):
        job.run(start_from="h", window=SinceMax("watts"))
