"""Queries of one published snapshot: of a bucket of keys, or of a window without keys.

A view never changes, and any number of threads may query it at the same time. The results are rows
of the aggregations' outputs, one set for each window, and a mask of the results whose windows have
events that are no longer retained.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mta.errors import CorruptSnapshot, SnapshotMismatch
from mta.evaluators.coverage import Incomplete
from mta.frames.base import Frame
from mta.keyed.changes import with_marks
from mta.keyed.coverage import incomplete
from mta.keyed.keys import Keys
from mta.keyed.kind import KeyedKind
from mta.keyed.lsm import LSMTree
from mta.keyed.moments import Answers, answers
from mta.keyed.snapshot import KeyCounts, KeyedSnapshot
from mta.keyed.standalone import AnyWindow, given_back, open_engine
from mta.keyed.table import EXPIRED, STANDALONE, Table
from mta.keyed.windows import KeyedWindows
from mta.logs.ranges import events_in, leaves_from
from mta.monoids.base import AbstractMonoid
from mta.monoids.product import Observed
from mta.published.pages import ReadOnlyPages, Steps
from mta.published.single import IndexedPages, NotSimple, Results, SingleKeys
from mta.publishing.records import What
from mta.snapshots import Snapshot
from mta.times import TimeUnit
from mta.windows.engine import Engine
from mta.windows.settings import changed
from mta.windows.shared import SharedWindows
from mta.windows.window import Window
from stores import WindowStoreError
from stores.lru import LRU

#: Settings of new events, which a reader does not need.
_NO_CLOCK = {"clock": None, "max_ahead": None, "on_ahead": "raise"}


@dataclass(frozen=True)
class Operation:
    """What is computed from events, the same for all snapshots."""

    monoid: AbstractMonoid
    frames: Mapping[str, Frame]
    what: What
    store: ReadOnlyPages
    #: Decoded indexes and heads of tables, by the names of their pages.
    decoded: LRU[bytes, Any]


class KeyedView:
    """The snapshot of a bucket of keys. Raises CorruptSnapshot, SnapshotMismatch."""

    def __init__(self, operation: Operation, snapshot: bytes) -> None:
        found = self.snapshot = KeyedSnapshot.decode(snapshot)
        own = {name: frame.fingerprint for name, frame in operation.frames.items()}
        if found.monoid[1] != operation.monoid.fingerprint or own != {
            name: mark for name, _, mark in found.frames
        }:
            raise SnapshotMismatch(
                f"the snapshot has {found.monoid[0]} over {[t for _, t, _ in found.frames]}, "
                "unlike the published description: publish it again"
            )
        settings = changed(KeyedWindows, found.recipe, _NO_CLOCK)
        settings = settings.spanning(found.lateness, found.retained or None)
        self.kind = KeyedKind(
            with_marks(operation.monoid, found), operation.frames, settings, found.timed,
            found.window, operation.store, found.changes,
        )  # fmt: skip
        self.kind.retention.read(found.earlier, found.earlier_asked)
        self.monoid, self.timed = operation.monoid, found.timed
        self._pattern = open_engine(self.kind)
        layout = found.layout(self.kind.reader.inputs)
        pages = IndexedPages(operation.store, layout, operation.decoded)
        tree = LSMTree(layout, pages, found.lateness is not None, self.kind.trimmed)
        self._tree = tree.load(found.runs, found.memtable)
        self._single = SingleKeys(found, pages)
        #: None where no key is looked up by itself.
        self._results: Results | None = None
        if self.kind.vectorized and self._single.is_simple:
            self._results = Results(self.kind.monoid, self.monoid, self.kind.frames.values())

    def counts(self) -> KeyCounts:
        return self.snapshot.counts

    def incomplete(self) -> list[Incomplete]:
        """Return the results that lack events since windows or aggregations were changed."""
        return incomplete(self.snapshot.starts, self.monoid, self.kind.frames)

    def find(self, keys: Keys) -> Table:
        """Return what the keys retain; one ``view_many`` per level of the index and for tables."""
        return self.kind.trimmed(self._tree.find(keys))

    def steps(self, hashed: int, packed: bytes, moment: int | None) -> Steps[list[Any] | None]:
        """Return the result of each window of one key, at its newest event or at a later moment.

        The key is given as its hash and its bytes. Returns None if the general method, ``results``,
        must answer. Raises MissingPage and CorruptPage.
        """
        if self._results is None or (moment is not None and not self.timed):
            return None
        try:
            events = yield from self._single.find(hashed, packed)
            if events is None:
                return None
            return self._results.of(events, moment)
        except NotSimple:
            return None

    def results(self, keys: Keys, codes: np.ndarray, moments: np.ndarray | None) -> Answers:
        """Return the result of each request. Raises MissingPage, CorruptPage, and InvalidTime."""
        found, expired = self.find(keys), self.snapshot.expired
        return answers(self.kind, self.monoid, found, keys, codes, moments, self.engine, expired)

    def engine(self, table: Table, place: int) -> Engine:
        return self._pattern.restore_like(table.snapshot_of(place))

    def events(self, keys: Keys, newest: int | None) -> tuple[Any, np.ndarray | None]:
        """Return the retained events of a key and their times; if standalone, the newest ones."""
        table, reader = self.find(keys), self.kind.reader
        if not len(table) or table.marks[0] == EXPIRED:
            none = np.zeros(0, "<i8") if self.timed else None
            return given_back(reader, reader.inputs.new(0), 0), none
        if table.marks[0] == STANDALONE:
            return events_of(self.engine(table, 0), newest)
        return given_back(reader, table.rows, table.events), table.times


class WindowView:
    """The snapshot of a window without keys, or of multiple windows that share their events."""

    def __init__(self, operation: Operation, snapshot: bytes) -> None:
        self._lock = threading.Lock()
        try:
            self._window = _restored(operation, snapshot)
        except WindowStoreError:
            raise
        except (ValueError, TypeError, OverflowError) as error:
            raise CorruptSnapshot(
                f"the published record does not describe windows: {error}"
            ) from error
        self.monoid, self.timed = operation.monoid, self._window.engine.timed

    def counts(self) -> KeyCounts:
        with self._lock:
            intake, structure = self._window.engine.intake, self._window.engine.structure()
            return KeyCounts(1, 0, structure.back, intake.late_count, intake.invalid_count)

    def incomplete(self) -> list[Incomplete]:
        with self._lock:
            return list(self._window.coverage().incomplete)

    def query(self, at: Any, partial: bool, unit: TimeUnit | None) -> Mapping[str, Any]:
        """Return the result of each window, or its results at many moments."""
        with self._lock:
            found = self._window.query(at=at, partial=partial, time_unit=unit)
        return found if isinstance(self._window, SharedWindows) else {"": found}

    def events(self, newest: int | None) -> tuple[Any, np.ndarray | None]:
        """Return the retained events and their times."""
        with self._lock:
            return events_of(self._window.engine, newest)


def _restored(operation: Operation, snapshot: bytes) -> AnyWindow:
    """Return the windows of a snapshot, to which nothing is ever added."""
    store, aggregations, frames = operation.store, operation.monoid, operation.frames
    found = Snapshot.decode(snapshot).windows
    _require_same(operation, {window.name: window.fingerprint for window in found})
    if operation.what.shape == "windows":
        return SharedWindows.restore(
            snapshot, store, aggregations=aggregations, window=frames, clock=None
        )
    return Window.restore(snapshot, store, aggregations=aggregations, window=frames[""], clock=None)


def _require_same(operation: Operation, found: Mapping[str, bytes]) -> None:
    if {name: frame.fingerprint for name, frame in operation.frames.items()} != found:
        raise SnapshotMismatch(
            "the snapshot has other windows than the published description: publish it again"
        )


def events_of(engine: Engine, newest: int | None) -> tuple[Any, np.ndarray | None]:
    """Return the newest retained events, and their times."""
    events: Any = engine.structure().remembered()
    monoid = engine.monoid
    first = events.kept_from if newest is None else max(events.kept_from, events.back - newest)
    schema = monoid.inputs
    found = events_in(leaves_from(events, first, schema), schema, engine.timed)
    rows = found.rows
    if isinstance(monoid, Observed):
        rows, monoid = monoid.unstamped(rows), monoid.reader
    return given_back(monoid, rows, found.size), found.times
