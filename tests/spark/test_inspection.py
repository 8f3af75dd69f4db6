"""Into a query's windows from a notebook, and what a query counts of its pages."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from mta import Count, CountWindow, Max, Mean, TimeWindow
from mta.errors import MissingPage, SnapshotMismatch
from spark_integration import events_of_key, inspect_query, inspection, report_counts
from spark_integration.errors import InvalidRequest
from stores import open_store
from tests.support.faulty import eventually
from tests.support.key_by_key import KeyByKey
from tests.support.sampling import some
from tests.support.spark.events import SECOND, make_events, spread, write_files
from tests.support.spark.jobs import WINDOW, Job

PEAK = KeyByKey(float("-inf"), max, "peak")
SEVERAL = {"few": TimeWindow("20 seconds"), "many": TimeWindow("4 minutes")}


def newest(events: pa.Table, device: str, seconds: int) -> list[tuple[int, float]]:
    """Times and values of a key's last seconds."""
    columns = (events.column("device"), events.column("ts").cast(pa.int64()), events["watts"])
    rows = zip(*(column.to_pylist() for column in columns), strict=True)
    own = [(time, watts) for name, time, watts in rows if name == device]
    return [row for row in own if row[0] > own[-1][0] - seconds * SECOND]


@pytest.mark.parametrize(
    ("frame", "lateness", "store", "monoid"),
    some(
        [
            (TimeWindow("100 seconds"), None, "file", PEAK),
            (TimeWindow("100 seconds"), None, "state", Max()),
            (TimeWindow("100 seconds"), "1 minute", "file", Max()),
            (SEVERAL, None, "file", Max()),
            (TimeWindow("100 seconds"), None, "file", Max()),
            (TimeWindow("100 seconds"), "1 minute", "file", PEAK),
        ],
        by_default=4,
    ),
    ids=[
        "one window-key by key", "in Spark's state", "late events-vectorized", "several",
        "one window-vectorized", "late events-key by key",
    ],
)  # fmt: skip
@pytest.mark.proves("stores", "`inspect_query`", "file", "spark://state")
@pytest.mark.proves("options", "`inspect_query`", "vectorized", "key by key", "late events")
@pytest.mark.proves("PySpark", "`inspect_query`")
def test_each_key_and_one_keys_events(
    spark: SparkSession, tmp_path: Path, monoid: Any, lateness: Any, frame: Any, store: str
) -> None:
    folder = tmp_path / "my query"  # whose blank Spark's reader of states would not find
    folder.mkdir()
    job = Job(spark, folder)
    job.store = "spark://state" if store == "state" else job.store
    events = spread(make_events(600, 4))
    write_files(events, job.input, files=2)
    aggregations = {"peak": ("watts", monoid), "n": (None, Count())}
    job.run(
        aggregations=aggregations,
        types={"peak": "double"},
        window=frame,
        allowed_lateness=lateness,
    )
    found = inspect_query(job.checkpoint, job.store)
    assert found.key.tolist() == ["d0", "d1", "d2", "d3"] and "n" not in found
    assert found.attrs["bytes"] > 0
    full = inspect_query(job.checkpoint, job.store, aggregations=aggregations, window=frame)
    sizes = {"few": 20, "many": 240} if frame is SEVERAL else {"": 100}
    for row in full.to_dict("records"):
        assert row["newest"].value // 1000 == newest(events, row["key"], 1)[-1][0]
        for name, size in sizes.items():
            values = [watts for _, watts in newest(events, row["key"], size)]
            mark = f"_{name}" if name else ""
            assert (row[f"peak{mark}"], row[f"n{mark}"]) == (max(values), len(values))
        held = len(newest(events, row["key"], max(sizes.values())))
        # Of several key by key it is what is kept, in whole groups.
        assert row["events"] == held or (row["events"] > held and frame is SEVERAL)
    one = events_of_key(job.checkpoint, job.store, "d2", aggregations=aggregations, window=frame)
    times = (one.time.astype("M8[us]").astype("i8")).tolist()
    wanted = newest(events, "d2", max(sizes.values()))
    assert list(zip(times, one.watts, strict=True))[-len(wanted) :] == wanted
    # More is kept where events may come late, and of multiple windows in whole groups.
    assert len(one) == len(wanted) or lateness is not None or frame is SEVERAL


def test_what_does_not_fit_is_named(spark: SparkSession, tmp_path: Path) -> None:
    job = Job(spark, tmp_path)
    write_files(spread(make_events(60, 2)), job.input, files=1)
    job.run()
    own = job.settings()
    asked = {"aggregations": own["aggregations"], "window": own["window"]}
    with pytest.raises(KeyError, match="'d7' has no window"):
        events_of_key(job.checkpoint, job.store, "d7", **asked)
    with pytest.raises(SnapshotMismatch):
        inspect_query(
            job.checkpoint, job.store, aggregations={"m": ("watts", Mean())}, window=own["window"]
        )
    with open_store(job.store) as store:
        before = sorted(store.keys())
    with pytest.raises(SnapshotMismatch, match="give the query's own frames"):
        inspect_query(
            job.checkpoint, job.store, aggregations=own["aggregations"], window=CountWindow(2)
        )
    with open_store(job.store) as store:  # a look writes nothing
        assert sorted(store.keys()) == before
    with pytest.raises(InvalidRequest, match="both the aggregations and the window"):
        inspect_query(job.checkpoint, job.store, window=own["window"])
    with pytest.raises(InvalidRequest, match="is not a checkpoint"):
        inspect_query(tmp_path, job.store)


def test_a_query_that_goes_on_meanwhile(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look at its state and that at its pages, batches delete those."""
    job, events = Job(spark, tmp_path), spread(make_events(5000, 4))
    waiting = [events.slice(1000, 2000), events.slice(3000)]
    write_files(events.slice(0, 1000), job.input, files=1)
    job.run()
    opened = inspection.open_pages

    def after_more_batches(*arguments: Any) -> Any:
        if more:
            more.clear()
            write_files(waiting.pop(0), job.input, files=6, first=len(list(job.input.iterdir())))
            job.run()
        return opened(*arguments)

    monkeypatch.setattr(inspection, "open_pages", after_more_batches)
    own = job.settings()
    asked = {"aggregations": own["aggregations"], "window": own["window"]}
    more = [True]
    with monkeypatch.context() as patch:
        patch.setattr(inspection, "LOOKS", 1)
        with pytest.raises(MissingPage, match=r"changes too quickly.* Nothing is lost.*retain=20"):
            events_of_key(job.checkpoint, job.store, "d2", **asked)
    more = [True]
    found = events_of_key(job.checkpoint, job.store, "d2", **asked)
    assert not waiting and not more
    assert found.watts.tolist() == [watts for _, watts in newest(events, "d2", 5000)][-WINDOW:]
    with open_store(job.store) as store:
        store.delete_many(list(store.keys()))
    with pytest.raises(MissingPage, match=r"^(?!.*too quickly)"):
        events_of_key(job.checkpoint, job.store, "d2", **asked)


@pytest.mark.parametrize("monoid", [Max(), PEAK], ids=["vectorized", "key by key"])
@pytest.mark.proves("options", "counts of pages", "vectorized", "key by key")
def test_counts_are_those_of_the_store(job: Job, monoid: Any) -> None:
    """Each page that is in the store was counted when it was written, with its bytes."""
    events = spread(make_events(1200, 4))
    write_files(events, job.input, files=3)
    seen: list[Mapping[str, int]] = []
    name = f"counts of {job.checkpoint}"  # not of queries that have ended, and are still reported
    listener = report_counts(job.spark, lambda query, counts: seen.append(counts), metrics=name)
    try:
        job.run(
            aggregations={"peak": ("watts", monoid)}, types={"peak": "double"},
            window=CountWindow(100_000), retain=50, metrics=name,
        )  # fmt: skip
        eventually(lambda: len(seen) >= 3)  # Spark tells of a batch a little later
    finally:
        job.spark.streams.removeListener(listener)
    total = {name: sum(counts[name] for counts in seen) for name in seen[0]}
    assert total["rows_read"] == 1200
    with open_store(job.store) as store:
        keys = list(store.keys())
        size = sum(len(page or b"") for page in store.get_many(keys))
    assert (total["pages_written"] - total["pages_deleted"]) == len(keys)
    if not total["pages_deleted"]:
        assert total["bytes_written"] == size
    assert total["pages_written"] > 0 and total["bytes_written"] >= size
    assert total["store_micros"] > 0
