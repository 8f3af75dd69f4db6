"""Batch queries in Spark: ours compared with its ``OVER`` and its ``ASOF JOIN``.

All sides read the same Parquet files in one session, in turns. Each run ends in the number of its
rows and the sum of their hashes, which must be equal for all sides: every result is compared in
every run. Values are whole numbers, so sums are exact.

- ``OVER (... RANGE ...)``, as it is by default, aggregates each window from its rows. With
  ``spark.sql.window.segmentTree.enabled`` (Spark 4.2 and later), it builds a segment tree for each
  partition.
- ``ASOF JOIN`` (``spark.sql.join.asofJoin.enabled``, Spark 4.3 and later) returns the newest row up
  to a time. Aggregates of a window can be computed with it only by subtraction: running sums as of
  the end and the start of the window. A maximum cannot.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyspark
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.ours.memory import MIB
from benchmarks.report.beside import Figure, beside
from benchmarks.report.experiment import Experiment
from benchmarks.spark.keys import workers
from mta import CountWindow, Last, Max, Sum, TimeWindow
from mta.cli.console import say
from spark_integration import sliding_aggregate
from spark_integration.session import local_session

TREE = "spark.sql.window.segmentTree.enabled"
ASOF = "spark.sql.join.asofJoin.enabled"
ROWS, QUESTIONS, FILES, ROUNDS = 2_000_000, 1_000_000, 4, 3
FEW, MANY = 100, 100_000
DAYS, DAY = 60, 86_400_000_000
START = np.datetime64("2025-06-02T00:00:00", "us")
#: Each window, with the share of the keys that ``OVER`` without a tree reads if they are few.
LENGTHS = {"1 hour": 1.0, "1 day": 1.0, "30 days": 0.05}
#: The share of few keys that both sides read for ``ASOF JOIN``, whose time grows with the square of
#: a key's events.
ASOF_SHARE = 0.05
HEAP = "4g"
TREES = {"tree": "OVER, segment tree", "none": "OVER, default"}


@dataclass(frozen=True)
class Side:
    """A query by its settings, and the share of the keys that it reads."""

    query: Callable[[], DataFrame]
    conf: tuple[tuple[str, str], ...] = ()
    share: float = 1.0


@dataclass(frozen=True)
class Measured:
    """The rows per second of a side, its digest, and the most MiB of its heap and its workers."""

    rate: float
    digest: tuple[int, int]
    heap: float


class Bench:
    """Tables of random rows in a folder, and queries over them that take turns."""

    def __init__(self, spark: SparkSession, folder: Path, rows: int, keys: int) -> None:
        self.spark, self.folder, self.rows, self.keys = spark, folder, rows, keys

    def write(self, name: str, rows: int, seed: int, valued: bool = True) -> None:
        """Write random rows in the order of their distinct times, as files and as a view."""
        random, step = np.random.default_rng(seed), DAYS * DAY // rows
        times = np.arange(rows) * step + random.integers(0, step, rows)
        columns = {
            "k": random.integers(0, self.keys, rows),
            "ts": pa.array(START + times.astype("m8[us]"), pa.timestamp("us", "UTC")),
        }
        if valued:
            columns["v"] = random.integers(0, 1_000_000, rows).astype("f8")
        table, size = pa.table(columns), -(-rows // FILES)
        place = self.folder / name
        place.mkdir()
        for number in range(FILES):
            parquet.write_table(table.slice(number * size, size), place / f"{number}.parquet")

    def read(self, name: str, share: float = 1.0) -> DataFrame:
        """Return the rows of some of the keys."""
        rows = self.spark.read.parquet(str(self.folder / name))
        return rows if share == 1.0 else rows.where(F.col("k") < max(1, int(self.keys * share)))

    def measure(self, sides: dict[str, Side], rounds: int) -> dict[str, Measured]:
        """Run the sides in turns; return the median of each. Raises AssertionError."""
        found: dict[str, list[Measured]] = {name: [] for name in sides}
        for _ in range(rounds):
            for name, side in sides.items():
                found[name].append(self._run(side))
                say(f"    {name}: {found[name][-1].rate / 1e3:,.0f} k rows/s")
        for name, side in sides.items():
            alike = next(n for n, other in sides.items() if other.share == side.share)
            digests = {one.digest for each in (name, alike) for one in found[each]}
            assert len(digests) == 1, f"{name} returns other rows than {alike}: {digests}"
        return {
            name: Measured(
                median(run.rate for run in runs), runs[0].digest, max(run.heap for run in runs)
            )
            for name, runs in found.items()
        }

    def _run(self, side: Side) -> Measured:
        conf = self.spark.conf
        pools = self._pools()
        for pool in pools:
            pool.resetPeakUsage()
        for key, value in side.conf:
            conf.set(key, value)
        try:
            began = perf_counter()
            digest = digest_of(side.query())
            seconds = perf_counter() - began
        finally:
            for key, _ in side.conf:
                conf.unset(key)
        heap = sum(pool.getPeakUsage().getUsed() for pool in pools) / MIB
        return Measured(digest[0] / seconds, digest, heap)

    def _pools(self) -> list[Any]:
        """Return the pools of Java's heap."""
        java: Any = self.spark._jvm
        pools = java.java.lang.management.ManagementFactory.getMemoryPoolMXBeans()
        return [pool for pool in pools if pool.getType().toString() == "Heap memory"]


def digest_of(rows: DataFrame) -> tuple[int, int]:
    """Return the number of rows and the sum of their hashes, which do not depend on the order."""
    columns = [F.col(name) for name in sorted(rows.columns)]
    total = F.sum(F.xxhash64(*columns).cast("decimal(20, 0)"))
    ((count, hashes),) = rows.agg(F.count(F.lit(1)), total).collect()
    return int(count), int(hashes or 0)


# --- OVER -----------------------------------------------------------------------------------------


def windows(bench: Bench, length: str, share: float = 1.0) -> DataFrame:
    """Return the rows with the maximum and the sum of their windows, by ``sliding_aggregate``."""
    return sliding_aggregate(
        bench.read("e", share), by="k", on="ts", window=TimeWindow(length, closed="both"),
        aggregations={"peak": ("v", Max()), "total": ("v", Sum())},
    )  # fmt: skip


def over(bench: Bench, length: str, share: float = 1.0) -> DataFrame:
    """Return the same rows, by ``OVER``."""
    number, unit = length.split()
    bench.read("e", share).createOrReplaceTempView("some")
    return bench.spark.sql(
        "SELECT *, max(v) OVER w AS peak, sum(v) OVER w AS total FROM some WINDOW w AS ("
        f"PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL '{number}' {unit} PRECEDING "
        "AND CURRENT ROW)"
    )


def run_over(keys: int, size: float) -> list[Figure]:
    """Measure windows of three lengths; smaller sizes have fewer rows and fewer of many keys."""
    rows = max(1000, int(ROWS * size))
    keys = keys if keys == FEW else max(FEW, int(keys * size))
    figures: list[Figure] = []
    with session() as spark, tempfile.TemporaryDirectory() as folder:
        bench = Bench(spark, Path(folder), rows, keys)
        bench.write("e", rows, seed=1)
        digest_of(windows(bench, "1 hour"))  # warms up Java and the workers
        for length, share in LENGTHS.items():
            share = share if keys == FEW else 1.0
            say(f"  {keys:,} keys, {length}")
            sides = {
                "ours": Side(partial(windows, bench, length)),
                "tree": Side(partial(over, bench, length), ((TREE, "true"),)),
                "none": Side(partial(over, bench, length, share), ((TREE, "false"),), share),
            }
            if share != 1.0:  # what the share is compared with
                sides["some"] = Side(partial(windows, bench, length, share), (), share)
            found = bench.measure(sides, ROUNDS if size >= 1 else 1)
            figures += _compared(bench, length, found, share)
        figures.append(_memory(found, TREES))
    return figures


def _compared(
    bench: Bench, length: str, found: dict[str, Measured], share: float
) -> Iterable[Figure]:
    days = TimeWindow(length).size / DAY
    held = max(1, round(bench.rows / bench.keys / DAYS * days))
    what = f"{bench.keys:,} keys, {length}, about {held:,} row{'s' * (held > 1)} in a window"
    for name, peer in TREES.items():
        less = f" (of {share:.0%} of the keys)" if name == "none" and share < 1 else ""
        yield _rates(what, found, "some" if less else "ours", name, f"{peer}{less}")


# --- ASOF JOIN ------------------------------------------------------------------------------------


def asked(bench: Bench, what: str, share: float = 1.0) -> DataFrame:
    """Return the questions with an aggregate as of their times, by ``sliding_aggregate``."""
    window = CountWindow(1) if what == "last" else TimeWindow("1 day")
    monoid = Last() if what == "last" else Sum()
    return sliding_aggregate(
        bench.read("e", share), at=bench.read("q", share), by="k", on="ts", window=window,
        aggregations={what: ("v", monoid)},
    )  # fmt: skip


def joined(bench: Bench, what: str, share: float = 1.0) -> DataFrame:
    """Return the same rows, by ``ASOF JOIN``."""
    for name in "eq":
        bench.read(name, share).createOrReplaceTempView(name)
    return bench.spark.sql(JOINS[what])


JOINS = {
    "last": "SELECT q.*, e.v AS last FROM q "
    "LEFT ASOF JOIN e MATCH_CONDITION (q.ts >= e.ts) ON q.k = e.k",
    "total": """
        WITH s AS (SELECT k, ts, sum(v) OVER (PARTITION BY k ORDER BY ts) AS s FROM e),
        starts AS (SELECT *, ts - INTERVAL 1 DAY AS start FROM q),
        ends AS (
            SELECT starts.*, s.ts AS newest, s.s AS upto FROM starts
            LEFT ASOF JOIN s MATCH_CONDITION (starts.ts >= s.ts) ON starts.k = s.k
        )
        SELECT ends.k, ends.ts, IF(newest > start, upto - ifnull(s.s, 0), NULL) AS total FROM ends
        LEFT ASOF JOIN s MATCH_CONDITION (ends.start >= s.ts) ON ends.k = s.k
    """,
}
ASKED = {
    "last": ("the newest value", "ASOF JOIN"),
    "total": ("the sum of a day", "two ASOF JOINs of running sums, subtracted"),
}


def run_asof(size: float) -> list[Figure]:
    """Measure questions about events of few and of many keys."""
    rows, questions = (max(500, int(count * size)) for count in (ROWS, QUESTIONS))
    figures = []
    with session() as spark:
        for keys, share in ((FEW, ASOF_SHARE), (max(FEW, int(MANY * size)), 1.0)):
            with tempfile.TemporaryDirectory() as folder:
                bench = Bench(spark, Path(folder), rows, keys)
                bench.write("e", rows, seed=1)
                bench.write("q", questions, seed=2, valued=False)
                digest_of(asked(bench, "last"))  # warms up Java and the workers
                for what, (name, peer) in ASKED.items():
                    say(f"  {keys:,} keys, {name}")
                    sides = {
                        "ours": Side(partial(asked, bench, what, share), (), share),
                        "asof": Side(partial(joined, bench, what, share), ((ASOF, "true"),), share),
                    }
                    found = bench.measure(sides, ROUNDS if size >= 1 else 1)
                    label = (
                        f"{max(1, int(keys * share)):,} keys, {rows // keys:,} events each, {name}"
                    )
                    figures.append(_rates(label, found, "ours", "asof", peer))
        figures.append(_memory(found, {"asof": ASKED["total"][1]}))
    return figures


# --- both -----------------------------------------------------------------------------------------


def _rates(what: str, found: dict[str, Measured], ours: str, peer: str, called: str) -> Figure:
    mine, other = found[ours].rate, found[peer].rate
    return Figure(
        what, f"{mine / 1e3:,.0f} k rows/s", f"{other / 1e3:,.0f} k rows/s, {called}", mine / other
    )


def _memory(found: dict[str, Measured], peers: Mapping[str, str]) -> Figure:
    """Return the memory of the last sides that were measured."""
    return Figure(
        f"heap of Java at most, with garbage, of {HEAP}",
        f"{found['ours'].heap:,.0f} MiB, and {workers() / MIB:,.0f} MiB in a Python worker",
        "; ".join(f"{found[name].heap:,.0f} MiB, {peer}" for name, peer in peers.items()),
    )


@contextmanager
def session() -> Iterator[SparkSession]:
    """Start a local session, and stop it."""
    spark = local_session(cores=2, memory=HEAP)
    try:
        yield spark
    finally:
        spark.stop()


def _over(name: str, keys: int) -> Experiment:
    return beside(
        name,
        f"Spark's OVER, {keys:,} keys",
        "The maximum and the sum of the last hour, day or 30 days for each row of a table of "
        "2,000,000 rows of 60 days, as a batch query on `local[2]` in Spark "
        f"{pyspark.__version__}, with default settings. Spark's `OVER (... RANGE BETWEEN INTERVAL "
        f"... PRECEDING AND CURRENT ROW)` runs with and without `{TREE}`, and not on streams. "
        "Rows per second, the median of three runs in turns; the hashes of all results are equal "
        "in each run.",
        partial(run_over, keys),
        quick=0.02,
        better="above 1",
    )


EXPERIMENTS = (
    _over("over_few", FEW),
    _over("over_many", MANY),
    beside(
        "asof",
        "Spark's ASOF JOIN",
        f"`sliding_aggregate(events, at=questions)` for {QUESTIONS:,} questions about {ROWS:,} "
        f"events of {MANY:,} keys, and for {QUESTIONS * ASOF_SHARE:,.0f} about "
        f"{ROWS * ASOF_SHARE:,.0f} events of {FEW * ASOF_SHARE:,.0f} keys, as a batch query on "
        f"`local[2]` in Spark {pyspark.__version__}, with default settings. "
        "Spark's sort-merge "
        f"`ASOF JOIN` (`{ASOF}`) finds the newest event of a question; a sum needs a query written "
        "by hand, and a maximum cannot be computed with it. Questions per second, the median of "
        "three runs in turns; the hashes of all results are equal in each run.",
        run_asof,
        quick=0.02,
        better="above 1",
    ),
)
