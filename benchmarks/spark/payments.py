"""A workload from end to end: features of card payments, computed, checked, stored and read.

- A stream with default settings computes twelve features of each payment, writes them as Parquet,
  and publishes its windows in Redis. ``payment_data`` has the payments and the features.
- The results of a sample of cards are compared with DuckDB, row by row.
- A separate process reads the features of cards as of a moment (``payment_lookups``). The answers
  are compared with DuckDB too.
- A handwritten function per card, with its payments in Spark's state, computes the same features
  for the first, small files. It is checked the same way.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.ours.limits import used_bytes
from benchmarks.ours.memory import MIB
from benchmarks.papers.server import redis_server
from benchmarks.report.beside import Figure, beside
from benchmarks.spark.keys import workers
from benchmarks.spark.payment_by_hand import by_hand
from benchmarks.spark.payment_data import (
    AGGREGATIONS,
    DAY,
    DAYS,
    FEATURES,
    LATENESS,
    RESULTS,
    SCHEMA,
    SHARE,
    START,
    WINDOWS,
    Oracle,
    Payments,
)
from benchmarks.spark.payment_lookups import AT_ONCE
from mta.cli.console import say
from spark_integration import sliding_aggregate
from spark_integration.session import local_session

CARDS, MERCHANTS, EVENTS, FILES = 1_000_000, 20_000, 4_000_000, 20
#: The small files at the start, which the handwritten function reads, and their share of a file.
SMALL_FILES, SMALL_SHARE = 4, 0.05
NAME = "payments"
#: A moment after the last payment, as of which features are read.
MOMENT = START + np.timedelta64(DAYS * DAY, "us")


def stream_of(size: float) -> Payments:
    """Return the stream of a size."""
    file = max(200, int(EVENTS * size / FILES))
    small = max(50, int(file * SMALL_SHARE))
    cards, merchants = (max(100, int(many * size)) for many in (CARDS, MERCHANTS))
    return Payments(cards, merchants, [small] * SMALL_FILES, [file] * FILES)


# --- the sides ------------------------------------------------------------------------------------


def ours(store: str, df: DataFrame, folder: Path) -> DataFrame:
    """Run ``sliding_aggregate`` with default settings; publish the windows."""
    del folder
    results = sliding_aggregate(
        df, by="card", on="ts", aggregations=AGGREGATIONS, window=WINDOWS,
        store=store, allowed_lateness=LATENESS, publish=NAME,
    )  # fmt: skip
    share = F.try_divide("declines_week", "payments_week").alias(SHARE)
    return results.select("card", "ts", *RESULTS, share)


# --- the measurement ------------------------------------------------------------------------------

Side = Callable[[DataFrame, Path], DataFrame]


@dataclass(frozen=True)
class Run:
    """Spark's reports of the micro-batches of a query."""

    batches: list[Any]

    def rate(self, least: int = 1, most: int | None = None) -> float:
        """Return the rows per second of some batches, by default of all but the first."""
        some = self.batches[least:most]
        rows = sum(progress.numInputRows for progress in some)
        return float(rows / sum(progress.batchDuration for progress in some) * 1000)

    @property
    def state_bytes(self) -> int:
        """Return the size of Spark's state after the last batch."""
        return int(self.batches[-1].stateOperators[0].memoryUsedBytes)


def stream(spark: SparkSession, side: Side, files: Path, folder: Path) -> Run:
    """Run a query over files, a micro-batch each, into Parquet files in the folder."""
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    results = side(reader.parquet(str(files)), folder)
    writer = results.writeStream.option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.trigger(availableNow=True).format("parquet").start(str(folder / "results"))
    query.awaitTermination()
    return Run([progress for progress in query.recentProgress if progress.numInputRows])


def lookups(store: str, cards: list[str], last: int, seconds: float) -> dict[str, Any]:
    """Read features in a separate process; return its figures, and the answers of the cards."""
    given = {
        "store": store, "name": NAME, "cards": cards, "last": last, "seconds": seconds,
        "at": int(MOMENT.astype("i8")),
    }  # fmt: skip
    command = [sys.executable, "-m", "benchmarks.spark.payment_lookups"]
    done = subprocess.run(command, input=json.dumps(given), capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"the reader failed: {done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def features_of(read: dict[str, list[Any]]) -> pa.Table:
    """Return the features of results that were read."""
    shares = [
        declines / payments if payments else None
        for declines, payments in zip(read["declines_week"], read["payments_week"], strict=True)
    ]
    return pa.table({"card": read["card"], **{name: read[name] for name in RESULTS}, SHARE: shares})


def measured(spark: SparkSession, payments: Payments, store: str, seconds: float) -> list[Figure]:
    """Measure both sides, check them, and read features for some ``seconds`` per figure.

    ``store`` is the URL of a Redis server of this measurement.
    """
    empty = used_bytes(store)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        payments.write(folder)
        mine = stream(spark, partial(ours, store), folder / "all", folder / "ours")
        memory = workers() / MIB
        say(f"  ours: {mine.rate():,.0f} rows/s")
        peer = stream(spark, by_hand, folder / "small", folder / "by_hand")
        say(f"  by hand: {peer.rate():,.0f} rows/s")
        oracle = Oracle(folder / "all")
        checked = oracle.check(folder / "ours" / "results")
        small = Oracle(folder / "small")
        small.check(folder / "by_hand" / "results")
        cards = oracle.cards()
        read = lookups(store, cards, len(payments.files) - 1, seconds)
        answers = oracle.check_reads(MOMENT, features_of(read["answers"]))
        stored = (used_bytes(store) - empty) / oracle.held()
        rates = _rates(payments, mine, peer)
        return [
            *rates,
            Figure("stored for each payment of the last 30 days",
                   f"{stored:,.0f} bytes, in Redis",
                   f"{peer.state_bytes / small.held():,.0f} bytes, a function by hand, in memory"),
            Figure("anonymous memory of a worker, at most", f"{memory:,.0f} MiB", ""),
            *_reads(read),
            Figure("results that DuckDB computes too", f"{checked:,} equal, none different", ""),
            Figure("reads that DuckDB computes too", f"{answers:,} equal, none different", ""),
        ]  # fmt: skip


def _rates(payments: Payments, mine: Run, peer: Run) -> list[Figure]:
    small = len(payments.small)
    what = f"{payments.cards:,} cards, {len(FEATURES)} features"
    both = mine.rate(1, small), peer.rate()
    return [
        Figure(f"{what}, micro-batches of {payments.large[0]:,} payments",
               f"{mine.rate(small):,.0f} rows/s", ""),
        Figure(f"{what}, the first micro-batches, of {payments.small[0]:,} payments",
               f"{both[0]:,.0f} rows/s", f"{both[1]:,.0f} rows/s, a function by hand",
               both[0] / both[1]),
    ]  # fmt: skip


def _reads(read: dict[str, Any]) -> list[Figure]:
    return [
        Figure("reads of one random card per second, by one process",
               f"{read['single']:,.0f}, each {read['p50_us']:,.0f} us (99th percentile "
               f"{read['p99_us']:,.0f} us)", ""),
        Figure(f"reads of {AT_ONCE:,} random cards at once, by one process",
               f"{read['many']:,.0f} cards per second", ""),
    ]  # fmt: skip


def run(size: float) -> list[Figure]:
    """Measure a stream whose cards, merchants and payments are a share of the full ones."""
    spark = local_session(cores=2, memory="4g")
    payments = stream_of(size)
    say(f"{payments.events:,} payments of {payments.cards:,} cards")
    try:
        with redis_server() as store:
            return measured(spark, payments, store, 10 * min(1, size))
    finally:
        spark.stop()


EXPERIMENTS = (
    beside(
        "payments",
        "Card payments, from end to end",
        "A stream of card payments with default settings on `local[2]`: 1,000,000 cards, 20,000 "
        "merchants, both by a law like Zipf's, over 40 days; 2 % arrive up to an hour late. Each "
        "payment gets 12 features of the time before it, over 1 hour, 1 day, 7 days and 30 days: "
        "counts, sums, means, distinct merchants, the last country, and the share of declined "
        "payments. The windows are in Redis on the same machine, published, and read by another "
        "process as of a moment; the "
        "features are written as Parquet. `sliding_aggregate` computes each of its six "
        "aggregations over each of the four windows, and so 24 columns. The function by hand is "
        "`applyInPandasWithState` with the payments of a card in its state; it computes the 12 "
        "features, and only for the first files, when its state is small. All results of the 20 "
        "most frequent cards and of 2 % of the others are compared with joins in DuckDB.",
        run,
        quick=0.02,
        better="above 1",
    ),
)
