"""Cards with late rows and retractions, and lists as of each file; and a driver that publishes."""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from mta import Count, CountWindow, Max, Sum, TimeWindow, open_published
from mta.published import PublishedWindows
from mta.publishing import batches
from spark_integration import sliding_aggregate
from spark_integration.session import local_session
from tests.support.faulty import eventually
from tests.support.published import Lists
from tests.support.spark.asking import KEYS, START
from tests.support.spark.session import QUICK

SCHEMA = "card string, shop int, ts timestamp, v long, undo boolean"
LATE = 60
WINDOWS = {"minutes": TimeWindow("3 minutes"), "five": CountWindow(5)}


class CardFiles:
    """Files of cards in any order, late ones and retractions among them, and lists of them."""

    def __init__(self, folder: Path, store: str, seed: int = 3) -> None:
        self.folder, self.store = folder, store
        (folder / "input").mkdir(parents=True)
        self.chance, self.clock, self.files = random.Random(seed), 1000, 0
        self.lists = Lists(WINDOWS, sum_of_none=None)
        #: What lists say after each file.
        self.as_of: list[dict[str, Any]] = []

    def write(self, rows: int = 120, keys: list[Any] = KEYS) -> None:
        """A file of rows, which is a batch."""
        newest = {key: max((t for t, _ in self.lists.events[key]), default=0) for key in keys}
        taken = {(key, t) for key in keys for t, _ in self.lists.events[key]}
        found, events = [], []
        for _ in range(rows):
            self.clock += self.chance.randint(0, 2)
            key = self.chance.choice(keys)
            at = max(self.clock - self.chance.choice([0, 0, LATE]), newest[key] - LATE)
            if (key, at) in taken:
                continue
            taken.add((key, at))
            events.append((key, at, self.chance.randint(-50, 50)))
        for key in keys[::3]:
            held = [t for t, _ in self.lists.events[key][:-1] if t >= newest[key] - LATE]
            if held:
                gone = self.chance.choice(held)
                self.lists.retract(key, gone)
                found.append((*key, gone, 0, True))
        for key, at, value in events:
            self.lists.add(key, at, value)
            found.append((*key, at, value, False))
        self.chance.shuffle(found)
        columns = [list(column) for column in zip(*found, strict=True)]
        columns[2] = [START + timedelta(seconds=at) for at in columns[2]]
        kinds = [pa.string(), pa.int32(), pa.timestamp("us", "UTC"), pa.int64(), pa.bool_()]
        names = ["card", "shop", "ts", "v", "undo"]
        table = pa.table([pa.array(c, k) for c, k in zip(columns, kinds, strict=True)], names)
        path = self.folder / "input" / f"{self.files:04d}.parquet"
        pq.write_table(table, path)
        os.utime(path, (1_700_000_000 + self.files,) * 2)
        self.as_of.append(self._answers())
        self.files += 1

    def _answers(self) -> dict[str, Any]:
        """What lists say now of each key: as of its newest event, and at a later moment."""
        later, events = self.clock + 90, self.lists.events
        newest = [events[key][-1][0] if events[key] else later for key in KEYS]
        return {
            "later": later,
            "at newest": [self.lists.query(*each) for each in zip(KEYS, newest, strict=True)],
            "at later": [self.lists.query(key, at=later) for key in KEYS],
        }


def reader_of(store: str, name: str, batch: int = 0) -> PublishedWindows:
    """A reader, once the batch is published: Spark tells of it a little later."""
    found: list[PublishedWindows] = []

    def is_there() -> bool:
        with suppress(LookupError):
            found[:] = [open_published(store, name, refresh=None)]
            return found[0].status().batch >= batch
        return False

    eventually(is_there)
    return found[0]


def options(store: str) -> dict[str, Any]:
    """What is computed and published of them."""
    return {
        "by": ["card", "shop"],
        "on": "ts",
        "aggregations": {"peak": ("v", Max()), "total": ("v", Sum()), "events": Count()},
        "window": WINDOWS,
        "store": store,
        "buckets": 4,
        "allowed_lateness": LATE,
        "retractions": "undo",
        "publish": "cards",
    }


def results(spark: SparkSession, folder: Path, **given: Any) -> DataFrame:
    """The stream of results, a file for each batch."""
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    return sliding_aggregate(reader.parquet(f"{folder}/input"), **given)


def main(job: Mapping[str, Any]) -> None:
    """Publish to the end of the input; each head comes a little late, to be killed before."""
    replace_head, folder = batches.replace_head, Path(job["folder"])

    def replace_late(*given: Any) -> None:
        time.sleep(random.uniform(0, 0.3))
        replace_head(*given)

    batches.replace_head = replace_late
    conf = {**QUICK, "spark.master": "local[2]", "spark.sql.shuffle.partitions": "2"}
    spark = local_session("cards", memory="1g", log=folder / "spark.log", conf=conf)
    writer = results(spark, folder, **options(job["store"])).writeStream.format("noop")
    writer = writer.option("checkpointLocation", f"{folder}/checkpoint")
    query = writer.trigger(availableNow=True).start()
    sys.stdout.write("started\n")
    sys.stdout.flush()
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*json.loads(sys.argv[1]))
