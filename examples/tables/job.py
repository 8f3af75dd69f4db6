"""A Spark job between tables of Delta or Iceberg, with two queries.

One query appends each reading with its meter's peak of the last day. Another one also corrects the
results that a late reading changes. ``tables.py`` starts this job, kills it and checks both.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import pyspark
from pyspark.sql import DataFrame, SparkSession

from mta import Count, Max, TimeWindow
from spark_integration import sliding_aggregate
from spark_integration.session import local_session

SPARK = ".".join(pyspark.__version__.split(".")[:2])
PACKAGES = {
    "delta": f"io.delta:delta-spark_{SPARK}_2.13:4.4.0",
    "iceberg": f"org.apache.iceberg:iceberg-spark-runtime-{SPARK}_2.13:1.12.0",
}
#: How many files of the source a micro-batch reads.
LIMITS = {
    "delta": {"maxFilesPerTrigger": "1"},
    "iceberg": {"streaming-max-files-per-micro-batch": "1"},
}


def settings(kind: str, folder: Path) -> dict[str, str]:
    """Return the settings that the session needs, in addition to the package."""
    if kind == "delta":
        return {
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        }
    iceberg = "org.apache.iceberg.spark"
    return {
        "spark.sql.extensions": f"{iceberg}.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.lake": f"{iceberg}.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.warehouse": str(folder / "lake"),
        # The session of a stream has its own catalog; a cached table would lack what it commits.
        "spark.sql.catalog.lake.cache-enabled": "false",
    }


def windows(readings: DataFrame, store: str, *, emit_updates: bool) -> DataFrame:
    """Return each reading with its window, and with updates also results that late ones change."""
    return sliding_aggregate(
        readings,
        by="device",
        on="ts",
        aggregations={"peak": ("watts", Max()), "n": (None, Count())},
        window=TimeWindow("24 hours"),
        store=store,
        allowed_lateness="1 hour",
        on_late="drop",
        on_invalid="drop",
        emit_updates=emit_updates,
        carry=[] if emit_updates else ["part"],
    )


def append_to(path: str, name: str) -> Callable[[DataFrame, int], None]:
    """Return a function that appends micro-batches to Delta, which skips numbers that it has."""

    def append(batch: DataFrame, number: int) -> None:
        once = {"txnAppId": name, "txnVersion": str(number)}
        batch.write.format("delta").mode("append").options(**once).save(path)

    return append


def merge_into(table: str) -> Callable[[DataFrame, int], None]:
    """Return a function that merges micro-batches into a table with one row per key and time."""

    def merge(batch: DataFrame, number: int) -> None:
        # A MERGE may read its rows twice, and they are computed once.
        rows = batch.drop("corrected").persist()
        rows.createOrReplaceTempView("updates")
        rows.sparkSession.sql(
            f"MERGE INTO {table} AS old USING updates AS new "
            "ON old.device = new.device AND old.ts = new.ts "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
        rows.unpersist()

    return merge


def make_tables(spark: SparkSession, kind: str, names: dict[str, str], folder: Path) -> None:
    """Create the source, with a commit for each file of readings, and the empty targets."""
    columns = "device string, ts timestamp, watts double"
    spark.sql(f"CREATE TABLE {names['readings']} ({columns}, part int) USING {kind}")
    spark.sql(f"CREATE TABLE {names['peaks']} ({columns}, part int, peak double, n bigint) "
              f"USING {kind}")  # fmt: skip
    spark.sql(f"CREATE TABLE {names['newest']} ({columns}, peak double, n bigint) USING {kind}")
    for file in sorted((folder / "incoming").glob("*.parquet")):
        spark.read.parquet(str(file)).coalesce(1).writeTo(names["readings"]).append()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--format", choices=PACKAGES, default="delta")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--store", help="where the pages are, by default in the folder")
    parser.add_argument("--by-batch", action="store_true", help="append to Delta by foreachBatch")
    parser.add_argument("--jars", help="the format's package, in place of a download")
    options = parser.parse_args()
    folder, kind = options.folder.absolute(), options.format
    store = options.store or f"file://{folder}/pages"
    package = PACKAGES[kind]
    jars = {"spark.jars": options.jars} if options.jars else {"spark.jars.packages": package}
    spark = local_session("tables", cores=2, conf={**jars, **settings(kind, folder)})
    # A table of Delta without a catalog is a folder.
    where = "lake.{}" if kind == "iceberg" else f"{folder}/{{}}"
    places = {table: where.format(table) for table in ("readings", "peaks", "newest")}
    names = {t: p if kind == "iceberg" else f"delta.`{p}`" for t, p in places.items()}
    if not (folder / "made").exists():
        make_tables(spark, kind, names, folder)
        (folder / "made").touch()
    queries = []
    for table, updates in (("peaks", False), ("newest", True)):
        reader = spark.readStream.format(kind).options(**LIMITS[kind])
        readings = reader.load(places["readings"])
        results = windows(readings, store, emit_updates=updates)
        writer = results.writeStream.trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(folder / f"checkpoint-{table}"))
        if updates:
            queries.append(writer.foreachBatch(merge_into(names[table])).start())
        elif options.by_batch:
            queries.append(writer.foreachBatch(append_to(places[table], table)).start())
        else:
            queries.append(writer.format(kind).start(places[table]))
    for query in queries:
        query.awaitTermination()
    for table in ("peaks", "newest"):
        spark.table(names[table]).coalesce(1).write.mode("overwrite").parquet(
            str(folder / f"{table}.parquet")
        )
    spark.stop()


if __name__ == "__main__":
    main()
