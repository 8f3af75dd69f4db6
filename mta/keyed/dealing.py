"""The keys of some roots dealt out to other roots: for those who spread keys over roots themselves.

    roots of before    0: a b c     1: d e          by the hash of a key modulo 2
    roots made         0: a d       1: b e     2: c               ... modulo 3

What computes the windows need not be known. Tables are read, cut by key and written as new runs,
with numbers that no run of before has; windows by themselves keep their handles and their pages,
which are the caller's to bring into another store. What was read stays as it is.

It reads every table once or twice, and writes what is kept about once; what is held back to be
written together is at most ``_HELD`` bytes. To do it again writes the same pages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from mta.columns.schemas import Record
from mta.errors import SnapshotMismatch
from mta.keyed.changes import schemas_of
from mta.keyed.coverage import add_start
from mta.keyed.doomed import Doomed, DoomedPages
from mta.keyed.leaves import TableLayout
from mta.keyed.retention import Retention
from mta.keyed.root import Root, Unread
from mta.keyed.table import HANDLE, Table
from mta.keyed.tiers import PageSize, RunPages, Tiers
from stores import PageStore

#: Bytes of tables that wait to be written; of a page of keys; of pages that stay in memory.
_HELD, _PAGE, _CACHED = 1 << 26, 1 << 14, 1 << 20
#: Tables that weigh less stay in the root.
_INLINE = 1 << 12


def deal(
    roots: Mapping[int, bytes],
    source: PageStore,
    target: PageStore,
    into: Callable[[int], Iterable[int]],
    place: Callable[[bytes], int],
    bring: Callable[[bytes], None],
) -> dict[int, bytes]:
    """New roots by their numbers, with all keys of the given ones.

    ``into`` says which roots may get keys of one, ``place`` which of several gets a key, ``bring``
    is called with the handle of each window by itself. All pages are durable at the end. Raises
    CorruptSnapshot, MissingPage, CorruptPage, and SnapshotMismatch for roots to be put together
    that are not of the same windows.
    """
    found = {number: Unread.decode(data) for number, data in sorted(roots.items())}
    latest = max((unread.root.number for unread in found.values()), default=0)
    made: dict[int, _Made] = {}
    for number, unread in found.items():
        if unread.root.kind is None:
            continue
        layout = _layout(unread.root)
        root, homes = unread.read(layout), sorted(into(number))
        for at in homes:
            if at not in made:
                made[at] = _Made(root, layout, target, latest)
            made[at].join(root, first=at == homes[0])
        held = 0
        for table in _tables(root, layout, source):
            for at, part in _parts(table, homes, place):
                made[at].add(part)
            for handle in table.handles:
                bring(handle)
            held += int(table.weights.sum())
            if held > _HELD:
                held = 0
                for each in made.values():
                    each.settle(0)
    dealt = {number: each.encode() for number, each in sorted(made.items())}
    target.flush()
    return dealt


def _parts(
    table: Table, homes: Sequence[int], place: Callable[[bytes], int]
) -> Iterator[tuple[int, Table]]:
    """What each of some roots gets of a table."""
    if len(homes) == 1:
        yield homes[0], table
        return
    numbers = np.array([place(table.keys.packed(at)) for at in range(len(table))], np.int64)
    for number in np.unique(numbers).tolist():
        yield number, table.take(np.flatnonzero(numbers == number))


class _Made:
    """A root to be: what all its keys have in common, and their tables."""

    def __init__(self, like: Root, layout: TableLayout, target: PageStore, number: int) -> None:
        self._root = replace(
            like, kept=[], counts=[0] * 5, expired=None, runs=[], young=None, doomed=Doomed(),
            starts={},
        )  # fmt: skip
        self._pages = RunPages(target, layout, PageSize(_PAGE, _CACHED))
        self._tiers = Tiers(layout, self._pages, _as_it_is, late=like.lateness is not None)
        self._tiers.number = number

    def join(self, root: Root, first: bool) -> None:
        """Take in what a root says of all its keys, its counts where it is the ``first``."""
        own = self._root
        if _alike(root) != _alike(own):
            raise SnapshotMismatch(
                "windows are to be put together that were changed and others that were not yet, as "
                "no rows of theirs have come since: let each have rows, or keep them apart"
            )
        retention = Retention({}, own.lateness, kept=own.kept)
        for each in root.kept:
            if each not in retention.kept:
                retention.note(*each)
        own.kept = retention.kept
        own.changes = max(own.changes, root.changes)
        moments = [m for m in (own.expired, root.expired) if m is not None]
        own.expired = max(moments, default=None)
        for name, start in root.starts.items():
            add_start(own.starts, name, start)
        if first:
            own.counts[2:] = np.add(own.counts[2:], root.counts[2:]).tolist()

    def add(self, table: Table) -> None:
        """Some keys with all that is known of them."""
        self._root.counts[0] += len(table)
        self._root.counts[1] += int((table.marks == HANDLE).sum())
        self._tiers.add(table)

    def settle(self, inline: int) -> None:
        """Write what has come, unless it weighs so little."""
        self._tiers.settle(inline, 2)
        for entry in self._tiers.doomed.fresh:
            if isinstance(entry, DoomedPages):  # written here, and merged: no root has it
                self._pages.delete(entry)
        self._tiers.doomed = Doomed()

    def encode(self) -> bytes:
        """The root."""
        self.settle(_INLINE)
        tiers = self._tiers
        self._root.number, self._root.runs = tiers.number, tiers.runs
        self._root.young = tiers.young[0] if tiers.young else None
        return self._root.encode()


def _layout(root: Root) -> TableLayout:
    schemas = schemas_of(root.columns)
    bare = [name for name, _ in root.columns] == [""]
    schema = schemas[0] if bare else Record(schemas)
    return TableLayout(root.window, root.kind or "bytes", schema, root.timed)


def _tables(root: Root, layout: TableLayout, store: PageStore) -> Iterable[Table]:
    """All keys of a root, range by range."""
    pages = RunPages(store, layout, PageSize(1, _CACHED))
    tiers = Tiers(layout, pages, _as_it_is, late=root.lateness is not None)
    tiers.runs, tiers.young = root.runs, [] if root.young is None else [root.young]
    return tiers.everything()


def _alike(root: Root) -> tuple[object, ...]:
    """What roots whose keys are put together have in common."""
    policies = sorted((name, fingerprint) for name, _, fingerprint in root.policies)
    return root.kind, root.monoid[1], policies, root.timed, root.lateness, root.columns


def _as_it_is(table: Table) -> Table:
    return table
