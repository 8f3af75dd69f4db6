"""The interfaces of the structures that store a window's events, and the leaves that they return.

A *position* is the index of an event in the order of the window: ``front`` is the position of the
oldest event, and ``back`` is the position after the newest event. In level queues the position of
an event never changes. In structures ordered by time, a late event moves all later events by one.

An ``EventLog`` adds events at the back, singly or in batches, and evicts them at the front. It also
takes snapshots, supports audits and deletes pages. This is enough for windows that share events and
read them through cursors. An ``Aggregator`` serves a single window: it also returns the result, and
searches for a frame's cut.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from math import inf
from operator import index as whole_number
from typing import Any, Literal, NamedTuple, Protocol, Self

import numpy as np

from mta.columns.schemas import Row, Rows, Schema
from mta.errors import EmptyWindow, MissingPage
from mta.folds.sliding import Events, Fronts, SlidingFolds, joined
from mta.frames.base import Frame
from mta.kernels.native import ranks
from mta.monoids.base import AbstractMonoid, Partial
from mta.pages import NO_NAME, Group, Layout, Named
from mta.snapshots import Snapshot
from stores import PageStore

#: What to do with an event that has the time of an existing event, in structures ordered by time.
OnDuplicate = Literal["append", "replace", "combine"]
#: The number of events of a batch that are added together.
_CHUNK = 1 << 18
#: The monoid of an observed aggregate, and a function that extracts it from a partial (or rows).
Lens = tuple[AbstractMonoid, Callable[[Any], Any]]
#: Undoes a change, without a store call.
Undo = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Setting:
    """The settings of an aggregator."""

    monoid: AbstractMonoid
    store: PageStore | None
    """The store of the pages; None keeps everything in memory."""
    window: str
    leaf_arity: int
    arity: int
    timed: bool
    frame: Frame
    lateness: int = 0
    """How late an event may be, in microseconds, relative to the newest event before its batch."""
    on_duplicate: OnDuplicate = "append"
    """What to do with an event that has the time of an existing event."""
    retained: int = 0
    """How far back from the newest event windows can be queried, in microseconds."""

    @property
    def reach(self) -> int:
        """How far back a late event or a query may need windows, in microseconds."""
        return max(self.lateness, self.retained)


@dataclass(frozen=True, slots=True)
class Batch:
    """New events, in order, and space for the result of each."""

    monoid: AbstractMonoid
    rows: Rows
    times: np.ndarray | None
    count: int
    results: Rows
    """None if no results are requested."""

    def part(self, start: int, stop: int) -> Events:
        every = Events(self.rows, self.times, self.count)
        return every.cut(self.monoid.inputs, start, stop)

    def into(self, results: Rows) -> Batch:
        """Return the same events with space for the results of another window."""
        return Batch(self.monoid, self.rows, self.times, self.count, results)

    def put(self, start: int, folds: Rows) -> None:
        """Convert aggregates to results, and write them for the events from ``start`` on."""
        self.put_results(start, self.monoid.lower_rows(folds))

    def put_results(self, start: int, outputs: Rows) -> None:
        """Write results, for the events from ``start`` on."""
        self.monoid.outputs.put_many(self.results, start, outputs)

    def put_new(self, start: int, outputs: Rows, count: int, is_new: np.ndarray) -> None:
        """Write only the results of new events; all events after the end of ``is_new`` are new."""
        schema, places = self.monoid.outputs, np.flatnonzero(is_new)
        self.put_results(start, schema.take(outputs, places))
        self.put_results(start + len(places), schema.cut(outputs, len(is_new), count))


class Recent(NamedTuple):
    """The newest stored events: a late event can be inserted among them without a page read."""

    events: Events
    """Views, in order of time."""
    before: Callable[[], Partial]
    """Returns the aggregate of the events between a window's ``folds`` and these events.

    Costs O(arity * log n) combines, and at most one page read per level.
    """


class Lag(NamedTuple):
    """How far before the newest event a frame ends, and the stored events that it reaches next.

    An event enters the frame once the newest event is ``delay`` later and ``rows`` other events
    have followed it.
    """

    delay: int
    """In microseconds."""
    rows: int
    waiting: Events
    is_all: bool
    """Whether ``waiting`` has all stored events that the frame has not reached."""


class Prefetched(NamedTuple):
    """What a window needs to insert and evict single events without reading a page."""

    folds: Rows
    """The aggregates to combine with ``right``, now and after each of the next evictions.

    At least one event remains.
    """
    size: int
    """The number of aggregates in ``folds``; 0 if no result has been requested yet."""
    right: Partial
    """The aggregate of the new events so far, to which the next ones are combined."""
    leaving: np.ndarray
    """The times of the events that these evictions remove, and of the event after them.

    Empty if the window has no times, or if the times are not in memory.
    """
    room: int
    """How many events can be added."""
    late_from: float = inf
    """From this time on, events may arrive in any order: all evictable events are older."""
    recent: Recent | None = None
    """The stored events from ``late_from`` on; None if no event may be late."""
    lag: Lag | None = None
    """None if the window ends with the newest event."""
    turns: bool = False
    """Whether the folds cover the whole window, and later events arrive in order.

    New events may then become the next folds.
    """

    def cut(self, size: int, monoid: AbstractMonoid) -> Prefetched:
        """Return a copy with at most ``size`` aggregates."""
        size = min(size, self.size)
        folds, turns = monoid.partials.cut(self.folds, 0, size), self.turns and size == self.size
        return self._replace(folds=folds, size=size, leaving=self.leaving[:size], turns=turns)

    def beside(self, identity: Partial, room: int) -> Prefetched:
        """Return a copy for ``room`` events; ``right`` becomes the identity if it is None."""
        right = identity if self.right is None else self.right
        return self._replace(right=right, room=room)


class Remembered(Protocol):
    """Events by position and by time, oldest first, for queries over ranges."""

    #: Whether events are in the order of their times, independent of their order of arrival.
    by_time: bool

    @property
    def kept_from(self) -> int:
        """The position of the oldest retained event."""

    @property
    def back(self) -> int:
        """The position after the newest event."""

    def fold(self, start: int, stop: int) -> Partial:
        """Return the aggregate from ``start`` to ``stop``; the identity if there are no events.

        O(arity * log n) combines and at most two page reads per level.
        """

    def first_after(self, time: int) -> int:
        """Return the position of the oldest event later than a time. One page read per level."""

    def time_before(self, position: int) -> int | None:
        """Return the time of the event just before a position, or None if it is unknown.

        For the oldest retained event, this is the time of the newest evicted event. At most one
        page read per level.
        """


class PathGroup(NamedTuple):
    """The last elements of a group of a log, as partials."""

    level: int
    starts: range
    """The position of the first event of each element, and the position after the last event."""
    rows: Rows
    size: int

    @property
    def start(self) -> int:
        return self.starts[0]

    @property
    def stop(self) -> int:
        return self.starts[-1]

    def before(self, back: int, monoid: AbstractMonoid) -> PathGroup:
        """Return the elements that end at or before a position."""
        if self.stop <= back:
            return self
        size = max(0, (back - self.start) // self.starts.step)
        rows = monoid.partials.cut(self.rows, 0, size)
        return PathGroup(self.level, self.starts[: size + 1], rows, size)


class OrderedEvents(Remembered, Protocol):
    """Events by position, oldest first, in the form that cursors read."""

    @property
    def stamp(self) -> int:
        """A number that grows whenever events before the back change positions.

        Cursors then discard their state. In level queues it never grows.
        """

    @property
    def looks_back(self) -> bool:
        """Whether events are retained for late events and moments after they have left."""

    @property
    def open_from(self) -> int:
        """The position from which on events are in the last leaf, which is in memory."""

    def leaf(self, position: int, upto: int = 0, until: int | None = None) -> Leaf:
        """Return the filled part of the leaf at a position. At most one page read per level.

        May include later leaves that start before position ``upto``, or not after time ``until``.
        """

    def settled(self, front: int, end: int) -> int:
        """Return the position from which on single late events are accepted, if order matters.

        At least half of the window from ``front`` to ``end`` is before it. The result is ``end`` if
        that is not the back, if no late events are accepted, or if order does not matter.
        """

    def path(self, position: int, below: int | None = None) -> Sequence[PathGroup]:
        """Return the groups above the leaf that starts at a position, from the root down.

        Each group has its elements from the position on, and the last group has an element that
        starts there. ``below`` limits the groups to lower levels. Empty if the log has no immutable
        groups, or if no sealed leaf starts at the position.
        """

    def folds_behind(self, position: int, back: int) -> tuple[np.ndarray, Rows]:
        """Return positions, starting with ``position``, and the aggregate from each to ``back``.

        The best positions are starts of leaves. Costs a few calls of ``fold``.
        """


class EventLog(ABC):
    """Events in pages, in the form that the engines of windows use."""

    #: The name in snapshots.
    name: str
    #: The position of the oldest event.
    front: int
    #: The layouts of pages by level.
    layouts: Mapping[int, Layout]
    #: Whether events are ordered by their times, independent of their order of arrival.
    by_time: bool = False
    #: Whether a snapshot contains only part of the open leaf group, and pages contain the rest.
    has_parts: bool = False
    #: A number that grows whenever events before the back change positions.
    stamp = 0
    #: The position from which on the last change moved events; negative if it moved all.
    moved_from = -1
    #: Whether events that no window needs may be released at any time, as no snapshot needs them.
    discards: bool
    #: The windows over these events, by name, whose positions move with late events.
    readers: Mapping[str, Any] = {}
    #: Whether frames may end before the newest event.
    ends_anywhere = False

    def __init__(self, setting: Setting) -> None:
        self.setting, self.monoid = setting, setting.monoid

    def empty_like(self, setting: Setting) -> Self:
        """Return an empty log for another window with the same monoid, frame and store."""
        return type(self)(setting)

    # --- events in and out ----------------------------------------------------------------------

    @property
    @abstractmethod
    def back(self) -> int:
        """The position after the newest event."""

    @property
    def taken(self) -> int:
        """A number that grows with every accepted event."""
        return self.back

    def most_together(self, left: int, each: bool) -> int:
        """Return how many of the events left in a batch to add together.

        ``each`` says whether the result after each event is requested.
        """
        return _CHUNK

    def keep(self, chunk: Chunk) -> None:
        """Keep a stored chunk in memory until the end of its batch, if events stay in place."""
        return

    def release(self) -> None:
        """Release what stays in memory only during a batch."""
        return

    def run_end(self, times: np.ndarray | None, start: int, stop: int) -> int:
        """Return the end of the run from ``start`` that can be added together; it is not empty."""
        return stop

    def leaves_at_once(self, times: np.ndarray | None, start: int) -> bool:
        """Return whether an event of a batch leaves on arrival, as newer ones have left."""
        return False

    def __len__(self) -> int:
        return self.back - self.front

    @abstractmethod
    def insert(self, row: Row, time: int | None = None) -> Undo:
        """Add one event; return a call that removes it if nothing else has happened since."""

    @property
    def spare(self) -> int:
        """How many events in order can be added without a store call."""
        return 0

    def recede(self) -> None:
        """Prepare for a change of frame: move the front back to the oldest stored event."""
        return  # by default, the log stores only the events of its windows

    def take_in(self, new: Events) -> int | None:
        """Add events that arrived one at a time, at most ``spare`` of them. No store call.

        Returns the position of the first late event, None if there is none.
        """
        raise NotImplementedError

    @abstractmethod
    def extend(self, rows: Rows, times: np.ndarray | None, start: int, stop: int) -> int:
        """Add events in order, without results; return how many were added, at least one."""

    def chunk_with(
        self, rows: Rows, times: np.ndarray | None, count: int,
        stop: Callable[[], int] | None = None,
    ) -> tuple[Chunk, np.ndarray | None]:  # fmt: skip
        """Return new events, with the stored events among them, as one chunk.

        Also returns which events are new; None if all are, as in a log in order of arrival.
        """
        return Chunk(self.monoid, self.back, rows, times, count), None

    @abstractmethod
    def store_chunk(self, new: Events, chunk: Chunk, front: int) -> None:
        """Add events whose results are known; those before ``front`` are no longer needed.

        If the store fails, nothing changes.
        """

    def newest(self, length: int) -> Events | None:
        """Return the newest events as views if late ones may precede them, else None.

        ``length`` is the number of events of the shortest window.
        """
        return None

    def first_changed(self, time: int) -> int:
        """Return the position of the first event that a new one moves, replaces or joins."""
        return self.back

    def has_lost(self, newest: int | None) -> bool:
        """Return whether the newest event so far, at this time, was retracted."""
        return False

    def evict_to(self, position: int) -> None:
        """Evict every event before ``position``, or none. Raises EmptyWindow beyond the back."""
        position = whole_number(position)
        if position > self.front:
            if position > self.back:
                count = position - self.front
                raise EmptyWindow(f"cannot evict {count} events of a window of {len(self)}")
            self._evict_before(position)

    @abstractmethod
    def _evict_before(self, position: int) -> None:
        """Evict at least one event and at most all."""

    def oldest_time(self) -> int | None:
        """Return the time of the oldest event, None if empty. At most one page read per level."""
        return None if self.front == self.back else self.remembered().time_before(self.front + 1)

    def path(self, position: int, below: int | None = None) -> Sequence[PathGroup]:
        """See ``OrderedEvents``. Empty by default, for logs without immutable groups."""
        return ()

    @abstractmethod
    def remembered(self) -> Remembered:
        """Return the events for one query, which reads each page at most once."""

    @abstractmethod
    def reader(self) -> OrderedEvents:
        """Return the events for windows and for the results of a batch."""

    def needed_from(self, window: Any, front: int) -> int:
        """Return the position from which on a window, or a late event in it, may need events."""
        return front

    @abstractmethod
    def leaves(self) -> Iterator[Leaf]:
        """Yield the events from the front on, one leaf at a time. Reads every page once."""

    # --- pages and snapshots ----------------------------------------------------------------------

    @abstractmethod
    def prepare(self) -> None:
        """Prepare a snapshot: write the pages that it names, and delete unneeded pages."""

    @abstractmethod
    def retain_snapshot(self, retain: int) -> None:
        """Record that a snapshot of the current state was taken.

        Its pages stay until ``retain`` newer snapshots exist and the next one is started.
        """

    @abstractmethod
    def delete_pages(self) -> None:
        """Delete every page. Do not use the log afterwards."""

    @abstractmethod
    def write_state(self) -> list[Any]:
        """Return the state for a snapshot, beyond the common fields, as plain data."""

    @abstractmethod
    def restore_state(self, snapshot: Snapshot) -> None:
        """Load the state of a snapshot into an empty log. Raises CorruptSnapshot or CorruptPage."""

    @property
    @abstractmethod
    def height(self) -> int:
        """The number of levels."""

    @property
    @abstractmethod
    def page_count(self) -> int:
        """How many pages a snapshot names, as far as known without reading."""

    @property
    @abstractmethod
    def resident_rows(self) -> int:
        """The number of values and partials in memory."""

    # --- verifying ------------------------------------------------------------------------------

    @contextmanager
    def preserving_state(self) -> Iterator[None]:
        """At the end of the context, discard what it read, so that reading has no side effects."""
        yield

    @abstractmethod
    def check(self) -> None:
        """Assert every invariant, reading all pages. Raises InvariantViolation."""

    @abstractmethod
    def pages(self) -> Iterator[Named]:
        """Yield the pages that the state in memory names, including those of retained snapshots."""

    @abstractmethod
    def pages_below(self, named: Named, group: Group) -> Iterator[Named]:
        """Yield the pages that a page names."""

    def named_pages(self, own: bool = False) -> Iterator[Named]:
        """Yield every page that a snapshot names; reads each inner page once, but no leaf.

        With ``own``, only the pages that the events need, not those of earlier snapshots. Raises
        MissingPage or CorruptPage for an inner page, as the pages below it are then unknown.
        """
        waiting = list(self.pages())
        while waiting:
            named = waiting.pop()
            if named.name == NO_NAME or (own and not named.needed):
                continue
            yield named
            if named.level:
                try:
                    group = self.read(named)
                except MissingPage:
                    if named.needed:
                        raise
                    continue  # the pages below it were deleted first
                waiting.extend(self.pages_below(named, group))

    @abstractmethod
    def read(self, named: Named) -> Group:
        """Read one page. One store call. Raises MissingPage or CorruptPage."""

    @abstractmethod
    def difference(self, named: Named, group: Group) -> str | None:
        """Describe how a readable page differs from its parent's description, or return None."""

    def is_past(self, level: int, number: int) -> bool:
        """Return whether an unnamed page at this place is garbage: no later write can name it."""
        return False


class Aggregator(EventLog):
    """The log of a single window, with its result and the searches for its frame's cut.

    The log has a cursor, which is the window.
    """

    #: The only window.
    cursor: Any = None

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        #: A front position, and the time of the event there.
        self._front_time = (-1, 0)

    def oldest_time(self) -> int | None:
        """Return the time of the oldest event. Read once for each front position."""
        if self._front_time[0] == self.front:
            return self._front_time[1]
        time = super().oldest_time()
        if time is not None and self.front + 1 < self.back:  # the newest event may be taken back
            self._front_time = self.front, time
        return time

    def restore_front_time(self, time: int | None) -> None:
        """Set the time of the oldest event; None if it is unknown."""
        self._front_time = (-1, 0)
        if time is not None and self.front < self.back:
            self._front_time = self.front, time

    @abstractmethod
    def query(self) -> Partial:
        """Return the aggregate of the window."""

    @abstractmethod
    def longest_prefix(self, lens: Lens, accepts: Callable[[Any], bool]) -> int:
        """Return the end of the longest prefix whose result is accepted."""

    @abstractmethod
    def longest_suffix(self, lens: Lens, accepts: Callable[[Any], bool]) -> int:
        """Return the start of the longest suffix whose result is accepted."""

    def events(self) -> Iterator[Partial]:
        """Yield every event of the window, lifted, from the oldest on. Reads every page once."""
        return lifted_events(self.leaves(), self.monoid)


# --- consecutive events ---------------------------------------------------------------------------


#: When fewer events than this are searched for, only the leaves with their fronts are read.
_FEW = 1024
#: A leaf with at least this many events is searched separately, not concatenated with others.
_MANY = 4096


class Leaf:
    """A group of consecutive events: values as input rows, and times if they are stored."""

    rows: Rows
    times: np.ndarray | None

    def __init__(self, first: int, rows: Rows, times: np.ndarray | None, count: int) -> None:
        self.first, self.rows, self.times, self.count = first, rows, times, count
        #: The position after the last event.
        self.stop = first + count
        #: The same events, in consecutive parts.
        self.groups: Sequence[Events] = (Events(rows, times, count),)

    @property
    def events(self) -> Events:
        return Events(self.rows, self.times, self.count)

    def between(self, start: int, stop: int, schema: Schema) -> Leaf:
        """Return the events from one position to another, as views."""
        if (start, stop) == (self.first, self.stop):
            return self
        return Leaf(start, *self.events.cut(schema, start - self.first, stop - self.first))

    def before(self, stop: int, monoid: AbstractMonoid) -> Leaf:
        """Return the events before a position."""
        return self if stop >= self.stop else self.between(self.first, stop, monoid.inputs)

    def partials(self, start: int, stop: int, monoid: AbstractMonoid) -> Rows:
        """Return the lifted events from position ``start`` to ``stop``."""
        rows = monoid.inputs.cut(self.rows, start - self.first, stop - self.first)
        return monoid.lift_rows(rows, stop - start)

    def suffixes(self, position: int, right: Partial, monoid: AbstractMonoid) -> Rows:
        """Return the fold of each suffix from ``position`` on with ``right``. One combine each."""
        count = self.stop - position
        return monoid.suffixes(self.partials(position, self.stop, monoid), count, right)


class JoinedLeaf(Leaf):
    """Consecutive groups of events, concatenated on first access."""

    def __init__(self, schema: Schema, first: int, groups: Sequence[Events]) -> None:
        self._schema, self.groups = schema, groups
        self._parts, self._times, self._sizes = zip(*groups, strict=True)
        self.first, self.count = first, sum(self._sizes)
        self.stop = first + self.count

    @cached_property
    def times(self) -> np.ndarray | None:  # type: ignore[override]
        pieces = [each for each in self._times if each is not None]
        return np.concatenate(pieces) if pieces else None

    @cached_property
    def rows(self) -> Rows:
        return self._schema.joined(self._parts, self._sizes)


def join_leaves(leaves: Sequence[Leaf], schema: Schema) -> Leaf:
    """Return consecutive leaves as one."""
    return JoinedLeaf(schema, leaves[0].first, [group for leaf in leaves for group in leaf.groups])


def lifted_events(leaves: Iterable[Leaf], monoid: AbstractMonoid) -> Iterator[Partial]:
    """Yield every event of some leaves, lifted."""
    for leaf in leaves:
        rows = monoid.lift_rows(leaf.rows, leaf.count)
        for index in range(leaf.count):
            yield monoid.partials.at(rows, index)


class Chunk(Leaf):
    """Events of the current batch, stored or not. Computes once what all cursors need."""

    def __init__(
        self, monoid: AbstractMonoid, first: int, rows: Rows, times: np.ndarray | None, count: int
    ) -> None:
        super().__init__(first, rows, times, count)
        self.monoid = monoid

    @cached_property
    def sliding(self) -> SlidingFolds:
        """The events as partial aggregates, and their folds. One combine per event."""
        return SlidingFolds(self.monoid, self.monoid.lift_rows(self.rows, self.count), self.count)

    def lifted(self, start: int, stop: int, leaf: Callable[[int], Leaf]) -> Rows:
        """Return the lifted events of some positions; ``leaf`` reads those before the chunk."""
        monoid, at = self.monoid, start
        if start >= self.first:
            return self.partials(start, stop, monoid)
        rows = monoid.partials.new(stop - start)
        while at < stop:
            part = self if at >= self.first else leaf(at).before(self.first, monoid)
            end = min(stop, part.stop)
            monoid.partials.put_many(rows, at - start, part.partials(at, end, monoid))
            at = end
        return rows

    def partials(self, start: int, stop: int, monoid: AbstractMonoid) -> Rows:
        return monoid.partials.cut(self.sliding.lifted, start - self.first, stop - self.first)

    def suffixes(self, position: int, right: Partial, monoid: AbstractMonoid) -> Rows:
        return self.sliding.suffixes(position - self.first, right)


class SearchedTimes:
    """Stored times from a window's front on, then the times of a chunk (``frames.TimeSearch``).

    Positions count from the first event of the chunk, so those of stored events are negative. Each
    search covers one piece: a stored chunk of the batch, some concatenated leaves, or the chunk.

    ``leaf`` reads the leaf at a position; its second argument is ``until`` of
    ``OrderedEvents.leaf``. ``session`` returns the start of the session before the chunk.
    """

    def __init__(
        self,
        front: int,
        chunk: Chunk,
        leaf: Callable[[int, int | None], Leaf],
        events: OrderedEvents,
        session: Callable[[Frame], int],
    ) -> None:
        self.front, self._chunk, self._leaf = front, chunk, leaf
        self._events, self._session = events, session
        self._sessions: dict[int, int] = {}

    def session_before(self, frame: Frame, start: int) -> tuple[int, int | None]:
        chunk = self._chunk
        if not start:
            before = self._events.time_before(chunk.first)
            return self._session(frame) - chunk.first, before
        assert chunk.times is not None
        return self._sessions[id(frame)], int(chunk.times[start - 1])

    def note_session(self, frame: Frame, start: int) -> None:
        self._sessions[id(frame)] = start

    def first_after_each(self, times: np.ndarray, age: int) -> Fronts:
        """Return, for each time, the position of the oldest event less than ``age`` old.

        Searches leaf by leaf, and from the root again when a whole leaf is skipped.
        """
        chunk, count, position, done = self._chunk, len(times), self.front, 0
        until = int(times[-1]) - age if count >= _FEW else None
        found, searched = np.empty(count, np.int64), []
        while done < count and position < chunk.first:
            first, stored, stop, end = self._gather(position, times, age, done, until)
            at = position - first
            if done == 0 and at < len(stored) and times[-1] - age < stored[at]:
                return position - chunk.first
            position = stop
            if end > done:
                searched.append((done, end, stored, first - chunk.first))
                done = end
            else:
                position = max(position, self._events.first_after(int(times[end]) - age))
        if done < count:
            assert chunk.times is not None
            at = position - chunk.first
            stop = at + int(chunk.times[at:].searchsorted(times[-1] - age, side="right"))
            searched.append((done, count, chunk.times[at:stop], at))
        pieces = []
        for start, end, stored, shift in searched:
            piece = ranks(stored, times[start:end], age, found[start:end])
            if isinstance(piece, range):
                pieces.append(range(piece.start + shift, piece.stop + shift))
        if len(pieces) == len(searched) and (whole := joined(pieces)) is not None:
            return whole
        for start, end, _, shift in searched:
            found[start:end] += shift
        return found

    def _gather(
        self, position: int, times: np.ndarray, age: int, done: int, until: int | None
    ) -> tuple[int, np.ndarray, int, int]:
        """Return the times of consecutive leaves, as long as a search ends in each of them.

        Does not concatenate leaves of many events. Also returns the position of the first event,
        the position after the last event, and the end of the part of ``times`` that was searched.
        """
        leaf = start = self._leaf(position, until)
        stop = leaf.first
        gathered: list[np.ndarray] = []
        while leaf.first == stop and not (gathered and isinstance(leaf, Chunk)):
            gathered += [group.times for group in leaf.groups if group.times is not None]
            stop, end = leaf.stop, done + int(times[done:].searchsorted(gathered[-1][-1] + age))
            if end in (done, len(times)) or stop == self._chunk.first:
                break
            if leaf.count >= _MANY or isinstance(leaf, Chunk):
                break
            done, leaf = end, self._leaf(stop, until)
        if stop == start.stop:
            assert start.times is not None
            return start.first, start.times, stop, end
        return start.first, np.concatenate(gathered), stop, end
