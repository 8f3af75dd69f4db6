"""``mta demo``: run on a generated stream or on your data, then inspect and check the results.

The stream is plausible: power meters report their load about once a minute. Each meter has its own
size, daily rhythm and noise. There are weekends, short spikes of up to three times the load, and
hours without reports when a meter is down. The same arguments always give the same files.
"""

from __future__ import annotations

import os
import shutil
import time
from importlib.util import find_spec
from pathlib import Path
from shlex import quote

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from mta import CountWindow, TimeWindow
from mta.cli.console import own_command, say
from spark_integration.cli.checkpoints import inspect
from spark_integration.cli.expressions import Aggregation, parse_aggregation, parse_window
from spark_integration.cli.job import Job
from spark_integration.cli.run import read_results, run
from spark_integration.cli.sources import guess_job, key_column, open_source, resolve_columns
from spark_integration.cli.stream import read_input
from spark_integration.errors import InvalidRequest
from spark_integration.session import local_session
from stores.errors import WindowStoreError, pip_install

Floats = npt.NDArray[np.float64]
DAY = 86_400.0
SEED = 1
START = np.datetime64("2025-06-02T00:00:00", "us")  # a Monday
AGGREGATIONS = ("peak={0}:max", "mean={0}:mean", "spread={0}:stddev")
MARK = "made-by-mta-demo"
#: The name under which the windows are published.
NAME = "demo"
CHECKED_KEYS = 3
#: pandas updates its sums step by step, so it rounds differently; a maximum needs no rounding.
TOLERANCE = {"max": 0.0, "min": 0.0, "count": 0.0, "stddev": 1e-6}


class DemoFailed(WindowStoreError, AssertionError):
    """The results differ from those of pandas: report this as a bug."""


def demo(job: Job, data: Path | None, events: int, keys: int, folder: Path) -> None:
    """Generate a stream (or use ``data``), run, inspect, and compare with pandas."""
    _clean(folder)
    if data is None:
        say(f"== generate: about {events:,} events of {keys} power meters over 30 days")
        began = time.monotonic()
        written = write_stream(folder / "events", events, keys)
        say(f"{written:,} events written in {time.monotonic() - began:.1f} s")
        job = job.replace(input=(str(folder / "events"),), key="device", time="ts")
        job = job.replace(value=("watts",))
    else:
        job = job.replace(input=(str(data),), on_late="drop", on_invalid="drop", nulls="drop_row")
    job = job.replace(output=str(folder / "run"), publish=NAME)
    source = open_source(job)
    job = guess_job(job, source)
    if not job.value:
        job = resolve_columns(job, source)  # raises the error of a run
    if not job.agg:
        job = job.replace(agg=tuple(text.format(job.value[0]) for text in AGGREGATIONS))
    say(f"\n== run: a window of {job.window} for every key, one result row per event")
    run(job)
    say("\n== inspect: the windows, as their snapshots describe them")
    spark = local_session()
    inspect(job.folder, job.store, 10)
    say("\n== check: compare every result of a few keys with pandas")
    check(spark, job)
    say(f"\nlook at   {job.folder / 'plot.png'}")
    if find_spec("uvicorn") is None:
        say(f"          to see the windows in a browser, first: {pip_install('serve')}")
    else:
        say(f"          or the windows in a browser: {own_command()} serve {quote(str(folder))}")


def check(spark: SparkSession, job: Job) -> None:
    """Compare all result rows of a few keys with pandas. Raises DemoFailed."""
    aggregations = [parse_aggregation(text, job.value) for text in job.agg]
    results, key = read_results(spark, job), key_column(job)
    some = results.select(key).distinct().orderBy(F.xxhash64(key)).limit(CHECKED_KEYS)
    keys = sorted(row[0] for row in some.collect())
    chosen = F.col(f"`{key}`").isin(keys)
    got = pd.DataFrame(results.where(chosen).toPandas())
    sent = pd.DataFrame(read_input(spark, job, open_source(job)).where(chosen).toPandas())
    for value in keys:
        found, events = (_sorted(rows[rows[key] == value], job) for rows in (got, sent))
        _compare(str(value), found, events, aggregations, job)
    say(f"exact     {results.count():,} result rows in all")


def _sorted(rows: pd.DataFrame, job: Job) -> pd.DataFrame:
    """Sort rows as a window adds them: by time, then by the other columns."""
    rows = rows.dropna(subset=[str(job.time), *job.value])
    return rows.sort_values([str(job.time), *job.value]).reset_index(drop=True)


def _compare(
    key: str, got: pd.DataFrame, sent: pd.DataFrame, aggregations: list[Aggregation], job: Job
) -> None:
    columns = [str(job.time), *job.value]
    if not got[columns].equals(sent[columns]):
        raise DemoFailed(
            f"key {key}: {len(sent):,} events, but {len(got):,} results: report this as a bug"
        )
    # Events with equal times and values have no visible order, but each has another result.
    alone = ~got.duplicated(columns, keep=False).to_numpy()
    for aggregation in aggregations:
        expected = _rolling(sent, aggregation, job)[alone]
        found = got[aggregation.name].to_numpy(float)[alone]
        tolerance = TOLERANCE.get(aggregation.function, 1e-9)
        scale = np.nanmax(np.abs(sent[aggregation.columns[0]].to_numpy(float)), initial=1.0)
        try:
            np.testing.assert_allclose(found, expected, tolerance, tolerance * scale)
        except AssertionError as error:
            raise DemoFailed(
                f"key {key}: {aggregation} differs from pandas, report this as a bug: {error}"
            ) from error
    names = ", ".join(aggregation.name for aggregation in aggregations)
    say(f"          {key}: {len(got):,} events, {names} as in pandas")


def _rolling(events: pd.DataFrame, aggregation: Aggregation, job: Job) -> Floats:
    if not aggregation.columns:
        raise InvalidRequest("the demo cannot check a count of rows with pandas: count a column")
    series = events.set_index(str(job.time))[aggregation.columns[0]].astype(float)
    frame = parse_window(job.window)
    known = isinstance(frame, CountWindow | TimeWindow) and not frame.lags
    if not known or getattr(frame, "closed", "right") != "right":
        raise InvalidRequest(
            f"the demo can check only windows that end with the row, such as '24 hours', not "
            f"{frame!r}"
        )
    if isinstance(frame, CountWindow):
        window = series.rolling(frame.size, min_periods=1)
    else:
        window = series.rolling(pd.Timedelta(frame.size, unit="us"))
    function = {"stddev": "std"}.get(aggregation.function, aggregation.function)
    if function not in ("max", "min", "mean", "sum", "count", "std"):
        raise InvalidRequest(f"the demo cannot check {aggregation.function} with pandas")
    return np.asarray(getattr(window, function)(), float)


def _clean(folder: Path) -> None:
    """Empty the demo's folder; refuse to delete files that no demo wrote."""
    if folder.exists() and any(folder.iterdir()) and not (folder / MARK).exists():
        raise InvalidRequest(f"{folder} contains other files: choose another --output")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / MARK).touch()


# --- the stream -----------------------------------------------------------------------------------


class Meters:
    """The meters of the stream; the arrays have one element, or a row of outages, per meter.

    ``keys`` meters make about ``events`` reports in total, each at most ``slots``.
    """

    def __init__(self, events: int, keys: int) -> None:
        random, seconds = np.random.default_rng(SEED), 30 * DAY
        self._interval = seconds * keys / events
        self.slots = round(seconds / self._interval)
        # Two outages per meter, in seconds since the start.
        self._down_from = random.uniform(0, seconds, (keys, 2))
        self._size = random.lognormal(6.3, 0.6, keys)
        self._rhythm = random.uniform(0.3, 0.7, keys)
        self._evening = random.normal(19.0, 1.5, keys)
        self._noise = random.uniform(0.03, 0.12, keys)
        self._down_until = self._down_from + random.exponential(6 * 3600, (keys, 2))

    def events(self, first: int, last: int) -> pa.Table:
        """Return the reports of all meters in the slots ``first`` to ``last``, in order of time."""
        keys = len(self._size)
        random = np.random.default_rng([SEED, first])
        shape = (keys, last - first)
        seconds = (np.arange(first, last) + random.random(shape)) * self._interval
        up = np.ones(shape, bool)
        for start, end in zip(self._down_from.T, self._down_until.T, strict=True):
            up &= (seconds < start[:, None]) | (seconds >= end[:, None])
        watts = self._load(seconds) * (1 + self._noise[:, None] * random.standard_normal(shape))
        spikes = random.random(shape) < 0.0002
        watts[spikes] *= 1 + random.exponential(0.8, int(spikes.sum())).clip(max=2)
        order = np.argsort(seconds[up], kind="stable")
        meters = np.broadcast_to(np.arange(keys)[:, None], shape)[up][order]
        width = len(str(keys - 1))
        names = pa.array([f"meter-{meter:0{width}d}" for meter in range(keys)])
        times = START + (seconds[up][order] * 1e6).astype("timedelta64[us]")
        return pa.table(
            {
                "device": names.take(pa.array(meters)),
                "ts": pa.array(times, pa.timestamp("us", "UTC")),
                "watts": np.round(watts[up][order].clip(min=0.0), 2),
            }
        )

    def _load(self, seconds: Floats) -> Floats:
        """Return the load without noise: a morning and an evening peak, lower at weekends."""
        hour = (seconds % DAY) / 3600
        weekday = np.where((seconds // DAY) % 7 < 5, 1.0, 0.75)
        evening = np.exp(-0.5 * ((hour - self._evening[:, None]) / 2.5) ** 2)
        morning = 0.6 * np.exp(-0.5 * ((hour - 7.5) / 1.5) ** 2)
        rhythm = self._rhythm[:, None]
        return self._size[:, None] * weekday * (1 - rhythm + rhythm * 2 * (morning + evening))


def write_stream(folder: Path, events: int, keys: int, *, rows_per_file: int = 100_000) -> int:
    """Write the stream as files in order of time; return the exact number of events."""
    folder.mkdir(parents=True)
    meters = Meters(events, keys)
    written = 0
    size = max(1, rows_per_file // keys)
    for number, first in enumerate(range(0, meters.slots, size)):
        rows = meters.events(first, min(first + size, meters.slots))
        path = folder / f"{number:05d}.parquet"
        pq.write_table(rows, path)
        # Spark reads files in the order of their modification times, which have gaps of a
        # second on some file systems.
        os.utime(path, (1_750_000_000 + number, 1_750_000_000 + number))
        written += rows.num_rows
    return written
