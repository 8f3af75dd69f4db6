"""A program that makes an archive of Spark's classes, as the queries of the tests load them.

``make`` runs it once for an environment; an archive that is there stays. It takes a minute of the
processor's time, and each Java that a test starts with the archive takes some seconds less.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

from mta import Count, CountWindow, Max
from spark_integration import sliding_aggregate
from spark_integration.session import local_session
from tests.support.spark.home import CLASSES, set_up_home
from tests.support.spark.session import QUICK


def load_classes(spark: SparkSession, folder: Path) -> None:
    """Run a batch and streams with their pages in a store and in Spark's state."""
    columns = "concat('d', id % 7) k", "timestamp_seconds(id) t", "double(id % 97) v"
    rows = spark.range(200).selectExpr(*columns)
    rows.write.parquet(f"{folder}/in")
    for at, store in enumerate((f"file://{folder}/pages", "spark://state")):
        stream = spark.readStream.schema(rows.schema).parquet(f"{folder}/in")
        for name, given in (("batch", rows), ("stream", stream.withWatermark("t", "1 minute"))):
            results = sliding_aggregate(
                given, by="k", on="t", aggregations={"peak": ("v", Max()), "n": (None, Count())},
                window=CountWindow(10), store=store, buckets=2,
            )  # fmt: skip
            if name == "batch":
                results.toPandas()
                continue
            writer = results.writeStream.trigger(availableNow=True).format("parquet")
            writer = writer.option("checkpointLocation", f"{folder}/checkpoint{at}")
            writer.start(f"{folder}/out{at}").awaitTermination()
            spark.read.parquet(f"{folder}/out{at}").orderBy("t").collect()


def main() -> None:
    set_up_home()
    if CLASSES.exists():
        return
    made = CLASSES.with_suffix(".part")
    java = f"{QUICK['spark.driver.extraJavaOptions']} -Xlog:disable -XX:ArchiveClassesAtExit={made}"
    conf = {**QUICK, "spark.driver.extraJavaOptions": java}
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "spark.log")
        spark = local_session("classes", cores=2, memory="1g", log=log, conf=conf)
        gateway = spark.sparkContext._gateway
        load_classes(spark, Path(folder))
        spark.stop()
        gateway.proc.stdin.close()
        gateway.proc.wait(600)
    if made.exists():  # else this Java makes none
        made.replace(CLASSES)


if __name__ == "__main__":
    main()
