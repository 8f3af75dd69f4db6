"""Single events: their data is prefetched, and the log receives them in groups.

``SingleEvents`` has the events that the log has not received, and the stack of each window
(``stack``). Nearly every event is only combined with one aggregate per window, for any log and any
windows. When the prefetched data is used up, or when the log is read, ``write_back`` sends the log
the new events and the evictions. A numpy call takes longer than everything else that an event
needs, so one call serves many events.

Late events are processed in the same way, unless they are older than the log's last leaf. If the
aggregate depends on order, ``late`` has the folds, and a late event must be among the newest stored
events. All other events use the general path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from itertools import pairwise, takewhile
from math import inf
from typing import Any, NamedTuple, Protocol

import numpy as np

from mta.columns.codec import ALWAYS_PLAIN
from mta.columns.reading import plain
from mta.columns.schemas import Row, packed
from mta.evaluators.observed import Searched
from mta.folds.sliding import Events
from mta.monoids.base import AbstractMonoid, Monoid, Partial, same_value
from mta.monoids.product import Product
from mta.times import MICROSECONDS, TimeUnit, to_time
from mta.windows.intake import Intake, busy
from mta.windows.late import LateEvents
from mta.windows.stack import (
    EXACT,
    MOST,
    Acceptance,
    CompiledStacks,
    Movement,
    Stack,
    WaitingEvents,
    WindowAhead,
)

#: The numbers of events to prefetch: few at first, because a program may read the log after every
#: event.
_FEW = 16
#: Under a frame on an aggregate that changes with every event, the most events that use the
#: general path before an event tries the fast path again.
_MOST_MISSES = 63
#: Marks an unknown result; an enumeration member stays identical in copies.
UNKNOWN: Any = Enum("_Shown", "UNKNOWN").UNKNOWN  # type: ignore[attr-defined]
#: The sum of a time and ``UNIT`` has no bits for fractions.
SECOND, UNIT = float(MICROSECONDS), 1.5 * 2.0**52


#: Stands for a window whose stack is in a lane.
_NATIVE = Stack([])


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

    def take_in(self, new: Events, moved: dict[str, Movement]) -> None:
        """Add the events that arrived and evict those that left. No store call."""

    def insert(self, value: Any, time: Any) -> None:
        """Add an event on the general path, which supports every window and value."""

    def accept(self, row: Row, micros: int | None) -> None:
        """Add an event on the general path that was read already, and is not late."""

    def query(self, which: Any, partial: bool) -> Any:
        """Return results on the general path, which supports every window."""

    def query_at(self, which: Any, partial: bool, at: Any, unit: TimeUnit | None) -> Any:
        """Return results at a moment, or at each of many."""


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


class SingleEvents:
    """Single events that arrived, before the log receives them."""

    # Python finds slots faster than the attributes of a large object.
    __slots__ = (
        "_append",
        "_append_time",
        "_asked",
        "_bound",
        "_combine",
        "_double",
        "_ends",
        "_first",
        "_held",
        "_kept",
        "_last",
        "_late",
        "_late_from",
        "_length",
        "_lift",
        "_live",
        "_lower",
        "_misses",
        "_monoid",
        "_most",
        "_only",
        "_pick",
        "_reader",
        "_room",
        "_rows",
        "_skip",
        "_times", "_turns",
        "_usual",
        "_windows",
        "event",
        "intake",
        "is_loaded",
        "is_native",
        "is_whole",
        "lanes",
        "owner",
        "show",
        "shown",
        "timed",
    )  # fmt: skip

    def __init__(
        self, owner: Owner, usual: bool, paged: bool, asked: Searched | None = None
    ) -> None:
        monoid = self._monoid = owner.monoid
        self._combine = monoid.combine
        self.owner, self.intake, self.timed = owner, owner.intake, owner.timed
        #: Adds an event of a value and a time, and returns the result after it, or UNKNOWN before
        #: it is requested; None, with nothing changed, if the event needs ``insert``.
        self.event: Callable[[Any, float], Any] = self._event if asked is None else _no_event
        #: The result after the newest event, if known; for multiple windows in lanes, a
        #: dictionary (``CompiledStacks.event``).
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
        #: The compiled stacks, if they support the monoid, and whether they are in use.
        #: ``is_whole`` is whether all windows are prefetched.
        self.lanes = CompiledStacks.of(monoid) if self._usual and asked is None else None
        self.is_native = False
        #: Extracts the columns of an event for a product.
        self._pick = monoid.picks_doubles if isinstance(monoid, Product) else None
        self._reader = Reader(monoid, paged)
        #: ``float`` if a double is a valid row, unless it is NaN.
        self._double: type[float] | None = None
        #: A frame on an aggregate, and the observed value for which nothing is evicted.
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
        self._held = self.is_loaded = self.is_whole = self.is_native = False
        self._windows: dict[str, Stack] = {}
        #: The window, if there is only one.
        self._only: Stack | None = None
        #: The windows that events enter on arrival. Each also has a reference to the next one,
        #: because Python follows references faster than a list.
        self._live: list[Stack] = []
        self._first: Stack | None = None
        #: How many events can arrive and the time that they must precede, before a stack turns and
        #: in total; the newest time, and the time from which on events can arrive in any order.
        self._room, self._last, self._bound, self._late_from = 0.0, -inf, -inf, inf
        self._ends = 0, -inf
        #: Whether a stack of these windows may turn.
        self._turns = False
        #: The folds that late events change, after the first late event if order matters.
        self._late: LateEvents | None = None
        self.shown = UNKNOWN
        if self._asked is None:
            self.event = self._event

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

    def _event_of_product(self, value: Any, micros: float) -> Any:
        """Add an event whose columns are all doubles to the lanes of a product's parts."""
        assert self._pick is not None and self.lanes is not None
        try:
            row = self._pick(value)
        except (KeyError, TypeError, IndexError):
            return None
        return None if row is None else self.lanes.event(row, micros)

    def insert(self, value: Any, time: Any) -> None:
        """Add an event that ``event`` did not add: another type, late, or beyond what is loaded."""
        owner = self.owner
        owner.busy = True
        try:
            if value.__class__ is self._double and value == value:
                row: Row | None = value
            else:
                row = self._reader.read(value)
            micros = 0.0
            if row is not None and self.timed:
                micros = -inf if time is None else float(to_time(time))
            if row is None or not self._takes(row, micros):
                self._insert_otherwise(value, time, row, micros)
        finally:
            owner.busy = False

    def _takes(self, row: Row, micros: float) -> bool:
        """Add an event, after prefetching again if need be; return whether that is possible."""
        if self.is_native and self._adds_to_lanes(row, micros):
            return True
        if not (self._accepts(micros) or self._may_come(micros)):
            return False
        if self.is_native:
            return self._adds_to_lanes(row, micros)
        try:
            new = row if self._lift is None else self._lift(row)
            if not self._add(new, micros):
                return False
        except Exception:  # the general path raises it again, if it needs what failed
            return False
        self._append(row)
        self.shown = UNKNOWN
        if self.timed:
            self._append_time(micros)
            if micros > self._last:
                self.intake.newest = self._last = micros
        if self._turns:
            self._limit()
        return True

    def _accepts(self, micros: float) -> bool:
        """Return whether an event in order is within what is prefetched."""
        room, bound = self._ends
        if self.is_native or len(self._rows) >= room:  # the lanes have refused it
            return False
        return not self.timed or self._last <= micros < bound

    def _adds_to_lanes(self, row: Row, micros: float) -> bool:
        assert self.lanes is not None
        shown = self.lanes.event(row, micros)
        if shown is None:
            return False
        self.shown = shown
        if self.timed and (self.intake.newest is None or micros > self.intake.newest):
            self.intake.newest = micros
        return True

    def _add(self, new: Partial, micros: float) -> bool:
        """Add an event to all aggregates, among the newest events if it is late.

        Return False, with nothing changed, if a frame on an aggregate would evict something.
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
        turns = self._turned_by(new, micros) if self._turns else []
        for window, right in zip(windows, rights, strict=True):
            window.right = right
        for turn in turns:
            turn()
        return True

    def _turned_by(self, new: Partial, micros: float) -> list[Callable[[], None]]:
        """Return calls that turn the stacks whose folds are used up as an event arrives."""
        count, turning = len(self._rows), []
        for window in self._live:
            if window.turns and window.gone(count + 1, micros) >= len(window.folds):
                turning.append(window)
        arguments = new, micros, self._rows, self._times, self._monoid
        found = [window.turned_by(*arguments) for window in turning]
        return [turn for turn in found if turn is not None]

    def _limit(self) -> None:
        """Set the limits of the fast path, up to which no stack turns."""
        room, bound = self._ends
        limits = [window.limits(self._times, self._last) for window in self._live]
        self._room = min([room, *(limit for limit, _ in limits)])
        self._bound = min([bound, *(limit for _, limit in limits)])

    def _undo(self, failed: Stack | None, error: BaseException) -> None:
        """Remove an event from the windows before the window whose combine failed.

        The general path then raises the same error again. Raises an interruption, such as
        KeyboardInterrupt, immediately.
        """
        if failed is not None:
            for window in takewhile(lambda each: each is not failed, self._live):
                window.right = window.older
        if not isinstance(error, Exception):
            raise error

    def _late_events(self, windows: Sequence[Stack]) -> LateEvents:
        """Create the folds for late events of these windows. At most one page read per level."""
        recents = [window.recent for window in windows if window.recent is not None]
        before = [recent.before() for recent in recents]
        self._late = LateEvents(self._monoid, recents[0].events, before)
        return self._late

    def _insert_otherwise(self, value: Any, time: Any, row: Row | None, micros: float) -> None:
        """Add an event on the general path, which reads it again if it may be invalid or late."""
        if self._asked is not None:
            if self._skip:
                self._skip -= 1
            else:
                self._misses, self._skip = min(2 * self._misses + 1, _MOST_MISSES), self._misses
        # Prefetched data was useful so far, so prefetch as much again unless this event changes it.
        most = _FEW if self.is_waiting else self._most
        newest, is_known = self.intake.newest, self._usual and not self.intake.unproven
        if self.timed:
            is_known &= newest is not None and newest <= micros < EXACT
        with np.errstate(all="ignore"):
            if is_known and row is not None:
                self.owner.accept(row, int(micros) if self.timed else None)
            else:
                self.owner.insert(value, time)
        self._most = most
        self._reader.learn(not self.intake.unproven)
        self._double = float if self._usual and self._reader.doubles else None

    def result(self, window: Stack | None = None) -> Any:
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
            at, leaving, right, folds = window.at, window.leaving, window.right, window.folds
            if not window.by_count:
                until = self._last - window.size
                while leaving[at] <= until:  # usually one event leaves per arrival
                    at += 1
                window.at = at
            elif (gone := count - window.spare) > at:
                at = gone
            if at == len(folds):
                shown = right
            else:
                shown = folds[at] if right is None else self._combine(folds[at], right)
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
        """Return the result of one window, of all, or of a frame; see ``SharedWindows.query``."""
        owner = self.owner
        if owner.busy:
            raise busy(owner)
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
        windows = self._windows
        if which is None:
            if not self.is_whole:
                return UNKNOWN
            if self.is_native:
                return self._native_results()
            return {name: self.result(each) for name, each in windows.items()}
        window = windows.get(which) if which.__class__ is str else None
        if window is None:
            return UNKNOWN
        if not (self.is_native or window.asked):
            return UNKNOWN
        if self.is_native:
            return self._native_results()[which]
        return self.result(window)

    def _native_results(self) -> dict[str, Any]:
        """Return the results of the lanes, for the first request at most one combine each."""
        lanes, combine, lower = self.lanes, self._combine, self._lower
        assert lanes is not None
        if self.shown is UNKNOWN:
            pairs = lanes.aggregates()
            folds = [right if left is None else combine(left, right) for left, right in pairs]
            found = folds if lower is None else list(map(lower, folds))
            self.shown = found[0] if len(found) == 1 else lanes.keyed(found)
        return self.results_in_lanes()

    def results_in_lanes(self) -> dict[str, Any]:
        """Return the known results of the lanes by window, as objects of the caller."""
        assert self.lanes is not None
        if len(self._windows) > 1:
            return self.shown.copy() if self._pick is None else self.lanes.results(self.shown)
        shown = self.shown if self.show is None else self.show(self.shown)
        return dict.fromkeys(self._windows, shown)

    def _enter(self, window: Stack, entering: WaitingEvents) -> None:
        """Add to a frame the events that are now old enough."""
        rows, stored, lift, right = self._rows, entering.count, self._lift, window.right
        stop = entering.entered(len(rows), self._times, self._last)
        for at in range(entering.came, stop):
            row = entering.values[at] if at < stored else rows[at - stored]
            new = row if lift is None else lift(row)
            right = new if right is None else self._combine(right, new)
        window.right, entering.came = right, stop

    def note(self, name: str, fold: Partial) -> None:
        """Record the aggregate of the only window while nothing is prefetched."""
        self._only = Stack([fold])
        self._windows, self.is_loaded = {name: self._only}, True

    def evict(self) -> bool:
        """Remove the oldest event of the only window if that is prefetched; return whether it was.

        Not with allowed lateness, because late events must not read what a caller evicts.
        """
        if self.intake.lateness:
            return False
        return self._evict() or (self._renew() and self._evict())

    def write_back(self) -> None:
        """Send the new events and the evictions to the log. No store call."""
        if not self.is_loaded:
            return
        if self._held:
            with np.errstate(all="ignore"):
                self._sync()
            self._rows.clear()
            self._times.clear()
            self._most = _FEW
            self._reset()
        else:
            self._windows, self._only, self.shown = {}, None, UNKNOWN
            self.is_loaded = False

    def length(self) -> int | None:
        """Return the number of events in the only window; None if nothing is prefetched."""
        if not self._held:
            return None
        ((_, moved),) = self._moved()
        return self._length + moved.came - moved.left

    # --- prefetched data ------------------------------------------------------------------------

    def _may_come(self, micros: float) -> bool:
        """Return whether an event at this time is accepted, prefetching again if necessary."""
        if self._skip:
            return False
        newest = self.intake.newest
        is_late = self.timed and newest is not None and micros < newest
        if is_late and not self._may_be_late(micros):
            return False
        room, bound = self._ends
        if not self.is_native and is_late and micros < bound and len(self._rows) < room:
            return True
        if not self._renew():
            return False
        return (self._late_from if is_late else self._last) <= micros < self._ends[1]

    def _may_be_late(self, micros: float) -> bool:
        """Return whether an event older than the newest one can be added without the log."""
        newest, lateness = self.intake.newest, self.intake.lateness or 0
        return newest is not None and max(self._late_from, newest - lateness) <= micros

    def _stays(self, new: Partial, asked: Searched) -> bool:
        """Add an event if it evicts nothing under a frame on an aggregate; return whether it did.

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
    def is_waiting(self) -> bool:
        """Whether there are events that the log has not received."""
        if self.is_native:
            assert self.lanes is not None
            return self.lanes.came > 0
        return bool(self._rows)

    def _renew(self) -> bool:
        """Prefetch again; return whether an event can be added."""
        most = min(2 * self._most, MOST)
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
        self._held = self.is_loaded = True
        self._ends = room, bound
        self._last, self._late_from, self.is_whole = last, ahead.late_from, ahead.is_whole
        self._load(ahead)
        return True

    def _load(self, ahead: Ahead) -> None:
        """Load the prefetched data of all windows: into lanes if possible, else as lists."""
        (room, bound), lanes = self._ends, self.lanes
        if (
            lanes is not None
            and all(w.found.size for w in ahead.windows.values())
            and ahead.windows
        ):
            lateness = float(self.intake.lateness or 0)
            last = self._last if self.timed else -EXACT
            lanes.load(ahead.windows, Acceptance(room, last, bound, ahead.late_from, lateness))
            self._windows, self.is_native = dict.fromkeys(ahead.windows, _NATIVE), True
            adds = self._event_of_product if self._pick else lanes.event
            self.event = lanes.only or adds
            return
        listed = self._monoid.partials.listed
        self._windows = {
            name: Stack(listed(window.found.folds, window.found.size), window)
            for name, window in ahead.windows.items()
        }
        for name, window in ahead.windows.items():
            if (lag := window.found.lag) is not None:
                values = self._monoid.inputs.listed(lag.waiting.rows, lag.waiting.size)
                self._windows[name].entering = WaitingEvents(lag, values)
        asked = [window for window in self._windows.values() if window.asked]
        self.is_whole = ahead.is_whole and len(asked) == len(self._windows)
        self._live = [window for window in asked if window.entering is None]
        self._first = self._live[0] if self._live else None
        for live, following in pairwise(self._live):
            live.next = following
        self._only = self._windows.get("")
        self._turns = any(window.turns for window in self._live)
        self._limit()

    def _evict(self) -> bool:
        """Evict the oldest event of the only window if that is prefetched; return whether."""
        if not self._held:
            return False
        self.shown = UNKNOWN
        if self.is_native:
            assert self.lanes is not None
            return self.lanes.evict()
        window = self._only
        assert window is not None
        gone = window.gone(len(self._rows), self._last)
        if gone >= len(window.folds) - 1:
            return False
        window.at, window.seen = gone + 1, -1
        return True

    def _sync(self) -> None:
        """Write events and evictions back to the log."""
        moved = dict(self._moved())
        if self.is_native:
            assert self.lanes is not None
            count, rows, times = self.lanes.came, self.lanes.values(), self.lanes.times()
        else:
            count, times = len(self._rows), packed(self._times, "<f8")
            rows = self._monoid.inputs.gathered(self._rows)
        if count or any(each.left for each in moved.values()):
            new = Events(rows, times.astype("<i8") if self.timed else None, count)
            self.owner.take_in(new, moved)

    def _moved(self) -> Iterator[tuple[str, Movement]]:
        """Yield how each window has changed until now."""
        if self.is_native:
            assert self.lanes is not None
            yield from self.lanes.moved()
            return
        for name, window in self._windows.items():
            came, entering, right = len(self._rows), window.entering, window.right
            left = window.left + window.gone(came, self._last)
            if entering is not None:
                try:
                    self._enter(window, entering)
                    came, right = entering.came, window.right
                except Exception:  # a request for the result raises the error
                    came, right = entering.entered(came, self._times, self._last), None
            yield name, Movement(came, left, right)


def _no_event(_value: Any, _micros: float) -> None:
    """Add no event: under a frame on an aggregate, each event needs ``insert``."""


def _shown(lower: Callable[[Partial], Any]) -> Callable[[Partial], Any]:
    """Return a function that computes a result as a copy, for results other than plain numbers."""
    return lambda fold: plain(lower(fold))
