"""The LSM tree of keyed windows: how keys are found in its tables, and when tables are merged.

The events of a batch form a table, a *run*. The events of a key are spread over runs, each of which
has later events than the runs before it. Runs are merged as in a log-structured merge tree. The
rule depends only on the weights of runs in bytes, so a replay merges in the same way. Before the
memtable is written as another run, the earlier runs are merged that are due:

- once all newer runs together weigh as much as the oldest run, all are merged into the *base*. So
  events that have left take at most as much space as those in windows, and an event is written into
  a base about once while it is in a window;
- otherwise, once 4 adjacent runs have weights of the same order (powers of 4), these are merged.

So an event is written about log4(base / batch) + 2 times. With more adjacent runs, a batch would
collect the events of a key from more places: with 16 runs, a batch of random keys takes 10% longer.
A merge drops events that no window needs. It processes one range of hashes after another, so it
needs only a few megabytes of memory.

In a store, a run consists of pages (``leaves``): tables in order, and indexes above them. The
snapshot has the top index. A lookup takes one ``get_many`` per level for all runs together. The
inputs of a merge are deleted ``retain`` snapshots later (``PendingDeletions``).

For each page, an index has the earliest time at which one of its keys may become idle. If a read of
the page at that time finds that keys have newer events elsewhere, a new index is written with the
next such time. So at most one of these reads takes place for each key of the page that becomes idle
or gets events elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, pairwise, takewhile
from typing import Any, Self, TypeVar

import numpy as np

from mta.errors import CorruptPage, MissingPage
from mta.kernels.native import Buffer, bounds_of
from mta.keyed import leaves
from mta.keyed.keys import Keys
from mta.keyed.leaves import (
    LIST,
    Content,
    Entry,
    Heads,
    Index,
    Leaves,
    PendingPages,
    TableLayout,
    digests,
    parts_of,
    weight_of,
)
from mta.keyed.table import EXPIRED, NO_TIME, Table, join
from mta.pages import corrupt, key_of, keys_of, name_of
from stores import PageStore
from stores.lru import LRU

#: The number of runs of one order that are merged, as a power of 2, and the weight in bytes of
#: the first order.
_ORDER_BITS, _FIRST_ORDER = 2, 1 << 16
#: How many tables of the memtable below this weight are merged: a merge costs as much as lookups in
#: ten small tables.
_SMALL_ONES = 4
#: The number of pages below an index page, and of entries in the top index of a run.
FANOUT, TOP = 256, 8
#: How many bytes of decoded indexes and heads of tables stay in memory, and up to how many tables
#: that are read together keep their heads.
_DECODED, _FEW = 1 << 22, 32
#: How many pages of a run, and about how many bytes, a merge reads or writes together.
_AT_ONCE, _BYTES_AT_ONCE = 256, 1 << 22
#: With this many runs, all are merged before another is written, so that a snapshot stays small.
_MOST_RUNS = 96
_NEVER = int(np.iinfo("i8").max)
#: The run number of a memtable in a snapshot; no run has it.
MEMTABLE = 0
T = TypeVar("T")
#: A page by its level, the number of its run, and its name.
Place = tuple[int, int, bytes]


@dataclass(slots=True, eq=False)
class Run:
    """A table in pages; ``top`` names its topmost pages, of level ``height``."""

    number: int
    weight: int
    height: int
    top: Index

    def pages(self) -> PendingPages:
        """Return all pages of the run, for their deletion."""
        return PendingPages(self.number, self.height, self.top.names.tolist())


@dataclass(slots=True)
class Reached:
    """Pages of one level of a run that were read."""

    level: int
    index: Index
    """The index that names these pages and their neighbors."""
    places: np.ndarray
    """The places of these pages in the index."""
    parts: list[Index]
    """The content of each page; empty for tables, which are read on lookup."""

    @property
    def names(self) -> list[bytes]:
        names: list[bytes] = self.index.names[self.places].tolist()
        return names


def decoded_pages(kind: type[LRU[bytes, Any]], capacity: int) -> LRU[bytes, Any]:
    """Return a cache of decoded indexes and heads of tables, by the names of their pages."""
    return kind(capacity, 0, lambda content: content.nbytes)


class RunPages:
    """Writes and reads runs as pages; the most recently read ones stay in memory.

    ``decoded`` may be shared (``decoded_pages``).
    """

    def __init__(
        self, store: PageStore, layout: TableLayout, page_bytes: int, cache_bytes: int,
        decoded: LRU[bytes, Any] | None = None,
    ) -> None:  # fmt: skip
        self.store, self.layout = store, layout
        self.page_bytes, self._cache = page_bytes, LRU[bytes, bytes](cache_bytes)
        self.decoded = decoded_pages(LRU, _DECODED) if decoded is None else decoded
        #: The pages of the run or list that was written last.
        self.written: list[Entry] = []

    def write(self, number: int, tables: Iterable[Table]) -> Run | None:
        """Write tables as a run, if any; one ``put_many`` per table and per level."""
        found: list[Index] = []
        weight = 0
        for table in filter(len, tables):
            weights = table.weights
            weight += int(weights.sum())
            cuts = _cuts(table, weights, self.page_bytes)
            names = self.put(0, number, [table.cut(a, b) for a, b in pairwise(cuts)])
            oldest = np.minimum.reduceat(_newest_of(table), cuts[:-1])
            found.append(Index(table.keys.hashes[cuts[:-1]], digests(names), oldest))
        if not found:
            return None
        index, height = _chained(found), 0
        while len(index) > TOP:
            height += 1
            starts = [*range(0, len(index), FANOUT)]
            names = self.put(height, number, [index.cut(at, at + FANOUT) for at in starts])
            oldest = np.minimum.reduceat(index.oldest, starts)
            index = Index(index.firsts[::FANOUT], digests(names), oldest)
        return Run(number, weight, height, index)

    def put(self, level: int, number: int, contents: Sequence[Table | Content]) -> list[bytes]:
        """Write pages, and return their names. One ``put_many``."""
        names, found = [], {}
        for content in contents:
            data = leaves.encode(self.layout, level, number, content)
            names.append(name_of(data))
            found[key_of(self.layout.window, level, number, names[-1])] = data
        self.written.append(PendingPages(number, level, names, below=False))
        self.store.put_many(found)
        return names

    def see(self, places: Sequence[Place], see: Callable[[list[Buffer]], T]) -> T:
        """Return what ``see`` returns for pages, whose bytes are valid only during the call.

        One ``view_many`` for pages that are not in memory. Raises MissingPage and CorruptPage.
        """
        known: dict[bytes, Buffer] = {}
        for _, _, name in places:
            if (cached := self._cache.get(name)) is not None:
                known[name] = cached
        missing = [place for place in places if place[2] not in known]
        if not missing:
            return see([known[name] for _, _, name in places])
        keys = keys_of(self.layout.window, missing)

        def of(found: list[Buffer | None]) -> T:
            fresh: dict[bytes, Buffer] = {}
            for place, key, page in zip(missing, keys, found, strict=True):
                if page is None:
                    raise MissingPage.of(key, self.store)
                try:
                    leaves.require_whole(self.layout, *place, page)
                except CorruptPage:
                    self.store.discard([key])
                    raise
                fresh[place[2]] = page
            made = see([fresh.get(name) or known[name] for _, _, name in places])
            self._keep(fresh)
            return made

        return self.store.view_many(keys, of)

    def drop_cached(self) -> None:
        """Drop all cached pages."""
        self._cache.clear()
        self.decoded.clear()

    def _keep(self, fresh: Mapping[bytes, Buffer]) -> None:
        """Cache the pages that were read, unless the store has them in memory."""
        for name, page in fresh.items():
            if isinstance(page, bytes):
                self._cache.put(name, page)

    def _opened(self, places: Sequence[Place], found: Sequence[Buffer]) -> Leaves:
        """Return pages whose bytes match their names; the heads of few stay in memory."""
        runs, names = [number for _, number, _ in places], [name for _, _, name in places]
        if len(names) > _FEW:
            return Leaves(self.layout, runs, found)
        known = [heads for name in names if (heads := self.decoded.get(name)) is not None]
        if len(known) == len(names):
            return Leaves(self.layout, runs, found, Heads.joined(known))
        opened = Leaves(self.layout, runs, found)
        for at, name in enumerate(names):
            self.decoded.put(name, opened.heads.of(at))
        return opened

    def look_into(
        self,
        runs: Sequence[tuple[int, Sequence[bytes]]],
        look: Callable[[Leaves, Sequence[tuple[int, int]]], list[T]],
    ) -> list[T]:
        """Return what ``look`` finds in the tables of runs, oldest first; [] without tables.

        One ``view_many``. Raises MissingPage and CorruptPage.
        """
        places = [(0, number, name) for number, names in runs for name in names]
        ends = bounds_of(np.array([len(names) for _, names in runs])).tolist()
        spans = [(start, stop) for start, stop in pairwise(ends) if start < stop]

        def of_leaves(places: Sequence[Place], found: Sequence[Buffer]) -> list[T]:
            within = spans if len(found) == ends[-1] else [(0, len(found))]
            return look(self._opened(places, found), within)

        return self.see(places, lambda f: self._named(of_leaves, places, f)) if places else []

    def _named(
        self,
        read: Callable[[Sequence[Place], Sequence[Buffer]], T],
        places: Sequence[Place],
        found: Sequence[Buffer],
    ) -> T:
        """Return what ``read`` returns for pages; the error for a damaged page names that page."""
        errors = (ValueError, TypeError)
        try:
            return read(places, found)
        except errors as error:
            for at, place in enumerate(places):
                try:
                    read([place], found[at : at + 1])
                except errors as why:
                    raise leaves.damaged(self.layout, *place, why) from why
            raise leaves.damaged(self.layout, *places[0], error) from error

    def index(self, level: int, number: int, names: Sequence[bytes]) -> Index:
        """Return the concatenation of some indexes. Raises MissingPage and CorruptPage."""
        return _chained(self.indexes([(level, number, name) for name in names]))

    def indexes(self, places: Sequence[Place]) -> list[Index]:
        """Return indexes, of which some stay in memory. Raises MissingPage and CorruptPage."""
        known = {name: self.decoded.get(name) for _, _, name in places}
        missing = [place for place in places if known[place[2]] is None]
        if missing:
            known |= self.see(missing, lambda found: self.read_indexes(missing, found))
        return [index for _, _, name in places if (index := known[name]) is not None]

    def read_indexes(self, places: Sequence[Place], found: Sequence[Buffer]) -> dict[bytes, Index]:
        """Decode pages as indexes, of which some stay in memory. Raises CorruptPage."""
        read: list[Index] = self.read(places, found)
        for (_, _, name), index in zip(places, read, strict=True):
            self.decoded.put(name, index)
        return {name: index for (_, _, name), index in zip(places, read, strict=True)}

    def read(self, places: Sequence[Place], found: Sequence[Buffer]) -> list[Any]:
        """Return the contents of pages of level 1 and above. Raises CorruptPage."""

        def load(places: Sequence[Place], found: Sequence[Buffer]) -> list[Any]:
            pairs = zip(places, found, strict=True)
            return [leaves.read(self.layout, level, run, page) for (level, run, _), page in pairs]

        return self._named(load, places, found)

    def leaves(self, run: Run) -> Index:
        """Return the names of all tables of a run; one ``get_many`` per level."""
        index = run.top
        for level in range(run.height, 0, -1):
            index = self.index(level, run.number, index.names.tolist())
        return index

    def listed(self, entry: PendingPages) -> list[Entry]:
        """Return the entries of a list of pending deletions; none if it is missing or damaged."""
        places = [(LIST, entry.number, name) for name in entry.names]
        try:
            lists = self.see(places, lambda found: self.read(places, found))
        except (MissingPage, CorruptPage):
            return []
        return [each for content in lists for each in content]

    def keys(self, entry: PendingPages) -> Iterator[str]:
        """Yield the store keys of pages and of those below; one ``get_many`` per level."""
        return chain.from_iterable(self._levels(entry))

    def _levels(self, entry: PendingPages) -> Iterator[list[str]]:
        level, names = entry.level, entry.names
        yield keys_of(self.layout.window, [(level, entry.number, name) for name in names])
        while entry.below and 0 < level < LIST:
            names = self.index(level, entry.number, names).names.tolist()
            level -= 1
            yield keys_of(self.layout.window, [(level, entry.number, name) for name in names])

    def delete(self, entry: PendingPages) -> None:
        """Delete pages, the topmost last; two calls per level: one finds, and one deletes pages."""
        levels = list[list[str]]()
        with suppress(MissingPage, CorruptPage):  # deleted before a crash, or damaged
            for keys in self._levels(entry):
                levels.append(keys)
        for keys in reversed(levels):
            self.store.delete_many(keys)


@dataclass(slots=True)
class PendingDeletions:
    """Entries to delete: fresh ones, and groups with the number of snapshots to wait for."""

    fresh: list[Entry] = field(default_factory=list)
    groups: list[tuple[int, list[Entry]]] = field(default_factory=list)

    def due(self) -> list[Entry]:
        """Return the entries to delete with this snapshot."""
        return [entry for snapshots, entries in self.groups if snapshots <= 0 for entry in entries]

    def all(self) -> list[Entry]:
        """Return all pending deletions."""
        return [*self.fresh, *(entry for _, entries in self.groups for entry in entries)]

    @property
    def is_heavy(self) -> bool:
        """Return whether the entries are too large for a snapshot."""
        return sum(map(weight_of, self.all())) > leaves.ROOM

    def age(self, retain: int) -> None:
        """Note that a snapshot was taken, and that the due entries are deleted."""
        self.groups = [
            (snapshots - 1, entries) for snapshots, entries in self.groups if snapshots > 0
        ]
        if self.fresh:
            self.groups.append((retain - 1, self.fresh))
            self.fresh = []


def untrimmed(table: Table, whole: bool) -> Table:
    """Return a table with all its events."""
    return table


class LSMTree:
    """The runs of some windows, the oldest first, and the memtable.

    ``late`` says that events may be late. Merges apply ``trim`` to tables; its second argument says
    whether no older table has events of their keys.
    """

    def __init__(
        self, layout: TableLayout, run_pages: RunPages | None, late: bool,
        trim: Callable[[Table, bool], Table] = untrimmed,
    ) -> None:  # fmt: skip
        self.layout, self._pages = layout, run_pages
        self._trim, self._late = trim, late
        self.runs: list[Run] = []
        #: The events of the last snapshot's memtable, then the events since, the oldest first.
        self.memtable: list[Table] = []
        self.pending = PendingDeletions()
        #: The number of the newest run ever written.
        self.number = 0
        #: No key of the memtable has its newest event at this moment or before.
        self._looked = -_NEVER

    def load(self, runs: list[Run], memtable: bytes | None) -> Self:
        """Replace the tables with those of a snapshot. Raises CorruptSnapshot."""
        self.runs, self.memtable = runs, []
        try:
            if memtable is not None:
                self.memtable = [Leaves(self.layout, [MEMTABLE], [memtable]).table()]
        except (ValueError, TypeError) as error:
            raise corrupt(str(error)) from error
        return self

    def dump_memtable(self) -> bytes | None:
        """Return the memtable for a snapshot, after ``write_runs``. Raises NotPageable."""
        if not self.memtable:
            return None
        return leaves.encode_table(self.layout, MEMTABLE, self.memtable[0])

    @property
    def pages(self) -> RunPages:
        """Return the pages of the runs; there are no runs without a store."""
        assert self._pages is not None
        return self._pages

    # --- finding --------------------------------------------------------------------------------

    def find(self, keys: Keys) -> Table:
        """Return stored events. One ``view_many`` per level. Raises MissingPage and CorruptPage."""
        found = [table for each in self.memtable if (table := each.among(keys)) is not None]
        if self.runs:
            reached = self._reach(lambda index: index.holding(keys.hashes))
            runs = [(run.number, levels[-1].names) for run, levels in reached]
            look = partial(Leaves.find, keys=keys, late=self._late)
            found = self.pages.look_into(runs, look) + found
        return self._joined(found)

    def _joined(self, tables: Iterable[Table]) -> Table:
        found = [table for table in tables if len(table)]
        if found:
            return join(found, self._late)
        layout = self.layout
        return Table.bare(layout.schema, Keys.none(layout.kind), layout.timed, 0)

    def _reach(self, choose: Callable[[Index], np.ndarray]) -> list[tuple[Run, list[Reached]]]:
        """Return the chosen pages of each run, level by level. One ``view_many`` per level."""
        found: list[tuple[Run, list[Reached]]] = [(run, []) for run in self.runs]
        open_ = [(run, levels, run.height, run.top) for run, levels in found]
        while open_:
            chosen = [(*each, choose(each[-1])) for each in open_]
            asked = [
                (level, run.number, name)
                for run, _, level, index, places in chosen
                if level
                for name in index.names[places].tolist()
            ]
            read = iter(self.pages.indexes(asked) if asked else [])
            open_ = []
            for run, levels, level, index, places in chosen:
                if not len(places):
                    continue
                parts = [next(read) for _ in places] if level else []
                levels.append(Reached(level, index, places, parts))
                if level:
                    open_.append((run, levels, level - 1, _chained(parts)))
        return [(run, levels) for run, levels in found if levels and not levels[-1].level]

    # --- all tables -----------------------------------------------------------------------------

    def everything(self) -> Iterator[Table]:
        """Yield all keys with their events in order. Reads every page once or twice."""
        yield from self._merged(self.runs, self.memtable, whole=True)

    def _merged(
        self, runs: Sequence[Run], memtable: Sequence[Table], whole: bool
    ) -> Iterator[Table]:
        """Merge and trim runs and tables; ``whole`` if no older run has any of their keys."""
        leaves = [self.pages.leaves(run) for run in runs]
        firsts = np.sort(np.concatenate([np.zeros(0, "u8"), *(i.firsts for i in leaves)]))
        step = pages_at_once(self.pages.page_bytes) if runs else 1
        cuts = [0, *np.unique(firsts[step::step]).tolist(), None]
        for low, high in pairwise(cuts):
            found = [table.between(low, high) for table in memtable]
            if runs:
                pairs = zip(runs, leaves, strict=True)
                names = [(run.number, index.between(low, high).tolist()) for run, index in pairs]
                look = partial(Leaves.between, low=low, high=high, late=self._late)
                found = self.pages.look_into(names, look) + found
            found = [table for table in found if len(table)]
            if found:
                table = join(found, self._late)
                if whole and (gone := table.marks == EXPIRED).any():
                    table = table.take(np.flatnonzero(~gone))
                yield self._trim(table, whole)

    # --- growing --------------------------------------------------------------------------------

    def add(self, table: Table) -> None:
        """Add the events of a batch; no store call."""
        self._looked = min(self._looked, int(_newest_of(table).min(initial=_NEVER)) - 1)
        self.memtable.append(table)
        # Merge tables of one order, so that a lookup searches few tables.
        while (count := self._due()) > 1:
            some, whole = self.memtable[-count:], not self.runs and len(self.memtable) == count
            self.memtable[-count:] = [self._trim(join(some, self._late), whole)]

    def _due(self) -> int:
        """Return how many tables of the memtable are merged: pairs, or several small ones."""
        newest = self.memtable[-1].weight
        count = _SMALL_ONES if newest < _FIRST_ORDER else 2
        some = self.memtable[-count:]
        return count if len(some) == count and 2 * newest >= some[0].weight else 0

    def write_runs(self, inline: int) -> None:
        """Merge runs that are due, and write the memtable as a run if it exceeds ``inline`` bytes.

        If a store call fails, the state in memory does not change, except for merges that were
        complete, and pages that no run names become pending deletions.
        """
        self.merge()
        self._write_memtable(inline)
        if self.pending.is_heavy and len(self.pending.fresh) > 1:
            with self._deleted_on_failure():
                self.pending.fresh = [self._listed(self.pending.fresh)]

    def _write_memtable(self, inline: int) -> None:
        if self.memtable:
            self.memtable = [self._trim(join(self.memtable, self._late), not self.runs)]
        if self.memtable and self.memtable[0].weight > inline:
            self.runs += self._made(self.memtable)
            self.memtable = []

    def merge(self, between: Callable[[], None] | None = None) -> None:
        """Merge runs that are due, and call ``between`` after each part that is in the store.

        ``between`` may add events, which ``write_runs`` writes later.
        """
        while (count := count_to_merge([run.weight for run in self.runs])) > 1:
            old = self.runs[-count:]
            whole = count == len(self.runs)
            self.runs[-count:] = self._made(self._in_parts(self._merged(old, [], whole), between))
            self.pending.fresh += [run.pages() for run in old]

    def _in_parts(
        self, tables: Iterable[Table], between: Callable[[], None] | None
    ) -> Iterator[Table]:
        for table in tables:
            yield table
            if between is not None:
                self.pages.store.flush()
                between()

    def _made(self, tables: Iterable[Table]) -> list[Run]:
        self.number += 1  # even if the write fails, so that no other run has pages under its keys
        with self._deleted_on_failure():
            run = self.pages.write(self.number, tables)
        return [] if run is None else [run]

    @contextmanager
    def _deleted_on_failure(self) -> Iterator[None]:
        """Mark the pages written in this context for deletion if an exception is raised."""
        self.pages.written = []
        try:
            yield
        except Exception:
            self.pending.fresh += self.pages.written
            raise

    def _listed(self, entries: Sequence[Entry]) -> PendingPages:
        """Write entries as pages of a list, and return the entry for these pages."""
        names = self.pages.put(LIST, self.number, parts_of(entries))
        listed = [PendingPages(self.number, LIST, [name]) for name in names]
        return listed[0] if len(listed) == 1 else self._listed(listed)

    def drop_all(self) -> None:
        """Drop all tables because there are no keys any more."""
        self.pending.fresh += [run.pages() for run in self.runs]
        self.runs, self.memtable = [], []

    def erase(self, keys: Keys) -> None:
        """Remove keys from all tables; rewrites each run that has one of them.

        The old pages become pending deletions. If a store call fails, nothing has changed.
        """
        runs, replaced = list[Run](), list[Run]()
        try:
            for run in self.runs:
                if not len(self._of_run(run).find(keys)):
                    runs.append(run)
                    continue
                others = (table.without(keys) for table in self._merged([run], [], whole=not runs))
                runs += self._made(others)
                replaced.append(run)
        except Exception:
            self.pending.fresh += [run.pages() for run in runs if run not in self.runs]
            raise
        self.runs, self.memtable = runs, [table.without(keys) for table in self.memtable]
        self.pending.fresh += [run.pages() for run in replaced]
        if self._pages is not None:
            self._pages.drop_cached()

    def _of_run(self, run: Run) -> LSMTree:
        """Return a tree of one run, for reading."""
        return LSMTree(self.layout, self._pages, self._late).load([run], None)

    # --- idle keys --------------------------------------------------------------------------------

    def idle(self, until: int) -> Table:
        """Return the stored events of the keys whose newest event is at ``until`` or before.

        The caller must expire these keys. Reads the tables with an event that is that old and was
        once the newest of its key, and writes new indexes for them: one ``get_many`` per level, and
        one ``put_many`` per run and level of indexes. If a store call fails, nothing has changed.
        """
        reached = self._reach(lambda index: np.flatnonzero(index.oldest <= until))
        runs = [(run.number, levels[-1].names) for run, levels in reached]
        looked = self.pages.look_into(runs, Leaves.tables) if runs else []
        tables = [*(table for table, _ in looked), *self.memtable]
        known = self.find(self._joined(_idle_in(table, until) for table in tables).keys)
        renewed = [
            self._renewed(run, levels, *tables, until)
            for (run, levels), tables in zip(reached, looked, strict=True)
        ]
        for run, top, old in renewed:
            self.runs[self.runs.index(run)] = replace(run, top=top)
            self.pending.fresh += old
        self._looked = until
        return _idle_in(known, until)

    def _renewed(
        self, run: Run, levels: list[Reached], table: Table, counts: np.ndarray, until: int
    ) -> tuple[Run, Index, list[Entry]]:
        """Return a run, its new top index after such a read, and the pages it no longer names."""
        newest = _newest_of(table)
        newest[newest <= until] = _NEVER
        later = np.minimum.reduceat(newest, bounds_of(counts)[:-1]).tolist()
        old: list[Entry] = []
        index = levels[-1].index.renewed(levels[-1].places, later)
        for above in reversed(levels[:-1]):
            ends = bounds_of(np.array([len(part) for part in above.parts])).tolist()
            parts = [index.cut(start, stop) for start, stop in pairwise(ends)]
            names = self.pages.put(above.level, run.number, parts)
            gone = [name for name in above.names if name not in names]
            if gone:
                old.append(PendingPages(run.number, above.level, gone, below=False))
            later = [part.earliest for part in parts]
            index = above.index.renewed(above.places, later, names)
        return run, index, old

    def earliest(self) -> int | None:
        """Return a lower bound on the newest time of each key, if any, without a store call."""
        found = [run.top.earliest for run in self.runs]
        for table in self.memtable:
            newest = _newest_of(table)
            found.append(int(newest[newest > self._looked].min(initial=_NEVER)))
        least = min(found, default=_NEVER)
        return None if least == _NEVER else least


def _idle_in(table: Table, until: int) -> Table:
    return table.take(np.flatnonzero((table.newest() <= until) & (table.counts > 0)))


def count_to_merge(weights: Sequence[int]) -> int:
    """Return how many of the newest runs to merge into one; 0 for none."""
    if len(weights) > 1 and (sum(weights[1:]) >= weights[0] or len(weights) >= _MOST_RUNS):
        return len(weights)
    orders = [*map(_order, weights)]
    # A run of a lower order than the newest one is merged along with its neighbors.
    same = len([*takewhile(lambda order: order <= orders[-1], reversed(orders))])
    return same if same >= 1 << _ORDER_BITS else 0


def pages_at_once(page_bytes: int) -> int:
    """Return how many pages of this size a merge reads together."""
    return min(_AT_ONCE, max(8, _BYTES_AT_ONCE // page_bytes))


def _order(weight: int) -> int:
    return ((weight // _FIRST_ORDER).bit_length() + _ORDER_BITS - 1) // _ORDER_BITS


def _cuts(table: Table, weights: np.ndarray, page: int) -> list[int]:
    """Return where a table is cut into pages; keys of one hash stay together."""
    ends = np.cumsum(weights)
    number = (ends - weights) // page
    starts = np.flatnonzero(np.diff(number)) + 1
    hashes = table.keys.hashes
    starts = starts[hashes[starts] != hashes[starts - 1]]
    return [0, *starts.tolist(), len(table)]


def _newest_of(table: Table) -> np.ndarray:
    """Return the newest time of each key, or the maximum without one: the key is never idle."""
    newest = table.newest()
    newest[newest == NO_TIME] = _NEVER
    return newest


def _chained(indexes: Sequence[Index]) -> Index:
    if len(indexes) == 1:
        return indexes[0]
    return Index(
        np.concatenate([index.firsts for index in indexes]),
        np.concatenate([index.names for index in indexes]),
        np.concatenate([index.oldest for index in indexes]),
    )
