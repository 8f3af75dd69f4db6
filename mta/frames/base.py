"""Frames: which of the oldest events leave, the window slide policies of the MTA paper.

A frame returns a *cut*: the position of the oldest event that stays. Count and time frames use
arithmetic and searches in sorted times. A frame on an aggregate needs a search in the tree (MTA
paper, 4.1.3 and 4.1.4). The search finds the right cut only if the frame is *monotone on
prefixes*:

    evicts(prefix, total) is true  =>  it is true for every shorter prefix of the same window.

The paper never states this law. ``CustomFrame(..., checked=True)`` reports where a frame breaks it.
The order of arguments is always (prefix, total).

This module defines the interfaces between frames and windows, and combines frames with ``|``
and ``&``.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from copy import copy
from functools import cached_property
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from mta.errors import UnsupportedOperation
from mta.folds.sliding import Fronts, as_array
from mta.monoids.base import AbstractMonoid
from mta.monoids.product import Columns
from mta.recipes import Recorded

Ties = Literal["rows", "peers"]


class View(Protocol):
    """What a frame can query in the window, right after an insertion.

    Each aggregate is one that the frame observes, as a result (``lower`` is applied).
    """

    @property
    def back(self) -> int:
        """The position after the newest event."""

    def total(self, frame: Frame) -> Any:
        """Return the result of the whole window."""

    def first_after(self, time: int) -> int:
        """Return the position of the oldest event later than a time."""

    def longest_prefix(
        self, frame: Frame, accepts: Callable[[Any], bool], total: Any = None
    ) -> int:
        """Return the end of the longest prefix whose result is accepted.

        Pass ``total`` if ``accepts`` depends only on it and the prefix. The search is then skipped
        as long as both are unchanged since a search that evicted nothing.
        """

    def longest_suffix(self, frame: Frame, accepts: Callable[[Any], bool]) -> int:
        """Return the start of the longest suffix whose result is accepted."""

    def all_prefixes(self, frame: Frame) -> Iterable[tuple[int, Any]]:
        """Yield the end and the result of every prefix. Reads the whole window."""

    def all_suffixes(self, frame: Frame) -> Iterable[tuple[int, Any]]:
        """Yield the start and the result of every suffix. Reads the whole window."""


class TimeSearch(Protocol):
    """The search that a frame on times needs, for a run of events."""

    def first_after_each(self, times: np.ndarray, age: int) -> Fronts:
        """Return, for each time, the position of the oldest event less than ``age`` old.

        The times never decrease. For positions before the window's front, the front may be
        returned.
        """

    def session_before(self, frame: Frame, start: int) -> tuple[int, int | None]:
        """Return the start of the session of the events before a position, and their last time.

        The start may be before the session's first event if the window's front is. The time is None
        if it is unknown, or without earlier events.
        """

    def note_session(self, frame: Frame, start: int) -> None:
        """Note the start of the session of the last event of a run, for the next run."""


class End(NamedTuple):
    """The distance from the end of a frame to the moment that the frame is computed for.

    A frame contains all events up to that time and position, except those before its start.
    """

    delay: int = 0
    """The time from the latest included time to the moment, in microseconds."""
    rows: int = 0
    """How many of the newest events to exclude."""


#: The end of a frame that includes the newest event.
NEWEST = End()


class Frame(Recorded, ABC):
    """A rule that says which of the oldest events to evict after an insertion.

    The cut is the start of a frame. ``end`` is its end: later events stay for later frames.
    """

    #: Where frames end, relative to the moment.
    end = NEWEST
    #: Whether a frame includes all events of its last time ("peers"), or only up to a row ("rows").
    ties: Ties = "rows"

    #: Whether events must have times.
    needs_times = False
    #: Whether cuts depend only on positions and times, never on values.
    positional = False
    #: Whether the start depends on the number of events.
    counts = False
    #: Whether a late event may bring back older events, as one that merges two sessions does. If
    #: events may be late, such older events are retained. ``cut`` may then only use positions,
    #: times and totals.
    merges = False

    @property
    def observers(self) -> tuple[tuple[Frame, Columns, AbstractMonoid], ...]:
        """The aggregates that frames decide on, besides the window's own aggregate."""
        return ()

    @cached_property
    def lags(self) -> bool:
        """Whether frames end before the newest event."""
        return self.end != NEWEST

    @property
    def lifetime(self) -> int | None:
        """The microseconds from the newest event until the window is empty; None if never."""
        return None

    @abstractmethod
    def cut(self, view: View, time: int | None) -> int:
        """Return the position of the oldest event that stays, after an insertion at ``time``."""

    def stop(self, view: View, time: int | None) -> int:
        """Return the position after the last event of the frame that is computed for a time.

        ``view`` has the events up to then. The result may be before the oldest of them.
        """
        stop = view.back
        if self.end.delay and time is not None:
            stop = min(stop, view.first_after(time - self.end.delay))
        return stop - self.end.rows

    def joined(self, of_one: Callable[[Frame], Any], later: Any = max, earlier: Any = min) -> Any:
        """Return what a function returns for this frame; of two frames, the later or earlier."""
        return of_one(self)

    def start_by_count(self, stop: Any) -> Any:
        """Return the start of windows of events up to a position, if it depends on nothing else."""
        return None

    @property
    def predictable(self) -> bool:
        """Whether ``cuts`` can compute all cuts of a run before any of its events is stored."""
        return False

    def cuts(self, search: TimeSearch, start: int, times: np.ndarray | None, count: int) -> Fronts:
        """Return the cut after each of ``count`` events from position ``start`` on.

        A cut may be before the first event. Raises TypeError unless the frame is ``predictable``.
        """
        raise TypeError(f"{self!r} must compute a cut after every event")

    @abstractmethod
    def describe(self) -> str:
        """Return the frame and its parameters as text that is the same in every process."""

    @cached_property
    def fingerprint(self) -> bytes:
        """16 bytes, equal for equal frames."""
        return hashlib.blake2b(self.describe().encode(), digest_size=16).digest()

    def __repr__(self) -> str:
        return self.describe()

    def __or__(self, other: Frame) -> Frame:
        """Evict an event as soon as one of the two frames evicts it."""
        return Both(self, _frame(other), any_of=True)

    def __and__(self, other: Frame) -> Frame:
        """Evict an event only when both frames evict it."""
        return Both(self, _frame(other), any_of=False)


class Both(Frame):
    """Two frames together: their cuts are positions, so the result is the maximum or minimum."""

    def __init__(self, one: Frame, other: Frame, any_of: bool) -> None:
        if (one.end, one.ties) != (other.end, other.ties):
            raise ValueError(
                f"{one!r} and {other!r} end at different events: a frame has one end, so give both "
                "the same closed=, delay=, ties= or exclude_current="
            )
        self.one, self.other, self.any_of = one, other, any_of
        self.end, self.ties = one.end, one.ties
        self.needs_times = one.needs_times or other.needs_times
        self.positional = one.positional and other.positional
        self.counts = one.counts or other.counts
        self.merges = not self.positional and all(p.positional or p.merges for p in (one, other))

    @property
    def observers(self) -> tuple[tuple[Frame, Columns, AbstractMonoid], ...]:
        return self.one.observers + self.other.observers

    @property
    def lifetime(self) -> int | None:
        known = [side.lifetime for side in (self.one, self.other) if side.lifetime is not None]
        if self.any_of:
            return min(known, default=None)
        return max(known) if len(known) == 2 else None

    def joined(self, of_one: Callable[[Frame], Any], later: Any = max, earlier: Any = min) -> Any:
        choose = later if self.any_of else earlier
        return choose(*(p.joined(of_one, later, earlier) for p in (self.one, self.other)))

    def cut(self, view: View, time: int | None) -> int:
        found: int = self.joined(lambda side: side.cut(view, time))
        return found

    @property
    def predictable(self) -> bool:
        return self.one.predictable and self.other.predictable

    def cuts(self, search: TimeSearch, start: int, times: np.ndarray | None, count: int) -> Fronts:
        cuts: np.ndarray = self.joined(
            lambda side: as_array(side.cuts(search, start, times, count), count),
            np.maximum, np.minimum,
        )  # fmt: skip
        return cuts

    def describe(self) -> str:
        sign = "|" if self.any_of else "&"
        return f"({self.one.describe()} {sign} {self.other.describe()})"


def by_rows(frame: Frame) -> Frame:
    """Return the same frame with ``ties="rows"``."""
    if frame.ties == "rows":
        return frame
    found = copy(frame)
    found.ties = "rows"
    found.__dict__.pop("fingerprint", None)
    args, kwargs = frame.constructed_with
    found.constructed_with = args, {name: kwargs[name] for name in kwargs if name != "ties"}
    if isinstance(found, Both):
        found.one, found.other = by_rows(found.one), by_rows(found.other)
    return found


def _frame(other: Any) -> Frame:
    if not isinstance(other, Frame):
        raise TypeError(f"a frame is joined with another frame, not with {other!r}")
    return other


def require_answerable(frame: Frame) -> None:
    """Raise UnsupportedOperation if a window cannot be queried as of any moment."""
    if not frame.predictable:
        raise UnsupportedOperation(
            f"{frame!r} looks at values, so it cannot be queried at a moment between events: use "
            "windows by count, time or calendar"
        )
    if frame.end.rows:
        raise UnsupportedOperation(
            f"{frame!r} excludes the current row, and a query as of a moment has no row: leave "
            "exclude_current out"
        )


def lifetime_of(frames: Iterable[Frame]) -> int | None:
    """Return the microseconds from the newest event until all windows are empty, or None."""
    found = [frame.lifetime for frame in frames]
    known = [lifetime for lifetime in found if lifetime is not None]
    return max(known) if len(known) == len(found) else None
