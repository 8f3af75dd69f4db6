"""A Spark streaming job whose windows lie in Redis.

Power meters report about once a minute; after each report the job gives the meter's peak and mean
of the last 24 hours. Spark's own state holds a snapshot per meter, Redis the pages. The job is
stopped half way and started again from its checkpoint; the results equal those of pandas.
"""

from __future__ import annotations

import argparse
import tempfile
import uuid
from pathlib import Path

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame, SparkSession

from mta import Max, Mean, TimeWindow
from spark_integration import sliding_aggregate
from spark_integration.session import local_session
from stores import open_store

START, DAYS = np.datetime64("2025-06-02T00:00:00", "us"), 3
STARTS = ("the job starts", "more files have come, the job starts again")


def readings(events: int, meters: int, seed: int = 1) -> pd.DataFrame:
    """Three days of reports, in the order of time."""
    random = np.random.default_rng(seed)
    seconds = np.sort(random.random(events)) * DAYS * 86_400
    meter = random.integers(0, meters, events)
    evening = 1 + np.cos(2 * np.pi * (seconds / 86_400 - 0.8))
    watts = (150 + 40 * (meter % 7)) * evening * random.lognormal(0, 0.3, events)
    times = START + (seconds * 1e6).astype("timedelta64[us]")
    names = np.char.add("meter-", meter.astype(str))
    return pd.DataFrame({"meter": names, "ts": times, "watts": watts})


def windows(events: DataFrame, store: str, name: str) -> DataFrame:
    """All there is to write: a row for each event, with its meter's window at that moment."""
    return sliding_aggregate(
        events,
        by="meter",
        on="ts",
        aggregations={"peak": ("watts", Max()), "mean": ("watts", Mean())},
        window=TimeWindow("24 hours"),
        store=store,
        name=name,
    )


def run_until_idle(spark: SparkSession, folder: Path, store: str, name: str) -> None:
    """Take the files that are there, one a micro-batch, from wherever the last run ended."""
    reader = spark.readStream.schema("meter string, ts timestamp, watts double")
    events = reader.option("maxFilesPerTrigger", 1).parquet(str(folder / "incoming"))
    writer = windows(events, store, name).writeStream.format("parquet")
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.trigger(availableNow=True).start(str(folder / "results"))
    query.awaitTermination()
    for progress in query.recentProgress:
        rows, seconds = progress.numInputRows, progress.batchDuration / 1000
        print(f"  batch {progress.batchId}: {rows:,} events in {seconds:.1f} s")


def show_pages(store: str, name: str) -> None:
    """What this run has in Redis."""
    with open_store(store) as pages:
        keys = list(pages.keys(name))
        weight = sum(len(page or b"") for page in pages.get_many(keys))
        print(f"  in Redis: {len(keys):,} pages, {weight / 1024:,.0f} KiB; one is {min(keys)[:60]}")


def delete_pages(store: str, name: str) -> None:
    """Leave Redis as it was; a job that is to go on would keep them."""
    with open_store(store) as pages:
        pages.delete_many(list(pages.keys(name)))


def compare(spark: SparkSession, folder: Path, sent: pd.DataFrame) -> None:
    """Every result against pandas."""
    order = ["meter", "ts", "watts"]
    found = pd.DataFrame(spark.read.parquet(str(folder / "results")).toPandas())
    found = found.sort_values(order)
    sent = sent.sort_values(order)
    rolling = sent.set_index("ts").groupby("meter").watts.rolling("24h")
    np.testing.assert_array_equal(found.ts, sent.ts)
    np.testing.assert_array_equal(found.peak, rolling.max())
    np.testing.assert_allclose(found["mean"], rolling.mean(), rtol=1e-9)
    print(found.groupby("meter").tail(1).head(3).to_string(index=False))
    print(f"all {len(found):,} results equal pandas: peak to the bit, mean to 1e-9")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", default="redis://localhost:6379/0", help="where Redis is")
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--meters", type=int, default=50)
    parser.add_argument("--files", type=int, default=6, help="micro-batches, in both runs")
    options = parser.parse_args()
    name, sent = f"spark-redis-{uuid.uuid4().hex[:8]}", readings(options.events, options.meters)
    delete_pages(options.store, name)  # says at once if Redis cannot be reached
    parts = [sent.iloc[at] for at in np.array_split(np.arange(len(sent)), options.files)]
    spark = local_session("spark-redis")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "incoming").mkdir()
        try:
            for life, event in enumerate(STARTS):
                print(event)
                for at in range(life * options.files // 2, (life + 1) * options.files // 2):
                    parts[at].to_parquet(folder / "incoming" / f"{at}.parquet", index=False)
                run_until_idle(spark, folder, options.store, name)
                show_pages(options.store, name)
            compare(spark, folder, sent)
        finally:
            delete_pages(options.store, name)
            spark.stop()


if __name__ == "__main__":
    main()
