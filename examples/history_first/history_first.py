"""A year of readings first, then the stream: windows go on as though there had been no cutover.

Meters were read by another system for years; their readings are files. From a moment on they come
by a stream. The week's peak of each meter must be right from the stream's first row on. The stream
is stopped in the middle and started again; at the end its results equal pandas over all readings.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import SparkSession

from mta import Max, Mean, TimeWindow
from spark_integration import save_history, sliding_aggregate
from spark_integration.session import local_session

START, CUTOVER = pd.Timestamp("2024-01-01", tz="UTC"), pd.Timestamp("2024-12-01", tz="UTC")
SCHEMA = "meter string, ts timestamp, kw double"


def readings(events: int, meters: int, seed: int = 1) -> pd.DataFrame:
    """Readings of a year and some days, at moments of their own."""
    random = np.random.default_rng(seed)
    seconds = np.sort(random.choice(370 * 86400, events, replace=False))
    daily = 2 + np.sin(2 * np.pi * seconds / 86400)
    return pd.DataFrame(
        {
            "meter": [f"meter {number}" for number in random.integers(0, meters, events)],
            "ts": START + pd.to_timedelta(seconds, unit="s"),
            "kw": np.round(daily + random.gamma(2.0, 1.0, events), 3),
        }
    )


def write(rows: pd.DataFrame, path: Path) -> None:
    """A parquet file that Spark reads."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows.assign(ts=rows.ts.astype("datetime64[us, UTC]")).to_parquet(path)


def run(spark: SparkSession, folder: Path, windows: dict[str, Any]) -> None:
    """The stream, to the end of what has come."""
    rows = spark.readStream.schema(SCHEMA).parquet(str(folder / "stream"))
    results = sliding_aggregate(rows, **windows, start_from="meters")
    writer = results.writeStream.trigger(availableNow=True).format("parquet")
    query = writer.option("checkpointLocation", str(folder / "checkpoint"))
    query.start(str(folder / "results")).awaitTermination()


def compare(found: pd.DataFrame, everything: pd.DataFrame) -> None:
    """The stream's results against pandas over all readings."""
    rolling = everything.set_index("ts").groupby("meter").kw.rolling("7D")
    expected = pd.DataFrame({"peak": rolling.max(), "mean": rolling.mean()}).reset_index()
    expected = expected[expected.ts >= CUTOVER].sort_values(["meter", "ts"], ignore_index=True)
    found = found.sort_values(["meter", "ts"], ignore_index=True)
    assert len(found) == len(expected), (len(found), len(expected))
    np.testing.assert_array_equal(found.peak, expected.peak)
    np.testing.assert_allclose(found["mean"], expected["mean"], rtol=1e-9)
    print(f"all {len(found):,} results since the cutover equal pandas over the whole year")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=200_000, help="readings")
    parser.add_argument("--meters", type=int, default=50)
    parser.add_argument("--folder", type=Path, default=Path("/tmp/mta-history-first"))
    options = parser.parse_args()
    folder: Path = options.folder
    shutil.rmtree(folder, ignore_errors=True)
    rows = readings(options.events, options.meters)
    # Both sides have the readings around the cutover: each is counted once.
    day = pd.Timedelta(days=1)
    write(rows[rows.ts < CUTOVER + day], folder / "history" / "year.parquet")
    later = rows[rows.ts >= CUTOVER - day]
    halves = later[: len(later) // 2], later[len(later) // 2 :]
    spark = local_session("history-first", cores=2)
    windows: dict[str, Any] = {
        "by": "meter",
        "on": "ts",
        "aggregations": {"peak": ("kw", Max()), "mean": ("kw", Mean())},
        "window": TimeWindow("7 days"),
        "store": f"file://{folder}/pages",
        "buckets": 8,
    }
    past = spark.read.schema(SCHEMA).parquet(str(folder / "history"))
    history = save_history(past, "meters", until=CUTOVER.to_pydatetime(), **windows)
    print(f"the windows of {options.meters} meters at the cutover are in {history.store}")
    for number, half in enumerate(halves):
        write(half, folder / "stream" / f"{number}.parquet")
        run(spark, folder, windows)
        print(f"the stream has taken in {len(half):,} readings, and is stopped")
    found = spark.read.parquet(str(folder / "results")).toPandas()
    spark.stop()
    compare(found.assign(ts=found.ts.dt.tz_localize("UTC")), rows)


if __name__ == "__main__":
    main()
