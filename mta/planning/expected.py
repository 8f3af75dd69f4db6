"""Pages, bytes and store calls of keyed windows, by the rules by which they are written.

One bucket is followed from one base to the next (``mta.keyed.lsm``): each batch is a run, runs are
merged by the very rule that merges them, and a merge of everything ends the cycle. What stands in
a run is what its events are expected to be of distinct keys. In the end all is per micro-batch.

A standalone key writes a leaf page for each ``leaf_arity`` events, and its share of inner pages;
its entry in a run is a snapshot. A micro-batch that touches it reads one page per level.

Counted is what the windows ask of a store. Its caches answer a part of that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, field
from math import ceil, exp, log

from mta.frames import CountWindow
from mta.keyed.lsm import FANOUT, TOP, count_to_merge, pages_at_once
from mta.keyed.windows import INLINE_BYTES
from mta.pages.page import NAME_BYTES
from mta.planning.workload import NUMBER_BYTES, Groups, Workload

#: Batches that are followed one by one; the rest of a longer cycle goes on like them.
_FOLLOWED = 20_000
#: The step of times, in microseconds, where a column of them is shortened.
_STEP = 1_000
#: What the weight of a key in a run is beside its bytes, its times and its values.
_KEY_WEIGHT = 24
#: Snapshots of windows differ in size, so a run of all keys is lighter than the base every other
#: time, and is not merged with it.
_LIGHTER = 1 - 1e-6
#: Bytes of a page beside its columns, and for each of them; of an entry of an index; of a snapshot
#: beside its runs, for each of them, and for each that is pending deletion.
_HEAD, _COLUMN, _ENTRY, _SNAPSHOT, _RUN, _PENDING = 110, 24, 32, 230, 50, 20
#: Of a page of a standalone window beside its events; of its snapshot, for each level, and else.
_WINDOW_PAGE, _LEVEL, _WINDOW = 220, 600, 250


@dataclass(slots=True)
class Traffic:
    """Store calls, and the pages and bytes that they move."""

    calls: float = 0.0
    pages: float = 0.0
    bytes: float = 0.0

    def add(self, calls: float, pages: float, size: float = 0.0) -> None:
        """More of it."""
        self.calls += calls
        self.pages += pages
        self.bytes += size

    def times(self, factor: float) -> Traffic:
        """So many times as much."""
        return Traffic(*(factor * each for each in astuple(self)))


@dataclass(slots=True)
class Expected:
    """What one bucket takes: what there is, and what a micro-batch does on average."""

    pages: float = 0.0
    bytes: float = 0.0
    snapshot_bytes: float = 0.0
    runs: float = 0.0
    keys: float = 0.0
    """Keys that a micro-batch touches."""
    get: Traffic = field(default_factory=Traffic)
    put: Traffic = field(default_factory=Traffic)
    delete: Traffic = field(default_factory=Traffic)


@dataclass(frozen=True, slots=True)
class _Run:
    """A run by what it is expected to hold; ``rows`` came to it."""

    rows: float
    keys: float
    weight: float
    pages: float
    bytes: float

    @property
    def height(self) -> int:
        """How many levels of indexes are above its tables, beside the one in the snapshot."""
        return max(0, ceil(log(max(self.pages, 1) / TOP, FANOUT)))

    @property
    def above(self) -> list[float]:
        """How many pages each of these levels has, the lowest first."""
        return [ceil(self.pages / FANOUT**level) for level in range(1, self.height + 1)]

    @property
    def top(self) -> float:
        """How many pages a snapshot names."""
        return self.pages / float(FANOUT**self.height)

    @property
    def all_pages(self) -> float:
        return self.pages + sum(self.above)

    @property
    def all_bytes(self) -> float:
        return self.bytes + _ENTRY * self.pages


class _Bucket:
    """One bucket, batch by batch."""

    def __init__(self, work: Workload) -> None:
        self.work, self.found = work, Expected()
        self._groups = Groups.of(work) if work.is_standalone else None
        self.base = self._run(None)
        self.runs = [self.base]
        self._memtable = 0.0
        #: What the last snapshots merged, the newest last; it is deleted later.
        self._merged: list[list[_Run]] = [[] for _ in range(work.retain)]

    # --- runs -----------------------------------------------------------------------------------

    def _run(self, rows: float | None) -> _Run:
        """A run to which so many events came; the base for None."""
        work, groups = self.work, self._groups
        keys = work.keys if rows is None else work.distinct(rows)
        if groups is not None:
            events, extra = keys, self._window_snapshot(groups)
        else:
            events, extra = self._events(rows, keys), 0.0
        key_bytes = work.key_bytes or NUMBER_BYTES
        weight = keys * (_KEY_WEIGHT + key_bytes + extra) + events * work.row_bytes
        if rows is not None:
            weight *= _LIGHTER
        pages = max(1.0, min(keys, weight / work.page_bytes))
        per_page = events / pages
        ends = _width(per_page)
        per_key = NUMBER_BYTES + ends + extra
        if work.key_bytes:
            per_key += work.key_bytes + _width(keys / pages * work.key_bytes)
        if rows is None or groups is not None:
            per_key += 2  # how many events have left, and a mark
        if groups is not None:
            per_key += 4
        per_event = self._time_bytes(rows) + NUMBER_BYTES * work.aggregations
        head = _HEAD + _COLUMN * (9 + work.aggregations)
        size = pages * head + keys * per_key + events * per_event
        return _Run(self._all_rows if rows is None else rows, keys, weight, pages, size)

    @property
    def _all_rows(self) -> float:
        return max(self.work.events, 50 * self.work.keys)

    def _events(self, rows: float | None, keys: float) -> float:
        """How many events of so many are retained."""
        work = self.work
        if rows is None:
            return work.events
        if isinstance(work.window, CountWindow):
            return work.keys * _least(work.window.size, rows / work.keys)
        return min(rows, keys * work.events_per_key)

    def _time_bytes(self, rows: float | None) -> int:
        """How many bytes a time takes in the columns of a run."""
        rate = self.work.events_per_second
        seconds = (self.work.events if rows is None else rows) / rate
        return max(1, _width(seconds * 1_000_000 / _STEP))

    def _window_snapshot(self, groups: Groups) -> float:
        """Bytes of the snapshot of a standalone window, whose open leaf group is half full."""
        return groups.leaf_bytes / 2 + _LEVEL * groups.levels + _WINDOW

    # --- a batch --------------------------------------------------------------------------------

    def follow(self) -> Expected:
        """From one base to the next, or as far as is followed; all on average."""
        steps = 0
        while len(self.runs) > 1 or not steps:
            self._find()
            if self._groups is not None:
                self._extend_windows(self._groups)
                self._find()  # the entries of their snapshots
            done = self._write()
            steps += 1
            self._note()
            if done or steps == _FOLLOWED:
                break
        found, share = self.found, 1 / steps
        if not done:
            added = sum(run.weight for run in self.runs[1:]) / steps
            share_of_merge = steps * added / max(self.base.weight, 1)
            self._merge(self.runs, share_of_merge)
        for name in ("pages", "bytes", "snapshot_bytes", "runs"):
            setattr(found, name, getattr(found, name) * share)
        found.get, found.put = found.get.times(share), found.put.times(share)
        found.delete = found.delete.times(share)
        found.keys = self.work.distinct(self.work.rows)
        return found

    def _find(self) -> None:
        """Look for the keys of a batch in all runs."""
        keys = self.work.distinct(self.work.rows)
        height = max(run.height for run in self.runs)
        pages = size = 0.0
        for run in self.runs:
            touched = _touched(run.pages, keys)
            pages += touched + sum(_touched(each, keys) for each in run.above)
            size += run.bytes * touched / run.pages
            size += _ENTRY * run.pages if run.height else 0
        self.found.get.add(height + 1, pages, size)

    def _extend_windows(self, groups: Groups) -> None:
        """What standalone windows read and write."""
        work = self.work
        keys = work.distinct(work.rows)
        leaves = work.rows / groups.leaf_arity
        pages = leaves * groups.pages_per_leaf
        size = groups.leaf_bytes + _WINDOW_PAGE
        reads = keys * groups.levels
        if work.window.needs_times:  # where a front comes to another leaf, it is looked for there
            reads += min(keys, leaves)
        self.found.get.add(reads, reads, reads * size)
        self.found.put.add(leaves, pages, pages * size)
        self.found.delete.add(min(keys, leaves), pages)

    def _write(self) -> bool:
        """A snapshot: what has come is a run, and runs are merged; whether all were."""
        self._memtable += self.work.rows
        run = self._run(self._memtable)
        gone: list[_Run] = []
        if run.weight > INLINE_BYTES:
            self._put(run)
            self.runs.append(run)
            self._memtable = 0.0
        whole = False
        while (count := count_to_merge([int(run.weight) for run in self.runs])) > 1:
            old = self.runs[-count:]
            whole = count == len(self.runs)
            gone += old
            self.runs[-count:] = [self._merge(old)]
            if whole:
                break
        self._merged = [*self._merged[1:], gone]
        return whole

    def _merge(self, old: Sequence[_Run], share: float = 1.0) -> _Run:
        """Runs as one: all of them are read, written, and deleted later."""
        whole = old[0] is self.runs[0]
        new = self._run(None if whole else sum(run.rows for run in old))
        work, found = self.work, self.found
        pages = sum(run.pages for run in old)
        ranges = ceil(pages / pages_at_once(work.page_bytes))
        levels = sum(run.height for run in old)
        found.get.add(
            share * (levels + ranges),
            share * sum(run.all_pages for run in old),
            share * sum(run.all_bytes for run in old),
        )
        self._put(new, ranges, share)
        found.delete.add(
            share * sum(run.height + 1 for run in old), share * sum(run.all_pages for run in old)
        )
        found.get.add(share * levels, share * sum(sum(run.above) for run in old))
        return new

    def _put(self, run: _Run, calls: float = 1, share: float = 1.0) -> None:
        calls += run.height
        self.found.put.add(share * calls, share * run.all_pages, share * run.all_bytes)

    def _note(self) -> None:
        """What there is after a batch."""
        found, groups, work = self.found, self._groups, self.work
        pending = [run for gone in self._merged for run in gone]
        pages = sum(run.all_pages for run in [*self.runs, *pending])
        size = sum(run.all_bytes for run in [*self.runs, *pending])
        if groups is not None:
            waiting = work.rows * work.retain
            # The front is within a leaf, and one is retained before it.
            leaves = (work.events + waiting) / groups.leaf_arity + work.keys
            own = leaves * groups.pages_per_leaf
            pages += own
            size += own * (groups.leaf_bytes + _WINDOW_PAGE)
        found.pages += pages
        found.bytes += size
        found.runs += len(self.runs)
        memtable = self._run(self._memtable).bytes if self._memtable else 0.0
        found.snapshot_bytes += _SNAPSHOT + _RUN * len(self.runs) + memtable
        found.snapshot_bytes += _ENTRY * sum(run.top for run in self.runs)
        found.snapshot_bytes += sum(_PENDING + NAME_BYTES * run.top for run in pending)


def expected(work: Workload) -> Expected:
    """What the windows of one bucket take. Raises nothing; O(batches in a window), in memory."""
    return _Bucket(work).follow()


def _touched(pages: float, keys: float) -> float:
    """How many of some pages hold one of so many random keys."""
    return pages * (1 - exp(-keys / pages))


def _width(most: float) -> int:
    """How many bytes integers up to one take, as ``mta.kernels.ranges`` shortens them."""
    return next(width for width in (1, 2, 4, 8) if most < 1 << 8 * width or width == 8)


def _least(size: int, mean: float) -> float:
    """The mean of the lesser of a size and a number of events that has a mean."""
    if mean > 4 * size or mean > 700:
        return min(size, mean)
    chance, below = exp(-mean), 0.0
    for count in range(size):
        below += chance * (size - count)
        chance *= mean / (count + 1)
    return size - below
