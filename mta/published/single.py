"""The lookup of a single key: like ``LSMTree.find`` and ``results_at``, without their columns.

Most requests are for one key as of now. For columns of one row, numpy takes many times as long as
the store. So this module cuts the events of one key out of the pages (``mta.keyed.leaves`` has
their format), and computes each window with one fold. Other cases are left to the general method,
which returns the same results: keys with a standalone window, values without a fixed number of
bytes, and moments before the key's newest event.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from struct import Struct
from typing import Any, TypeVar

import msgpack
import numpy as np

from mta.columns.reading import result_of, results_each
from mta.columns.schemas import Array, Nullable, Record, Rows, Schema
from mta.errors import CorruptPage, MissingPage
from mta.folds.blocks import fold_ranges
from mta.frames.base import Frame
from mta.kernels import native
from mta.kernels.native import Buffer
from mta.keyed import leaves
from mta.keyed.key_types import WHOLE
from mta.keyed.leaves import MAGIC, VERSION, Index, TableLayout
from mta.keyed.lsm import MEMTABLE, Place, RunPages
from mta.keyed.snapshot import KeyedSnapshot
from mta.keyed.table import ALL, MORE
from mta.logs.ranges import Positions
from mta.monoids.base import AbstractMonoid, empties
from mta.pages import key_of, keys_of
from mta.published.pages import ReadOnlyPages, Steps
from stores.lru import LRU

_HEAD = Struct("<8s6q")
#: The types of offsets by their bytes.
_OFFSETS = {width: np.dtype(f"<u{width}") for width in (1, 2, 4, 8)}
_KEY_ENDS, _KEY_BYTES, _MARKS, _, _ENDS, _TIMES, _VALUES = (*range(1, 7), 9)
#: Up to this many events and combines, Python's own numbers are faster than columns.
_FEW = 128
#: The errors that reading a forged page can raise.
_MALFORMED = (
    ValueError, TypeError, KeyError, ArithmeticError, struct.error, msgpack.UnpackException
)  # fmt: skip
T = TypeVar("T")


class NotSimple(Exception):
    """The general method must answer."""


class IndexedPages(RunPages):
    """The pages of runs, for reading, as ``store`` has checked them."""

    def __init__(self, store: ReadOnlyPages, layout: TableLayout, decoded: LRU[bytes, Any]) -> None:
        super().__init__(store, layout, 1, 0, decoded)

    def see(self, places: Sequence[Place], see: Callable[[list[Buffer]], T]) -> T:
        """Return what ``see`` returns; one ``view_many``. Raises MissingPage and CorruptPage."""
        keys = keys_of(self.layout.window, places)
        return self.store.view_many(keys, lambda found: see(self.require_all(places, found)))

    def require_all(self, places: Sequence[Place], found: list[Any]) -> list[Buffer]:
        """Return pages that were read. Raises MissingPage if one is None."""
        for place, page in zip(places, found, strict=True):
            if page is None:
                raise MissingPage.of(key_of(self.layout.window, *place), self.store)
        return found


@dataclass(slots=True)
class _StoredPart:
    """The entry of a key in one table."""

    mark: int
    """What the table says about older tables (``mta.keyed.table``)."""
    count: int
    times: list[int]
    columns: list[bytes]
    """The value columns of its events, as in a page."""


@dataclass(slots=True)
class PagedEvents:
    """A key's events in order."""

    rows: Rows
    times: list[int]
    """Empty where the windows keep no times."""
    count: int


class _TablePage:
    """A page of a table, read only as far as needed. Raises CorruptPage and ValueError."""

    def __init__(self, page: Any, run: int) -> None:
        magic, version, number, keys, count, columns, size = _HEAD.unpack_from(page)
        self._first = first = _HEAD.size + 24 * columns + size
        if (magic, version, number) != (MAGIC, VERSION, run) or columns < _VALUES or size < 0:
            raise CorruptPage("it is not a table of its run")
        self._page, self._keys, self._count, self._columns = page, keys, count, columns
        #: The bytes that name the window of the page and the kinds of its value columns.
        self.label = bytes(page[first - size : first])
        self._heads: tuple[int, ...] = ()

    def find(self, key: bytes, packed: bytes | None) -> int | None:
        """Return the place of a key, if any; ``packed`` if other keys may have the same hash."""
        hashes = bytes(self._page[self._first : self._first + 8 * self._keys])
        at = hashes.find(key)
        while at >= 0:
            place, odd = divmod(at, 8)
            if not odd:
                self._read_heads()
                if packed is None or self._key(place) == packed:
                    return place
            at = hashes.find(key, at + 1)
        return None

    def _read_heads(self) -> None:
        #: Base, unit and bytes of each column.
        self._heads = heads = struct.unpack_from(f"<{3 * self._columns}q", self._page, _HEAD.size)
        sizes = heads[2::3]
        self._starts = [*accumulate(sizes, initial=self._first)]
        if self._starts[-1] != len(self._page) or min(sizes) < 0 or sizes[0] != 8 * self._keys:
            raise CorruptPage("the lengths of its columns differ from the header")

    def _key(self, place: int) -> bytes:
        start, stop = self._numbers(_KEY_ENDS, place, 2, self._keys + 1)
        return self._cut(_KEY_BYTES, start, stop)

    def _cut(self, column: int, start: int, stop: int) -> bytes:
        if not 0 <= start <= stop <= self._heads[3 * column + 2]:
            raise CorruptPage("a range is outside its column")
        origin = self._starts[column]
        return bytes(self._page[origin + start : origin + stop])

    def _width(self, column: int, of: int) -> int:
        """Return how many bytes each item of a column has."""
        size = self._heads[3 * column + 2]
        width = size // of if of else 0
        if width * of != size:
            raise CorruptPage("the length of a column does not match its numbers")
        return width

    def _numbers(self, column: int, at: int, count: int, of: int) -> list[int]:
        """Return ``count`` of the ``of`` numbers of a column."""
        base, unit, size = self._heads[3 * column : 3 * column + 3]
        if not size:
            return [base] * count
        width = self._width(column, of)
        found = np.frombuffer(self._cut(column, width * at, width * (at + count)), _OFFSETS[width])
        return [base + unit * offset for offset in found.tolist()]

    def part(self, place: int, timed: bool, kinds: Sequence[str]) -> _StoredPart:
        """Return the entry at a place; its value columns have these kinds."""
        if self._columns != _VALUES + len(kinds):
            raise CorruptPage("it has the wrong number of columns")
        keys, events = self._keys, self._count
        (mark,) = self._numbers(_MARKS, place, 1, keys)
        start, stop = self._numbers(_ENDS, place, 2, keys + 1)
        if not 0 <= start <= stop <= events:
            raise CorruptPage("a key has more events than the page")
        count = stop - start
        times = self._numbers(_TIMES, start, count, events) if timed else []
        columns = []
        for column, kind in enumerate(kinds, _VALUES):
            if kind == Nullable.BITS:
                columns.append(self._bits(column, start, count))
            else:
                width = self._width(column, events)
                columns.append(self._cut(column, width * start, width * stop))
        return _StoredPart(mark, count, times, columns)

    def _bits(self, column: int, start: int, count: int) -> bytes:
        """Return the bits of some events, no bytes if all bits of the page are set."""
        size = self._heads[3 * column + 2]
        if size not in (0, -(-self._count // 8)):
            raise CorruptPage("it has another number of nulls than of events")
        if not size:
            return b""
        found = self._cut(column, start // 8, -(-(start + count) // 8))
        return _as_bits(int.from_bytes(found, "little") >> start % 8, count)


class SingleKeys:
    """Looks up single keys in a snapshot; for any number of threads."""

    def __init__(self, snapshot: KeyedSnapshot, pages: IndexedPages) -> None:
        self._layout, self._pages = pages.layout, pages
        self._late = snapshot.lateness is not None
        #: The oldest run first.
        self._tops = [(run.height, run.number, run.top) for run in snapshot.runs]
        #: The newest table, which is a page in the snapshot.
        self._memtable = [] if snapshot.memtable is None else [snapshot.memtable]
        schema = pages.layout.schema
        self.is_simple = _is_fixed(schema)
        #: The kinds of the value columns of a page.
        self._kinds = [kind for kind, _ in schema.dump(schema.new(0))]
        self._labels: set[bytes] = set()

    def find(self, hashed: int, packed: bytes) -> Steps[PagedEvents | None]:
        """Return the events of a key, None if it has none; one step per level that is not cached.

        Raises NotSimple, MissingPage and CorruptPage.
        """
        fresh: dict[bytes, Index] = {}
        tables, missing = self._reach(hashed, fresh)
        while missing:
            found = yield keys_of(self._layout.window, missing)
            read = self._pages.require_all(missing, found)
            fresh |= self._pages.read_indexes(missing, read)
            tables, missing = self._reach(hashed, fresh)
        found = []
        if tables:
            read = yield keys_of(self._layout.window, tables)
            found = self._pages.require_all(tables, read)
        places = [*tables, *((0, MEMTABLE, b"") for _ in self._memtable)]
        parts = self._parts(places, [*found, *self._memtable], hashed, packed)
        return self._joined(parts) if parts else None

    def _reach(self, hashed: int, fresh: Mapping[bytes, Index]) -> tuple[list[Place], list[Place]]:
        """Return the tables that may have a key, the oldest first, and the indexes to read."""
        tables, missing, known = list[Place](), list[Place](), self._pages.decoded.peek
        for height, number, index in self._tops:
            while (name := index.name_for(hashed)) is not None:
                if not height:
                    tables.append((0, number, name))
                    break
                below = fresh.get(name) or known(name)
                if below is None:
                    missing.append((height, number, name))
                    break
                height, index = height - 1, below
        return tables, missing

    def _parts(
        self, places: list[Place], found: list[Buffer], hashed: int, packed: bytes
    ) -> list[_StoredPart]:
        """Return the entries of the key in some tables, the oldest table first."""
        parts, key = list[_StoredPart](), hashed.to_bytes(8, "little")
        known = None if self._layout.kind in WHOLE else packed
        for place, page in zip(places, found, strict=True):
            try:
                table = _TablePage(page, place[1])
                at = table.find(key, known)
                if at is not None:
                    self._require_label(table.label)
                    _take(parts, table.part(at, self._layout.timed, self._kinds))
            except _MALFORMED as error:
                raise leaves.damaged(self._layout, *place, error) from error
        return parts

    def _require_label(self, label: bytes) -> None:
        """Raise CorruptPage for a label of other windows; each label is decoded once."""
        if label not in self._labels:
            window, kinds = msgpack.unpackb(label)
            if window != self._layout.window or kinds != self._kinds:
                raise CorruptPage(f"it is the page of {window!r}, with columns of {kinds!r:.200}")
            self._labels.add(label)

    def _joined(self, parts: list[_StoredPart]) -> PagedEvents:
        """Join parts in order of age; sort by time if events may come late."""
        schema, count = self._layout.schema, sum([part.count for part in parts])
        counts = [part.count for part in parts]
        payloads = [
            (kind, _joined_bits(column, counts) if kind == Nullable.BITS else b"".join(column))
            for kind, *column in zip(self._kinds, *[part.columns for part in parts], strict=True)
        ]
        rows = schema.load(iter(payloads), count)
        times = [time for part in parts for time in part.times]
        if self._late and times != sorted(times):
            order = sorted(range(count), key=times.__getitem__)
            rows, times = schema.take(rows, np.array(order)), [times[at] for at in order]
        return PagedEvents(rows, times, count)


def _as_bits(bits: int, count: int) -> bytes:
    """Return the lowest bits of a number as bytes of a page."""
    return (bits & (1 << count) - 1).to_bytes(-(-count // 8), "little")


def _joined_bits(columns: Sequence[bytes], counts: Sequence[int]) -> bytes:
    """Concatenate columns of bits; in a column without bytes, all bits are set."""
    if not any(columns):
        return b""
    bits = at = 0
    for column, count in zip(columns, counts, strict=True):
        bits |= (int.from_bytes(column, "little") if column else (1 << count) - 1) << at
        at += count
    return _as_bits(bits, at)


def _take(parts: list[_StoredPart], part: _StoredPart) -> None:
    """Add the entry of a newer table to the parts. Raises NotSimple."""
    if part.mark not in (MORE, ALL):
        raise NotSimple
    if part.mark == ALL:
        parts.clear()
    if part.count:
        parts.append(part)


class Results:
    """Computes the results of one key's windows; ``outputs`` converts the results of ``monoid``."""

    def __init__(
        self, monoid: AbstractMonoid, outputs: AbstractMonoid, frames: Iterable[Frame]
    ) -> None:
        self._monoid, self._outputs = monoid, outputs
        self._frames = list(frames)
        self._is_plain = monoid is outputs and monoid.is_plain and monoid.inputs.plain
        self._empty = result_of(outputs.results(empties(outputs, 1)), 0)

    def of(self, events: PagedEvents, moment: int | None) -> list[Any]:
        """Return each window's result, by default at the newest event. Raises NotSimple."""
        count, times = events.count, events.times
        newest = times[-1] if times else 0
        if moment is None:
            moment = newest
        elif moment < newest:
            raise NotSimple
        view = _view(events)
        frames = [_bounds(frame, view, moment) for frame in self._frames]
        if self._is_plain and count + sum([stop - start for start, stop in frames]) <= _FEW:
            found = self._plain(events.rows, count, frames)
        else:
            found = self._columns(events.rows, count, frames)
        return [
            self._empty if start == stop else result
            for result, (start, stop) in zip(found, frames, strict=True)
        ]

    def _plain(self, rows: Rows, count: int, frames: Sequence[tuple[int, int]]) -> list[Any]:
        """Compute the results of frames with Python's own numbers; None for an empty frame."""
        monoid = self._monoid
        lift, combine, lower = monoid.lift, monoid.combine, monoid.lower
        partials = [lift(row) for row in monoid.inputs.listed(rows, count)]
        found: list[Any] = []
        for start, stop in frames:
            if start == stop:  # time has emptied the window
                found.append(None)
                continue
            fold = partials[start]
            for event in partials[start + 1 : stop]:
                fold = combine(fold, event)
            found.append(lower(fold))
        return found

    def _columns(self, rows: Rows, count: int, frames: Sequence[tuple[int, int]]) -> list[Any]:
        """Compute the results of frames with numpy; that of an empty frame has no meaning."""
        monoid = self._monoid
        folds = _folds(monoid, monoid.lift_rows(rows, count), count, frames)
        return results_each(self._outputs.results(monoid.lower_rows(folds)), len(frames))


def _folds(
    monoid: AbstractMonoid, lifted: Rows, count: int, frames: Sequence[tuple[int, int]]
) -> Rows:
    """Return the fold of each frame; that of an empty frame has no meaning."""
    if count <= native.LONGEST:
        starts = np.array([min(start, count - 1) for start, _ in frames])
        lengths = np.array([max(1, stop - start) for start, stop in frames])
        return fold_ranges(monoid, lifted, count, starts, lengths)
    partials = monoid.partials
    folds = partials.new(len(frames))
    for place, (start, stop) in enumerate(frames):
        fold = monoid.fold(partials.cut(lifted, start, stop), stop - start)
        partials.put(folds, place, fold)
    return folds


def _view(events: PagedEvents) -> Positions:
    """Return the view of a frame of some events."""
    times, count = events.times, events.count
    return Positions(
        lambda: count,
        partial(bisect_right, times),
        lambda session: (count, _session_start(times, session.lifetime or 0), times[-1]),
    )


def _bounds(frame: Frame, view: Positions, moment: int) -> tuple[int, int]:
    """Return a frame's start and stop at a moment that no event follows."""
    stop = max(0, frame.stop(view, moment))
    return min(max(0, frame.cut(view, moment)), stop), stop


def _session_start(times: list[int], gap: int) -> int:
    """Return the start of the session of the last of some events."""
    ends = range(len(times) - 1, 0, -1)
    return next((at for at in ends if times[at] - times[at - 1] >= gap), 0)


def _is_fixed(schema: Schema) -> bool:
    """Return whether every value takes a fixed number of bytes, and perhaps a bit."""
    if isinstance(schema, Record):
        return all(map(_is_fixed, schema.schemas))
    return isinstance(schema, (Array, Nullable))
