"""Single events: their data is prefetched, and the log receives them in groups.

Nearly every event does no more than this, for any log and any windows:

    [ x x f1 f2 f3 ... | middle ... n n n . . . ]        f: the oldest events, n: the newest
          folds                right

    insert   right = combine(right, lift(value)), and append the value to a list
    evict    nothing: the number of evicted events follows from the number of new events or the
             newest time
    query    combine(folds[number of evicted events], right), once

``folds`` are the aggregates from f1, f2, f3, ... to the start of the new events. When they are used
up, or when the log is read, ``write_back`` sends the log the new events and the evictions. A numpy
call takes longer than everything else that an event needs, so one call serves many events.

Late events are processed in the same way, unless they are older than the log's last leaf. If the
aggregate depends on order, ``late`` has the folds, and a late event must be among the newest stored
events. All other events use the general path.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from enum import Enum
from itertools import pairwise, takewhile
from math import inf
from typing import Any, NamedTuple, Protocol

import numpy as np

from mta.columns.codec import ALWAYS_PLAIN
from mta.columns.reading import plain
from mta.columns.schemas import Row, packed
from mta.folds.sliding import Events
from mta.logs.base import Lag, Prefetched, Recent
from mta.monoids.base import AbstractMonoid, Monoid, Partial, same_value
from mta.monoids.product import Product
from mta.times import MICROSECONDS, TimeUnit, to_time
from mta.windows.intake import Intake, busy
from mta.windows.late import LateEvents

#: The numbers of events to prefetch: few at first, because a program may read the log after every
#: event.
_FEW, MANY = 16, 1024
#: Under a policy on an aggregate that changes with every event, the most events that use the
#: general path before an event tries the fast path again.
_MOST_MISSES = 63
#: Marks an unknown result; an enumeration member stays identical in copies.
UNKNOWN: Any = Enum("_Shown", "UNKNOWN").UNKNOWN  # type: ignore[attr-defined]
#: Times are doubles here, because Python handles them faster than large integers. They are exact
#: for whole microseconds up to the year 2041; other times use the general path. The sum of such a
#: time and ``UNIT`` has no bits for fractions.
SECOND, EXACT, UNIT = float(MICROSECONDS), 2.0**51, 1.5 * 2.0**52


class Moved(NamedTuple):
    """How a window has changed as single events arrived."""

    came: int
    """How many events have entered its frame."""
    left: int
    """How many events have left its frame."""
    right: Partial
    """The aggregate of the events that entered; None if there are none or ``combine`` fails."""


class WindowAhead(NamedTuple):
    """The prefetched data of one window by count or time."""

    size: int
    """The size, in events or in microseconds."""
    by_count: bool
    length: int
    """The number of events in the window."""
    found: Prefetched

    def room(self, most: int) -> int:
        """Return how many of ``most`` events can arrive before prefetched folds are used up."""
        folds = self.found.size
        if not self.by_count:
            return most
        return min(most, self.spare + folds - 1) if folds else most

    @property
    def spare(self) -> int:
        """How many events can arrive before a window by count evicts any."""
        return self.size - self.length

    def bound(self, last: float) -> float:
        """Return the time that events must precede; ``last`` is the newest time."""
        leaving, lag, most = self.found.leaving, self.found.lag, EXACT
        if lag is not None and not lag.is_all:
            times = lag.waiting.times
            most = -inf if times is None else min(most, float(times[-1]) + lag.delay)
        if self.by_count:
            return most
        if not len(leaving):
            return -inf
        first, end = float(leaving[0]), float(leaving[-1])
        known = max(-EXACT, last - self.size) < first and end < EXACT
        return min(most, end + self.size) if known else -inf


class Ahead(NamedTuple):
    """The prefetched data of the windows over one log."""

    windows: dict[str, WindowAhead]
    room: int
    """How many events can arrive."""
    late_from: float = inf
    """Events from this time on can arrive in any order."""
    is_whole: bool = True
    """Whether ``windows`` has all windows."""


class Owner(Protocol):
    """The interface of an engine for single events, of one window or of multiple windows."""

    busy: bool
    intake: Intake
    main: AbstractMonoid
    monoid: AbstractMonoid
    timed: bool

    def ahead(self, most: int) -> Ahead | None:
        """Prefetch for at most ``most`` events; return None if the next event needs more."""

    def write_back(self, new: Events, moved: dict[str, Moved]) -> None:
        """Add the events that arrived and evict those that left. No store call."""

    def insert(self, value: Any, time: Any) -> None:
        """Add an event on the general path, which supports every window and value."""

    def query(self, which: Any, partial: bool) -> Any:
        """Return results on the general path, which supports every window."""

    def query_at(self, which: Any, partial: bool, at: Any, unit: TimeUnit | None) -> Any:
        """Return results at a moment, or at each of many."""


class Asked(NamedTuple):
    """A policy on an aggregate, alone or ``|`` a count."""

    size: int
    """The maximum number of events in the window."""
    total: Callable[[Partial], Any]
    """Returns what the policy observes, given the window's aggregate."""
    stays: Callable[[], Any]
    """Returns the value for which nothing is evicted at the current front, or None."""


class Reader:
    """Reads values that a type check shows to be valid and pageable."""

    __slots__ = ("_kinds", "_monoid", "_numbers", "_paged", "_pick", "_text", "doubles")

    def __init__(self, monoid: AbstractMonoid, paged: bool) -> None:
        self._monoid, self._paged = monoid, paged
        self._numbers = monoid.is_plain and monoid.inputs.plain
        self._pick = monoid.picks_doubles if isinstance(monoid, Product) else None
        self.learn(proven=False)

    def learn(self, proven: bool) -> None:
        """Set whether partials are known to be pageable; partials of numbers always are."""
        kinds: frozenset[type] = self._monoid.taken_as_they_come if proven else frozenset()
        self._kinds = kinds & ALWAYS_PLAIN if self._paged else kinds
        #: Only some text is pageable.
        self._text = str in kinds
        #: Whether a double is a valid row, unless it is NaN.
        self.doubles = float in kinds

    def read(self, value: Any) -> Row | None:
        """Return a value as a row if a type check is enough, else None. Raises InvalidValue."""
        if self._pick is not None:
            try:
                row = self._pick(value)
            except (KeyError, TypeError, IndexError):
                return None
            if row is not None:
                return row
        if self._numbers:
            row = self._monoid.row(value)
            return row if self._monoid.is_valid(row) else None
        kind = type(value)
        if kind in self._kinds:
            return value if kind is not float or value == value else None
        return value if self._text and kind is str and value.isascii() else None


class Evictions:
    """The next evictions of one window, as lists, which Python reads faster than arrays."""

    __slots__ = (
        "at", "entering", "folds", "leaving", "next", "older", "recent", "right", "seen", "shown",
        "size", "spare",
    )  # fmt: skip

    def __init__(self, folds: list[Partial], window: WindowAhead | None = None) -> None:
        #: The aggregate of the older events after each eviction; empty until first requested.
        self.folds = folds
        #: The times of the next events that leave a window by time.
        self.leaving: list[float] = []
        self.size, self.spare = 0.0, 0
        #: The aggregate of the new events, now and before the newest event; None if there are none.
        self.right: Partial | None = None
        self.older: Partial | None = None
        #: The newest stored events, which late events may precede; None if no event may be late.
        self.recent: Recent | None = None
        #: The events that the window will reach next, if it ends before the newest event.
        self.entering: Entering | None = None
        if window is not None:
            self.right, self.recent = window.found.right, window.found.recent
            self.size, self.spare = float(window.size), window.spare
            if not window.by_count:
                self.leaving = window.found.leaving.astype(float).tolist()
        #: How many events had left at the last request.
        self.at = 0
        #: The next window that events enter on arrival.
        self.next: Evictions | None = None
        #: The result after ``seen`` events.
        self.shown, self.seen = None, -1

    def gone(self, count: int, last: float) -> int:
        """Return how many events have left after ``count`` arrived, the newest at time ``last``."""
        if self.leaving:
            return bisect_right(self.leaving, last - self.size, self.at)
        return max(count - self.spare, self.at)


class Entering:
    """The stored events that a frame will reach next, if it ends before the newest event.

    After them, the frame reaches the new events, which all windows share.
    """

    __slots__ = ("came", "count", "delay", "rows", "times", "values")

    def __init__(self, lag: Lag, values: list[Row]) -> None:
        self.delay, self.rows = float(lag.delay), lag.rows
        self.values, self.count, times = values, len(values), lag.waiting.times
        self.times = [] if times is None else times.astype(float).tolist()
        #: How many events have entered the frame, of the stored and the new events.
        self.came = 0


class SingleEvents:
    """Single events that arrived, before the log receives them."""

    # Python finds slots faster than the attributes of a large object.
    __slots__ = (
        "_append", "_append_time", "_asked", "_bound", "_combine", "_double", "_first", "_held",
        "_is_whole", "_kept", "_last", "_late", "_late_from", "_length", "_lift", "_live", "_lower",
        "_misses", "_monoid", "_most", "_only", "_reader", "_room", "_rows", "_skip", "_times",
        "_usual", "_windows", "event", "intake", "owner", "show", "shown", "timed",
    )  # fmt: skip

    def __init__(self, owner: Owner, usual: bool, paged: bool, asked: Asked | None = None) -> None:
        monoid = self._monoid = owner.monoid
        self._combine = monoid.combine
        self.owner, self.intake, self.timed = owner, owner.intake, owner.timed
        #: Adds an event of a value and a time, and returns the result after it, or UNKNOWN before
        #: it is requested; None, with nothing changed, if the event needs ``insert``.
        self.event: Callable[[Any, float], Any] = self._event if asked is None else _no_event
        #: The result after the newest event, if known.
        self.shown: Any = UNKNOWN
        self._lift = None if monoid.lift is same_value else monoid.lift
        numbers = monoid.is_plain and monoid.inputs.plain and owner.main.is_columnar
        bare = isinstance(monoid, Monoid) and monoid.is_bare
        #: Converts an aggregate to a result. ``show`` converts that result again for every query,
        #: so that no caller gets an object that another caller may have changed.
        self._lower: Callable[[Partial], Any] | None = None
        self.show: Callable[[Any], Any] | None = None
        if not (numbers or bare):
            self.show = _shown(monoid.lower)
        elif monoid.lower is not same_value:
            self._lower = monoid.lower
            self.show = dict.copy if isinstance(owner.main, Product) else None
        #: Whether anything can be prefetched.
        self._usual = monoid.is_plain and usual
        self._reader = Reader(monoid, paged)
        #: ``float`` if a double is a valid row, unless it is NaN.
        self._double: type[float] | None = None
        #: A policy on an aggregate, and the observed value for which nothing is evicted.
        self._asked, self._kept = asked, None
        #: The number of successive misses, and of events that skip the fast path.
        self._misses = self._skip = 0
        #: The events that the log has not received.
        self._rows: list[Row] = []
        self._times: list[float] = []
        self._append, self._append_time = self._rows.append, self._times.append
        self._most = _FEW
        self._reset()

    def _reset(self) -> None:
        """Discard prefetched data."""
        self._held = self._is_whole = False
        self._windows: dict[str, Evictions] = {}
        #: The window, if there is only one.
        self._only: Evictions | None = None
        #: The requested windows that events enter on arrival. Each also has a reference to the next
        #: one, because Python follows references faster than a list.
        self._live: list[Evictions] = []
        self._first: Evictions | None = None
        #: How many events can arrive, the newest time, the time that events must precede, and the
        #: time from which on events can arrive in any order.
        self._room, self._last, self._bound, self._late_from = 0, -inf, -inf, inf
        #: The folds that late events change, after the first late event if order matters.
        self._late: LateEvents | None = None

    # --- the interface for windows --------------------------------------------------------------

    def _event(self, value: Any, micros: float) -> Any:
        """Add an event to all windows; see ``event``."""
        row: Row | None
        if value.__class__ is self._double and value == value:
            row = value
        else:
            row = self._reader.read(value)
        if row is None or len(self._rows) >= self._room:
            return None
        if self.timed and not self._last <= micros < self._bound:
            return None
        combine, window = self._combine, self._first
        owner, new = self.owner, row
        owner.busy = True
        try:
            if self._lift is not None:
                new = self._lift(row)
            while window is not None:
                right = window.right
                window.right = new if right is None else combine(right, new)
                window.older, window = right, window.next
        except BaseException as error:
            self._undo(window, error)
            return None
        finally:
            owner.busy = False
        self._append(row)
        if self.timed:
            self._append_time(micros)
            self._last = micros
        return UNKNOWN

    def insert(self, value: Any, time: Any) -> None:
        """Add an event that ``event`` did not add: another type, late, or beyond what is loaded."""
        owner = self.owner
        owner.busy = True
        try:
            row, micros = self._reader.read(value), 0.0
            if row is not None and self.timed:
                micros = -inf if time is None else float(to_time(time))
            if row is None or not self._takes(row, micros):
                self._insert_otherwise(value, time)
        finally:
            owner.busy = False

    def _takes(self, row: Row, micros: float) -> bool:
        """Add an event, after prefetching again if need be; return whether that is possible."""
        is_next = len(self._rows) < self._room
        if self.timed:
            is_next = is_next and self._last <= micros < self._bound
        if not (is_next or self._may_come(micros)):
            return False
        try:
            new = row if self._lift is None else self._lift(row)
            if not self._add(new, micros):
                return False
        except Exception:  # the general path raises it again, if it needs what failed
            return False
        self._append(row)
        if self.timed:
            self._append_time(micros)
            if micros > self._last:
                self.intake.newest = self._last = micros
        return True

    def _add(self, new: Partial, micros: float) -> bool:
        """Add an event to all aggregates, among the newest events if it is late.

        Return False, with nothing changed, if a policy on an aggregate would evict something.
        """
        if self._asked is not None:
            return self._stays(new, self._asked)
        combine, windows = self._combine, self._live
        if not windows:
            return True
        if micros < self._last and not self._monoid.commutative:
            late = self._late or self._late_events(windows)
            rights = late.insert(new, micros, self._rows, self._times, [w.right for w in windows])
        else:
            rights = [new if w.right is None else combine(w.right, new) for w in windows]
        for window, right in zip(windows, rights, strict=True):
            window.right = right
        return True

    def _undo(self, failed: Evictions | None, error: BaseException) -> None:
        """Remove an event from the windows before the window whose combine failed.

        The general path then raises the same error again. Raises an interruption, such as
        KeyboardInterrupt, immediately.
        """
        if failed is not None:
            for window in takewhile(lambda each: each is not failed, self._live):
                window.right = window.older
        if not isinstance(error, Exception):
            raise error

    def _late_events(self, windows: Sequence[Evictions]) -> LateEvents:
        """Create the folds for late events of these windows. At most one page read per level."""
        recents = [window.recent for window in windows if window.recent is not None]
        before = [recent.before() for recent in recents]
        self._late = LateEvents(self._monoid, recents[0].events, before)
        return self._late

    def _insert_otherwise(self, value: Any, time: Any) -> None:
        """Add an event on the general path."""
        if self._asked is not None:
            if self._skip:
                self._skip -= 1
            else:
                self._misses, self._skip = min(2 * self._misses + 1, _MOST_MISSES), self._misses
        # Prefetched data was useful so far, so prefetch as much again unless this event changes it.
        most = _FEW if self._is_waiting else self._most
        with np.errstate(all="ignore"):
            self.owner.insert(value, time)
        self._most = most
        self._reader.learn(not self.intake.unproven)
        self._double = float if self._usual and self._reader.doubles else None

    def result(self, window: Evictions | None = None) -> Any:
        """Return the result of a window, by default the only one. 1 combine, none if known."""
        if window is None:
            window = self._only
            if window is None or self.owner.busy:
                return self.query("")
        count = len(self._rows)
        if window.seen == count:
            shown = window.shown
        else:
            if window.entering is not None:
                self._enter(window, window.entering)
            at, leaving, right = window.at, window.leaving, window.right
            if leaving:
                until = self._last - window.size
                while leaving[at] <= until:  # usually one event leaves per arrival
                    at += 1
                window.at = at
            elif (gone := count - window.spare) > at:
                at = gone
            shown = window.folds[at]
            if right is not None:
                shown = self._combine(shown, right)
            if self._lower is not None:
                shown = self._lower(shown)
            window.shown, window.seen = shown, count
        return shown if self.show is None else self.show(shown)

    def query(
        self,
        which: Any = None,
        partial: bool = False,
        at: Any = None,
        time_unit: TimeUnit | None = None,
    ) -> Any:
        """Return the result of one window, of all, or of a policy; see ``SharedWindows.query``."""
        owner = self.owner
        if owner.busy:
            raise busy()
        if at is None and (found := self.found(which)) is not UNKNOWN:
            return found
        owner.busy = True
        try:
            with np.errstate(all="ignore"):
                if at is None:
                    return owner.query(which, partial)
                return owner.query_at(which, partial, at, time_unit)
        finally:
            owner.busy = False

    def found(self, which: Any) -> Any:
        """Return the result of ``query`` if known or prefetched, else UNKNOWN."""
        windows, result = self._windows, self.result
        if which is None:
            if not self._is_whole:
                return UNKNOWN
            return {name: result(each) for name, each in windows.items()}
        window = windows.get(which) if which.__class__ is str else None
        if window is None or not window.folds:
            return UNKNOWN
        return result(window)

    def _enter(self, window: Evictions, entering: Entering) -> None:
        """Add to a frame the events that are now old enough."""
        rows, stored, lift, right = self._rows, entering.count, self._lift, window.right
        stop = self._entered(entering)
        for at in range(entering.came, stop):
            row = entering.values[at] if at < stored else rows[at - stored]
            new = row if lift is None else lift(row)
            right = new if right is None else self._combine(right, new)
        window.right, entering.came = right, stop

    def _entered(self, entering: Entering) -> int:
        """Return how many events are now in a frame."""
        at, stored, delay = entering.came, entering.count, entering.delay
        stop = stored + len(self._rows) - entering.rows
        if not delay:  # no time is later than the newest time
            return max(at, stop)
        times, until = entering.times, self._last - delay
        while at < min(stop, stored) and times[at] <= until:
            at += 1
        if at >= stored:
            times = self._times
            while at < stop and times[at - stored] <= until:
                at += 1
        return at

    def note(self, fold: Partial) -> None:
        """Record the aggregate of the only window while nothing is prefetched."""
        self._only = Evictions([fold])
        self._windows = {"": self._only}

    def evict(self) -> bool:
        """Remove the oldest event of the only window if that is prefetched; return whether it was.

        Not with allowed lateness, because late events must not read what a caller evicts.
        """
        if self.intake.allowed_lateness:
            return False
        if not (self._has_evictions() or (self._renew() and self._has_evictions())):
            return False
        self._evict()
        return True

    def write_back(self) -> None:
        """Send the new events and the evictions to the log. No store call."""
        if self._held:
            with np.errstate(all="ignore"):
                self._sync()
            self._rows.clear()
            self._times.clear()
            self._most = _FEW
            self._reset()
        elif self._windows:
            self._windows, self._only = {}, None

    def length(self) -> int | None:
        """Return the number of events in the only window; None if nothing is prefetched."""
        if not self._held:
            return None
        window = self._only
        assert window is not None
        came, left, _ = self._moved(window)
        return self._length + came - left

    # --- prefetched data ------------------------------------------------------------------------

    def _may_come(self, micros: float) -> bool:
        """Return whether an event at this time is accepted, prefetching again if necessary."""
        if self._skip:
            return False
        newest = self.intake.newest
        is_late = self.timed and newest is not None and micros < newest
        if is_late and not self._may_be_late(micros):
            return False
        if is_late and micros < self._bound and len(self._rows) < self._room:
            return True
        if not self._renew():
            return False
        return (self._late_from if is_late else self._last) <= micros < self._bound

    def _may_be_late(self, micros: float) -> bool:
        """Return whether an event older than the newest one can be added without the log."""
        newest, lateness = self.intake.newest, self.intake.allowed_lateness or 0
        return newest is not None and max(self._late_from, newest - lateness) <= micros

    def _stays(self, new: Partial, asked: Asked) -> bool:
        """Add an event if it evicts nothing under a policy on an aggregate; return whether it did.

        Nothing is evicted while the front and the observed value are the same as when nothing was
        evicted. The combine for this check also serves the query.
        """
        window, combine = self._only, self._combine
        assert window is not None
        right = new if window.right is None else combine(window.right, new)
        fold = combine(window.folds[0], right)
        if asked.total(fold) != self._kept:
            return False
        window.right = right
        window.shown = fold if self._lower is None else self._lower(fold)
        window.seen = len(self._rows) + 1
        self._misses = 0
        return True

    @property
    def _is_waiting(self) -> bool:
        """Whether there are events that the log has not received."""
        return bool(self._rows)

    def _renew(self) -> bool:
        """Prefetch again; return whether an event can be added."""
        most = min(2 * self._most, MANY)
        self.write_back()
        self._most = most
        last = self.intake.newest if self.timed else 0.0
        if not self._usual or last is None or not -EXACT < last < EXACT:
            return False
        if self._asked is not None:
            self._kept = self._asked.stays()
            if self._kept is None:
                return False
        try:
            with np.errstate(all="ignore"):
                ahead = self.owner.ahead(most)
        except Exception:  # the general path raises the error for an event that needs the data
            return False
        if ahead is None:
            return False
        windows, last = ahead.windows.values(), float(last)
        self._length = sum(window.length for window in windows)
        room = min([ahead.room, most, *(window.room(most) for window in windows)])
        bound = min([EXACT, *(window.bound(last) for window in windows)])
        if room <= 0 or bound == -inf:
            return False
        self._held, self._room = True, room
        self._last, self._bound, self._late_from = last, bound, ahead.late_from
        self._load(ahead)
        return True

    def _load(self, ahead: Ahead) -> None:
        """Load the prefetched data as lists."""
        listed = self._monoid.partials.listed
        self._windows = {
            name: Evictions(listed(window.found.folds), window)
            for name, window in ahead.windows.items()
        }
        for name, window in ahead.windows.items():
            if (lag := window.found.lag) is not None:
                # Rows without columns have no list.
                values = self._monoid.inputs.listed(lag.waiting.rows) or [()] * lag.waiting.size
                self._windows[name].entering = Entering(lag, values)
        asked = [window for window in self._windows.values() if window.folds]
        self._live = [window for window in asked if window.entering is None]
        self._first = self._live[0] if self._live else None
        for live, following in pairwise(self._live):
            live.next = following
        self._is_whole = ahead.is_whole and len(asked) == len(self._windows)
        self._only = self._windows.get("")

    def _has_evictions(self) -> bool:
        """Return whether an eviction is prefetched."""
        if not self._held:
            return False
        window = self._only
        assert window is not None
        return window.gone(len(self._rows), self._last) < len(window.folds) - 1

    def _evict(self) -> None:
        window = self._only
        assert window is not None
        window.at, window.seen = window.gone(len(self._rows), self._last) + 1, -1

    def _sync(self) -> None:
        """Write events and evictions back to the log."""
        count = len(self._rows)
        moved = {name: self._moved(window) for name, window in self._windows.items()}
        if count or any(each.left for each in moved.values()):
            times = packed(self._times, "<f8").astype("<i8") if self.timed else None
            new = Events(self._monoid.inputs.gathered(self._rows), times, count)
            self.owner.write_back(new, moved)

    def _moved(self, window: Evictions) -> Moved:
        """Return how a window has changed until now."""
        came, entering = len(self._rows), window.entering
        left = window.gone(came, self._last)
        if entering is None:
            return Moved(came, left, window.right)
        try:
            self._enter(window, entering)
        except Exception:  # a request for the result raises the error
            return Moved(self._entered(entering), left, None)
        return Moved(entering.came, left, window.right)


def _no_event(_value: Any, _micros: float) -> None:
    """Add no event: under a policy on an aggregate, each event needs ``insert``."""


def _shown(lower: Callable[[Partial], Any]) -> Callable[[Partial], Any]:
    """Return a function that computes a result as a copy, for results other than plain numbers."""
    return lambda fold: plain(lower(fold))
