"""A program for ``tests/spark/test_tables.py``: what changes of a source table do to a query.

The package of the table's format must be there when Java starts, so this is a process of its own.
It prints what it finds as JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from spark_integration.session import local_session
from tests.support.documents import ROOT
from tests.support.spark.session import QUICK

sys.path.append(str(ROOT / "examples" / "tables"))
import job


class Table:
    """A source table, and a query whose results are collected."""

    def __init__(self, spark: SparkSession, kind: str, folder: Path) -> None:
        self.spark, self.kind, self.folder = spark, kind, folder
        self.place = "lake.readings" if kind == "iceberg" else f"{folder}/readings"
        self.name = self.place if kind == "iceberg" else f"delta.`{self.place}`"
        self.results: list[float] = []
        # By names, without which Delta drops no column.
        mode = "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
        spark.sql(
            f"CREATE TABLE {self.name} (device string, ts timestamp, watts double, part int) "
            f"USING {kind} {mode if kind == 'delta' else ''}"
        )

    def insert(self, minute: int) -> None:
        self.spark.sql(
            f"INSERT INTO {self.name} (device, ts, watts, part) "
            f"VALUES ('a', timestamp'2024-01-01 00:{minute:02d}:00', {minute}, 0)"
        )

    def alter(self, how: str) -> None:
        self.spark.sql(f"ALTER TABLE {self.name} {how}")

    def run(self, meanwhile: Callable[[], None] | None = None) -> dict[str, Any]:
        """Run the query to the end of the table, and once more after what comes meanwhile."""

        def collect(batch: DataFrame, _number: int) -> None:
            self.results += [row.peak for row in batch.collect()]

        self.results, said = [], ""
        try:
            readings = self.spark.readStream.format(self.kind).load(self.place)
            windows = job.windows(readings, f"file://{self.folder}/pages", emit_updates=False)
            writer = windows.writeStream.foreachBatch(collect).trigger(processingTime="0 seconds")
            query = writer.option("checkpointLocation", f"{self.folder}/checkpoint").start()
            query.processAllAvailable()
            if meanwhile is not None:
                meanwhile()
                query.processAllAvailable()
            query.stop()
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
        return {"results": self.results, "error": said}


def find(table: Table) -> Iterator[tuple[str, Any]]:
    """What happens, one after the other."""
    table.insert(1)
    yield "first", table.run()
    table.alter("ADD COLUMNS (site string)")
    table.insert(2)
    yield "added", table.run()

    def add_another() -> None:
        table.alter("ADD COLUMNS (plant string)")
        table.insert(3)

    yield "added while it runs", table.run(add_another)
    yield "started again", table.run()
    table.spark.sql(f"DELETE FROM {table.name} WHERE watts = 1")
    yield "deleted", table.run()
    table.alter("DROP COLUMN watts")
    yield "dropped", table.run()


if __name__ == "__main__":
    kind, folder, jars = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
    conf = {**QUICK, "spark.jars": jars, **job.settings(kind, folder)}
    spark = local_session("table", cores=2, memory="1g", log=folder / "spark.log", conf=conf)
    found = dict(find(Table(spark, kind, folder)))
    spark.stop()
    sys.stdout.write(f"{json.dumps(found)}\n")
