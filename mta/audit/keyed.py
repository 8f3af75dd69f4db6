"""Keyed windows from their snapshot alone: their keys, and which pages are intact and live.

As for a single window (``opaque``), the monoid is not needed: values remain uninterpreted bytes.
Frames on counts and times are restored from their descriptions in the snapshot, so the events in
windows are counted exactly. Under any other frame, all stored events are counted.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from mta.audit import walk
from mta.audit.walk import Audit, Damage, SnapshotSummary, SubWindow
from mta.columns.schemas import Record
from mta.errors import CorruptPage, MissingPage, UnsuitableKey
from mta.evaluators.coverage import Incomplete
from mta.frames.base import Frame
from mta.keyed import leaves
from mta.keyed.coverage import incomplete_after
from mta.keyed.keys import read_key
from mta.keyed.leaves import LIST, Entry, Index, digests
from mta.keyed.lsm import LSMTree, Run
from mta.keyed.snapshot import KeyedSnapshot
from mta.keyed.table import EXPIRED, STANDALONE, Table
from mta.pages import key_of
from mta.windows.opaque import Opaque, restore_opaque
from stores import PageStore, open_store

_BATCH, _CACHED = 64, 1 << 22


class OpaqueKeys:
    """The keys of a snapshot, for listing and verification. Raises CorruptSnapshot."""

    def __init__(self, snapshot: bytes, store: str | PageStore) -> None:
        found = self.snapshot = KeyedSnapshot.decode(snapshot)
        self.store = open_store(store) if isinstance(store, str) else store
        self.name, self.snapshot_bytes = found.window, len(snapshot)
        self._tree = found.tree(self.store, Record([]), _CACHED)  # leaves the values encoded
        self._layout, self._pages = self._tree.layout, self._tree.pages

    @cached_property
    def frames(self) -> dict[str, Frame] | None:
        """Return the frames by name; None if the description of one is not understood."""
        known = self.snapshot.known_frames()
        return known if len(known) == len(self.snapshot.frames) else None

    @property
    def exact(self) -> bool:
        """Return whether only events in windows are counted, and not all stored events."""
        return (
            self.frames is not None or self.snapshot.counts.keys == self.snapshot.counts.standalone
        )

    def incomplete(self) -> list[Incomplete]:
        """Return the incomplete results, named by the columns that they read. No store call."""
        found = []
        for name, frame in (self.frames or {}).items():
            for what, start in self.snapshot.starts.items():
                column = what.split("\0")[1] if what.startswith("\0") else ""
                if not column and what != name:
                    continue
                each = incomplete_after(name, column, frame, [start])
                found += [] if each is None else [each]
        return found

    # --- what each key has ------------------------------------------------------------------------

    def summaries(self) -> Iterator[tuple[Any, SnapshotSummary]]:
        """Yield every key and its summary; reads every page once or twice."""
        for table in self._tree.everything():
            fronts = self._fronts(table)
            for place in range(len(table)):
                yield table.keys.at(place), self._summary(table, fronts, place)

    def first(
        self, limit: int, order: Callable[[Any], Any]
    ) -> tuple[int, list[tuple[Any, SnapshotSummary]]]:
        """Return the number of events in windows, and the first keys by order. Reads all pages."""
        events, found = 0, []
        for table in self._tree.everything():
            fronts = self._fronts(table)
            sizes = table.bounds[1:] - np.minimum.reduce(fronts)
            events += int(sizes[table.marks != STANDALONE].sum())
            events += sum(walk.describe_snapshot(snapshot).events for snapshot in table.snapshots)
            if limit:
                keys = table.keys.as_column().tolist()
                least = heapq.nsmallest(limit, range(len(keys)), key=lambda at: order(keys[at]))
                found += [(keys[at], self._summary(table, fronts, at)) for at in least]
                found = heapq.nsmallest(limit, found, key=lambda pair: order(pair[0]))
        return events, found

    def find(self, key: Any) -> SnapshotSummary | None:
        """Return the summary of a key, None for an unknown key; one ``get_many`` per level."""
        try:
            known = self._tree.find(read_key(key, self.snapshot.kind))
        except UnsuitableKey:
            return None
        if not len(known) or known.marks[0] == EXPIRED:
            return None
        return self._summary(known, self._fronts(known), 0)

    def _fronts(self, table: Table) -> list[np.ndarray]:
        """Return where each key's windows start, for each frame."""
        ends = table.bounds[1:]
        if self.frames is None:
            return [table.bounds[:-1]]
        some, fronts = np.flatnonzero(table.counts), []
        rows = ends[some] - 1
        times = None if table.times is None else table.times[rows]
        for frame in self.frames.values():
            front = ends.copy()
            front[some] = table.lanes.frame_at(frame, some, rows, times)[0]
            fronts.append(front)
        return fronts

    def _summary(self, table: Table, fronts: list[np.ndarray], place: int) -> SnapshotSummary:
        left, times = int(table.left[place]), table.times
        if table.marks[place] == STANDALONE:
            return _later(walk.describe_snapshot(table.snapshot_of(place)), left)
        start, last = int(table.bounds[place]), int(table.bounds[place + 1])
        back = left + last - start
        sizes = [last - int(front[place]) for front in fronts]
        first = last - max(sizes)
        known = times is not None and last > first
        texts = {name: text for name, text, _ in sorted(self.snapshot.frames)}
        windows = []
        if self.frames is not None and "" not in texts:
            of_each = zip(texts.items(), sizes, strict=True)
            windows = [SubWindow(n, text, size, back - size, None) for (n, text), size in of_each]
        return SnapshotSummary(
            window=self.name,
            monoid=self.snapshot.monoid[0],
            frame=", ".join(f"{name}={text}" if name else text for name, text in texts.items()),
            algorithm="columns of many keys",
            events=max(sizes),
            front=back - max(sizes),
            back=back,
            front_time=int(times[first]) if times is not None and known else None,
            last_time=int(times[last - 1]) if times is not None and known else None,
            windows=tuple(windows),
        )

    # --- which pages there are --------------------------------------------------------------------

    def live_keys(self, left_out: dict[str, str] | None = None) -> Iterator[str]:
        """Yield the key of every page that the snapshot names, including pages pending deletion.

        Reads the indexes, and the tables with snapshots of standalone windows. Raises MissingPage
        and CorruptPage. If ``left_out`` is given, it gets the name and the error of each standalone
        window with a damaged page instead.
        """
        for run in self.snapshot.runs:
            yield from self._pages.keys(run.pages())
        for _, snapshot in self.snapshots():
            yield from _reached(restore_opaque(snapshot, self.store), left_out)
        for entry in self.snapshot.pending.all():
            yield from self._pending(entry)

    def _pending(self, entry: Entry) -> Iterator[str]:
        """Yield the pages of an entry pending deletion; some may already be deleted."""
        if isinstance(entry, list):
            yield from entry
            return
        if entry.level == LIST:
            for each in self._pages.listed(entry):
                yield from self._pending(each)
        with suppress(MissingPage):
            yield from self._pages.keys(entry)

    def is_garbage(self, key: str) -> bool:
        """Return whether a page that is not among ``live_keys`` can never be needed again.

        As for ``mta.audit.is_garbage``, no writer that continues from this snapshot or a newer one
        may ever name the page. Such a writer numbers its runs after all existing ones, but may
        write new indexes of existing runs, and lists of pending deletions. A key may become
        standalone again after it has expired, so pages of a standalone window are garbage only if
        keys cannot expire. The first call reads every page if there are standalone windows.
        """
        window, _, place = key.rpartition("/")[0].partition("/")
        if window != self.name:
            held = self._lasting.get(window)
            return held is not None and walk.is_garbage(held, key)
        numbers = place.split("/")
        if len(numbers) != 2 or not all(map(str.isdecimal, numbers)):
            return False
        level, number = map(int, numbers)
        if level == LIST:
            return number < self.snapshot.number
        written = number <= self.snapshot.number
        return written and (level == 0 or all(number != run.number for run in self.snapshot.runs))

    @cached_property
    def _lasting(self) -> dict[str, Opaque]:
        """Return the standalone windows whose keys cannot expire, by name."""
        frames = self.frames
        if frames is None or all(each.lifetime is not None for each in frames.values()):
            return {}
        windows = [restore_opaque(snapshot, self.store) for _, snapshot in self.snapshots()]
        return {held.engine.name: held for held in windows}

    def snapshots(self) -> Iterator[tuple[Any, bytes]]:
        """Yield the snapshots of standalone windows by key; reads every page if there are any."""
        return self._intact_snapshots(self._tree, ())

    # --- whether they are intact ------------------------------------------------------------------

    def audit(self) -> Audit:
        """Verify every page, including those of standalone windows; continue after damage."""
        found, snapshots = self.audit_tables()
        for _, snapshot in snapshots:
            one = walk.audit(restore_opaque(snapshot, self.store))
            found.pages += one.pages
            found.gone += one.gone
            found.damaged += one.damaged
        return found

    def audit_tables(self) -> tuple[Audit, Iterator[tuple[Any, bytes]]]:
        """Verify every table and index; return the audit, and snapshots of standalone windows.

        Iterating over the snapshots reads the intact tables again. It skips the keys that may be in
        a damaged table. A table cannot be rebuilt, as no other page has its events.
        """
        found, lost = Audit(), list[tuple[int, int]]()
        whole = LSMTree(self._layout, self._pages, self.snapshot.lateness is not None)
        whole.memtable = self._tree.memtable
        for run in self._tree.runs:
            tables = list[tuple[int, bytes]]()
            self._verify(run, run.height, run.top, 1 << 64, (found, tables, lost))
            firsts = np.array([first for first, _ in tables], "u8")
            names = digests([name for _, name in tables])
            index = Index(firsts, names, np.zeros(len(tables), "<i8"))
            whole.runs.append(replace(run, height=0, top=index))
        return found, self._intact_snapshots(whole, lost)

    def _intact_snapshots(
        self, tree: LSMTree, lost: Sequence[tuple[int, int]]
    ) -> Iterator[tuple[Any, bytes]]:
        """Yield the snapshots in a tree, except for keys that a damaged table may have."""
        if not self.snapshot.counts.standalone:
            return
        for table in tree.everything():
            for first, end in lost:
                hashes = table.keys.hashes
                held = (hashes >= np.uint64(first)) & (hashes <= np.uint64(end - 1))
                table = table.take(np.flatnonzero(~held))
            for place, snapshot in zip(table.standalone.tolist(), table.snapshots, strict=True):
                yield table.keys.at(place), snapshot

    def _verify(self, run: Run, level: int, index: Index, end: int, notes: _Notes) -> None:
        """Verify all pages below an index whose keys have hashes below ``end``."""
        found, tables, lost = notes
        ends = [*index.firsts[1:].tolist(), end]
        for start in range(0, len(index), _BATCH):
            names: list[bytes] = index.names[start : start + _BATCH].tolist()
            keys = [key_of(self.name, level, run.number, name) for name in names]
            read = zip(names, keys, self.store.get_many(keys), strict=True)
            for at, (name, key, data) in enumerate(read, start):
                first = int(index.firsts[at])
                try:
                    if data is None:
                        raise CorruptPage("it is not in the store")
                    content = leaves.decode(self._layout, level, run.number, name, data)
                    assert not isinstance(content, list)  # only tables and indexes are here
                    what = _difference(content, index, at)
                    if what is not None:
                        raise CorruptPage(what)
                except CorruptPage as error:
                    what = str(error.__cause__ or error)
                    lost.append((first, max(ends[at], first + 1)))
                    found.damaged.append(_damage(key, level, run.number, what, lost[-1]))
                    continue
                found.pages += 1
                if isinstance(content, Index):
                    self._verify(run, level - 1, content, ends[at], notes)
                else:
                    tables.append((first, name))


#: The audit; the first hash and the name of each intact table; the hash ranges of damaged pages.
_Notes = tuple[Audit, list[tuple[int, bytes]], list[tuple[int, int]]]


class KeyedDamage(Damage):
    """A page of many keys that differs from its index; ``group`` is the number of its run."""

    def __str__(self) -> str:
        place = f"level {self.level}, run {self.group}"
        return f"page {self.key} ({place}): {self.what}; {self.remedy}"


def _damage(key: str, level: int, number: int, what: str, lost: tuple[int, int]) -> KeyedDamage:
    share = max(1, round((1 << 64) / (lost[1] - lost[0])))
    whose = f"1 key in {share:,}" if share > 1 else "any key"
    remedy = f"it holds events of {whose}, which are in no other page"
    if level:
        remedy = f"nothing else names the tables below it, with events of {whose}"
    remedy += ": restore a copy of it, or go back to an earlier snapshot"
    return KeyedDamage(key, level, number, what, 0, 0, True, None, remedy)


def _reached(held: Opaque, left_out: dict[str, str] | None) -> Iterator[str]:
    """Yield the pages of a standalone window; record the error in ``left_out`` if that is given."""
    try:
        yield from walk.live_keys(held)
    except (MissingPage, CorruptPage) as error:
        if left_out is None:
            raise
        left_out[held.engine.name] = str(error)


def _later(summary: SnapshotSummary, left: int) -> SnapshotSummary:
    """Return the summary of a window whose first event follows ``left`` events of its key."""
    windows = [replace(each, front=each.front + left) for each in summary.windows]
    front, back = summary.front + left, summary.back + left
    return replace(summary, front=front, back=back, windows=tuple(windows))


def _difference(content: Table | Index, index: Index, at: int) -> str | None:
    """Return how a page differs from what the index above says, or None."""
    hashes = content.firsts if isinstance(content, Index) else content.keys.hashes
    if not len(hashes) or hashes[0] != index.firsts[at]:
        return "it does not begin with the key that its index names"
    if at + 1 < len(index) and hashes[-1] >= index.firsts[at + 1]:
        return "it has keys of the page after it"
    return None
