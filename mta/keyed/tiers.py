"""Which tables there are of some windows, how keys are found in them, and when they are merged.

What a batch brings is a table of its own, a *run*. A key's events are spread over runs, each of
which has later ones than those before it. Runs are merged as in a log-structured merge tree, by a
rule on their weights (in bytes) alone, so that a replay merges alike:

- once all younger runs weigh as much as the oldest one, all become one: the *base*. So old events
  take at most as much room as those that are in windows, and an event is written into a base about
  once while it is in a window;
- else, once 16 runs stand side by side whose weights are of one order (powers of 16), these do.

So an event is written about log16(base / batch) + 2 times. A merge drops what no window needs any
more. It goes by ranges of hashes, so that it takes a few megabytes of memory whatever there is.

In a store a run is pages (``pages``): tables in order, and above them indexes, of which the top is
in the root. To find keys takes one ``get_many`` a level for all runs together. What a merge leaves
is deleted ``retain`` roots later.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from mta.errors import CorruptPage, MissingPage
from mta.keyed import pages
from mta.keyed.keys import Keys
from mta.keyed.pages import Content, Index, TableLayout
from mta.keyed.table import FORGOTTEN, Table, chained, join
from mta.pages.page import key_of, name_of
from stores import PageStore

#: How many runs of one order are merged, as a power of two; the weight of the first order.
_TIER_BITS, _FIRST_TIER = 4, 1 << 16
#: Pages below an index page; entries of a run's top, which is in the root.
_FANOUT, _TOP = 256, 8
#: No run is higher: its pages would be more than 2^40.
MAX_HEIGHT = 6
#: How many pages are read or written at once in a merge.
_AT_ONCE = 256
#: Runs beyond which all are merged, so that a root stays small.
_MOST_RUNS = 96


@dataclass(slots=True)
class Run:
    """A table: in memory, or in pages of which these are the topmost."""

    number: int
    weight: int
    keys: int
    events: int
    table: Table | None = None
    height: int = 0
    """The level of the pages that ``top`` names."""
    top: Index | None = None


@dataclass(slots=True)
class Doomed:
    """Pages that are to be deleted with the root after so many more."""

    roots: int
    number: int
    height: int
    top: Index
    leaves: bool = True
    """Whether its tables go with the indexes, which others may stand for."""


@dataclass(slots=True)
class PageSize:
    """Bytes of a page of keys, and of those that are kept in memory once they are read."""

    bytes: int
    cached: int


class RunPages:
    """Writes runs as pages and reads them, with those in memory that were read last."""

    def __init__(self, store: PageStore, layout: TableLayout, size: PageSize) -> None:
        self.store, self.layout, self.size = store, layout, size
        self._cache: OrderedDict[bytes, tuple[Content, int]] = OrderedDict()
        self._cached = 0

    def write(self, number: int, tables: Iterable[Table]) -> Run:
        """Tables, one after the other, as a run; a ``put_many`` for each and for each level."""
        found: list[Index] = []
        run = Run(number, 0, 0, 0)
        for table in tables:
            if not len(table):
                continue
            weights = table.weights
            run.weight += int(weights.sum())
            run.keys += len(table)
            run.events += table.events
            cuts = _cuts(table, weights, self.size.bytes)
            parts = [table.cut(a, b) for a, b in pairwise(cuts)]
            oldest = None
            if table.times is not None:
                oldest = np.minimum.reduceat(_newest_of(table), cuts[:-1])
            names = self._put(0, number, parts)
            found.append(Index(table.keys.hashes[cuts[:-1]], names, oldest))
        if found:
            run.height, run.top = self._write_indexes(number, _chained(found))
        return run

    def _write_indexes(self, number: int, index: Index) -> tuple[int, Index]:
        height = 0
        while len(index) > _TOP:
            height += 1
            starts = range(0, len(index), _FANOUT)
            parts = [index.cut(start, start + _FANOUT) for start in starts]
            oldest = None
            if index.oldest is not None:
                oldest = np.minimum.reduceat(index.oldest, list(starts))
            index = Index(index.firsts[::_FANOUT], self._put(height, number, parts), oldest)
        return height, index

    def _put(self, level: int, number: int, contents: Sequence[Table | Index]) -> list[bytes]:
        names, found = [], {}
        for content in contents:
            data = pages.encode(self.layout, level, number, content)
            names.append(name_of(data))
            found[key_of(self.layout.window, level, number, names[-1])] = data
        self.store.put_many(found)
        return names

    def read(self, places: Sequence[tuple[int, int, bytes]]) -> list[Content]:
        """Pages by level, run and name; one ``get_many`` for those that are not in memory.

        Raises MissingPage and CorruptPage.
        """
        missing = [place for place in places if place[2] not in self._cache]
        fresh: dict[bytes, Content] = {}
        if missing:
            keys = [key_of(self.layout.window, *place) for place in missing]
            for place, key, data in zip(missing, keys, self.store.get_many(keys), strict=True):
                if data is None:
                    raise MissingPage(
                        f"page {key} is not in {self.store.url}: open the store that the windows "
                        "were written to, or restore from a root whose pages are all there"
                    )
                try:
                    content = pages.opened(self.layout, *place, data)
                except CorruptPage:
                    self.store.forget([key])
                    raise
                fresh[place[2]] = content
                self._cache[place[2]] = content, len(data)
                self._cached += len(data)
        found = []
        for _, _, name in places:
            if name not in fresh:
                self._cache.move_to_end(name)
            found.append(fresh.get(name) or self._cache[name][0])
        while self._cached > self.size.cached:
            self._cached -= self._cache.popitem(last=False)[1][1]
        return found

    def tables(self, number: int, names: Sequence[bytes]) -> Table:
        """Tables of a run, in order, as one. Raises MissingPage and CorruptPage."""
        return self.loaded(number, names, self.read([(0, number, name) for name in names]))

    def loaded(self, number: int, names: Sequence[bytes], contents: Sequence[Content]) -> Table:
        """Tables that were read, as one. Raises CorruptPage, which names the page."""
        try:
            return pages.load_tables(self.layout, contents)
        except (ValueError, TypeError) as error:
            for name, content in zip(names, contents, strict=True):
                try:
                    pages.load_tables(self.layout, [content])
                except (ValueError, TypeError) as why:
                    raise pages.damaged(self.layout, 0, number, name, why) from why
            raise pages.damaged(self.layout, 0, number, names[0], error) from error

    def index(
        self, level: int, number: int, names: Sequence[bytes], contents: Sequence[Content]
    ) -> Index:
        """Indexes that were read, as one. Raises CorruptPage."""
        found = []
        for name, (count, columns) in zip(names, contents, strict=True):
            try:
                content = pages.load(self.layout, level, count, columns)
            except (ValueError, TypeError) as error:
                raise pages.damaged(self.layout, level, number, name, error) from error
            assert isinstance(content, Index)
            found.append(content)
        return _chained(found)

    def leaves(self, run: Run | Doomed) -> Index:
        """The names of all tables of a run; a ``get_many`` a level."""
        assert run.top is not None
        index = run.top
        for level in range(run.height, 0, -1):
            index = self._below(level, run.number, index)
        return index

    def _below(self, level: int, number: int, index: Index) -> Index:
        """What the pages of an index say, which is of a level."""
        names = index.names
        return self.index(level, number, names, self.read([(level, number, n) for n in names]))

    def delete(self, doomed: Doomed) -> None:
        """Delete a run's pages, the topmost last; a store call a level, and to find them."""
        levels: list[tuple[int, Index]] = [(doomed.height, doomed.top)]
        for level in range(doomed.height, 0, -1):
            try:
                below = self._below(level, doomed.number, levels[-1][1])
            except MissingPage:
                break  # deleted before a crash
            levels.append((level - 1, below))
        window = self.layout.window
        for level, index in reversed(levels):
            if level or doomed.leaves:
                keys = [key_of(window, level, doomed.number, name) for name in index.names]
                self.store.delete_many(keys)


class Tiers:
    """The runs of some windows, the oldest first."""

    def __init__(
        self, layout: TableLayout, run_pages: RunPages | None, trim: Callable[[Table], Table],
        late: bool,
    ) -> None:  # fmt: skip
        self.layout, self.pages = layout, run_pages
        self._trim, self._late = trim, late
        self.runs: list[Run] = []
        #: What has come since the last root, the oldest first, and in the root itself before.
        self.young: list[Table] = []
        self.doomed: list[Doomed] = []
        #: The number of the newest run there was.
        self.number = 0

    # --- finding --------------------------------------------------------------------------------

    def find(self, keys: Keys) -> Table | None:
        """What is known of some keys; a ``get_many`` a level. Raises MissingPage, CorruptPage."""
        tables = [*self._find_in_pages(keys), *self.young]
        found = []
        for table in tables:
            places = table.keys.find(keys)
            places = np.sort(places[places >= 0])
            if len(places):
                found.append(table if len(places) == len(table) else table.take(places))
        return join(found, self._late) if found else None

    def _find_in_pages(self, keys: Keys) -> list[Table]:
        """A table for each run that may have some of the keys."""
        wanted: dict[int, tuple[int, Index]] = {}
        tables: dict[int, Table] = {}
        for place, run in enumerate(self.runs):
            if run.table is not None:
                tables[place] = run.table
            elif run.top is not None:
                wanted[place] = run.height, run.top
        while wanted:
            assert self.pages is not None
            asked: list[tuple[int, int, bytes]] = []
            named: dict[int, tuple[int, list[bytes]]] = {}
            for place, (level, index) in wanted.items():
                names = [index.names[at] for at in index.holding(keys.hashes).tolist()]
                if names:
                    named[place] = level, names
                    asked += [(level, self.runs[place].number, name) for name in names]
            contents, wanted, at = self.pages.read(asked), {}, 0
            for place, (level, names) in named.items():
                number, found = self.runs[place].number, contents[at : at + len(names)]
                at += len(names)
                if level:
                    wanted[place] = level - 1, self.pages.index(level, number, names, found)
                else:
                    tables[place] = self.pages.loaded(number, names, found)
        return [tables[place] for place in sorted(tables)]

    # --- all there is ---------------------------------------------------------------------------

    def everything(self) -> Iterator[Table]:
        """All keys with their events, in order, range by range; reads every page once or twice."""
        yield from self._merged([*self.runs, *map(_in_memory, self.young)], whole=True)

    def _merged(self, runs: Sequence[Run], whole: bool) -> Iterator[Table]:
        """Some runs as one, trimmed; ``whole`` if no older one has any of their keys."""
        leaves = [None if run.top is None else self._leaves(run) for run in runs]
        firsts = np.sort(np.concatenate([np.zeros(0, "u8"), *(i.firsts for i in leaves if i)]))
        cuts = [0, *np.unique(firsts[_AT_ONCE::_AT_ONCE]).tolist(), None]
        for low, high in pairwise(cuts):
            found = []
            for run, index in zip(runs, leaves, strict=True):
                table = run.table if index is None else self._read_range(run, index, low, high)
                if table is not None:
                    found.append(_between(table, low, high))
            found = [table for table in found if len(table)]
            if found:
                table = join(found, self._late)
                if whole and (gone := table.marks == FORGOTTEN).any():
                    table = table.take(np.flatnonzero(~gone))
                yield self._trim(table)

    def _leaves(self, run: Run) -> Index:
        assert self.pages is not None
        return self.pages.leaves(run)

    def _read_range(self, run: Run, index: Index, low: int, high: int | None) -> Table | None:
        assert self.pages is not None
        start = max(0, int(np.searchsorted(index.firsts, np.uint64(low), side="left")) - 1)
        stop = len(index)
        if high is not None:
            stop = int(np.searchsorted(index.firsts, np.uint64(high), side="left"))
        if start >= stop:
            return None
        return self.pages.tables(run.number, index.names[start:stop])

    # --- growing --------------------------------------------------------------------------------

    def add(self, table: Table) -> None:
        """What a batch has brought; no store call."""
        self.young.append(table)
        # Twos of one order, so that to find a key takes a look into few tables.
        while len(self.young) > 1 and 2 * _weight(self.young[-1]) >= _weight(self.young[-2]):
            pair = self.young[-2:]
            self.young[-2:] = [self._trim(join(pair, self._late))]

    def settle(self, inline: int, retain: int) -> None:
        """Make what has come a run, unless it weighs so little, and merge what is to be merged."""
        if len(self.young) > 1:
            self.young = [self._trim(join(self.young, self._late))]
        if self.young and (self.pages is None or _weight(self.young[0]) > inline):
            self.runs.append(self._made(self.young))
            self.young = []
        while (count := _to_merge([run.weight for run in self.runs])) > 1:
            old = self.runs[-count:]
            whole = count == len(self.runs)
            made = self._made(self._merged(old, whole))
            self.runs[-count:] = [made] if made.keys else []
            self.doomed += [
                Doomed(retain - 1, run.number, run.height, run.top) for run in old if run.top
            ]

    def _made(self, tables: Iterable[Table]) -> Run:
        self.number += 1
        if self.pages is not None:
            return self.pages.write(self.number, tables)
        table = chained([*tables] or [self._nothing()])
        return Run(self.number, _weight(table), len(table), table.events, table)

    def _nothing(self) -> Table:
        layout = self.layout
        return Table.bare(layout.schema, Keys.none(layout.kind), layout.timed, 0)

    def delete_doomed(self) -> None:
        """Delete what is due with this root; what is not is nearer to it."""
        assert self.pages is not None
        for doomed in self.doomed:
            if doomed.roots <= 0:
                self.pages.delete(doomed)
            doomed.roots -= 1
        self.doomed = [doomed for doomed in self.doomed if doomed.roots >= 0]

    def delete_all(self) -> None:
        """Delete the pages of every run."""
        assert self.pages is not None
        for run in self.runs:
            if run.top is not None:
                self.pages.delete(Doomed(0, run.number, run.height, run.top))
        for doomed in self.doomed:
            self.pages.delete(doomed)
        self.runs, self.young, self.doomed = [], [], []

    def silent(self, until: int) -> Table:
        """What is known of the keys whose newest event is at ``until`` or before.

        Reads the tables that hold an event of that kind which was its key's newest once. Of those
        the indexes are written anew that say from when on it pays to look again.
        """
        tables = [r.table if r.top is None else self._silent_in(r, until) for r in self.runs]
        found = [
            table.take(np.flatnonzero((table.newest() <= until) & (table.counts > 0)))
            for table in [*tables, *self.young]
            if table is not None
        ]
        found = [table for table in found if len(table)]
        known = self.find(join(found, self._late).keys) if found else None
        if known is None:
            return self._nothing()
        return known.take(np.flatnonzero((known.newest() <= until) & (known.counts > 0)))

    def earliest(self) -> int | None:
        """No key's newest event is older than this; None where there are no keys."""
        found = [int(r.top.oldest.min()) for r in self.runs if r.top and r.top.oldest is not None]
        for table in [*self.young, *(run.table for run in self.runs if run.table is not None)]:
            if len(table):
                found.append(int(_newest_of(table).min()))
        return min(found, default=None)

    def _silent_in(self, run: Run, until: int) -> Table | None:
        assert self.pages is not None and run.top is not None
        index = self._leaves(run)
        assert index.oldest is not None
        due = np.flatnonzero(index.oldest <= until)
        if not len(due):
            return None
        return self.pages.tables(run.number, [index.names[at] for at in due.tolist()])


def _in_memory(table: Table) -> Run:
    return Run(0, 0, len(table), table.events, table)


def _weight(table: Table) -> int:
    return int(table.weights.sum())


def _to_merge(weights: Sequence[int]) -> int:
    """How many of the newest runs are to become one; 0 for none."""
    if len(weights) > 1 and (sum(weights[1:]) >= weights[0] or len(weights) > _MOST_RUNS):
        return len(weights)
    tiers = [_tier(weight) for weight in weights]
    same = 0
    # A run that has become lighter than its tier goes along with those after it.
    for tier in reversed(tiers):
        if tier > tiers[-1]:
            break
        same += 1
    return same if same >= 1 << _TIER_BITS else 0


def _tier(weight: int) -> int:
    return ((weight // _FIRST_TIER).bit_length() + _TIER_BITS - 1) // _TIER_BITS


def _cuts(table: Table, weights: np.ndarray, page: int) -> list[int]:
    """Where a table is cut into pages; keys of one hash stay together."""
    ends = np.cumsum(weights)
    number = (ends - weights) // page
    starts = np.flatnonzero(np.diff(number)) + 1
    hashes = table.keys.hashes
    starts = starts[hashes[starts] != hashes[starts - 1]]
    return [0, *starts.tolist(), len(table)]


def _newest_of(table: Table) -> np.ndarray:
    """The time of each key's newest event, the most there is for what can never fall silent."""
    newest = table.newest()
    newest[table.marks == FORGOTTEN] = np.iinfo("i8").max
    return newest


def _between(table: Table, low: int, high: int | None) -> Table:
    hashes = table.keys.hashes
    start = int(np.searchsorted(hashes, np.uint64(low), side="left"))
    stop = len(hashes)
    if high is not None:
        stop = int(np.searchsorted(hashes, np.uint64(high), side="left"))
    return table if (start, stop) == (0, len(table)) else table.cut(start, stop)


def _chained(indexes: Sequence[Index]) -> Index:
    if len(indexes) == 1:
        return indexes[0]
    first = indexes[0]
    return Index(
        np.concatenate([index.firsts for index in indexes]),
        [name for index in indexes for name in index.names],
        None if first.oldest is None else np.concatenate([index.oldest for index in indexes]),
    )
