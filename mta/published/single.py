"""One key looked up by itself: as ``LSMTree.find`` and ``results_at``, without their columns.

Most requests are for one key as of now. What numpy takes for columns of one row is many times what
the store takes, so here one key's events are cut out of the pages as they lie (their format is in
``mta.keyed.leaves``), and each window is one fold. What is not simple is left to the general way,
which answers alike: keys with a window of their own, values of other than a fixed number of bytes,
and moments before the key's newest event.
"""

from __future__ import annotations

import struct
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from struct import Struct
from typing import Any

import msgpack
import numpy as np

from mta.columns.reading import result_of
from mta.columns.schemas import Array, Record, Rows, Schema
from mta.errors import CorruptPage, MissingPage
from mta.frames.base import AbstractPolicy, Both
from mta.frames.windows import CountWindow, TimeFrame
from mta.keyed import pages
from mta.keyed.key_types import WHOLE
from mta.keyed.leaves import MAGIC, VERSION, TableLayout
from mta.keyed.lsm import PageSize, Place, Run, RunPages
from mta.keyed.pages import Index
from mta.keyed.table import ALL, MORE, STANDALONE, Table
from mta.monoids.base import AbstractMonoid, as_output
from mta.pages.page import key_of
from stores import PageStore

_HEAD = Struct("<8s6q")
_HASHES, _KEY_ENDS, _KEY_BYTES, _MARKS, _, _ENDS, _TIMES, _VALUES = (*range(7), 9)
#: Indexes that stay decoded, of up to FANOUT entries each.
_INDEXES = 2048
#: What reading a page raises that was forged.
_MALFORMED = (ValueError, TypeError, ArithmeticError, struct.error, msgpack.UnpackException)


class NotSimple(Exception):
    """The general way is to answer."""


class Indexes:
    """Indexes that were read, the least recently used first; shared by all snapshots."""

    def __init__(self) -> None:
        self._known: OrderedDict[bytes, Index] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, name: bytes) -> Index | None:
        """A decoded index by its digest."""
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
    """The pages of runs, to be read; indexes stay decoded. For one call, on one thread."""

    def __init__(self, store: PageStore, layout: TableLayout, known: Indexes) -> None:
        super().__init__(store, layout, PageSize(1, 0))
        self._known = known

    def indexes(self, places: Sequence[Place]) -> list[Index]:
        """Indexes by their places; one ``view_many`` for those that are not known."""
        found = {name: self._known.get(name) for _, _, name in places}
        missing = [place for place in places if found[place[2]] is None]
        if missing:
            for place, read in zip(missing, super().indexes(missing), strict=True):
                found[place[2]] = read
                self._known.keep(place[2], read)
        return [index for _, _, name in places if (index := found[name]) is not None]


@dataclass(slots=True)
class Events:
    """A key's events in order, as one lane."""

    rows: Rows
    times: np.ndarray | None
    count: int


class _TablePage:
    """A page of a table, of which little is read. Raises CorruptPage and ValueError."""

    def __init__(self, page: Any, run: int, kinds: Callable[[bytes], list[str]]) -> None:
        magic, version, number, self._keys, self._count, columns, label = _HEAD.unpack_from(page)
        first = _HEAD.size + 24 * columns + label
        if (magic, version, number) != (MAGIC, VERSION, run) or columns < _VALUES or label < 0:
            raise CorruptPage("it is not a table of its run")
        self._page = page
        #: Base, unit and bytes of each column.
        self._heads = np.frombuffer(page, "<i8", 3 * columns, _HEAD.size).tolist()
        sizes = self._heads[2::3]
        self._starts = [*accumulate(sizes, initial=first)]
        self._kinds = kinds(bytes(page[first - label : first]))
        if self._starts[-1] != len(page) or min(sizes) < 0 or columns != _VALUES + len(self._kinds):
            raise CorruptPage("its columns have other lengths than it declares")

    def _number(self, column: int, at: int, of: int) -> int:
        base, unit, size = self._heads[3 * column : 3 * column + 3]
        width = size // of
        if width * of != size or not 0 <= at < of:
            raise CorruptPage("the length of a column does not match its numbers")
        begin = self._starts[column] + width * at
        number: int = base + unit * int.from_bytes(self._page[begin : begin + width], "little")
        return number

    def place(self, key: np.uint64, packed: bytes | None) -> int | None:
        """The place of a key by its hash, and by its bytes where others may have the hash."""
        hashes = np.frombuffer(self._page, "<u8", self._keys, self._starts[_HASHES])
        place, keys, origin = int(hashes.searchsorted(key)), self._keys, self._starts[_KEY_BYTES]
        while place < keys and hashes[place] == key:
            if packed is None:
                return place
            start, stop = (self._number(_KEY_ENDS, place + i, keys + 1) for i in (0, 1))
            if bytes(self._page[origin + start : origin + stop]) == packed:
                return place
            place += 1
        return None

    def mark(self, place: int) -> int:
        """What the table says of older ones (``mta.keyed.table``)."""
        return self._number(_MARKS, place, self._keys)

    def events(self, place: int, layout: TableLayout) -> Events:
        """The events of a key."""
        start, stop = (self._number(_ENDS, place + i, self._keys + 1) for i in (0, 1))
        if not 0 <= start <= stop <= self._count:
            raise CorruptPage("a key has events that it has not")
        times = None
        if layout.timed:
            base, unit, size = self._heads[3 * _TIMES : 3 * _TIMES + 3]
            width = size // max(self._count, 1)
            begin = self._starts[_TIMES] + width * start
            offsets = np.frombuffer(self._page, f"<u{width or 1}", stop - start, begin)
            times = offsets.astype("<i8") * unit + base
        payloads = []
        for column, kind in enumerate(self._kinds, _VALUES):
            origin, width = self._starts[column], self._heads[3 * column + 2] // max(self._count, 1)
            payloads.append(
                (kind, bytes(self._page[origin + width * start : origin + width * stop]))
            )
        rows = layout.schema.load(iter(payloads), stop - start)
        return Events(rows, times, stop - start)


class SingleKeys:
    """Looks one key up in a snapshot; any number of threads."""

    def __init__(
        self,
        layout: TableLayout,
        runs: Sequence[Run],
        memtable: Table | None,
        late: bool,
        store: PageStore,
        indexes: Indexes,
    ) -> None:
        self._layout, self._runs, self._memtable = layout, runs, memtable
        self._late, self._store, self._indexes = late, store, indexes
        self.is_simple = _is_fixed(layout.schema)
        self._labels: dict[bytes, list[str]] = {}

    def find(self, hashed: int, packed: bytes) -> Events | None:
        """The events of a key, None where it has none; one call per level that is not cached.

        Raises NotSimple, MissingPage and CorruptPage.
        """
        key = np.uint64(hashed)
        level: list[tuple[int, Run, Index]] = [(run.height, run, run.top) for run in self._runs]
        places: list[Place] = []
        indexed = IndexedPages(self._store, self._layout, self._indexes)
        while level:
            named = []
            for height, run, index in level:
                at = int(index.firsts.searchsorted(key, "right")) - 1
                if at >= 0:
                    named.append((height, run, index.names[at]))
            places += [(0, run.number, name) for height, run, name in named if not height]
            above = [(height, run, name) for height, run, name in named if height]
            read = indexed.indexes([(height, run.number, name) for height, run, name in above])
            level = [
                (height - 1, run, index)
                for (height, run, _), index in zip(above, read, strict=True)
            ]
        parts: list[Events] = []
        if places:
            places.sort(key=lambda place: place[1])  # the oldest run first

            def cut(found: list[Any]) -> list[Events]:
                return self._cut(places, found, key, packed)

            parts = self._store.view_many([self._key(place) for place in places], cut)
        parts = self._with_memtable(parts, key, packed)
        if not parts:
            return None
        return parts[0] if len(parts) == 1 else self._joined(parts)

    def _key(self, place: Place) -> str:
        return key_of(self._layout.window, *place)

    def _cut(
        self, places: list[Place], found: list[Any], key: np.uint64, packed: bytes
    ) -> list[Events]:
        """The events of the key in tables, the oldest first."""
        parts: list[Events] = []
        for place, page in zip(places, found, strict=True):
            if page is None:
                raise MissingPage.of(self._key(place), self._store)
            pages.require_whole(self._layout, *place, page)
            try:
                entry = self._entry(page, place[1], key, packed)
            except _MALFORMED as error:
                raise pages.damaged(self._layout, *place, error) from error
            if entry is not None:
                mark, events = entry
                _take(parts, mark, events)
        return parts

    def _entry(
        self, page: Any, run: int, key: np.uint64, packed: bytes
    ) -> tuple[int, Events] | None:
        """The mark and the events of the key in a table."""
        table = _TablePage(page, run, self._kinds)
        place = table.place(key, None if self._layout.kind in WHOLE else packed)
        return None if place is None else (table.mark(place), table.events(place, self._layout))

    def _kinds(self, label: bytes) -> list[str]:
        """The kinds of the columns of values in a label, which is read once."""
        kinds = self._labels.get(label)
        if kinds is None:
            window, kinds = msgpack.unpackb(label)
            if window != self._layout.window or any(type(kind) is not str for kind in kinds):
                raise CorruptPage(f"it is the page of {window!r}")
            self._labels[label] = kinds
        return kinds

    def _with_memtable(self, parts: list[Events], key: np.uint64, packed: bytes) -> list[Events]:
        """The parts, and what the snapshot itself has of the key."""
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
        """Parts in order of age as one, in order of time where events may come late."""
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
    """Add what a younger table says of a key. Raises NotSimple."""
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
    """The result of each window of one key at a moment, by default as of its newest event.

    ``outputs`` shows results, ``monoid`` computes them. Raises NotSimple for an earlier moment.
    """
    count, times = events.count, events.times
    if times is not None:
        newest = int(times[-1])
        if moment is None:
            moment = newest
        elif moment < newest:
            raise NotSimple
    frames = [_frame(policy, times, count, moment) for policy in policies]
    lifted, partials = monoid.lift_rows(events.rows, count), monoid.partials
    folds = partials.new(len(policies))
    for place, (start, stop) in enumerate(frames):
        fold = monoid.fold(partials.cut(lifted, start, stop), stop - start)
        partials.put(folds, place, fold)
    rows = monoid.lower_rows(folds)
    for place, (start, stop) in enumerate(frames):
        if start == stop:  # time has emptied the window
            outputs.outputs.put(rows, place, as_output(outputs.empty))
    found = outputs.results(rows)
    return [result_of(found, at) for at in range(len(policies))]


def _frame(
    policy: AbstractPolicy, times: np.ndarray | None, count: int, moment: int | None
) -> tuple[int, int]:
    """Where the frame of a moment starts, and the place after its last event."""
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
    """Whether every value takes a fixed number of bytes, one column each."""
    if isinstance(schema, Record):
        return all(map(_is_fixed, schema.schemas))
    return isinstance(schema, Array)
