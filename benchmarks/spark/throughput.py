"""Spark: rows per second with all results, a pass-through, a trivial step and Spark's window.

All sides read the same files in the same micro-batches, in one session, into a sink that discards
the rows. The trivial step packs, groups, stores a state and unpacks like ours, but computes
nothing. The pass-through repartitions the rows by key, and returns them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import numpy as np
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.report.beside import Figure, beside
from benchmarks.spark.trivial import trivial_step
from mta import Max, Mean, TimeWindow
from mta.cli.console import say
from mta.monoids.product import Aggregations
from spark_integration.cli.demo import write_stream
from spark_integration.options import Options
from spark_integration.request import make_request
from spark_integration.session import local_session
from spark_integration.sliding import run_request
from spark_integration.step.step import Step, step

EVENTS, BATCHES, REPEATS = 4_000_000, 4, 3
FEW, MANY = 100, 10_000
#: Spark's own window gets only a share of the first batch, by slide: it copies every row once for
#: each slide in the hour. Smaller sizes have a fifth of that.
OWN_SHARE, LESS = {"1 minute": 1.0, "10 seconds": 0.2}, 0.2
ONE = {"peak": ("watts", Max())}
TWO = {"peak": ("watts", Max()), "mean": ("watts", Mean())}
SCHEMA = "device string, ts timestamp, watts double"


def run(size: float) -> list[Figure]:
    """Measure thousands of rows per second for few and for many keys.

    Smaller sizes have fewer of the many keys, so that the rows per key and micro-batch are equal.
    """
    spark = local_session(cores=2, memory="6g")  # Spark's own window needs more than the default
    figures = []
    for keys in (FEW, max(FEW, int(MANY * min(1, size)))):
        with tempfile.TemporaryDirectory() as folder:
            events = Path(folder, "events")
            rows_per_file = int(EVENTS * size) // BATCHES
            rows = write_stream(events, int(EVENTS * size), keys, rows_per_file=rows_per_file)
            say(f"{rows:,} events of {keys:,} keys")
            bench = Bench(spark, events, rows, full=size >= 1)
            figures += bench.against_trivial(keys)
            if keys == FEW:
                figures += bench.against_own_window(keys)
    spark.stop()
    return figures


class Bench:
    """Streaming queries over one folder of events."""

    def __init__(self, spark: SparkSession, events: Path, rows: int, full: bool) -> None:
        self.spark, self.events, self.rows, self.full = spark, events, rows, full

    def against_trivial(self, keys: int) -> list[Figure]:
        """Compare windows of one hour and 30 days with a step that computes nothing."""
        self.windows("1 hour", ONE)  # the first run warms up Java and the workers
        sides: dict[str, Callable[[], float]] = {
            "pass": self.passed,
            "trivial": lambda: self.windows("1 hour", ONE, trivial_step),
            "1 hour": lambda: self.windows("1 hour", ONE),
            "30 days": lambda: self.windows("30 days", ONE),
            "1 hour, max and mean": lambda: self.windows("1 hour", TWO),
        }
        taken: dict[str, list[float]] = {name: [] for name in sides}
        for _ in range(REPEATS if self.full else 1):
            for name, side in sides.items():
                taken[name].append(side())
                say(f"  {name}: {taken[name][-1] / 1e3:,.0f} k rows/s")
        rates = {name: float(np.median(found)) for name, found in taken.items()}
        peers = {"trivial step": rates.pop("trivial"), "passed through": rates.pop("pass")}
        hour = rates["1 hour"]
        figures = [
            Figure(
                f"{keys:,} keys, {name}",
                f"{rate / 1e3:,.0f} k rows/s",
                f"{peer / 1e3:,.0f} k rows/s, {what}",
                rate / peer,
                ">= 0.5" if what == "trivial step" and "mean" not in name else "",
            )
            for name, rate in rates.items()
            for what, peer in peers.items()
        ]
        length = Figure(
            f"{keys:,} keys, 30 days",
            f"{rates['30 days'] / 1e3:,.0f} k rows/s",
            f"{hour / 1e3:,.0f} k rows/s, 1 hour",
            rates["30 days"] / hour,
            "0.85 to 1.15",
        )
        return [*figures, length]

    def against_own_window(self, keys: int) -> list[Figure]:
        """Compare results for every event with Spark's window every minute and ten seconds."""
        ours = self.windows("1 hour", ONE)
        figures = []
        for slide, share in OWN_SHARE.items():
            rate = self.own_window(slide, share if self.full else share * LESS)
            figures.append(
                Figure(
                    f"{keys:,} keys, 1 hour, every event",
                    f"{ours / 1e3:,.0f} k rows/s",
                    f"{rate / 1e3:,.0f} k rows/s, Spark's own every {slide}",
                    ours / rate,
                )
            )
        return figures

    def windows(self, length: str, aggregations: Aggregations, with_step: Step = step) -> float:
        """Return the rows per second of ``sliding_aggregate`` with a step."""
        with tempfile.TemporaryDirectory() as folder:
            options = Options.of(
                by="device",
                on="ts",
                aggregations=aggregations,
                window=TimeWindow(length),
                store=f"file://{folder}/pages",
            )
            request = make_request(self.stream(), options)
            return self.rate(run_request(self.stream(), request, with_step), folder, self.rows)

    def passed(self) -> float:
        """Return the rows per second of a repartitioning by key."""
        with tempfile.TemporaryDirectory() as folder:
            results = self.stream().repartition("device")
            return self.rate(results.mapInArrow(lambda rows: rows, SCHEMA), folder, self.rows)

    def own_window(self, slide: str, share: float) -> float:
        """Return the rows per second of Spark's sliding window, over a share of the first file."""

        def windowed(df: DataFrame) -> DataFrame:
            late = df.where(F.rand(1) < share).withWatermark("ts", "0 seconds")
            window = F.window("ts", "1 hour", slide)
            return late.groupBy("device", window).agg(F.max("watts"))

        first = "00000.parquet"
        rows = parquet.read_metadata(self.events / first).num_rows * share
        with tempfile.TemporaryDirectory() as folder:
            return self.rate(windowed(self.stream(first)), folder, rows)

    def stream(self, files: str = "*.parquet") -> DataFrame:
        """Return the events as a stream of equal micro-batches."""
        reader = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        return reader.option("pathGlobFilter", files).parquet(str(self.events))

    def rate(self, results: DataFrame, folder: str, rows: float) -> float:
        """Return the rows per second from the query's start to its end."""
        writer = results.writeStream.format("noop").outputMode("append")
        writer = writer.option("checkpointLocation", f"{folder}/checkpoint")
        began = perf_counter()
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        return rows / (perf_counter() - began)


EXPERIMENTS = (
    beside(
        "spark",
        "Spark",
        "A stream with one result per row and pages on local disk, on `local[2]`. Rows per second. "
        '"Trivial step" is the same pipeline without windows. "Passed through" is rows that '
        "are only repartitioned by key. Spark's own window reads part of the rows.",
        run,
        quick=0.05,
    ),
)
