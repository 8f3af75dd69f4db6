"""The interfaces of the structure with a window's events, for all algorithms.

A *position* counts events in the order of the window: ``front`` is the oldest one's, ``back`` the
one after the newest. In level queues the position of an event never changes; in structures ordered
by time, a late event moves those after it on by one.

An ``EventLog`` adds events at the back, one by one and in batches, and evicts them at the front; it
serves snapshots, audits and the deletion of pages. That is enough for events that multiple windows
share, each with a cursor. An ``Aggregator``, for a single window, also has the result, runs of
results, and the searches for a policy's cut.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from operator import index as whole_number
from typing import Any, Literal, NamedTuple, Protocol, Self

import numpy as np

from mta.columns.schemas import Row, Rows
from mta.errors import EmptyWindow
from mta.folds.sliding import Events
from mta.frames.base import AbstractPolicy
from mta.logs.leaves import Leaf
from mta.monoids.base import AbstractMonoid, Partial
from mta.pages.page import Group, Layout
from mta.pages.snapshot import Snapshot
from stores import PageStore

#: What to do with an event at the time of another, in structures ordered by time.
OnDuplicate = Literal["append", "replace", "combine"]
#: How to extract one observed aggregate from a partial (or from rows): its monoid, and its place.
Lens = tuple[AbstractMonoid, Callable[[Any], Any]]

#: Returns a lost page and the lost pages below it by their keys, or None if they cannot be rebuilt.
Rebuild = Callable[["Named"], dict[str, bytes] | None]


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
    policy: AbstractPolicy
    allowed_lateness: int = 0
    """How many microseconds older than the newest event before its batch an event may be."""
    on_duplicate: OnDuplicate = "append"
    """What to do with an event at the time of an existing one."""
    retain_for: int = 0
    """For how many microseconds before the newest event earlier windows can be queried."""

    @property
    def reach(self) -> int:
        """Return how far before the newest event late events or questions need windows."""
        return max(self.allowed_lateness, self.retain_for)


@dataclass(frozen=True, slots=True)
class Batch:
    """New events, in order, and room for the result of each."""

    monoid: AbstractMonoid
    rows: Rows
    times: np.ndarray | None
    count: int
    results: Rows

    def part(self, start: int, stop: int) -> Events:
        """Return some of the events."""
        times = None if self.times is None else self.times[start:stop]
        return Events(self.monoid.inputs.cut(self.rows, start, stop), times, stop - start)

    def put(self, start: int, folds: Rows) -> None:
        """Write the windows' aggregates after the events from ``start`` on."""
        self.put_results(start, self.monoid.lower_rows(folds))

    def put_results(self, start: int, outputs: Rows) -> None:
        """Write the windows' results after the events from ``start`` on."""
        self.monoid.outputs.put_many(self.results, start, outputs)

    def put_new(self, start: int, outputs: Rows, count: int, is_new: np.ndarray) -> None:
        """Write those of ``count`` results whose events are new; all after ``is_new`` are."""
        schema, places = self.monoid.outputs, np.flatnonzero(is_new)
        self.put_results(start, schema.take(outputs, places))
        self.put_results(start + len(places), schema.cut(outputs, len(is_new), count))


@dataclass(frozen=True, slots=True)
class Named:
    """A page as its parent names and describes it."""

    level: int
    number: int
    name: bytes
    fold: Partial
    """The expected aggregate of the page; None if the parent does not know it."""
    last_time: int | None
    first: int
    """The position of the first event below the page."""
    end: int
    needed: bool = True
    """Whether the window itself needs the page, not only earlier snapshots."""


class Recent(NamedTuple):
    """The newest stored events, which late events may precede without a page read."""

    events: Events
    """In order of time, as views."""
    before: Callable[[], Partial]
    """Returns the aggregate between a window's ``folds`` and these events.

    Costs O(arity * log n) combines, and at most one page read per level.
    """


class Lag(NamedTuple):
    """How a frame ends before the newest event, and the stored events that it reaches next.

    An event is in once the newest one is ``delay`` later, and ``rows`` others have come after it.
    """

    delay: int
    """In microseconds."""
    rows: int
    waiting: Events
    is_all: bool
    """Whether these are all stored events that it has yet to reach."""


class Prefetched(NamedTuple):
    """What single events need from a window, while they arrive and leave without a page read."""

    folds: Rows
    """The aggregate of the events before the new ones, now and after each of the next evictions.

    Combined with ``right`` it is the result. At least one event remains.
    """
    size: int
    """The number of these events; 0 if no result was requested yet."""
    right: Partial
    """The aggregate to which new events are combined."""
    leaving: np.ndarray
    """The times of the events that these evictions remove, and of the one after them.

    Empty without times, and if they are not in memory.
    """
    room: int
    """How many events may arrive."""
    late_from: float = inf
    """From this time on they may arrive in any order: they belong after all that may leave."""
    recent: Recent | None = None
    """The stored events from that time on; None if none may be late."""
    lag: Lag | None = None
    """None if the window ends with the newest event."""

    def cut(self, size: int, monoid: AbstractMonoid) -> Prefetched:
        """Return the same with at most ``size`` aggregates."""
        size = min(size, self.size)
        folds = monoid.partials.cut(self.folds, 0, size)
        return self._replace(folds=folds, size=size, leaving=self.leaving[:size])

    def beside(self, identity: Partial, room: int) -> Prefetched:
        """Return the same for ``room`` events, with an aggregate of no new ones."""
        right = identity if self.right is None else self.right
        return self._replace(right=right, room=room)


class Remembered(Protocol):
    """Events by position and by time, oldest first, for queries over ranges."""

    #: Whether events are in the order of their times, independent of their order of arrival.
    by_time: bool

    @property
    def kept_from(self) -> int:
        """Return the position of the oldest retained event."""

    @property
    def back(self) -> int:
        """The position after the newest event."""

    def fold(self, start: int, stop: int) -> Partial:
        """Return the aggregate of the events from ``start`` to ``stop``, the identity for none.

        Costs O(arity * log n) combines and at most two pages per level.
        """

    def first_after(self, time: int) -> int:
        """Return the position of the oldest event later than a time; one page read per level."""

    def time_before(self, position: int) -> int | None:
        """Return the time of the event just before a position, also if it has left, if known.

        Before all retained events, this is the time of the newest that has left. At most one page
        read per level.
        """


class PathGroup(NamedTuple):
    """The elements of a group of a log, from one on, as partials."""

    level: int
    starts: range
    """The position of the first event of each element, and the one after the last."""
    rows: Rows
    size: int

    @property
    def start(self) -> int:
        """The position of the first event."""
        return self.starts[0]

    @property
    def stop(self) -> int:
        """The position after the last event."""
        return self.starts[-1]

    def before(self, back: int, monoid: AbstractMonoid) -> PathGroup:
        """The elements that end at a position or before it."""
        if self.stop <= back:
            return self
        size = max(0, (back - self.start) // self.starts.step)
        rows = monoid.partials.cut(self.rows, 0, size)
        return PathGroup(self.level, self.starts[: size + 1], rows, size)


class OrderedEvents(Remembered, Protocol):
    """Events by position, oldest first, as cursors read them."""

    @property
    def stamp(self) -> int:
        """Return a number that grows whenever events before the back have changed positions.

        Cursors then discard their state. In level queues it never grows; in structures that accept
        late events, insertions are among the causes.
        """

    def leaf(self, position: int, upto: int = 0, until: int | None = None) -> Leaf:
        """Return the leaf with a position, as far as it is filled; at most one page read per level.

        Following leaves may be included: those that start before the position ``upto``, or not
        after the time ``until``. The next leaf may be prefetched.
        """

    def settled(self, front: int) -> int:
        """Return the position from which on single late events are accepted if their order matters.

        It applies to a window from a front on, at least half of which is before that position. The
        back if none are accepted, or if the order does not matter; no store call.
        """

    def path(self, position: int, below: int | None = None) -> Sequence[PathGroup]:
        """Return the groups above a leaf that starts at a position, from the root down.

        Each has its elements from the position on; only those below a level, if given. The last one
        has an element that starts at the position. Empty if the log has no immutable groups, for a
        position where no leaf starts, and within the open leaf.
        """

    def folds_behind(self, position: int, back: int) -> tuple[np.ndarray, Rows]:
        """Return the aggregates from several positions to a back, starting with ``position``.

        Returns the positions and the aggregates. The best positions are starts of leaves; costs a
        few calls of ``fold``.
        """


class EventLog(ABC):
    """Events in pages, as an engine of windows uses them; initially empty."""

    #: The name in snapshots.
    name: str
    #: The position of the oldest event.
    front: int
    #: Whether events are ordered by their times, independent of their order of arrival.
    by_time: bool = False
    #: Whether snapshots hold only a part of the open leaf group, and pages the rest.
    has_parts: bool = False

    def __init__(self, setting: Setting) -> None:
        self.setting, self.monoid = setting, setting.monoid

    def empty_like(self, setting: Setting) -> Self:
        """Return an empty structure of another window with the same monoid, policy and store."""
        return type(self)(setting)

    # --- events in and out ----------------------------------------------------------------------

    @property
    @abstractmethod
    def back(self) -> int:
        """The position after the newest event."""

    @property
    def taken(self) -> int:
        """Return a number that grows with every accepted event."""
        return self.back

    def run_end(self, times: np.ndarray | None, start: int, stop: int) -> int:
        """Return up to where events of a batch may be added together, at least one."""
        del times, start
        return stop

    def __len__(self) -> int:
        return self.back - self.front

    @abstractmethod
    def insert(self, row: Row, time: int | None = None) -> None:
        """Add one event."""

    @abstractmethod
    def take_back(self) -> None:
        """Undo the last ``insert``, if nothing has followed it."""

    @abstractmethod
    def extend(self, rows: Rows, times: np.ndarray | None, start: int, stop: int) -> int:
        """Add events in order without results; return how many were added, at least one."""

    def evict_to(self, position: int) -> None:
        """Remove every event before ``position``; if anything fails, nothing has changed.

        Raises EmptyWindow for a position beyond the back.
        """
        position = whole_number(position)
        if position > self.front:
            if position > self.back:
                count = position - self.front
                raise EmptyWindow(f"cannot evict {count} events of a window of {len(self)}")
            self._evict_before(position)

    @abstractmethod
    def _evict_before(self, position: int) -> None:
        """Remove events, at least one and at most all."""

    def oldest_time(self) -> int | None:
        """Return the time of the oldest event, None without any; at most one page read per level.

        The events must have times.
        """
        return None if self.front == self.back else self.remembered().time_before(self.front + 1)

    def path(self, position: int, below: int | None = None) -> Sequence[PathGroup]:
        """See ``OrderedEvents``; empty by default, without immutable groups."""
        del position, below
        return ()

    @abstractmethod
    def remembered(self) -> Remembered:
        """Return the events, for one query: each page is read once."""

    # --- pages and snapshots ----------------------------------------------------------------------

    @abstractmethod
    def prepare(self) -> None:
        """Prepare a snapshot: write the pages that it will name, and delete unneeded ones."""

    @abstractmethod
    def hold(self, retain: int) -> None:
        """Note that a snapshot of the current state has been taken.

        Its pages stay until ``retain`` newer ones have been taken and another one is started, as
        that may fail.
        """

    @abstractmethod
    def delete_pages(self) -> None:
        """Delete every page; the structure is useless afterwards."""

    @abstractmethod
    def write_state(self) -> list[Any]:
        """Return the state for a snapshot in addition to its common fields, as plain data."""

    @abstractmethod
    def restore_state(self, snapshot: Snapshot) -> None:
        """Load the state of a snapshot when empty. Raises CorruptSnapshot or CorruptPage.

        Raises CorruptSnapshot or CorruptPage.
        """

    @property
    @abstractmethod
    def height(self) -> int:
        """Return the number of levels."""

    @property
    @abstractmethod
    def page_count(self) -> int:
        """Return how many pages a snapshot would name, as far as is known without reading."""

    @property
    @abstractmethod
    def resident_rows(self) -> int:
        """Return the number of values and partials in memory."""

    # --- verifying ------------------------------------------------------------------------------

    @contextmanager
    def preserving_state(self) -> Iterator[None]:
        """Discard at the end what is read in this context, so that reading has no side effects."""
        yield

    @abstractmethod
    def check(self) -> None:
        """Assert every invariant, reading all pages. Raises InvariantViolation."""

    @abstractmethod
    def layout_of(self, level: int) -> Layout:
        """Return the layout of the pages of a level."""

    @abstractmethod
    def pages(self) -> Iterator[Named]:
        """Yield the pages named in memory, including those of retained snapshots."""

    @abstractmethod
    def pages_below(self, named: Named, group: Group) -> Iterator[Named]:
        """Return the pages that a page names."""

    @abstractmethod
    def read(self, named: Named) -> Group:
        """Read one page; one store call. Raises MissingPage or CorruptPage."""

    @abstractmethod
    def difference(self, named: Named, group: Group) -> str | None:
        """Describe how a readable page differs from what its parent says of it."""

    def is_past(self, level: int, number: int) -> bool:
        """Return whether no later write can create or name a page of this place.

        A page there that is not named now is then useless.
        """
        del level, number
        return False

    def rebuilder(self) -> Rebuild | None:
        """Return what rebuilds a lost page from the level below; None if it is impossible."""
        return None


class Aggregator(EventLog):
    """The structure of a single window: its result, and where its policy cuts."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        #: A front position, and the time of the event there.
        self._front_time = (-1, 0)

    def oldest_time(self) -> int | None:
        """Return the time of the oldest event; known without a read while the front stays."""
        if self._front_time[0] != self.front:
            time = super().oldest_time()
            if time is None:
                return None
            self._front_time = self.front, time
        return self._front_time[1]

    def restore_front_time(self, time: int | None) -> None:
        """Set the time of the oldest event from a snapshot."""
        if time is not None and self.front < self.back:
            self._front_time = self.front, time

    def recede(self) -> None:
        """Prepare for another policy: start the window with the oldest event."""
        return  # a structure that keeps only the events of the window

    @abstractmethod
    def query(self) -> Partial:
        """Return the aggregate of the window."""

    def run(self, batch: Batch, start: int) -> int:
        """Insert, evict and query for as many events as one vector expression can process.

        Returns how many from ``start`` on; 0 if the next one must be added alone.
        """
        del batch, start
        return 0

    def slide(self, row: Row, time: int | None, size: int) -> None:
        """Add one event and keep the last ``size``; if anything fails, nothing has changed."""
        self.insert(row, time)
        self.settle(lambda: self.back - size)

    def prefetched(self, most: int) -> Prefetched | None:
        """Return what at most ``most`` single events need; no store call within a leaf.

        None where the next one needs more, as in an empty window.
        """
        del most
        return None

    def sync(self, new: Events, came: int, gone: int, right: Partial) -> None:
        """Add the events that arrived since ``prefetched``, and evict those that left.

        No store call. ``came`` says how many events have entered the window: the new ones, or fewer
        and others where it ends earlier. ``right`` is their aggregate, None if it is unknown.
        """
        raise NotImplementedError

    def end_at(self, time: int | None) -> int:
        """Return the position after the window's newest event, as of a time.

        If it ends before the newest event of all, ``query`` answers for this end from now on. At
        most one page read per level.
        """
        del time
        return self.back

    def settle(self, cut: Callable[[], int]) -> None:
        """Evict up to the cut after an ``insert``, or undo the insertion."""
        try:
            self.slide_to(cut())
        except Exception:
            self.take_back()
            self._front_time = (-1, 0)  # the event may have been the oldest
            raise

    def slide_to(self, position: int) -> None:
        """Move the front to a position that the policy says; like ``evict_to``."""
        self.evict_to(position)

    @abstractmethod
    def first_after(self, time: int) -> int:
        """Return the position of the oldest event later than ``time``."""

    @abstractmethod
    def longest_prefix(self, lens: Lens, accepts: Callable[[Any], bool]) -> int:
        """Return where the longest prefix ends whose result is accepted."""

    @abstractmethod
    def longest_suffix(self, lens: Lens, accepts: Callable[[Any], bool]) -> int:
        """Return where the longest suffix starts whose result is accepted."""

    @abstractmethod
    def events(self) -> Iterator[Partial]:
        """Yield every event of the window, lifted, from the oldest on; reads every page once."""
