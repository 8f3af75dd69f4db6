"""Silent keys and late rows under a real Spark: timers, restarts, replays, killed workers."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest
import xxhash
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from mta import TimeWindow
from spark_integration import sliding_aggregate
from spark_integration.cli.checkpoints import list_windows
from tests.support.sampling import REST, some
from tests.support.spark.events import SECOND, START, write_files
from tests.support.spark.faulty_steps import dying_at_the_end
from tests.support.spark.idle_cases import (
    SIZE,
    WHOLE,
    bursts,
    naive,
    plain,
    rows_of,
    turns,
    windows_in,
)
from tests.support.spark.jobs import Job, of_rows

NAMES = ("device", "ts", "watts", "all", "peak", "n")


class IdleJob(Job):
    """A job whose source has a watermark, over windows of a minute."""

    delay = "0 seconds"

    options: ClassVar = {"aggregations": WHOLE, "window": TimeWindow(SIZE), "idle": "emit"}

    def source(self, files: int = 1) -> DataFrame:
        return super().source(files).withWatermark("ts", self.delay)

    def write(self, rows: pa.Table, files: int = 1) -> None:
        """More files of input, with the columns that the source has."""
        rows = rows.append_column("site", pa.nulls(rows.num_rows, pa.string()))
        write_files(rows, self.input, files, first=len(list(self.input.glob("*.parquet"))))

    def found(self, marked: bool | None = None) -> list[tuple[Any, ...]]:
        """All results in the oracle's form; ``marked`` only those that are late or are not."""
        rows = [row for batch in self.batches.values() for row in batch]
        rows = [row for row in rows if marked is None or row.late is marked]
        return plain(
            (row.device, round(row.ts.timestamp() * SECOND), *(row[name] for name in NAMES[2:]))
            for row in rows
        )

    def keys(self) -> set[str]:
        """The keys that have a window in Spark's state."""
        listing = list_windows(self.spark, self.checkpoint, self.store, limit=1000)
        return {name for name, _ in listing.windows}

    def delete_offsets(self, batch: int) -> None:
        """As if a batch that is not committed had never been planned."""
        for name in (str(batch), f".{batch}.crc"):
            (self.checkpoint / "offsets" / name).unlink(missing_ok=True)


@pytest.fixture(params=some(["file", "state"], by_default=1))
def job(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> IdleJob:
    job = IdleJob(spark, tmp_path)
    job.store = "spark://state" if request.param == "state" else job.store
    return job


def totals(query: StreamingQuery) -> dict[str, int]:
    """What all batches of a run have counted."""
    counted = [batch["observedMetrics"]["sliding_aggregate"] for batch in query.recentProgress]
    return {name: sum(row[name] for row in counted) for name in of_rows(counted[0].asDict())}


@pytest.mark.proves("options", "`idle`", "key by key")
def test_a_key_that_stops_goes_with_its_pages(job: IdleJob) -> None:
    """d0 speaks for 25 seconds, others go on for three minutes, in files of 50 seconds."""
    first, rest = turns(25, 1, seed=1), bursts(175, 1, seed=2)
    later = pa.array(rest.column("ts").cast(pa.int64()).to_numpy() + 25 * SECOND)
    rest = rest.set_column(0, "device", pa.array(["d1", "d2", "d3"] * 58 + ["d1"]))
    rest = rest.set_column(1, "ts", later.cast(pa.timestamp("us", "UTC")))
    events = pa.concat_tables([first, rest])
    job.write(events, files=4)
    seen: list[set[str]] = []
    job.run(sink=lambda _: seen.append(windows_in(job.pages())))
    assert job.found() == naive(events, until=199)
    (emptied,) = (number for number, rows in job.batches.items() if any(r.n == 0 for r in rows))
    # The file up to 99 s moves the watermark past 84 s, so the next batch forgets d0.
    assert emptied == 2
    of_d0 = xxhash.xxh3_128_hexdigest(b"d0")
    assert all(of_d0 in names for names in seen[1:emptied])
    assert not any(of_d0 in names for names in seen[emptied + 2 :])
    assert len(seen) > emptied + 2
    assert job.keys() == {"d1", "d2", "d3"}


def test_restarts_and_replays_give_every_row_once(job: IdleJob) -> None:
    """Batches are run twice: those with rows, and those that the watermark alone brings."""
    events = turns(300, 4, seed=3)
    two_back = {"retain": 3}
    job.write(events, files=2)
    job.run(**two_back)
    data, last = sorted(job.batches)[-2:]
    assert any(row.n == 0 for row in job.batches[last])
    assert not any(row.watts for row in job.batches[last])
    results, pages = job.found(), job.pages()
    assert results == naive(events, until=299)
    for again in ([last], [data, last]):
        for number in again:
            job.batches.pop(number)
            job.remove_commit(number)
        if data in again:
            job.delete_offsets(last)
        job.run(**two_back)
        assert sorted(job.batches)[-2:] == [data, last]
        assert (job.found(), job.pages()) == (results, pages)
    # And at last nobody speaks any more but one.
    job.write(rows_of(*(("z", 1000 + i, 1.0) for i in range(4))), files=4)
    job.run(**two_back)
    assert job.keys() == {"z"}
    of_z = xxhash.xxh3_128_hexdigest(b"z")
    assert {name for name in windows_in(job.pages()) if len(name) == len(of_z)} <= {of_z}


def test_a_killed_worker_is_made_good_by_the_restart(job: IdleJob, tmp_path: Path) -> None:
    events = turns(250, 4, seed=4)
    job.write(events, files=3)
    marker = tmp_path / "killed"
    with pytest.raises(StreamingQueryException):
        job.run_step(dying_at_the_end(str(marker)))
    assert marker.exists()
    job.run()
    assert job.found() == naive(events, until=249)


@REST
def test_another_zone_and_columns_that_cannot_be_null(job: IdleJob) -> None:
    events = turns(150, 4, seed=6)
    job.write(events, files=3)
    zone = job.spark.conf.get("spark.sql.session.timeZone")
    job.spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        frame = job.source().withColumn("site", F.lit("here"))
        frame = frame.withColumn("watts", F.coalesce("watts", F.lit(0.0)))
        assert not frame.schema["site"].nullable
        results = sliding_aggregate(frame, carry=["site"], **job.settings())
        assert results.schema["site"].nullable
        assert results.schema["watts"].nullable
        job.run_frame(results)
    finally:
        job.spark.conf.set("spark.sql.session.timeZone", zone)
    assert job.found() == naive(events, until=149)
    rows = [row for batch in job.batches.values() for row in batch]
    assert {row.site for row in rows if row.n} == {"here"}
    assert {row.site for row in rows if not row.n} == {None}


@REST
def test_events_before_1970_are_never_idle(job: IdleJob) -> None:
    """Spark's watermark cannot be there."""
    events = turns(100, 2, seed=7)
    early = events.column("ts").cast(pa.int64()).to_numpy() - START - 10**6 * SECOND
    job.write(events.set_column(1, "ts", pa.array(early).cast(pa.timestamp("us", "UTC"))), files=2)
    job.run()
    assert [row[2:] for row in job.found()] == [row[2:] for row in naive(events, until=None)]
    assert job.keys() == {"d0", "d1"}


@pytest.mark.parametrize("idle", some(["expire", "keep"], by_default=1))
@pytest.mark.proves("options", '`on_late="side"`', "key by key")
def test_late_rows_come_out_beside_the_results(job: IdleJob, idle: str) -> None:
    on_time = [rows_of(("a", 10, 1.0), ("b", 20, 2.0)), rows_of(("a", 30, 3.0), ("b", 130, 4.0))]
    late = rows_of(("a", 9, 5.0), ("b", 19, 6.0))
    job.write(on_time[0])
    job.write(pa.concat_tables([on_time[1], late]))
    query = job.run(on_late="side", idle=idle)
    assert job.found(marked=False) == naive(pa.concat_tables(on_time), until=None)
    assert [row[2:] for row in job.found(marked=True)] == [
        (5.0, None, None, None),
        (6.0, None, None, None),
    ]
    counts = {
        "rows_read": 6,
        "rows_dropped": 0,
        "rows_late": 2,
        "rows_invalid": 0,
        "rows_missing": 0,
        "rows_incomplete": 0,
        "rows_ahead": 0,
    }
    assert totals(query) == counts
    assert job.keys() == ({"a", "b"} if idle == "keep" else {"b"})
    # "a" was last heard of at 30 s: its window, if it was not expired, was empty from 90 s on.
    job.write(rows_of(("a", 80, 7.0)))
    job.run(on_late="side", idle=idle)
    assert len(job.found(marked=True)) == (2 if idle == "keep" else 3)
