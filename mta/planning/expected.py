"""A workload to plan for, and its pages, bytes and store calls, by the rules of ``mta.keyed``.

Keys are assumed to be random, equally frequent, and to have events at a constant rate. A stream
with few frequent keys among many idle ones takes less than the estimate, because each micro-batch
has events of fewer keys.

The estimate follows one bucket from one base to the next (``mta.keyed.lsm``). Each batch becomes a
run. Runs are merged by the same function as in ``mta.keyed``, and a merge of all runs ends the
cycle. The size of a run follows from the expected number of distinct keys among its events. The
totals are then averaged per micro-batch.

A standalone key writes a leaf page for each ``leaf_arity`` events, and its share of inner pages.
Its entry in a run is a snapshot. A micro-batch with rows of the key reads one page per level.

The counts are what windows request. Caches of the store answer a part of these requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, field, replace
from math import ceil, exp, expm1, log

from mta.frames import CountWindow, TimeWindow
from mta.keyed.lsm import FANOUT, TOP, count_to_merge, pages_at_once
from mta.keyed.standalone import grown, small_groups
from mta.keyed.windows import INLINE_BYTES
from mta.monoids.basic import Max
from mta.monoids.product import Product
from mta.pages import NAME_BYTES

_MICROS = 1_000_000
#: The bytes of a double, and of a time.
NUMBER_BYTES = 8


@dataclass(frozen=True, slots=True)
class Workload:
    """A stream, its windows, and how they are stored.

    - ``keys``: the number of different keys with events in a window;
    - ``events_per_second``: the rate of all keys together;
    - ``window``: a time or count window;
    - ``aggregations``: their number, each over its own column of doubles;
    - ``batch_seconds``: the time from one micro-batch and its snapshot to the next;
    - ``key_bytes``: the length of a key; 0 for integers;
    - ``page_bytes``, ``promote_at``, ``retain``: as for ``KeyedWindows``.
    """

    keys: float
    events_per_second: float
    window: TimeWindow | CountWindow
    aggregations: int = 1
    batch_seconds: float = 10.0
    key_bytes: int = 0
    page_bytes: int = 1 << 14
    promote_at: int = 1024
    retain: int = 2

    def of_bucket(self, buckets: int) -> Workload:
        """Return the share of one of several buckets."""
        rate = self.events_per_second / buckets
        return replace(self, keys=self.keys / buckets, events_per_second=rate)

    @property
    def rows(self) -> float:
        """Return the number of events in a micro-batch."""
        return self.events_per_second * self.batch_seconds

    @property
    def events_per_key(self) -> float:
        """Return how many events a key retains: its newest one, and its window before that."""
        if isinstance(self.window, CountWindow):
            return self.window.size
        lifetime = self.window.lifetime
        assert lifetime is not None
        return 1 + self.events_per_second / self.keys * lifetime / _MICROS

    @property
    def events(self) -> float:
        return self.keys * self.events_per_key

    @property
    def is_standalone(self) -> bool:
        """Return whether keys have so many events that each is standalone."""
        return self.events_per_key > self.promote_at

    def distinct(self, rows: float) -> float:
        """Return the expected number of different keys among some events."""
        return -self.keys * expm1(-rows / self.keys)


@dataclass(frozen=True, slots=True)
class Groups:
    """How the events of a standalone window are divided into pages."""

    leaf_arity: int
    arity: int
    levels: int
    leaf_bytes: int

    @classmethod
    def of(cls, work: Workload) -> Groups:
        columns = {f"{n}": (f"{n}", Max()) for n in range(work.aggregations)}
        leaf_arity, arity = small_groups(Product(columns), work.window)
        per_batch = work.rows / work.distinct(work.rows)
        leaf_arity = grown(leaf_arity, int(max(work.promote_at + 1, per_batch)))
        groups, levels = work.events_per_key / leaf_arity, 1
        while groups > arity:
            groups, levels = groups / arity, levels + 1
        times = NUMBER_BYTES if work.window.needs_times else 0
        row_bytes = times + NUMBER_BYTES * work.aggregations
        return cls(leaf_arity, arity, levels, leaf_arity * row_bytes)

    @property
    def pages_per_leaf(self) -> float:
        """Return the pages per leaf: the leaf page, and its share of inner pages."""
        return self.arity / (self.arity - 1)


#: The most batches that are followed one by one; a longer cycle is extrapolated from them.
_FOLLOWED = 20_000
#: The resolution of times in columns, in microseconds.
_STEP = 1_000
#: The weight of a key in a run, without its bytes, times and values.
_KEY_WEIGHT = 24
#: Snapshots of windows differ in size, so a run of all keys is lighter than the base in half of
#: all cases, and is then not merged with it.
_LIGHTER = 1 - 1e-6
#: Bytes of a page without its columns, of each column, of an index entry, of a snapshot without its
#: runs, of each run in it, and of each run pending deletion.
_HEAD, _COLUMN, _ENTRY, _SNAPSHOT, _RUN, _PENDING = 110, 24, 32, 230, 50, 20
#: Bytes of a standalone window's page without its events; of its snapshot per level, and otherwise.
_WINDOW_PAGE, _LEVEL, _WINDOW = 220, 600, 250


@dataclass(slots=True)
class Traffic:
    """Store calls, and the pages and bytes that they move."""

    calls: float = 0.0
    pages: float = 0.0
    bytes: float = 0.0

    def add(self, calls: float, pages: float, size: float = 0.0) -> None:
        self.calls += calls
        self.pages += pages
        self.bytes += size

    def times(self, factor: float) -> Traffic:
        return Traffic(*(factor * each for each in astuple(self)))


@dataclass(slots=True)
class Expected:
    """The expected totals of one bucket, and the average work of a micro-batch."""

    pages: float = 0.0
    bytes: float = 0.0
    snapshot_bytes: float = 0.0
    keys: float = 0.0
    """Keys with rows in a micro-batch."""
    get: Traffic = field(default_factory=Traffic)
    put: Traffic = field(default_factory=Traffic)
    delete: Traffic = field(default_factory=Traffic)


@dataclass(frozen=True, slots=True)
class _Run:
    """The expected contents of a run; ``rows`` events were added to it."""

    rows: float
    keys: float
    weight: float
    pages: float
    bytes: float

    @property
    def height(self) -> int:
        """Return the number of index levels above its tables, without the one in the snapshot."""
        return max(0, ceil(log(max(self.pages, 1) / TOP, FANOUT)))

    @property
    def above(self) -> list[float]:
        """Return the number of pages of each of these levels, the lowest first."""
        return [ceil(self.pages / FANOUT**level) for level in range(1, self.height + 1)]

    @property
    def top(self) -> float:
        """Return the number of pages that a snapshot names."""
        return self.pages / float(FANOUT**self.height)

    @property
    def all_pages(self) -> float:
        return self.pages + sum(self.above)

    @property
    def all_bytes(self) -> float:
        return self.bytes + _ENTRY * self.pages


class _Bucket:
    """One bucket, followed batch by batch."""

    def __init__(self, work: Workload) -> None:
        self.work, self.found = work, Expected()
        self._groups = Groups.of(work) if work.is_standalone else None
        self.base = self._run(None)
        self.runs = [self.base]
        self._memtable = 0.0
        #: The runs that each of the last snapshots merged, the newest last; they are deleted later.
        self._merged: list[list[_Run]] = [[] for _ in range(work.retain)]

    def _run(self, rows: float | None) -> _Run:
        """Return a run of this many events; the base for None."""
        work, groups = self.work, self._groups
        keys = work.keys if rows is None else work.distinct(rows)
        if groups is not None:
            # With a half-full open leaf group.
            events, extra = keys, groups.leaf_bytes / 2 + _LEVEL * groups.levels + _WINDOW
        else:
            events, extra = self._events(rows, keys), 0.0
        key_bytes = work.key_bytes or NUMBER_BYTES
        row_bytes = NUMBER_BYTES * (1 + work.aggregations)
        weight = keys * (_KEY_WEIGHT + key_bytes + extra) + events * row_bytes
        if rows is not None:
            weight *= _LIGHTER
        pages = max(1.0, min(keys, weight / work.page_bytes))
        per_key = NUMBER_BYTES + _width(events / pages) + extra
        if work.key_bytes:
            per_key += work.key_bytes + _width(keys / pages * work.key_bytes)
        if rows is None or groups is not None:
            per_key += 2  # the number of events that have left, and a mark
        if groups is not None:
            per_key += 4
        seconds = (work.events if rows is None else rows) / work.events_per_second
        per_event = max(1, _width(seconds * _MICROS / _STEP)) + NUMBER_BYTES * work.aggregations
        head = _HEAD + _COLUMN * (9 + work.aggregations)
        size = pages * head + keys * per_key + events * per_event
        added = max(work.events, 50 * work.keys) if rows is None else rows
        return _Run(added, keys, weight, pages, size)

    def _events(self, rows: float | None, keys: float) -> float:
        """Return how many of these events are retained."""
        work = self.work
        if rows is None:
            return work.events
        if isinstance(work.window, CountWindow):
            return work.keys * _least(work.window.size, rows / work.keys)
        return min(rows, keys * work.events_per_key)

    def follow(self) -> Expected:
        """Follow the bucket for one cycle, or ``_FOLLOWED`` batches; return averages."""
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
        if not done:
            added = sum(run.weight for run in self.runs[1:]) / steps
            self._merge(self.runs, share=steps * added / max(self.base.weight, 1))
        found, share = self.found, 1 / steps
        return Expected(
            share * found.pages, share * found.bytes, share * found.snapshot_bytes,
            self.work.distinct(self.work.rows),
            found.get.times(share), found.put.times(share), found.delete.times(share),
        )  # fmt: skip

    def _find(self) -> None:
        """Count the search for the keys of a batch in all runs."""
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
        """Count the reads and writes of standalone windows."""
        work = self.work
        keys = work.distinct(work.rows)
        leaves = work.rows / groups.leaf_arity
        pages = leaves * groups.pages_per_leaf
        size = groups.leaf_bytes + _WINDOW_PAGE
        reads = keys * groups.levels
        if work.window.needs_times:  # the front is searched in a leaf that it reaches
            reads += min(keys, leaves)
        self.found.get.add(reads, reads, reads * size)
        self.found.put.add(leaves, pages, pages * size)
        self.found.delete.add(min(keys, leaves), pages)

    def _write(self) -> bool:
        """Count the new run of a snapshot, and merges; return whether all runs were merged."""
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
        """Return the merge of runs, and count the reads, writes and later deletions."""
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
        """Add what exists after a batch to the totals."""
        found, groups, work = self.found, self._groups, self.work
        pending = [run for gone in self._merged for run in gone]
        pages = sum(run.all_pages for run in [*self.runs, *pending])
        size = sum(run.all_bytes for run in [*self.runs, *pending])
        if groups is not None:
            waiting = work.rows * work.retain
            # The front is inside a leaf, and one leaf before it is retained.
            leaves = (work.events + waiting) / groups.leaf_arity + work.keys
            own = leaves * groups.pages_per_leaf
            pages += own
            size += own * (groups.leaf_bytes + _WINDOW_PAGE)
        found.pages += pages
        found.bytes += size
        memtable = self._run(self._memtable).bytes if self._memtable else 0.0
        found.snapshot_bytes += _SNAPSHOT + _RUN * len(self.runs) + memtable
        found.snapshot_bytes += _ENTRY * sum(run.top for run in self.runs)
        found.snapshot_bytes += sum(_PENDING + NAME_BYTES * run.top for run in pending)


def expected(work: Workload) -> Expected:
    """Return what the windows of one bucket take; O(batches in a window), in memory."""
    return _Bucket(work).follow()


def _touched(pages: float, keys: float) -> float:
    """Return the expected number of pages that contain any of some random keys."""
    return pages * (1 - exp(-keys / pages))


def _width(most: float) -> int:
    """Return how many bytes an integer up to ``most`` takes (``mta.kernels.native``)."""
    return next(width for width in (1, 2, 4, 8) if most < 1 << 8 * width or width == 8)


def _least(size: int, mean: float) -> float:
    """Return the mean of min(size, n) for a random number n of events with a given mean."""
    if mean > 4 * size or mean > 700:
        return min(size, mean)
    chance, below = exp(-mean), 0.0
    for count in range(size):
        below += chance * (size - count)
        chance *= mean / (count + 1)
    return size - below
