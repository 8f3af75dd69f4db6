"""Read a query's checkpoint: the snapshots in Spark's state, and pages if they are there.

Spark's reader of state stores returns the state after the last batch. If the pages are in that
state too (``spark://state``), they are copied to local disk.
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

from spark_integration.runners.packing import bucket_of
from spark_integration.runners.state_pages import KEY, PAGE, PAGES, STATE, is_state_url
from spark_integration.runners.workers import PARTITIONS
from spark_integration.step.states import State
from spark_integration.versions import require_spark_4
from stores import PageStore, open_store, ping_store

_PAGE = f"user_map_key.{KEY} AS key", f"user_map_value.{PAGE} AS page"


def has_commits(checkpoint: Path) -> bool:
    """Return whether a micro-batch has been committed; before that, there is no state."""
    return last_batch(checkpoint / "commits") >= 0


def last_batch(log: Path) -> int:
    """Return the number of the newest batch in one of Spark's logs, -1 for an empty log."""
    return max(
        (int(entry.name) for entry in log.glob("[0-9]*") if entry.name.isdecimal()), default=-1
    )


def settings_of(offsets: Path) -> dict[str, str]:
    """Return the settings of a query from a file in Spark's log of offsets."""
    conf: dict[str, str] = json.loads(offsets.read_text().splitlines()[1])["conf"]
    return conf


def partitions_of(checkpoint: Path) -> int | None:
    """Return how many partitions the state of a query has; None if Spark has not recorded it."""
    offsets = checkpoint / "offsets"
    try:
        return int(settings_of(offsets / str(last_batch(offsets)))[PARTITIONS])
    except (OSError, ValueError, KeyError, IndexError):
        return None


def query_id(checkpoint: Path) -> str:
    """Return the id of a checkpoint's query, "" if Spark has not recorded it."""
    try:
        return str(json.loads((checkpoint / "metadata").read_text())["id"])
    except (OSError, ValueError, KeyError):
        return ""


def saved_snapshots(spark: SparkSession, checkpoint: Path, store_url: str) -> list[bytes]:
    """Return the snapshots after the last committed batch; raises CorruptState, StateMismatch."""
    states = states_by_bucket(spark, checkpoint, store_url).values()
    return [State.decode(state).snapshot for state in states]


def states_by_bucket(spark: SparkSession, checkpoint: Path, store_url: str) -> dict[int, bytes]:
    """Return the state of each bucket in Spark's state store after the last committed batch."""
    variable = STATE if is_state_url(store_url) else None
    return {
        bucket_of(row["key"][0]): state
        for row in _read_state(spark, checkpoint, variable).collect()
        for state in _binaries(row["value"].asDict(recursive=True))
    }


def read_pages(spark: SparkSession, checkpoint: Path) -> DataFrame:
    """Return a row for each page in Spark's state, with the columns ``key`` and ``page``."""
    return _read_state(spark, checkpoint, PAGES).selectExpr(*_PAGE)


@contextmanager
def open_pages(spark: SparkSession, checkpoint: Path, address: str) -> Iterator[PageStore]:
    """Open the store at the address; for pages in Spark's state, a temporary copy on local disk."""
    with open_home(address) as store:
        if is_state_url(address):
            for row in read_pages(spark, checkpoint).toLocalIterator():
                store.put_many({row.key: bytes(row.page)})
            store.flush()
        yield store


def ping_home(address: str, *, write: bool = False) -> None:
    """Ping the store at the address; does nothing for pages in Spark's state."""
    if not is_state_url(address):
        ping_store(address, write=write)


@contextmanager
def open_home(address: str) -> Iterator[PageStore]:
    """Open the store at the address; for pages in Spark's state, an empty temporary one."""
    if not is_state_url(address):
        with open_store(address) as store:
            yield store
        return
    folder = tempfile.TemporaryDirectory(prefix="mta-pages-")
    with folder as name, open_store(f"file://{name}") as store:
        yield store


def _read_state(spark: SparkSession, checkpoint: Path, variable: str | None = None) -> DataFrame:
    """Return the state after the last committed batch; of one variable if there are several."""
    require_spark_4("reading a checkpoint", "read it with a newer one, on any machine")
    reader = spark.read.format("statestore")
    if variable is not None:
        reader = reader.option("stateVarName", variable)
    return reader.load(str(_readable(checkpoint.absolute())))


def _readable(checkpoint: Path) -> Path:
    """Return a path of the folder that Spark's reader of states can open."""
    quoted = "%" in checkpoint.as_uri()  # Spark 4.0 to 4.3 look for "my%20query", not "my query"
    return Path(_link_to(checkpoint).name, "checkpoint") if quoted else checkpoint


@cache
def _link_to(checkpoint: Path) -> tempfile.TemporaryDirectory[str]:
    """Create a link to a folder until the process ends, because a DataFrame is read later."""
    folder = tempfile.TemporaryDirectory(prefix="mta-checkpoint-")
    Path(folder.name, "checkpoint").symlink_to(checkpoint)
    return folder


def _binaries(value: Any) -> Iterator[bytes]:
    """Return the binary fields of a state value, however Spark nests them."""
    if isinstance(value, dict):
        for field in value.values():
            yield from _binaries(field)
    elif isinstance(value, (bytes, bytearray)):
        yield bytes(value)
