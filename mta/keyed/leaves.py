"""The formats of the pages of keyed windows: tables, and the indexes and lists above them.

The pages of level 0 are tables, or *leaves*:

    page    = head column ...              numbers are "<i8"
    head    = "mta-keys" version run keys events columns size, [base, unit, bytes] ..., label
    version = 1
    run     = number of the run that the page belongs to, from 1 on; 0 for the table in a snapshot
    columns = number of columns; each has three numbers in the head
    size    = length of the label in bytes
    label   = msgpack array [window, kinds]; kinds = array of text, the kinds of the value columns

    columns, keys in order of hash and bytes:
        hashes       "<u8"; integer keys are computed from them
        key ends     numbers: where each key's bytes start, and where the last key's bytes end; none
                     for integers
        keys         the bytes of all keys; none for integers
        marks        numbers: 0 more events, 1 all events, 2 a snapshot, 3 expired
        left         numbers: how many earlier events of each key have left
        ends         numbers: where each key's events start, and where the last key's events end
        times        numbers: microseconds since 1970; none if the windows store no times
        snapshot ends  numbers: where each key's snapshot starts, and where the last one ends
        snapshots      the bytes of all snapshots
        values ...   the columns of the values, as in a page of events (``mta.pages``), except
                     that a column of objects has four columns; a column of bits says which values
                     of the previous column are not null, and is empty if no value is null

    of a column of objects that are all text or null:
        places       numbers: the place of each value among the words, from 1 on; 0 for null
        ends         "<u4": where each word's bytes start, and where the last one's end; none
                     without words
        text         the distinct words, in order, in UTF-8
        msgpack      nothing
    of other objects:
        places, ends, text  nothing
        msgpack             array of the objects

    numbers = offsets of 0, 1, 2, 4 or 8 bytes, the fewest that suffice: base + unit * offset

    name    = xxh3_128 of the page's bytes
    key     = window "/0/" run "/" name in hexadecimal

A batch of random keys touches nearly all pages of a run, but only a few keys of each page. So the
Python code runs once for all pages together. It reads the hashes of all keys. From the other
columns it extracts only the parts of wanted keys, directly from the pages (``mta.kernels.native``).

The pages above the tables are indexes, and lists of pages to delete:

    page    = msgpack array [magic, version, window, level, run, count, columns]
    magic   = "mta-keys"
    version = 1
    window  = text, the name of the windows
    level   = l > 0 for an index of pages of level l - 1, 15 for a list of pages to delete
    run     = number of the run that the page belongs to, from 1 on
    count   = number of pages below, or of entries
    columns = array of [kind, bytes]

    of an index:
        firsts    "<u8" hash of the first key of each page
        names     "name" 16-byte digests of the pages, concatenated
        oldest    "<i8" for each page, a time before which none of its keys becomes idle; the
                  maximum if the windows store no times

    of a list:
        entries   "msgpack" array of entries

    entry   = array of text, keys of pages of a discarded standalone window; if empty, the store is
              compacted after the deletions
            | [number, level, below, names]: pages of a run; ``below`` says whether the pages below
              them are deleted too; ``names`` has their digests, concatenated

    name    = xxh3_128 of the page's bytes
    key     = window "/" level "/" run "/" name in hexadecimal

Every page contains the number of its run. So no two runs share a page, and the pages that are
deleted with a run belong to no other run.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import msgpack
import numpy as np

from mta.columns.schemas import (
    Array,
    Payload,
    Schema,
    next_payload,
)
from mta.errors import CorruptPage
from mta.kernels import native
from mta.kernels.native import (
    Buffer,
    bounds_of,
    group,
    items_of,
    numbers_of,
    shortened,
    sort_within,
    spread,
)
from mta.keyed.key_types import WHOLE
from mta.keyed.keys import Keys, distinct_of, ints_of_hashes, range_of
from mta.keyed.table import EXPIRED, STANDALONE, Table, visible
from mta.keyed.values import (
    BITS,
    ENDS,
    FIXED,
    OBJECTS,
    PACKED,
    PLACES,
    TEXT,
    PageRanges,
    ValueColumns,
    dumped,
)
from mta.pages import NAME_BYTES, damage, key_of, name_of

MAGIC = b"mta-keys"
VERSION = 1
_HASHES, _KEY_ENDS, _KEY_BYTES, _MARKS, _LEFT, _ENDS, _TIMES = range(7)
_SNAPSHOT_ENDS, _SNAPSHOTS, _VALUES = 7, 8, 9
#: The columns of numbers.
_NUMBERS = [_HASHES, _KEY_ENDS, _MARKS, _LEFT, _ENDS, _TIMES, _SNAPSHOT_ENDS]
#: How many numbers precede those of the columns in a head, and the maximum number of columns.
_FIXED, _MOST_COLUMNS = 6, 1 << 16
#: The maximum number of events in a page if events have no bytes.
_MOST_OF_NOTHING = 1 << 26
#: The maximum number of events of a key that have left, so that sums over all runs fit 64 bits.
_MOST_LEFT = 1 << 56
#: A mask of the bits that are the place in a page, for results of ``native.match``.
_PLACE = (1 << 32) - 1
#: Which widths in bytes the numbers of a column may have; the last item stands for larger widths.
_IS_WIDTH = np.isin(np.arange(10), (0, 1, 2, 4, 8))
T = TypeVar("T")


@dataclass(slots=True)
class TableLayout:
    """The layout of the pages of a set of windows."""

    window: str
    kind: str
    """The kind of the keys; "" if there are no keys yet."""
    schema: Schema
    timed: bool


def encode_table(layout: TableLayout, run: int, table: Table) -> bytes:
    """Encode a table as a page. Raises NotPageable for values that are not plain data."""
    keys, ints = table.keys, table.keys.is_whole
    values = [*dumped(table.schema, table.rows)]
    sizes = np.zeros(len(table), np.int64)
    sizes[table.marks == STANDALONE] = list(map(len, table.snapshots))
    times = np.zeros(0, "<i8") if table.times is None else table.times
    columns = [
        (0, 0, keys.hashes.astype("<u8", copy=False).tobytes()),
        (0, 1, b"") if ints else shortened(keys.bounds),
        (0, 0, b"" if ints else keys.blob.tobytes()),
        shortened(table.marks.astype("<i8")),
        shortened(table.left),
        shortened(table.bounds),
        shortened(times, 1),
        shortened(bounds_of(sizes)) if table.snapshots else (0, 1, b""),
        (0, 0, b"".join(table.snapshots)),
        *(column for _, column in values),
    ]
    label = msgpack.packb([layout.window, [kind for kind, _ in values]])
    words = [VERSION, run, len(table), table.events, len(columns), len(label)]
    for base, unit, data in columns:
        words += base, unit, len(data)
    head = MAGIC + np.array(words, "<i8").tobytes() + label
    return b"".join([head, *(data for _, _, data in columns)])


def is_leaf(page: Buffer) -> bool:
    """Return whether a page is a page of tables, of any version."""
    return page[: len(MAGIC)] == MAGIC


class Heads(NamedTuple):
    """What the checked heads of some pages say; the last dimension of each array is the page."""

    kinds: list[str]
    """The kinds of the columns of values, which follow the others."""
    runs: np.ndarray
    keys: np.ndarray
    """The number of keys."""
    events: np.ndarray
    sizes: np.ndarray
    """The bytes of each column."""
    columns: np.ndarray
    """Each column in the form that ``mta.kernels.native`` expects."""

    @property
    def nbytes(self) -> int:
        """Return how much memory these heads take."""
        return sum(column.nbytes for column in self[1:])

    def of(self, page: int) -> Heads:
        """Return the head of one page."""
        return Heads(self.kinds, *(each[..., page].copy() for each in self[1:]))

    @staticmethod
    def joined(heads: Sequence[Heads]) -> Heads:
        """Return the heads of several pages, each from ``of``."""
        columns = zip(*(each[1:] for each in heads), strict=True)
        return Heads(heads[0].kinds, *(np.stack(each, axis=-1) for each in columns))


class Leaves:
    """Pages of tables, as stored; ``runs`` has the run number of each page.

    Raises CorruptPage for a damaged page. The data of a key is checked when it is read.

    ``heads`` are the heads of the pages, if these were read and checked before.
    """

    def __init__(
        self, layout: TableLayout, runs: Sequence[int], pages: Sequence[Buffer],
        heads: Heads | None = None,
    ) -> None:  # fmt: skip
        self._layout, self._pages = layout, list(pages)
        self.heads = self._checked() if heads is None else heads
        if self.heads.runs.tolist() != list(runs):
            raise CorruptPage(f"it is the page of {layout.window!r}, 0/{int(self.heads.runs[0])}")
        #: The number of keys of each page.
        self.counts = self.heads.keys
        self._events, self._sizes, self._columns = self.heads[3:]
        self._values = ValueColumns(layout.schema, self.heads.kinds)
        values = self._columns[_VALUES:], self._sizes[_VALUES:], self._events
        self._values.open(self._pages, *values)

    def _checked(self) -> Heads:
        """Return the heads of the pages. Raises CorruptPage."""
        pages = self._pages
        lengths = np.fromiter(map(len, pages), np.int64, len(pages))
        size, words = self._heads(lengths)
        kinds = self._read_label(bytes(pages[0][size - int(words[0, 5]) : size]))
        keys, events = words[:, 2], words[:, 3]
        heads = words[:, _FIXED:].reshape(len(pages), -1, 3)
        # One row per column, with one number per page.
        bases, units, sizes = heads.transpose(2, 1, 0).copy()
        if (sizes < 0).any() or (sizes > lengths).any():
            raise CorruptPage("its columns are longer than the page")
        ends = size + np.cumsum(sizes, axis=0)
        if (ends[-1] != lengths).any() or (words[:, 2:4] < 0).any():
            raise CorruptPage("the lengths of its columns differ from those in its head")
        values = ValueColumns(self._layout.schema, kinds)
        items = self._items(values, keys, events, sizes)
        columns = np.stack((ends - sizes, *items, bases, units), axis=1)
        return Heads(kinds, words[:, 1], keys, events, sizes, columns)

    def _heads(self, lengths: np.ndarray) -> tuple[int, np.ndarray]:
        """Return the size of a head in bytes, and the numbers of all heads."""
        fixed = len(MAGIC) + 8 * _FIXED
        if int(lengths.min()) < fixed or not is_leaf(self._pages[0]):
            raise CorruptPage("it is not a page of keys")
        first = np.frombuffer(self._pages[0][:fixed], "<i8")[1:].tolist()
        version, _, _, _, columns, label = first
        if version != VERSION:
            raise CorruptPage(f"it is not a page of keys of format {VERSION}")
        size = fixed + 24 * columns + label
        whole = _VALUES <= columns < _MOST_COLUMNS and label >= 0
        if not whole or size > int(lengths.min()):
            raise CorruptPage("its header is incomplete")
        count = len(self._pages)
        nothing = np.zeros(count, np.int64)
        heads = items_of(self._pages, 1, np.arange(count), nothing, nothing + size)
        table = np.frombuffer(heads, "u1").reshape(count, size)
        alike = (slice(0, 16), slice(fixed - 16, fixed), slice(size - label, size))
        if any((table[:, part] != table[0, part]).any() for part in alike):
            raise CorruptPage("it differs from the other pages of its run")
        return size, table[:, len(MAGIC) : size - label].copy().view("<i8")

    def _read_label(self, label: bytes) -> list[str]:
        """Return the kinds of the columns of values."""
        try:
            window, kinds = msgpack.unpackb(label)
        except (ValueError, TypeError, msgpack.UnpackException) as error:
            raise CorruptPage(f"its label cannot be read: {error}") from error
        if window != self._layout.window:
            raise CorruptPage(f"it is the page of {window!r}, 0")
        if not isinstance(kinds, list) or any(type(kind) is not str for kind in kinds):
            raise CorruptPage("its label has the wrong types")
        return kinds

    def _items(
        self, values: ValueColumns, keys: np.ndarray, events: np.ndarray, sizes: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the number of items in each column, and the bytes per item. Raises CorruptPage."""
        ints = self._layout.kind in WHOLE
        if len(sizes) != _VALUES + len(values):
            raise CorruptPage("it has the wrong number of columns")
        counts = np.zeros_like(sizes)
        counts[[_HASHES, _MARKS, _LEFT]] = keys
        counts[[_ENDS, _SNAPSHOT_ENDS]] = keys + 1
        if not ints:
            counts[_KEY_ENDS] = keys + 1
        if self._layout.timed:
            counts[_TIMES] = events
        fixed, places, ends, text, objects, bits, packed = (
            [_VALUES + at for at in values.of_role(role)]
            for role in (FIXED, PLACES, ENDS, TEXT, OBJECTS, BITS, PACKED)
        )
        counts[[*fixed, *places]] = events
        counts[ends] = sizes[ends] // 4
        counted = [*_NUMBERS, *fixed, *places, *ends]
        if ((sizes[bits] != 0) & (sizes[bits] != -(-events // 8))).any():
            raise CorruptPage("its null bits do not match its number of events")
        widths = sizes // np.maximum(counts, 1)
        numbers = widths[[*_NUMBERS, *places, *ends]]
        if (
            (widths * counts != sizes)[counted].any()
            or not _IS_WIDTH[np.minimum(numbers, len(_IS_WIDTH) - 1)].all()
            or ((widths[_HASHES] != 8) & (keys > 0)).any()
            or ((widths[_TIMES] == 0) & (counts[_TIMES] > 0)).any()
            or ((widths[places] == 0) == (sizes[objects] == 0))[:, events > 0].any()
        ):
            raise CorruptPage("the length of a column does not match its numbers")
        if (ints and sizes[[_KEY_ENDS, _KEY_BYTES]].any()) or (
            not self._layout.timed and sizes[_TIMES].any()
        ):
            raise CorruptPage("it has too many columns")
        of_events = [_TIMES, *fixed, *packed, *places, *objects]
        bare = sizes[of_events].sum(axis=0) == 0
        if (events[bare] > _MOST_OF_NOTHING).any():
            raise CorruptPage(f"its {events.max()} events without any bytes are too many")
        bytes_ = [_KEY_BYTES, _SNAPSHOTS, *text]
        counts[bytes_], widths[bytes_] = sizes[bytes_], 1
        return counts, widths

    # --- finding --------------------------------------------------------------------------------

    def find(self, runs: Sequence[tuple[int, int]], keys: Keys, late: bool) -> list[Table]:
        """Return one table of some keys in runs, the oldest run first, without unknown keys.

        ``runs`` has the first page of each run, and the page after its last. ``late`` is as in
        ``join``. Costs about 10 ns per key in these pages, and 200 ns per key found.
        """
        wanted, of, places = self._matches(keys, runs)
        first_of = np.append(True, wanted[1:] != wanted[:-1])[: len(wanted)]
        if int(first_of.sum()) < len(keys):
            keys = keys.take(wanted[first_of])
        return [self._table(keys, np.cumsum(first_of) - 1, of, places, late)]

    def _matches(
        self, keys: Keys, runs: Sequence[tuple[int, int]]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the entries of wanted keys by key and age: key, page, and place in the page."""
        columns = self._columns[[_HASHES, _KEY_ENDS, _KEY_BYTES]]
        bounds = keys.bounds[:0] if keys.is_whole else keys.bounds  # integers have distinct hashes
        known = native.match(self._pages, columns, np.array(runs), keys.hashes, bounds, keys.blob)
        if known is not None and known[0]:
            slots = known[1].reshape(-1)
            at = np.flatnonzero(slots >= 0)
            found = slots[at]
            return at // len(runs), found >> 32, found & _PLACE
        every = self._keys(self._hashes(), *self._entries())
        bounds, parts = bounds_of(self.counts), []
        for start, stop in self._spans(bounds, runs):
            of_run = every.cut(start, stop)
            _in_order(of_run.hashes)
            at = of_run.find(keys)
            some = np.flatnonzero(at >= 0)
            parts.append((some, at[some] + start))
        wanted, at = (np.concatenate(each) for each in zip(*parts, strict=True))
        order = group(wanted, len(keys))
        wanted, at = wanted[order], at[order]
        of = np.searchsorted(bounds, at, side="right") - 1
        return wanted, of, at - bounds[of]

    def _hashes(self) -> np.ndarray:
        """Return the hashes of all keys of all pages."""
        every = np.arange(len(self._pages))
        raw = items_of(self._pages, self._columns[_HASHES], every, every * 0, self.counts)
        return np.frombuffer(raw, "<u8")

    @staticmethod
    def _spans(bounds: np.ndarray, runs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        """Return the range of each run among the keys of all pages."""
        return [(int(bounds[first]), int(bounds[last])) for first, last in runs]

    def _keys(self, hashes: np.ndarray, pages: np.ndarray, places: np.ndarray) -> Keys:
        """Return the keys at some places of pages, in that order."""
        kind = self._layout.kind
        if kind in WHOLE:
            bounds = np.arange(0, 8 * len(hashes) + 1, 8)
            return Keys(kind, hashes, ints_of_hashes(hashes).view("u1"), bounds)
        begins, sizes = self._ranges(_KEY_ENDS, pages, places, self._sizes[_KEY_BYTES])
        blob = np.frombuffer(self._bytes(_KEY_BYTES, pages, begins, sizes), "u1")
        return Keys(kind, hashes, blob, bounds_of(sizes))

    # --- whole pages ----------------------------------------------------------------------------

    def table(self) -> Table:
        """Return the table in these pages, whose keys increase from page to page."""
        ((found, _),) = self.tables([(0, len(self._pages))])
        return found

    def tables(self, runs: Sequence[tuple[int, int]]) -> list[tuple[Table, np.ndarray]]:
        """Return the table of each run, and the number of keys in each of its pages."""
        hashes, found = self._hashes(), []
        of, places = self._entries()
        spans = self._spans(bounds_of(self.counts), runs)
        for (first, last), (start, stop) in zip(runs, spans, strict=True):
            some = slice(start, stop)
            keys = self._keys(_in_order(hashes[some]), of[some], places[some])
            table = self._table(keys, np.arange(len(keys)), of[some], places[some], late=False)
            found.append((table, self.counts[first:last]))
        self._require_all_events()
        return found

    def between(
        self, runs: Sequence[tuple[int, int]], low: int, high: int | None, late: bool
    ) -> list[Table]:
        """Return one table of all keys with hashes from ``low`` on, and before ``high`` if given.

        ``runs`` and ``late`` are as in ``find``. Costs about 150 ns per key and run.
        """
        hashes, bounds = self._hashes(), bounds_of(self.counts)
        chosen = []
        for start, stop in self._spans(bounds, runs):
            first, last = range_of(_in_order(hashes[start:stop]), low, high)
            chosen.append(np.arange(start + first, start + last))
        at = np.concatenate(chosen)
        of, places = (each[at] for each in self._entries())
        hashes = hashes[at]
        order = np.argsort(hashes, kind="stable")
        keys, order, numbers = distinct_of(self._keys(hashes, of, places), order)
        found = self._table(keys, numbers, of[order], places[order], late)
        self._require_all_events()
        return [found]

    def _require_all_events(self) -> None:
        """Raise CorruptPage if the keys of a page do not have as many events as its head says."""
        pages = np.arange(len(self._pages))
        once, nothing = np.ones_like(pages), np.zeros_like(pages)
        begin = self._numbers(_ENDS, pages, nothing, once)
        if begin.any() or (self._numbers(_ENDS, pages, self.counts, once) != self._events).any():
            raise CorruptPage("its keys do not have as many events as its head says")

    def _entries(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the page of each key of all pages, and its place there."""
        pages = np.arange(len(self._pages))
        return np.repeat(pages, self.counts), spread(self.counts * 0, self.counts)

    # --- extracting -----------------------------------------------------------------------------

    def _table(
        self, keys: Keys, numbers: np.ndarray, pages: np.ndarray, places: np.ndarray, late: bool
    ) -> Table:
        """Return entries, by key and age, as a table; ``join`` has the rules."""
        layout, count = self._layout, len(keys)
        marks = self._of_keys(_MARKS, pages, places)[0]
        if int(marks.min(initial=0)) < 0 or int(marks.max(initial=0)) > EXPIRED:
            raise CorruptPage("its marks are invalid")
        found, held, shown = visible(marks, numbers, count)
        snapshots = self._window_snapshots(pages[held], places[held]) if len(held) else []
        numbers, pages, places = numbers[shown], pages[shown], places[shown]
        left = self._of_keys(_LEFT, pages, places)[0]
        if (left < 0).any() or (left > _MOST_LEFT).any():
            raise CorruptPage("its counts are invalid")
        starts, counts = self._ranges(_ENDS, pages, places, self._events)
        of_key = bounds_of(np.bincount(numbers, minlength=count))
        bounds = bounds_of(counts)[of_key]
        times = None
        if layout.timed:
            times = self._numbers(_TIMES, pages, starts, counts)
        rows = self._values.rows(PageRanges(pages, starts, counts))
        if late and times is not None:
            order = sort_within(times, np.repeat(np.arange(count), np.diff(bounds)))
            if order is not None:
                times, rows = times[order], layout.schema.take(rows, order)
        total = np.diff(bounds_of(left)[of_key])
        return Table(layout.schema, keys, found, total, bounds, times, rows, snapshots)

    def _numbers(
        self, column: int, pages: np.ndarray, firsts: np.ndarray, counts: np.ndarray
    ) -> np.ndarray:
        """Return ranges of numbers of a column of each page."""
        return numbers_of(self._pages, self._columns[column], pages, firsts, counts)

    def _of_keys(
        self, column: int, pages: np.ndarray, places: np.ndarray, count: int = 1
    ) -> list[np.ndarray]:
        """Return ``count`` numbers in a row per key; the column has ``count - 1`` extra ones."""
        _, _, widths, bases, _ = self._columns[column]
        if not widths.any():
            return [bases[pages]] * count
        found = self._numbers(column, pages, places, np.full(len(pages), count))
        return [found[at::count] for at in range(count)]

    def _ranges(
        self, column: int, pages: np.ndarray, places: np.ndarray, most: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the first item and the number of items of each key. Raises CorruptPage."""
        begins, ends = self._of_keys(column, pages, places, 2)
        if (begins < 0).any() or (ends < begins).any():
            raise CorruptPage("the events of a key end before they begin")
        if (ends > most[pages]).any():
            raise CorruptPage("the events of a key end after the page")
        return begins, ends - begins

    def _bytes(
        self, column: int, pages: np.ndarray, firsts: np.ndarray, counts: np.ndarray
    ) -> Buffer:
        """Return the bytes of ranges of items of a column of each page."""
        return items_of(self._pages, self._columns[column], pages, firsts, counts)

    def _window_snapshots(self, pages: np.ndarray, places: np.ndarray) -> list[bytes]:
        begins, sizes = self._ranges(_SNAPSHOT_ENDS, pages, places, self._sizes[_SNAPSHOTS])
        blob = bytes(self._bytes(_SNAPSHOTS, pages, begins, sizes))
        return [blob[a:b] for a, b in pairwise(bounds_of(sizes).tolist())]


def _in_order(hashes: np.ndarray) -> np.ndarray:
    if not (hashes[1:] >= hashes[:-1]).all():
        raise CorruptPage("its keys are out of order")
    return hashes


# --- indexes and lists ----------------------------------------------------------------------------


#: The maximum number of levels of a run: more would mean over 2^40 pages.
MAX_HEIGHT = 6
_U8, _I8 = Array("<u8"), Array("<i8")
#: The type of digests in an array; ``tolist`` converts them to bytes.
NAMES = np.dtype((np.void, NAME_BYTES))

#: The level of pages that list pending deletions, higher than any run.
LIST = 15
#: The maximum size in bytes of the pending deletions in a snapshot, and of a page of a list.
ROOM, _LIST_BYTES = 1 << 13, 1 << 14


@dataclass(frozen=True, slots=True)
class PendingPages:
    """Pages of one level of a run; with ``below``, also all pages below them."""

    number: int
    level: int
    names: list[bytes]
    below: bool = True


Entry = PendingPages | list[str]
#: The entry after which the store is compacted, so that nothing of deleted pages remains.
COMPACT: list[str] = []
#: The maximum number of keys of pages in an entry.
KEYS_AT_ONCE = 64


def digests(names: Sequence[bytes]) -> np.ndarray:
    """Return digests as an array."""
    return np.frombuffer(b"".join(names), NAMES)


@dataclass
class Index:
    """Pages of one level, in order: first hashes, names, and times before which no key is idle."""

    firsts: np.ndarray
    names: np.ndarray
    """Digests, of the type ``NAMES``."""
    oldest: np.ndarray

    def __len__(self) -> int:
        return len(self.names)

    def cut(self, start: int, stop: int) -> Index:
        return Index(self.firsts[start:stop], self.names[start:stop], self.oldest[start:stop])

    @property
    def earliest(self) -> int:
        """Return a time before which no key of these pages is idle."""
        return int(self.oldest.min())

    @property
    def nbytes(self) -> int:
        """Return how much memory the index takes."""
        return self.firsts.nbytes + self.names.nbytes + self.oldest.nbytes

    @cached_property
    def _words(self) -> memoryview:
        """Return the first hashes in a form in which Python searches for one fast."""
        return np.ascontiguousarray(self.firsts, np.uint64).data

    def name_for(self, hashed: int) -> bytes | None:
        """Return the name of the page that may have a key with this hash, None if none may."""
        end = bisect_right(self._words, hashed)
        return self.names[end - 1].tobytes() if end else None

    def renewed(
        self, places: np.ndarray, oldest: Sequence[int], names: Sequence[bytes] | None = None
    ) -> Index:
        """Return this index with other moments at some places, and other names if given."""
        moments, found = self.oldest.copy(), self.names
        moments[places] = oldest
        if names is not None:
            found = found.copy()
            found[places] = digests(names)
        return Index(self.firsts, found, moments)

    def holding(self, hashes: np.ndarray) -> np.ndarray:
        """Return each page that may have keys with some hashes, which never decrease."""
        bounds = np.full(len(self) + 1, len(hashes))
        bounds[:-1] = hashes.searchsorted(self.firsts)
        return np.flatnonzero(bounds[1:] > bounds[:-1])

    def between(self, low: int, high: int | None) -> np.ndarray:
        """Return the names of pages that may have keys from hash ``low`` on, before ``high``."""
        start, stop = range_of(self.firsts, low, high)
        return self.names[max(0, start - 1) : stop]

    def dump(self) -> list[Payload]:
        names = "name", self.names.tobytes()
        return [*_U8.dump(self.firsts), names, *_I8.dump(self.oldest)]

    @classmethod
    def load(cls, payloads: Iterator[Payload], count: int) -> Index:
        """Return an index from its columns. Raises CorruptPage."""
        firsts = _U8.load(payloads, count)
        kind, data = next_payload(payloads)
        if kind != "name" or len(data) != count * NAME_BYTES:
            raise CorruptPage("its names have the wrong kind or length")
        if (firsts[1:] < firsts[:-1]).any():
            raise CorruptPage("its pages are out of order")
        return cls(firsts, np.frombuffer(data, NAMES), _I8.load(payloads, count))


Content = Index | list[Entry]


def encode(layout: TableLayout, level: int, run: int, content: Table | Content) -> bytes:
    """Encode a table, an index or a list. Raises NotPageable for values that are not plain data."""
    if isinstance(content, Table):
        return encode_table(layout, run, content)
    fields = [MAGIC.decode(), VERSION, layout.window, level, run, *dump(content)]
    packed: bytes = msgpack.packb(fields)
    return packed


def dump(content: Content) -> tuple[int, list[Payload]]:
    """Return the count and the columns of a page above the tables."""
    if isinstance(content, list):
        return len(content), [("msgpack", msgpack.packb(dump_entries(content)))]
    return len(content), content.dump()


def require_whole(layout: TableLayout, level: int, run: int, name: bytes, page: Buffer) -> None:
    """Raise CorruptPage if a page does not match its name."""
    if name_of(page) != name:
        error = CorruptPage("its bytes do not match its name")
        raise damaged(layout, level, run, name, error) from error


def decode(layout: TableLayout, level: int, run: int, name: bytes, page: bytes) -> Table | Content:
    """Decode the bytes of a page. Raises CorruptPage for anything unexpected."""
    require_whole(layout, level, run, name, page)
    try:
        if level == 0:
            return Leaves(layout, [run], [page]).table()
        return read(layout, level, run, page)
    except (ValueError, TypeError) as error:
        raise damaged(layout, level, run, name, error) from error


def damaged(
    layout: TableLayout, level: int, run: int, name: bytes, error: Exception
) -> CorruptPage:
    """Return the error for a damaged page."""
    return damage(key_of(layout.window, level, run, name), error)


def read(layout: TableLayout, level: int, run: int, page: Buffer) -> Content:
    """Decode the bytes of a page above the tables. Raises CorruptPage."""
    try:
        fields = msgpack.unpackb(page)
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise CorruptPage(f"it is not the msgpack of a page of keys: {error}") from error
    if not isinstance(fields, list) or fields[:2] != [MAGIC.decode(), VERSION] or len(fields) != 7:
        raise CorruptPage(f"it is not a page of keys of format {VERSION}")
    if fields[2:5] != [layout.window, level, run]:
        raise CorruptPage(f"it is the page of {fields[2]!r}, {fields[3]}/{fields[4]}")
    if level == LIST:
        return load(_load_list, *fields[5:])
    return load(Index.load, *fields[5:])


def load(read: Callable[[Iterator[Payload], int], T], count: Any, columns: Any) -> T:
    """Decode the count and the columns of a page or a snapshot. Raises CorruptPage."""
    if type(count) is not int or count < 0 or not isinstance(columns, list):
        raise CorruptPage("its count or its columns have the wrong type")
    payloads = iter(columns)
    found = read(payloads, count)
    if next(payloads, None) is not None:
        raise CorruptPage("it has too many columns")
    return found


def _load_list(payloads: Iterator[Payload], count: int) -> list[Entry]:
    kind, data = next_payload(payloads)
    entries = load_entries(msgpack.unpackb(data)) if kind == "msgpack" else []
    if len(entries) != count:
        raise CorruptPage(f"its header declares {count} entries, and the page has another number")
    return entries


def parts_of(entries: Sequence[Entry]) -> list[list[Entry]]:
    """Split entries into the contents of list pages."""
    found: list[list[Entry]] = []
    room = 0
    for entry in entries:
        weight = weight_of(entry)
        if weight > room:
            found.append([])
            room = _LIST_BYTES
        found[-1].append(entry)
        room -= weight
    return found


def dump_entries(entries: Sequence[Entry]) -> list[Any]:
    """Return entries as plain data."""
    return [
        [e.number, e.level, e.below, b"".join(e.names)] if isinstance(e, PendingPages) else e
        for e in entries
    ]


def load_entries(entries: Any) -> list[Entry]:
    """Return entries from plain data. Raises CorruptPage."""
    if not isinstance(entries, list):
        raise CorruptPage("the pending deletions are not a list")
    return [*map(_entry, entries)]


def _entry(entry: Any) -> Entry:
    match entry:
        case list() if len(entry) <= KEYS_AT_ONCE and {str} >= set(map(type, entry)):
            return [*entry]
        case [int(number), int(level), bool(below), bytes(names)]:
            fits = number >= 0 and (0 <= level <= MAX_HEIGHT or level == LIST)
            if fits and not len(names) % NAME_BYTES:
                return PendingPages(number, level, np.frombuffer(names, NAMES).tolist(), below)
    raise CorruptPage("an entry of the pending deletions is invalid")


def weight_of(entry: Entry) -> int:
    """Return the approximate size of an entry in a snapshot, in bytes."""
    if isinstance(entry, PendingPages):
        return NAME_BYTES * len(entry.names) + 20
    return sum(map(len, entry), 3 * len(entry)) + 5
