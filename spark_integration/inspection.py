"""Inspect a query's windows from a notebook: all keys as a DataFrame, or the events of one key."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import SparkSession

from mta import KeyedWindows
from mta.audit.keyed import OpaqueKeys
from mta.audit.walk import SnapshotSummary
from mta.columns.schemas import shown_column
from mta.errors import MissingPage, SnapshotMismatch
from mta.evaluators.coverage import Incomplete
from mta.frames.base import Frame
from mta.frames.shorthand import frames_of
from mta.keyed.coverage import latest
from mta.keyed.key_types import text_of
from mta.keyed.standalone import AnyWindow
from mta.monoids.base import AbstractMonoid
from mta.monoids.product import Aggregations, result_name, skip_nulls
from mta.published.views import events_of
from spark_integration.checkpoint import last_batch, open_pages, saved_snapshots
from spark_integration.errors import InvalidRequest
from spark_integration.request import make_product
from stores import PageStore

#: How many times a state is read if a running query deletes its pages.
LOOKS = 5
Frames = Frame | Mapping[str, Frame]


def inspect_query(
    checkpoint: str | Path,
    store: str,
    *,
    aggregations: Aggregations | None = None,
    window: Frames | None = None,
) -> pd.DataFrame:
    """Return the windows of a query after its last committed batch: a row for each key.

    The columns are ``key`` (its parts separated by commas if it has several columns), ``events``
    (their number), the times of the ``oldest`` and the ``newest`` event if windows use times, the
    number of ``pages`` that only this key uses (0 for keys that share pages), and the ``bytes`` of
    its snapshot. With the query's ``aggregations`` and ``window``, there are also columns for the
    results. If a key has multiple windows, ``events`` is the number of retained events. The
    DataFrame's ``attrs`` contain the ``bytes`` of all states, and ``incomplete``: the results that
    are incomplete since the query was changed, with the time when each is complete again
    (``mta.results.Incomplete``).

    Reads every table of keys; the query may be running. Raises InvalidRequest, SnapshotMismatch if
    the aggregations or frames are not those of the query, MissingPage, and the store's errors.

    Args:
        checkpoint: The query's checkpoint folder.
        store: The URL of the query's store.
        aggregations: The aggregations of the query, to compute results.
        window: The window of the query, to compute results.
    """

    def look(inside: _Inside) -> pd.DataFrame:
        rows: list[dict[str, Any]] = []
        for key, summary, results in inside.windows():
            rows.append({
                "key": text_of(key), "events": summary.events,
                "oldest": _moment(summary.front_time), "newest": _moment(summary.last_time),
                "pages": summary.pages, "bytes": summary.snapshot_bytes, **results,
            })  # fmt: skip
        frame = pd.DataFrame(rows, columns=None if rows else ["key", "events", "oldest", "newest"])
        frame = frame.sort_values("key", ignore_index=True)
        frame.attrs.update(bytes=sum(map(len, inside.snapshots)), incomplete=inside.incomplete())
        return frame

    return _looked(checkpoint, store, aggregations, window, look)


def events_of_key(
    checkpoint: str | Path,
    store: str,
    key: Any,
    *,
    aggregations: Aggregations,
    window: Frames,
) -> pd.DataFrame:
    """Return the events in the window of a key, oldest first.

    The columns are those that the aggregations read, and the times if windows use times or events
    may come late. If multiple windows share their events, all retained events are returned. Reads
    every page of the window. Raises KeyError for a key without a window, and the errors of
    ``inspect_query``.

    Args:
        checkpoint: The query's checkpoint folder.
        store: The URL of the query's store.
        key: The key; for several columns a tuple.
        aggregations: The aggregations of the query.
        window: The window of the query.
    """

    def look(inside: _Inside) -> pd.DataFrame:
        window = inside.window(key)
        if window is None:
            raise KeyError(f"the key {key!r} has no window; inspect_query lists all keys")
        structure: Any = window.engine.structure()
        count = structure.back - structure.front
        values, times = events_of(window.engine, count)
        named = {n: shown_column(c) for n, c in values.items()} if isinstance(values, dict) else {}
        moments = {} if times is None else {"time": times.view("M8[us]")}
        return pd.DataFrame({**moments, **named}, index=range(count))

    return _looked(checkpoint, store, aggregations, window, look)


def _looked(
    checkpoint: str | Path,
    store: str,
    aggregations: Aggregations | None,
    window: Frames | None,
    look: Callable[[_Inside], pd.DataFrame],
) -> pd.DataFrame:
    """Return what ``look`` finds; retry if the query deletes the pages of its state."""
    folder = Path(checkpoint)
    for _ in range(LOOKS):
        before = _progress(folder)
        try:
            with _opened(folder, store, aggregations, window) as inside:
                return look(inside)
        except MissingPage as error:
            if _progress(folder) == before:
                raise
            missing = error
    raise MissingPage(
        f"the query of {folder} changes too quickly to be read: {LOOKS} times, its next batches "
        "deleted pages before they were read. Nothing is lost: give the query a larger retain, "
        "such as retain=20, or inspect it when it has fewer rows to process or is stopped"
    ) from missing


def _progress(checkpoint: Path) -> tuple[int, int]:
    """Return the last batch that has started, and the last one that is committed."""
    return last_batch(checkpoint / "offsets"), last_batch(checkpoint / "commits")


@contextmanager
def _opened(
    folder: Path, store: str, aggregations: Aggregations | None, window: Frames | None
) -> Iterator[_Inside]:
    if (aggregations is None) != (window is None):
        raise InvalidRequest("results need both the aggregations and the window of the query")
    session = SparkSession.getActiveSession()
    if session is None:
        raise InvalidRequest("reading the checkpoint needs an active Spark session: create one")
    if not (folder / "state").is_dir():
        raise InvalidRequest(f"{folder} is not a checkpoint of a query with state")
    snapshots = saved_snapshots(session, folder, store)
    monoid = None
    if aggregations is not None:
        monoid = make_product(aggregations).with_parts(skip_nulls())
    with open_pages(session, folder, store) as pages:
        yield _Inside(snapshots, pages, monoid, window)


@dataclass(frozen=True)
class _Inside:
    """An open checkpoint: its snapshots, and the store that has their pages."""

    snapshots: list[bytes]
    store: PageStore
    monoid: AbstractMonoid | None
    frame: Frames | None

    def windows(self) -> Iterator[tuple[Any, SnapshotSummary, dict[str, Any]]]:
        """Yield every key with its window and its results."""
        for snapshot in self.snapshots:
            found = list(OpaqueKeys(snapshot, self.store).summaries())
            results = self._results(snapshot, [key for key, _ in found])
            for at, (key, summary) in enumerate(found):
                yield key, summary, {name: column[at] for name, column in results.items()}

    def incomplete(self) -> list[Incomplete]:
        """Return the incomplete results; each is complete once it is complete in every bucket."""
        keyed = (OpaqueKeys(snapshot, self.store) for snapshot in self.snapshots)
        return latest(each for one in keyed for each in one.incomplete())

    def window(self, key: Any) -> AnyWindow | None:
        """Return a key's window, only for reading."""
        for snapshot in self.snapshots:
            windows = self._restored(snapshot)
            if key in windows:
                return windows.window(key)
        return None

    def _restored(self, snapshot: bytes) -> KeyedWindows:
        assert self.monoid is not None and self.frame is not None
        known = OpaqueKeys(snapshot, self.store).snapshot
        asked = frames_of(self.frame)
        own = {name: frame.fingerprint for name, frame in asked.items()}
        written = {name: fingerprint for name, _, fingerprint in known.frames}
        if (known.monoid[1], written) != (self.monoid.fingerprint, own):
            # Restoring with other frames would write pages, but this code must only read.
            texts = {name: text for name, text, _ in known.frames}
            raise SnapshotMismatch(
                f"the query's windows compute {known.monoid[0]} over {texts}, not "
                f"{self.monoid.name} over {asked}: give the query's own frames and "
                "aggregations, with the types of their columns, such as Max('int64')"
            )
        return KeyedWindows.restore(
            snapshot, self.store, aggregations=self.monoid, window=self.frame,
            clock=None, max_ahead=None, on_ahead="raise",
        )  # fmt: skip

    def _results(self, snapshot: bytes, keys: list[Any]) -> dict[str, Any]:
        windows = None if self.monoid is None else self._restored(snapshot)
        if windows is None or not keys:
            return {}
        found = windows.query(keys)
        by_window = found if isinstance(self.frame, Mapping) else {"": found}
        return {
            result_name(alias, window): column
            for window, results in by_window.items()
            for alias, column in results.items()
        }


def _moment(micros: int | None) -> Any:
    return pd.NaT if micros is None else pd.Timestamp(micros, unit="us")
