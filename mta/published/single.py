"""The lookup of a single key: like ``LSMTree.find`` and ``results_at``, without their columns.

Most requests are for one key as of now. For columns of one row, numpy takes many times as long as
the store. So this module cuts the events of one key out of the pages (``mta.keyed.leaves`` has
their format), and computes each window with one fold. Other cases are left to the general method,
which returns the same results: keys with a standalone window, values without a fixed number of
bytes, and moments before the key's newest event.
"""

from __future__ import annotations

import struct
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import itemgetter
from struct import Struct
from typing import Any, TypeVar

import msgpack
import numpy as np

from mta.columns.reading import results_each
from mta.columns.schemas import Array, Record, Rows, Schema
from mta.errors import CorruptPage, MissingPage
from mta.folds.blocks import fold_ranges
from mta.frames.base import AbstractPolicy, Both
from mta.frames.windows import CountWindow, TimeFrame
from mta.kernels import native
from mta.kernels.ranges import Buffer
from mta.keyed import pages
from mta.keyed.key_types import WHOLE
from mta.keyed.leaves import MAGIC, VERSION, TableLayout
from mta.keyed.lsm import PageSize, Place, Run, RunPages
from mta.keyed.pages import Index
from mta.keyed.table import ALL, MORE, STANDALONE, Table
from mta.monoids.base import AbstractMonoid, as_output
from mta.pages.page import key_of, keys_of
from mta.published.lookups import Steps
from mta.published.pages import ReadOnlyPages

_HEAD = Struct("<8s6q")
#: The types of offsets by their bytes.
_OFFSETS = {width: np.dtype(f"<u{width or 1}") for width in (0, 1, 2, 4, 8)}
_KEY_ENDS, _KEY_BYTES, _MARKS, _, _ENDS, _TIMES, _VALUES = (*range(1, 7), 9)
#: The number of indexes that stay decoded, with up to FANOUT entries each.
_INDEXES = 2048
#: The errors that reading a forged page can raise.
_MALFORMED = (
    ValueError, TypeError, KeyError, ArithmeticError, struct.error, msgpack.UnpackException
)  # fmt: skip
T = TypeVar("T")


class NotSimple(Exception):
    """The general method must answer."""


class Indexes:
    """Decoded indexes, the least recently used first; shared by all snapshots."""

    def __init__(self) -> None:
        self._known: OrderedDict[bytes, Index] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, name: bytes) -> Index | None:
        """Return a decoded index by its digest, None if it is not known."""
        with self._lock:
            found = self._known.get(name)
            if found is not None:
                self._known.move_to_end(name)
            return found

    def keep(self, name: bytes, index: Index) -> None:
        """Keep a decoded index."""
        with self._lock:
            self._known[name] = index
            if len(self._known) > _INDEXES:
                self._known.popitem(last=False)


class IndexedPages(RunPages):
    """The pages of runs, for reading; indexes stay decoded. For any number of threads.

    ``store`` has checked that pages match their names.
    """

    def __init__(self, store: ReadOnlyPages, layout: TableLayout, known: Indexes) -> None:
        super().__init__(store, layout, PageSize(1, 0))
        self._known = known

    def see(self, places: Sequence[Place], see: Callable[[list[Buffer]], T]) -> T:
        """Return what ``see`` returns for pages; one ``view_many``.

        Raises MissingPage and CorruptPage.
        """
        keys = keys_of(self.layout.window, places)
        return self.store.view_many(keys, lambda found: see(self.require_all(places, found)))

    def require_all(self, places: Sequence[Place], found: list[Any]) -> list[Buffer]:
        """Return pages that were read. Raises MissingPage if one is None."""
        for place, page in zip(places, found, strict=True):
            if page is None:
                raise MissingPage.of(key_of(self.layout.window, *place), self.store)
        return found

    def indexes(self, places: Sequence[Place]) -> list[Index]:
        """Return the indexes at some places; one ``view_many`` for those that are not known."""
        found = {name: self._known.get(name) for _, _, name in places}
        missing = [place for place in places if found[place[2]] is None]
        if missing:
            read = self.see(missing, lambda pages: self.read_indexes(missing, pages))
            found.update((place[2], index) for place, index in zip(missing, read, strict=True))
        return [index for _, _, name in places if (index := found[name]) is not None]

    def read_indexes(self, places: Sequence[Place], found: list[Any]) -> list[Index]:
        """Decode pages as indexes, and keep these. Raises MissingPage and CorruptPage."""
        read: list[Index] = self.decoded(places, self.require_all(places, found))
        for (_, _, name), index in zip(places, read, strict=True):
            self._known.keep(name, index)
        return read


@dataclass(slots=True)
class Events:
    """A key's events in order."""

    rows: Rows
    times: np.ndarray | None
    count: int


class _TablePage:
    """The entry of a key in a page of a table; little else of the page is read.

    ``packed`` has the bytes of the key, if other keys may have the same hash. Raises CorruptPage
    and ValueError.
    """

    def __init__(self, page: Any, run: int, key: bytes, packed: bytes | None) -> None:
        magic, version, number, keys, self._count, columns, self._label = _HEAD.unpack_from(page)
        self._first = _HEAD.size + 24 * columns + self._label
        whole = columns >= _VALUES and self._label >= 0 and keys >= 0
        if (magic, version, number) != (MAGIC, VERSION, run) or not whole:
            raise CorruptPage("it is not a table of its run")
        self._page, self._keys, self._columns = page, keys, columns
        self._heads: tuple[int, ...] = ()
        self._starts: list[int] = []
        #: The place of the key, None if the page does not have the key.
        self.place = self._find(key, packed)

    def _find(self, key: bytes, packed: bytes | None) -> int | None:
        hashes = bytes(self._page[self._first : self._first + 8 * self._keys])
        at = hashes.find(key)
        while at >= 0:
            place, odd = divmod(at, 8)
            if not odd:
                if not self._heads:
                    self._read_heads()
                if packed is None or self._key(place) == packed:
                    return place
            at = hashes.find(key, at + 1)
        return None

    def _read_heads(self) -> None:
        #: Base, unit and bytes of each column.
        self._heads = struct.unpack_from(f"<{3 * self._columns}q", self._page, _HEAD.size)
        sizes = self._heads[2::3]
        self._starts = [*accumulate(sizes, initial=self._first)]
        if self._starts[-1] != len(self._page) or min(sizes) < 0 or sizes[0] != 8 * self._keys:
            raise CorruptPage("its columns have other lengths than it declares")

    def _key(self, place: int) -> bytes:
        origin, keys = self._starts[_KEY_BYTES], self._keys
        start, stop = (self._number(_KEY_ENDS, place + i, keys + 1) for i in (0, 1))
        return bytes(self._page[origin + start : origin + stop])

    def _number(self, column: int, at: int, of: int) -> int:
        base, unit, size = self._heads[3 * column : 3 * column + 3]
        width = size // of
        if width * of != size or not 0 <= at < of:
            raise CorruptPage("the length of a column does not match its numbers")
        begin = self._starts[column] + width * at
        return base + unit * int.from_bytes(self._page[begin : begin + width], "little")

    @property
    def label(self) -> bytes:
        """Return the bytes that name the window of the page and the kinds of its value columns."""
        return bytes(self._page[self._first - self._label : self._first])

    def mark(self, place: int) -> int:
        """Return what the table says about older tables (``mta.keyed.table``)."""
        return self._number(_MARKS, place, self._keys)

    def events(self, place: int, layout: TableLayout, kinds: Sequence[str]) -> Events:
        """Return the events of a key, whose value columns have these kinds."""
        if self._columns != _VALUES + len(kinds):
            raise CorruptPage("it has the wrong number of columns")
        start, stop = (self._number(_ENDS, place + i, self._keys + 1) for i in (0, 1))
        if not 0 <= start <= stop <= self._count:
            raise CorruptPage("a key has more events than the page")
        times = None
        if layout.timed:
            base, unit, size = self._heads[3 * _TIMES : 3 * _TIMES + 3]
            width = size // max(self._count, 1)
            begin = self._starts[_TIMES] + width * start
            offsets = np.frombuffer(self._page, _OFFSETS[width], stop - start, begin)
            times = offsets.astype(np.int64)
            times *= unit
            times += base
        payloads = []
        for column, kind in enumerate(kinds, _VALUES):
            origin, width = self._starts[column], self._heads[3 * column + 2] // max(self._count, 1)
            payloads.append(
                (kind, bytes(self._page[origin + width * start : origin + width * stop]))
            )
        rows = layout.schema.load(iter(payloads), stop - start)
        return Events(rows, times, stop - start)


class SingleKeys:
    """Looks up single keys in a snapshot; for any number of threads."""

    def __init__(
        self,
        layout: TableLayout,
        runs: Sequence[Run],
        memtable: Table | None,
        late: bool,
        pages: IndexedPages,
        indexes: Indexes,
    ) -> None:
        self._layout, self._memtable, self._late = layout, memtable, late
        self._pages, self._indexes = pages, indexes
        self._tops = [(run.height, run.number, run.top) for run in runs]  # the oldest run first
        self.is_simple = _is_fixed(layout.schema)
        self._labels: dict[bytes, list[str]] = {}

    def find(self, hashed: int, packed: bytes) -> Steps[Events | None]:
        """Return the events of a key, None if it has none; one step per level that is not cached.

        Raises NotSimple, MissingPage and CorruptPage.
        """
        key, tables = np.uint64(hashed), list[Place]()
        level = self._tops
        while level:
            above: list[Place] = []
            for height, number, index in level:
                at = int(index.firsts.searchsorted(key, "right")) - 1
                if at >= 0:
                    place = (height, number, index.names[at].item())
                    (above if height else tables).append(place)
            known = [self._indexes.get(name) for _, _, name in above]
            missing = [place for place, index in zip(above, known, strict=True) if index is None]
            if missing:
                found = yield self._keys(missing)
                read = iter(self._pages.read_indexes(missing, found))
                known = [next(read) if index is None else index for index in known]
            level = [
                (height - 1, number, index)
                for (height, number, _), index in zip(above, known, strict=True)
                if index is not None
            ]
        parts: list[Events] = []
        if tables:
            tables.sort(key=itemgetter(1))  # the oldest run first
            found = yield self._keys(tables)
            parts = self._cut(tables, found, hashed, packed)
        parts = self._with_memtable(parts, key, packed)
        if not parts:
            return None
        return parts[0] if len(parts) == 1 else self._joined(parts)

    def _keys(self, places: Sequence[Place]) -> list[str]:
        return keys_of(self._layout.window, places)

    def _cut(
        self, places: list[Place], found: list[Any], hashed: int, packed: bytes
    ) -> list[Events]:
        """Return the events of the key in some tables, the oldest table first."""
        parts, key = list[Events](), hashed.to_bytes(8, "little")
        for place, page in zip(places, self._pages.require_all(places, found), strict=True):
            try:
                entry = self._entry(page, place[1], key, packed)
            except _MALFORMED as error:
                raise pages.damaged(self._layout, *place, error) from error
            if entry is not None:
                mark, events = entry
                _take(parts, mark, events)
        return parts

    def _entry(self, page: Any, run: int, key: bytes, packed: bytes) -> tuple[int, Events] | None:
        """Return the mark and the events of the key in a table, None if it is not there."""
        table = _TablePage(page, run, key, None if self._layout.kind in WHOLE else packed)
        place = table.place
        if place is None:
            return None
        kinds = self._kinds(table.label)
        return table.mark(place), table.events(place, self._layout, kinds)

    def _kinds(self, label: bytes) -> list[str]:
        """Return the kinds of the value columns in a label; each label is decoded once."""
        kinds = self._labels.get(label)
        if kinds is None:
            window, kinds = msgpack.unpackb(label)
            if window != self._layout.window or any(type(kind) is not str for kind in kinds):
                raise CorruptPage(f"it is the page of {window!r}")
            self._labels[label] = kinds
        return kinds

    def _with_memtable(self, parts: list[Events], key: np.uint64, packed: bytes) -> list[Events]:
        """Return the parts together with the key's events in the snapshot's memtable."""
        table = self._memtable
        if table is None:
            return parts
        hashes = table.keys.hashes
        place = int(hashes.searchsorted(key))
        while place < len(hashes) and hashes[place] == key:
            if table.keys.packed(place) == packed:
                start, stop = int(table.bounds[place]), int(table.bounds[place + 1])
                times = None if table.times is None else table.times[start:stop]
                rows = table.schema.cut(table.rows, start, stop)
                _take(parts, int(table.marks[place]), Events(rows, times, stop - start))
                break
            place += 1
        return parts

    def _joined(self, parts: list[Events]) -> Events:
        """Join parts that are in order of age; in order of time if events may come late."""
        schema, count = self._layout.schema, sum(part.count for part in parts)
        rows, at = schema.new(count), 0
        for part in parts:
            schema.put_many(rows, at, part.rows)
            at += part.count
        moments = [part.times for part in parts if part.times is not None]
        if not moments:
            return Events(rows, None, count)
        times = np.concatenate(moments)
        if self._late and (times[1:] < times[:-1]).any():
            order = np.argsort(times, kind="stable")
            rows, times = schema.take(rows, order), times[order]
        return Events(rows, times, count)


def _take(parts: list[Events], mark: int, events: Events) -> None:
    """Add the events of a key in a newer table. Raises NotSimple."""
    if mark == STANDALONE or mark not in (MORE, ALL):
        raise NotSimple
    if mark == ALL:
        parts.clear()
    if events.count:
        parts.append(events)


def results_of(
    monoid: AbstractMonoid,
    outputs: AbstractMonoid,
    policies: Sequence[AbstractPolicy],
    events: Events,
    moment: int | None,
) -> list[Any]:
    """Return the result of each window of one key at a moment, by default at its newest event.

    ``monoid`` computes the results, and ``outputs`` converts them for users. Raises NotSimple for a
    moment before the newest event.
    """
    count, times = events.count, events.times
    if times is not None:
        newest = int(times[-1])
        if moment is None:
            moment = newest
        elif moment < newest:
            raise NotSimple
    frames = [_frame(policy, times, count, moment) for policy in policies]
    rows = monoid.lower_rows(_folds(monoid, monoid.lift_rows(events.rows, count), count, frames))
    for place, (start, stop) in enumerate(frames):
        if start == stop:  # time has emptied the window
            outputs.outputs.put(rows, place, as_output(outputs.empty))
    return results_each(outputs.results(rows), len(policies))


def _folds(
    monoid: AbstractMonoid, lifted: Rows, count: int, frames: Sequence[tuple[int, int]]
) -> Rows:
    """Return the fold of each frame of some partials, as partials."""
    if count <= native.LONGEST:
        starts, stops = np.array(frames).T
        if (starts < stops).all():
            return fold_ranges(monoid, lifted, count, starts, stops - starts)
    partials = monoid.partials
    folds = partials.new(len(frames))
    for place, (start, stop) in enumerate(frames):
        fold = monoid.fold(partials.cut(lifted, start, stop), stop - start)
        partials.put(folds, place, fold)
    return folds


def _frame(
    policy: AbstractPolicy, times: np.ndarray | None, count: int, moment: int | None
) -> tuple[int, int]:
    """Return where the frame of a moment starts, and the place after its last event."""
    stop = max(0, count - policy.end.rows)
    if policy.end.delay:
        assert times is not None and moment is not None
        stop = int(times.searchsorted(moment - policy.end.delay, "right"))
    return min(max(0, _front(policy, times, count, moment)), stop), stop


def _front(policy: AbstractPolicy, times: np.ndarray | None, count: int, moment: int | None) -> int:
    if isinstance(policy, Both):
        sides = [_front(side, times, count, moment) for side in (policy.one, policy.other)]
        return max(sides) if policy.any_of else min(sides)
    if isinstance(policy, CountWindow):
        return count - policy.end.rows - policy.size
    assert isinstance(policy, TimeFrame) and times is not None and moment is not None
    return int(times.searchsorted(policy.start(moment), "right"))


def _is_fixed(schema: Schema) -> bool:
    """Return whether each value takes a fixed number of bytes in one column."""
    if isinstance(schema, Record):
        return all(map(_is_fixed, schema.schemas))
    return isinstance(schema, Array)
