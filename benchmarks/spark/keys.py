"""Many keys in Spark: ours compared with a trivial step, and with a state function per key.

All sides have the default settings. They read the same files in the same micro-batches, one side
after the other in one session, into a sink that discards the rows. Figures are measured with full
windows: large batches fill them first. These batches, and the first batch after them, are not
counted.

- The trivial step packs, groups, stores a state and unpacks like ours, but computes nothing.
- The pass-through repartitions the rows by key, and returns them. It is measured with every
  stream.
- Text beside numbers is compared with the same query over the numbers alone, without the column of
  text.
- The handwritten function is ``applyInPandasWithState`` over each key, with the key's events in
  Spark's state, as users write without this project.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from benchmarks.ours.memory import MIB
from benchmarks.report.beside import Figure, beside
from benchmarks.spark.trivial import trivial_step
from mta import Max, TimeWindow
from mta.cli.console import say
from spark_integration.options import Options
from spark_integration.request import make_request
from spark_integration.session import UNIX_SOCKETS, local_session
from spark_integration.sliding import run_request
from spark_integration.step.step import step

SCHEMA = "device string, ts timestamp, watts double"
#: The distinct texts of a stream that has text, and its aggregations.
SHOPS = 2000
NUMBERS: dict[str, Any] = {"total": ("watts", "sum"), "peak": ("watts", "max")}
TEXTS: dict[str, Any] = {
    "last": ("shop", "last"), "shops": ("shop", "nunique"), "usual": ("shop", "mode"),
}  # fmt: skip
RESULTS = "device string, ts timestamp, watts double, peak double"
START = np.datetime64("2025-06-02T00:00:00", "us")
#: The number of counted batches per run, and of runs per side; sides take turns.
COUNTED, ROUNDS = 8, 2
#: The number of events of a key in a full window.
IN_WINDOW = 20
FILLING_ROWS = 1_000_000


@dataclass(frozen=True)
class Stream:
    """Batches with random keys, or with all keys equally often; one event per second."""

    keys: int
    rows: int
    """Rows per batch."""
    window: int
    """Rows of all keys together."""
    equally: bool = False
    has_text: bool = False

    @property
    def schema(self) -> str:
        """Return the columns of the stream."""
        return f"{SCHEMA}, shop string" if self.has_text else SCHEMA

    @property
    def length(self) -> TimeWindow:
        """Return the window with this many rows."""
        return TimeWindow(self.window)

    def write(self, folder: Path) -> None:
        """Write files in order: to fill the windows, to warm up, and to count."""
        folder.mkdir(parents=True)
        filling = -(-self.window // max(FILLING_ROWS, self.rows)) if not self.equally else 1
        large = min(self.window, max(FILLING_ROWS, self.rows)) if not self.equally else self.rows
        sizes = [large] * filling + [self.rows] * (1 + COUNTED)
        random, at = np.random.default_rng(1), 0
        names = np.array([f"meter-{key:08d}" for key in range(self.keys)], dtype=object)
        dictionary = pa.array(names, pa.string())
        shops = pa.array([f"shop-{number:04d}" for number in range(SHOPS)])
        for number, size in enumerate(sizes):
            if self.equally:
                keys = random.permutation(np.resize(np.arange(self.keys), size))
            else:
                keys = random.integers(0, self.keys, size)
            times = START + np.arange(at, at + size) * np.timedelta64(1_000_000, "us")
            columns = {
                "device": dictionary.take(pa.array(keys)),
                "ts": pa.array(times, pa.timestamp("us", "UTC")),
                "watts": random.random(size),
            }
            if self.has_text:
                columns["shop"] = shops.take(pa.array(random.integers(0, SHOPS, size)))
            table = pa.table(columns)
            path = folder / f"{number:05d}.parquet"
            parquet.write_table(table, path)
            os.utime(path, (1_750_000_000 + number, 1_750_000_000 + number))
            at += size


Side = Callable[[DataFrame, Stream, str], DataFrame]


def windows(with_step: Any, df: DataFrame, stream: Stream, folder: str) -> DataFrame:
    """Run ``sliding_aggregate`` with a step, and pages on local disk."""
    options = Options.of(
        by="device", on="ts", aggregations={"peak": ("watts", Max())}, window=stream.length,
        store=f"file://{folder}/pages",
    )  # fmt: skip
    return run_request(df, make_request(df, options), with_step)


def aggregated(
    aggregations: Mapping[str, Any], df: DataFrame, stream: Stream, folder: str
) -> DataFrame:
    """Run ``sliding_aggregate`` over the columns that aggregations read."""
    read = {column for column, _ in aggregations.values()}
    options = Options(
        by="device", on="ts", aggregations=aggregations, window=stream.length,
        store=f"file://{folder}/pages",
    )  # fmt: skip
    df = df.select("device", "ts", *sorted(read))
    return run_request(df, make_request(df, options), step)


def passed(df: DataFrame, stream: Stream, folder: str) -> DataFrame:
    """Return the rows, repartitioned by key."""
    del stream, folder
    return df.repartition("device").mapInArrow(lambda batches: batches, SCHEMA)


def by_hand(df: DataFrame, stream: Stream, folder: str) -> DataFrame:
    """Run a function per key, with the key's events in Spark's state."""
    del folder
    length = stream.window * 1_000_000

    def peaks(
        key: tuple[Any, ...], parts: Iterator[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        rows = pd.concat(list(parts)).sort_values("ts", kind="stable")
        new = rows["ts"].to_numpy().astype("M8[us]").astype("i8")
        before = np.frombuffer(state.get[0], "i8") if state.exists else np.zeros(0, "i8")
        held = len(before) // 2
        times = np.concatenate((before[:held], new))
        watts = np.concatenate((before[held:].view("f8"), rows["watts"].to_numpy()))
        ends = np.arange(held, len(times))
        fronts = np.searchsorted(times, new - length, side="right")
        rows["peak"] = [watts[a : b + 1].max() for a, b in zip(fronts, ends, strict=True)]
        last = int(fronts[-1])
        state.update((times[last:].tobytes() + watts[last:].tobytes(),))
        yield rows[["device", "ts", "watts", "peak"]]

    return df.groupBy("device").applyInPandasWithState(
        peaks, RESULTS, "state binary", "append", GroupStateTimeout.NoTimeout
    )


OURS: Side = partial(windows, step)
TRIVIAL: Side = partial(windows, trivial_step)


@dataclass
class Run:
    """The times of the counted batches of a side, in milliseconds."""

    batch: float
    commit: float
    planning: float


def measured(
    spark: SparkSession, stream: Stream, sides: Mapping[str, Side], rounds: int = ROUNDS
) -> dict[str, Run]:
    """Return the median batch of each side, over runs in turns."""
    taken: dict[str, list[Any]] = {name: [] for name in sides}
    with tempfile.TemporaryDirectory() as folder:
        stream.write(Path(folder, "events"))
        for _ in range(rounds):
            for name, side in sides.items():
                taken[name] += batches(spark, stream, side, Path(folder, "events"))
                last = [progress.batchDuration for progress in taken[name][-COUNTED:]]
                say(f"  {stream.keys:,} keys, {name}: {median(last):,.0f} ms a batch")
    return {name: _run(found) for name, found in taken.items()}


def _run(found: list[Any]) -> Run:
    return Run(
        median(progress.batchDuration for progress in found),
        median(_commit(progress) for progress in found),
        median(progress.durationMs.get("queryPlanning", 0) for progress in found),
    )


def _commit(progress: Any) -> float:
    """Return the milliseconds per task for writing states and logging a batch."""
    states = progress.stateOperators
    found = sum(state.commitTimeMs / max(state.numStateStoreInstances, 1) for state in states)
    logs = progress.durationMs
    return float(found + logs.get("walCommit", 0) + logs.get("commitOffsets", 0))


def batches(spark: SparkSession, stream: Stream, side: Side, events: Path) -> list[Any]:
    """Return Spark's reports of the counted batches of a query."""
    with tempfile.TemporaryDirectory() as folder:
        reader = spark.readStream.schema(stream.schema).option("maxFilesPerTrigger", 1)
        results = side(reader.parquet(str(events)), stream, folder)
        writer = results.writeStream.format("noop").outputMode("append")
        writer = writer.option("checkpointLocation", f"{folder}/checkpoint")
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        found = [progress for progress in query.recentProgress if progress.numInputRows]
        return found[-COUNTED:]


def run(size: float) -> list[Figure]:
    """Measure rows per second of each side; smaller sizes have fewer keys."""
    spark = local_session(cores=2, memory="4g")
    spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", "1000")

    def of(keys: int, each: int) -> Stream:
        count = max(10, int(keys * size))
        return Stream(count, count * each, count * each, equally=True)

    sides = {"pass": passed, "trivial": TRIVIAL, "ours": OURS}
    figures = []
    for stream, limit in ((of(100, 40_000), ""), (of(10_000, 100), ">= 0.85"),
                          (of(100_000, 5), ">= 0.75")):  # fmt: skip
        found = measured(spark, stream, sides)
        figures += [_figure(stream, found, "trivial", limit), _figure(stream, found, "pass", "")]
    stream = of(10_000, 50)
    found = measured(spark, stream, {"pass": passed, "hand": by_hand, "ours": OURS})
    figures += [_figure(stream, found, "hand", ">= 10"), _figure(stream, found, "pass", "")]
    figures += of_text(spark, size)
    many, rows = max(100, int(1_000_000 * size)), max(10, int(100_000 * size))
    full = {keys: Stream(keys, rows, keys * IN_WINDOW) for keys in (many // 10, many)}
    runs = {keys: measured(spark, stream, sides) for keys, stream in full.items()}
    figures.append(_figure(full[many], runs[many], "trivial", ">= 0.75"))
    figures.append(_figure(full[many], runs[many], "pass", ">= 0.5"))
    few, large = runs[many // 10]["ours"].batch, runs[many]["ours"].batch
    figures.append(
        Figure(
            f"a batch of {rows:,} rows with {many:,} keys",
            f"{large:,.0f} ms", f"{few:,.0f} ms, {many // 10:,} keys", large / few, "<= 1.3",
        )
    )  # fmt: skip
    fixed = runs[many]["trivial"]
    parts = (
        f"including {fixed.commit:,.0f} ms for commits and {fixed.planning:,.0f} ms for planning"
    )
    figures.append(
        Figure("a batch of the trivial step, for comparison", f"{fixed.batch:,.0f} ms", parts)
    )
    figures.append(
        Figure("anonymous memory of a worker, at most", f"{workers() / MIB:,.0f} MiB", "")
    )
    spark.stop()
    return figures


def of_text(spark: SparkSession, size: float) -> list[Figure]:
    """Measure text beside numbers, compared with the numbers alone."""
    keys = max(10, int(10_000 * size))
    stream = Stream(keys, keys * 10, keys * IN_WINDOW, has_text=True)
    sides = {
        "numbers": partial(aggregated, NUMBERS),
        "text": partial(aggregated, NUMBERS | TEXTS),
    }
    found = measured(spark, stream, sides)
    text, numbers = (stream.rows / found[name].batch for name in ("text", "numbers"))
    return [
        Figure(
            f"{keys:,} keys: last, distinct and most frequent text beside sum and maximum",
            f"{text:,.0f} k rows/s", f"{numbers:,.0f} k rows/s, numbers alone", text / numbers,
            ">= 0.5",
        )
    ]  # fmt: skip


def _figure(stream: Stream, found: Mapping[str, Run], peer: str, limit: str) -> Figure:
    reported = {"trivial": "trivial step", "hand": "a function by hand", "pass": "passed through"}
    ours, other = (stream.rows / found[name].batch for name in ("ours", peer))
    how = "as many of each key" if stream.equally else f"random keys with {IN_WINDOW} events each"
    return Figure(
        f"{stream.keys:,} keys, batches of {stream.rows:,} rows, {how}",
        f"{ours:,.0f} k rows/s", f"{other:,.0f} k rows/s, {reported[peer]}", ours / other, limit,
    )  # fmt: skip


def run_small(size: float) -> list[Figure]:
    """Measure batches of 1,000 rows, with both kinds of sockets to Python's workers."""
    del size  # a batch is small at any size
    stream, figures = Stream(1000, 1000, 1000 * IN_WINDOW), list[Figure]()
    sides = {"pass": passed, "trivial": TRIVIAL, "ours": OURS}
    peers = ("pass", "passed through", "<= 1.5"), ("trivial", "trivial step", "")
    for sockets, by_unix in (("Unix", "true"), ("TCP", "false")):
        conf = {UNIX_SOCKETS: by_unix, "spark.sql.streaming.numRecentProgressUpdates": "1000"}
        spark = local_session(cores=2, memory="4g", conf=conf)
        found = measured(spark, stream, sides, rounds=5)
        spark.stop()
        ours = found["ours"].batch
        for peer, name, limit in peers:
            other = found[peer].batch
            figures.append(
                Figure(
                    f"{stream.rows:,} rows of {stream.keys:,} keys, {sockets} sockets",
                    f"{ours:,.0f} ms", f"{other:,.0f} ms, {name}", ours / other,
                    limit if sockets == "Unix" else "",
                )
            )  # fmt: skip
    return figures


def workers() -> float:
    """Return the largest anonymous memory of a Python worker of this process; 0 if unknown."""
    most = 0.0
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            text = status.read_text()
            command = (status.parent / "cmdline").read_bytes()
        except OSError:  # the process has ended
            continue
        if b"pyspark" not in command or b"daemon" not in command:
            continue
        fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
        most = max(most, float(fields.get("RssAnon", "0 kB").split()[0]) * 1024)
    return most


EXPERIMENTS = (
    beside(
        "spark_keys",
        "Very many keys in Spark",
        "A stream with `Max` over a window by time, one result per row, pages on local disk and "
        "default settings, on `local[2]`. Rows per second, the median of sixteen micro-batches in "
        'two runs. "Trivial step" is the same pipeline without windows. "Passed through" is '
        "rows that are only repartitioned by key. The function by hand is "
        "`applyInPandasWithState` with the events of a key as arrays in its state.",
        run,
        quick=0.02,
    ),
    beside(
        "spark_small",
        "Small batches in Spark",
        "A stream with `Max` over the last 20 events of each key on average, one result per row, "
        "pages on local disk and default settings, on `local[2]`. Times per micro-batch, the "
        "median of forty batches in five runs, which alternate. Most of the time is Spark's own: "
        '"trivial step" is the same pipeline without windows, and "passed through" is rows that '
        "are only repartitioned by key. `local_session` chooses Unix sockets between Spark and its "
        "Python workers; TCP is Spark's default.",
        run_small,
        quick=0.02,
    ),
)
