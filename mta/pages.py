"""Pages: their format, and how they are stored, read and deleted.

A page is an immutable sealed group of one level, named by a digest of its bytes:

    page    = msgpack array [magic, version, window, level, group, count, columns]
    magic   = "mta-page"
    version = 1
    window  = text, the window's name
    level   = 0 for events, l > 0 for aggregates of groups of level l - 1
    group   = number of the group in its level; its first element is group * arity
    count   = number of elements: the level's arity, or the size of a part of the open leaf group
    columns = array of [kind, bytes]: the value columns of the events or the columns of the
              partial aggregates, then (if the window stores times) "<i8" times in microseconds
              since 1970 of each event or of the last event below each element, then (levels > 0)
              "name" with the concatenated 16-byte digests of the pages below
    kind    = a numpy little-endian type such as "<f8", "msgpack" for a list of plain data, "i16"
              for little-endian signed integers of 16 (or another number of) bytes each, or
              "bits": one bit per number of the previous column, set unless the number is null,
              starting at the lowest bit of the first byte; empty if no number is null

    name    = xxh3_128 of the page's bytes
    key     = window "/" level "/" group "/" name in hexadecimal

The digest covers the window, the level and the group, so reading a page stored under the wrong key
raises the same error as reading a damaged page. An element has 16 zero bytes as its name if its
events were evicted before their page was sealed, because nothing reads that page.

For example, this page holds the events 1.0 and 2.0 of window "w", with arity 2 and without times:

    97 a8 "mta-page" 01 a1 "w" 00 00 02 91 92 a3 "<f8" c4 10 (16 bytes)

``StorePager`` writes groups as pages to a store; ``ResidentPager`` keeps groups in memory. A page
that a structure no longer references is *retired*: it is deleted once no snapshot that may still be
restored needs it. A snapshot stores retired pages as follows:

    retired  = array of arrays of notes: for each earlier snapshot that may still be restored, the
               pages that were retired before the next snapshot
    note     = [level, number, name, gone]
    gone     = number of the page's subtrees whose pages are all retired as well; -1 for all
               subtrees

A snapshot includes the open leaf group of level queues, or the last leaf of a tree. Either may have
thousands of events. The events that no longer change are cut into *parts*. Each full part is
written to the store once, before the first snapshot that includes it. Snapshots only name the part:

    last leaf          . v v v | v v v v | v v v v | v v . .      parts of four; one event evicted
    in the snapshot        part      part      part    v v

    parts    = [size, gone, places], or [] if there are none
    size     = number of events in a part
    gone     = number of evicted events of the first part
    places   = array of [number, name]

A part is a page of level 0. In level queues, it has the number of its group; in a tree, it has a
separate number. A part is retired with the first snapshot that does not name it: when all its
events were evicted, when a late event was inserted before its end, or when its leaf is no longer
the last leaf.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import msgpack
import numpy as np
import xxhash

from mta.columns.schemas import Array, Payload, Rows, Schema, next_payload
from mta.errors import CorruptPage, CorruptSnapshot, InvariantViolation, MissingPage
from stores import MemoryStore, PageStore

_PAGE = "mta-page"
_PAGE_VERSION = 1
NAME_BYTES = 16
NO_NAME = bytes(NAME_BYTES)
#: The bytes of events in one part of an open leaf: with its header, a part fits 4 disk pages of
#: 4 KiB.
PART_BYTES = 16256
#: The assumed size of a value whose exact size only encoding would reveal.
OBJECT_BYTES = 64
_TIMES = Array("<i8")


@dataclass(slots=True, eq=False)
class Group:
    """Elements of one level: values or partials, their times, and the names of their pages."""

    rows: Rows
    times: np.ndarray | None
    names: list[bytes]
    count: int

    def extend(self, schema: Schema, other: Group, start: int, stop: int) -> None:
        """Add some elements of another group; there must be room for them."""
        end = self.count + stop - start
        schema.put_many(self.rows, self.count, schema.cut(other.rows, start, stop))
        if self.times is not None and other.times is not None:
            self.times[self.count : end] = other.times[start:stop]
        self.names.extend(other.names[start:stop])
        self.count = end

    def cut(self, schema: Schema, start: int, stop: int) -> Group:
        """Return some elements, as views."""
        times = None if self.times is None else self.times[start:stop]
        rows = schema.cut(self.rows, start, stop)
        return Group(rows, times, self.names[start:stop], stop - start)


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout of the pages of one level."""

    schema: Schema
    timed: bool
    named: bool


def layouts_of(leaf: Layout, inner: Layout, notes: Layout | None = None) -> Mapping[int, Layout]:
    """Return the layouts of pages by level."""
    known = {0: leaf} if notes is None else {0: leaf, NOTES: notes}
    return defaultdict(lambda: inner, known)


@dataclass(frozen=True, slots=True)
class Named:
    """A page as its parent describes it."""

    level: int
    number: int
    name: bytes
    fold: Any
    """The expected aggregate of the page; None if the parent does not know it."""
    last_time: int | None
    first: int
    """The position of the first event below the page."""
    end: int
    needed: bool = True
    """Whether the window itself needs the page, not only earlier snapshots."""


def is_name(value: Any) -> bool:
    """Return whether a value can be the name of a page."""
    return isinstance(value, bytes) and len(value) == NAME_BYTES and value != NO_NAME


def encode(window: str, level: int, number: int, group: Group, layout: Layout) -> bytes:
    """Encode a group as page bytes. Raises NotPageable for values that are not plain data."""
    columns, packer = write_columns(group, layout), msgpack.Packer()
    fields = [_PAGE, _PAGE_VERSION, window, level, number, group.count]
    pieces = [packer.pack_array_header(len(fields) + 1), *map(packer.pack, fields)]
    pieces.append(packer.pack_array_header(len(columns)))
    for kind, data in columns:  # copies the data once; a msgpack packer would copy it twice
        # The header of bytes in msgpack: a type for each width of the length, and the length.
        width = (len(data) >= 1 << 8) + (len(data) >= 1 << 16)
        head = bytes((0xC4 + width,)) + len(data).to_bytes(1 << width)
        pieces += [packer.pack_array_header(2), packer.pack(kind), head, data]
    return b"".join(pieces)


def write_columns(group: Group, layout: Layout) -> list[Payload]:
    """Return the columns of a group in the encoding that pages and snapshots share."""
    columns: list[Payload] = layout.schema.dump(group.rows)
    if layout.timed:
        assert group.times is not None
        columns += _TIMES.dump(group.times)
    if layout.named:
        columns.append(("name", b"".join(group.names)))
    return columns


#: Returns the digest that names a page. Takes 0.1 us per KiB.
name_of: Callable[[bytes | memoryview], bytes] = xxhash.xxh3_128_digest


def require_named(key: str, page: bytes | memoryview) -> None:
    """Raise CorruptPage if the digest of a page is not the one at the end of its key."""
    if xxhash.xxh3_128_hexdigest(page) != key[-2 * NAME_BYTES :]:
        raise damage(key, "its bytes do not match its name")


def key_of(window: str, level: int, number: int, name: bytes) -> str:
    """Return the page's key in the store."""
    return f"{window}/{level}/{number}/{name.hex()}"


def keys_of(window: str, pages: Sequence[tuple[int, int, bytes]]) -> list[str]:
    """Return the keys of pages, given as (level, number, name)."""
    return [f"{window}/{level}/{number}/{name.hex()}" for level, number, name in pages]


def require_here(store: PageStore | None, key: str | None) -> None:
    """Raise MissingPage if a page, if any, is only in the memory of another process."""
    if isinstance(store, MemoryStore) and key is not None and store.get_many([key]) == [None]:
        raise MissingPage.of(key, store)


def decode(
    page: bytes | memoryview, window: str, level: int, number: int, name: bytes, layout: Layout
) -> Group:
    """Decode a page. Raises CorruptPage unless it is the page of this window, level and number."""
    try:
        if name_of(page) != name:
            raise CorruptPage("its bytes do not match its name")
        fields = msgpack.unpackb(page)
        if not isinstance(fields, list) or fields[:2] != [_PAGE, _PAGE_VERSION] or len(fields) != 7:
            raise CorruptPage(f"it is not a page of format {_PAGE_VERSION}")
        if fields[2:5] != [window, level, number]:
            raise CorruptPage(f"it is the page of window {fields[2]!r}, {fields[3]}/{fields[4]}")
        return read_columns(fields[5], fields[6], layout)
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise damage(key_of(window, level, number, name), error) from error


def read_columns(count: Any, columns: Any, layout: Layout) -> Group:
    """Decode the columns of a page or a snapshot. Raises CorruptPage for invalid columns."""
    if not isinstance(count, int) or not isinstance(columns, list):
        raise CorruptPage("its count or its columns have the wrong type")
    payloads = iter(columns)
    rows = layout.schema.load(payloads, count)
    times = _TIMES.load(payloads, count) if layout.timed else None
    names: list[bytes] = []
    if layout.named:
        found, data = next_payload(payloads)
        if found != "name" or len(data) != count * NAME_BYTES:
            raise CorruptPage(
                f"a column of {len(data)} bytes of {found!r} stands for {count} names"
            )
        names = [bytes(data[at : at + NAME_BYTES]) for at in range(0, len(data), NAME_BYTES)]
    if next(payloads, None) is not None:
        raise CorruptPage("it has too many columns")
    return Group(rows, times, names, count)


def damage(key: str, what: object) -> CorruptPage:
    """Return the error for a damaged page."""
    return CorruptPage(
        f"page {key} is damaged: {what}; restore from an earlier snapshot, or restore a good copy "
        "of the page"
    )


# --- snapshots ------------------------------------------------------------------------------------


#: The largest group, so that a hostile snapshot cannot request unbounded memory.
MAX_ARITY = 1 << 20
#: The largest number of levels: with groups of two they would hold 2^64 events.
MAX_LEVELS = 64
#: The valid names of windows.
NAME = re.compile(r"[A-Za-z0-9._:-]{1,100}")


def corrupt(what: str) -> CorruptSnapshot:
    """Return the error for an unreadable snapshot."""
    return CorruptSnapshot(
        f"the snapshot cannot be read: {what}; use an earlier or an undamaged one"
    )


# --- stored groups --------------------------------------------------------------------------------


#: The location of a page: its level, the number of its group in that level, and its name.
Place = tuple[int, int, bytes]
#: A group, after its level and its number in that level.
Numbered = tuple[int, int, Group]
#: A retired page, as stored in a snapshot.
Note = list[Any]
#: The level of pages that contain notes; no structure has this many levels.
NOTES = 255

#: How many of the groups last read from each level stay in memory.
_LAST = 2


class Pager(ABC):
    """Stores the sealed groups of one window."""

    #: Whether ``prefetch`` has an effect.
    reads_ahead = False
    #: If ``reads_ahead``, how many prefetched leaf groups fit in memory.
    read_ahead = 0
    #: Whether the last read waited for the store.
    waited = False

    @abstractmethod
    def write(self, groups: Sequence[Numbered]) -> list[bytes]:
        """Store all groups (level, number, group) or none; return their names. One store call."""

    @abstractmethod
    def read(self, level: int, number: int, name: bytes) -> Group:
        """Return a group. One store call, or none for the last groups read of its level.

        Raises MissingPage or CorruptPage.
        """

    def read_again(self, level: int, number: int, name: bytes) -> Group:
        """Return a group, read again from the store. One store call. Raises as ``read`` does."""
        return self.read(level, number, name)

    def read_many(self, places: Sequence[Place]) -> list[Group]:
        """Return groups. One store call for those not prefetched. Raises as ``read`` does."""
        return [self.read(*place) for place in places]

    @abstractmethod
    def delete(self, places: Sequence[Place]) -> None:
        """Delete groups in this order. One store call. Missing groups are not an error."""

    def prefetch(self, places: Sequence[Place]) -> None:
        """Announce that these groups will be read soon. Does not wait."""
        del places

    def peek(self, level: int, number: int, name: bytes) -> Group | None:
        """Return a group if no store call is needed and it is undamaged, else None."""
        del level, number, name
        return None


class ResidentPager(Pager):
    """Keeps groups in memory. Values may be any objects."""

    def __init__(self) -> None:
        self._groups: dict[tuple[int, int], Group] = {}

    def write(self, groups: Sequence[Numbered]) -> list[bytes]:
        for level, number, group in groups:
            self._groups[level, number] = Group(group.rows, group.times, group.names, group.count)
        return [b"in memory".ljust(NAME_BYTES)] * len(groups)

    def read(self, level: int, number: int, name: bytes) -> Group:
        return self._groups[level, number]

    def delete(self, places: Sequence[Place]) -> None:
        for level, number, _ in places:
            self._groups.pop((level, number), None)


class StorePager(Pager):
    """Writes groups as pages to a store, and verifies the pages that it reads."""

    def __init__(self, store: PageStore, window: str, layouts: Mapping[int, Layout]) -> None:
        self.store = store
        self._window = window
        self._layouts = layouts
        self._ahead_bytes = store.capabilities.read_ahead
        self.reads_ahead = self._ahead_bytes > 0
        #: The last groups read of each level, with their names: after a search for a cut, the
        #: eviction reads the same path, or two paths for two frames.
        self._last: dict[int, list[tuple[bytes, Group]]] = {}

    def write(self, groups: Sequence[Numbered]) -> list[bytes]:
        names, pages = list[bytes](), dict[str, bytes]()
        for level, number, group in groups:
            page = encode(self._window, level, number, group, self._layouts[level])
            names.append(name_of(page))
            pages[key_of(self._window, level, number, names[-1])] = page
        self.store.put_many(pages)
        return names

    def read(self, level: int, number: int, name: bytes) -> Group:
        last = self._last.get(level, [])
        for known, group in last:
            if known == name:
                return group
        (group,) = self.read_many([(level, number, name)])
        self._last[level] = [(name, group), *last[: _LAST - 1]]
        return group

    def read_again(self, level: int, number: int, name: bytes) -> Group:
        return self.read_many([(level, number, name)])[0]

    def read_many(self, places: Sequence[Place]) -> list[Group]:
        keys, groups = keys_of(self._window, places), list[Group]()
        pages = list(map(self.store.peek, keys)) if self.reads_ahead else [None]
        self.waited = None in pages
        if self.waited:
            found = self.store.view_many(keys, partial(self._opened, places))
        else:
            found = self._opened(places, pages)
        for key, group in zip(keys, found, strict=True):
            if group is None:
                raise MissingPage.of(key, self.store)
            if isinstance(group, CorruptPage):
                self.store.discard([key])  # the page in the store may be whole, only this copy bad
                raise group
            groups.append(group)
        return groups

    def _opened(
        self, places: Sequence[Place], pages: Iterable[bytes | memoryview | None]
    ) -> list[Group | CorruptPage | None]:
        """Decode pages; return errors instead of raising them, as the store is still waiting."""
        found = list[Group | CorruptPage | None]()
        for (level, number, name), page in zip(places, pages, strict=True):
            if page is None:
                found.append(None)
                continue
            if level == 0:
                self.read_ahead = self._ahead_bytes // max(len(page), 1)
            try:
                layout = self._layouts[level]
                found.append(decode(page, self._window, level, number, name, layout))
            except CorruptPage as error:
                found.append(error.with_traceback(None))
        return found

    def delete(self, places: Sequence[Place]) -> None:
        keys = [key_of(self._window, *place) for place in places if place[2] != NO_NAME]
        if keys:
            self.store.delete_many(keys)

    def prefetch(self, places: Sequence[Place]) -> None:
        self.store.prefetch([key_of(self._window, *place) for place in places])

    def peek(self, level: int, number: int, name: bytes) -> Group | None:
        key = key_of(self._window, level, number, name)
        (group,) = self._opened([(level, number, name)], [self.store.peek(key)])
        return group if isinstance(group, Group) else None  # ``read`` raises the error


class RetiredPages:
    """The retired pages, in one list per snapshot, the oldest first.

    ``below`` returns the notes of the pages that are retired together with a page, if any.
    """

    def __init__(
        self, pager: Pager, below: Callable[[int, Group, int], Iterable[Note]] | None = None
    ) -> None:
        self._pager, self._below = pager, below
        #: Each snapshot starts a new list, because it needs the pages that are retired after it.
        self._lists: list[list[Note]] = [[]]

    def __len__(self) -> int:
        return sum(map(len, self._lists))

    def __iter__(self) -> Iterator[Note]:
        return (note for notes in self._lists for note in notes)

    @property
    def newest(self) -> list[Note]:
        """The notes since the last snapshot."""
        return self._lists[-1]

    def add(self, places: Iterable[Place], gone: int = 0) -> None:
        """Add pages that the structure no longer references."""
        self.newest.extend([*place, gone] for place in places)

    def retain_snapshot(self) -> None:
        """Start a new list, because a snapshot was taken."""
        self._lists.append([])

    def delete(self, snapshots: int) -> None:
        """Delete the pages retired before the last ``snapshots`` snapshots; with 0, all of them.

        At most one store call, plus reads of pages that have retired children. Children are deleted
        before parents, and missing pages are no error, so you can repeat an interrupted deletion.
        """
        going = self._lists[: max(0, len(self._lists) - snapshots)]
        places = [place for notes in going for place in self._with_those_below(notes)]
        if places:
            self._pager.delete(places)
        self._lists = self._lists[len(going) :] if snapshots else [[]]

    def _with_those_below(self, notes: Iterable[Note]) -> Iterator[Place]:
        for level, number, name, gone in notes:
            if gone and self._below is not None:
                try:
                    group = self._pager.read(level, number, name)
                except (MissingPage, CorruptPage):
                    continue  # the page is deleted already, or its children are unknown
                yield from self._with_those_below(self._below(level, group, gone))
            yield level, number, name

    def state(self) -> list[list[Note]]:
        return self._lists

    def restore(self, state: Any, most: int | None = None) -> None:
        """Load the lists of a snapshot, at most ``most``. Raises CorruptPage or CorruptSnapshot."""
        lists = isinstance(state, list) and all(isinstance(notes, list) for notes in state)
        if not lists or not state or (most is not None and len(state) > max(most, 1)):
            raise corrupt("it does not have one list of retired pages for each earlier snapshot")
        for notes in state:
            for note in notes:
                check_note(note)
                if note[3] and self._below is None:
                    raise corrupt("a note of a retired page names what is below it")
        self._lists = state


def check_note(note: Any) -> None:
    """Raise CorruptPage for an invalid note of a retired page."""
    if type(note) is not list or list(map(type, note)) != [int, int, bytes, int]:
        raise CorruptPage("the record of a retired page has the wrong type")
    level, number, name, gone = note
    if not (0 <= level <= MAX_LEVELS or level == NOTES) or number < 0 or gone < -1:
        raise CorruptPage("the record of a retired page is invalid")
    if level == 0 and gone:
        raise CorruptPage("the record of a retired leaf names children")
    if not is_name(name):
        raise CorruptPage("the record of a retired page has no name")


# --- parts of the last leaf -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Part(Named):
    """A part of the last leaf."""


class LastLeaf(Protocol):
    """The events of the last leaf, oldest first."""

    count: int
    #: How many were evicted.
    dropped: int
    #: How many events from the start, including evicted events, have not changed since this was
    #: last set.
    unchanged: int

    def group(self, start: int, stop: int) -> Group:
        """Return remaining events, from index ``start`` to ``stop``."""


class LeafParts:
    """The parts that contain the first events of the last leaf.

    A leaf has fewer than ``most`` events. There are no parts if their size would be ``most`` or
    more.
    """

    def __init__(self, pager: Pager, layout: Layout, most: int, retired: RetiredPages) -> None:
        self._pager, self._layout, self._retired = pager, layout, retired
        weight = layout.schema.row_bytes
        row = (OBJECT_BYTES if weight is None else weight) + 8 * layout.timed
        size = max(1, PART_BYTES // max(row, 1))
        #: The number of events in each existing part, and in each future part; 0 without parts.
        self.size = self._to_come = size if size < most else 0
        #: The places of the parts, the leaf that they were cut from, and the index of their first
        #: event in it, including evicted events.
        self._places: list[Place] = []
        self._leaf: LastLeaf | None = None
        self._first = 0

    def __len__(self) -> int:
        return len(self._places)

    def held(self, leaf: LastLeaf) -> int:
        """Return how many events of the last leaf are in written parts."""
        if leaf is not self._leaf or not self._places:
            return 0
        return self._first + len(self._places) * self.size - leaf.dropped

    def _of_use(self, leaf: LastLeaf) -> slice:
        """Return the range of the parts that still match the last leaf."""
        if leaf is not self._leaf or not self._places:
            return slice(0, 0)
        gone, same = leaf.dropped - self._first, leaf.unchanged - self._first
        return slice(gone // self.size, max(gone, same) // self.size)

    # --- for snapshots ----------------------------------------------------------------------------

    def write(self, leaf: LastLeaf, numbers: Iterator[int]) -> int:
        """Write the parts that became full since the last snapshot, and return how many.

        They get the next ``numbers``. Parts that no longer match the leaf are retired. One store
        call if a part is written. If the store fails, nothing changes.
        """
        of_use = self._of_use(leaf)
        kept = self._places[of_use]
        first, size = self._first + of_use.start * self.size, self.size
        if not kept:
            first, size = leaf.dropped, self._to_come
        start = first + len(kept) * size - leaf.dropped
        starts = range(start, leaf.count - size + 1, size) if size else ()
        groups = [(0, next(numbers), leaf.group(at, at + size)) for at in starts]
        names = self._pager.write(groups) if groups else []
        new = [(0, number, name) for (_, number, _), name in zip(groups, names, strict=True)]
        self._retired.add(self._places[: of_use.start] + self._places[of_use.start + len(kept) :])
        self._places, self._first, self.size = kept + new, first, size
        self._leaf, leaf.unchanged = leaf, leaf.dropped + leaf.count
        return len(groups)

    def retire_all(self) -> None:
        """Retire all parts, because no last leaf remains."""
        self._retired.add(self._places)
        self._places, self._leaf = [], None

    def state(self, leaf: LastLeaf) -> list[Any]:
        """Return the state for a snapshot; empty if there are no parts."""
        if not self._places:
            return []
        places = [[number, name] for _, number, name in self._places]
        return [self.size, leaf.dropped - self._first, places]

    def restore(self, state: Any, before: int) -> tuple[int, int]:
        """Restore the parts that a snapshot names, whose pages have numbers below ``before``.

        Returns how many events they have, and how many of these were evicted. Call ``belong`` next
        to assign the parts to a leaf. Raises CorruptSnapshot.
        """
        match state:
            case []:
                return 0, 0
            case [int(size), int(gone), [_, *_] as places] if 0 <= gone < size:
                pass
            case _:
                raise corrupt("its parts have the wrong types")
        for place in places:
            match place:
                case [int(number), name] if 0 <= number < before and is_name(name):
                    self._places.append((0, number, name))
                case _:
                    raise corrupt("its parts are invalid")
        self.size = size
        return size * len(places), gone

    def read(self) -> list[Group]:
        """Return the events of all parts. At most one store call. Raises CorruptSnapshot."""
        groups = self._pager.read_many(self._places) if self._places else []
        if any(group.count != self.size for group in groups):
            raise corrupt("the parts of its last leaf are of another size")
        return groups

    def belong(self, leaf: LastLeaf, gone: int) -> None:
        """Assign the parts to a leaf; ``gone`` events of the first part were evicted."""
        self._leaf, self._first = leaf, leaf.dropped - gone

    def replace(self, leaf: LastLeaf, other: LastLeaf) -> None:
        """Assign the parts of a leaf, if it has any, to one that begins with the same events."""
        if self._leaf is leaf:
            self._leaf = other

    # --- verifying --------------------------------------------------------------------------------

    def pages(self, leaf: LastLeaf, first: int) -> Iterator[Named]:
        """Yield every part that a snapshot names; the leaf starts at position ``first``."""
        of_use = self._of_use(leaf)
        for index, (level, number, name) in enumerate(self._places):
            begin = first + self._first + index * self.size - leaf.dropped
            needed = of_use.start <= index < of_use.stop
            yield Part(level, number, name, None, None, begin, begin + self.size, needed)

    def difference(self, group: Group) -> str | None:
        """Describe what is wrong with a readable part, except for its times, or return None."""
        if group.count != self.size:
            return f"it has {group.count} events instead of {self.size}"
        return None

    def check(self, leaf: LastLeaf) -> None:
        """Assert that the parts equal the leaf, reading each. Raises InvariantViolation."""
        of_use, schema = self._of_use(leaf), self._layout.schema
        for index, place in enumerate(self._places[of_use], of_use.start):
            start = self._first + index * self.size - leaf.dropped
            gone = max(0, -start)
            held = leaf.group(start + gone, start + self.size)
            page = self._pager.read_again(*place)
            found = page.cut(schema, gone, page.count)
            one, other = (encode("", 0, 0, group, self._layout) for group in (found, held))
            if one != other:
                raise InvariantViolation(f"part {index} of the last leaf contains other events")
