"""What a query's checkpoint holds: snapshots in Spark's state, or pages as well.

Spark's reader of state stores tells it as it was after the last batch. Where the pages are in that
state too (``spark://state``), they are copied to local disk to be read.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from spark_integration.runners.labels import bucket_of
from spark_integration.runners.state_pages import KEY, PAGE, PAGES, STATE, is_state_url
from spark_integration.runners.workers import PARTITIONS
from spark_integration.step.states import State
from spark_integration.versions import require_spark_4
from stores import PageStore, open_store, ping_store

_PAGE = f"user_map_key.{KEY} AS key", f"user_map_value.{PAGE} AS page"


def has_commits(checkpoint: Path) -> bool:
    """Whether a micro-batch has been committed; before that there is no state to read."""
    return last_batch(checkpoint / "commits") >= 0


def last_batch(log: Path) -> int:
    """The number of the newest batch in one of Spark's logs, -1 for none."""
    return max(
        (int(entry.name) for entry in log.glob("[0-9]*") if entry.name.isdecimal()), default=-1
    )


def settings_of(offsets: Path) -> dict[str, str]:
    """The settings that Spark has noted for a query in a file of its log of offsets."""
    conf: dict[str, str] = json.loads(offsets.read_text().splitlines()[1])["conf"]
    return conf


def partitions_of(checkpoint: Path) -> int | None:
    """How many partitions the state of a query has; None where Spark has not noted it."""
    offsets = checkpoint / "offsets"
    try:
        return int(settings_of(offsets / str(last_batch(offsets)))[PARTITIONS])
    except (OSError, ValueError, KeyError, IndexError):
        return None


def query_id(checkpoint: Path) -> str:
    """The id of the query of a checkpoint, "" where Spark has not noted it."""
    try:
        return str(json.loads((checkpoint / "metadata").read_text())["id"])
    except (OSError, ValueError, KeyError):
        return ""


def saved_snapshots(spark: SparkSession, checkpoint: Path, store_url: str) -> list[bytes]:
    """The snapshot of every bucket's windows after the last committed batch.

    Raises CorruptState and StateMismatch.
    """
    states = states_by_bucket(spark, checkpoint, store_url).values()
    return [State.decode(state).snapshot for state in states]


def states_by_bucket(spark: SparkSession, checkpoint: Path, store_url: str) -> dict[int, bytes]:
    """The state of each bucket in Spark's state store after its last committed batch."""
    variable = STATE if is_state_url(store_url) else None
    return {
        bucket_of(row["key"][0]): state
        for row in _read_state(spark, checkpoint, variable).collect()
        for state in _binaries(row["value"].asDict(recursive=True))
    }


def read_pages(spark: SparkSession, checkpoint: Path) -> DataFrame:
    """A row for each page in Spark's state, with the columns ``key`` and ``page``."""
    return _read_state(spark, checkpoint, PAGES).selectExpr(*_PAGE)


@contextmanager
def open_pages(spark: SparkSession, checkpoint: Path, address: str) -> Iterator[PageStore]:
    """The store at the address; of pages in Spark's state a copy on local disk, for as long."""
    with open_home(address) as store:
        if is_state_url(address):
            for row in read_pages(spark, checkpoint).toLocalIterator():
                store.put_many({row.key: bytes(row.page)})
            store.flush()
        yield store


def ping_home(address: str, *, write: bool = False) -> None:
    """Ping the store at the address; pages in Spark's state have none to ask."""
    if not is_state_url(address):
        ping_store(address, write=write)


@contextmanager
def open_home(address: str) -> Iterator[PageStore]:
    """The store at the address; for pages in Spark's state an empty one, for as long."""
    if not is_state_url(address):
        with open_store(address) as store:
            yield store
        return
    folder = tempfile.TemporaryDirectory(prefix="mta-pages-")
    with folder as name, open_store(f"file://{name}") as store:
        yield store


def _read_state(spark: SparkSession, checkpoint: Path, variable: str | None = None) -> DataFrame:
    """The state of a checkpoint's last committed batch; of one variable, where there are some."""
    require_spark_4("reading a checkpoint", "read it with a newer one, on any machine")
    reader = spark.read.format("statestore")
    if variable is not None:
        reader = reader.option("stateVarName", variable)
    return reader.load(str(_readable(checkpoint.absolute())))


def _readable(checkpoint: Path) -> Path:
    """The folder by a name that Spark's reader of states finds.

    It looks for "my%20query" where a folder is called "my query" (Spark 4.0 to 4.3).
    """
    quoted = "%" in checkpoint.as_uri()
    return Path(_link_to(checkpoint).name, "checkpoint") if quoted else checkpoint


@cache
def _link_to(checkpoint: Path) -> tempfile.TemporaryDirectory[str]:
    """A folder with a link to another; it goes with the process, as a DataFrame is read later."""
    folder = tempfile.TemporaryDirectory(prefix="mta-checkpoint-")
    Path(folder.name, "checkpoint").symlink_to(checkpoint)
    return folder


def _binaries(value: Any) -> Iterator[bytes]:
    """The binary fields of a state value, however Spark nests them."""
    if isinstance(value, dict):
        for field in value.values():
            yield from _binaries(field)
    elif isinstance(value, (bytes, bytearray)):
        yield bytes(value)
