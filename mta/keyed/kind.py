"""The common settings of a set of windows, and which events of a key are retained and accepted.

    clock    the time of the newest event that the key ever accepted, even if retracted
    cutoff   the time before which the key accepts no event: its clock minus the lateness
    horizon  the time from which on windows can be queried: its clock minus the lateness, or minus
             the span for questions if that is longer
    needed   the oldest event in the window at the clock or in the window at the horizon

If a frame ends before the newest event, later events are retained for later frames. Everything
before ``needed`` has left: no result contains it, no event replaces it, and no retraction matches
it. This applies to vectorized keys (``needed``), to standalone keys (``needed_in``), and while a
snapshot is carried over to other windows.

A restore with a larger lateness does not bring back events that had left earlier. So the cutoff of
a key is never before its last cutoff with the smaller lateness (``Earlier``), and the same is true
of its horizon.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np

from mta.evaluators.observed import lens_in, total_before
from mta.frames.base import Frame
from mta.kernels.native import first_later
from mta.keyed.attributes import Attributes
from mta.keyed.table import Lanes, Table, is_vectorized
from mta.logs.finger_tree.log import FingerTreeLog
from mta.logs.ranges import Positions
from mta.monoids.base import AbstractMonoid
from mta.monoids.product import reader_of
from mta.windows.settings import Settings
from stores import PageStore

#: The name and the kind of a stored column.
Column = tuple[str, str]
Columns = list[Column]
#: The number of restores with a larger lateness that are noted one by one.
_MOST_EARLIER = 8


class Earlier(NamedTuple):
    """A shorter span that applied up to a moment; both in microseconds."""

    length: int
    until: int


class Span:
    """How far before their clocks keys retain events, and shorter spans that applied earlier."""

    def __init__(self, length: int, earlier: Iterable[tuple[int, int]] = ()) -> None:
        self.length, self.earlier = length, [Earlier(*each) for each in earlier]

    def note(self, length: int, until: int) -> None:
        """Note that a shorter span applied up to a moment."""
        # An older note is redundant if its span was no shorter and ended no later.
        self.earlier = [k for k in self.earlier if k.length < length or k.until > until]
        self.earlier.append(Earlier(length, until))
        if len(self.earlier) > _MOST_EARLIER:
            one, other, *rest = self.earlier
            both = Earlier(min(one.length, other.length), max(one.until, other.until))
            self.earlier = [both, *rest]

    def join(self, others: Iterable[tuple[int, int]]) -> None:
        """Add the notes of another span."""
        for each in others:
            if each not in self.earlier:
                self.note(*each)

    def cutoffs(self, clocks: np.ndarray) -> np.ndarray:
        """Return the cutoff of each clock, never before its last cutoff under a shorter span."""
        found: np.ndarray = clocks - self.length
        for length, until in self.earlier:
            found = np.maximum(found, np.minimum(clocks, until) - length)
        return found


class Retention:
    """Which events keys retain, for windows, late events and questions; spans in microseconds.

    A lateness of None means that events come in order.
    """

    def __init__(
        self,
        frames: Mapping[str, Frame],
        lateness: int | None,
        replaces: bool = False,
        retained: int = 0,
        whole: bool = False,
    ) -> None:
        self.frames, self.lateness, self.retained = frames, lateness, retained
        #: Whether an event is compared with existing events of its key and time.
        self._replaces = replaces
        #: Whether events in other tables may connect sessions, or (``whole``) leave other tops.
        self._merges = whole or (lateness is not None and any(p.merges for p in frames.values()))
        #: Returns the lanes of a table.
        self.lanes: Callable[[Table], Lanes] = lambda table: table.lanes
        #: How late events may be, and how far back windows can be queried.
        self.late, self.asked = Span(lateness or 0), Span(max(lateness or 0, retained))
        #: Whether windows at the horizon are retained completely. Otherwise a window by count may
        #: miss its oldest event there, which a late event would replace.
        self.answers = retained > 0 or not any(frame.counts for frame in frames.values())

    def read(self, late: Iterable[tuple[int, int]], asked: Iterable[tuple[int, int]]) -> None:
        """Replace the noted shorter spans by those of a snapshot."""
        self.late, self.asked = Span(self.late.length, late), Span(self.asked.length, asked)

    def horizons(self, clocks: np.ndarray) -> np.ndarray:
        """Return the time from which on windows of each key are complete, given its clock."""
        return self.asked.cutoffs(clocks) if self.answers else clocks

    def needed(self, lanes: Lanes, clocks: np.ndarray | None = None) -> np.ndarray:
        """Return each lane's first row that has not left; ``clocks`` default to newest times."""
        bounds, ends = lanes.bounds, lanes.bounds[1:]
        keys, last = np.arange(len(ends)), np.maximum(ends - 1, bounds[:-1])
        if lanes.times is None or not len(lanes.times):
            clocks = None
        elif clocks is None:
            clocks = lanes.times[np.minimum(last, len(lanes.times) - 1)]
        frames = self.frames.values()
        found = [lanes.frame_at(frame, keys, last, clocks)[0] for frame in frames]
        if self.asked.length and clocks is not None and lanes.times is not None:
            horizons, late = self.asked.cutoffs(clocks), not self.answers
            places = first_later(lanes.times, bounds, keys, horizons - (late and self._replaces))
            places -= not late
            found += [lanes.frame_at(frame, keys, places, horizons)[0] for frame in frames]
        return np.where(bounds[:-1] < ends, np.minimum.reduce(found), ends)

    def known(self, lanes: Lanes, clocks: np.ndarray | None) -> np.ndarray:
        """Return the first row of each lane at which an event may still be inserted."""
        if lanes.times is None or clocks is None or self.lateness is None:
            return lanes.bounds[1:]
        keys = np.arange(len(lanes.bounds) - 1)
        return first_later(
            lanes.times, lanes.bounds, keys, self.late.cutoffs(clocks) - self._replaces
        )

    def trimmed(self, table: Table, whole: bool = True) -> Table:
        """Return a table without the events that have left.

        If older tables may have events of the keys, this table is not ``whole``. Then a gap between
        two events need not be the end of a session, as late events may be in other tables.
        """
        if not table.events or (self._merges and not whole):
            return table
        return table.without_oldest(self.needed(self.lanes(table)))

    def needed_in(self, events: FingerTreeLog, clock: int) -> int:
        """Return the position of the first event of a standalone window that has not left."""
        found = events.back
        moments, late = [clock, int(self.asked.cutoffs(np.array([clock]))[0])], not self.answers
        ends = [events.back, events.first_after(moments[1] - (late and self._replaces)) + late]
        for frame in self.frames.values():
            for moment, end in zip(moments, ends, strict=True):
                found = min(found, _cut(frame, events, end, moment))
        return max(found, events.kept_from)


def _cut(frame: Frame, events: FingerTreeLog, end: int, moment: int) -> int:
    """Return the first position of the window at ``moment`` that ends before position ``end``."""
    total = total_before(events, end, partial(lens_in, events.monoid))
    return frame.cut(Positions(lambda: end, events.first_after, total), moment)


@dataclass(slots=True)
class KeyedKind:
    """The settings that all windows of a set share."""

    monoid: AbstractMonoid
    frames: Mapping[str, Frame]
    """By name; the name of a single frame is ""."""
    settings: Settings
    timed: bool
    name: str
    store: PageStore | None
    changes: int = 0
    """How often windows or monoid were changed; part of the names of standalone windows."""
    single: Frame | None = field(init=False)
    """The frame if there is only one, without a name; else None."""
    corrects: bool = field(init=False)
    """Whether an event replaces or combines with an existing event of its time."""
    vectorized: bool = field(init=False)
    reader: AbstractMonoid = field(init=False)
    """Reads the columns of events, including those for frames."""
    retention: Retention = field(init=False)
    attributes: Attributes = field(init=False)
    """The columns that frames read."""

    def __post_init__(self) -> None:
        self.reader, settings = self.reading(self.monoid), self.settings
        self.single = self.frames.get("") if len(self.frames) == 1 else None
        self.corrects = not settings.appends
        in_order = settings.lateness is None
        self.vectorized = is_vectorized(self.monoid, self.frames.values(), in_order)
        self.attributes = Attributes(self.monoid, self.reader, {})
        if self.vectorized:
            self.attributes = Attributes(self.monoid, self.reader, self.frames)
            self.vectorized = self.attributes.readable
        self.retention = Retention(
            self.frames, settings.lateness, self.corrects, settings.retained,
            whole=bool(self.attributes),
        )  # fmt: skip
        self.retention.lanes = self.lanes

    def lanes(self, table: Table) -> Lanes:
        """Return the events of a table as lanes, with the columns that frames read."""
        found = table.lanes
        if self.attributes:
            found.attribute = lambda frame: self.attributes.column(frame, table.rows)
        return found

    def unsteady(self, table: Table) -> np.ndarray | None:
        """Return which keys of a table must be standalone, because of a column that frames read."""
        if not self.vectorized or not self.attributes:
            return None
        found = self.attributes.unsteady(table.rows, table.bounds)
        return found if found.any() else None

    def reading(self, monoid: AbstractMonoid) -> AbstractMonoid:
        """Return a monoid that reads what a monoid and the frames read."""
        return reader_of(monoid, [o[1:] for p in self.frames.values() for o in p.observers])

    @property
    def longest(self) -> int | None:
        """Return how many microseconds after a key's newest event all windows by time are empty."""
        found = [frame.lifetime for frame in self.frames.values()]
        return max((lifetime for lifetime in found if lifetime is not None), default=None)

    def trimmed(self, table: Table, whole: bool = True) -> Table:
        """Return a table without the events that no window of its keys needs."""
        return self.retention.trimmed(table, whole) if self.vectorized else table


def columns_of(monoid: AbstractMonoid) -> Columns:
    """Return the stored columns of an event."""
    return list(monoid.stored)
