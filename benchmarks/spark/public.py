"""The public benchmarks of ``benchmarks.public`` on Spark: rows per second and core.

Each query reads Parquet files as one batch, into a sink that discards the rows. Figures are the
best of a few runs. Query 5 is complete: windows by auction with a row every two seconds, and then
the auctions with the most bids at each moment.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from time import perf_counter

import numpy as np
import pyarrow as pa
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from benchmarks.public.experiments import (
    BIDS,
    CHECKED,
    READINGS,
    RECORDS,
    TEN_SECONDS,
    draw,
    found,
    hot_items_of_lists,
    row,
)
from benchmarks.public.streams import (
    HOP,
    LENGTH,
    MINUTE,
    START,
    Bids,
    bids,
    concurrent,
    readings,
    records,
)
from benchmarks.report.experiment import Experiment, Progress, Rows
from mta import Max, Sum
from mta.frames import Frame
from spark_integration import sliding_aggregate
from spark_integration.session import available_cores, local_session

TIMES, FILES = 2, 4
#: The numbers of windows, which are columns of a row.
WINDOWS = (1, 10, 100)
#: The number of sensors of the football match; each is a key.
SENSORS = 16
Query = Callable[[DataFrame], DataFrame]


def closed(stream: Bids) -> pa.Table:
    """Return the bids, and for each auction an event without a bid after its last window.

    These events make the last results of auctions due. A hop contains the bids from its start to
    before its end, but our windows exclude the start and include the end. So times are increased by
    a microsecond.
    """
    auctions, last = np.unique(stream.auctions[::-1], return_index=True)
    ends = stream.times[::-1][last] + LENGTH + HOP
    keys = np.concatenate((stream.auctions, auctions))
    times = np.concatenate((stream.times, ends)) + 1
    values = np.concatenate((np.ones(len(stream), "i8"), np.zeros(len(auctions), "i8")))
    order = np.argsort(times, kind="stable")
    return table(keys[order], values[order], times[order])


def table(keys: np.ndarray, values: np.ndarray, times: np.ndarray) -> pa.Table:
    """Return events as an Arrow table."""
    stamps = pa.array(times.view("M8[us]"), pa.timestamp("us", "UTC"))
    return pa.table({"key": pa.array(keys), "value": pa.array(values), "ts": stamps})


def windows(
    window: Frame | Mapping[str, Frame],
    folder: str,
    events: DataFrame,
    largest: bool = False,
    emit_every: str | None = None,
) -> DataFrame:
    """Return the sum or the maximum of each key's windows."""
    monoid = Max() if largest else Sum("int64")
    return sliding_aggregate(
        events, by="key", on="ts", aggregations={"num": ("value", monoid)}, window=window,
        store=f"file://{folder}/pages", emit_every=emit_every, buckets=8,
    )  # fmt: skip


def hot_items(folder: str, events: DataFrame) -> DataFrame:
    """Return the auctions with the most bids at each moment (query 5)."""
    counts = windows(TEN_SECONDS, folder, events, emit_every="2 seconds")
    most = F.max("num").over(Window.partitionBy("ts"))
    return counts.withColumn("most", most).where("num = most and num > 0")


class Bench:
    """Queries over files, in one session."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder

    def events(self, name: str, rows: pa.Table) -> DataFrame:
        """Write a table as files, and read them."""
        place = self.folder / name
        place.mkdir()
        length = -(-rows.num_rows // FILES)
        for number in range(FILES):
            parquet.write_table(rows.slice(number * length, length), place / f"{number}.parquet")
        return self.spark.read.parquet(str(place))

    def seconds(self, query: Query, events: DataFrame) -> float:
        """Return the seconds of a query from start to end, the best of a few runs."""
        taken = []
        for _ in range(TIMES):
            began = perf_counter()
            query(events).write.format("noop").mode("overwrite").save()
            taken.append(perf_counter() - began)
        return min(taken)

    def check(self, folder: str) -> None:
        """Compare query 5 with plain Python, over bids of 40 seconds."""
        few = bids(CHECKED)
        stream = Bids(few.auctions, START + np.arange(CHECKED) * (4 * LENGTH // CHECKED))
        answers: dict[int, tuple[list[int], int]] = {}
        table = hot_items(folder, self.events("checked", closed(stream))).toArrow()
        moments = table["ts"].cast(pa.timestamp("us", "UTC")).to_numpy().astype("M8[us]")
        for at, key, num in zip(moments.view("i8").tolist(), table["key"].to_pylist(),
                                table["num"].to_pylist(), strict=True):  # fmt: skip
            keys = [*answers.get(at, ([], 0))[0], key]
            answers[at] = sorted(keys), num
        for at, auctions, most in hot_items_of_lists(stream):
            if answers.get(at) != (auctions, most):
                raise AssertionError(f"at {at}: {answers.get(at)} instead of {auctions}, {most}")


def run(size: float, progress: Progress) -> Rows:
    """Measure rows per second and core of the three benchmarks."""
    cores = available_cores()
    spark, rows = local_session(cores=cores), []
    spark.conf.set("spark.sql.shuffle.partitions", 2 * cores)
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(spark, Path(folder))
        bench.check(folder)
        bid, record, reading = (max(CHECKED, int(n * size)) for n in (BIDS, RECORDS, READINGS))
        stream, shuffled = bids(bid), records(record, max(1_000, int(1e6 * min(1, 10 * size))))
        values, times = readings(reading)
        sensors = table(np.arange(reading) % SENSORS, np.round(values * 1000).astype("i8"), times)
        auctions = table(stream.auctions, np.ones(bid, "i8"), stream.times)
        cells: list[tuple[str, str, pa.Table, int, Query]] = [
            ("Nexmark", "query 5, hop 10 s by 2 s", closed(stream), bid,
             partial(hot_items, folder)),
            ("Nexmark", "query 5's counts, exact after every bid", auctions, bid,
             partial(windows, TEN_SECONDS, folder)),
            ("ShuffleBench", "consumers by Zipf, max of a minute",
             table(shuffled.consumers, shuffled.values, shuffled.times), record,
             partial(windows, MINUTE, folder, largest=True)),
            *(("Scotty", f"{n} window{'s' * (n > 1)} of 1 to 20 s, sums after every reading",
               sensors, reading,
               partial(windows, concurrent(n), folder)) for n in WINDOWS),
        ]  # fmt: skip
        for number, (benchmark, name, events, count, query) in enumerate(
            progress.over(cells, lambda cell: f"{cell[0]}, {cell[1]}")
        ):
            taken = bench.seconds(query, bench.events(str(number), events))
            rows.append(row(benchmark, name, count, taken, cores))
    spark.stop()
    return rows


EXPERIMENTS = (
    Experiment(
        "spark_public",
        "Public benchmarks on Spark",
        "Nexmark, query 5; ShuffleBench, ICPE 2024; general stream slicing, EDBT 2019",
        "Published figures are of clusters; these are of one machine, in rows per second and core.",
        f"A batch of {FILES} Parquet files into a sink that drops the rows, on all cores of this "
        f"machine. The best of {TIMES} runs, including their start. Query 5 is first checked "
        "against plain lists. Scotty's readings are of 16 sensors, each with all windows.",
        run,
        {"rows": draw},
        found,
        quick=0.05,
    ),
)
