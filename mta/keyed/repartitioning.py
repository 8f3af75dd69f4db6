"""Repartition the keys of some snapshots, for callers that spread keys over snapshots.

    given    0: a b c     1: d e          by the hash of a key modulo 2
    made     0: a d       1: b e     2: c               ... modulo 3

No aggregation is needed. Tables are read, split by key, and written as new runs, with numbers that
no earlier run has. Standalone windows keep their snapshots and their pages, which the caller copies
if the target is another store. The source does not change.

Every table is read once or twice, and the retained events are written about once. At most ``_HELD``
bytes are buffered in memory. A second attempt writes the same pages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mta.errors import SnapshotMismatch
from mta.keyed.changes import schema_of
from mta.keyed.coverage import add_start
from mta.keyed.kind import Span
from mta.keyed.leaves import PendingPages, TableLayout
from mta.keyed.lsm import LSMTree, PendingDeletions, RunPages
from mta.keyed.snapshot import KeyCounts, KeyedSnapshot
from mta.keyed.table import Table
from stores import PageStore

#: The size in bytes of buffered tables, of a page of keys, and of the page cache.
_HELD, _PAGE, _CACHED = 1 << 26, 1 << 14, 1 << 20
#: Tables of fewer bytes stay in the snapshot.
_INLINE = 1 << 12


def repartition(
    snapshots: Mapping[int, bytes],
    source: PageStore,
    target: PageStore,
    into: Callable[[int], Iterable[int]],
    place: Callable[[Any], int],
    copy_pages: Callable[[bytes], None],
    erased: Callable[[Any], bool] | None = None,
) -> dict[int, bytes]:
    """Return new snapshots by number, which together have all keys of the given snapshots.

    The keys for which ``erased`` returns true are left out. ``into`` returns the new snapshots that
    may get keys of a given one, and ``place`` returns which of these gets a key. ``copy_pages`` is
    called with the snapshot of each standalone window. All pages are durable at the end. Raises
    CorruptSnapshot, MissingPage, CorruptPage, and SnapshotMismatch if snapshots to be merged are
    not of the same windows.
    """
    found = {number: KeyedSnapshot.decode(data) for number, data in sorted(snapshots.items())}
    latest = max((snapshot.number for snapshot in found.values()), default=0)
    made: dict[int, _Made] = {}
    for number, snapshot in found.items():
        if snapshot.kind is None:
            continue
        tree = snapshot.tree(source, schema_of(snapshot.columns), _CACHED)
        targets = sorted(into(number))
        for at in targets:
            if at not in made:
                made[at] = _Made(snapshot, tree.layout, target, latest)
            made[at].join(snapshot, first=at == targets[0])
        held = 0
        for table in tree.everything():
            table = table if erased is None else _without(table, erased)
            for at, part in _parts(table, targets, place):
                made[at].add(part)
            for standalone in table.snapshots:
                copy_pages(standalone)
            held += int(table.weights.sum())
            if held > _HELD:
                held = 0
                for each in made.values():
                    each.write_runs(0)
    repartitioned = {number: each.encode() for number, each in sorted(made.items())}
    target.flush()
    return repartitioned


def _without(table: Table, erased: Callable[[Any], bool]) -> Table:
    """Return the entries of the keys for which ``erased`` returns false."""
    keys = table.keys.as_column()
    return table.take(np.flatnonzero([not erased(key) for key in keys.tolist()]))


def _parts(
    table: Table, targets: Sequence[int], place: Callable[[Any], int]
) -> Iterator[tuple[int, Table]]:
    """Yield the part of a table for each target that gets keys."""
    if len(targets) == 1:
        yield targets[0], table
        return
    numbers = np.array([place(table.keys.at(at)) for at in range(len(table))], np.int64)
    for number in np.unique(numbers).tolist():
        yield number, table.take(np.flatnonzero(numbers == number))


class _Made:
    """A snapshot under construction: the settings that its keys share, and their tables."""

    def __init__(
        self, like: KeyedSnapshot, layout: TableLayout, target: PageStore, number: int
    ) -> None:
        self._snapshot = replace(
            like, earlier=[], earlier_asked=[], counts=KeyCounts(), expired=None, newest=None,
            runs=[], memtable=None, pending=PendingDeletions(), starts={},
        )  # fmt: skip
        pages = RunPages(target, layout, _PAGE, _CACHED)
        self._tree = LSMTree(layout, pages, like.lateness is not None)
        self._tree.number = number

    def join(self, snapshot: KeyedSnapshot, first: bool) -> None:
        """Add what applies to all keys of a snapshot, and its counts if it is the ``first``."""
        own = self._snapshot
        if _alike(snapshot) != _alike(own):
            raise SnapshotMismatch(
                "some of these windows were changed, and others have had no rows since the change: "
                "add rows to each first, or do not merge them"
            )
        late, asked = Span(0, own.earlier), Span(0, own.earlier_asked)
        late.join(snapshot.earlier)
        asked.join(snapshot.earlier_asked)
        own.earlier, own.earlier_asked = late.earlier, asked.earlier
        own.changes = max(own.changes, snapshot.changes)
        own.expired = _later(own.expired, snapshot.expired)
        own.newest = _later(own.newest, snapshot.newest)
        for name, start in snapshot.starts.items():
            add_start(own.starts, name, start)
        if first:
            for name in ("inserted", "late", "invalid", "ahead"):
                total = getattr(own.counts, name) + getattr(snapshot.counts, name)
                setattr(own.counts, name, total)

    def add(self, table: Table) -> None:
        """Add some keys with their stored events."""
        if not len(table):
            return
        self._snapshot.counts.keys += len(table)
        self._snapshot.counts.standalone += len(table.standalone)
        self._tree.add(table)

    def write_runs(self, inline: int) -> None:
        """Write the buffered tables if they exceed ``inline`` bytes."""
        self._tree.write_runs(inline)
        for entry in self._tree.pending.fresh:
            if isinstance(entry, PendingPages):  # written and merged here, so no snapshot names it
                self._tree.pages.delete(entry)
        self._tree.pending = PendingDeletions()

    def encode(self) -> bytes:
        """Return the snapshot as bytes."""
        self.write_runs(_INLINE)
        tree = self._tree
        self._snapshot.number, self._snapshot.runs = tree.number, tree.runs
        self._snapshot.memtable = tree.dump_memtable()
        return self._snapshot.encode()


def _later(one: int | None, other: int | None) -> int | None:
    return max((each for each in (one, other) if each is not None), default=None)


def _alike(snapshot: KeyedSnapshot) -> tuple[object, ...]:
    """Return what snapshots must share if their keys are merged."""
    frames = sorted((name, fingerprint) for name, _, fingerprint in snapshot.frames)
    return (
        snapshot.kind,
        snapshot.monoid[1],
        frames,
        snapshot.timed,
        snapshot.lateness,
        snapshot.retained,
        snapshot.columns,
    )
