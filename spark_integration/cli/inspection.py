"""``mta inspect``: the windows of a checkpoint as their handles tell, and what the store holds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgpack
import numpy as np
from pyspark.sql import SparkSession

from mta import HandleSummary, describe_handle
from mta.cli.console import human_bytes, plural, say, table
from spark_integration.carriers.state_pages import is_state_url
from spark_integration.carriers.state_stream import HANDLES
from spark_integration.cli.failures import spark_errors
from spark_integration.cli.job import read_job, without_credentials
from spark_integration.cli.state_checkpoint import disk_bytes, read_state, state_totals
from spark_integration.errors import InvalidRequest
from spark_integration.step.states import read_handles
from stores import open_store

COLUMNS = (
    "key", "events", "oldest", "newest", "front", "back", "levels", "pages", "handle", "late",
)  # fmt: skip


@dataclass(frozen=True)
class StoreTotals:
    """What a store holds, whoever wrote it; ``disk_bytes`` only where it is in local files."""

    pages: int
    disk_bytes: int | None = None

    def __str__(self) -> str:
        disk = f", {human_bytes(self.disk_bytes)} on disk" if self.disk_bytes is not None else ""
        return plural(self.pages, "page") + disk


@dataclass(frozen=True)
class Inspection:
    """Every window of a checkpoint by its key, and the store's totals."""

    windows: list[tuple[str, HandleSummary]]
    store: StoreTotals

    def __str__(self) -> str:
        return f"{plural(len(self.windows), 'key')}, {plural(self.events, 'event')}"

    @property
    def events(self) -> int:
        """How many events all windows hold together."""
        return sum(summary.events for _, summary in self.windows)


def inspect_state(spark: SparkSession, checkpoint: Path, store_url: str) -> Inspection:
    """Read every handle from Spark's state store, and count the store's pages."""
    handles = saved_handles(spark, checkpoint, store_url)
    windows = [(key, describe_handle(handle)) for key, handle in handles]
    if is_state_url(store_url):
        pages, size = state_totals(spark, checkpoint)
        return Inspection(windows, StoreTotals(pages, size))
    return Inspection(windows, store_totals(store_url))


def saved_handles(spark: SparkSession, checkpoint: Path, store_url: str) -> list[tuple[str, bytes]]:
    """The handle of every key in Spark's state store after its last committed batch, by key."""
    return handles_in(saved_states(spark, checkpoint, store_url))


def saved_states(spark: SparkSession, checkpoint: Path, store_url: str) -> list[bytes]:
    """Every bucket's state in Spark's state store after its last committed batch."""
    variable = HANDLES if is_state_url(store_url) else None
    rows = read_state(spark, checkpoint, variable).collect()
    return [state for row in rows for state in _binaries(row["value"].asDict(recursive=True))]


def handles_in(states: Iterable[bytes]) -> list[tuple[str, bytes]]:
    """The handle of every key, by key."""
    handles = [
        (", ".join(map(str, msgpack.unpackb(key, timestamp=3))), handle)
        for state in states
        for key, handle in read_handles(state).items()
    ]
    return sorted(handles, key=lambda saved: saved[0])


def has_commits(checkpoint: Path) -> bool:
    """Whether a micro-batch has been committed; before that there is no state to read."""
    return any((checkpoint / "commits").glob("[0-9]*"))


def store_totals(url: str) -> StoreTotals:
    """Count the pages of a store; O(pages)."""
    with open_store(url) as store:
        pages = sum(1 for _ in store.keys(""))
    parts = urlsplit(url)
    if parts.scheme != "file":
        return StoreTotals(pages)
    return StoreTotals(pages, disk_bytes(Path(parts.path)))


@spark_errors()
def show(folder: Path, store_url: str | None, limit: int, spark: SparkSession) -> None:
    """Print the windows of an output folder or of a Spark checkpoint."""
    checkpoint, store = locate(folder, store_url)
    found = inspect_state(spark, checkpoint, store)
    shown = found.windows[:limit]
    say(table_of(shown))
    if len(shown) < len(found.windows):
        say(f"... and {len(found.windows) - len(shown):,} more (--limit)")
    say()
    say(f"windows   {found}")
    say(f"handles   {human_bytes(sum(summary.handle_bytes for _, summary in found.windows))}")
    say(f"store     {without_credentials(store)}: {found.store}")
    for _, summary in found.windows[:1]:
        tell_kind(summary)


def locate(folder: Path, store_url: str | None) -> tuple[Path, str]:
    """The checkpoint and the store's address, for an output folder or a checkpoint of Spark."""
    job = read_job(folder)
    checkpoint = folder / "checkpoint" if job is not None else folder
    if not (checkpoint / "state").is_dir():
        raise InvalidRequest(f"{folder} is neither an output folder of 'mta run' nor a checkpoint")
    if not has_commits(checkpoint):
        raise InvalidRequest(f"{folder} has no committed batch yet: run again until one has ended")
    if store_url is None and job is not None:
        store_url = str(job["store"])
    if store_url is None:
        raise InvalidRequest("name the store of this checkpoint with --store")
    return checkpoint, store_url


def table_of(windows: list[tuple[str, HandleSummary]]) -> str:
    """A row for each key, and below it one for each of several windows that share its events."""
    return table(COLUMNS, [row for key, summary in windows for row in _rows(key, summary)])


def tell_kind(summary: HandleSummary) -> None:
    """Print what a window aggregates, and by which policy."""
    say(f"monoid    {summary.monoid}, by {summary.algorithm}")
    say(f"policy    {summary.policy}")


def _rows(key: str, summary: HandleSummary) -> Iterator[tuple[str, ...]]:
    yield _row(key, summary)
    for window in summary.windows:
        pages = "-" if window.pages is None else f"{window.pages:,}"
        front, back = f"{window.front:,}", f"{summary.back:,}"
        yield f"  {window.name}", f"{window.events:,}", "", "", front, back, "", pages, "", ""


def _row(key: str, summary: HandleSummary) -> tuple[str, ...]:
    times = (_moment(micros) for micros in (summary.front_time, summary.last_time))
    counts = (summary.front, summary.back, summary.levels, summary.pages)
    return (
        key,
        f"{summary.events:,}",
        *times,
        *(f"{count:,}" for count in counts),
        human_bytes(summary.handle_bytes),
        f"{summary.late:,}",
    )


def _moment(micros: int | None) -> str:
    """A time in microseconds since 1970, to the second."""
    if micros is None:
        return "-"
    return str(np.datetime64(micros, "us").astype("datetime64[s]")).replace("T", " ")


def _binaries(value: Any) -> Iterator[bytes]:
    """The binary fields of a state value, however Spark nests them."""
    if isinstance(value, dict):
        for field in value.values():
            yield from _binaries(field)
    elif isinstance(value, (bytes, bytearray)):
        yield bytes(value)
