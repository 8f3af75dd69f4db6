"""A Spark job from topic to topic: it adds to each reading its meter's peak of the last day.

Messages that cannot be used go to a separate topic, with the reason. ``readings.py`` starts this
job, kills it and checks what it has written.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import pyspark
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from mta import Count, Max, TimeWindow
from spark_integration import check_topic, parse_messages, read_topic, sliding_aggregate
from spark_integration.session import local_session

CONNECTOR = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"
READINGS, PEAKS, REJECTED = "readings", "peaks", "rejected"


def peaks_and_rejected(messages: DataFrame, store: str) -> DataFrame:
    """Return a topic, a key and a value for each message: its result, or why it has none."""
    messages = parse_messages(messages, "device string, ts timestamp, watts double")
    results = sliding_aggregate(
        messages.where("reason IS NULL").select("event.*"),
        by="device",
        on="ts",
        aggregations={"peak": ("watts", Max()), "n": (None, Count())},
        window=TimeWindow("24 hours"),
        store=store,
        allowed_lateness="1 hour",
        on_late="side",
        on_invalid="drop",
    )
    late = F.struct(F.lit("late").alias("reason"), F.col("device"), F.col("ts"), F.col("watts"))
    peaks = results.select(
        F.when(F.col("late"), REJECTED).otherwise(PEAKS).alias("topic"),
        F.col("device").cast("binary").alias("key"),
        F.when(F.col("late"), F.to_json(late)).otherwise(F.to_json(F.struct("*"))).alias("value"),
    )
    origin = F.struct("reason", "topic", "partition", "offset", F.base64("value").alias("message"))
    unreadable = messages.where("reason IS NOT NULL").select(
        F.lit(REJECTED).alias("topic"), "key", F.to_json(origin).alias("value")
    )
    return peaks.unionByName(unreadable)


def write_to(servers: str) -> Callable[[DataFrame, int], None]:
    """Return a function that writes micro-batches, with their number in each message's header."""

    def write(batch: DataFrame, number: int) -> None:
        header = F.struct(F.lit("batch").alias("key"), F.lit(str(number).encode()).alias("value"))
        messages = batch.withColumn("headers", F.array(header))
        messages.write.format("kafka").option("kafka.bootstrap.servers", servers).save()

    return write


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--servers", default="localhost:9092", help="where Kafka is")
    parser.add_argument("--store", default="redis://localhost:6379/0", help="where the pages are")
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--limit", type=int, default=20_000, help="messages in a micro-batch")
    parser.add_argument("--jars", help="Spark's connector to Kafka, in place of a download")
    options = parser.parse_args()
    connector = {"spark.jars": options.jars} if options.jars else {"spark.jars.packages": CONNECTOR}
    spark = local_session("kafka", cores=2, conf=connector)
    for topic in (PEAKS, REJECTED):
        check_topic(spark, options.servers, topic)
    limit = {"maxOffsetsPerTrigger": str(options.limit)}
    messages = read_topic(spark, options.servers, READINGS, options=limit)
    rows = peaks_and_rejected(messages, options.store)
    writer = rows.writeStream.foreachBatch(write_to(options.servers))
    writer = writer.option("checkpointLocation", options.checkpoint)
    query = writer.trigger(availableNow=True).start()  # without a trigger it runs on
    query.awaitTermination()
    for progress in query.recentProgress:
        counts = progress.observedMetrics["messages"].asDict()
        reasons = ", ".join(f"{count:,} x {reason}" for reason, count in counts.items() if count)
        print(f"batch {progress.batchId}: {reasons}")
    spark.stop()


if __name__ == "__main__":
    main()
