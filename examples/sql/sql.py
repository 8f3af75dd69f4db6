"""One query in SQL on a stream, over two runs and a change, and the same text over a table.

Card payments arrive as files. For each payment, a query of window functions gives what a model may
know about its card at that time: the payments of the last hour before it, how many were declined,
and the time since the previous one. The stream is stopped, continues with a longer query, and its
results are compared with DuckDB, and with the same text over all payments in memory.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
from pyspark.sql import SparkSession

import mta
import spark_integration
from spark_integration.session import local_session

START = pd.Timestamp("2025-03-01", tz="UTC")
SCHEMA = "card string, ts timestamp, amount double, status string"
WINDOWS = """
    WINDOW before AS (PARTITION BY card ORDER BY ts
                      RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND CURRENT ROW EXCLUDE GROUP),
           ten AS (PARTITION BY card ORDER BY ts ROWS BETWEEN 9 PRECEDING AND CURRENT ROW)
"""
FIRST = f"""
    SELECT card, ts, amount, count(*) OVER before AS payments,
           coalesce(sum(amount) OVER before, 0) AS spent, max(amount) OVER ten AS largest
    FROM payments {WINDOWS}
"""
SECOND = f"""
    SELECT card, ts, amount, count(*) OVER before AS payments,
           coalesce(sum(amount) OVER before, 0) AS spent, max(amount) OVER ten AS largest,
           amount / avg(amount) OVER ten AS ratio,
           max(amount) FILTER (WHERE amount < 500) OVER ten AS usual
    FROM payments {WINDOWS}
"""


def payments(count: int, cards: int) -> pd.DataFrame:
    """Payments of two days, each at a moment of its own."""
    random = np.random.default_rng(7)
    seconds = np.sort(random.choice(2 * 86400, count, replace=False))
    return pd.DataFrame(
        {
            "card": [f"card {number}" for number in random.integers(0, cards, count)],
            "ts": START + pd.to_timedelta(seconds, unit="s"),
            "amount": random.integers(100, 90_000, count) / 100,
            "status": random.choice(["ok", "ok", "declined"], count),
        }
    )


def run(spark: SparkSession, folder: Path, query: str, output: str) -> pd.DataFrame:
    """Run the query over all files that no earlier run has read; return its results."""
    stream = spark.readStream.schema(SCHEMA).parquet(str(folder / "incoming"))
    store = (folder / "windows").absolute().as_uri()
    results = spark_integration.sql(spark, query, store=store, payments=stream)
    writer = results.writeStream.trigger(availableNow=True).format("parquet")
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    writer.start(str(folder / output)).awaitTermination()
    found = pd.read_parquet(folder / output)
    return found.assign(ts=pd.to_datetime(found.ts, utc=True))


def arrive(rows: pd.DataFrame, folder: Path, name: str) -> None:
    """Put payments where the stream finds them."""
    (folder / "incoming").mkdir(parents=True, exist_ok=True)
    rows.assign(ts=rows.ts.astype("datetime64[us, UTC]")).to_parquet(folder / "incoming" / name)


def compare(found: pd.DataFrame, wanted: pd.DataFrame) -> None:
    """Raise AssertionError unless two results have the same rows, in any order."""
    both = [
        each.assign(ts=each.ts.astype("datetime64[us, UTC]"))
        .sort_values(["card", "ts"], ignore_index=True)
        .astype({"payments": "int64"})
        for each in (found, wanted)
    ]
    pd.testing.assert_frame_equal(*both, check_exact=False, rtol=1e-9, check_dtype=False)


def by_duckdb(query: str, rows: pd.DataFrame) -> pd.DataFrame:
    """Return the results of a query by DuckDB."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("payments", rows)
        return connection.sql(query).df()


def main() -> None:
    """Run the stream twice, and compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("sql-example"))
    parser.add_argument("--payments", type=int, default=20_000)
    parser.add_argument("--cards", type=int, default=200)
    options = parser.parse_args()
    shutil.rmtree(options.folder, ignore_errors=True)
    every = payments(options.payments, options.cards)
    later = every.ts >= START + pd.Timedelta("1 day")
    spark = local_session("sql example", cores=2)

    arrive(every[~later], options.folder, "day-1.parquet")
    found = run(spark, options.folder, FIRST, "results-1")
    compare(found, by_duckdb(FIRST, every[~later]))
    print(f"first day: {len(found):,} results equal DuckDB")

    arrive(every[later], options.folder, "day-2.parquet")
    found = run(spark, options.folder, SECOND, "results-2")
    print(f"another query continues: {len(found):,} results")
    wanted = by_duckdb(SECOND, every)
    wanted = wanted[wanted.ts >= START + pd.Timedelta("1 day")]
    # The filter is a new column: it starts with the rows after the restart.
    compare(found.drop(columns="usual"), wanted.drop(columns="usual"))

    whole = mta.sql(SECOND, payments=every)
    compare(whole, by_duckdb(SECOND, every))
    print(f"all {len(found):,} results of the stream and {len(whole):,} in memory equal DuckDB")


if __name__ == "__main__":
    main()
