"""What is asked of the structure that keeps a window's events, whatever the algorithm.

A *position* counts events in the order of the window: ``front`` is the oldest one's, ``back`` the
one after the newest. Level queues give an event its position for ever; where events are ordered by
time, one that comes late moves those after it on by one.

In an ``EventLog`` events come in at the back, one by one and in batches, and leave at the front; it
has what snapshots, audits and the deletion of pages ask. That is enough for events that several
windows share, each with a cursor. An ``Aggregator``, which a window of its own slides over, has
also the result, runs of results, and the searches for a policy's cut.
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

#: What an event does to one at the same time, where events are kept by time.
OnDuplicate = Literal["append", "replace", "combine"]
#: How to see one observed aggregate in a partial (or in rows): its monoid, and where it stands.
Lens = tuple[AbstractMonoid, Callable[[Any], Any]]

#: A lost page and those lost below it by their keys, or None if they cannot be put together.
Rebuild = Callable[["Named"], dict[str, bytes] | None]


@dataclass(frozen=True, slots=True)
class Setting:
    """What an aggregator is made for."""

    monoid: AbstractMonoid
    store: PageStore | None
    """Where pages go; None keeps everything in memory."""
    window: str
    leaf_arity: int
    arity: int
    timed: bool
    policy: AbstractPolicy
    allowed_lateness: int = 0
    """How many microseconds an event may be older than the newest one before its batch."""
    on_duplicate: OnDuplicate = "append"
    """What an event does at a time that has one already."""
    retain_for: int = 0
    """How many microseconds before the newest event earlier windows are asked for."""

    @property
    def reach(self) -> int:
        """How far behind the newest event windows are asked for, by late events or questions."""
        return max(self.allowed_lateness, self.retain_for)


@dataclass(frozen=True, slots=True)
class Batch:
    """Events to come, in order, and room for the result of each."""

    monoid: AbstractMonoid
    rows: Rows
    times: np.ndarray | None
    count: int
    results: Rows

    def part(self, start: int, stop: int) -> Events:
        """Some of the events."""
        times = None if self.times is None else self.times[start:stop]
        return Events(self.monoid.inputs.cut(self.rows, start, stop), times, stop - start)

    def put(self, start: int, folds: Rows) -> None:
        """The windows' aggregates after the events from ``start`` on."""
        self.put_results(start, self.monoid.lower_rows(folds))

    def put_results(self, start: int, outputs: Rows) -> None:
        """The windows' results after the events from ``start`` on."""
        self.monoid.outputs.put_many(self.results, start, outputs)


@dataclass(frozen=True, slots=True)
class Named:
    """A page as its parent names and describes it."""

    level: int
    number: int
    name: bytes
    fold: Partial
    """The aggregate that the page must have; None where the parent does not know it."""
    last_time: int | None
    first: int
    """The position of the first event below the page."""
    end: int
    needed: bool = True
    """Whether the window itself needs the page, and not only the snapshots before it."""


class Recent(NamedTuple):
    """The newest stored events, which late ones may precede without a page."""

    events: Events
    """In order of time, as views."""
    before: Callable[[], Partial]
    """The aggregate of what is between a window's ``folds`` and these events.

    O(arity * log n) combines, and at most a page read a level."""


class Prefetched(NamedTuple):
    """What single events need of a window for as long as they come and go without a page."""

    folds: Rows
    """The aggregate of what is before the new events, now and after each of the next evictions.

    Combined with ``right`` it is the result. Some event always stays."""
    size: int
    """How many these are; 0 where nobody has asked for the result yet."""
    right: Partial
    """The aggregate to which new events are combined."""
    leaving: np.ndarray
    """The times of the events that leave by then, and of the one after them.

    Empty without times, and where they are not in memory."""
    room: int
    """How many events may come."""
    late_from: float = inf
    """From this time on they may come in any order: they go behind all that may leave."""
    recent: Recent | None = None
    """The stored events from that time on; None where none may come late."""

    def cut(self, size: int, monoid: AbstractMonoid) -> Prefetched:
        """The same with so many aggregates at most."""
        size = min(size, self.size)
        folds = monoid.partials.cut(self.folds, 0, size)
        return self._replace(folds=folds, size=size, leaving=self.leaving[:size])

    def beside(self, identity: Partial, room: int) -> Prefetched:
        """The same for so many events, with an aggregate of no new ones."""
        right = identity if self.right is None else self.right
        return self._replace(right=right, room=room)


class Remembered(Protocol):
    """Events by position and by time, oldest first: what a range is answered from."""

    #: Whether events are in the order of their times, whatever order they come in.
    by_time: bool

    @property
    def kept_from(self) -> int:
        """The position of the oldest event that is kept."""

    @property
    def back(self) -> int:
        """The position after the newest event."""

    def fold(self, start: int, stop: int) -> Partial:
        """The aggregate of the events from ``start`` to ``stop``, the identity for none.

        O(arity * log n) combines and at most two pages per level.
        """

    def first_after(self, time: int) -> int:
        """The position of the oldest event later than a time; at most one page read per level."""

    def time_before(self, position: int) -> int | None:
        """The time of the event just before a position, though it may have left; None if unknown.

        Before all that is kept, of the newest that has left. At most one page read per level.
        """


class PathGroup(NamedTuple):
    """The elements of a group of a log from one on, as partials."""

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
        """Grows whenever events before the back have changed positions.

        Cursors then forget what they hold. Level queues never do that; where events may come late,
        an insertion among others does.
        """

    def leaf(self, position: int, upto: int = 0, until: int | None = None) -> Leaf:
        """The leaf that holds a position, as far as it is filled; at most one page read per level.

        Others after it may be in one with it: those that begin before the position ``upto``, or
        not after the time ``until``. The next leaf may be fetched ahead.
        """

    def settled(self, front: int) -> int:
        """The position from which on single events may come late where their order matters.

        For a window from a front on, of which at least half is before that. The back where none
        may, or where the order does not matter; no store call.
        """

    def path(self, position: int, below: int | None = None) -> Sequence[PathGroup]:
        """The groups above a leaf that begins at a position, from the root down.

        Each with its elements from the position on; those below a level alone, where one is given.
        The last one has an element that begins at the position. Empty where the log has no groups
        that stay as they are, for a position where no leaf begins, and within the open leaf.
        """

    def folds_behind(self, position: int, back: int) -> tuple[np.ndarray, Rows]:
        """The aggregate from a position to a back, and from some positions behind it.

        The positions, and as many aggregates. Those are best at which leaves begin; combines as a
        few of ``fold``.
        """


class EventLog(ABC):
    """Events in pages, as an engine of windows holds them; at first without any."""

    #: As it stands in snapshots.
    name: str
    #: The position of the oldest event.
    front: int
    #: Whether events are kept in the order of their times, whatever order they come in.
    by_time: bool = False
    #: Whether snapshots hold a little of the open leaf group only, the rest being in pages.
    has_parts: bool = False

    def __init__(self, setting: Setting) -> None:
        self.setting, self.monoid = setting, setting.monoid

    def empty_like(self, setting: Setting) -> Self:
        """An empty structure of another window with the same monoid, policy and store."""
        return type(self)(setting)

    # --- events in and out ----------------------------------------------------------------------

    @property
    @abstractmethod
    def back(self) -> int:
        """The position after the newest event."""

    @property
    def taken(self) -> int:
        """A number that grows with every event that is taken in."""
        return self.back

    def run_end(self, times: np.ndarray | None, start: int, stop: int) -> int:
        """Up to where events of a batch in order may go in together, one at least."""
        del times, start
        return stop

    def __len__(self) -> int:
        return self.back - self.front

    @abstractmethod
    def insert(self, row: Row, time: int | None = None) -> None:
        """Add one event."""

    @abstractmethod
    def take_back(self) -> None:
        """Undo the last ``insert``, which nothing has followed."""

    @abstractmethod
    def extend(self, rows: Rows, times: np.ndarray | None, start: int, stop: int) -> int:
        """Add events without their results, in order; at least one, and return how many."""

    def evict_to(self, position: int) -> None:
        """Remove every event before ``position``; when anything fails, nothing has changed.

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
        """Remove events, at least one and no more than there are."""

    @abstractmethod
    def oldest_time(self) -> int | None:
        """The time of the oldest event, None in an empty window."""

    def path(self, position: int, below: int | None = None) -> Sequence[PathGroup]:
        """See ``OrderedEvents``; without groups that stay as they are."""
        del position, below
        return ()

    @abstractmethod
    def remembered(self) -> Remembered:
        """The events, for one range of them: what is read for it is read once."""

    # --- pages and snapshots ----------------------------------------------------------------------

    @abstractmethod
    def prepare(self) -> None:
        """Before a snapshot is taken: write the pages it will name, delete those nobody needs."""

    @abstractmethod
    def hold(self, retain: int) -> None:
        """A snapshot has been taken of what is now.

        Its pages stay until ``retain`` newer ones have been taken, and another one is begun, as
        that may fail.
        """

    @abstractmethod
    def delete_pages(self) -> None:
        """Delete every page; the structure is of no use afterwards."""

    @abstractmethod
    def write_state(self) -> list[Any]:
        """What a snapshot keeps beside its common fields; plain data for msgpack."""

    @abstractmethod
    def restore_state(self, snapshot: Snapshot) -> None:
        """Make an empty structure what the snapshot says. Raises CorruptSnapshot or CorruptPage."""

    @property
    @abstractmethod
    def height(self) -> int:
        """How many levels there are."""

    @property
    @abstractmethod
    def page_count(self) -> int:
        """How many pages a snapshot would name, as far as is known without reading."""

    @property
    @abstractmethod
    def resident_rows(self) -> int:
        """Values and partials in memory."""

    # --- verifying ------------------------------------------------------------------------------

    @contextmanager
    def preserving_state(self) -> Iterator[None]:
        """What is read meanwhile is forgotten at the end, as though nobody had asked for it."""
        yield

    @abstractmethod
    def check(self) -> None:
        """Assert every invariant, reading all pages. Raises InvariantViolation."""

    @abstractmethod
    def layout_of(self, level: int) -> Layout:
        """How the pages of a level are loaded out."""

    @abstractmethod
    def pages(self) -> Iterator[Named]:
        """The pages that are named in memory, those of snapshots to be kept included."""

    @abstractmethod
    def pages_below(self, named: Named, group: Group) -> Iterator[Named]:
        """The pages that a page names."""

    @abstractmethod
    def read(self, named: Named) -> Group:
        """One page; one store call. Raises MissingPage or CorruptPage."""

    @abstractmethod
    def difference(self, named: Named, group: Group) -> str | None:
        """What is wrong with a page that can be read, by what its parent says of it."""

    def is_past(self, level: int, number: int) -> bool:
        """Whether who goes on from here can never write, or name again, a page of this place.

        What is not named there now is then of no use to anybody.
        """
        del level, number
        return False

    def rebuilder(self) -> Rebuild | None:
        """What puts a lost page together from what is below it; None where nothing can."""
        return None


class Aggregator(EventLog):
    """The structure of a window of its own: its result, and where its policy cuts."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        #: The time of the event at a position that was the front when it was asked for.
        self._front_time = (-1, 0)

    @abstractmethod
    def time_at_front(self) -> int:
        """The time of the oldest event, of which there is one; at most one page read per level."""

    def oldest_time(self) -> int | None:
        """The time of the oldest event, None in an empty window.

        Known without a read for as long as the front does not move.
        """
        if self._front_time[0] != self.front:
            if self.front == self.back:
                return None
            self._front_time = self.front, self.time_at_front()
        return self._front_time[1]

    def restore_front_time(self, time: int | None) -> None:
        """Have the time of the oldest event out of a snapshot."""
        if time is not None and self.front < self.back:
            self._front_time = self.front, time

    def recede(self) -> None:
        """Before another policy is asked: have the window begin with the oldest event there is."""
        return  # a structure that keeps no more than the window

    @abstractmethod
    def query(self) -> Partial:
        """The aggregate of the window."""

    def run(self, batch: Batch, start: int) -> int:
        """Insert, evict and query for as many events as one vector expression serves.

        Returns how many from ``start`` on; 0 when the next one must go by itself.
        """
        del batch, start
        return 0

    def slide(self, row: Row, time: int | None, size: int) -> None:
        """Add one event and keep the last ``size``; when anything fails, nothing has changed."""
        self.insert(row, time)
        self.settle(lambda: self.back - size)

    def prefetched(self, most: int) -> Prefetched | None:
        """What single events need, for so many of them at most; no store call in a leaf.

        None where the next one needs more, as in an empty window.
        """
        del most
        return None

    def sync(self, new: Events, gone: int, right: Partial) -> None:
        """Have the events that came, and be without those that left, since ``prefetched``.

        With the aggregate ``right`` that there is now; no store call.
        """
        raise NotImplementedError

    @property
    def spare(self) -> int:
        """How many events may come in order without a store call."""
        return 0

    def pass_on(self, new: Events, gone: int) -> None:
        """Have events that came in order, no more than ``spare``, and be without the oldest.

        As ``sync``, where the frame ends before the newest event, so that nobody asks here for the
        aggregate of the window.
        """
        raise NotImplementedError

    def settle(self, cut: Callable[[], int]) -> None:
        """Evict up to the cut after an ``insert``, or take the insertion back."""
        try:
            self.slide_to(cut())
        except Exception:
            self.take_back()
            self._front_time = (-1, 0)  # the event may have been the oldest
            raise

    def slide_to(self, position: int) -> None:
        """Move the front on to a position that the policy says; as ``evict_to``."""
        self.evict_to(position)

    @abstractmethod
    def first_after(self, time: int) -> int:
        """The position of the oldest event later than ``time``."""

    @abstractmethod
    def longest_prefix(self, lens: Lens, accepts: Callable[[Any], bool]) -> int:
        """Where the longest prefix ends whose result is accepted."""

    @abstractmethod
    def longest_suffix(self, lens: Lens, accepts: Callable[[Any], bool]) -> int:
        """Where the longest suffix begins whose result is accepted."""

    @abstractmethod
    def events(self) -> Iterator[Partial]:
        """Every event of the window, lifted, from the oldest on; reads every page once."""
