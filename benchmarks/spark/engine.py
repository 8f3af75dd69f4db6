"""A count window over 84 keys in Spark: the PBA paper's Figure 8, on one machine.

Spark's own window function recalculates every frame, as Flink's window does. The other sides
compute whole groups in Python workers: SBA and PBA in a grouped map, and ours in
``sliding_aggregate``. Each side reads as many files as it has partitions, one per task, and
shuffles the rows by key into the same number of partitions. So both stages run this many tasks in
parallel, if there are enough cores.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import pairwise
from pathlib import Path
from time import perf_counter

import numpy as np
import pyarrow as pa
from matplotlib.figure import Figure
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from benchmarks.papers.pba.data import COPIES, PLUGS, plugs
from benchmarks.report.experiment import Experiment, Finding, Progress, Row, Rows, distinct, where
from benchmarks.report.plots import lines
from mta import CountWindow, Max
from mta.algorithms import PBA, SBA, BoundaryAggregator
from spark_integration import sliding_aggregate
from spark_integration.session import available_cores, local_session

#: The number of readings (the paper has 60 million), the window, and partitions.
READINGS, RANGE, PARTITIONS = 8_000_000, 2**10, (1, 2, 4)
MOST = max(PARTITIONS)
#: The share of the readings for Spark's slow window; at least two windows per plug.
SHARE, LEAST = 0.1, 2 * RANGE * PLUGS * COPIES
#: The number of plugs whose results are all compared, and the readings of other plugs.
CHECKED, FEW = 14, 4
#: The number of runs of each side, at full size and below a quarter of it.
TIMES, QUICKLY = 3, 1
PEAKS = "plug int, ts timestamp, peak double"
BY_PLUG = [("plug", "ascending"), ("ts", "ascending")]
#: One task per file: files are neither split nor combined.
ONE_TASK_A_FILE = {
    "spark.sql.files.maxPartitionBytes": "1g",
    "spark.sql.files.openCostInBytes": "1g",
    "spark.sql.adaptive.coalescePartitions.enabled": "false",
}

Side = Callable[[DataFrame], DataFrame]


def own(readings: DataFrame) -> DataFrame:
    """Run Spark's window function."""
    frame = Window.partitionBy("plug").orderBy("ts").rowsBetween(1 - RANGE, 0)
    return readings.select("plug", "ts", F.max("watts").over(frame).alias("peak"))


def grouped(algorithm: type[BoundaryAggregator], readings: DataFrame) -> DataFrame:
    """Run SBA or PBA over all readings of each plug."""

    def peaks(readings: pa.Table) -> pa.Table:
        return peaks_of(readings, algorithm)

    return readings.groupBy("plug").applyInArrow(peaks, PEAKS)


def peaks_of(readings: pa.Table, algorithm: type[BoundaryAggregator]) -> pa.Table:
    """Return all results of a plug; early windows have the readings so far."""
    readings = readings.sort_by("ts")
    watts = readings["watts"].to_numpy()
    first = np.maximum.accumulate(watts[: RANGE - 1])
    found = np.concatenate((first, algorithm(Max(), RANGE).extend(watts)))
    return readings.select(["plug", "ts"]).append_column("peak", pa.array(found))


def ours(folder: str, readings: DataFrame) -> DataFrame:
    """Run ``sliding_aggregate``, with pages on local disk."""
    found = sliding_aggregate(
        readings,
        by="plug",
        on="ts",
        aggregations={"peak": ("watts", Max())},
        window=CountWindow(RANGE),
        store=f"file://{folder}",
    )
    return found.select("plug", "ts", "peak")


def run(size: float, progress: Progress) -> Rows:
    """Measure readings per second by side and partitions, the best of several runs."""
    spark = local_session(cores=MOST)
    for name, value in ONE_TASK_A_FILE.items():
        spark.conf.set(name, value)
    with tempfile.TemporaryDirectory() as folder:
        sides: dict[str, Side] = {
            OWN: own,
            "PBA": partial(grouped, PBA),
            "SBA": partial(grouped, SBA),
            "sliding_aggregate": partial(ours, f"{folder}/pages"),
        }
        engine = Engine(spark, Path(folder), plugs(max(LEAST, int(READINGS * size))))
        rows = engine.measured(sides, TIMES if size >= 0.25 else QUICKLY, progress)
    spark.stop()
    return rows


class Engine:
    """Readings in files, for all sides."""

    def __init__(self, spark: SparkSession, folder: Path, readings: pa.Table) -> None:
        self._spark, self._folder, keys = spark, folder, readings["plug"].to_numpy()
        self._of_plug, place = np.bincount(keys), places(keys)
        most = np.where(keys < CHECKED, RANGE * 5 // 4, FEW)
        share = readings.slice(0, max(LEAST, int(readings.num_rows * SHARE)))
        self._rows = {"all": readings.num_rows, "share": share.num_rows}
        for partitions in PARTITIONS:
            write(folder / f"all-{partitions}", readings, partitions)
            write(folder / f"share-{partitions}", share, partitions)
        write(folder / f"part-{MOST}", readings.filter(pa.array(place < most)), MOST)
        write(folder / f"few-{MOST}", readings.filter(pa.array(place < FEW)), MOST)

    def measured(self, sides: Mapping[str, Side], times: int, progress: Progress) -> Rows:
        """Measure all sides, once their results are equal."""
        part = self.require_alike(sides)
        cells = [(name, n) for n in PARTITIONS for name in sides]
        taken: dict[tuple[str, int], list[float]] = {cell: [] for cell in cells}
        label = "{0}, partitions: {1}".format
        for name, n in progress.over(cells * times, lambda cell: label(*cell)):
            what = "share" if name == OWN else "all"
            taken[name, n].append(self.seconds(sides[name], what, n))
            if name == OWN:  # Python workers end after a minute without work
                self.seconds(sides["SBA"], "few", MOST)
        rows = []
        for (name, n), found in taken.items():
            count, seconds = self._rows["share" if name == OWN else "all"], min(found)
            row: Row = {"algorithm": name, "partitions": n, "cores": available_cores()}
            row |= {"rows": count, "seconds": seconds, "krps": count / seconds / 1e3}
            rows.append(row | {"largest": self._largest(part[name], n)})
        for name, side in sides.items():  # at the end, when Java is warmed up as above
            empty = min(self.seconds(side, "few", MOST) for _ in range(2))
            for row in where(rows, algorithm=name):
                row["empty"] = empty
        return rows

    def _largest(self, part: np.ndarray, partitions: int) -> float:
        """Return the largest partition's share of all readings; Spark partitions by modulo."""
        readings = np.bincount(part % partitions, weights=self._of_plug)
        return float(readings.max() / readings.sum())

    def readings(self, what: str, partitions: int) -> DataFrame:
        """Read files with one task per partition, and shuffle into as many partitions."""
        self._spark.conf.set("spark.sql.shuffle.partitions", partitions)
        return self._spark.read.parquet(str(self._folder / f"{what}-{partitions}"))

    def seconds(self, side: Side, what: str, partitions: int) -> float:
        """Return the seconds of a query into a sink that discards the rows."""
        began = perf_counter()
        side(self.readings(what, partitions)).write.format("noop").mode("overwrite").save()
        return perf_counter() - began

    def require_alike(self, sides: Mapping[str, Side]) -> dict[str, np.ndarray]:
        """Require equal results; return each side's partition of every plug."""
        answers, parts = {}, {}
        for name, side in sides.items():
            found = side(self.readings("part", MOST)).withColumn("part", F.spark_partition_id())
            table = found.toArrow().sort_by(BY_PLUG)
            first = np.unique(table["plug"].to_numpy(), return_index=True)[1]
            parts[name] = table["part"].to_numpy()[first]
            answers[name] = table.drop_columns("part")
        for name, answer in answers.items():
            if not answer.equals(answers[OWN]):
                raise AssertionError(f"{name} answers other than {OWN}")
        return parts


def places(keys: np.ndarray) -> np.ndarray:
    """Return the index of each row within its key.

    >>> places(np.array([0, 1, 0, 0, 1])).tolist()
    [0, 0, 1, 2, 1]
    """
    order, counts = np.argsort(keys, kind="stable"), np.bincount(keys)
    place = np.empty(len(keys), "i8")
    place[order] = np.arange(len(keys)) - np.repeat(counts.cumsum() - counts, counts)
    return place


def write(folder: Path, readings: pa.Table, files: int) -> None:
    """Write the readings to files of equal length, each in order of time."""
    folder.mkdir()
    length = -(-readings.num_rows // files)
    for number in range(files):
        parquet.write_table(readings.slice(number * length, length), folder / f"{number}.parquet")


# --- findings and plots --------------------------------------------------------------------------


#: The side that recalculates, and the share of linear growth that counts as linear.
OWN, NEARLY = "Spark's own window", 0.75


def found_engine(rows: Rows) -> list[Finding]:
    """Return speedups over the engine's own window, and scaling with partitions."""
    at = {(row["algorithm"], row["partitions"]): row for row in rows}
    found = []
    for name in [name for name in distinct(rows, "algorithm") if name != OWN]:
        for partitions in distinct(rows, "partitions"):
            one, own = at[name, partitions], at[OWN, partitions]
            ratio = one["krps"] / own["krps"]
            fixed = [f"{row['empty'] / row['seconds']:.0%}" for row in (one, own)]
            seen = (
                f"{ratio:.1f} times ({one['krps']:,.0f} k/s to {own['krps']:,.0f} k/s, of whose "
                f"times {' and '.join(fixed)} are a query's fixed cost)"
            )
            what = f"{name} to {OWN}, partitions: {partitions}"
            paper = "faster" if name == "PBA" else "not there"
            found.append(Finding(what, paper, seen, ratio > 1 if name == "PBA" else None))
    for name in distinct(rows, "algorithm"):
        found += list(_scales([at[name, n] for n in distinct(rows, "partitions")]))
    return found


def _scales(rows: Rows) -> Iterator[Finding]:
    """Compare throughput with that of fewer partitions, and with what cores and keys allow."""
    for fewer, row in pairwise(rows):
        partitions, cores = row["partitions"], row["cores"]
        ratio, allowed = row["krps"] / fewer["krps"], _allowed(row) / _allowed(fewer)
        what = (
            f"{row['algorithm']}: throughput from {fewer['partitions']} to {partitions} partitions"
        )
        seen = (
            f"{ratio:.2f} times; {cores} cores and a largest partition of {row['largest']:.0%} of "
            f"the readings allow {allowed:.2f}"
        )
        if partitions <= cores:
            agrees, says = ratio >= NEARLY * allowed, "linear while there are cores"
        else:
            agrees, says = ratio < NEARLY * 2, "less than linear when cores are short"
        why = _fixed_cost(row) if partitions <= cores and not agrees else ""
        yield Finding(what, says, seen, agrees, why)


def _allowed(row: Row) -> float:
    """Return the largest possible speedup over one task, which the largest partition limits."""
    at_once = min(int(row["partitions"]), int(row["cores"]))
    return 1 / max(float(row["largest"]), 1 / at_once)


def _fixed_cost(row: Row) -> str:
    """Return text about the time of a query with few readings, if that is a large share."""
    share = row["empty"] / row["seconds"]
    if share < 0.1:
        return ""
    return (
        f"{share:.0%} of the time ({row['empty']:.2f} of {row['seconds']:.2f} s) a query over "
        "hardly any readings takes too."
    )


def draw_engine(rows: Rows) -> Figure:
    """Draw Figure 8."""
    labels = ("partitions", "thousand readings a second")
    figure = lines(rows, "partitions", "krps", labels, scales=("linear", "linear"))
    figure.axes[0].set_xticks(distinct(rows, "partitions"))
    return figure


EXPERIMENTS = (
    Experiment(
        "pba_engine",
        "A count window over many keys in Spark, by partitions",
        "PBA paper, section 5.2, Figure 8",
        "PBA in Flink has a higher throughput than Flink's own window, which recalculates. Both "
        "grow linearly with up to 3 parallel instances on 6 cores, because an instance is two "
        "tasks; beyond that they grow less. They also grow linearly with the nodes of a cluster.",
        "Local Spark instead of Flink: max over the last "
        f"{RANGE:,} readings of {PLUGS * COPIES} plugs, with {READINGS:,} generated readings (60 "
        "million of the DEBS 2014 data in the paper), as a batch from Parquet files to a sink that "
        "drops the rows. Spark's own window recalculates every frame, and reads a tenth of the "
        "readings. SBA and PBA run in a grouped map over whole groups of numpy columns, and "
        "sliding_aggregate works in any mode. The number of partitions is the number of files, of "
        "tasks that read them, and of tasks that compute. More partitions than cores cannot run in "
        "parallel: they show how evenly work is spread, and what tasks cost. No cluster is "
        "measured.",
        run,
        {"figure_8": draw_engine},
        found_engine,
        quick=0.03,
        captions={
            "figure_8": (
                "thousand readings per second by the number of partitions; both axes are "
                "logarithmic. In the paper, the engine's own window is the lowest line, and all "
                "lines rise until there are not enough cores."
            ),
        },
    ),
)  # fmt: skip
