"""CPU time per row of the same query in Flink SQL and in ``sliding_aggregate``.

The query returns the maximum of the last hour, or day, of each of 100 keys after every row: in
Flink, an ``OVER`` window with ``RANGE``. Both sides read the same two CSV files, whose rows are in
the order of time, and discard the results. Flink runs in one JVM with two slots, its state on the
heap, without checkpoints. mta-windows runs in a local Spark session with two cores, with its pages
on local disk and a checkpoint. A first run of each side is not timed: its results must be equal.

CPU time counts all threads and processes of a side, Python workers included. Unlike rows per
second, it hardly depends on what else the machine runs.

The experiment needs the jars of the package ``apache-flink-libraries``. It uses no Python code of
Flink, whose dependencies conflict with those of PySpark.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from pyarrow import csv
from pyspark.sql import DataFrame, SparkSession

from benchmarks.report.beside import Figure, alternate, beside
from mta import Max, TimeWindow
from mta.cli.console import say
from spark_integration.cli.demo import Meters
from spark_integration.java import ensure_java
from spark_integration.session import local_session
from spark_integration.sliding import sliding_aggregate

EVENTS, KEYS, CORES, TURNS = 1_000_000, 100, 2, 3
#: The number of rows; a meter reports about once per minute, as in the experiment ``spark``.
STREAM = 4_000_000
LENGTHS = ("1 hour", "1 day")
LIBRARIES = "apache-flink-libraries"
#: Flink reads and writes objects of the JDK by reflection.
OPENED = [f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in ("lang", "util", "time")]
SETTINGS = {
    "execution.runtime-mode": "streaming",
    "parallelism.default": str(CORES),
    "pipeline.object-reuse": "true",
    "table.local-time-zone": "UTC",
}
SCHEMA = "device STRING, ts TIMESTAMP(3), watts DOUBLE"


def run(size: float) -> list[Figure]:
    """Measure CPU time per row of both sides, which run in turns."""
    jars = flink_jars()
    rows = max(KEYS, int(EVENTS * size))
    with tempfile.TemporaryDirectory() as folder, flink(jars) as table_environment:
        write_readings(Path(folder, "readings"), rows)
        say(f"{rows:,} events of {KEYS} keys")
        peer = Flink(table_environment, Path(folder))
        ours = Ours(local_session(cores=CORES), Path(folder))
        require_equal(ours.results(LENGTHS[0]), peer.results(LENGTHS[0]))
        sides: dict[str, Callable[[], None]] = {"passed through": peer.pass_through}
        for length in LENGTHS:
            sides[f"ours, {length}"] = partial(ours.discard, length)
            sides[f"Flink, {length}"] = partial(peer.discard, length)
        sides["Flink, hop"] = peer.hop
        turns = TURNS if size >= 1 else 1
        seconds = alternate(list(sides.values()), turns, clock=cpu_seconds)
        ours.spark.stop()
    costs = {side: taken / rows * 1e6 for side, taken in zip(sides, seconds, strict=True)}
    figures = [against(costs, length, f"Flink, {length}", "OVER") for length in LENGTHS]
    figures.append(against(costs, LENGTHS[0], "Flink, hop", "HOP of 1 minute"))
    figures.append(against(costs, LENGTHS[0], "passed through", "without a window"))
    return figures


def against(costs: dict[str, float], length: str, side: str, what: str) -> Figure:
    """Compare our cost of windows of a length with a cost of Flink, in microseconds per row."""
    ours, peer = costs[f"ours, {length}"], costs[side]
    return Figure(
        f"{KEYS} keys, max over {length}, after every row",
        f"{ours:.1f} us of CPU per row",
        f"{peer:.1f} us, Flink, {what}",
        ours / peer,
    )


def cpu_seconds() -> float:
    """Return the CPU time of this process and all its descendants, on Linux.

    A process that ended counts as long as its parent lives. Raises RuntimeError elsewhere.
    """
    times: dict[int, float] = {}
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # the process has ended
            fields = path.read_text().rpartition(")")[2].split()
            parents[int(path.parent.name)] = int(fields[1])
            times[int(path.parent.name)] = sum(map(int, fields[11:15]))
    if os.getpid() not in times:
        raise RuntimeError("the CPU time of other processes is only known on Linux")
    own = {os.getpid()}
    while found := {child for child, parent in parents.items() if parent in own} - own:
        own |= found
    ticks_per_second: int = os.sysconf("SC_CLK_TCK")
    return sum(times[process] for process in own) / ticks_per_second


def flink_jars() -> Path:
    """Return the folder of Flink's jars. Raise ModuleNotFoundError without the package."""
    spec = find_spec("pyflink")
    for place in (spec and spec.submodule_search_locations) or []:
        if list(Path(place, "lib").glob("flink-dist-*.jar")):
            return Path(place, "lib")
    raise ModuleNotFoundError(f"no {LIBRARIES}", name=LIBRARIES)


@contextmanager
def flink(jars: Path) -> Iterator[Any]:
    """Start a JVM with Flink, and yield a streaming ``TableEnvironment``."""
    ensure_java()
    (py4j,) = Path(pyspark.__file__).parent.glob("jars/py4j-*.jar")
    port, token = launch_gateway(
        jarpath=str(py4j),
        classpath=str(jars / "*"),
        javaopts=[*OPENED, "-Xmx4g"],
        enable_auth=True,
        die_on_exit=True,
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))
    try:
        api = gateway.jvm.org.apache.flink.table.api
        environment = api.TableEnvironment.create(api.EnvironmentSettings.inStreamingMode())
        for key, value in SETTINGS.items():
            environment.getConfig().set(key, value)
        yield environment
    finally:
        gateway.shutdown()


def write_readings(folder: Path, rows: int) -> None:
    """Write the stream as CSV files without a header, one per core, each with every second row."""
    folder.mkdir()
    slots = 2 * rows // KEYS + 2  # some meters are down in some slots
    table = Meters(STREAM, KEYS).events(0, slots).slice(0, rows)
    times = table["ts"].cast(pa.timestamp("ms"), safe=False)
    table = table.set_column(1, "ts", pc.strftime(times, "%Y-%m-%d %H:%M:%S"))
    options = csv.WriteOptions(include_header=False, quoting_style="none")
    for core in range(CORES):
        part = table.take(pa.array(np.arange(core, rows, CORES)))
        csv.write_csv(part, folder / f"{core}.csv", options)


class Flink:
    """Flink SQL over the readings in a folder."""

    def __init__(self, environment: Any, folder: Path) -> None:
        self._environment, self._out = environment, folder / "flink"
        source = f"'connector' = 'filesystem', 'path' = '{(folder / 'readings').as_uri()}'"
        files = f"'connector' = 'filesystem', 'path' = '{self._out.as_uri()}'"
        timed = f"{SCHEMA}, WATERMARK FOR ts AS ts"
        self._sql(f"CREATE TABLE readings ({timed}) WITH ({source}, 'format' = 'csv')")
        self._sql(f"CREATE TABLE files ({SCHEMA}) WITH ({files}, 'format' = 'csv')")
        self._sql(f"CREATE TABLE nowhere ({SCHEMA}) WITH ('connector' = 'blackhole')")

    def results(self, length: str) -> pa.Table:
        """Return all results of an ``OVER`` window."""
        self._sql(f"INSERT INTO files {self._over(length)}")
        parts = [path for path in self._out.rglob("*") if path.is_file() and path.stat().st_size]
        return pa.concat_tables([read_results(path) for path in parts])

    def discard(self, length: str) -> None:
        self._sql(f"INSERT INTO nowhere {self._over(length)}")

    def hop(self) -> None:
        """Compute a window of an hour every minute, with one result per key and minute."""
        self._sql(
            "INSERT INTO nowhere SELECT device, window_end, MAX(watts) FROM TABLE("
            "HOP(TABLE readings, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '1' HOUR)) "
            "GROUP BY device, window_start, window_end"
        )

    def pass_through(self) -> None:
        self._sql("INSERT INTO nowhere SELECT * FROM readings")

    @staticmethod
    def _over(length: str) -> str:
        number, unit = length.split()
        return (
            "SELECT device, ts, MAX(watts) OVER (PARTITION BY device ORDER BY ts "
            f"RANGE BETWEEN INTERVAL '{number}' {unit.upper()} PRECEDING AND CURRENT ROW) "
            "FROM readings"
        )

    def _sql(self, statement: str) -> None:
        result = self._environment.executeSql(statement)
        getattr(result, "await")()  # a keyword of Python


class Ours:
    """``sliding_aggregate`` over the readings in a folder."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self._folder = spark, folder

    def results(self, length: str) -> pa.Table:
        out = self._folder / "ours"
        self._write(length, "csv", str(out))
        return pa.concat_tables([read_results(path) for path in out.glob("*.csv")])

    def discard(self, length: str) -> None:
        self._write(length, "noop", None)

    def _write(self, length: str, sink: str, path: str | None) -> None:
        with tempfile.TemporaryDirectory() as place:
            results = self._windowed(length, f"file://{place}/pages")
            writer = results.select("device", "ts", "peak").writeStream.format(sink)
            writer = writer.option("checkpointLocation", f"{place}/checkpoint")
            writer.trigger(availableNow=True).start(path).awaitTermination()

    def _windowed(self, length: str, store: str) -> DataFrame:
        reader = self.spark.readStream.schema("device string, ts timestamp, watts double")
        return sliding_aggregate(
            reader.csv(str(self._folder / "readings")),
            by="device",
            on="ts",
            window=TimeWindow(length, closed="both"),
            store=store,
            aggregations={"peak": ("watts", Max())},
        )


def read_results(path: Path) -> pa.Table:
    """Read a file of results, with times in milliseconds without a zone."""
    names = ["device", "ts", "peak"]
    table = csv.read_csv(path, csv.ReadOptions(column_names=names))
    return table.set_column(1, "ts", table["ts"].cast(pa.timestamp("ms")))


def require_equal(ours: pa.Table, peer: pa.Table) -> None:
    """Raise AssertionError unless both sides return the same rows, in any order."""
    order = [("device", "ascending"), ("ts", "ascending")]
    assert ours.sort_by(order).combine_chunks() == peer.sort_by(order).combine_chunks(), (
        "Flink returns other rows"
    )


EXPERIMENTS = (
    beside(
        "flink",
        "Flink",
        "The maximum of the last hour or day for each of 100 keys, after every row: in Spark with "
        "mta-windows and pages on local disk, and in Flink SQL with an `OVER` window and its state "
        "on the heap. A million rows on two cores. CPU time per row, including the start of the "
        "query.",
        run,
        quick=0.05,
    ),
)
