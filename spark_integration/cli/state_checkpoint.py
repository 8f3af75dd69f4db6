"""What a checkpoint of Spark holds, as its reader of state stores tells after the last batch.

Where the pages are in that state too (``spark://state``), nobody but the query itself writes them;
so they are copied to local disk to be looked at and verified, and cannot be repaired.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_integration.carriers.state_pages import is_state_url
from spark_integration.carriers.state_stream import KEY, PAGE, PAGES
from spark_integration.carriers.workers import store_of
from stores import PageStore, open_store


def read_state(spark: SparkSession, checkpoint: Path, variable: str | None = None) -> DataFrame:
    """The state of a checkpoint's last committed batch; of one variable, where there are some."""
    reader = spark.read.format("statestore")
    if variable is not None:
        reader = reader.option("stateVarName", variable)
    return reader.load(str(checkpoint.absolute()))


def read_pages(spark: SparkSession, checkpoint: Path) -> DataFrame:
    """A row for each page in Spark's state, with the columns ``key`` and ``page``."""
    key, page = F.col("user_map_key")[KEY], F.col("user_map_value")[PAGE]
    return read_state(spark, checkpoint, PAGES).select(key.alias("key"), page.alias("page"))


def state_totals(spark: SparkSession, checkpoint: Path) -> tuple[int, int]:
    """How many pages Spark's state has, and the bytes on disk of all its retained versions."""
    return read_pages(spark, checkpoint).count(), disk_bytes(checkpoint / "state")


def disk_bytes(folder: Path) -> int:
    """What the files in a folder take on disk."""
    files = (path.stat() for path in folder.rglob("*") if path.is_file())
    return sum(found.st_blocks * 512 for found in files)


@contextmanager
def open_pages(spark: SparkSession, checkpoint: Path, address: str) -> Iterator[PageStore]:
    """The store at the address; of pages in Spark's state a copy on local disk, for as long."""
    if not is_state_url(address):
        with open_store(address) as store:
            yield store
        return
    with tempfile.TemporaryDirectory(prefix="mta-pages-") as folder:
        copy_pages(spark, checkpoint, f"file://{folder}")
        with open_store(f"file://{folder}") as store:
            yield store


def copy_pages(spark: SparkSession, checkpoint: Path, address: str) -> int:
    """Put every page of Spark's state into a store; return how many. Raises the store's errors."""
    put = partial(_put_pages, address=address)
    counts = read_pages(spark, checkpoint).mapInArrow(put, "pages long").collect()
    return sum(row.pages for row in counts)


def _put_pages(batches: Iterable[pa.RecordBatch], address: str) -> Iterator[pa.RecordBatch]:
    with store_of(address) as store:
        for batch in batches:
            keys, pages = batch.column("key").to_pylist(), batch.column("page").to_pylist()
            store.put_many(dict(zip(keys, pages, strict=True)))
            yield pa.record_batch({"pages": [len(keys)]})
        store.flush()
