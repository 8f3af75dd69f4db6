"""Single events: their data is prefetched, and the log receives them in groups.

``SingleEvents`` adds events to the stacks of all windows (``stack``, ``compiled``), which also have
the events that the log has not received. Nearly every event is only combined with one aggregate per
window, for any log and any windows. When the prefetched data is used up, or when the log is read,
``write_back`` sends the log the new events and the evictions. A numpy call takes longer than
everything else that an event needs, so one call serves many events.

Late events are processed in the same way, unless they are older than the log's last leaf. If the
aggregate depends on order, ``late`` has the folds, and a late event must be among the newest stored
events. All other events use the general path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import inf
from typing import Any, NamedTuple, Protocol

import numpy as np

from mta.columns.codec import ALWAYS_PLAIN
from mta.columns.reading import plain
from mta.columns.schemas import Row
from mta.evaluators.cursor import Cursor
from mta.evaluators.observed import Searched
from mta.folds.sliding import Events
from mta.frames.base import Frame
from mta.frames.windows import CountWindow, TimeWindow
from mta.logs.base import EventLog
from mta.monoids.base import AbstractMonoid, Monoid, Partial, same_value
from mta.times import MICROSECONDS, TimeUnit, to_time
from mta.windows.compiled import CompiledStacks
from mta.windows.intake import Intake, busy
from mta.windows.stack import (
    EXACT,
    MOST,
    UNKNOWN,
    Acceptance,
    Movement,
    PlainStacks,
    WindowAhead,
)

#: The windows whose single events are prefetched.
USUAL = (CountWindow, TimeWindow)
#: The numbers of events to prefetch: few at first, because a program may read the log after every
#: event.
_FEW = 16
#: Under a frame on an aggregate that changes with every event, the most events that use the
#: general path before an event tries the fast path again.
_MOST_MISSES = 63
#: The sum of a time and ``UNIT`` has no bits for fractions.
SECOND, UNIT = float(MICROSECONDS), 1.5 * 2.0**52


class Ahead(NamedTuple):
    """The prefetched data of the windows over one log."""

    windows: dict[str, WindowAhead]
    room: int
    """How many events can arrive."""
    late_from: float = inf
    """Events from this time on can arrive in any order."""
    is_whole: bool = True
    """Whether ``windows`` has all windows."""


def prefetched(
    log: EventLog, windows: Mapping[str, Cursor], is_whole: bool, most: int,
    asked: Searched | None, lateness: int | None,
) -> Ahead | None:  # fmt: skip
    """Return the data of windows over a log for at most ``most`` single events.

    ``is_whole`` says whether these are all its windows; ``asked`` is what a frame on an aggregate
    observes. None if a window needs its log for each event. At most one page read per level and
    window.
    """
    sizes = [_size_of(window.frame, asked) for window in windows.values()]
    if None in sizes:
        return None
    newest = _newest(log, windows.values(), lateness) if log.by_time else None
    found, room, late_from = {}, min(log.spare, most), -inf
    for (name, window), size in zip(windows.items(), sizes, strict=True):
        data = window.for_singles(most, room, log.setting.timed, newest)
        if data is None or size is None:
            return None
        by_count = type(window.frame) is not TimeWindow
        found[name] = WindowAhead(size, by_count, len(window), data)
        room, late_from = min(room, data.room), max(late_from, data.late_from)
    return Ahead(found, room, late_from if found else inf, is_whole)


def _size_of(frame: Frame, asked: Searched | None) -> int | None:
    """Return the size of a window whose single events are prefetched; None for others."""
    if type(frame) is CountWindow:
        return frame.size
    if type(frame) is TimeWindow:
        return frame.lifetime or 0
    return None if asked is None else asked.size


def _newest(log: EventLog, windows: Iterable[Cursor], lateness: int | None) -> Events | None:
    """Return the newest events, which late events may precede; usually without a page read."""
    usual = [window for window in windows if not window.frame.lags]
    held = [w for w in usual if w.is_held or (w.own_log is not None and len(w))]
    for cursor in held if lateness else ():
        cursor.prepare_ahead()
    return log.newest(min(map(len, held), default=log.back))


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

    __slots__ = (
        "_kinds",
        "_monoid",
        "_numbers",
        "_paged",
        "_pick",
        "_text",
        "doubles",
        "is_proven",
    )

    def __init__(self, monoid: AbstractMonoid, paged: bool) -> None:
        self._monoid, self._paged = monoid, paged
        self._numbers = monoid.is_plain and monoid.inputs.plain
        self._pick = monoid.picks_doubles
        self.learn(proven=False)

    def learn(self, proven: bool) -> None:
        """Set whether partials are known to be pageable; partials of numbers always are."""
        self.is_proven = proven
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
        "_asked", "_late_from", "_length", "_misses", "_most", "_plain", "_reader", "_skip",
        "_usual", "compiled", "event", "intake", "is_loaded", "is_native", "is_whole", "owner",
        "result", "show", "shown", "stacks", "timed",
    )  # fmt: skip

    def __init__(
        self, owner: Owner, usual: bool, paged: bool, asked: Searched | None = None
    ) -> None:
        monoid = owner.monoid
        self.owner, self.intake, self.timed = owner, owner.intake, owner.timed
        #: The result after the newest event, if known; for multiple windows in compiled stacks, a
        #: dictionary (``CompiledStacks.add``).
        self.shown: Any = UNKNOWN
        numbers = monoid.is_plain and monoid.inputs.plain and owner.main.is_columnar
        bare = isinstance(monoid, Monoid) and monoid.is_bare
        #: Converts an aggregate to a result. ``show`` converts that result again for every query,
        #: so that no caller gets an object that another caller may have changed.
        lower: Callable[[Partial], Any] | None = None
        self.show: Callable[[Any], Any] | None = None
        if not (numbers or bare):
            self.show = _shown(monoid.lower)
        elif monoid.lower is not same_value:
            lower = monoid.lower
            self.show = dict.copy if owner.main.names_results else None
        #: Whether anything can be prefetched.
        self._usual = monoid.is_plain and usual
        self._reader = Reader(monoid, paged)
        #: A frame on an aggregate.
        self._asked = asked
        self._plain = PlainStacks(owner, self._reader, lower, self.show, asked)
        #: The compiled stacks, if they support the monoid.
        self.compiled = CompiledStacks.of(monoid) if self._usual and asked is None else None
        #: The number of successive misses, and of events that skip the fast path.
        self._misses = self._skip = 0
        self._most = _FEW
        self._reset()

    def _reset(self) -> None:
        """Discard prefetched data."""
        #: The stacks in use: plain or compiled ones.
        self.stacks: PlainStacks | CompiledStacks = self._plain
        self._plain.clear()
        #: Whether there is prefetched data, and whether all windows have some.
        self.is_loaded = self.is_whole = self.is_native = False
        #: From this time on, events can arrive in any order.
        self._late_from = inf
        #: The number of events in the windows when they were prefetched.
        self._length = 0
        self.shown = UNKNOWN
        #: Adds an event of a value and a time, and returns the result after it, or UNKNOWN before
        #: it is requested; None, with nothing changed, if the event needs ``insert``.
        self.event: Callable[[Any, float], Any] = _no_event
        #: Returns the result of the only window.
        self.result: Callable[[], Any] = self._result_otherwise

    # --- the interface for windows --------------------------------------------------------------

    def insert(self, value: Any, time: Any) -> None:
        """Add an event that ``event`` did not add: another type, late, or beyond what is loaded."""
        owner, plain = self.owner, self._plain
        owner.busy = True
        try:
            if value.__class__ is plain.double and value == value:
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
        shown = self.stacks.add(row, micros) if self.is_loaded else None
        if shown is None and self._may_come(micros) and self._renew():
            shown = self.stacks.add(row, micros)
        if shown is None or shown is False:
            return False
        self.shown, self._misses = shown, 0
        if self.timed and (self.intake.newest is None or micros > self.intake.newest):
            self.intake.newest = int(micros)
        return True

    def _may_come(self, micros: float) -> bool:
        """Return whether an event may be added after prefetching again."""
        newest, lateness = self.intake.newest, self.intake.lateness or 0
        if self._skip or not self.timed or newest is None or newest <= micros:
            return not self._skip
        return max(self._late_from, newest - lateness) <= micros

    def _insert_otherwise(self, value: Any, time: Any, row: Row | None, micros: float) -> None:
        """Add an event on the general path, which reads it again if it may be invalid or late."""
        if self._asked is not None:
            if self._skip:
                self._skip -= 1
            else:
                self._misses, self._skip = min(2 * self._misses + 1, _MOST_MISSES), self._misses
        # Prefetched data was useful so far, so prefetch as much again unless this event changes it.
        most = _FEW if self.stacks.came else self._most
        newest, is_known = self.intake.newest, self._usual and not self.intake.unproven
        if self.timed:
            is_known &= newest is not None and -EXACT < micros < EXACT and newest <= micros
        with np.errstate(all="ignore"):
            if is_known and row is not None:
                self.owner.accept(row, int(micros) if self.timed else None)
            else:
                self.owner.insert(value, time)
        self._most = most
        if not (self._reader.is_proven or self.intake.unproven):
            self._reader.learn(proven=True)
            self._plain.double = float if self._usual and self._reader.doubles else None

    def _result_otherwise(self) -> Any:
        return self.query("")

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
        if which is None:
            is_known = self.is_whole
        else:
            is_known = which.__class__ is str and which in self.stacks.windows
        if not is_known:
            return UNKNOWN
        if self.is_native:
            assert self.compiled is not None
            if self.shown is UNKNOWN:
                self.shown = self.compiled.computed()
            found = self.compiled.results(self.shown)
            return found if which is None else found[which]
        plain = self._plain
        if which is None:
            return {name: plain.result(each) for name, each in plain.windows.items()}
        window = plain.windows[which]
        return plain.result(window) if window.asked else UNKNOWN

    def evict(self) -> bool:
        """Remove the oldest event of the only window if that is prefetched; return whether it was.

        Not with allowed lateness, because late events must not read what a caller evicts.
        """
        if self.intake.lateness:
            return False
        return self._evict() or (self._renew() and self._evict())

    def _evict(self) -> bool:
        self.shown = UNKNOWN
        return self.is_loaded and self.stacks.evict()

    def write_back(self) -> None:
        """Send the new events and the evictions to the log. No store call."""
        if self.is_loaded:
            with np.errstate(all="ignore"):
                self._send()
            self._most = _FEW

    def _send(self) -> None:
        stacks = self.stacks
        moved, count = dict(stacks.moved()), stacks.came
        if count or any(each.left for each in moved.values()):
            rows, times = stacks.events()
            new = Events(rows, times.astype("<i8") if self.timed else None, count)
            self.owner.take_in(new, moved)
        self._reset()

    def length(self) -> int | None:
        """Return the number of events in the only window; None if nothing is prefetched."""
        if not self.is_loaded:
            return None
        ((_, moved),) = self.stacks.moved()
        return self._length + moved.came - moved.left

    # --- prefetched data ------------------------------------------------------------------------

    @np.errstate(all="ignore")
    def _renew(self) -> bool:
        """Prefetch again; return whether an event can be added."""
        most = min(2 * self._most, MOST)
        if self.is_loaded:
            self._send()
        self._most = most
        last = self.intake.newest if self.timed else 0
        if not self._usual or last is None or not -EXACT < last < EXACT:
            return False
        if self._asked is not None:
            self._plain.kept = self._asked.stays()
            if self._plain.kept is None:
                return False
        try:
            ahead = self.owner.ahead(most)
        except Exception:  # the general path raises the error for an event that needs the data
            return False
        if ahead is None:
            return False
        windows = ahead.windows.values()
        room = min([ahead.room, most, *(window.room(most) for window in windows)])
        bound = min([EXACT, *(window.bound(float(last)) for window in windows)])
        if room <= 0 or bound == -inf:
            return False
        lateness, newest = float(self.intake.lateness or 0), float(last) if self.timed else -EXACT
        self._load(ahead, Acceptance(room, newest, bound, ahead.late_from, lateness))
        return True

    def _load(self, ahead: Ahead, accepted: Acceptance) -> None:
        """Load the prefetched data of all windows, into compiled stacks if possible."""
        windows, compiled = ahead.windows, self.compiled
        self._length = sum(window.length for window in windows.values())
        self._late_from, self.is_loaded = ahead.late_from, True
        has_folds = all(window.found.size for window in windows.values())
        if compiled is not None and windows and has_folds:
            self.stacks, self.is_native = compiled, True
        self.stacks.load(windows, accepted)
        self.is_whole = ahead.is_whole and (self.is_native or has_folds)
        if self._asked is None:
            self.event = self.stacks.event
        if self._plain.only is not None:
            self.result = self._plain.result


def _no_event(_value: Any, _micros: float) -> None:
    """Add no event: each needs ``insert``, as nothing is prefetched, or a frame must look at it."""


def _shown(lower: Callable[[Partial], Any]) -> Callable[[Partial], Any]:
    """Return a function that computes a result as a copy, for results other than plain numbers."""
    return lambda fold: plain(lower(fold))
